package dataplane

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/api/routerpb"
)

// ruled adds rules to a table whose second model is served everywhere.
func ruled(rules ...*routerpb.Rule) func(*routerpb.Table) {
	return func(pb *routerpb.Table) {
		pb.Rules = rules
		pb.Models = append(pb.Models, &routerpb.Model{Id: "qwen", OutputWeight: 6, InputMicrosPerMtok: 1_000_000, OutputMicrosPerMtok: 2_000_000})
		for _, c := range pb.Clusters {
			c.Models = append(c.Models, "qwen")
		}
	}
}

// askedFor is the model that a stub was asked for last.
func (s *stub) askedFor(t *testing.T) string {
	t.Helper()
	var body struct{ Model string }
	if err := json.Unmarshal(*s.body.Load(), &body); err != nil {
		t.Fatal(err)
	}
	return body.Model
}

func TestARuleSendsWhatItMatchesElsewhere(t *testing.T) {
	a, b := newStub(t, answers), newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{a}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{b}},
	}, ruled(
		&routerpb.Rule{Id: "blue", Class: "interactive", Match: []*routerpb.Match{{
			Headers: []*routerpb.HeaderMatch{{Name: "X-Team", Value: "blue"}},
		}}, Clusters: []string{"us-b"}, Model: "qwen"},
		&routerpb.Rule{Id: "globex", Class: "interactive", Match: []*routerpb.Match{{Tenants: []string{"globex"}, Paths: []string{"/v1/chat/*"}}}, Clusters: []string{"us-b"}},
	))
	for _, tt := range []struct {
		name, tenant   string
		headers        []string
		cluster, model string
		policy         string
	}{
		{"no rule", "acme", nil, "us-a", "llama", ""},
		{"by a header: pinned and rewritten", "acme", []string{"X-Team", "blue"}, "us-b", "qwen", "blue"},
		{"another value of the header", "acme", []string{"X-Team", "red"}, "us-a", "llama", ""},
		{"by tenant and path", "globex", nil, "us-b", "llama", "globex"},
		{"the first that matches counts", "globex", []string{"X-Team", "blue"}, "us-b", "qwen", "blue"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := w.ask(us, tt.tenant, askWhole, tt.headers...)
			if r.status != http.StatusOK || r.header.Get("X-Anabranch-Cluster") != tt.cluster {
				t.Fatalf("%d from %s", r.status, r.header.Get("X-Anabranch-Cluster"))
			}
			at := map[string]*stub{"us-a": a, "us-b": b}[tt.cluster]
			if got := at.askedFor(t); got != tt.model {
				t.Errorf("the place was asked for %s, want %s", got, tt.model)
			}
			if rec := w.record(us, r); rec.Policy != tt.policy || rec.Asked != "llama" || string(rec.Model) != tt.model {
				t.Errorf("policy %q, asked %q, model %q", rec.Policy, rec.Asked, rec.Model)
			}
		})
	}
}

// A pin is a hard rule: where its cluster is dead the request fails.
func TestAPinnedRequestStaysWhereItIsPinned(t *testing.T) {
	a, b := newStub(t, answers), newStub(t, says(http.StatusInternalServerError))
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{a}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{b}},
	}, ruled(&routerpb.Rule{Id: "p", Class: "interactive", Clusters: []string{"us-b"}}))
	if r := w.ask(us, "acme", askWhole); r.status < 500 || a.requests.Load() != 0 {
		t.Errorf("%d, %d requests elsewhere", r.status, a.requests.Load())
	}
}

// Each arm gets its share, a session stays on its arm, and metrics and record tell which it was.
func TestArmsOfASplit(t *testing.T) {
	s := newStub(t, answers)
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, ruled(&routerpb.Rule{
		Id: "canary", Class: "interactive", Arms: []*routerpb.Arm{{Id: "stable", Weight: 80}, {Id: "new", Weight: 20, Model: "qwen"}},
	}))
	const n = 500
	arms := map[string]int{}
	for i := range n {
		session := fmt.Sprint("s", i/2)
		r := w.ask(us, "acme", askWhole, "X-Anabranch-Session", session)
		rec := w.record(us, r)
		arms[rec.Arm]++
		if want := map[string]string{"stable": "llama", "new": "qwen"}[rec.Arm]; s.askedFor(t) != want {
			t.Fatalf("on arm %q the place was asked for %s", rec.Arm, s.askedFor(t))
		}
		if i%2 == 1 {
			continue
		}
		if again := w.record(us, w.ask(us, "acme", askWhole, "X-Anabranch-Session", session)); again.Arm != rec.Arm {
			t.Fatalf("session %s went from arm %s to %s", session, rec.Arm, again.Arm)
		}
	}
	if share := float64(arms["new"]) / n; share < 0.12 || share > 0.28 {
		t.Errorf("arms %v: the new one got %.2f", arms, share)
	}
	m := w.routers[us].metrics.arms
	counted := testutil.ToFloat64(m.WithLabelValues("canary", "new", "ok")) + testutil.ToFloat64(m.WithLabelValues("canary", "stable", "ok"))
	if counted != n*1.5 {
		t.Errorf("%v requests counted by arm, want %v", counted, n*1.5)
	}
}

