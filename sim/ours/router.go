package ours

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/dispatch"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/prefix"
	"anabranch/dataplane/queue"
	"anabranch/dataplane/route"
	"anabranch/dataplane/subscribe"
	"anabranch/dataplane/table"
	"anabranch/sim/world"
)

// router is one router, from its start to its death: what dataplane.Router connects, with the world for
// sockets and clocks.
type router struct {
	policy *ours
	number int
	place  int // of its region in the spec
	id     fleet.RouterID
	region fleet.RegionID
	born   time.Duration // true time

	// As of the call under way.
	now    time.Time // by the region's clock
	truth  time.Duration
	random *rand.Rand
	own    *rand.Rand // for what is not of requests; nil: not yet

	table    *table.Table
	contact  time.Time // when the control plane was last heard
	places   *endpoint.Registry
	affinity *route.Affinity
	budget   dispatch.Budget
	doubts   dispatch.Doubts
	sight    dispatch.Sight
	local    func(fleet.ClusterID, *table.Tenant) route.Place
	gate     *queue.Gate
	admit    *admit.Admitter
	guests   map[fleet.TenantID]*table.Tenant
	seats    [][]*seat // of the own region's clusters, by the places of cluster and pod in the spec
	far      []*question
	turn     uint64

	trips   map[uint64]*trip
	idle    []*trip // to be used again
	current *trip   // that Route or Pick has just decided for
	kept    *trip   // of another region's router, whose endpoint has failed it at keptAt
	keptAt  time.Duration
	waits   []*trip // in the gate, or resting, which so many do
	resting int
	open    []*try // without content, for as long as that matters
	field   field
	input   route.Input

	reported        time.Duration
	answers, faults uint64 // since the last report
	inFlight        int64
	allHash         []uint64
}

// field is what a choice of an endpoint is made from.
type field struct {
	endpoints  []*endpoint.Endpoint
	candidates []pick.Candidate
}

// newRouter starts a router at a true time. It has the newest table from its disk.
func newRouter(p *ours, number, place int, born time.Duration) *router {
	region := p.spec.Regions[place]
	ro := &router{
		policy: p, number: number, place: place, region: region.ID, born: born,
		id: fleet.RouterID(fmt.Sprintf("router-%d", number)), truth: born, now: epoch.Add(born + region.Skew),
		guests: map[fleet.TenantID]*table.Tenant{}, trips: map[uint64]*trip{}, reported: born,
	}
	clock := func() time.Time { return ro.now }
	chance := func() float64 { return ro.own.Float64() }
	ro.places = endpoint.New(endpoint.Options{
		Region: region.ID, Index: prefix.New(0, 0, ro.now), Now: clock, Random: chance,
	})
	ro.affinity = route.NewAffinity(ro.now)
	ro.sight = dispatch.Sight{Places: ro.places, Now: clock}
	ro.local = ro.sight.Of
	// Neither has anything to refuse in these options.
	ro.gate, _ = queue.New(queue.Options{Now: clock, Rand: chance})
	ro.admit, _ = admit.New(admit.Options{
		Stores: admit.Own(p.quotas), Run: fmt.Sprintf("%s@%d", ro.id, born), Region: region.ID, Inline: true, Now: clock, Rand: chance,
	})
	ro.contact = ro.now
	ro.apply(p.control.newest(place, born))
	return ro
}

// see takes in the moment of a call, and the newest table if there is one.
func (ro *router) see(v *world.View, truth time.Duration) {
	ro.truth, ro.now, ro.random = truth, epoch.Add(v.Now), v.Rand
	if ro.own == nil {
		ro.own = rand.New(rand.NewPCG(v.Rand.Uint64(), 0))
	}
	q := ro.policy.quotas
	q.now, q.away = epoch.Add(truth), !v.QuotaStore
}

// hear takes in what the control plane has pushed by now.
func (ro *router) hear() {
	if ro.policy.control.events.cut(ro.region, ro.truth) {
		return
	}
	ro.contact = ro.now
	if t := ro.policy.control.newest(ro.place, ro.truth); t.Ref.Newer(ro.table.Ref) {
		ro.apply(t)
	}
}

// apply puts a table in force.
func (ro *router) apply(t *table.Table) {
	first := ro.table == nil
	ro.table = t
	ro.places.Sync(t)
	ro.admit.Applied(t)
	has := func(id fleet.ClusterID) bool { return t.Clusters[id] != nil }
	ro.budget.Keep(has)
	ro.doubts.Keep(has)
	if first {
		ro.sit()
	}
}

// believes says how far the table's word on health can be trusted.
func (ro *router) believes() (stale, alone bool) {
	sight := subscribe.SightAt(ro.contact, ro.now)
	return sight != subscribe.Current, sight == subscribe.Alone
}

// tenant finds who a request is of.
func (ro *router) tenant(id fleet.TenantID) *table.Tenant {
	if t, ok := ro.table.Tenant(id); ok {
		return t
	}
	t := ro.guests[id]
	if t == nil {
		t = guest(id)
		ro.guests[id] = t
	}
	return t
}

// report tells the control plane what has been seen since the last time.
func (ro *router) report() {
	spec := ro.policy.spec
	if ro.truth-ro.reported < spec.Tell.Interval {
		return
	}
	ro.reported = ro.truth
	report := ro.places.Report(ro.now)
	report.Applied = ro.table.Ref.Proto()
	report.InFlight = ro.inFlight
	report.QuotaStoreOk = ro.admit.StoreOK()
	report.Requests, report.Failures = ro.answers, ro.faults
	ro.answers, ro.faults = 0, 0
	if spec.Tell.Loss > 0 && ro.own.Float64() < spec.Tell.Loss {
		return
	}
	ro.policy.control.tell(ro, report)
}

// lease makes the owner's turns of quotas.
func (ro *router) lease() {
	if len(ro.policy.spec.Quotas) > 0 || len(ro.policy.o.Resources) > 0 {
		ro.admit.Turn(context.Background(), ro.now)
	}
}
