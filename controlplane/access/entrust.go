package access

import (
	"encoding/json"
	"slices"

	"anabranch/controlplane/policy"
)

// entrusts says that a change would have a credential of routers and nodes sent to where it is not sent yet.
// A scope that bounds anything gives no power over credentials: whoever names one, and a place of theirs, has
// it.
func entrusts(old, next *policy.Resource) []policy.Problem {
	to, ok := clusterSpec(next)
	if !ok || to.Auth == nil {
		return nil
	}
	from, there := clusterSpec(old)
	if there && from.Auth != nil && *from.Auth == *to.Auth {
		before := places(from)
		if !slices.ContainsFunc(places(to), func(p string) bool { return !slices.Contains(before, p) }) {
			return nil
		}
	}
	return []policy.Problem{{
		Field: "spec.auth", Reason: "would have a credential sent to where it is not sent now, which no scope allows",
		Fix: "use a token whose scope is everything; the rest of the cluster may be changed",
	}}
}

func clusterSpec(r *policy.Resource) (*policy.ClusterSpec, bool) {
	if r == nil {
		return nil, false
	}
	s, ok := r.Spec.(*policy.ClusterSpec)
	return s, ok
}

// places are where the requests to a cluster go, and questions about it.
func places(s *policy.ClusterSpec) []string {
	all := []string{s.URL, s.GatewayURL, s.MetricsURL}
	for _, e := range s.Endpoints {
		all = append(all, e.URL, e.KVEventsURL)
	}
	if s.Discovery != nil {
		d := *s.Discovery
		d.Class = ""
		found, err := json.Marshal(d)
		if err != nil { // texts and numbers always marshal
			panic(err)
		}
		all = append(all, string(found))
	}
	return slices.DeleteFunc(all, func(p string) bool { return p == "" })
}
