package rest

import (
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state/statepb"
)

// The largest fleet that a console is made for.
const (
	manyRegions = 200
	manyRouters = 5000
	manyModels  = 2
)

// crowd is such a fleet: a cluster in each region, whose routers speak of it and of four others.
type crowd struct {
	*double
	*rand.Rand
	seconds int64
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	f := &crowd{newUnserved(t, func(o *Options) { o.FleetInterval = time.Second }), rand.New(rand.NewPCG(1, 2)), 0}
	do := func(cmd *statepb.Command) {
		if out := f.apply(cmd); out.GetCode() != "" {
			t.Fatal(out)
		}
	}
	put := func(kind policy.Kind, name, spec string) {
		do(&statepb.Command{Format: 1, AtUnixMs: epoch.UnixMilli(), Op: &statepb.Command_Put{Put: &statepb.Put{Kind: string(kind), Name: name, Doc: []byte(`{"spec":` + spec + `}`), AnyRevision: true}}})
	}
	models := `["m0","m1"]`
	for m := range manyModels {
		put(policy.KindModel, fmt.Sprintf("m%d", m), "{}")
	}
	table := &routerpb.Table{}
	for m := range manyModels {
		table.Models = append(table.Models, &routerpb.Model{Id: fmt.Sprintf("m%d", m)})
	}
	for r := range manyRegions {
		put(policy.KindRegion, region(r), `{"zone":"z"}`)
		put(policy.KindCluster, region(r)+"-a", `{"region":"`+region(r)+`","models":`+models+`,"endpoints":[{"id":"e","url":"http://`+region(r)+`","class":"h100"}]}`)
		table.Regions = append(table.Regions, &routerpb.Region{Id: region(r)})
		table.Clusters = append(table.Clusters, &routerpb.Cluster{Id: region(r) + "-a", Region: region(r), HealthCap: 1})
		for m := range manyModels {
			w := &routerpb.Weights{Model: fmt.Sprintf("m%d", m), Class: "interactive", Source: region(r)}
			for k := range 5 {
				w.Clusters = append(w.Clusters, &routerpb.ClusterWeight{Cluster: region(r+k) + "-a", Weight: 0.2})
			}
			table.Weights = append(table.Weights, w)
		}
	}
	do(&statepb.Command{Format: 1, AtUnixMs: epoch.UnixMilli(), Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: table}}})
	f.report()
	return f
}

func region(r int) string { return fmt.Sprintf("region-%03d", r%manyRegions) }

// report is what all routers say in a second: loads that wander by a few percent, as real ones do.
func (f *crowd) report() {
	f.seconds++
	f.advance(time.Second)
	now := f.now()
	for i := range manyRouters {
		home := i % manyRegions
		r := &routerpb.Report{AtUnixMs: now.UnixMilli(), Applied: &routerpb.TableRef{Epoch: 1, Revision: f.current().Table().GetRef().GetRevision()}, InFlight: 20 + f.Int64N(3), QuotaStoreOk: true, Requests: 100 + f.Uint64N(8), WindowMs: 1000}
		for k := range 5 {
			for m := range manyModels {
				r.Clusters = append(r.Clusters, &routerpb.ClusterSignal{
					Cluster: region(home+k) + "-a", Model: fmt.Sprintf("m%d", m), Scraped: k == 0, EndpointsTotal: 8, EndpointsReady: 8,
					Waiting: float64(f.IntN(5)), Running: 60 + float64(f.IntN(6)), KvUsage: 0.5 + 0.02*f.Float64(), Saturation: 0.6 + 0.02*f.Float64(),
					CapacityWork: 9000 + 100*f.Float64(), LoadWork: 5000 + 200*f.Float64(), Requests: 20 + f.Uint64N(4), TtftP50Ms: 150 + 10*f.Float64(), TtftP95Ms: 300 + 20*f.Float64(),
				})
			}
		}
		f.signals.Put(signal.Observation{
			Node: "n1", Connected: true, Received: now.Add(-time.Duration(f.IntN(1000)) * time.Millisecond),
			Hello: &routerpb.Hello{RouterId: fmt.Sprintf("%s-r%d", region(home), i/manyRegions), Region: region(home), Version: "v1"}, Report: r,
		})
	}
}

// TestAConsoleOfTheLargestFleetCostsLittle measures what streams of the fleet take at 200 regions and 5,000 routers.
func TestAConsoleOfTheLargestFleetCostsLittle(t *testing.T) {
	if os.Getenv("ANABRANCH_STRESS") == "" {
		t.Skip("with ANABRANCH_STRESS=1")
	}
	f := newCrowd(t)
	var feed liveFeed
	start := time.Now()
	whole, _, seq, err := feed.since(f.server, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the whole picture: %d bytes, %d compressed, made in %s", len(whole), packed(t, whole), time.Since(start).Round(time.Millisecond))
	var plain, made int
	var took, packing time.Duration
	sent := &counter{}
	z, err := gzip.NewWriterLevel(sent, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(whole); err != nil {
		t.Fatal(err)
	}
	if err := z.Flush(); err != nil {
		t.Fatal(err)
	}
	sent.n = 0
	const seconds = 20
	for range seconds {
		f.report()
		for tick := range fleetRate {
			if tick > 0 {
				f.advance(time.Second / (2 * fleetRate))
				f.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}) // something is decided
			}
			start := time.Now()
			_, patches, next, err := feed.since(f.server, seq)
			took += time.Since(start)
			if err != nil {
				t.Fatal(err)
			}
			seq = next
			for _, p := range patches {
				made++
				plain += len(p)
				start := time.Now()
				if _, err := z.Write(p); err != nil {
					t.Fatal(err)
				}
				if err := z.Flush(); err != nil {
					t.Fatal(err)
				}
				packing += time.Since(start)
			}
		}
	}
	t.Logf("%d patches in %d s: %d bytes/s plain, %d bytes/s compressed; in a second %s for all streams together, and %s for each to be compressed",
		made, seconds, plain/seconds, sent.n/seconds, (took / seconds).Round(time.Millisecond), (packing / seconds).Round(10*time.Microsecond))
	if made < seconds*fleetRate*9/10 {
		t.Errorf("only %d patches", made)
	}
	if perSecond := sent.n / seconds; perSecond > 50_000 {
		t.Errorf("a console costs %d bytes/s, want 50,000 at most", perSecond)
	}
}

type counter struct{ n int }

func (c *counter) Write(b []byte) (int, error) { c.n += len(b); return len(b), nil }

func packed(t *testing.T, b []byte) int {
	t.Helper()
	var c counter
	z := gzip.NewWriter(&c)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return c.n
}
