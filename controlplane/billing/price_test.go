package billing

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// written is a state to which resources are written at times.
type written struct {
	t    *testing.T
	view *state.View
}

func begin(t *testing.T) *written {
	w := &written{t, state.Empty()}
	w.do(at(0), &statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c"}}})
	w.do(at(0), &statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: state.Format}}})
	return w
}

func (w *written) do(now time.Time, c *statepb.Command) {
	w.t.Helper()
	c.Format, c.AtUnixMs = state.Format, now.UnixMilli()
	next, out, err := state.Apply(w.view, w.view.Index()+1, c)
	if err != nil || out.GetCode() != "" {
		w.t.Fatal(err, out)
	}
	w.view = next
}

func (w *written) put(now time.Time, kind policy.Kind, name, spec string) {
	w.t.Helper()
	doc, err := yaml.YAMLToJSON([]byte("spec: " + spec))
	if err != nil {
		w.t.Fatal(err)
	}
	p := &statepb.Put{Kind: string(kind), Name: name, Doc: doc}
	if r, there := w.view.Get(kind, name); there {
		p.IfRevision = r.Metadata.Revision
	}
	w.do(now, &statepb.Command{Op: &statepb.Command_Put{Put: p}})
}

func (w *written) remove(now time.Time, kind policy.Kind, name string) {
	w.t.Helper()
	w.do(now, &statepb.Command{Op: &statepb.Command_Delete{Delete: &statepb.Delete{Kind: string(kind), Name: name}}})
}

// Usage is told seconds after its minute, and perhaps hours: it costs what it did when the minute began, and of what
// came only then what it does since.
func TestUsageCostsWhatItDidInItsMinute(t *testing.T) {
	w := begin(t)
	provider := func(name, models string) string {
		return "{type: provider, region: us, models: " + models + ", url: 'https://" + name + "', credentialsFile: /k}"
	}
	w.put(at(0), policy.KindRegion, "us", "{}")
	w.put(at(0), policy.KindRegion, "eu", "{}")
	w.put(at(0), policy.KindModel, "m", "{outputWeight: 2}")
	w.put(at(0), policy.KindCluster, "p", provider("p", "[m]"))
	w.put(at(0), policy.KindRateCard, "r", "{models: [{model: m, inputPerMTok: 1, outputPerMTok: 1}], egress: [{from: us, usdPerGB: 1}]}")
	minute := at(time.Hour)
	w.put(minute.Add(10*time.Second), policy.KindModel, "other", "{outputWeight: 7}")
	w.put(minute.Add(20*time.Second), policy.KindModel, "m", "{outputWeight: 5}")
	w.put(minute.Add(30*time.Second), policy.KindRateCard, "r", "{models: [{model: m, inputPerMTok: 9, outputPerMTok: 9}, {model: other, inputPerMTok: 4, outputPerMTok: 4}], egress: [{from: us, usdPerGB: 9}]}")
	w.put(minute.Add(40*time.Second), policy.KindCluster, "q", provider("q", "[m, other]"))
	w.remove(minute.Add(50*time.Second), policy.KindCluster, "p")
	for _, tt := range []struct {
		when           time.Time
		cluster, model string
		cost, work     int64
		egress         int64
		region         string
	}{
		{minute, "p", "m", 1_000_000, 2_000_000_000, 1_000_000, "us"}, // as it was, and where it was
		{minute, "q", "m", 1_000_000, 2_000_000_000, 1_000_000, "us"},
		{minute, "q", "other", 4_000_000, 7_000_000_000, 1_000_000, "us"},
		{minute.Add(time.Minute), "q", "m", 9_000_000, 5_000_000_000, 9_000_000, "us"},
		{minute.Add(time.Minute), "p", "m", 0, 5_000_000_000, 0, ""}, // what has gone has no place any more
	} {
		got := Price(w.view, tt.when, []costmodel.Line{{
			Model: fleet.ModelID(tt.model), Cluster: fleet.ClusterID(tt.cluster), Source: "eu", Usage: costmodel.Usage{Output: 1_000_000, Bytes: 1_000_000_000},
		}}).GetLines()
		if len(got) != 1 || got[0].GetCostMicros() != tt.cost || got[0].GetWork() != tt.work || got[0].GetEgressMicros() != tt.egress || got[0].GetRegion() != tt.region {
			t.Errorf("%s on %s at %s: %v", tt.model, tt.cluster, tt.when, got)
		}
	}
}

// After an outage each minute is billed with what was configured then, and none for want of a price that is in force
// since a later time only.
func TestAnOutageIsBilledWithWhatWasConfiguredThen(t *testing.T) {
	w := begin(t)
	w.put(at(0), policy.KindRegion, "us", "{}")
	w.put(at(0), policy.KindModel, "m", "{}")
	spec := "{region: us, models: [m], endpoints: [{id: e, url: 'http://a:1', class: h100}], gpus: [{class: h100, count: 2, purchase: spot}]}"
	w.put(at(0), policy.KindCluster, "a", spec)
	w.put(at(2*time.Hour+5*time.Second), policy.KindCluster, "b", strings.Replace(spec, "//a", "//b", 1))
	w.do(at(2*time.Hour+6*time.Second), &statepb.Command{Op: &statepb.Command_PutPrices{PutPrices: &statepb.PutPrices{Sources: []*statepb.PriceSource{{
		Name: "aws spot", Standing: "good", Offers: []*statepb.PriceOffer{{
			Class: "h100", Region: "us", Purchase: "spot", Gpus: 1, MicrosPerHour: 60_000_000, Origin: uint32(costmodel.Live), FromUnixMs: at(time.Hour).UnixMilli(),
		}},
	}}}}})
	due := func(from, now time.Duration) []*statepb.MinuteBills {
		return Close(Due{Account: closedAt(t, at(from)), Held: Held(w.view), Capacity: never, Now: at(now)}).GetMinutes()
	}
	for _, m := range due(10*time.Minute, 2*time.Hour+time.Minute) {
		if len(m.GetBills()) != 1 || m.GetBills()[0].GetUnpriced() || m.GetBills()[0].GetCostMicros() != 2_000_000 {
			t.Fatalf("minute %v", m)
		}
	}
	if got := due(2*time.Hour, 2*time.Hour+2*time.Minute+Grace); len(got) != 2 || len(got[0].GetBills()) != 1 || len(got[1].GetBills()) != 2 {
		t.Errorf("b is billed from the next minute on: %v", got)
	}
}
