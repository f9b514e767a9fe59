package dataplane

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/subscribe"
)

// sheds has the table shed a part of a priority everywhere, and all of what is lower.
func sheds(priority int32, part float64) func(*routerpb.Table) {
	return func(pb *routerpb.Table) {
		for _, w := range pb.Weights {
			w.Shed = nil
			for _, p := range []int32{-10, 0, 50, 100} {
				if p < priority {
					w.Shed = append(w.Shed, &routerpb.Shed{Priority: p, Part: 1})
				}
			}
			w.Shed = append(w.Shed, &routerpb.Shed{Priority: priority, Part: part})
		}
	}
}

// inEU is a world with a place in eu that all tenants may use. Nobody measures it, unless the world runs.
func inEU(t *testing.T, change func(*routerpb.Table)) (*world, *stub) {
	t.Helper()
	s := newStub(t, answers)
	return newWorld(t, []site{{id: "eu-a", region: eu, weight: 1, endpoints: []*stub{s}}}, change), s
}

func TestWhatTheTableShedsIsRefusedAtOnce(t *testing.T) {
	w, s := inEU(t, sheds(50, 1))
	n := w.routers[eu]
	r := w.ask(eu, "globex", askWhole)
	e := r.problem(t)
	after, err := strconv.Atoi(r.header.Get("Retry-After"))
	if r.status != http.StatusTooManyRequests || e["code"] != "shed" || e["origin"] != "router" || err != nil || after < 15 || after > 17 {
		t.Errorf("%d %v, Retry-After %q", r.status, e, r.header.Get("Retry-After"))
	}
	if r.header.Get("X-Should-Retry") != "false" || r.header.Get("X-Llm-D-Request-Dropped-Reason") == "" || r.header.Get("X-Ratelimit-Limit-Requests") == "" {
		t.Errorf("headers %v", r.header)
	}
	rec := w.record(eu, r)
	if rec.Shed != "shed by plan: 100 % of standard" || rec.Code != "shed" || rec.QueuedMs != 0 || len(rec.Attempts) != 0 || len(rec.Candidates) != 1 {
		t.Errorf("record %+v", rec)
	}
	if r := w.ask(eu, "initech", askWhole); r.status != http.StatusTooManyRequests {
		t.Errorf("batch: %d", r.status)
	}
	if r := w.ask(eu, "acme", askWhole); r.status != http.StatusOK || w.record(eu, r).Shed != "" {
		t.Errorf("top: %d %s", r.status, r.body)
	}
	// A client can only lower its priority, and is then shed with the lower.
	if r := w.ask(eu, "acme", askWhole, "X-Anabranch-Priority", "60"); r.status != http.StatusTooManyRequests {
		t.Errorf("top that asks for less: %d", r.status)
	}
	if got := s.requests.Load(); got != 1 {
		t.Errorf("the place saw %d requests", got)
	}
	n.shows(t, map[string]float64{
		"queue_refused_total{cause=planned,tier=standard}": 2, "queue_refused_total{cause=planned,tier=batch}": 1,
		"queue_refused_total{cause=planned,tier=top}": absent,
	})
	// What is shed is asked for all the same, or the plan would let it in again.
	report := n.Report(n.now())
	var told []int32
	for _, x := range report.GetDemand()[0].GetTiers() {
		told = append(told, x.GetPriority())
	}
	if d := report.GetDemand(); len(d) != 1 || len(told) != 3 || told[0] != -10 || told[1] != 50 || told[2] != 100 || report.GetFailures() != 0 {
		t.Errorf("demand %v, %d failures", d, report.GetFailures())
	}
	w.idle()
	stop := w.run()
	if charged := w.settled(stop, "q-tokens") + w.ledger.total("q-requests"); charged != 0 {
		t.Errorf("%d units are charged for what was shed", charged)
	}
}

func TestAPartIsShedByDraw(t *testing.T) {
	w, s := inEU(t, sheds(50, 0.25))
	n := w.routers[eu]
	draws := []uint64{0, math.MaxUint64 / 5, math.MaxUint64 / 3, math.MaxUint64}
	next := 0
	n.random = func() uint64 { return draws[next] }
	let := 0
	for next = range draws {
		if r := w.ask(eu, "globex", askWhole); r.status == http.StatusOK {
			let++
			if rec := w.record(eu, r); rec.Shed != "let in by draw, the plan sheds 25 % of standard" {
				t.Errorf("record %q", rec.Shed)
			}
		}
	}
	if let != 2 || s.requests.Load() != 2 {
		t.Errorf("%d are let in, and %d come", let, s.requests.Load())
	}
	n.shows(t, map[string]float64{"router_unshed_total{reason=drawn,tier=standard}": 2})
}

// A table that is older than what the router sees itself does not have it refuse what it has room for.
func TestARegionWithRoomShedsNothing(t *testing.T) {
	w, _ := inEU(t, sheds(50, 1))
	w.run()
	n := w.routers[eu]
	w.eventually("its place is measured", func() bool { return n.places.Cluster("eu-a").SignalAge(n.now()) >= 0 })
	w.eventually("there is room", func() bool {
		r := w.ask(eu, "globex", askWhole)
		rec := w.record(eu, r)
		return r.status == http.StatusOK && rec.Shed == "let in as this region has room, though the plan sheds 100 % of standard"
	})
	w.idle()
}

func TestAnOldPlanShedsNothing(t *testing.T) {
	w, _ := inEU(t, sheds(50, 1))
	n := w.routers[eu]
	for _, sight := range []subscribe.Sight{subscribe.Stale, subscribe.Alone} {
		n.o.Sight = func(time.Time) subscribe.Sight { return sight }
		r := w.ask(eu, "globex", askWhole)
		if rec := w.record(eu, r); r.status != http.StatusOK || rec.Shed != "let in as the plan is too old, which sheds 100 % of standard" {
			t.Errorf("%s: %d, %q", sight, r.status, rec.Shed)
		}
	}
	n.shows(t, map[string]float64{"router_unshed_total{reason=outdated,tier=standard}": 2})
}

// Quotas come first: what they deny is no demand, so that one tenant's excess has nobody else shed.
func TestWhatQuotasDenyIsNotShed(t *testing.T) {
	w, _ := inEU(t, sheds(50, 1))
	w.ledger.denies(true)
	n := w.routers[eu]
	r := w.ask(eu, "globex", askWhole)
	if e := r.problem(t); r.status != http.StatusTooManyRequests || e["origin"] != "quota" {
		t.Errorf("%d %v", r.status, e)
	}
	if d := n.Report(n.now()).GetDemand(); len(d) != 0 {
		t.Errorf("demand %v", d)
	}
}

// The router where a client came in has judged its request; the peer that it goes to does not again.
func TestPeersShedNothingByPlan(t *testing.T) {
	s := newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, endpoints: []*stub{newStub(t, answers)}},
		{id: "eu-a", region: eu, weight: 1, endpoints: []*stub{s}},
	}, func(pb *routerpb.Table) {
		sheds(100, 1)(pb)
		for _, list := range pb.Weights {
			if list.Source == us {
				list.Shed = nil
			}
		}
	})
	if r := w.ask(us, "acme", askWhole); r.status != http.StatusOK || r.header.Get("X-Anabranch-Region") != eu || s.requests.Load() != 1 {
		t.Errorf("%d %s %v", r.status, r.body, r.header)
	}
	if r := w.ask(eu, "acme", askWhole); r.status != http.StatusTooManyRequests || !strings.Contains(r.body, "shed") {
		t.Errorf("%d %s", r.status, r.body)
	}
}
