package ours

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/dataplane/table"
	"anabranch/failover"
	"anabranch/failover/shift"
	"anabranch/sim/world"
)

const (
	// lookEvery is how often the leader looks at the fleet, as controlplane/leader does.
	lookEvery = time.Second
	// warmShare of the weighted capacity must have been heard of, or warmAfter have passed, before a new
	// leader changes weights; as in controlplane/leader.
	warmShare = 0.8
	warmAfter = 10 * time.Second
	// commit is what it takes to commit a table and push it to a router next door.
	commit = 20 * time.Millisecond
)

// control is the control plane: its nodes know what any of them was told, and one of them leads. Its
// clock is that of true time.
type control struct {
	spec      *world.Spec
	events    events
	fixed     map[fleet.ClusterID]float64
	resources catalog
	signals   *signal.Store
	inbox     []letter // of reports, by arrival
	now       time.Duration
	next      time.Duration // when the leader looks again
	revision  uint64
	prices    *policy.RateCardSpec // as last published
	// table in force, and health as it was committed with it.
	table  *routerpb.Table
	health map[failover.Place]failover.Cluster
	term   *term // nil: nobody leads
	// tables that are on their way to routers, the newest last.
	tables []published
	// used are the tokens of answered requests by model, as the account of the last hour has them: runs are shorter.
	used map[fleet.ModelID]tokens
}

// tokens that requests used.
type tokens struct{ prompt, cached, output int64 }

// answered enters a request into the account.
func (c *control) answered(model fleet.ModelID, prompt, cached, output int) {
	if c.used == nil {
		c.used = map[fleet.ModelID]tokens{}
	}
	u := c.used[model]
	c.used[model] = tokens{u.prompt + int64(prompt), u.cached + int64(cached), u.output + int64(output)}
}

// cold is what the account says of a model's prefix caches, as in controlplane/capacity.
func (c *control) cold(model fleet.ModelID) (shift.Cold, bool) {
	weight := policy.DefaultOutputWeight
	if m, _, ok := c.tables[len(c.tables)-1].table.Model(string(model)); ok {
		weight = m.OutputWeight
	}
	u := c.used[model]
	return shift.Measured(u.prompt, u.cached, u.output, weight)
}

// term is what one leader knows.
type term struct {
	began  time.Time
	warm   bool
	health map[failover.Place]failover.Cluster
}

// letter is a router's report on its way.
type letter struct {
	at  time.Duration
	obs signal.Observation
}

// published is a table that was committed at a time.
type published struct {
	at    time.Duration
	table *table.Table
}

func newControl(spec *world.Spec, o Options) *control {
	c := &control{spec: spec, events: spec.Events, fixed: o.Fixed, resources: configure(spec, o.Resources), revision: 1}
	for _, r := range c.resources[policy.KindCluster] {
		if spec, ok := r.Spec.(*policy.ClusterSpec); ok && o.Drained[fleet.ClusterID(r.Metadata.Name)] {
			drained := *spec // the operator's own is not this run's to change
			drained.Drained = true
			r.Spec = &drained
		}
	}
	c.signals = signal.New(func() time.Time { return c.clock() })
	c.prices = rateCard(spec, 0)
	return c
}

// clock is the leader's.
func (c *control) clock() time.Time { return epoch.Add(c.now) }

// first makes the table that routers have from the beginning: the one of a fleet that is well and of
// which nothing is measured yet.
func (c *control) first() error {
	c.term = &term{began: c.clock()}
	out := plan.Compute(plan.Input{Resources: c.resources, Signals: c.signals.Snapshot(c.clock()), Now: c.clock(), Warm: true})
	if out.Table == nil {
		out.Table = &routerpb.Table{} // which is refused, and says why
	}
	return c.publish(out.Table)
}

// publish commits a table.
func (c *control) publish(pb *routerpb.Table) error {
	c.revision++
	pb.Ref = &routerpb.TableRef{ClusterId: "sim", Epoch: 1, Revision: c.revision}
	obeyed := pb
	if c.fixed != nil {
		obeyed = proto.CloneOf(pb)
		c.fix(obeyed)
	}
	t, err := table.Build(obeyed)
	if err != nil {
		return err
	}
	c.table = pb
	c.tables = append(c.tables, published{c.now, t})
	for len(c.tables) > 1 && c.tables[1].at+oldTable < c.now { // all have had the time to take a newer one
		c.tables = c.tables[1:]
	}
	return nil
}

// oldTable is how long a table is kept beside a newer one: longer than it takes to the farthest router.
const oldTable = 10 * time.Second

