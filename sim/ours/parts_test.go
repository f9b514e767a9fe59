package ours

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/dataplane/dispatch"
	"anabranch/failover"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// started is the policy of a spec.
func started(t *testing.T, spec *world.Spec, o Options) *ours {
	t.Helper()
	p := newOurs(o)
	if p.Start(spec.WithDefaults()); p.err != nil {
		t.Fatal(p.err)
	}
	return p
}

func TestTheFleetIsWhatTheSpecSays(t *testing.T) {
	spec := fleetOf(2, 3)
	spec.Regions[1].Zone, spec.Regions[1].Routers = "europe", 2
	spec.Clusters[0].Pods = append(spec.Clusters[0].Pods, world.Pods{Class: "h100", Count: 1, PriceMicroUSD: 9e6})
	spec.RTT = map[[2]fleet.RegionID]time.Duration{{"us", "eu"}: 68 * time.Millisecond}
	spec.Tenants = []world.Tenant{{ID: "initech", Residency: []string{"europe"}}}
	spec.Quotas = []world.Quota{{Tenant: "initech", Tokens: 1000, Burst: 50}}
	spec.Models[0].FirstToken, spec.Models[0].OutputWeight = 700*time.Millisecond, 4
	p := started(t, spec, Options{})
	tab := p.control.newest(0, 0)
	if rtt := tab.RTT("us", "eu"); rtt != 68*time.Millisecond || tab.Regions["eu"].Zone != "europe" || len(tab.Regions["eu"].PeerURLs) != 2 {
		t.Errorf("regions %+v, %v apart", tab.Regions["eu"], rtt)
	}
	var classes []string
	for _, e := range tab.Clusters["us-a"].Endpoints {
		classes = append(classes, e.Class)
	}
	if !slices.Equal(classes, []string{"a100-80", "a100-80", "h100"}) {
		t.Errorf("endpoints of classes %v", classes)
	}
	if m, _, ok := tab.Model(model); !ok || m.OutputWeight != 4 || tab.Class(m.ID).TTFTObjective != 700*time.Millisecond {
		t.Errorf("model %+v", m)
	}
	tenant, ok := tab.Tenant("initech")
	if !ok || tenant.Allows("us", "us") || !tenant.Allows("eu", "europe") || tenant.Priority != 100 {
		t.Errorf("tenant %+v", tenant)
	}
	if q := tab.Path("initech", model, 0); q == nil || len(q.Limits) != 1 || q.Limits[0].Amount != 1000 || q.Limits[0].Burst != 50 || q.Limits[0].Kind != "total-tokens" || q.Org.Share("eu") != 500_000 {
		t.Errorf("quotas %+v", q)
	}
	card, ok := p.control.resources.List(policy.KindRateCard)[0].Spec.(*policy.RateCardSpec)
	if !ok || len(card.GPUs) != 3 || card.GPUs[1].USDPerHour != 9 || card.GPUs[1].Class != priceClass("us-a", 1) {
		t.Errorf("rate card %+v", card)
	}
}

func TestOperatorsResourcesReplaceThoseOfTheSpec(t *testing.T) {
	spec := fleetOf(1)
	tier := written(policy.KindModel, model, 7, &policy.ModelSpec{OutputWeight: 11})
	class := written(policy.KindTrafficPolicy, "mine", 1, &policy.TrafficPolicySpec{TTFTObjectiveMs: 123})
	p := started(t, spec, Options{Resources: []*policy.Resource{tier, class}})
	tab := p.control.newest(0, 0)
	if m, _, _ := tab.Model(model); m.OutputWeight != 11 || tab.Class(m.ID).TTFTObjective != 123*time.Millisecond {
		t.Errorf("weight %v, objective %v", m.OutputWeight, tab.Class(m.ID).TTFTObjective)
	}
	if len(p.control.resources.List(policy.KindTrafficPolicy)) != 1 {
		t.Error("a policy is made for a model that one speaks of")
	}
	if tier.Metadata.Revision != 7 {
		t.Error("the caller's resource was changed")
	}
}

