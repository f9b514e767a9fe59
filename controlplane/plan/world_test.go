package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/costmodel"
	"anabranch/failover"
	"anabranch/failover/shift"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// shelf is a Lookup that sorts as the state does.
type shelf []*policy.Resource

func (s shelf) List(kind policy.Kind) []*policy.Resource {
	var out []*policy.Resource
	for _, r := range s {
		if r.Kind == kind {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *policy.Resource) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	return out
}

// bench is a fleet under test: what operators wrote, what routers reported, and the table in force.
type bench struct {
	t       testing.TB
	written shelf
	signals *signal.Store
	health  map[failover.Place]failover.Cluster
	table   *routerpb.Table
	reasons map[string]string
	now     time.Time
	warm    bool
	frozen  bool
	// offers of sources, and when they last changed.
	offers []costmodel.Offer
	found  uint64
	// fleet by region: demand in work/s by model, capacity by cluster.
	demand   map[string]map[string]float64
	capacity map[string]float64
	// perRequest is the work of one request, by which their number is told; 0: it is not.
	perRequest float64
	// tiers are the parts of all demand by priority; nil: routers don't tell.
	tiers map[int32]float64
	// congestion as the plan before found it.
	congestion map[fleet.ClusterID]float64
	// cold is what is measured of caches; nil: nothing.
	cold func(fleet.ModelID) (shift.Cold, bool)
}

// emptyBench has nothing yet.
func emptyBench(t testing.TB) *bench {
	b := &bench{
		t: t, now: noon, warm: true, reasons: map[string]string{},
		health: map[failover.Place]failover.Cluster{},
		demand: map[string]map[string]float64{}, capacity: map[string]float64{},
	}
	b.signals = signal.New(func() time.Time { return b.now })
	return b
}

// newBench has regions us, eu and ap, 80 to 160 ms apart, with two clusters of 10,000 and 5,000
// work/s each, all serving model "m".
func newBench(t testing.TB) *bench {
	b := emptyBench(t)
	b.write("Region", "us", "zone: us\n  peerURLs: [https://us:1]\n  rttMs: {eu: 80, ap: 160}")
	b.write("Region", "eu", "zone: eu\n  peerURLs: [https://eu:1]\n  rttMs: {ap: 120}")
	b.write("Region", "ap", "zone: ap\n  peerURLs: [https://ap:1]")
	b.write("Model", "m", "adapters: [lora]")
	for _, region := range []string{"us", "eu", "ap"} {
		b.cluster(region+"-a", region, 10_000)
		b.cluster(region+"-b", region, 5_000)
	}
	return b
}

// write puts a resource by its spec in YAML.
func (b *bench) write(kind, name, spec string) {
	b.t.Helper()
	doc := fmt.Sprintf("apiVersion: anabranch/v1\nkind: %s\nmetadata: {name: %s}\nspec:\n  %s\n", kind, name, spec)
	r, problems := policy.Parse([]byte(doc))
	if len(problems) > 0 {
		b.t.Fatalf("%s: %+v", doc, problems)
	}
	r.Metadata.Revision = b.table.GetRef().GetRevision() + 1
	b.remove(kind, name)
	b.written = append(b.written, r)
}

func (b *bench) remove(kind, name string) {
	b.written = slices.DeleteFunc(b.written, func(r *policy.Resource) bool {
		return string(r.Kind) == kind && r.Metadata.Name == name
	})
}

func (b *bench) cluster(name, region string, capacity float64, more ...string) {
	b.t.Helper()
	b.write("Cluster", name, fmt.Sprintf("region: %s\n  models: [m]\n  endpoints: [{id: e1, url: \"http://%s:1\", class: h100}]\n  %s",
		region, name, strings.Join(more, "\n  ")))
	b.capacity[name] = capacity
}

// report makes every region's router report what bench.demand and bench.capacity say, so often
// that the smoothing has settled.
func (b *bench) report() {
	for range 100 {
		b.now = b.now.Add(time.Second)
		for _, region := range []string{"us", "eu", "ap"} {
			b.reportFrom(region)
		}
	}
}

func (b *bench) reportFrom(region string) {
	r := &routerpb.Report{AtUnixMs: b.now.UnixMilli(), WindowMs: 1000, QuotaStoreOk: true}
	for _, c := range b.written.List(policy.KindCluster) {
		spec := c.Spec.(*policy.ClusterSpec)
		for _, m := range spec.Models {
			work := 0.0
			for source := range b.demand {
				if source == region || spec.Region == region {
					work += b.demand[source][m] * sharesOf(b.table, m, source)[c.Metadata.Name]
				}
			}
			if spec.Region != region {
				r.Clusters = append(r.Clusters, &routerpb.ClusterSignal{Cluster: c.Metadata.Name, Model: m, AgeMs: -1, LoadWork: work})
				continue
			}
			r.Clusters = append(r.Clusters, &routerpb.ClusterSignal{
				Cluster: c.Metadata.Name, Model: m, Scraped: true, EndpointsTotal: 1, EndpointsReady: 1,
				CapacityWork: b.capacity[c.Metadata.Name], LoadWork: work,
			})
		}
	}
	for model, work := range b.demand[region] {
		d := &routerpb.DemandSignal{Model: model, Class: "interactive", WorkPerS: work}
		if b.perRequest > 0 {
			d.RequestsPerS = work / b.perRequest
		}
		for priority, part := range b.tiers {
			d.Tiers = append(d.Tiers, &routerpb.TierWork{Priority: priority, WorkPerS: part * work})
		}
		r.Demand = append(r.Demand, d)
	}
	b.signals.Put(signal.Observation{
		Node: "n1", Hello: &routerpb.Hello{RouterId: "r-" + region, Region: region},
		Report: r, Received: b.now, Connected: true,
	})
}

// ask sets the demand of a region for model m in work/s.
func (b *bench) ask(region string, work float64) { b.demand[region] = map[string]float64{"m": work} }

// at is model m on a cluster.
func at(cluster string) failover.Place {
	return failover.Place{Cluster: fleet.ClusterID(cluster), Model: "m"}
}

func (b *bench) state(cluster string, s failover.State, share float64) {
	b.health[at(cluster)] = failover.Cluster{State: s, Share: share, Reason: "told so"}
}

// plan computes, and puts the table in force when it has changed.
func (b *bench) plan() Output {
	b.t.Helper()
	out := Compute(Input{
		Resources: b.written, Signals: b.signals.Snapshot(b.now), Previous: b.table,
		Health: b.health, Now: b.now, Warm: b.warm, Frozen: b.frozen, Prices: b.offers, PricesRevision: b.found,
		Congestion: b.congestion, Cold: b.cold,
	})
	b.congestion = out.Congestion
	check(b.t, b.written, b.health, out)
	for _, r := range out.Reasons {
		b.reasons[r.GetModel()+"/"+r.GetClass()+"/"+r.GetSource()] = r.GetText()
	}
	if out.Changed {
		revision := b.table.GetRef().GetRevision() + 10
		b.table = out.Table
		b.table.Ref = &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: revision}
	}
	return out
}

