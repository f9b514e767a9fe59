package endpoint

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

const gone404 = `404 {"object":"error","message":"The model ` + "`n`" + ` does not exist.","type":"NotFoundError","param":null,"code":404}`

// several is the world with clusters a and b serving m, n and o.
func several(t testing.TB) *table.Table {
	return world(t, func(pb *routerpb.Table) {
		pb.Models = append(pb.Models, &routerpb.Model{Id: "n"}, &routerpb.Model{Id: "o"})
		for _, c := range pb.Clusters[:2] {
			c.Models = []string{"m", "n", "o"}
		}
	})
}

// ask sends one request to an endpoint, which ends so at once.
func ask(e *Endpoint, model fleet.ModelID, r Result) {
	e.Begin(Load{Model: model}, time.Now()).Done(r, time.Now())
}

func breakModel(f *fakeFleet, model, said string, hosts ...string) {
	for _, h := range hosts {
		f.set(h, func(s *server) { s.broken = map[string]string{model: said} })
	}
}

func usable(c *Cluster, model fleet.ModelID) int {
	eps, _ := c.Candidates(&Load{Model: model}, time.Now(), nil, nil, nil)
	return len(eps)
}

// One model of three is broken on a cluster, and says so to requests and canaries: it alone is left, within a
// second, and the control plane is told of it alone. Once it answers again it is back.
func TestAModelThatFailsAloneIsLeftAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		said string
		met  Result
	}{
		"server errors": {"500 {}", Result{Outcome: failover.ServerFault}},
		"not there":     {gone404, Result{Outcome: failover.Ignored, Missing: true}},
	} {
		t.Run(name, func(t *testing.T) {
			live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
				r.Sync(several(t))
				pass(time.Second)
				a := r.Cluster("a")
				breakModel(f, "n", tt.said, "a1", "a2")
				for _, e := range a.Endpoints() {
					ask(e, "n", tt.met)
				}
				took := soon(t, 2*time.Second, "n left", func() bool { out, _ := a.EjectedOf("n"); return out })
				if took > 1500*time.Millisecond {
					t.Errorf("left after %v", took)
				}
				pass(5 * time.Second)
				if out, why := a.Ejected(); out {
					t.Fatalf("the cluster is ejected as a whole: %s", why)
				}
				for model, want := range map[fleet.ModelID]int{"m": 2, "n": 0, "o": 2} {
					if got := usable(a, model); got != want {
						t.Errorf("%d endpoints may take %s, want %d", got, model, want)
					}
				}
				for _, s := range r.Report(time.Now()).Clusters {
					if s.Cluster != "a" {
						continue
					}
					if bad := s.Model == "n"; s.Ejected != bad || bad != (s.EjectReason != "") || bad != (s.EndpointsReady == 0) {
						t.Errorf("reported of %s: ejected %t, %q, %d ready", s.Model, s.Ejected, s.EjectReason, s.EndpointsReady)
					}
				}
				breakModel(f, "n", "", "a1", "a2")
				soon(t, 15*time.Second, "n back", func() bool { return usable(a, "n") == 2 })
			})
		})
	}
}

// Whatever all its models answer, a server with all of them broken is as dead as one that has but one.
func TestAServerOfWhichEveryModelFailsIsEjected(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		r.Sync(several(t))
		pass(time.Second)
		f.set("b1", func(s *server) { s.status = http.StatusInternalServerError })
		ask(r.of("b")[0], "o", Result{Outcome: failover.ServerFault})
		took := soon(t, 3*time.Second, "b ejected", func() bool { return r.ejectedNow("b") })
		t.Logf("ejected after %v", took)
		f.set("b1", func(s *server) { s.status = 0 })
		soon(t, 10*time.Second, "b back", func() bool { return !r.ejectedNow("b") && usable(r.Cluster("b"), "o") == 1 })
	})
}