func TestWhatNoRouterWouldObeyIsSaid(t *testing.T) {
	bad := written(policy.KindTrafficPolicy, "bad", 1, &policy.TrafficPolicySpec{PickMode: "by-moonlight"})
	o := Options{Resources: []*policy.Resource{bad}}
	err := o.Validate(fleetOf(1))
	if err == nil || !strings.Contains(err.Error(), "pick_mode") {
		t.Errorf("error %v", err)
	}
	if err := (Options{}).Validate(fleetOf(1)); err != nil {
		t.Errorf("of nothing: %v", err)
	}
	r := run(t, fleetOf(1), steady(t, 5, 5*time.Second, "", 50), New(o), world.Options{Seed: 1})
	if by := count(r, 0, forever); by[world.Failed] != len(r.Records) {
		t.Errorf("without a table ends %v", by)
	}
}

func TestEventsHoldForTheirTime(t *testing.T) {
	all := events{
		{At: 10 * second, For: 5 * second, Kind: world.Partition, Region: "eu"},
		{At: 20 * second, Kind: world.Lost, Region: "us"},
		{At: 1 * second, For: 2 * second, Kind: world.Lost, Region: "ap"},
		{At: 10 * second, For: 5 * second, Kind: world.Blackout, Cluster: "eu-a"},
		{At: 10 * second, For: 5 * second, Kind: world.Price, Region: "eu", Factor: 3},
		{At: 12 * second, Kind: world.Price, Cluster: "eu-a", Factor: 2},
		{At: 12 * second, Kind: world.ScaleIn, Cluster: "us-a"},
	}
	for _, c := range []struct {
		now        time.Duration
		eu, us     bool
		dark       bool
		price      float64
		back, dead time.Duration
	}{
		{9 * second, false, false, false, 1, 3 * second, 0},
		{10 * second, true, false, true, 3, 3 * second, 0},
		{14 * second, true, false, true, 6, 3 * second, 0},
		{15 * second, false, false, false, 2, 3 * second, 0},
		{99 * second, false, true, false, 2, 3 * second, 0},
		{2 * second, false, false, false, 1, 0, 0},
	} {
		cluster := &world.Cluster{ID: "eu-a", Region: "eu"}
		if all.cut("eu", c.now) != c.eu || all.cut("us", c.now) != c.us || all.dark("eu", "eu-a", c.now) != c.dark || all.dark("eu", "eu-b", c.now) {
			t.Errorf("at %v the ways are others", c.now)
		}
		if got := all.price(cluster, c.now); got != c.price {
			t.Errorf("at %v it costs %v times as much, want %v", c.now, got, c.price)
		}
		if all.back("ap", c.now) != c.back || all.back("us", c.now) != c.dead {
			t.Errorf("at %v routers were started at %v and %v", c.now, all.back("ap", c.now), all.back("us", c.now))
		}
	}
	if !all.scales("us-a") || all.scales("eu-a") {
		t.Error("the wrong pods come and go")
	}
}

// The chain has a block for each KiB of text, and prompts that begin alike begin alike in it, but for
// tenants, models and adapters.
func TestBlocksAreThoseOfTheText(t *testing.T) {
	ro := started(t, fleetOf(1), Options{}).routers[0]
	ro.see(&world.View{Rand: rand.New(rand.NewPCG(1, 1)), QuotaStore: true}, 0)
	shared := make([]uint64, 100)
	for i := range shared {
		shared[i] = uint64(i) * 977
	}
	read := func(id uint64, tenant fleet.TenantID, adapter string, tokens int) []uint64 {
		r := ro.newTrip(&workload.Request{ID: id, Tenant: tenant, Model: model, Adapter: adapter, PromptTokens: tokens, OutputTokens: 1, Blocks: shared}, nil)
		if !ro.begin(r, nil) {
			t.Fatal("not taken in")
		}
		if r.prompt != int64(tokens) || r.load.PromptBytes != 4*tokens {
			t.Errorf("%d tokens count as %d of %d bytes", tokens, r.prompt, r.load.PromptBytes)
		}
		return r.blocks
	}
	a, b := read(1, "acme", "", 2000), read(2, "acme", "", 3000)
	if len(a) != 2000/256 || len(b) != 3000/256 {
		t.Fatalf("%d and %d blocks", len(a), len(b))
	}
	same := 0
	for same < len(a) && a[same] == b[same] {
		same++
	}
	if same != 100*16/256 { // what is shared, in whole blocks
		t.Errorf("%d blocks are the same", same)
	}
	for name, other := range map[string][]uint64{"tenant": read(3, "globex", "", 2000), "adapter": read(4, "acme", "lora", 2000)} {
		if other[0] == a[0] {
			t.Errorf("another %s has the same block", name)
		}
	}
	if len(read(5, "acme", "", 255)) != 0 {
		t.Error("less than a block has a beginning")
	}
}

