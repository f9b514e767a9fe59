package dataplane

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/route"
)

// muted is a world whose cluster of all the weight gives no answer to a tenant, and another that does.
func muted(t *testing.T, tenant string, change func(*routerpb.Table)) (w *world, bad, good *telling) {
	t.Helper()
	bad, good = newTelling(t, 0, 0), newTelling(t, 0, 0)
	good.does(answers)
	w = newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{bad.stub}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{good.stub}},
	}, func(pb *routerpb.Table) {
		paced(time.Minute, time.Minute)(pb)
		if change != nil {
			change(pb)
		}
	})
	w.mutes(bad.stub, "us-a", tenant)
	return w, bad, good
}

func TestAClusterThatAnswersNobodyIsShown(t *testing.T) {
	w, _, _ := muted(t, "acme", nil)
	n := w.routers[us]
	const metric = "router_cluster_unanswered{cluster="
	probe := func(want int) {
		t.Helper()
		res, err := n.peer.Client().Get(n.peer.URL + "/peer/probe?cluster=us-a")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("peers are told %d, want %d", res.StatusCode, want)
		}
	}
	n.shows(t, map[string]float64{metric + "us-a,to=one}": 1, metric + "us-a,to=all}": 0, metric + "us-b,to=one}": 0, "router_cluster_ejected{cluster=us-a}": 0})
	if s := w.status(us).Clusters; s[0].Unanswered == nil || s[0].Unanswered.To != "one" || s[0].Unanswered.Requests != 20 || s[0].Unanswered.TrialMs <= 0 || s[1].Unanswered != nil {
		t.Errorf("%+v", s)
	}
	probe(http.StatusOK)
	for range 3 {
		w.ask(us, "globex", askStream)
	}
	n.shows(t, map[string]float64{metric + "us-a,to=one}": 0, metric + "us-a,to=all}": 1, metric + "us-b,to=all}": 0})
	if s := w.status(us).Clusters[0].Unanswered; s == nil || s.To != "all" || s.Requests != 23 {
		t.Errorf("%+v", s)
	}
	probe(http.StatusServiceUnavailable)
	for _, s := range n.Report(time.Now()).Clusters {
		if s.Ejected != (s.Cluster == "us-a") || s.Ejected && !strings.Contains(s.EjectReason, "23 requests in a row") {
			t.Errorf("the control plane is told of %s: %v, %q", s.Cluster, s.Ejected, s.EjectReason)
		}
	}
}

// A member of another region is not judged so: its own router does that.
func TestAnotherRegionsClusterHasNoRow(t *testing.T) {
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}}, {id: "eu-a", region: eu, weight: 1, endpoints: []*stub{newStub(t, answers)}},
	}, nil)
	w.routers[us].shows(t, map[string]float64{
		"router_cluster_unanswered{cluster=us-a,to=all}": 0, "router_cluster_unanswered{cluster=eu-a,to=all}": absent,
	})
}

// The one place that is left has no room. That is an answer, and better than none.
func TestNoRoomIsBetterThanNoAnswer(t *testing.T) {
	w, bad, good := muted(t, "acme", nil)
	good.does(says(http.StatusTooManyRequests))
	before := bad.requests.Load()
	r := w.ask(us, "acme", askStream)
	if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || bad.requests.Load() != before {
		t.Errorf("%d, with %d more where nobody is answered", r.status, bad.requests.Load()-before)
	}
	good.Close()
	w.eventually("when that is found dead the other is tried", func() bool {
		w.ask(us, "acme", askStream)
		return bad.requests.Load() > before
	})
}

// A cluster that answers nobody looks idle. For a tenant that it does not answer that is no room.
func TestWhatLooksIdleAndAnswersNobodyIsNoRoom(t *testing.T) {
	w, bad, good := muted(t, "acme", func(pb *routerpb.Table) { pb.Classes[0].QueueMs, pb.Classes[0].FirstByteFloorMs = 300, 20_000 })
	good.tells(func() string {
		return "vllm:num_requests_waiting 900\nvllm:num_requests_running 256\nvllm:kv_cache_usage_perc 0.5\n"
	})
	w.run()
	w.scraped(us, "us-a")
	w.scraped(us, "us-b")
	full := func() bool { return w.routers[us].places.Cluster("us-b").Evidence(time.Now()).Saturation > 1 }
	w.eventually("it is full", full)
	before, others := bad.requests.Load(), good.requests.Load()
	r := w.ask(us, "acme", askStream)
	if rec := w.record(us, r); r.status < 429 || rec.QueuedMs < 250 || bad.requests.Load() != before || good.requests.Load() != others {
		t.Errorf("%d after %v ms in the queue; %d and %d more at the two", r.status, rec.QueuedMs, bad.requests.Load()-before, good.requests.Load()-others)
	}
	bad.does(answers)
	if r := w.ask(us, "globex", askStream); r.status != http.StatusOK || r.header.Get("X-Anabranch-Cluster") != "us-a" {
		t.Errorf("for another tenant: %d from %s", r.status, r.header.Get("X-Anabranch-Cluster"))
	}
	if r := w.ask(us, "acme", askStream); r.status != http.StatusOK {
		t.Errorf("once it answers again: %d", r.status)
	}
}

func TestNoCopiesGoWhereRequestsGoUnanswered(t *testing.T) {
	t.Run("of late requests", func(t *testing.T) {
		w, bad, good := muted(t, "acme", hedged(500, 1))
		good.does(func(rw http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(1500 * time.Millisecond):
				answers(rw, r)
			case <-r.Context().Done():
			}
		})
		before := bad.requests.Load()
		r := w.ask(us, "acme", askStream)
		if rec := w.record(us, r); r.status != http.StatusOK || len(rec.Attempts) != 1 || rec.Candidates[1].Reason != route.Unanswered || bad.requests.Load() != before {
			t.Errorf("%d by %s, of %+v", r.status, kinds(rec), rec.Candidates)
		}
	})
	t.Run("of traffic", func(t *testing.T) {
		w, bad, _ := muted(t, "acme", func(pb *routerpb.Table) {
			pb.Rules = []*routerpb.Rule{{
				Id: "p", Class: "interactive", Match: []*routerpb.Match{{Tenants: []string{"acme"}, Headers: []*routerpb.HeaderMatch{{Name: "x-copy", Value: "yes"}}}},
				Shadow: &routerpb.Shadow{Share: 1, Clusters: []string{"us-a"}},
			}}
		})
		before := bad.requests.Load()
		w.ask(us, "acme", askStream, "X-Copy", "yes")
		w.routers[us].shows(t, map[string]float64{"router_shadow_skipped_total{policy=p,reason=no_room}": 1})
		if got := bad.requests.Load() - before; got != 0 {
			t.Errorf("%d copies", got)
		}
	})
}