// The rule, its arm and what they narrow hold in the region that a request hops to.
func TestARuleHoldsOverAHop(t *testing.T) {
	a, b := newStub(t, answers), newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}},
		{id: "eu-a", region: eu, weight: 0, endpoints: []*stub{a}},
		{id: "eu-b", region: eu, weight: 0, endpoints: []*stub{b}},
	}, ruled(&routerpb.Rule{
		Id: "p", Class: "interactive", Residency: []string{"eu"},
		Arms: []*routerpb.Arm{{Id: "only", Weight: 1, Model: "qwen", Clusters: []string{"eu-b"}}},
	}))
	r := w.ask(us, "acme", askWhole)
	if r.status != http.StatusOK || r.header.Get("X-Anabranch-Cluster") != "eu-b" || b.askedFor(t) != "qwen" {
		t.Fatalf("%d from %s", r.status, r.header.Get("X-Anabranch-Cluster"))
	}
	b.does(says(http.StatusInternalServerError))
	if r := w.ask(us, "acme", askWhole); r.status < 500 || a.requests.Load() != 0 {
		t.Errorf("%d, %d requests at a cluster that the arm leaves out", r.status, a.requests.Load())
	}
	var far *Record
	w.eventually("the peer's record", func() bool {
		far = w.routers[eu].explain.find(r.header.Get("X-Anabranch-Request-Id"))
		return far != nil
	})
	if far.Policy != "p" || far.Arm != "only" || string(far.Model) != "qwen" {
		t.Errorf("the peer knows policy %q, arm %q, model %q", far.Policy, far.Arm, far.Model)
	}
}

func TestAShadowCopyIsInNobodysWay(t *testing.T) {
	got, let := make(chan string, 1), make(chan struct{})
	main := newStub(t, answers)
	shadow := newStub(t, nil)
	shadow.does(func(w http.ResponseWriter, r *http.Request) {
		got <- shadow.askedFor(t)
		<-let
		answers(w, r)
	})
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{main}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{shadow}},
	}, ruled(&routerpb.Rule{Id: "try", Class: "interactive", Clusters: []string{"us-a"}, Shadow: &routerpb.Shadow{Share: 1, Model: "qwen", Clusters: []string{"us-b"}}}))
	stop := w.run()
	r := w.ask(us, "globex", askStream)
	if r.status != http.StatusOK || r.header.Get("X-Anabranch-Cluster") != "us-a" || main.askedFor(t) != "llama" {
		t.Fatalf("%d from %s", r.status, r.header.Get("X-Anabranch-Cluster"))
	}
	if model := <-got; model != "qwen" {
		t.Errorf("the copy asks for %s", model)
	}
	close(let)
	s := w.routers[us].shadows
	w.eventually("the copy is counted", func() bool {
		return testutil.ToFloat64(s.requests.WithLabelValues("try", "us-b", "200")) == 1
	})
	if in, out := testutil.ToFloat64(s.tokens.WithLabelValues("try", "qwen", "input")), testutil.ToFloat64(s.tokens.WithLabelValues("try", "qwen", "output")); in != 11 || out != 3 {
		t.Errorf("%v tokens in, %v out", in, out)
	}
	if cost := testutil.ToFloat64(s.cost.WithLabelValues("try", "qwen")); cost != 17 {
		t.Errorf("the copy cost %v micro-dollars, want 11 × 1 + 3 × 2", cost)
	}
	w.idle()
	if charged := w.settled(stop, "q-tokens"); charged != 14 {
		t.Errorf("%d tokens charged, want those of the answer alone", charged)
	}
}

func TestShadowCopiesAreBounded(t *testing.T) {
	var open, most, copies int
	var mu sync.Mutex
	let := make(chan struct{})
	shadow := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		copies++
		open++
		most = max(most, open)
		mu.Unlock()
		<-let
		mu.Lock()
		open--
		mu.Unlock()
		answers(w, r)
	})
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{shadow}},
	}, ruled(&routerpb.Rule{Id: "try", Class: "interactive", Clusters: []string{"us-a"}, Shadow: &routerpb.Shadow{Share: 1, Clusters: []string{"us-b"}}}))
	stop := w.run()
	const n = maxShadows + 20
	for range n {
		if r := w.ask(us, "acme", askWhole); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	s := w.routers[us].shadows
	skipped := testutil.ToFloat64(s.skipped.WithLabelValues("try", "busy")) + testutil.ToFloat64(s.skipped.WithLabelValues("try", "no_room"))
	close(let)
	w.eventually("all copies have ended", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return copies+int(skipped) == n && open == 0
	})
	if most > maxShadows || skipped < 20 {
		t.Errorf("%d copies at once, %v skipped", most, skipped)
	}
	stop()
}

