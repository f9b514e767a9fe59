package dataplane

import (
	"net/http"
	"strings"
	"testing"

	"anabranch/api/routerpb"
)

// How places stand is told to the control plane as /status tells it, of each kind of cluster.
func TestTheControlPlaneIsToldHowPlacesStand(t *testing.T) {
	good, bad := newStub(t, answers), newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{good, bad}},
		{id: "us-g", region: us, weight: 0, gateway: true, endpoints: []*stub{newStub(t, answers)}},
		{id: "eu-a", region: eu, weight: 0, endpoints: []*stub{newStub(t, answers)}},
	}, nil)
	r := w.routers[us]
	for range 20 { // five of one server tell a median, and those of ten seconds ago count for less
		if a := w.ask(us, "acme", strings.Replace(askStream, `"llama"`, `"legal"`, 1)); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	w.run()
	w.eventually("the median of first tokens is told, where they came from", func() bool {
		told := r.Inspect("us-a", 0).GetPlaces()
		return len(told) == 2 && told[0].GetModels()[0].GetTtftP50Ms()+told[1].GetModels()[0].GetTtftP50Ms() > 0
	})
	bad.Close()
	var all *routerpb.Inspected
	w.eventually("a server is found dead, and the other looked at", func() bool {
		all = r.Inspect("us-a", 0)
		return len(all.GetPlaces()) == 2 && all.GetPlaces()[1].GetState() == stateEjected && all.GetPlaces()[0].GetFreshness() == "fresh"
	})
	if !all.GetKnown() || all.GetRemote() || all.GetEjected() || all.GetKind() != "endpoints" || all.GetLeft() != 0 || all.GetInFlight() != 0 {
		t.Errorf("the cluster: %v", all)
	}
	up, down := all.GetPlaces()[0], all.GetPlaces()[1]
	if up.GetUrl() != good.URL || up.GetState() != stateReady || up.GetRamp() != 1 || up.GetAgeMs() < 0 || up.GetSlots() <= 0 || up.GetPoolReady() != -1 || up.GetId() >= down.GetId() {
		t.Errorf("who answers: %v", up)
	}
	if m := up.GetModels(); len(m) != 1 || m[0].GetModel() != "llama" || m[0].GetLacks() || m[0].GetPrefillPerS() <= 0 || m[0].GetStepMs() <= 0 || m[0].GetStepMoreMs() < 0 {
		t.Errorf("its rates: %v", m)
	}
	if loaded := append(up.GetAdapters(), down.GetAdapters()...); len(loaded) == 0 || loaded[0] != "legal" {
		t.Errorf("adapters %v", loaded)
	}
	if down.GetUrl() != bad.URL || down.GetReason() == "" {
		t.Errorf("who does not: %v", down)
	}
	// Of more than are asked for, what is out of use comes first.
	if one := r.Inspect("us-a", 1); len(one.GetPlaces()) != 1 || one.GetPlaces()[0].GetId() != down.GetId() || one.GetLeft() != 1 {
		t.Errorf("one of two: %v", one)
	}
	if g := r.Inspect("us-g", 0); g.GetKind() != "gateway" || g.GetRemote() || len(g.GetPlaces()) != 1 || g.GetPlaces()[0].GetId() != "us-g" {
		t.Errorf("a gateway: %v", g)
	}
	if far := r.Inspect("eu-a", 0); !far.GetKnown() || !far.GetRemote() || len(far.GetPlaces()) != 0 {
		t.Errorf("one elsewhere: %v", far)
	}
	if none := r.Inspect("us-z", 0); none.GetKnown() {
		t.Errorf("one that there is not: %v", none)
	}
	r.tables.Store(nil)
	if none := r.Inspect("us-a", 0); none.GetKnown() {
		t.Errorf("without a table: %v", none)
	}
}

// TestAnAnswerAboutPlacesIsBounded, whatever servers show.
func TestAnAnswerAboutPlacesIsBounded(t *testing.T) {
	s := newStub(t, answers)
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, nil)
	names := make([]string, inspectAdapters+3)
	for i := range names {
		names[i] = "a" + strings.Repeat("x", i+1)
	}
	s.page.Store(new("vllm:num_requests_waiting 2\nvllm:num_requests_running 9\nvllm:kv_cache_usage_perc 0.25\nvllm:lora_requests_info{max_lora=\"40\",running_lora_adapters=\"" + strings.Join(names, ",") + "\",waiting_lora_adapters=\"\"} 1\n"))
	w.run()
	w.eventually("the page is read", func() bool {
		p := w.routers[us].Inspect("us-a", 5000).GetPlaces()
		return len(p) == 1 && p[0].GetAdaptersMost() == 40
	})
	p := w.routers[us].Inspect("us-a", 5000).GetPlaces()[0]
	if len(p.GetAdapters()) != inspectAdapters || p.GetAdaptersLeft() != 3 || p.GetWaiting() != 2 || p.GetRunning() != 9 || p.GetKvUsage() != 0.25 {
		t.Errorf("%v", p)
	}
}
