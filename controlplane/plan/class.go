package plan

import (
	"slices"
	"sync"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/failover"
)

// builtIn is the policy of traffic that no policy speaks of. Nobody changes it.
var builtIn = sync.OnceValue(func() *policy.TrafficPolicySpec {
	r := policy.Resource{Kind: policy.KindTrafficPolicy, Spec: &policy.TrafficPolicySpec{}}
	policy.Defaults(&r)
	return r.Spec.(*policy.TrafficPolicySpec)
})

func policySpec(r *policy.Resource) *policy.TrafficPolicySpec {
	if r != nil {
		if spec, ok := r.Spec.(*policy.TrafficPolicySpec); ok {
			return spec
		}
	}
	return builtIn()
}

func classOf(spec *policy.TrafficPolicySpec) fleet.ClassID {
	if spec.Class == "" {
		return fleet.DefaultClass
	}
	return fleet.ClassID(spec.Class)
}

// traffic lists the policies in the order in which routers try them.
func traffic(resources Lookup) []*policy.Resource {
	list := slices.Clone(resources.List(policy.KindTrafficPolicy))
	slices.SortStableFunc(list, policy.CompareTraffic)
	return list
}

// governing is the policy that speaks for a model in a class: the first that names the model, else the
// first that names none, else, where nothing is built in, the first that makes requests ask for it.
// Nil: none does.
func (w *world) governing(class fleet.ClassID, model fleet.ModelID) *policy.Resource {
	var general, asking *policy.Resource
	for _, r := range w.policies {
		spec, ok := r.Spec.(*policy.TrafficPolicySpec)
		switch {
		case !ok || classOf(spec) != class:
		case slices.Contains(spec.Models, string(model)):
			return r
		case len(spec.Models) == 0 && general == nil:
			general = r
		case asking == nil && slices.Contains(w.targets(spec), model):
			asking = r
		}
	}
	if general != nil || class == fleet.DefaultClass {
		return general
	}
	return asking
}

// classIDs are all traffic classes, sorted; the default one is always among them.
func (w *world) classIDs() []fleet.ClassID {
	ids := []fleet.ClassID{fleet.DefaultClass}
	for _, r := range w.policies {
		if spec, ok := r.Spec.(*policy.TrafficPolicySpec); ok {
			ids = append(ids, classOf(spec))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// classProtos turns policies into what routers need of them, so that exactly one entry speaks for any
// model in a class, as governing does. The default class speaks for every model.
func (w *world) classProtos() []*routerpb.Class {
	general := map[fleet.ClassID]bool{}
	var out []*routerpb.Class
	for _, r := range w.policies {
		spec, ok := r.Spec.(*policy.TrafficPolicySpec)
		if !ok {
			continue
		}
		class := classOf(spec)
		var models []string
		for _, m := range append(slices.Clone(spec.Models), names(w.targets(spec))...) {
			if w.governing(class, fleet.ModelID(m)) == r && !slices.Contains(models, m) {
				models = append(models, m)
			}
		}
		switch {
		case len(spec.Models) == 0 && !general[class]:
			general[class] = true
			models = nil
		case len(spec.Models) == 0 || len(models) == 0:
			continue
		}
		out = append(out, classProto(class, r.Metadata.Name, models, spec))
	}
	if !general[fleet.DefaultClass] {
		out = append(out, classProto(fleet.DefaultClass, "", nil, builtIn()))
	}
	return out
}

func classProto(id fleet.ClassID, name string, models []string, spec *policy.TrafficPolicySpec) *routerpb.Class {
	f := spec.Failover.WithDefaults()
	c := &routerpb.Class{
		Id:                   string(id),
		Policy:               name,
		Models:               models,
		TtftObjectiveMs:      spec.TTFTObjectiveMs,
		Spill:                spec.Spill != policy.SpillNever,
		PickMode:             spec.PickMode,
		PrefixLength:         uint32(max(spec.PrefixLength, 0)),
		ConcurrencyThreshold: uint32(max(spec.ConcurrencyThreshold, 0)),
		FirstByteFloorMs:     spec.FirstByteFloorMs,
		FirstByteDeadlineMs:  spec.FirstByteDeadlineMs,
		StallMs:              spec.StallMs,
		QueueMs:              spec.QueueMs,
		RequestTimeoutMs:     spec.RequestTimeoutMs,
		Rescue:               spec.Rescue,
		Ejection: &routerpb.Ejection{
			ConnectFailures: uint32(max(f.ConnectFailures, 0)),
			FailureRatio:    f.FailureRatio,
			MinRequests:     uint32(max(f.MinRequests, 0)),
			WindowMs:        f.WindowMs,
			ReprobeMs:       f.ReprobeMs,
			ReprobeMaxMs:    f.ReprobeMaxMs,
		},
	}
	if b := spec.Brownout; b != nil {
		x := b.Config()
		c.Brownout = &routerpb.Brownout{
			Off: x.Off, EnterAt: x.EnterAt, LeaveAt: x.LeaveAt, EnterMs: x.Enter.Milliseconds(), LeaveMs: x.Leave.Milliseconds(),
			BatchCeiling: x.BatchCeiling, BatchTokens: x.BatchTokens, Floor: x.Floor, Weights: b.Weights,
		}
	}
	if h := spec.Hedge; h.On() {
		c.Hedge = &routerpb.Hedge{MaxShare: h.MaxSharePercent / 100, MaxSaturation: h.MaxSaturation, AfterMs: h.AfterMs}
	}
	return c
}

// speaker is the policy whose objective holds for a cluster as a whole: that of its first model in the default class.
func (w *world) speaker(spec *policy.ClusterSpec) *policy.TrafficPolicySpec {
	var model fleet.ModelID
	if len(spec.Models) > 0 {
		model = fleet.ModelID(spec.Models[0])
	}
	return w.speakerOf(model)
}

// speakerOf is the policy whose failover numbers and objective hold for a model wherever it is served: the one that
// governs it in the default class.
func (w *world) speakerOf(model fleet.ModelID) *policy.TrafficPolicySpec {
	return policySpec(w.governing(fleet.DefaultClass, model))
}

// FailoverConfig gives the numbers by which a place's health is judged: those of the policy that governs its model in
// the default class.
func FailoverConfig(resources Lookup) func(failover.Place) failover.Config {
	w := &world{resources: resources, policies: traffic(resources)}
	configs := map[fleet.ModelID]failover.Config{}
	return func(at failover.Place) failover.Config {
		c, known := configs[at.Model]
		if !known {
			c = w.speakerOf(at.Model).Failover.Config()
			configs[at.Model] = c
		}
		return c
	}
}

// Classes are all traffic classes that policies speak of, sorted, the default one among them.
func Classes(resources Lookup) []fleet.ClassID {
	w := &world{resources: resources, policies: traffic(resources)}
	return w.classIDs()
}
