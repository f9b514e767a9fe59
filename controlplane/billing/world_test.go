package billing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/costmodel"
)

// epoch is the start of a day.
var epoch = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

// at is a moment so long after epoch.
func at(d time.Duration) time.Time { return epoch.Add(d) }

// configured is resources by kind, as operators write them.
type configured map[policy.Kind][]*policy.Resource

func (c configured) List(kind policy.Kind) []*policy.Resource { return c[kind] }

// write reads documents such as "Region us {zone: us}", sorted by name.
func write(t testing.TB, docs ...string) configured {
	t.Helper()
	c := configured{}
	for _, d := range docs {
		kind, rest, _ := strings.Cut(d, " ")
		name, spec, _ := strings.Cut(rest, " ")
		text := fmt.Sprintf("apiVersion: anabranch/v1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", kind, name, spec)
		r, problems := policy.Parse([]byte(text))
		if len(problems) == 0 {
			problems = policy.Validate(r)
		}
		if len(problems) > 0 {
			t.Fatalf("%s: %v", d, problems)
		}
		policy.Defaults(r)
		c[r.Kind] = append(c[r.Kind], r)
	}
	return c
}

// cluster is one of two on-demand H100.
func cluster(name, region, more string) string {
	return fmt.Sprintf("Cluster %s {region: %s, models: [m], endpoints: [{id: e, url: 'http://%s:1', class: h100}], gpus: [{class: h100, count: 2}]%s}", name, region, name, more)
}

func never(fleet.ClusterID, fleet.ModelID) float64 { return 0 }

// always holds.
func (c configured) always(time.Time) (plan.Lookup, []costmodel.Offer) { return c, nil }
