package dispatch

import (
	"math"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/route"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

// here is a router of us, where a (a1, a2, a3) and b (b1) are, with f in eu, at a time that the test sets.
type here struct {
	Sight
	t       *testing.T
	now     time.Time
	table   *table.Table
	targets []route.Target
}

var load = &endpoint.Load{Model: "m", PromptTokens: 1000, PromptBytes: 4000, Stream: true}

func newHere(t *testing.T) *here {
	t.Helper()
	endpoints := func(ids ...string) (out []*routerpb.Endpoint) {
		for _, id := range ids {
			out = append(out, &routerpb.Endpoint{Id: id, Url: "http://" + id, Class: "h100"})
		}
		return out
	}
	tab, err := table.Build(&routerpb.Table{
		Ref:     &routerpb.TableRef{ClusterId: "c", Revision: 1},
		Regions: []*routerpb.Region{{Id: "us", RttMs: map[string]float64{"eu": 80}}, {Id: "eu", PeerUrls: []string{"https://eu"}}},
		Models:  []*routerpb.Model{{Id: "m"}},
		Clusters: []*routerpb.Cluster{
			{Id: "a", Region: "us", Kind: "endpoints", Models: []string{"m"}, HealthCap: 1, Endpoints: endpoints("a1", "a2", "a3")},
			{Id: "b", Region: "us", Kind: "endpoints", Models: []string{"m"}, HealthCap: 1, Endpoints: endpoints("b1")},
			{Id: "f", Region: "eu", Kind: "endpoints", Models: []string{"m"}, HealthCap: 1, Endpoints: endpoints("f1")},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &here{t: t, now: time.Unix(1_764_400_000, 0), table: tab}
	h.Now = func() time.Time { return h.now }
	h.Places = endpoint.New(endpoint.Options{Region: "us", Now: h.Now, Random: func() float64 { return 0.5 }})
	h.Places.Sync(tab)
	for _, id := range []fleet.ClusterID{"a", "b", "f"} {
		c := tab.Clusters[id]
		h.targets = append(h.targets, route.Target{Cluster: c, Region: c.Region, Remote: c.Region != "us"})
	}
	return h
}

func (h *here) cluster(id fleet.ClusterID) *endpoint.Cluster { return h.Places.Cluster(id) }

func (h *here) endpoint(id fleet.ClusterID, i int) *endpoint.Endpoint {
	return h.cluster(id).Endpoints()[i]
}

// loaded shows so many requests in a batch of ten at all endpoints of a cluster.
func (h *here) loaded(id fleet.ClusterID, waiting, running float64) {
	for _, e := range h.cluster(id).Endpoints() {
		e.Observe(&endpoint.Observation{
			At: h.now, InFlight: -1, Waiting: waiting, Running: running, MaxBatch: 10, Generated: -1, PrefixAsked: -1,
		}, h.now)
	}
	h.now = h.now.Add(50 * time.Millisecond) // what is known of load is looked at anew
}

// fails makes requests to an endpoint, or by way of a cluster's router, end like that.
func (h *here) fails(id fleet.ClusterID, e *endpoint.Endpoint, r endpoint.Result, times int) {
	for range times {
		if e != nil {
			e.Begin(*load, h.now).Done(r, h.now)
		} else {
			h.cluster(id).Hop(*load, h.now).Done(r, h.now)
		}
	}
}

// walked is the order of targets that a request goes down when each attempt ends like that.
func (h *here) walked(end func(*Last), shut func(id fleet.ClusterID) bool) (order string) {
	var trail Trail
	var walk Walk
	for made := 0; !trail.Enough(made); {
		i := walk.Next(&trail, load, h.targets, h.Places, h.now)
		if i < 0 {
			return order
		}
		target := &h.targets[i]
		cluster := h.cluster(target.Cluster.ID)
		last := Last{Cluster: cluster}
		if target.Remote {
			if trail.WasIn(target.Cluster.ID) {
				walk.Shut(i, len(h.targets))
				continue
			}
			trail.Hopped = append(trail.Hopped, target.Cluster.ID)
		} else {
			ends, _ := trail.Candidates(cluster, load, h.now, nil, nil)
			if len(ends) == 0 || shut != nil && shut(target.Cluster.ID) {
				walk.Shut(i, len(h.targets))
				continue
			}
			last.Endpoint = ends[0]
			trail.Tried = append(trail.Tried, ends[0])
		}
		walk.Taken()
		order += string(target.Cluster.ID)
		made++
		end(&last)
		trail.Last = last
		if last.Unknown {
			trail.Unknown++
		}
		walk.Failed(len(h.targets))
	}
	return order
}

func TestTwoOfAClusterAndThenTheNext(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(*Last)
		set   func(*here)
		shut  func(fleet.ClusterID) bool
		order string
	}{
		"refused connections":              {func(l *Last) { l.Refused = true }, nil, nil, "aabfa"},
		"the budget of a cluster is spent": {func(*Last) {}, nil, func(id fleet.ClusterID) bool { return id == "a" }, "bf"},
		"busy: the rest of the region before another": {
			func(l *Last) { l.Busy = true }, func(h *here) {
				h.targets[1], h.targets[2] = h.targets[2], h.targets[1]
			}, nil, "aabaf",
		},
		"nobody knows what is asked for":      {func(l *Last) { l.Unknown = true }, nil, nil, "ab"},
		"silence where nothing is in doubt":   {func(l *Last) { l.Silent = true }, nil, nil, "aabfa"},
		"a cluster that is dead is not tried": {func(*Last) {}, func(h *here) { h.fails("b", h.endpoint("b", 0), endpoint.Result{Outcome: failover.ConnectFailure}, 3) }, nil, "aafa"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHere(t)
			if c.set != nil {
				c.set(h)
			}
			if got := h.walked(c.end, c.shut); got != c.order {
				t.Errorf("went %s, want %s", got, c.order)
			}
		})
	}
}

// Siblings whose own requests wait for nothing are no place to go after silence, if there is another.
func TestAfterSilenceThoseInDoubtComeSecond(t *testing.T) {
	h := newHere(t)
	for i := range 3 {
		h.fails("a", h.endpoint("a", i), endpoint.Result{Outcome: failover.Silence}, 1)
	}
	if got := h.walked(func(l *Last) { l.Silent = true }, nil); got != "abfaa" {
		t.Errorf("went %s", got)
	}
}

func TestAdaptersAreLookedForFurther(t *testing.T) {
	trail := Trail{Unknown: 2}
	if !trail.Enough(2) {
		t.Error("a model that two places don't know is looked for on")
	}
	trail.Adapter = true
	if trail.Enough(5) || !trail.Enough(MaxAttempts) {
		t.Error("an adapter is not looked for as often as any")
	}
}

func TestWhatCostsNoBudget(t *testing.T) {
	h := newHere(t)
	a, one, two := h.cluster("a"), h.endpoint("a", 0), h.endpoint("a", 1)
	at := func(l Last) Last {
		l.Cluster, l.Endpoint = a, one
		return l
	}
	for name, c := range map[string]struct {
		last Last
		made int
		want bool
	}{
		"a server's fault":                {at(Last{}), 1, false},
		"silence":                         {at(Last{Silent: true}), 1, false},
		"a first reset":                   {at(Last{Exempt: true}), 1, true},
		"a second reset":                  {at(Last{Exempt: true}), 2, false},
		"refused again and again":         {at(Last{Exempt: true, Refused: true}), 4, true},
		"never sent":                      {at(Last{Unsent: true}), 2, true},
		"not known there":                 {at(Last{Unknown: true}), 2, true},
		"a sibling of a busy one":         {at(Last{Busy: true}), 2, true},
		"of another cluster than the one": {Last{Cluster: h.cluster("b"), Endpoint: h.endpoint("b", 0), Busy: true}, 2, false},
	} {
		trail := Trail{Last: c.last}
		if got := trail.Exempt(a, two, c.made, h.now); got != c.want {
			t.Errorf("%s: exempt %t", name, got)
		}
	}
	h.fails("a", one, endpoint.Result{Outcome: failover.ConnectFailure}, 3)
	trail := Trail{Last: at(Last{Silent: true})}
	if !trail.Last.Dead() || !trail.Exempt(a, two, 3, h.now) {
		t.Error("who flees from the dead pays for it")
	}
	if (&Last{}).Dead() {
		t.Error("nowhere is dead")
	}
}

func TestRoomIsThatOfTheLeastFull(t *testing.T) {
	h := newHere(t)
	near := h.targets[:2]
	if got := h.Room(near, "acme"); !math.IsNaN(got) {
		t.Errorf("%v, and nothing is known", got)
	}
	h.loaded("a", 0, 7.5)
	h.loaded("b", 0, 5)
	if got := h.Room(near, "acme"); got != 0.5 {
		t.Errorf("room is %v", got)
	}
	if got := h.Room(h.targets, "acme"); !math.IsNaN(got) {
		t.Errorf("%v, and nothing is known of the one abroad", got)
	}
	h.fails("b", h.endpoint("b", 0), endpoint.Result{Busy: true}, 1)
	h.loaded("b", 0, 5)
	if got := h.Room(near, "acme"); got != 0.75 {
		t.Errorf("with a busy one room is %v", got)
	}
	if got := h.Room(near[1:], "acme"); got != 1 {
		t.Errorf("where all are busy room is %v", got)
	}
	h.fails("b", h.endpoint("b", 0), endpoint.Result{Outcome: failover.ConnectFailure}, 3)
	if got := h.Room(near[1:], "acme"); !math.IsInf(got, 1) {
		t.Errorf("where all are dead room is %v", got)
	}
	if got := h.Room([]route.Target{{Cluster: &table.Cluster{ID: "gone"}}}, "acme"); !math.IsNaN(got) {
		t.Errorf("of a cluster that is gone: %v", got)
	}
}

func TestALaneIsAModelAndASetOfClusters(t *testing.T) {
	h := newHere(t)
	h.loaded("a", 0, 7.5)
	both, none := h.Lane("m", h.targets[:2])
	turned, _ := h.Lane("m", []route.Target{h.targets[1], h.targets[0]})
	other, _ := h.Lane("n", h.targets[:2])
	one, slots := h.Lane("m", h.targets[:1])
	if both != turned || both == other || both == one || none != 0 || slots != 30 {
		t.Errorf("lanes %x %x %x %x, slots %v and %v", both, turned, other, one, none, slots)
	}
	if Cost(100, 50) != 200 {
		t.Errorf("cost %d", Cost(100, 50))
	}
}

func TestAPeerIsToldOfLoadAndNotOfBusyPlaces(t *testing.T) {
	h := newHere(t)
	if _, ok := h.Told("a"); ok {
		t.Error("told what isn't known")
	}
	h.loaded("a", 0, 7.5)
	if s, ok := h.Told("a"); !ok || s != 0.75 {
		t.Errorf("%v, %t", s, ok)
	}
	for i := range 3 {
		h.fails("a", h.endpoint("a", i), endpoint.Result{Busy: true}, 1)
	}
	for _, id := range []fleet.ClusterID{"a", "f", "gone"} {
		if _, ok := h.Told(id); ok {
			t.Errorf("told of %s", id)
		}
	}
	if Full(true, true, 0.9) || !Full(true, true, 1) || !Full(true, false, 0) || Full(false, true, 2) {
		t.Error("a peer that has room for others is full for all, or the other way round")
	}
}

// A full first place is compared by what the prompt takes at each.
func TestAPromptCountsWhereTheFirstIsFull(t *testing.T) {
	h := newHere(t)
	h.loaded("a", 40, 10)
	h.loaded("b", 0, 1)
	m, _, _ := h.table.Model("m")
	for _, prompt := range []int64{1, 100_000} {
		l := *load
		l.PromptTokens = prompt
		var c route.Choice
		in := route.Input{
			Table: h.table, Region: "us", Model: m, Class: h.table.Class("m"), Only: []fleet.ClusterID{"a", "b"}, Key: 1, Local: h.Of,
		}
		for in.Key = 1; ; in.Key++ { // one that draws the full one
			if c.Fill(&in); c.Overfull(&in) {
				break
			}
		}
		in.Local = h.Of
		h.Choose(&c, &in, &l)
		if c.Targets[0].Cluster.ID != "b" || c.Targets[0].Place.Prefill < time.Duration(prompt)*100*time.Microsecond {
			t.Errorf("%s first, with a prefill of %v", c.Targets[0].Cluster.ID, c.Targets[0].Place.Prefill)
		}
	}
	if got := h.Of("gone", nil); got != (route.Place{}) {
		t.Errorf("of a cluster that is gone: %+v", got)
	}
}

func TestCandidatesLeaveOutWhatWasTried(t *testing.T) {
	h := newHere(t)
	var trail Trail
	had := []*endpoint.Endpoint{h.endpoint("b", 0)}
	for left := 3; left >= 0; left-- {
		ends, as := trail.Candidates(h.cluster("a"), load, h.now, had, make([]pick.Candidate, 1))
		if len(ends) != 1+left || len(as) != 1+left || ends[0] != had[0] {
			t.Fatalf("%d candidates, want %d more than one", len(ends), left)
		}
		if left > 0 {
			trail.Tried = append(trail.Tried, ends[1])
		}
	}
	trail.Again()
	if ends, _ := trail.Candidates(h.cluster("a"), load, h.now, nil, nil); len(ends) != 3 {
		t.Errorf("%d candidates after a wait", len(ends))
	}
}

// unanswered makes requests of two tenants at a cluster go without an answer until it is left alone.
func (h *here) unanswered(id fleet.ClusterID) {
	h.t.Helper()
	for n := range 100 {
		if h.cluster(id).Answering("acme", h.now).Unanswered {
			return
		}
		e := h.endpoint(id, n%len(h.cluster(id).Endpoints()))
		l := *load
		l.Tenant = []fleet.TenantID{"acme", "globex"}[n%2]
		e.Begin(l, h.now).Done(endpoint.Result{Outcome: failover.Silence}, h.now)
		e.Observe(&endpoint.Observation{At: h.now, InFlight: -1, MaxBatch: 10, Generated: -1, PrefixAsked: -1}, h.now)
		if e.ProbeDue(h.now, 0.5) {
			e.Probed(failover.OK, "", h.now, h.now)
		}
		h.now = h.now.Add(200 * time.Millisecond)
	}
	h.t.Fatalf("%s is used on", id)
}

func TestWhereRequestsGoUnansweredIsLeftForTheEnd(t *testing.T) {
	h := newHere(t)
	h.unanswered("a")
	if got := h.walked(func(*Last) {}, nil); got != "bfaaa" {
		t.Errorf("went %s", got)
	}
	if got := h.walked(func(l *Last) { l.Busy = true }, nil); got != "bf" {
		t.Errorf("from those that are alive and full it went %s", got)
	}
	if p := h.Of("a", &table.Tenant{ID: "acme"}); !p.Unanswered || p.Ejected {
		t.Errorf("evidence %+v", p)
	}
	h.loaded("a", 0, 2.5)
	h.loaded("b", 0, 7.5)
	if got := h.Room(h.targets[:2], "acme"); got != 0.75 {
		t.Errorf("room is %v, of the one that answers nobody", got)
	}
	if got := h.Room(h.targets[:1], "acme"); got != 0.25 {
		t.Errorf("room is %v where no other is left", got)
	}
	trail := Trail{Tenant: "acme", Last: Last{Cluster: h.cluster("a"), Endpoint: h.endpoint("a", 0), Silent: true}}
	if !trail.Exempt(h.cluster("b"), h.endpoint("b", 0), 3, h.now) || trail.Exempt(h.cluster("a"), h.endpoint("a", 1), 3, h.now) {
		t.Error("who leaves such a place pays for it, or who stays does not")
	}
}

func TestOneAtATimeMayTryWhereRequestsGoUnanswered(t *testing.T) {
	h := newHere(t)
	h.unanswered("a")
	h.now = h.now.Add(time.Minute)
	h.targets[0].Reason = route.ByTrial
	first := func(trail Trail) int {
		var walk Walk
		trail.Tenant = "acme"
		return walk.Next(&trail, load, h.targets, h.Places, h.now)
	}
	if got := first(Trail{Copy: true}); got != 1 {
		t.Errorf("a copy goes to target %d", got)
	}
	if a, b := first(Trail{}), first(Trail{}); a != 0 || b != 1 {
		t.Errorf("the first goes to target %d, the second to %d", a, b)
	}
}

func TestPlacesThatHaveLeftTheTableAreNotWaitedFor(t *testing.T) {
	h := newHere(t)
	if !h.Stays(h.targets) || !h.Stays(h.targets[1:]) {
		t.Error("those of the table are gone")
	}
	gone := []route.Target{{Cluster: &table.Cluster{ID: "gone"}}}
	if h.Stays(gone) || h.Stays(nil) || !h.Stays(append(gone, h.targets[0])) {
		t.Error("what is gone is there, or keeps others from being so")
	}
}

func TestLongPromptsAreKeptNearAndCounted(t *testing.T) {
	h := newHere(t)
	tab, err := table.Build(&routerpb.Table{
		Ref:     &routerpb.TableRef{ClusterId: "c", Revision: 2},
		Regions: []*routerpb.Region{{Id: "us", RttMs: map[string]float64{"eu": 80}}, {Id: "eu", PeerUrls: []string{"https://eu"}}},
		Models:  []*routerpb.Model{{Id: "m"}},
		Classes: []*routerpb.Class{{Id: "interactive", Spill: true}},
		Clusters: []*routerpb.Cluster{
			{Id: "a", Region: "us", Kind: "endpoints", Models: []string{"m"}, HealthCap: 1, Endpoints: []*routerpb.Endpoint{{Id: "a1", Url: "http://a1", Class: "h100"}}},
			{Id: "f", Region: "eu", Kind: "endpoints", Models: []string{"m"}, HealthCap: 1, Endpoints: []*routerpb.Endpoint{{Id: "f1", Url: "http://f1", Class: "h100"}}},
		},
		Weights: []*routerpb.Weights{{Model: "m", Class: "interactive", Source: "us", Clusters: []*routerpb.ClusterWeight{{Cluster: "a", Weight: 0.6}, {Cluster: "f", Weight: 0.4}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Places.Sync(tab)
	model, _, _ := tab.Model("m")
	var work, all float64
	kept := 0
	var c route.Choice
	for i := range uint64(6000) {
		h.now = h.now.Add(20 * time.Millisecond)
		l := endpoint.Load{Model: "m", PromptTokens: 500, Stream: true}
		if i%12 == 0 {
			l.PromptTokens = 8000
		}
		in := route.Input{Table: tab, Region: "us", Model: model, Class: tab.Class("m"), Key: i * 0x9e3779b97f4a7c15, Local: h.Of}
		h.Choose(&c, &in, &l)
		if i < 1000 {
			continue
		}
		to, done := &c.Targets[0], model.Work(l.PromptTokens, answerGuess)
		if all += done; to.Cluster.ID == "a" {
			work += done
		}
		switch {
		case l.PromptTokens == 500 && to.Reason != route.ByWeight:
			t.Fatalf("a short prompt goes to %s by %s", to.Cluster.ID, to.Reason)
		case l.PromptTokens == 8000 && to.Cluster.ID != "a":
			t.Fatalf("a long prompt goes to %s by %s", to.Cluster.ID, to.Reason)
		case to.Reason == route.ByNearness:
			kept++
		}
	}
	if got := work / all; math.Abs(got-0.6) > 0.03 || kept < 50 {
		t.Errorf("home got %.3f of the work, want 0.6; %d long prompts were kept from going away", got, kept)
	}
	// A request that has come from elsewhere is counted there.
	in := route.Input{Table: tab, Region: "us", Model: model, Class: tab.Class("m"), Local: h.Of, Hop: true}
	h.Choose(&c, &in, load)
	if in.Leaning != nil || len(c.Targets) != 1 {
		t.Errorf("a hop leans, or leaves: %v", c.Targets)
	}
}