// A tenant's requests for one model are told that it is not there, or break, and canaries for it are answered.
func TestWhatCanariesAreAnsweredIsNotTakenFromAModel(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		r.Sync(several(t))
		pass(time.Second)
		b := r.Cluster("b")
		before := f.get("b1").canaries
		for range 100 { // 10 s
			ask(b.Endpoints()[0], "n", Result{Outcome: failover.Ignored, Missing: true})
			pass(100 * time.Millisecond)
		}
		if got := f.get("b1").canaries - before; got < 5 || got > 12 {
			t.Errorf("%d canaries for 100 such requests in 10 s, want one each second", got)
		}
		for range 200 {
			ask(b.Endpoints()[0], "n", Result{Outcome: failover.ServerFault})
			pass(50 * time.Millisecond)
			if usable(b, "n") == 0 {
				t.Fatal("the only endpoint is left for what its requests say")
			}
		}
	})
}

// A place in doubt has each of its models asked in turn, at the pace that it is asked at with one.
func TestEachModelIsAskedInTurn(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		r.Sync(several(t))
		pass(time.Second)
		for range 30 {
			r.of("b")[0].breaker.doubt()
			pass(200 * time.Millisecond)
		}
		s := f.get("b1")
		if s.canaries != 30 || s.asked["m"] != 10 || s.asked["n"] != 10 || s.asked["o"] != 10 {
			t.Errorf("%d canaries, %v", s.canaries, s.asked)
		}
	})
}

// A model that nobody asks for is found broken when anything makes its server one to look at.
func TestAModelThatNobodyAsksForIsFoundBroken(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		r.Sync(several(t))
		pass(time.Second)
		breakModel(f, "o", "500 {}", "b1")
		for range 4 {
			ask(r.of("b")[0], "m", Result{Outcome: failover.ConnectFailure})
			pass(time.Second)
			ask(r.of("b")[0], "m", Result{Outcome: failover.OK, FirstToken: time.Millisecond})
		}
		if out, _ := r.of("b")[0].Lacks("o"); !out {
			t.Errorf("it is still used for o after canaries %v", f.get("b1").asked)
		}
		if usable(r.Cluster("b"), "m") != 1 {
			t.Error("and is not used for m")
		}
	})
}

// With one model there is nothing to tell apart: a server that has lost it is dead.
func TestAServerThatHasLostItsOnlyModelIsEjected(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		pass(time.Second)
		breakModel(f, "m", strings.ReplaceAll(gone404, "`n`", "`m`"), "b1")
		ask(r.of("b")[0], "m", Result{Outcome: failover.Ignored, Missing: true})
		soon(t, time.Second, "b ejected", func() bool { return r.ejectedNow("b") })
		if _, why := r.Cluster("b").Ejected(); !strings.Contains(why, "does not have the model") {
			t.Errorf("reason %q", why)
		}
	})
}

// An adapter that a server has not loaded says nothing of the model that it is of.
func TestAMissingAdapterAsksForNothing(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		pass(time.Second)
		r.of("b")[0].Begin(Load{Model: "m", Adapter: "lora"}, time.Now()).Done(Result{Outcome: failover.Ignored, Missing: true}, time.Now())
		pass(2 * time.Second)
		if n := f.get("b1").canaries; n != 0 {
			t.Errorf("%d canaries", n)
		}
	})
}

func TestRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		want   bool
	}{
		"as vLLM says it":            {404, gone404[4:], true},
		"as the API documents it":    {404, `{"error":{"message":"The model 'x' does not exist","type":"invalid_request_error","code":"model_not_found"}}`, true},
		"as Ollama says it":          {404, `{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error"}}`, true},
		"a path that is not there":   {404, `{"detail":"Not Found"}`, false},
		"a page":                     {404, `<html>no such model here</html>`, false},
		"an error of something else": {404, `{"error":{"message":"no route","code":404}}`, false},
		"nothing":                    {404, ``, false},
		"another status":             {400, gone404[4:], false},
	} {
		t.Run(name, func(t *testing.T) {
			resp := &http.Response{StatusCode: tt.status, Body: io.NopCloser(strings.NewReader(tt.body))}
			if got := refuses(resp); got != tt.want {
				t.Errorf("%t, want %t", got, tt.want)
			}
		})
	}
}
