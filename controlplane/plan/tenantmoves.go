package plan

import (
	"cmp"
	"slices"

	"anabranch/api/fleet"
)

// Asked is work that a tenant asked for, in any unit.
type Asked struct {
	Tenant fleet.TenantID
	Model  fleet.ModelID
	Class  fleet.ClassID
	Source fleet.RegionID
	Work   float64
}

// TenantMove is what a change does to the traffic of one tenant.
type TenantMove struct {
	Tenant fleet.TenantID `json:"tenant"`
	// Moved is the part of what it asked for lately that would be served by another cluster, 0..1.
	Moved float64 `json:"moved"`
	// Models are those of which some would move.
	Models []fleet.ModelID `json:"models"`
	// Stranded are models that it has a place for now and would have none.
	Stranded []fleet.ModelID `json:"stranded"`
}

// TenantMoves says which tenants move, by what they asked for and how shares move ([Moves]), and which are stranded:
// these first, then those of whom most moves, then by name. What a residency excludes is counted as if it were not:
// shares are of all tenants together. It is never nil.
func TenantMoves(moves []Move, asked []Asked, stranded map[string][]string) []TenantMove {
	type key struct {
		model  fleet.ModelID
		class  fleet.ClassID
		source fleet.RegionID
	}
	parts := map[key]float64{}
	for _, m := range moves {
		for _, c := range m.Clusters {
			parts[key{m.Model, m.Class, m.Source}] += max(0, c.From-c.To)
		}
	}
	all, moved := map[fleet.TenantID]float64{}, map[fleet.TenantID]*TenantMove{}
	of := func(id fleet.TenantID) *TenantMove {
		if moved[id] == nil {
			moved[id] = &TenantMove{Tenant: id, Models: []fleet.ModelID{}, Stranded: []fleet.ModelID{}}
		}
		return moved[id]
	}
	for _, a := range asked {
		all[a.Tenant] += a.Work
		if part := parts[key{a.Model, a.Class, a.Source}]; part >= leastMove && a.Work > 0 {
			t := of(a.Tenant)
			t.Moved += a.Work * min(part, 1)
			if !slices.Contains(t.Models, a.Model) {
				t.Models = append(t.Models, a.Model)
			}
		}
	}
	for name, models := range stranded {
		for _, m := range models {
			t := of(fleet.TenantID(name))
			t.Stranded = append(t.Stranded, fleet.ModelID(m))
		}
	}
	out := []TenantMove{}
	for id, t := range moved {
		if all[id] > 0 {
			t.Moved /= all[id]
		}
		slices.Sort(t.Models)
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b TenantMove) int {
		return cmp.Or(cmp.Compare(min(len(b.Stranded), 1), min(len(a.Stranded), 1)), cmp.Compare(b.Moved, a.Moved), cmp.Compare(a.Tenant, b.Tenant))
	})
	return out
}