func TestANewLeaderKnowsWhatWasCommitted(t *testing.T) {
	c := started(t, fleetOf(1, 1), Options{}).control
	now := c.clock()
	full := failover.Cluster{
		State: failover.Ramping, Since: now.Add(-time.Minute), Reason: "back", RampStep: 2, Relapses: 1,
		EvacuatedAt: now.Add(-time.Hour), LastRelapse: now.Add(-2 * time.Hour),
		BadSince: now, GoodSince: now, StepSince: now, HeldUntil: now, StepsBack: 3, Share: 0.1,
	}
	usA, euA := failover.Place{Cluster: "us-a", Model: "small"}, failover.Place{Cluster: "eu-a", Model: "small"}
	left := failover.Cluster{State: failover.FailingOver, Share: 0.5, RampStep: 4, Since: now}
	c.health = map[failover.Place]failover.Cluster{usA: full, euA: left}
	for _, k := range c.table.GetClusters() {
		k.HealthCap = 0.5
	}
	got := c.restored()
	us := full
	us.BadSince, us.GoodSince, us.StepSince, us.HeldUntil, us.StepsBack = time.Time{}, time.Time{}, time.Time{}, time.Time{}, 0
	if got[usA] != us {
		t.Errorf("a cluster that returns: %+v, want %+v", got[usA], us)
	}
	left.RampStep = 0
	if got[euA] != left {
		t.Errorf("a cluster that is left: %+v, want %+v", got[euA], left)
	}
	if config := plan.FailoverConfig(c.resources)(usA); config.TimeScale != 1 {
		t.Errorf("time scale %v", config.TimeScale)
	}
}

func TestOldTablesAreForgotten(t *testing.T) {
	c := started(t, fleetOf(1, 1), Options{}).control
	first := c.newest(1, 0)
	for range 100 {
		c.now += second
		if err := c.publish(c.table); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.tables) > 13 {
		t.Errorf("%d tables are kept", len(c.tables))
	}
	if got := c.newest(1, c.now); !got.Ref.Newer(first.Ref) || !c.tables[len(c.tables)-1].table.Ref.Newer(got.Ref) {
		t.Errorf("a far router has table %d at once, the newest is %d", got.Ref.Revision, c.revision)
	}
	if got := c.newest(0, c.now+second); got.Ref.Revision != c.revision {
		t.Errorf("a router near by still has table %d of %d", got.Ref.Revision, c.revision)
	}
}

func TestLateMeasurementsCountWhatWasThereThen(t *testing.T) {
	at := func(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }
	s := &seat{keeps: true}
	if s.then(at(5)) != 0 {
		t.Error("requests before any")
	}
	for ms, n := range []int64{1, 2, 3, 2} {
		s.counts = append(s.counts, inFlight{at(10 * ms), n})
	}
	for _, c := range []struct {
		ms   int
		want int64
	}{{5, 1}, {10, 2}, {29, 3}, {100, 2}} {
		if got := s.then(at(c.ms)); got != c.want {
			t.Errorf("%d in flight at %d ms, want %d", got, c.ms, c.want)
		}
	}
	if len(s.counts) != 1 {
		t.Errorf("%d counts are kept", len(s.counts))
	}
	if (&seat{}).then(at(0)) != -1 {
		t.Error("measurements in time count as late")
	}
}