// Copies go to another region, too, though the rule keeps its requests at home.
func TestShadowCopiesCrossRegions(t *testing.T) {
	home, there, other := newStub(t, answers), newStub(t, answers), newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{home}},
		{id: "eu-a", region: eu, weight: 0, endpoints: []*stub{there}},
		{id: "eu-b", region: eu, weight: 0, endpoints: []*stub{other}},
	}, ruled(&routerpb.Rule{Id: "try", Class: "interactive", Clusters: []string{"us-a"}, Shadow: &routerpb.Shadow{Share: 1, Clusters: []string{"eu-a"}}}))
	stop := w.run()
	for range 3 {
		if r := w.ask(us, "acme", askWhole); r.status != http.StatusOK || r.header.Get("X-Anabranch-Cluster") != "us-a" {
			t.Fatalf("%d by %s", r.status, r.header.Get("X-Anabranch-Cluster"))
		}
	}
	counted := w.routers[us].shadows.requests.WithLabelValues("try", "eu-a", "200")
	w.eventually("the copies are counted", func() bool { return testutil.ToFloat64(counted) == 3 })
	if there.requests.Load() != 3 || other.requests.Load() != 0 || home.requests.Load() != 3 {
		t.Errorf("%d copies, %d at a third place, %d requests", there.requests.Load(), other.requests.Load(), home.requests.Load())
	}
	stop()
}

// Ending the router ends its copies.
func TestShadowCopiesEndWithTheRouter(t *testing.T) {
	shadow := newStub(t, hangs)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{shadow}},
	}, ruled(&routerpb.Rule{Id: "try", Class: "interactive", Clusters: []string{"us-a"}, Shadow: &routerpb.Shadow{Share: 1, Clusters: []string{"us-b"}}}))
	stop := w.run()
	w.ask(us, "acme", askWhole)
	w.eventually("the copy is there", func() bool { return shadow.requests.Load() == 1 })
	began := time.Now()
	stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the router took %s to end", took)
	}
	w.eventually("the place is told", func() bool { return shadow.left.Load() == 1 })
	w.idle()
}

// What a client writes into the headers between routers counts for nothing.
func TestAClientCannotChooseItsRule(t *testing.T) {
	a, b := newStub(t, answers), newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{a}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{b}},
	}, ruled(&routerpb.Rule{
		Id: "vip", Class: "interactive", Match: []*routerpb.Match{{Tenants: []string{"globex"}}}, Clusters: []string{"us-b"},
	}))
	r := w.ask(us, "acme", askWhole, headerPolicy, "vip", headerArm, "x")
	if r.header.Get("X-Anabranch-Cluster") != "us-a" {
		t.Errorf("went to %s", r.header.Get("X-Anabranch-Cluster"))
	}
	for name := range *a.seen.Load() {
		if strings.HasPrefix(name, "X-Anabranch") {
			t.Errorf("%s came to the place", name)
		}
	}
}

func TestACopyLeavesItsRequestsPrefixAlone(t *testing.T) {
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{newStub(t, answers)}},
	}, ruled(&routerpb.Rule{
		Id: "try", Class: "interactive", Clusters: []string{"us-a"},
		Match:  []*routerpb.Match{{Headers: []*routerpb.HeaderMatch{{Name: "X-Team", Value: "blue"}}}},
		Shadow: &routerpb.Shadow{Share: 1, Clusters: []string{"us-b"}},
	}))
	long := strings.Replace(askWhole, "hello", strings.Repeat("a long prompt ", 2000), 1)
	w.ask(us, "acme", long)
	rec := w.record(us, w.ask(us, "acme", long, "X-Team", "blue"))
	if e := rec.Attempts[0].Expected; e == nil || e.CachedTokens == 0 {
		t.Errorf("nothing of the prompt is found again: %+v", e)
	}
	w.idle()
}

func TestACopyThatPanicsEndsAlone(t *testing.T) {
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}}}, nil)
	s := w.routers[us].shadows
	if !s.begin(func(context.Context) { panic("a defect") }) {
		t.Fatal("not begun")
	}
	s.end()
	if s.open != 0 {
		t.Errorf("%d open", s.open)
	}
}

func TestACopyMakesOneAttempt(t *testing.T) {
	bad, other := newStub(t, says(500)), newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}},
		{id: "us-b", region: us, weight: 1, endpoints: []*stub{bad, other}},
	}, ruled(&routerpb.Rule{Id: "try", Class: "interactive", Clusters: []string{"us-a"}, Shadow: &routerpb.Shadow{Share: 1, Clusters: []string{"us-b"}}}))
	n := w.routers[us]
	const asked = 10
	for range asked {
		w.ask(us, "acme", askWhole)
	}
	copies := func(outcome string) float64 {
		return testutil.ToFloat64(n.metrics.attempts.WithLabelValues("us-b", "shadow", outcome))
	}
	w.eventually("all copies have ended", func() bool { return copies("ok")+copies("server_fault") == asked })
	n.shadows.end()
	if got := bad.requests.Load() + other.requests.Load(); got != asked || copies("server_fault") == 0 {
		t.Errorf("%d attempts of %d copies, %v failed", got, asked, copies("server_fault"))
	}
}
