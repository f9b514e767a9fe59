package plan

import (
	"math"
	"testing"

	"anabranch/api/fleet"
	"anabranch/costmodel"
)

func TestBudgetsGoByWhatWasMeasuredWhereNoCardHasAPrice(t *testing.T) {
	b := newBench(t)
	b.write("Model", "m", "outputWeight: 4")
	b.write("Model", "own", "outputWeight: 2.5")
	b.write("Model", "idle", "outputWeight: 3")
	b.write("RateCard", "card", "models: [{model: m, inputPerMTok: 0.05, outputPerMTok: 0.08}]")
	for name, tt := range map[string]struct {
		measured      costmodel.Micros
		input, output uint64
	}{
		"nothing":               {0, 0, 0},
		"by work":               {1000, 1000, 2500},
		"rounded up":            {1, 1, 3},
		"nobody pays you":       {-5, 0, 0},
		"more than a card says": {math.MaxInt64, mostMeasured, mostMeasured},
	} {
		out := Compute(Input{
			Resources: b.written, Signals: b.signals.Snapshot(b.now), Now: b.now, Warm: true,
			Measured: map[fleet.ModelID]costmodel.Micros{"m": 7, "own": tt.measured},
		})
		for _, m := range out.Table.GetModels() {
			input, output := map[string]uint64{"m": 50_000, "own": tt.input}[m.GetId()], map[string]uint64{"m": 80_000, "own": tt.output}[m.GetId()]
			if m.GetInputMicrosPerMtok() != input || m.GetOutputMicrosPerMtok() != output {
				t.Errorf("%s: %s costs %d and %d", name, m.GetId(), m.GetInputMicrosPerMtok(), m.GetOutputMicrosPerMtok())
			}
		}
	}
}