func TestEndsAreJudgedAsAnswersAre(t *testing.T) {
	p := started(t, fleetOf(1, 1), Options{})
	ro := p.routers[0]
	near, far := ro.places.Cluster("us-a"), ro.places.Cluster("eu-a")
	for name, c := range map[string]struct {
		how      world.Outcome
		after    time.Duration
		pod      int
		hop      *hop // nil: an endpoint here
		outcome  failover.Outcome
		last     dispatch.Last
		anything bool
	}{
		"an answer":                      {how: world.Answered, outcome: failover.OK},
		"refused at once":                {how: world.Refused, after: world.LocalRTT, outcome: failover.ConnectFailure, last: dispatch.Last{Refused: true, Exempt: true}},
		"reset":                          {how: world.Refused, after: second, outcome: failover.ServerFault, last: dispatch.Last{Exempt: true}},
		"silence":                        {how: world.Silent, after: 5 * second, outcome: failover.Silence, last: dispatch.Last{Silent: true}},
		"broken":                         {how: world.Broken, outcome: failover.ServerFault},
		"left":                           {how: world.Left, outcome: failover.Ignored},
		"too long for it":                {how: world.Unfit, outcome: failover.Ignored},
		"no router there":                {how: world.Refused, after: second, pod: -1, hop: &hop{}, outcome: failover.ConnectFailure, last: dispatch.Last{Refused: true, Exempt: true}},
		"a router there that is full":    {how: world.Full, pod: -1, hop: &hop{}, outcome: failover.Ignored, last: dispatch.Last{Busy: true}},
		"a router there that has none":   {how: world.Full, pod: -1, hop: &hop{dead: true}, outcome: failover.ConnectFailure, last: dispatch.Last{Refused: true, Exempt: true}},
		"a pod there that breaks":        {how: world.Refused, pod: 0, hop: &hop{}, outcome: failover.ServerFault, last: dispatch.Last{Exempt: true}},
		"pods there that are not there":  {how: world.Refused, pod: 0, hop: &hop{unreachable: true}, outcome: failover.ConnectFailure, last: dispatch.Last{Refused: true, Exempt: true}},
		"a pod there that shows nothing": {how: world.Silent, pod: 0, hop: &hop{}, outcome: failover.ServerFault},
	} {
		y := &try{router: ro, cluster: near, end: near.Endpoints()[0], since: ro.now.Add(-c.after)}
		if c.hop != nil {
			y.cluster, y.end, y.hop = far, nil, c.hop
		}
		c.last.Cluster, c.last.Endpoint = y.cluster, y.end
		if o, last := y.judge(&world.Attempt{Pod: c.pod}, c.how); o != c.outcome || last != c.last {
			t.Errorf("%s: %v %+v, want %v %+v", name, o, last, c.outcome, c.last)
		}
	}
}

func TestReasonsAreToldWhereTheyAreWanted(t *testing.T) {
	spec := fleetOf(2, 2)
	spec.Tenants = []world.Tenant{{ID: "initech", Residency: []string{"eu"}}}
	r := run(t, spec, steady(t, 5, 10*time.Second, "initech", 50, workload.Origin{Region: "us"}), New(Options{}),
		world.Options{Seed: 1, Explain: func(id uint64) bool { return id < 5 }})
	if len(r.Explained) == 0 {
		t.Fatal("nothing is explained")
	}
	for id, steps := range r.Explained {
		var all strings.Builder
		for _, s := range steps {
			all.WriteString(s.Text + "\n")
		}
		for _, want := range []string{"eu-a: fallback", "100ms away", "not us-a: residency", "first token in", "prefill"} {
			if !strings.Contains(all.String(), want) {
				t.Errorf("request %d: no %q in\n%s", id, want, all.String())
			}
		}
	}
}

// Nothing is left of requests that have ended, however they did.
func TestNothingIsLeftAtTheEnd(t *testing.T) {
	spec := fleetOf(2, 2, 2)
	spec.Timeout = 4 * second
	spec.Clusters[0].Pods[0].Options.MaxSequences = 4
	spec.Events = []world.Event{
		{At: 5 * second, For: 5 * second, Kind: world.Hang, Cluster: "eu-a"},
		{At: 8 * second, For: 5 * second, Kind: world.Lost, Region: "ap"},
		{At: 12 * second, For: 5 * second, Kind: world.Partition, Region: "us"},
		{At: 15 * second, For: 5 * second, Kind: world.HalfPods, Cluster: "us-a"},
	}
	p := newOurs(Options{})
	r := run(t, spec, steady(t, 40, 30*time.Second, "", 50), p, world.Options{Seed: 1})
	if len(p.hops) > 0 {
		t.Errorf("%d requests are believed under way between regions", len(p.hops))
	}
	for _, ro := range p.routers {
		if len(ro.trips) > 0 || len(ro.waits) > 0 || ro.inFlight != 0 || ro.gate.Len() != 0 {
			t.Errorf("%s keeps %d requests, %d wait, %d count as in flight", ro.id, len(ro.trips), len(ro.waits), ro.inFlight)
		}
		for _, c := range spec.Clusters {
			if n := ro.places.Cluster(c.ID).InFlight(); n != 0 {
				t.Errorf("%s counts %d at %s", ro.id, n, c.ID)
			}
		}
	}
	if by := count(r, 0, forever); by[world.OK] < len(r.Records)*2/3 {
		t.Errorf("ends %v", by)
	}
}
