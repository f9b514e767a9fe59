package dataplane

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"anabranch/api/routerpb"
)

// member makes a cluster of a world one of another kind.
func member(id string, change func(*routerpb.Cluster)) func(*routerpb.Table) {
	return func(pb *routerpb.Table) {
		for _, c := range pb.Clusters {
			if c.Id == id {
				change(c)
			}
		}
	}
}

// An external API is called directly, by its own names and with its own key, and learns nothing of
// who asks.
func TestAProviderIsCalledByItsOwnNames(t *testing.T) {
	t.Setenv("PROVIDER_KEY", "sk-provider")
	api := newStub(t, answers)
	w := newWorld(t, []site{
		{id: "ext", region: eu, weight: 1, endpoints: []*stub{api}},
		{id: "us-a", region: us, weight: 0, endpoints: []*stub{newStub(t, answers)}},
	}, member("ext", func(c *routerpb.Cluster) {
		c.Kind, c.GatewayUrl, c.Endpoints = "provider", api.URL, nil
		c.ModelNames = map[string]string{"llama": "vendor/llama-3.1"}
		c.Auth = []*routerpb.Credential{{Type: "bearer", Env: "PROVIDER_KEY"}}
	}))
	w.routers[eu].peer.Close() // it is not asked by way of a router
	r := w.ask(us, "acme", askStream, "X-Request-Id", "mine", "X-Gateway-Inference-Fairness-Id", "team")
	if r.status != http.StatusOK || r.header.Get("X-Anabranch-Cluster") != "ext" || r.header.Get("X-Anabranch-Region") != eu {
		t.Fatalf("%d by %s in %s", r.status, r.header.Get("X-Anabranch-Cluster"), r.header.Get("X-Anabranch-Region"))
	}
	var body struct{ Model string }
	if err := json.Unmarshal(*api.body.Load(), &body); err != nil || body.Model != "vendor/llama-3.1" {
		t.Errorf("asked for %q, %v", body.Model, err)
	}
	seen := *api.seen.Load()
	if seen.Get("Authorization") != "Bearer sk-provider" {
		t.Errorf("credential %q", seen.Get("Authorization"))
	}
	for name, values := range seen {
		if strings.HasPrefix(name, "X-Gateway-") || strings.HasPrefix(name, "X-Anabranch-") || name == "Traceparent" || strings.Contains(strings.Join(values, " "), "acme") {
			t.Errorf("the provider learns %s: %v", name, values)
		}
	}
	w.idle()
}

// A provider that says in its headers that its limit is used up is left alone until it is whole.
func TestAProviderAtItsLimitIsLeftAlone(t *testing.T) {
	api := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Ratelimit-Limit-Requests", "10")
		w.Header().Set("X-Ratelimit-Remaining-Requests", "0")
		w.Header().Set("X-Ratelimit-Reset-Requests", "60s")
		answers(w, r)
	})
	w := newWorld(t, []site{
		{id: "ext", region: us, weight: 1, endpoints: []*stub{api}}, {id: "us-a", region: us, weight: 1e-9, endpoints: []*stub{newStub(t, answers)}},
	}, member("ext", func(c *routerpb.Cluster) { c.Kind, c.GatewayUrl, c.Endpoints = "provider", api.URL, nil }))
	for i, want := range []string{"ext", "us-a", "us-a"} {
		if r := w.ask(us, "acme", askWhole); r.header.Get("X-Anabranch-Cluster") != want {
			t.Errorf("request %d: %d by %s, want %s", i, r.status, r.header.Get("X-Anabranch-Cluster"), want)
		}
	}
}

// A whole region as one member: its own routers choose where in it, and it comes back when they can
// serve again.
func TestARegionAsAMember(t *testing.T) {
	there := newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 0, endpoints: []*stub{newStub(t, answers)}},
		{id: "europe", region: eu, weight: 1, endpoints: []*stub{there}},
		{id: "eu-a", region: eu, weight: 0, endpoints: []*stub{there}},
	}, func(pb *routerpb.Table) {
		member("europe", func(c *routerpb.Cluster) { c.Kind, c.Endpoints = "router", nil })(pb)
		for _, weights := range pb.Weights { // as the planner does: seen from elsewhere the region, from within its clusters
			var kept []*routerpb.ClusterWeight
			for _, c := range weights.Clusters {
				switch {
				case weights.Source == us && c.Cluster == "eu-a", weights.Source == eu && c.Cluster == "europe":
				case weights.Source == eu && c.Cluster == "eu-a":
					c.Weight = 1
					kept = append(kept, c)
				default:
					kept = append(kept, c)
				}
			}
			weights.Clusters = kept
		}
	})
	w.run()
	served := func() string {
		r := w.ask(us, "acme", askWhole)
		if r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return r.header.Get("X-Anabranch-Cluster")
	}
	if got := served(); got != "eu-a" {
		t.Fatalf("served by %s", got)
	}
	there.does(says(http.StatusInternalServerError))
	there.canaries.Store(handler(says(http.StatusInternalServerError)))
	w.eventually("the region is found dead", func() bool {
		dead, _ := w.routers[us].places.Cluster("europe").Ejected()
		return served() == "us-a" && dead
	})
	there.does(answers)
	there.canaries.Store(nil)
	w.eventually("the region is back", func() bool { return served() == "eu-a" })
	w.idle()
}

func handler(h http.HandlerFunc) *http.HandlerFunc { return &h }
