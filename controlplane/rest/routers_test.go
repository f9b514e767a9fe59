package rest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
)

// join makes a router known, with the table that it holds and its answer to the last.
func (d *double) join(id, region string, applied uint64, ack *routerpb.Ack) {
	d.signals.Put(signal.Observation{
		Node: "n1", Connected: true, Received: epoch, Ack: ack,
		Hello:  &routerpb.Hello{RouterId: id, Region: region, Version: "v9"},
		Report: &routerpb.Report{AtUnixMs: 1, Applied: &routerpb.TableRef{ClusterId: "c-1", Epoch: 1, Revision: applied}},
	})
}

func TestRoutersAndWhatTheySaidOfTables(t *testing.T) {
	d := peopled(t) // the table is revision 8, and r-us holds it
	refused := &routerpb.Ack{Table: &routerpb.TableRef{Epoch: 1, Revision: 8}, Code: "weights_sum", Field: "weights[0]", Message: "shares sum to 2, want 1"}
	d.join("r-eu", "eu", 7, refused)
	d.join("r-ap", "ap", 7, &routerpb.Ack{Table: &routerpb.TableRef{Epoch: 1, Revision: 8}, Ok: true})
	d.advance(2 * time.Second)
	var page List[Router]
	a := d.do("viewer", "GET", "/v1/routers", "").want(200, "")
	a.into(&page)
	if len(page.Items) != 3 || page.NextCursor != "" || a.header.Get("X-Staleness-Ms") != "250" {
		t.Fatalf("got %+v", page)
	}
	ap, eu, us := page.Items[0], page.Items[1], page.Items[2]
	if ap.ID != "r-ap" || ap.Behind || ap.AppliedRevision != 8 || ap.Answer == nil || *ap.Answer != (TableAnswer{Epoch: 1, Revision: 8, Taken: true}) {
		t.Errorf("r-ap %+v", ap)
	}
	if want := (TableAnswer{Epoch: 1, Revision: 8, Code: "weights_sum", Field: "weights[0]", Message: "shares sum to 2, want 1"}); eu.Answer == nil || *eu.Answer != want ||
		!eu.Behind || eu.AppliedRevision != 7 || eu.Region != "eu" || eu.Node != "n1" || !eu.Connected || eu.AgeMs != 2000 || eu.Version != "v9" {
		t.Errorf("r-eu %+v, %+v", eu, eu.Answer)
	}
	if eu.QuotaStoreOK || eu.DegradedLimits != 0 || !us.QuotaStoreOK {
		t.Errorf("quota stores: %+v, %+v", eu, us)
	}
	if us.ID != "r-us" || us.Behind || us.Answer != nil {
		t.Errorf("r-us %+v", us)
	}
	d.do("viewer", "GET", "/v1/routers?region=eu", "").want(200, "").into(&page)
	if len(page.Items) != 1 || page.Items[0].ID != "r-eu" {
		t.Errorf("of eu: %+v", page.Items)
	}
	d.failing(fmt.Errorf("no leader"))
	d.do("viewer", "GET", "/v1/routers", "").want(200, "") // it is local by nature
}

func TestRoutersTellHowManyLimitsTheyKeepByThemselves(t *testing.T) {
	d := newDouble(t)
	d.signals.Put(signal.Observation{
		Node: "n1", Connected: true, Received: epoch, Hello: &routerpb.Hello{RouterId: "r", Region: "us"},
		Report: &routerpb.Report{AtUnixMs: 1, Quotas: []*routerpb.QuotaSignal{{Limit: "a", Degraded: true}, {Limit: "b"}, {Limit: "c", Degraded: true}}},
	})
	var page List[Router]
	d.do("viewer", "GET", "/v1/routers", "").want(200, "").into(&page)
	if len(page.Items) != 1 || page.Items[0].DegradedLimits != 2 || page.Items[0].QuotaStoreOK {
		t.Errorf("got %+v", page.Items)
	}
}

func TestTheOrderOfTablesIsByEpochThenRevision(t *testing.T) {
	ref := func(epoch, revision uint64) *routerpb.TableRef {
		return &routerpb.TableRef{Epoch: epoch, Revision: revision}
	}
	tests := map[string]struct {
		a, b *routerpb.TableRef
		want bool
	}{
		"none before any":    {nil, ref(1, 1), true},
		"none and none":      {nil, nil, false},
		"the same":           {ref(1, 4), ref(1, 4), false},
		"an earlier one":     {ref(1, 3), ref(1, 4), true},
		"a later one":        {ref(1, 5), ref(1, 4), false},
		"of an epoch before": {ref(1, 9), ref(2, 4), true},
		"of an epoch after":  {ref(2, 4), ref(1, 9), false},
	}
	for name, tt := range tests {
		if got := earlier(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestRoutersComeInPages(t *testing.T) {
	d := newDouble(t)
	for i := range 7 {
		d.join(fmt.Sprint("r", i), []string{"us", "eu"}[i%2], 1, nil)
	}
	var got []string
	next := ""
	for range 5 {
		var page List[Router]
		d.do("viewer", "GET", "/v1/routers?region=us&limit=2&cursor="+next, "").want(200, "").into(&page)
		for _, r := range page.Items {
			got = append(got, string(r.ID))
		}
		if next = page.NextCursor; next == "" {
			break
		}
	}
	if want := []string{"r0", "r2", "r4", "r6"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, bad := range []string{"limit=0", "cursor=x", "region=Not%20One"} {
		d.do("viewer", "GET", "/v1/routers?"+bad, "").want(400, "invalid_request")
	}
	d.do("", "GET", "/v1/routers", "").want(401, "unauthenticated")
}
