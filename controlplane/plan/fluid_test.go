package plan

import (
	"cmp"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/failover"
)

const (
	// requestWork is the work of one request of a scenario, idleTTFT what a first token takes on an idle
	// cluster, and waitAtMost how long requests wait before they give up.
	requestWork = 1000.0
	idleTTFT    = 100.0 // ms
	waitAtMost  = 10.0  // s
	// coldWork is what a request costs more than usual where nothing of its source is cached, and
	// fillsCache how many seconds of a cluster's full work fill its cache.
	coldWork   = 0.7
	fillsCache = 30.0
)

// fluid is a cluster as a fluid: work flows in by the shares in force, and out at most at its speed.
type fluid struct {
	region string
	// does is what it really does in work/s, claims what its router says instead, 0: the truth. Other is
	// the second of two values between which it changes every few seconds.
	does, claims, other float64
	every               time.Duration
	queue               float64            // work waiting
	warm                map[string]float64 // by source: the part of its prompts' prefixes that are cached
	// came and done are the work of the last second by source, as its clients count it, and ttft what they
	// waited for in ms without the way. Load is what came over what it does.
	came, done map[string]float64
	ttft, load float64
}

// speed at a time since the beginning.
func (f *fluid) speed(at time.Duration) float64 {
	if f.every > 0 && (at/f.every)%2 == 1 {
		return f.other
	}
	return f.does
}

// flow lets a second pass in which came flows in.
func (f *fluid) flow(at time.Duration, came map[string]float64) {
	speed := f.speed(at)
	f.came, f.done = came, map[string]float64{}
	all, useful := 0.0, 0.0
	for source, work := range came {
		all += work * (1 + coldWork*(1-f.warm[source]))
		useful += work
	}
	f.load = all / speed
	done := min(all+f.queue, speed)
	f.queue = min(f.queue+all-done, waitAtMost*speed)
	f.ttft = idleTTFT + 1000*f.queue/speed
	for source, work := range came {
		if all > 0 { // what waits is as mixed as what comes
			f.done[source] = done * work / all
		}
		f.warm[source] = min(f.warm[source]+f.done[source]/(fillsCache*speed), 1)
	}
}

// play is a scenario under way: the planner and the fluids that it steers.
type play struct {
	*bench
	fluids map[string]*fluid
	// ask is the demand of regions in work/s, and toward what it is on its way to.
	ask    map[string]float64
	ramps  map[string]ramp
	flips  map[string]flip
	silent map[string]bool
	lost   map[string]time.Time // regions whose clusters are evacuated, since when
	// class is the traffic class that a region asks in, if not the default one.
	class  map[string]string
	every  time.Duration // between reports
	late   time.Duration // until they arrive
	inbox  []signal.Observation
	record []second
}

// ramp is demand that rises or falls by so much a second until it is what it should be.
type ramp struct{ to, by float64 }

// flip is demand that is one of two values in turn.
type flip struct {
	a, b  float64
	every time.Duration
}

// second is what was in force and what became of it.
type second struct {
	shares  map[string]map[string]float64 // by source and cluster
	shed    map[string]map[int32]float64  // by source and priority
	reasons map[string]map[string]string
	why     map[string]string  // by source
	load    map[string]float64 // by cluster
	ttft    map[string]float64
}

// at is the time since the beginning.
func (p *play) at() time.Duration { return p.now.Sub(noon) }

func (p *play) classOf(source string) string {
	return cmp.Or(p.class[source], string(fleet.DefaultClass))
}

// tick lets a second pass: clients ask, work flows, routers report, and the leader plans.
func (p *play) tick() {
	p.now = p.now.Add(time.Second)
	came := map[string]map[string]float64{}
	for _, source := range sortedKeys(p.ask) {
		if r, ok := p.ramps[source]; ok {
			p.ask[source] = min(p.ask[source]+max(r.by, 0), max(r.to, p.ask[source]))
			p.ask[source] = max(p.ask[source]+min(r.by, 0), min(r.to, p.ask[source]))
		}
		if f, ok := p.flips[source]; ok {
			p.ask[source] = f.a
			if (p.at()/f.every)%2 == 1 {
				p.ask[source] = f.b
			}
		}
		for cluster, share := range sharesIn(p.table, "m", p.classOf(source), source) {
			if came[cluster] == nil {
				came[cluster] = map[string]float64{}
			}
			if share > 0 {
				came[cluster][source] = share * p.ask[source] * (1 - p.sheds(source))
			}
		}
	}
	for name, f := range p.fluids {
		if _, lost := p.lost[f.region]; lost {
			f.flow(p.at(), nil)
			continue
		}
		f.flow(p.at(), came[name])
	}
	if p.at()%p.every == 0 {
		p.tell()
	}
	for len(p.inbox) > 0 && !p.inbox[0].Received.After(p.now) {
		p.signals.Put(p.inbox[0])
		p.inbox = p.inbox[1:]
	}
	p.health, _ = failover.StepAll(p.health, Evidence(p.written, p.signals.Snapshot(p.now)), FailoverConfig(p.written), p.now)
	for name, f := range p.fluids {
		if since, lost := p.lost[f.region]; lost {
			p.health[at(name)] = failover.Cluster{State: failover.Evacuated, Since: since, Reason: "lost"}
		}
	}
	p.plan()
	p.note()
}

