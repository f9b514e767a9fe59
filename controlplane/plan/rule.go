package plan

import (
	"cmp"
	"slices"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
)

// rules are the policies as routers try them, in order. What a policy names and is not there any more
// can only narrow it: tenants and clusters stay, as they fit nothing; a model that is gone is not
// asked for.
func (w *world) rules() []*routerpb.Rule {
	var out []*routerpb.Rule
	for _, r := range w.policies {
		spec, ok := r.Spec.(*policy.TrafficPolicySpec)
		if !ok {
			continue
		}
		models := slices.DeleteFunc(slices.Clone(spec.Models), func(m string) bool { return w.specs[fleet.ModelID(m)] == nil })
		if len(models) == 0 && len(spec.Models) > 0 {
			continue // speaks of nothing
		}
		rule := &routerpb.Rule{
			Id:        r.Metadata.Name,
			Models:    models,
			Class:     string(classOf(spec)),
			Clusters:  spec.Clusters,
			Residency: spec.Residency,
			Arms:      w.arms(spec),
		}
		for _, m := range spec.Match {
			rule.Match = append(rule.Match, matchProto(m))
		}
		if spec.Rewrite != nil {
			rule.Model = w.known(spec.Rewrite.Model)
		}
		if s := spec.Shadow; s != nil && (s.Model == "" || w.known(s.Model) != "") {
			rule.Shadow = &routerpb.Shadow{Share: min(max(s.Percent/100, 0), 1), Model: s.Model, Clusters: s.Clusters}
		}
		out = append(out, rule)
	}
	return out
}

func matchProto(m policy.MatchSpec) *routerpb.Match {
	out := &routerpb.Match{Tenants: m.Tenants, Paths: m.Paths}
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, &routerpb.HeaderMatch{Name: h.Name, Value: h.Value, Type: h.Type})
	}
	return out
}

// arms of a split. An arm never goes where its policy doesn't.
func (w *world) arms(spec *policy.TrafficPolicySpec) []*routerpb.Arm {
	var out []*routerpb.Arm
	sum := 0.0
	for _, a := range spec.Split {
		clusters := a.Clusters
		if len(spec.Clusters) > 0 {
			clusters = slices.DeleteFunc(slices.Clone(clusters), func(c string) bool { return !slices.Contains(spec.Clusters, c) })
		}
		sum += a.Weight
		out = append(out, &routerpb.Arm{Id: a.Name, Weight: a.Weight, Model: w.known(a.Model), Clusters: clusters})
	}
	if !(sum > 0) {
		return nil
	}
	return out
}

// known is the name of a base model or adapter, or "" where there is none of the name.
func (w *world) known(name string) string {
	if w.base(name) == "" {
		return ""
	}
	return name
}

// base is the base model that a base model or adapter stands for, or "".
func (w *world) base(name string) fleet.ModelID {
	if w.specs[fleet.ModelID(name)] != nil {
		return fleet.ModelID(name)
	}
	return w.adapters[name]
}

// targets are the base models, sorted, that a policy makes requests or copies of them ask for by name.
func (w *world) targets(spec *policy.TrafficPolicySpec) []fleet.ModelID {
	if out, known := w.asks[spec]; known {
		return out
	}
	var asked []string
	if spec.Rewrite != nil {
		asked = append(asked, spec.Rewrite.Model)
	}
	for _, a := range spec.Split {
		asked = append(asked, a.Model)
	}
	if spec.Shadow != nil {
		asked = append(asked, spec.Shadow.Model)
	}
	var out []fleet.ModelID
	for _, name := range asked {
		if base := w.base(name); base != "" {
			out = append(out, base)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if w.asks == nil {
		w.asks = map[*policy.TrafficPolicySpec][]fleet.ModelID{}
	}
	w.asks[spec] = out
	return out
}

// pinned are the only clusters that a policy's requests for a model may go to, whichever arms lead
// there; empty: any. Of copies alone nothing is said: they are no load that weights are for.
func (w *world) pinned(spec *policy.TrafficPolicySpec, model fleet.ModelID) []string {
	var all []string
	asked := ""
	if spec.Rewrite != nil {
		asked = spec.Rewrite.Model
	}
	for _, a := range spec.Split {
		switch name := cmp.Or(a.Model, asked); {
		case name != "" && w.base(name) != model:
		case name == "" && len(spec.Models) > 0 && !slices.Contains(spec.Models, string(model)):
		case len(a.Clusters) == 0:
			return spec.Clusters
		default:
			all = append(all, a.Clusters...)
		}
	}
	if len(all) == 0 {
		return spec.Clusters
	}
	return all
}

// excludes says why a policy keeps all requests from a site, whatever is alive, or "".
func (d *demand) excludes(s *site) string {
	within := func(places []string) bool {
		return len(places) == 0 || slices.Contains(places, string(s.region)) || slices.Contains(places, d.zones[s.region])
	}
	switch {
	case len(d.pinned) > 0 && !slices.Contains(d.pinned, string(s.id)):
		return "the policy uses other clusters"
	case !within(d.policy.Residency):
		return "the policy does not allow " + string(s.region)
	}
	return ""
}

func names(models []fleet.ModelID) []string {
	out := make([]string, len(models))
	for i, m := range models {
		out[i] = string(m)
	}
	return out
}
