package plan

import (
	"fmt"
	"time"

	"anabranch/api/fleet"
)

// mostReplicas bounds what is advised for one cluster.
const mostReplicas = 100_000

// advise finds how many replicas a cluster needs for the worst of its loads.
func (p *placement) advise(s *site) ClusterAdvice {
	at, known := p.objectives[s.id]
	if !known {
		at = objective{p.world.speaker(s.spec).TTFTObjectiveMs, fleet.DefaultClass}
	}
	a := ClusterAdvice{
		Cluster: s.id, Region: s.region, Replicas: p.in.endpoints(s), ObjectiveMs: at.ms, Class: at.class,
		Measured: p.in.measured(s), Without: Loss{}.String(),
	}
	least := 0
	if p.needed[s.id] {
		least = 1
	}
	a.Needed, a.roomy = least, least
	all := 0.0
	for _, m := range s.models() {
		all += s.capacity[m]
	}
	lag := 1.0
	if p.o.Calm != nil {
		lag = p.o.Calm.lag(p.in.Now, s.id, a.Replicas, all/float64(a.Replicas))
	}
	perReplica := func(m fleet.ModelID) float64 { return lag * s.capacity[m] / float64(a.Replicas) }
	for i, l := range p.loads[s.id] {
		busy, work := 0.0, 0.0 // replicas that would be busy all the time
		for m, x := range l.work {
			busy, work = busy+x/perReplica(m), work+x
		}
		n := p.enough(busy, at.ms)
		a.roomy = max(a.roomy, p.enough(busy*(1+lowerBand), at.ms))
		if i == 0 || n > a.Needed {
			a.Needed, a.WorkPerS, a.ColdPerS, a.Without = max(n, a.Needed), work, l.cold, l.lost.String()
			a.Use = busy / float64(a.Replicas)
			if busy > 0 {
				a.ReplicaPerS = work / busy
			}
		}
	}
	if a.ReplicaPerS == 0 {
		for m := range s.capacity {
			a.ReplicaPerS = max(a.ReplicaPerS, perReplica(m))
		}
	}
	a.MostUse, _ = promptnessOf(a.Needed).within(at.ms)
	switch {
	case s.spec.Drained:
		a.keep = "drained by an operator"
	case s.cap() < 1:
		a.keep = fmt.Sprintf("%s at %g %% of its share", nameOf(s.whole.State), 100*s.cap())
	}
	if a.keep != "" {
		a.Needed, a.roomy = max(a.Needed, a.Replicas), max(a.roomy, a.Replicas)
	}
	a.Wanted = a.Needed
	return a
}

// enough is the least number of replicas with which so many busy ones' work is done within an objective.
func (p *placement) enough(busy, objectiveMs float64) int {
	if busy <= 0 {
		return 0
	}
	holds := func(n int) bool {
		most, _ := promptnessOf(n).within(objectiveMs)
		return busy <= most*float64(n)
	}
	high := 1
	for !holds(high) && high < mostReplicas {
		high *= 2
	}
	low := high / 2 // does not hold
	for high-low > 1 {
		if middle := (low + high) / 2; holds(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return min(high, mostReplicas)
}

// finish tells the price and the reasons of what is wanted.
func (p *placement) finish(s *site, model fleet.ModelID, a *ClusterAdvice, held string) {
	if held != "" {
		a.Wanted = max(a.Wanted, a.Replicas)
	}
	more := a.Wanted - a.Replicas
	bill := p.world.prices(s).Bill(string(s.region), s.spec.Bought(), p.in.Now, p.in.Now.Add(time.Hour))
	if more < 0 { // what is paid anyway is not saved
		bill = p.world.prices(s).ClusterHour(string(s.region), s.spec.Bought())
	}
	a.ChangePerHour = Money{}
	if more != 0 {
		a.ChangePerHour = Money{
			USD: bill.Cost.USD() * float64(more) / float64(a.Replicas), Estimate: bill.Estimate, Unpriced: bill.Unpriced || len(s.spec.GPUs) == 0,
		}
	}
	a.Reasons = append([]string{p.why(s, model, a)}, a.Reasons...)
	if held != "" {
		a.Reasons = append(a.Reasons, "not lowered: "+held)
	} else if a.keep != "" {
		a.Reasons = append(a.Reasons, "not lowered: "+a.keep)
	}
	if _, holds := promptnessOf(a.Wanted).within(a.ObjectiveMs); !holds {
		a.Reasons = append(a.Reasons, fmt.Sprintf("a first token takes about %d ms by itself: replicas can see to it that no more than a tenth of the objective is waited", serviceMs))
	}
	if !a.Measured {
		a.Reasons = append(a.Reasons, "what a replica does is not measured, but believed")
	}
}

// why says what the number of replicas comes from.
func (p *placement) why(s *site, model fleet.ModelID, a *ClusterAdvice) string {
	with := func(n int) float64 { return a.Use * float64(a.Replicas) / float64(max(n, 1)) }
	at := fmt.Sprintf("at %.2f of capacity", with(a.Replicas))
	if a.Without != (Loss{}).String() {
		at = fmt.Sprintf("without %s it would be at %.2f of capacity", a.Without, with(a.Replicas))
	}
	limit := fmt.Sprintf("objective %g ms needs ≤ %.2f", a.ObjectiveMs, a.MostUse)
	switch {
	case a.Wanted == 0:
		return "0: " + p.elsewhere(s, model)
	case a.Wanted > a.Replicas:
		return fmt.Sprintf("%d more: %s, %s", a.Wanted-a.Replicas, at, limit)
	case a.Wanted < a.Replicas && a.Use == 0:
		return fmt.Sprintf("%d fewer would do: it stands ready, and nothing is asked for", a.Replicas-a.Wanted)
	case a.Wanted < a.Replicas:
		return fmt.Sprintf("%d fewer would still hold: at %.2f of capacity with %d, %s", a.Replicas-a.Wanted, with(a.Wanted), a.Wanted, limit)
	}
	return fmt.Sprintf("as many as there are: %s, %s", at, limit)
}

// elsewhere says why a cluster is not needed for a model.
func (p *placement) elsewhere(s *site, model fleet.ModelID) string {
	best, mine, where := 0.0, (*route)(nil), (*route)(nil)
	for _, d := range p.demands {
		if d.model != model {
			continue
		}
		for _, r := range d.routes {
			if r.site.id == s.id && (mine == nil || d.source == s.region) {
				mine = r
			}
			if x := p.outlookOf(d).CountedPerS * r.share; r.site.id != s.id && (x > best || where == nil && r.share > 0) {
				best, where = x, r
			}
		}
	}
	switch {
	case mine == nil || where == nil:
		return "no demand can reach it"
	case mine.barred != "":
		return mine.barred
	case p.world.marginal(where.site, model) < p.world.marginal(s, model):
		return "the model is served cheaper in " + string(where.site.region)
	}
	return "the model is served nearer to its clients, or as policies wish, in " + string(where.site.region)
}
