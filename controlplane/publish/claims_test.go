package publish

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/state/statepb"
)

// spread puts a cluster into each of two regions, and a provider.
func (r *replica) spread() {
	r.t.Helper()
	for _, put := range []*statepb.Put{
		{Kind: "Region", Name: "us", Doc: []byte(`{"spec":{}}`)},
		{Kind: "Region", Name: "eu", Doc: []byte(`{"spec":{}}`)},
		{Kind: "Model", Name: "m", Doc: []byte(`{"spec":{}}`)},
		{Kind: "Cluster", Name: "us-a", Doc: []byte(`{"spec":{"region":"us","models":["m"],"gatewayURL":"http://us"}}`)},
		{Kind: "Cluster", Name: "eu-a", Doc: []byte(`{"spec":{"region":"eu","models":["m"],"gatewayURL":"http://eu"}}`)},
		{Kind: "Cluster", Name: "bought", Doc: []byte(`{"spec":{"region":"eu","type":"provider","models":["m"],"gatewayURL":"http://p"}}`)},
	} {
		r.apply(&statepb.Command{Op: &statepb.Command_Put{Put: put}})
	}
}

// full is a signal with something in every field.
func full(cluster string) *routerpb.ClusterSignal {
	return &routerpb.ClusterSignal{
		Cluster: cluster, Model: "m", Scraped: true, AgeMs: 100, EndpointsTotal: 4, EndpointsReady: 3, Waiting: 5, Running: 6, KvUsage: 0.7,
		Saturation: 0.8, CapacityWork: 900, LoadWork: 10, Requests: 11, Failures: 1, TtftP50Ms: 120, TtftP95Ms: 130, Ejected: true, EjectReason: "resets",
	}
}

func TestARouterSpeaksForItsOwnRegionOnly(t *testing.T) {
	r := newReplica(t)
	r.spread()
	onlyMet := &routerpb.ClusterSignal{
		Cluster: "eu-a", Model: "m", AgeMs: -1, LoadWork: 10, Requests: 11, Failures: 1, TtftP50Ms: 120, TtftP95Ms: 130, Ejected: true, EjectReason: "resets",
	}
	told := &routerpb.ClusterSignal{Cluster: "eu-a", Model: "m", AgeMs: -1, Saturation: 0.5, Requests: 2}
	for name, c := range map[string]struct {
		says, kept *routerpb.ClusterSignal
	}{
		"of its own region":                {full("us-a"), full("us-a")},
		"the load of another's":            {full("eu-a"), onlyMet},
		"what it met in another's":         {onlyMet, onlyMet},
		"what another's router told it":    {told, told},
		"of a provider":                    {full("bought"), full("bought")},
		"of what is not configured":        {full("gone"), full("gone")},
		"endpoints without a scrape":       {&routerpb.ClusterSignal{Cluster: "eu-a", Model: "m", EndpointsTotal: 3}, &routerpb.ClusterSignal{Cluster: "eu-a", Model: "m", AgeMs: -1}},
		"ready endpoints without a scrape": {&routerpb.ClusterSignal{Cluster: "eu-a", EndpointsReady: 3}, &routerpb.ClusterSignal{Cluster: "eu-a", AgeMs: -1}},
		"capacity without a scrape":        {&routerpb.ClusterSignal{Cluster: "eu-a", CapacityWork: 3}, &routerpb.ClusterSignal{Cluster: "eu-a", AgeMs: -1}},
	} {
		said := &routerpb.Report{
			AtUnixMs: 1, Applied: &routerpb.TableRef{Revision: 3}, Demand: []*routerpb.DemandSignal{{Model: "m"}}, InFlight: 4, QuotaStoreOk: true,
			Requests: 5, Failures: 6, WindowMs: 1000, Clusters: []*routerpb.ClusterSignal{full("us-a"), c.says, full("us-a")},
		}
		before, want := proto.CloneOf(said), proto.CloneOf(said)
		want.Clusters[1] = c.kept
		kept, struck := within(said, "us", r.View())
		wantStruck := 0
		if !proto.Equal(c.says, c.kept) {
			wantStruck = 1
		}
		if !proto.Equal(kept, want) || struck != wantStruck || !proto.Equal(said, before) {
			t.Errorf("%s: kept %v, %d struck", name, kept, struck)
		}
	}
}