// sheds is the part of a region's demand that its routers shed, by the table.
func (p *play) sheds(source string) float64 {
	sum := 0.0
	for _, s := range p.shedOf(source) {
		sum += s.GetPart() * p.tiers[s.GetPriority()]
	}
	return sum
}

func (p *play) shedOf(source string) []*routerpb.Shed {
	for _, w := range p.table.GetWeights() {
		if w.GetClass() == p.classOf(source) && w.GetSource() == source {
			return w.GetShed()
		}
	}
	return nil
}

// tell puts the reports of all routers on their way: what they see of their own clusters, and what their
// requests met at others.
func (p *play) tell() {
	for _, home := range p.written.List(policy.KindRegion) {
		region := home.Metadata.Name
		if p.silent[region] {
			continue
		}
		r := &routerpb.Report{AtUnixMs: p.now.UnixMilli(), WindowMs: uint64(p.every.Milliseconds()), QuotaStoreOk: true}
		r.Demand = []*routerpb.DemandSignal{{
			Model: "m", Class: p.classOf(region), WorkPerS: p.ask[region], RequestsPerS: p.ask[region] / requestWork,
		}}
		for priority, part := range p.tiers {
			r.Demand[0].Tiers = append(r.Demand[0].Tiers, &routerpb.TierWork{Priority: priority, WorkPerS: part * p.ask[region]})
		}
		for _, name := range sortedKeys(p.fluids) {
			r.Clusters = append(r.Clusters, p.sight(region, name))
		}
		p.inbox = append(p.inbox, signal.Observation{
			Node: "n1", Hello: &routerpb.Hello{RouterId: "r-" + region, Region: region},
			Report: r, Received: p.now.Add(p.late), Connected: true,
		})
	}
}

func (p *play) sight(region, name string) *routerpb.ClusterSignal {
	f := p.fluids[name]
	s := &routerpb.ClusterSignal{Cluster: name, Model: "m", AgeMs: -1}
	var came float64
	for source, work := range f.came {
		if source == region || f.region == region {
			came += work
			s.LoadWork += f.done[source]
		}
	}
	s.Requests = uint64(came / requestWork * p.every.Seconds())
	if came > 0 {
		s.TtftP50Ms, s.TtftP95Ms = f.ttft, 1.2*f.ttft
	}
	if f.region != region {
		return s
	}
	s.Scraped, s.AgeMs, s.EndpointsTotal, s.EndpointsReady = true, 0, 1, 1
	speed := f.speed(p.at())
	s.Waiting, s.Running = f.queue/requestWork, min(f.load, 1)*64
	s.Saturation = min(f.load, 1) + f.queue/speed
	s.CapacityWork = speed
	if f.claims > 0 {
		s.CapacityWork = f.claims
		s.Waiting, s.Running, s.Saturation = 0, 64*f.load*speed/f.claims, f.load*speed/f.claims
	}
	return s
}

// note records the second.
func (p *play) note() {
	n := second{
		shares: map[string]map[string]float64{}, shed: map[string]map[int32]float64{}, reasons: map[string]map[string]string{},
		why: map[string]string{}, load: map[string]float64{}, ttft: map[string]float64{},
	}
	for _, w := range p.table.GetWeights() {
		source := w.GetSource()
		if w.GetClass() != p.classOf(source) {
			continue
		}
		n.shares[source], n.reasons[source] = sharesIn(p.table, "m", w.GetClass(), source), map[string]string{}
		for _, c := range w.GetClusters() {
			n.reasons[source][c.GetCluster()] = c.GetReason()
		}
		for _, s := range w.GetShed() {
			if n.shed[source] == nil {
				n.shed[source] = map[int32]float64{}
			}
			n.shed[source][s.GetPriority()] = s.GetPart()
		}
		n.why[source] = p.reasons["m/"+w.GetClass()+"/"+source]
	}
	for name, f := range p.fluids {
		n.load[name], n.ttft[name] = f.load, f.ttft
	}
	p.record = append(p.record, n)
}
