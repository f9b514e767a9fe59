package collect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"anabranch/api/credential"
	"anabranch/api/exposition"
	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
)

// What is read at a source.
const (
	KindPool   = "pool"   // the metrics of a gateway's endpoint picker
	KindServer = "server" // the metrics of a model server
	KindHealth = "health" // no more than whether it answers
)

// healthPath is where vLLM, SGLang and most gateways say that they are there.
const healthPath = "/health"

// key names a source; an empty endpoint is the cluster's gateway.
type key struct {
	cluster  fleet.ClusterID
	endpoint fleet.EndpointID
}

// target is one source as it is configured. Targets that are equal are polled in the same way.
type target struct {
	key
	region fleet.RegionID
	// pages may have metrics, the first first; health is asked if none has. An empty page is none.
	kind              string // of the pages
	pages             [2]string
	health            string
	interval, timeout time.Duration
	mode              string
	auth              credential.Spec // zero: none is needed
}

// targets lists all sources of the clusters that are configured, by cluster and endpoint. Clusters whose
// endpoints are found by routers have none, and neither have those that nothing is measured of.
func targets(clusters []*policy.Resource) []target {
	var out []target
	for _, r := range clusters {
		spec, ok := r.Spec.(*policy.ClusterSpec)
		if !ok {
			continue
		}
		collect := spec.Collect.WithDefaults()
		base := target{
			key: key{cluster: fleet.ClusterID(r.Metadata.Name)}, region: fleet.RegionID(spec.Region), mode: collect.Mode,
			interval: time.Duration(collect.IntervalMs) * time.Millisecond, timeout: time.Duration(collect.TimeoutMs) * time.Millisecond,
		}
		if a := spec.Auth; a != nil {
			base.auth = credential.Spec(*a)
		}
		switch {
		case spec.Type == policy.TypeGateway:
			base.kind, base.pages[0] = KindPool, spec.MetricsURL
			base.health = under(spec.Target(), cmp.Or(collect.Path, healthPath))
			out = append(out, base)
		case spec.Type == policy.TypeEndpoints && spec.Discovery == nil:
			for _, e := range spec.Endpoints {
				t := base
				t.endpoint, t.kind, t.health = fleet.EndpointID(e.ID), KindServer, under(e.URL, healthPath)
				if copy(t.pages[:], exposition.Paths); collect.Path != "" {
					t.pages = [2]string{collect.Path}
				}
				for i, path := range t.pages {
					if path != "" {
						t.pages[i] = under(e.URL, path)
					}
				}
				out = append(out, t)
			}
		}
	}
	slices.SortFunc(out, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.cluster, b.cluster), cmp.Compare(a.endpoint, b.endpoint))
	})
	return out
}

// under is a path at a place.
func under(url, path string) string { return strings.TrimRight(url, "/") + path }

// urls are what may be asked there, in the order of trying.
func (t target) urls() []string {
	if t.pages[1] == "" {
		return []string{t.pages[0], t.health}
	}
	return []string{t.pages[0], t.pages[1], t.health}
}

// wanted says whether a source is to be polled, and why. Heard is how long ago a router of each region
// reported, running for how long this node has listened.
func (t target) wanted(heard map[fleet.RegionID]time.Duration, running time.Duration) (bool, string) {
	age, known := heard[t.region]
	switch {
	case t.mode == policy.CollectAlways:
		return true, "mode is always"
	case t.mode == policy.CollectNever:
		return false, "mode is never"
	case known && signal.FreshnessOf(age) == signal.Fresh:
		return false, fmt.Sprintf("routers of %s report", t.region)
	case running < grace:
		return false, fmt.Sprintf("routers of %s may be about to report", t.region)
	}
	return true, fmt.Sprintf("no router of %s reports", t.region)
}