func TestWhatARouterMayNotSayIsCountedAndLoggedOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := newRig(t, func(o *Options) { o.Registerer = registry })
	r.spread()
	x := r.join("r1", nil)
	for i := range int64(3) {
		x.say(&routerpb.FromRouter{Body: &routerpb.FromRouter_Report{Report: &routerpb.Report{
			AtUnixMs: i + 1, Clusters: []*routerpb.ClusterSignal{full("us-a"), full("eu-a")},
		}}})
	}
	eventually(t, "the last report is there", func() bool {
		o, ok := r.observed("r1")
		return ok && o.Report.GetAtUnixMs() == 3
	})
	o, _ := r.observed("r1")
	if c := o.Report.GetClusters(); !c[0].GetScraped() || c[1].GetScraped() || c[1].GetRequests() != 11 {
		t.Errorf("the signals are %v", c)
	}
	if n := testutil.ToFloat64(r.server.metrics.foreign); n != 3 {
		t.Errorf("%v were counted", n)
	}
	if n := strings.Count(r.logs.String(), "clusters of another region"); n != 1 {
		t.Errorf("it was logged %d times", n)
	}
}

func TestARouterSpeaksOfLimitsInForceOnly(t *testing.T) {
	said := func(pairs ...string) (out []*routerpb.QuotaSignal) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, &routerpb.QuotaSignal{Organisation: pairs[i], Limit: pairs[i+1], Held: int64(i)})
		}
		return out
	}
	table := &routerpb.Table{Quotas: []*routerpb.Quota{{Id: "q/requests", Organisation: "acme"}, {Id: "q/money", Organisation: "acme"}, {Id: "g/requests", Organisation: "globex"}}}
	for name, c := range map[string]struct {
		table *routerpb.Table
		says  []*routerpb.QuotaSignal
		kept  []*routerpb.QuotaSignal
	}{
		"all in force":       {table, said("acme", "q/requests", "globex", "g/requests"), said("acme", "q/requests", "globex", "g/requests")},
		"nothing":            {table, nil, nil},
		"made up":            {table, append(said("acme", "q/requests"), said("acme", "z/requests")...), said("acme", "q/requests")},
		"of somebody else":   {table, said("globex", "q/requests"), nil},
		"more than there is": {table, said("acme", "q/money", "acme", "q/money", "acme", "q/money", "acme", "q/money"), said("acme", "q/money", "acme", "q/money", "acme", "q/money")},
		"without a table":    {nil, said("acme", "q/requests"), nil},
	} {
		var cache limitCache
		cache.of(&routerpb.Table{Quotas: []*routerpb.Quota{{Id: "z/requests", Organisation: "acme"}}}) // of the table before
		r := &routerpb.Report{
			AtUnixMs: 1, Applied: &routerpb.TableRef{Revision: 3}, Demand: []*routerpb.DemandSignal{{Model: "m"}}, InFlight: 4, QuotaStoreOk: true,
			Requests: 5, Failures: 6, WindowMs: 1000, Clusters: []*routerpb.ClusterSignal{full("us-a")}, Quotas: c.says,
		}
		before, want := proto.CloneOf(r), proto.CloneOf(r)
		want.Quotas = c.kept
		if kept := cache.of(c.table).inForce(r); !proto.Equal(kept, want) || !proto.Equal(r, before) {
			t.Errorf("%s: kept %v", name, kept)
		}
	}
}

// A report that has to lose something of clusters keeps what it says of limits.
func TestLimitsComeThroughWithReports(t *testing.T) {
	r := newRig(t, nil)
	r.spread()
	r.apply(&statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: &routerpb.Table{
		Regions: []*routerpb.Region{{Id: "us"}}, Clusters: []*routerpb.Cluster{{Id: "c"}}, Models: []*routerpb.Model{{Id: "m"}},
		Quotas: []*routerpb.Quota{{Id: "q/requests", Tenant: "acme", Organisation: "acme"}},
	}}}})
	x := r.join("r1", nil)
	x.say(&routerpb.FromRouter{Body: &routerpb.FromRouter_Report{Report: &routerpb.Report{
		AtUnixMs: 1, WindowMs: 1000, Clusters: []*routerpb.ClusterSignal{full("eu-a")},
		Quotas: []*routerpb.QuotaSignal{{Organisation: "acme", Limit: "q/requests", Admitted: 7}, {Organisation: "acme", Limit: "q/other", Admitted: 9}},
	}}})
	eventually(t, "the limit is known", func() bool {
		all := r.signals.Snapshot(time.Now()).Limits("acme")
		return len(all) == 1 && all[0].ID == "q/requests" && all[0].Admitted == 7
	})
}
