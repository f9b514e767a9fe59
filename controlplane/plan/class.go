package plan

import (
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/failover"
)

// builtIn is the policy of traffic that no policy speaks of.
func builtIn() *policy.TrafficPolicySpec {
	r := policy.Resource{Kind: policy.KindTrafficPolicy, Spec: &policy.TrafficPolicySpec{}}
	policy.Defaults(&r)
	return r.Spec.(*policy.TrafficPolicySpec)
}

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

// governing is the policy that speaks for a model in a class: the first by name that names the
// model, else the first that names none. Nil: none does.
func (w *world) governing(class fleet.ClassID, model fleet.ModelID) *policy.Resource {
	var general *policy.Resource
	for _, r := range w.policies {
		spec, ok := r.Spec.(*policy.TrafficPolicySpec)
		switch {
		case !ok || classOf(spec) != class:
		case slices.Contains(spec.Models, string(model)):
			return r
		case len(spec.Models) == 0 && general == nil:
			general = r
		}
	}
	return general
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

// classes turns policies into what routers need of them, so that exactly one entry speaks for any
// model in a class, as governing does. The default class speaks for every model.
func (w *world) classes() []*routerpb.Class {
	type claim struct {
		class fleet.ClassID
		model string // empty: all others
	}
	taken := map[claim]bool{}
	var out []*routerpb.Class
	for _, r := range w.policies {
		spec, ok := r.Spec.(*policy.TrafficPolicySpec)
		if !ok {
			continue
		}
		class := classOf(spec)
		var models []string
		for _, m := range spec.Models {
			if !taken[claim{class, m}] {
				taken[claim{class, m}] = true
				models = append(models, m)
			}
		}
		if len(spec.Models) == 0 && !taken[claim{class, ""}] {
			taken[claim{class, ""}] = true
		} else if len(models) == 0 {
			continue
		}
		out = append(out, classProto(class, r.Metadata.Name, models, spec))
	}
	if !taken[claim{fleet.DefaultClass, ""}] {
		out = append(out, classProto(fleet.DefaultClass, "", nil, builtIn()))
	}
	return out
}

func classProto(id fleet.ClassID, name string, models []string, spec *policy.TrafficPolicySpec) *routerpb.Class {
	f := spec.Failover.WithDefaults()
	return &routerpb.Class{
		Id:               string(id),
		Policy:           name,
		Models:           models,
		TtftObjectiveMs:  spec.TTFTObjectiveMs,
		Spill:            spec.Spill != policy.SpillNever,
		PickMode:         spec.PickMode,
		FirstByteFloorMs: spec.FirstByteFloorMs,
		RequestTimeoutMs: spec.RequestTimeoutMs,
		Ejection: &routerpb.Ejection{
			ConnectFailures: uint32(max(f.ConnectFailures, 0)),
			FailureRatio:    f.FailureRatio,
			MinRequests:     uint32(max(f.MinRequests, 0)),
			WindowMs:        f.WindowMs,
			ReprobeMs:       f.ReprobeMs,
			ReprobeMaxMs:    f.ReprobeMaxMs,
		},
	}
}

// speaker is the policy whose failover numbers and objective hold for a cluster as a whole: that of
// its first model in the default class.
func (w *world) speaker(spec *policy.ClusterSpec) *policy.TrafficPolicySpec {
	var model fleet.ModelID
	if len(spec.Models) > 0 {
		model = fleet.ModelID(spec.Models[0])
	}
	return policySpec(w.governing(fleet.DefaultClass, model))
}

// FailoverConfig gives the numbers by which a cluster's health is judged: those of the policy that
// governs its first model in the default class. A cluster that is not known gets the defaults.
func FailoverConfig(resources Lookup) func(fleet.ClusterID) failover.Config {
	w := &world{resources: resources, policies: resources.List(policy.KindTrafficPolicy)}
	configs := map[fleet.ClusterID]failover.Config{}
	for _, r := range resources.List(policy.KindCluster) {
		spec, ok := r.Spec.(*policy.ClusterSpec)
		if !ok {
			continue
		}
		f := w.speaker(spec).Failover.WithDefaults()
		configs[fleet.ClusterID(r.Metadata.Name)] = failover.Config{
			TimeScale: f.TimeScale,
			Confirm:   milliseconds(f.ConfirmMs),
			CoolDown:  milliseconds(f.CoolDownMs),
			Recovery:  milliseconds(f.RecoveryMs),
			RampStep:  milliseconds(f.RampStepMs),
		}
	}
	return func(id fleet.ClusterID) failover.Config { return configs[id] }
}

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
