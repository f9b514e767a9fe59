package dataplane

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/subscribe"
)

// absent is what [node.shows] takes for a metric that must not be there.
const absent = -1

// values are what a router shows, each by its name without anabranch_ and its labels as on the page; of
// a histogram the count, and with " sum" behind it the sum.
func (n *node) values(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := n.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := strings.TrimPrefix(f.GetName(), "anabranch_") + "{" + strings.Join(labels, ",") + "}"
			switch {
			case m.GetCounter() != nil:
				got[name] = m.GetCounter().GetValue()
			case m.GetGauge() != nil:
				got[name] = m.GetGauge().GetValue()
			default:
				got[name], got[name+" sum"] = float64(m.GetHistogram().GetSampleCount()), m.GetHistogram().GetSampleSum()
			}
		}
	}
	return got
}

// shows checks some of what a router shows.
func (n *node) shows(t *testing.T, want map[string]float64) {
	t.Helper()
	got := n.values(t)
	for name, v := range want {
		if is, ok := got[name]; ok != (v != absent) || ok && is != v {
			t.Errorf("%s: %v (there: %v), want %v", name, is, ok, v)
		}
	}
}

func TestCopiesOfLateRequestsAreCounted(t *testing.T) {
	fails := says(http.StatusInternalServerError)
	for name, c := range map[string]struct {
		share  float64
		second bool
		// The first place goes on when the copy has come, or after a while.
		first, copied http.HandlerFunc
		want          map[string]float64
	}{
		"the copy answers": {1, true, hangs, answers, map[string]float64{
			"router_hedges_total{cluster=us-b,outcome=won}": 1, "router_attempts_total{cluster=us-b,kind=hedge,outcome=ok}": 1,
			"router_hedges_withheld_total{reason=share}": absent, "router_hedges_withheld_total{reason=no_room}": absent,
		}},
		"the first place does": {1, true, answers, hangs, map[string]float64{
			"router_hedges_total{cluster=us-b,outcome=lost}": 1, "router_hedges_total{cluster=us-b,outcome=won}": absent,
		}},
		"neither does": {1, true, fails, fails, map[string]float64{"router_hedges_total{cluster=us-b,outcome=failed}": 1}},
		"enough are copied": {0.5, true, answers, answers, map[string]float64{
			"router_hedges_withheld_total{reason=share}": 1, "router_hedges_total{cluster=us-b,outcome=won}": absent,
		}},
		"there is no other place": {1, false, answers, nil, map[string]float64{"router_hedges_withheld_total{reason=no_room}": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			came := make(chan struct{})
			var once sync.Once
			first := newStub(t, func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-came:
				case <-time.After(200 * time.Millisecond):
				case <-r.Context().Done():
				}
				c.first(w, r)
			})
			sites := []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{first}}}
			if c.second {
				sites = append(sites, site{id: "us-b", region: us, weight: 0, endpoints: []*stub{newStub(t, func(w http.ResponseWriter, r *http.Request) {
					once.Do(func() { close(came) })
					c.copied(w, r)
				})}})
			}
			w := newWorld(t, sites, hedged(20, c.share))
			w.ask(us, "acme", askStream)
			w.idle()
			w.routers[us].shows(t, c.want)
		})
	}
}

func TestRescuesAreCounted(t *testing.T) {
	breaks := func(w http.ResponseWriter, _ *http.Request) {
		words(w, "first", 0, 4)
		cut()
	}
	for outcome, second := range map[string]http.HandlerFunc{
		"saved":    func(w http.ResponseWriter, _ *http.Request) { continues(w, 4) },
		"failed":   breaks,
		"no_place": nil,
	} {
		t.Run(outcome, func(t *testing.T) {
			sites := []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, breaks)}}}
			if second != nil {
				sites = append(sites, site{id: "us-b", region: us, weight: 0, endpoints: []*stub{newStub(t, second)}})
			}
			w := newWorld(t, sites, rescued)
			w.ask(us, "acme", askStream)
			w.idle()
			want := map[string]float64{}
			for _, o := range []string{"saved", "failed", "no_place"} {
				want["router_rescues_total{cluster=us-a,outcome="+o+"}"] = absent
			}
			want["router_rescues_total{cluster=us-a,outcome="+outcome+"}"] = 1
			w.routers[us].shows(t, want)
		})
	}
	// One that needs no rescue is none.
	w, _ := one(t)
	w.ask(us, "acme", askStream)
	w.idle()
	for name := range w.routers[us].values(t) {
		if strings.HasPrefix(name, "router_rescues_total") {
			t.Errorf("%s", name)
		}
	}
}

