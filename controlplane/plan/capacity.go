package plan

import (
	"cmp"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/failover/shift"
)

// Advice is how many replicas a model needs where, so that the objectives of its classes hold.
type Advice struct {
	Model fleet.ModelID `json:"model"`
	At    time.Time     `json:"at"`
	// Survive is the loss for which there is to be enough: none, cluster or region.
	Survive string `json:"survive"`
	// Demand that is counted with, and what is known of it.
	Demand DemandOutlook `json:"demand"`
	// Replicas that there are and that are wanted, of all Clusters together. Those of clusters that serve other
	// models too are shared with these.
	Replicas int `json:"replicas"`
	Wanted   int `json:"wanted"`
	// ChangePerHour is what the hour would cost more with those that are wanted; below 0: less.
	ChangePerHour Money `json:"changePerHour"`
	// Held says why nothing is lowered whatever the load; empty: it may be.
	Held string `json:"held,omitempty"`
	// Clusters that serve the model, that somebody can scale, and whose replicas are known, by name.
	Clusters []ClusterAdvice `json:"clusters"`
}

// ClusterAdvice is how many replicas one cluster needs, of all its models together: its endpoints serve them all.
type ClusterAdvice struct {
	Cluster  fleet.ClusterID `json:"cluster"`
	Region   fleet.RegionID  `json:"region"`
	Replicas int             `json:"replicas"`
	Wanted   int             `json:"wanted"`
	// Needed is what the load asks for at this moment; Wanted is above it while that may pass, see [Calm].
	Needed int `json:"needed"`
	// WorkPerS is what it would have to do, in work units per second; without the loss of Without, and with the
	// part ColdPerS that caches are cold for then.
	WorkPerS float64 `json:"workPerS"`
	ColdPerS float64 `json:"coldPerS"`
	Without  string  `json:"without"`
	// ReplicaPerS is what one replica does of this work. Measured: that is; else it is believed.
	ReplicaPerS float64 `json:"replicaPerS"`
	Measured    bool    `json:"measured"`
	// Use is WorkPerS over what the present replicas can do, and MostUse at which part the first token still
	// comes within ObjectiveMs, the strictest of its classes, with those that are wanted.
	Use         float64       `json:"use"`
	MostUse     float64       `json:"mostUse"`
	ObjectiveMs float64       `json:"objectiveMs"`
	Class       fleet.ClassID `json:"class"`
	// SharedWith are the other models that its endpoints serve.
	SharedWith []fleet.ModelID `json:"sharedWith"`
	// Reasons for people, the most important first; never empty.
	Reasons       []string `json:"reasons"`
	ChangePerHour Money    `json:"changePerHour"`

	// roomy is what load by lowerBand more would ask for.
	roomy int
	// keep says why it must not have fewer than it has, or "".
	keep string
}

// CapacityOptions say what is advised for.
type CapacityOptions struct {
	// Model narrows the advice to one; empty: all.
	Model fleet.ModelID
	// Survive is none, cluster or region; empty: as the policies of each model say, the most that one of them
	// asks for.
	Survive string
	// Cold gives what is measured of a model's prefix caches. Nil, or false: [shift.Unmeasured] holds.
	Cold func(fleet.ModelID) (shift.Cold, bool)
	// Outlook tells what demand has been. Nil: that of now is all that is known.
	Outlook *Outlook
	// Peak: the largest demand of the last hour is counted with, and not that of now.
	Peak bool
	// Calm damps the advice, and remembers it. Nil: it follows each breath of the load.
	Calm *Calm
}

// Capacity advises how many replicas each model needs, by model.
//
// Demand is placed where the planner would place it if there were room everywhere, by distance, price and rules:
// what is served far away only because home is full counts at home. Each cluster then needs so many replicas that
// the mean time to the first token, by the curve that weights are planned with, is within the strictest
// objective of its work; for a loss that must be survived, with what moves there then, cold. Everything follows
// from demand, prices, rules and what a replica does; how many replicas there are plays a part only in how a
// region divides its work among its clusters, so advice that is followed gives the same advice again. The error is
// [ErrTooMuch].
func Capacity(in Input, o CapacityOptions) ([]Advice, error) {
	in.Previous, in.Beside, in.Warm, in.Frozen = nil, nil, true, false
	p := newPlacement(in, o)
	losses := p.losses()
	if err := tooMuch(p.world.demands(in), len(losses)+1); err != nil {
		return nil, err
	}
	p.place(Loss{})
	for _, l := range losses {
		p.place(l)
	}
	var out []Advice
	byCluster := map[fleet.ClusterID]ClusterAdvice{}
	for _, s := range p.world.sites {
		if !direct(s.spec) && in.counted(s) {
			byCluster[s.id] = p.advise(s)
		}
	}
	held := in.held(o.Outlook)
	if o.Calm != nil {
		o.Calm.steady(in.Now, o, held, byCluster)
	}
	for _, r := range in.Resources.List(policy.KindModel) {
		model := fleet.ModelID(r.Metadata.Name)
		if o.Model != "" && o.Model != model {
			continue
		}
		a := Advice{Model: model, At: in.Now, Survive: p.survive[model], Demand: p.outlook[model], Held: held, Clusters: []ClusterAdvice{}}
		for _, s := range p.world.sites {
			c, there := byCluster[s.id]
			if _, serves := s.capacity[model]; !there || !serves {
				continue
			}
			c.SharedWith = slices.DeleteFunc(s.models(), func(m fleet.ModelID) bool { return m == model })
			p.finish(s, model, &c, held)
			a.Replicas, a.Wanted = a.Replicas+c.Replicas, a.Wanted+c.Wanted
			a.ChangePerHour.add(c.ChangePerHour.USD, c.ChangePerHour.Estimate, c.ChangePerHour.Unpriced)
			a.Clusters = append(a.Clusters, c)
		}
		out = append(out, a)
	}
	return out, nil
}

// models are those of a site, sorted.
func (s *site) models() []fleet.ModelID {
	out := []fleet.ModelID{}
	for m := range s.capacity {
		out = append(out, m)
	}
	slices.Sort(out)
	return out
}

// survives orders what may be asked for.
var survives = []string{policy.SurviveNone, policy.SurviveCluster, policy.SurviveRegion}

// surviveOf is the most that the policies of a model ask for.
func (w *world) surviveOf(model fleet.ModelID) string {
	most := policy.SurviveNone
	for _, class := range w.classes {
		if r := w.governing(class, model); r != nil || class == fleet.DefaultClass {
			wanted := cmp.Or(policySpec(r).Survive, policy.SurviveNone)
			if slices.Index(survives, wanted) > slices.Index(survives, most) {
				most = wanted
			}
		}
	}
	return most
}
