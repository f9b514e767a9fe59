package dataplane

import (
	"net/http"
	"testing"

	"anabranch/dataplane/dispatch"
)

// A tenant can ask for any path, and not every model server has every API. That none knows it is no
// fault of theirs, nor of the router's.
func TestWhatNoPlaceKnowsIsTheClientsMistake(t *testing.T) {
	bad := []*stub{newStub(t, says(404)), newStub(t, says(404)), newStub(t, says(404))}
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 0, endpoints: []*stub{newStub(t, says(404))}},
		{id: "eu-a", region: eu, weight: 1, endpoints: bad},
	}, nil)
	n := w.routers[eu]
	asked := int64(0)
	for _, path := range []string{"/v1/nothing", "/v1/responses", "/v1/messages", "/v1/chat/completions"} {
		r := w.get(http.MethodPost, n.front.URL+path, "initech", `{"model":"llama"}`) // which may not leave
		if e := r.problem(t); r.status != 404 || e["code"] != "unknown_url" || e["type"] != "invalid_request_error" || e["origin"] != "endpoint" {
			t.Errorf("%s: %d %v", path, r.status, e)
		}
		sum := int64(0)
		for _, s := range bad {
			sum += s.requests.Load()
		}
		if sum -= asked; sum != 2 {
			t.Errorf("%s: %d places were asked", path, sum)
		}
		asked += sum
	}
	r := w.get(http.MethodPost, w.routers[us].front.URL+"/v1/responses", "acme", `{"model":"llama"}`)
	if e := r.problem(t); r.status != 404 || e["type"] != "invalid_request_error" || e["origin"] != "endpoint" {
		t.Errorf("by way of a peer: %d %v", r.status, e)
	}
	w.idle()
	if n.failed.Load() != 0 {
		t.Error("it counts as the router's failure")
	}
	if dead, why := n.places.Cluster("eu-a").Ejected(); dead {
		t.Errorf("the cluster is ejected: %s", why)
	}
}

func TestAnotherClusterMayKnowWhatOneDoesNot(t *testing.T) {
	bad := []*stub{newStub(t, says(404)), newStub(t, says(404))}
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: bad},
		{id: "us-b", region: us, weight: 0, endpoints: []*stub{newStub(t, answers)}},
	}, nil)
	r := w.get(http.MethodPost, w.routers[us].front.URL+"/v1/responses", "acme", `{"model":"llama"}`)
	if r.status != 200 || r.header.Get("X-Anabranch-Cluster") != "us-b" {
		t.Errorf("%d %q", r.status, r.body)
	}
	if got := bad[0].requests.Load() + bad[1].requests.Load(); got != 1 {
		t.Errorf("%d requests at the cluster that does not know it", got)
	}
}

// An adapter that is not loaded is a 404 too, and may be loaded at the third place.
func TestAnAdapterIsLookedForFurther(t *testing.T) {
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, says(404)), newStub(t, says(404)), newStub(t, answers)}},
	}, nil)
	for range 10 {
		if r := w.ask(us, "acme", `{"model":"legal","messages":[]}`); r.status != 200 {
			t.Errorf("%d %q", r.status, r.body)
		}
	}
}

// A path that nobody knows costs places next to nothing, and tenants nothing of the others' retries.
func TestUnknownPathsSpendNoRetries(t *testing.T) {
	w, first, second := pair(t, nil)
	first.does(says(404))
	second.does(says(404))
	n := w.routers[us]
	for range dispatch.BudgetFloor + 5 {
		if r := w.get(http.MethodPost, n.front.URL+"/v1/x", "acme", askWhole); r.status != 404 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if second.requests.Load() != dispatch.BudgetFloor+5 || !n.budget.Retry("us-b", false, n.now()) {
		t.Errorf("%d at the second place, and its budget is spent", second.requests.Load())
	}
}