// fix puts fixed weights in the place of the planner's, within what health allows, and sheds nothing.
func (c *control) fix(pb *routerpb.Table) {
	clusters := map[string]*routerpb.Cluster{}
	for _, k := range pb.GetClusters() {
		clusters[k.GetId()] = k
	}
	for _, list := range pb.GetWeights() {
		list.Shed = nil
		sum := 0.0
		capOf := func(w *routerpb.ClusterWeight) float64 {
			return plan.HealthCap(clusters[w.GetCluster()], fleet.ModelID(list.GetModel()))
		}
		for _, w := range list.GetClusters() {
			sum += c.fixed[fleet.ClusterID(w.GetCluster())] * capOf(w)
		}
		if !(sum > 0) {
			continue
		}
		for _, w := range list.GetClusters() {
			w.Weight = c.fixed[fleet.ClusterID(w.GetCluster())] * capOf(w) / sum
		}
	}
}

// tell puts a report on its way.
func (c *control) tell(ro *router, report *routerpb.Report) {
	region := c.spec.Regions[ro.place].ID
	if c.events.cut(region, ro.truth) || c.events.dark(region, "", ro.truth) {
		return
	}
	report.Clusters = slices.DeleteFunc(report.Clusters, func(s *routerpb.ClusterSignal) bool {
		return ro.places.Cluster(fleet.ClusterID(s.GetCluster())).Region == region && c.events.dark("", fleet.ClusterID(s.GetCluster()), ro.truth)
	})
	at := ro.truth + c.spec.Tell.Delay
	c.inbox = append(c.inbox, letter{at, signal.Observation{
		Node: "node", Hello: &routerpb.Hello{RouterId: string(ro.id), Region: string(region)},
		Report: report, Received: epoch.Add(at), Connected: true,
	}})
}

// step brings the control plane to a time.
func (c *control) step(now time.Duration, leads bool) {
	if now < c.next && leads == (c.term != nil) {
		return
	}
	c.now, c.next = now, now+lookEvery
	n := 0
	for n < len(c.inbox) && c.inbox[n].at <= now {
		c.signals.Put(c.inbox[n].obs)
		n++
	}
	c.inbox = slices.Delete(c.inbox, 0, n)
	switch {
	case !leads:
		c.term = nil
		return
	case c.term == nil:
		c.term = &term{began: c.clock(), health: c.restored()}
	}
	c.reprice()
	c.look()
}

// reprice writes a new rate card when prices have changed.
func (c *control) reprice() {
	card := rateCard(c.spec, c.now)
	if card == nil || slices.Equal(card.GPUs, c.prices.GPUs) {
		return
	}
	c.prices = card
	c.revision++
	c.resources.put(written(policy.KindRateCard, cardName, c.revision, card))
}

// look is one turn of the leader's loop, as in controlplane/leader.
func (c *control) look() {
	now := c.clock()
	signals := c.signals.Snapshot(now)
	t := c.term
	if !t.warm {
		t.warm = now.Sub(t.began) >= warmAfter || plan.Covered(c.resources, signals, c.table) >= warmShare
	}
	if t.warm {
		t.health, _ = failover.StepAll(t.health, plan.Evidence(c.resources, signals), plan.FailoverConfig(c.resources), now)
	}
	out := plan.Compute(plan.Input{
		Resources: c.resources, Signals: signals, Previous: c.table, Health: t.health, Now: now, Warm: t.warm, Cold: c.cold,
	})
	if out.Table == nil {
		return
	}
	if out.Changed && c.publish(out.Table) != nil {
		return // refused, as by the state: the next look tries again
	}
	c.health = maps.Clone(t.health)
}

// restored is the health that a new leader begins with: what was committed, without the timers of the
// one before, as in controlplane/leader.
func (c *control) restored() map[failover.Place]failover.Cluster {
	config, clusters := plan.FailoverConfig(c.resources), map[fleet.ClusterID]*routerpb.Cluster{}
	for _, k := range c.table.GetClusters() {
		clusters[fleet.ClusterID(k.GetId())] = k
	}
	out := map[failover.Place]failover.Cluster{}
	for at, h := range c.health {
		kept := failover.Cluster{
			State: h.State, Since: h.Since, Reason: h.Reason, Relapses: h.Relapses,
			EvacuatedAt: h.EvacuatedAt, LastRelapse: h.LastRelapse, Share: plan.HealthCap(clusters[at.Cluster], at.Model),
		}
		if h.State == failover.Ramping {
			kept.RampStep = h.RampStep
		}
		out[at] = kept.Resume(config(at))
	}
	return out
}

// newest is the newest table that has reached a region by now.
func (c *control) newest(region int, now time.Duration) *table.Table {
	way := commit + c.spec.Between(c.spec.Regions[0].ID, c.spec.Regions[region].ID)/2
	for i := len(c.tables) - 1; i > 0; i-- {
		if c.tables[i].at+way <= now {
			return c.tables[i].table
		}
	}
	return c.tables[0].table
}
