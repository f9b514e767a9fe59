package publish

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
)

// organised is a table with all that routers of the first version don't know of.
func organised() *routerpb.Table {
	return &routerpb.Table{
		Ref: &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: 7}, CreatedUnixMs: 5, Region: "us",
		Regions:  []*routerpb.Region{{Id: "us", QuotaStore: &routerpb.QuotaStore{Addresses: []string{"a:1"}}}, {Id: "eu"}},
		Clusters: []*routerpb.Cluster{{Id: "u"}}, Models: []*routerpb.Model{{Id: "m"}}, Classes: []*routerpb.Class{{Id: "i"}},
		Weights: []*routerpb.Weights{{Model: "m"}}, Rules: []*routerpb.Rule{{Id: "p"}}, Drill: &routerpb.Drill{Id: 12},
		Tenants:       []*routerpb.Tenant{{Id: "acme", Organisation: "group"}, {Id: "solo"}},
		Organisations: []*routerpb.Organisation{{Id: "group"}, {Id: "solo"}},
		Quotas: []*routerpb.Quota{
			{Id: "plain", Organisation: "group", Tenant: "acme", Kind: "requests", Limit: 60, PeriodMs: 60_000, Burst: 6, Degraded: "open", Model: "m", Share: 0.5, Overrun: "cut"},
			{Id: "group", Organisation: "group", Kind: "requests", Limit: 60, PeriodMs: 60_000, Burst: 6},
			{Id: "shadow", Organisation: "group", Tenant: "acme", Kind: "requests", Limit: 60, PeriodMs: 60_000, Burst: 6, Shadow: true},
			{Id: "key", Organisation: "group", Tenant: "acme", Kind: "requests", Limit: 60, PeriodMs: 60_000, Burst: 6, KeySha256: [][]byte{{1}}},
			{Id: "slots", Organisation: "group", Tenant: "acme", Kind: "concurrent-requests", Limit: 5, Burst: 5},
			{Id: "money", Organisation: "group", Tenant: "acme", Kind: "money", Limit: 5, Burst: 5, Calendar: "day"},
		},
	}
}

func TestOlderRoutersGetWhatTheyCanCount(t *testing.T) {
	full := organised()
	got := plain(full)
	want := organised()
	want.Organisations, want.Regions[0].QuotaStore, want.Tenants[0].Organisation = nil, nil, ""
	want.Quotas = []*routerpb.Quota{{
		Id: "plain", Tenant: "acme", Kind: "requests", Limit: 60, PeriodMs: 60_000, Burst: 6, Degraded: "open", Model: "m", Share: 0.5,
	}}
	if !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !proto.Equal(full, organised()) {
		t.Error("the table was written to")
	}
	if plain(got) != got {
		t.Error("a table without organisations is made again")
	}
}

// A list of the table that a later version adds must not be lost on the way to routers of the first.
func TestPlainTablesLackNoList(t *testing.T) {
	var missing []string
	full, got := organised().ProtoReflect(), plain(organised()).ProtoReflect()
	for i := range full.Descriptor().Fields().Len() {
		if f := full.Descriptor().Fields().Get(i); full.Has(f) != got.Has(f) || !full.Has(f) {
			missing = append(missing, string(f.Name()))
		}
	}
	if strings.Join(missing, " ") != "organisations" {
		t.Errorf("not there: %v", missing)
	}
}

func TestRoutersSayWhetherTheyKnowOrganisations(t *testing.T) {
	s := &Server{o: Options{Now: time.Now}}
	for _, knows := range []bool{true, false} {
		hello := &routerpb.Hello{RouterId: "r", Region: "us"}
		if knows {
			hello.Features = []routerpb.Feature{routerpb.Feature_FEATURE_LEASES}
		}
		x := newSession(s, hello, nil)
		if got := x.form.apply(organised()); (len(got.GetOrganisations()) > 0) != knows || slices.ContainsFunc(got.GetQuotas(), func(q *routerpb.Quota) bool { return q.GetKind() == "money" }) != knows {
			t.Errorf("knows %v: %v", knows, got)
		}
	}
}

// Organisations reach routers by delta too, which makes all of the table or is refused.
func TestOrganisationsComeByDelta(t *testing.T) {
	r := newRig(t, nil)
	with := func(version int64) *routerpb.Table {
		w := world(0)
		w.Tenants = append(w.Tenants, &routerpb.Tenant{Id: "acme", Organisation: "group"})
		w.Organisations = []*routerpb.Organisation{{Id: "group", Epoch: 1, Version: version}}
		return w
	}
	r.commit(with(1))
	x := r.modern("r1", "us", nil)
	held := x.whole("")
	second := r.commit(with(2))
	if held = x.partly(held, ""); !proto.Equal(held, Slice(second, "us")) || held.GetOrganisations()[0].GetVersion() != 2 {
		t.Fatalf("got %v", held)
	}
}
