package table

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/failover/drill"
)

// Drill is another way that some requests would go, were this router to hold a lease of the drill; see
// package dataplane/drill. By itself it changes nothing.
type Drill struct {
	ID   uint64
	Kind drill.Kind
	// Base names the table from before the drill, for leases to name the same. A router can't come to it by itself,
	// as what it has is a slice.
	Base [sha256.Size]byte
	// Clusters that are drilled, in the table's order.
	Clusters []*Cluster

	drilled   map[fleet.ClusterID]bool
	models    map[fleet.ModelID]bool  // empty: all
	tenants   map[fleet.TenantID]bool // empty: all
	protected map[fleet.TenantID]bool
	weights   map[weightKey][]Weight
}

// Drill is the drill that is under way; nil: none is.
func (t *Table) Drill() *Drill { return t.drill }

// Scopes says whether requests of a tenant for a base model take part.
func (d *Drill) Scopes(tenant fleet.TenantID, model fleet.ModelID) bool {
	return (len(d.models) == 0 || d.models[model]) && (len(d.tenants) == 0 || d.tenants[tenant])
}

// Drills says whether a cluster is one of those that are drilled.
func (d *Drill) Drills(id fleet.ClusterID) bool { return d.drilled[id] }

// Protects says whether what quotas deny a tenant is counted apart.
func (d *Drill) Protects(id fleet.TenantID) bool { return d.protected[id] }

// Weights are the shares of requests that are shifted, as [Table.Weights] are of all. Not ok: they are as without
// the drill.
func (d *Drill) Weights(model fleet.ModelID, class fleet.ClassID, source fleet.RegionID) (w []Weight, ok bool) {
	w, ok = d.weights[weightKey{model, class, source}]
	return w, ok
}

// drillKinds are the kinds that a table may carry: one that only simulates has nothing to tell routers.
var drillKinds = []drill.Kind{drill.Shadow, drill.Soft, drill.Hard, drill.ControlPlane, drill.QuotaStore, drill.Tier1, drill.FailbackOnly}

// addDrill judges the drill as the rest of the table is judged: clusters and models must be the table's, weights
// must be such as a table may have. Tenants may be unknown, and fit nothing. What its weights shed is judged
// and left out: a rehearsal turns nobody away.
func (t *Table) addDrill(pb *routerpb.Table) error {
	p := pb.GetDrill()
	if p == nil {
		return nil
	}
	d := &Drill{
		ID: p.GetId(), Kind: drill.Kind(p.GetKind()), drilled: make(map[fleet.ClusterID]bool, len(p.GetClusters())),
		models: make(map[fleet.ModelID]bool, len(p.GetModels())), tenants: tenantSet(p.GetTenants()), protected: tenantSet(p.GetProtected()),
		weights: make(map[weightKey][]Weight, len(p.GetWeights())),
	}
	switch {
	case d.ID == 0:
		return invalid(CodeValue, "drill.id", "is 0, want the drill's number")
	case !slices.Contains(drillKinds, d.Kind):
		return invalid(CodeValue, "drill.kind", "is %.40q, want one of %v", p.GetKind(), drillKinds)
	case len(p.GetBaseSha256()) != sha256.Size:
		return invalid(CodeValue, "drill.base_sha256", "has %d bytes, want %d", len(p.GetBaseSha256()), sha256.Size)
	}
	copy(d.Base[:], p.GetBaseSha256())
	if err := d.addScope(t, p); err != nil {
		return err
	}
	if err := t.addWeightsTo("drill.", p.GetWeights(), d.weights, make(map[weightKey]Shed)); err != nil {
		return err
	}
	t.drill = d
	return nil
}

func (d *Drill) addScope(t *Table, p *routerpb.Drill) error {
	for i, name := range p.GetClusters() {
		at, id := fmt.Sprintf("drill.clusters[%d]", i), fleet.ClusterID(name)
		switch c := t.Clusters[id]; {
		case c == nil:
			return invalid(CodeUnknown, at, "%q is not a cluster of the table", name)
		case d.drilled[id]:
			return invalid(CodeDuplicate, at, "%q is there twice", name)
		default:
			d.drilled[id] = true
			d.Clusters = append(d.Clusters, c)
		}
	}
	if len(d.Clusters) == 0 && d.Kind != drill.ControlPlane && d.Kind != drill.QuotaStore {
		return invalid(CodeNoTarget, "drill.clusters", "is empty, and a drill of kind %s is one of clusters", d.Kind)
	}
	for i, name := range p.GetModels() {
		if n, ok := t.models[name]; !ok || string(n.model.ID) != name {
			return invalid(CodeUnknown, fmt.Sprintf("drill.models[%d]", i), "%q is not a base model of the table", name)
		}
		d.models[fleet.ModelID(name)] = true
	}
	return nil
}

func tenantSet(names []string) map[fleet.TenantID]bool {
	set := make(map[fleet.TenantID]bool, len(names))
	for _, n := range names {
		set[fleet.TenantID(n)] = true
	}
	return set
}