// What was predicted and believed of a stream is held against what came; a whole answer tells nothing
// of first tokens.
func TestPredictionsAreHeldAgainstWhatComes(t *testing.T) {
	const usage = `{"prompt_tokens":1000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":950}}`
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Streams") == "" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(strings.Replace(whole, `{"prompt_tokens":11,"completion_tokens":3}`, usage, 1)))
			return
		}
		send(w, role, content, content, finish, `data: {"choices":[],"usage":`+usage+"}\n\n", done)
	})
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, nil)
	n := w.routers[us]
	var believed, off, ratio float64
	for _, body := range []string{askStream, askStream, askWhole} {
		rec := w.record(us, w.ask(us, "acme", strings.Replace(body, "hello", strings.Repeat("a long story ", 1000), 1)))
		a := rec.Attempts[0]
		believed += float64(a.Expected.CachedTokens)
		if rec.Stream {
			off += max(a.FirstByteMs-a.PredictedMs, a.PredictedMs-a.FirstByteMs) / 1e3
			ratio += a.FirstByteMs / a.PredictedMs
		}
		w.idle()
	}
	if believed < 1000 {
		t.Fatalf("%v tokens were believed cached", believed)
	}
	n.shows(t, map[string]float64{
		"router_first_token_ratio{cluster=us-a}":                                                          2,
		"router_first_token_error_seconds{cluster=us-a}":                                                  2,
		"router_prefix_picks_total{cluster=us-a,match=miss}":                                              1,
		"router_prefix_picks_total{cluster=us-a,match=hit}":                                               2,
		"router_cached_tokens_total{cluster=us-a,source=told}":                                            2850,
		"router_cached_tokens_total{cluster=us-a,source=believed}":                                        believed,
		"gen_ai_client_token_usage{cluster=us-a,gen_ai_request_model=llama,gen_ai_token_type=input} sum":  3000,
		"gen_ai_client_token_usage{cluster=us-a,gen_ai_request_model=llama,gen_ai_token_type=output} sum": 6,
		"router_request_body_bytes{}":                                                                     3,
	})
	got := n.values(t)
	for name, want := range map[string]float64{
		"router_first_token_ratio{cluster=us-a} sum": ratio, "router_first_token_error_seconds{cluster=us-a} sum": off,
	} {
		if d := got[name] - want; d > 1e-6 || d < -1e-6 {
			t.Errorf("%s: %v, the records say %v", name, got[name], want)
		}
	}
}

// A server that does not tell of its cache says nothing of what was believed of it.
func TestServersThatDoNotTellOfCachesAreNotCounted(t *testing.T) {
	w, _ := one(t)
	for range 2 {
		w.ask(us, "acme", strings.Replace(askStream, "hello", strings.Repeat("a long story ", 1000), 1))
		w.idle()
	}
	w.routers[us].shows(t, map[string]float64{
		"router_prefix_picks_total{cluster=us-a,match=hit}":        1,
		"router_cached_tokens_total{cluster=us-a,source=told}":     absent,
		"router_cached_tokens_total{cluster=us-a,source=believed}": absent,
	})
}

// A request by way of two routers is counted by each as what it was there, and its arm and tokens once.
func TestPeersRequestsAreToldApart(t *testing.T) {
	w, _, _ := two(t, func(pb *routerpb.Table) {
		pb.Rules = []*routerpb.Rule{{Id: "p", Class: "interactive", Arms: []*routerpb.Arm{{Id: "a", Weight: 1}}}}
	})
	w.ask(us, "acme", askWhole)
	w.idle()
	w.routers[us].shows(t, map[string]float64{
		"router_requests_total{cluster=eu-a,code=ok,from=client,model=llama,status=200}":             1,
		"router_arm_requests_total{arm=a,code=ok,policy=p}":                                          1,
		"gen_ai_client_token_usage{cluster=eu-a,gen_ai_request_model=llama,gen_ai_token_type=input}": 1,
		"router_prefix_picks_total{cluster=eu-a,match=miss}":                                         absent,
		"router_attempts_total{cluster=eu-a,kind=first,outcome=ok}":                                  1,
		"router_request_body_bytes{}":                                                                1,
	})
	w.routers[eu].shows(t, map[string]float64{
		"router_requests_total{cluster=eu-a,code=ok,from=peer,model=llama,status=200}":               1,
		"router_arm_requests_total{arm=a,code=ok,policy=p}":                                          absent,
		"gen_ai_client_token_usage{cluster=eu-a,gen_ai_request_model=llama,gen_ai_token_type=input}": absent,
		"router_prefix_picks_total{cluster=eu-a,match=miss}":                                         1,
		"router_request_body_bytes{}":                                                                0,
	})
}

