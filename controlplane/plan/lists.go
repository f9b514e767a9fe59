package plan

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
)

// ListChange is what differs of one list of two tables, by the ids of its entries, sorted.
type ListChange struct {
	// List is regions, clusters, endpoints, models, tenants, organisations, quotas, classes or rules. An endpoint is
	// named with its cluster, a class with its policy.
	List    string   `json:"list"`
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	// Changed are in both and differ; a cluster whose endpoints alone differ does not count.
	Changed []string `json:"changed"`
	// Reordered: the rules that both have are tried in another order.
	Reordered bool `json:"reordered"`
}

// Lists compares two tables but for their weights, which [Moves] compares: the lists that differ, in the
// order of [ListChange].List. Either may be nil: all is new, or gone.
func Lists(before, after *routerpb.Table) []ListChange {
	out := []ListChange{}
	for _, list := range []struct {
		name    string
		entries func(*routerpb.Table) []entry
	}{
		{"regions", func(t *routerpb.Table) []entry { return entries(t.GetRegions(), (*routerpb.Region).GetId) }},
		{"clusters", func(t *routerpb.Table) []entry { return entries(bareClusters(t), (*routerpb.Cluster).GetId) }},
		{"endpoints", endpoints},
		{"models", func(t *routerpb.Table) []entry { return entries(t.GetModels(), (*routerpb.Model).GetId) }},
		{"tenants", func(t *routerpb.Table) []entry { return entries(t.GetTenants(), (*routerpb.Tenant).GetId) }},
		{"organisations", func(t *routerpb.Table) []entry { return entries(t.GetOrganisations(), (*routerpb.Organisation).GetId) }},
		{"quotas", func(t *routerpb.Table) []entry { return entries(t.GetQuotas(), (*routerpb.Quota).GetId) }},
		{"classes", func(t *routerpb.Table) []entry { return entries(t.GetClasses(), classID) }},
		{"rules", func(t *routerpb.Table) []entry { return entries(t.GetRules(), (*routerpb.Rule).GetId) }},
	} {
		change := differ(list.entries(before), list.entries(after))
		if change.List = list.name; list.name != "rules" {
			change.Reordered = false // only there it means anything
		}
		if len(change.Added)+len(change.Removed)+len(change.Changed) > 0 || change.Reordered {
			out = append(out, change)
		}
	}
	return out
}

// entry is one of a list, with its id in that list.
type entry struct {
	id string
	of proto.Message
}

func entries[M proto.Message](list []M, id func(M) string) []entry {
	var all []entry
	for _, m := range list {
		all = append(all, entry{id(m), m})
	}
	return all
}

func classID(c *routerpb.Class) string {
	if c.GetPolicy() == "" {
		return c.GetId()
	}
	return c.GetId() + "/" + c.GetPolicy()
}

// bareClusters are the clusters without their endpoints.
func bareClusters(t *routerpb.Table) []*routerpb.Cluster {
	var all []*routerpb.Cluster
	for _, c := range t.GetClusters() {
		bare := proto.CloneOf(c)
		bare.Endpoints = nil
		all = append(all, bare)
	}
	return all
}

func endpoints(t *routerpb.Table) []entry {
	var all []entry
	for _, c := range t.GetClusters() {
		for _, e := range c.GetEndpoints() {
			all = append(all, entry{c.GetId() + "/" + e.GetId(), e})
		}
	}
	return all
}

func differ(before, after []entry) ListChange {
	change := ListChange{Added: []string{}, Removed: []string{}, Changed: []string{}}
	was := make(map[string]int, len(before))
	for i, e := range before {
		was[e.id] = i
	}
	kept, last := make(map[string]bool, len(after)), -1
	for _, e := range after {
		i, ok := was[e.id]
		if !ok {
			change.Added = append(change.Added, e.id)
			continue
		}
		kept[e.id] = true
		if change.Reordered = change.Reordered || i < last; !proto.Equal(before[i].of, e.of) {
			change.Changed = append(change.Changed, e.id)
		}
		last = max(last, i)
	}
	for _, e := range before {
		if !kept[e.id] {
			change.Removed = append(change.Removed, e.id)
		}
	}
	for _, ids := range [][]string{change.Added, change.Removed, change.Changed} {
		slices.SortFunc(ids, cmp.Compare[string])
	}
	return change
}