// shares are the weights in force for model m from a region.
func (b *bench) shares(source string) map[string]float64 { return sharesOf(b.table, "m", source) }

func sharesOf(t *routerpb.Table, model, source string) map[string]float64 {
	return sharesIn(t, model, "interactive", source)
}

func sharesIn(t *routerpb.Table, model, class, source string) map[string]float64 {
	out := map[string]float64{}
	for _, w := range t.GetWeights() {
		if w.GetModel() == model && w.GetClass() == class && w.GetSource() == source {
			for _, c := range w.GetClusters() {
				out[c.GetCluster()] = c.GetWeight()
			}
		}
	}
	return out
}

// region sums shares by region, which cluster names begin with.
func region(shares map[string]float64, name string) float64 {
	sum := 0.0
	for c, w := range shares {
		if strings.HasPrefix(c, name+"-") {
			sum += w
		}
	}
	return sum
}

// failing is what *testing.T and *rapid.T have in common.
type failing interface {
	Helper()
	Fatalf(format string, args ...any)
}

// check is what holds of every plan.
func check(t failing, written shelf, health map[failover.Place]failover.Cluster, out Output) {
	t.Helper()
	if out.Table == nil {
		return
	}
	if len(out.Reasons) != len(out.Table.GetWeights()) {
		t.Fatalf("%d reasons for %d lists of weights", len(out.Reasons), len(out.Table.GetWeights()))
	}
	usable := func(c string) bool {
		for _, r := range written.List(policy.KindCluster) {
			if r.Metadata.Name == c {
				return !r.Spec.(*policy.ClusterSpec).Drained
			}
		}
		return false
	}
	for i, w := range out.Table.GetWeights() {
		if out.Reasons[i].GetText() == "" || out.Reasons[i].GetModel() != w.GetModel() || out.Reasons[i].GetSource() != w.GetSource() {
			t.Fatalf("reason %+v does not explain %v", out.Reasons[i], w)
		}
		if len(w.GetClusters()) == 0 {
			continue
		}
		sum, healthy := 0.0, 0.0
		for _, c := range w.GetClusters() {
			x := c.GetWeight()
			if !(x >= 0 && x <= 1) {
				t.Fatalf("%s has weight %v in %v", c.GetCluster(), x, w)
			}
			if c.GetReason() == "" {
				t.Fatalf("no reason for %v in %v", c, w)
			}
			if x > 0 && !usable(c.GetCluster()) {
				t.Fatalf("%s is drained and has weight %v", c.GetCluster(), x)
			}
			sum += x
			if failover.Of(health, failover.Place{Cluster: fleet.ClusterID(c.GetCluster()), Model: fleet.ModelID(w.GetModel())}).Cap() > 0 {
				healthy += x
			}
		}
		if sum < 1-1e-9 || sum > 1+1e-9 {
			t.Fatalf("weights sum to %v in %v", sum, w)
		}
		if healthy > 0 && healthy < 1-1e-9 {
			t.Fatalf("evacuated clusters have %v of %v", 1-healthy, w)
		}
	}
}