// Attempts of copies of traffic are no one's first.
func TestShadowsAreCountedApart(t *testing.T) {
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{newStub(t, answers)}},
	}, func(pb *routerpb.Table) {
		pb.Rules = []*routerpb.Rule{{Id: "p", Class: "interactive", Shadow: &routerpb.Shadow{Share: 1, Clusters: []string{"us-b"}}}}
	})
	n := w.routers[us]
	w.ask(us, "acme", askWhole)
	w.eventually("the copy has ended", func() bool { return n.values(t)["router_shadow_requests_total{cluster=us-b,policy=p,status=200}"] == 1 })
	w.eventually("it is counted out", func() bool { return n.shadows.underWay() == 0 })
	n.shows(t, map[string]float64{
		"router_attempts_total{cluster=us-a,kind=first,outcome=ok}":  1,
		"router_attempts_total{cluster=us-b,kind=shadow,outcome=ok}": 1,
		"router_attempts_total{cluster=us-b,kind=first,outcome=ok}":  absent,
		"router_shadows_in_flight{}":                                 0,
	})
}

func TestPlacesAreCountedByState(t *testing.T) {
	gone := newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers), gone}},
		{id: "us-b", region: us, weight: 0, endpoints: []*stub{newStub(t, answers)}},
	}, func(pb *routerpb.Table) {
		pb.Clusters[1].Auth = []*routerpb.Credential{{Type: "bearer", File: "/nowhere/at/all"}}
		pb.Clusters[1].Drained, pb.Clusters[1].HealthCap = true, 0.25
		pb.Clusters[1].ModelHealth = []*routerpb.ModelHealth{{Model: "llama", Health: "EVACUATED"}}
	})
	n := w.routers[us]
	n.shows(t, map[string]float64{
		"router_endpoints{cluster=us-a,state=ready}": 2, "router_ejections_total{cluster=us-a}": 0,
		"router_signal_age_seconds{cluster=us-a,which=newest}": absent, "router_cluster_saturation{cluster=us-a}": absent,
	})
	gone.Close()
	w.run()
	w.eventually("it is ejected", func() bool { return n.values(t)["router_ejections_total{cluster=us-a}"] == 1 })
	w.eventually("the other is seen", func() bool { return n.values(t)["router_scrape_seconds{cluster=us-a}"] > 0 })
	w.eventually("nothing is signed", func() bool { return n.values(t)["router_credential_errors_total{cluster=us-b}"] > 1 })
	n.shows(t, map[string]float64{
		"router_endpoints{cluster=us-a,state=ready}": 1, "router_endpoints{cluster=us-a,state=ejected}": 1,
		"router_endpoints{cluster=us-a,state=busy}": 0, "router_endpoints{cluster=us-a,state=starting}": 0,
		"router_cluster_ejected{cluster=us-a}": 0, "router_cluster_drained{cluster=us-b}": 1, "router_cluster_cap{cluster=us-b}": 0.25,
		"router_cluster_model_cap{cluster=us-b,model=llama}": 0, "router_cluster_model_cap{cluster=us-a,model=llama}": absent,
		"router_scrape_seconds{cluster=us-b}": absent,
	})
	got := n.values(t)
	if newest, ok := got["router_signal_age_seconds{cluster=us-a,which=newest}"]; !ok || newest > got["router_signal_age_seconds{cluster=us-a,which=oldest}"] {
		t.Errorf("newest %v, there: %v", newest, ok)
	}
	if got["router_scrape_failures_total{cluster=us-a,reason=error}"] == 0 {
		t.Error("no failed scrape is counted")
	}
}

func TestTheRouterTellsHowItStands(t *testing.T) {
	w, _ := one(t)
	n := w.routers[us]
	sight := subscribe.Current
	n.o.Sight = func(time.Time) subscribe.Sight { return sight }
	n.shows(t, map[string]float64{
		"router_ready{}": 1, "router_draining{}": 0, "router_table_revision{}": 5, "router_table_epoch{}": 1,
		"router_sight{sight=current}": 1, "router_sight{sight=stale}": 0, "router_sight{sight=alone}": 0, "router_prefix_capacity{}": 1 << 20,
		"router_bodies_held_bytes{}": 0, "router_bodies_limit_bytes{}": float64(n.bodies.most),
	})
	sight = subscribe.Alone
	n.Drain()
	n.tables.Store(nil)
	n.shows(t, map[string]float64{
		"router_ready{}": 0, "router_draining{}": 1, "router_table_revision{}": 0, "router_table_epoch{}": 0, "router_table_age_seconds{}": absent,
		"router_sight{sight=current}": 0, "router_sight{sight=alone}": 1, "router_cluster_ejected{cluster=us-a}": absent,
	})
	for name, v := range n.values(t) {
		if strings.HasPrefix(name, "build_info{component=router,goversion=go") && strings.HasSuffix(name, ",version=test}") && v == 1 {
			return
		}
	}
	t.Error("nothing tells the build")
}
