package scenario

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/sim/bound"
	"anabranch/sim/report"
	"anabranch/sim/report/stat"
	"anabranch/sim/workload"
)

func TestFiguresOfProofsExist(t *testing.T) {
	for _, key := range slices.Concat(telling, falling) {
		if _, err := report.Lookup(key); err != nil {
			t.Error(err)
		}
	}
}

// madeUp is runs of a policy with the P99 given, under seeds 1, 2 and so on.
func madeUp(policy string, p99 ...float64) []report.Figures {
	var runs []report.Figures
	for i, v := range p99 {
		f := report.Figures{Policy: policy, Seed: uint64(i) + 1}
		f.TTFT = stat.Spread{Mean: 100, P50: 100, P90: 150, P95: 200, P99: stat.Number(v)}
		f.Latency = stat.Spread{Mean: 900, P50: 900, P90: 900, P95: 900, P99: 900}
		f.Throughput.Requests = 20
		runs = append(runs, f)
	}
	return runs
}

func proofOf(t *testing.T, v PlayedVariant) string {
	t.Helper()
	s := parse(t, small)
	var b bytes.Buffer
	if err := WriteProof(&b, []*Played{{Scenario: s, Variants: []PlayedVariant{v}}}, "anabranch sim proof"); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAProofSaysWhatDoesNotImprove(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, tt := range []struct {
		name string
		runs [][]report.Figures
		want string
	}{
		{
			"another is surely better",
			[][]report.Figures{madeUp(Ours, 300, 310, 305), madeUp("random", 400, 410, 420), madeUp("greedy", 200, 205, 210)},
			"- **small / slow**: TTFT P99 +49 % [+41, +57] against greedy",
		},
		{
			"the oracle doesn't count",
			[][]report.Figures{madeUp(Ours, 300, 310, 305), madeUp("random", 400, 410, 420), madeUp(Oracle, 200, 205, 210)},
			"- nothing was found",
		},
		{
			"by chance",
			[][]report.Figures{madeUp(Ours, 300, 500, 305), madeUp("random", 400, 310, 200)},
			"- nothing was found",
		},
		{
			"hardly worse",
			[][]report.Figures{madeUp(Ours, 300, 310, 305), madeUp("random", 295, 305, 300)},
			"- nothing was found",
		},
		{"ours did not run", [][]report.Figures{madeUp("random", 400, 410, 420)}, "- nothing was found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := proofOf(t, PlayedVariant{Name: "slow", Report: report.New("small/slow", slices.Concat(tt.runs...))})
			if !strings.Contains(text, tt.want) {
				t.Errorf("no %q in\n%s", tt.want, text)
			}
		})
	}
}

func TestAProofShowsWhatWasExpectedAndPlayed(t *testing.T) {
	e, err := ParseExpression("ours.ttftMs.p99 <= 0.5 best.ttftMs.p99")
	if err != nil {
		t.Fatal(err)
	}
	verdict := e.Eval([]string{Ours, "greedy"}, table{Ours: {"ttftMs.p99": 305}, "greedy": {"ttftMs.p99": 400}}.figure)
	text := proofOf(t, PlayedVariant{
		Name:     "slow",
		Report:   report.New("small/slow", slices.Concat(madeUp(Ours, 300, 310), madeUp("greedy", 400, 410))),
		Verdicts: []Judged{{Check: Check{That: "ours.ttftMs.p99 <= 0.5 best.ttftMs.p99", Why: "a hope"}, Verdict: verdict, Goal: true}},
		Found:    map[string]map[string]float64{"spill": {"threshold": 0.25}},
		Thinned:  0.01,
		Workload: workload.Stats{Requests: 1234, Span: 100 * time.Second, Rate: 12.34, CV: 1, Hit: 0.5},
	})
	for _, want := range []string{
		"```\nanabranch sim proof\n```",
		"| ✗ | small / slow | goal: `ours.ttftMs.p99 <= 0.5 best.ttftMs.p99` | 305 | 200 (greedy) | a hope |",
		"# small\n\nTwo pods and some prompts.",
		"## small / slow",
		"1234 requests in 1m40s, 12.3 a second",
		"would have 50 % of the prompts' tokens. Of the trace one request in 100 was used",
		"Searched for spill: threshold 0.25.",
		"| policy | TTFT P50, ms |",
		"| ours | 100 ±0 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestAProofSaysWhatOneFleetSaves(t *testing.T) {
	v := PlayedVariant{Report: report.New("", madeUp("ours", 500, 510)), Peak: bound.Peak{OwnHours: 12, FleetHours: 7.5}}
	if text := proofOf(t, v); !strings.Contains(text, "each need 12 pod-hours at the rate of prefill, one fleet for the busiest time of all 7.5 (-38 %).") {
		t.Error(text)
	}
	if v.Peak = (bound.Peak{}); v.PeakText() != "" {
		t.Errorf("of one region it says %q", v.PeakText())
	}
	s := parse(t, strings.Replace(small, "regions: [{region: us-east-1}]", "regions: [{region: us-east-1}, {region: eu-west-1}]", 1))
	played, err := s.Run(t.Context(), Options{Policies: []string{"random"}, Variants: []string{"slow"}, Seeds: 1})
	if err != nil {
		t.Fatal(err)
	}
	if p := played.Variants[0].Peak; !(p.OwnHours > 0 && p.FleetHours > 0 && p.FleetHours <= p.OwnHours) {
		t.Errorf("two regions need %+v", p)
	}
}
