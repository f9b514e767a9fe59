// Package table is the router's immutable routing table: built and judged once from the message
// that the control plane sends, then only read. A request takes one table and keeps it to its
// end, so that everything decided for it is consistent. Where tables come from and how they are
// kept is left to others.
package table

import (
	"crypto/sha256"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// Table is one routing table. Its maps, slices and what they point to are shared by all readers
// and must not be changed. The zero Table is not useful; get one from [Build].
type Table struct {
	// Ref orders tables by epoch, then revision, within one control plane cluster.
	Ref Ref
	// Created is when the leader computed it.
	Created time.Time
	// Regions and Clusters by name.
	Regions  map[fleet.RegionID]*Region
	Clusters map[fleet.ClusterID]*Cluster

	proto    *routerpb.Table
	models   map[string]named
	serving  map[fleet.ModelID][]*Cluster
	modelIDs []*Model
	tenants  map[fleet.TenantID]*Tenant
	keys     map[[sha256.Size]byte]key
	tokens   map[string][]*TokenRule  // by issuer
	orgs     map[string]*Organisation // that have quotas
	ways     map[fleet.TenantID]*ways // of tenants with limits
	keyed    []*ways                  // of API keys with limits of their own, by KeyID - 1
	paths    []*Path
	classes  map[classKey]*Class
	weights  map[weightKey][]Weight
	sheds    map[weightKey]Shed // where something is
	rules    map[string]*Rule   // by policy
	index    index              // of them
	drill    *Drill             // nil: none is under way
}

// named is what a client's model name stands for.
type named struct {
	model   *Model
	adapter string
}

type classKey struct {
	class fleet.ClassID
	model fleet.ModelID // "": all models
}

type weightKey struct {
	model  fleet.ModelID
	class  fleet.ClassID
	source fleet.RegionID
}

// Proto is the message that the table was built from, for keeping it on disk. It must not be
// changed.
func (t *Table) Proto() *routerpb.Table { return t.proto }

// Model resolves what a client wrote: a base model, an alias or an adapter. The adapter is empty
// for the first two.
func (t *Table) Model(name string) (m *Model, adapter string, ok bool) {
	n, ok := t.models[name]
	return n.model, n.adapter, ok
}

// Models lists the base models in the table's order.
func (t *Table) Models() []*Model { return t.modelIDs }

// Serving lists the clusters that serve a base model, in the table's order.
func (t *Table) Serving(model fleet.ModelID) []*Cluster { return t.serving[model] }

// Tenant finds a tenant by name.
func (t *Table) Tenant(id fleet.TenantID) (*Tenant, bool) {
	x, ok := t.tenants[id]
	return x, ok
}

// key is what is known of an API key.
type key struct {
	tenant  *Tenant
	expires int64 // Unix ms; 0: never
	id      KeyID
}

// TenantByKey finds who an API key belongs to, and whether quotas single it out. The key is compared by
// its SHA-256, which is all that the table knows of it. expired says that it was somebody's, and is not
// any more; then there is no tenant.
func (t *Table) TenantByKey(key string, now time.Time) (of *Tenant, id KeyID, expired bool) {
	if key == "" {
		return nil, 0, false
	}
	return t.TenantByKeySum(sha256.Sum256([]byte(key)), now)
}

// TenantByKeySum is [Table.TenantByKey] of a key of which only the SHA-256 is known.
func (t *Table) TenantByKeySum(sum [sha256.Size]byte, now time.Time) (of *Tenant, id KeyID, expired bool) {
	k, ok := t.keys[sum]
	if ok && k.expires != 0 && now.UnixMilli() >= k.expires {
		return nil, 0, true
	}
	return k.tenant, k.id, false
}

// Class is the class of a model's requests that no rule with a match speaks of: what the first rule
// without one says, else [fleet.DefaultClass]. Never nil.
func (t *Table) Class(model fleet.ModelID) *Class {
	return t.ClassOf(t.index.first(model, nil, "", nil), model)
}

// ClassOf is the class of what a rule matches, once it asks for a base model, which may be another
// than the client's: as a policy for that model describes it, else as a policy for all models does.
// For no rule (nil) it is [fleet.DefaultClass], with the built-in numbers where no policy gives any.
// Never nil.
func (t *Table) ClassOf(rule *Rule, model fleet.ModelID) *Class {
	if rule != nil {
		if c, ok := t.ClassNamed(rule.Class, model); ok {
			return c
		}
	}
	if c, ok := t.ClassNamed(fleet.DefaultClass, model); ok {
		return c
	}
	return builtIn
}

// ClassNamed finds a class for a model by name: the policy that names the model, else the one for
// all models.
func (t *Table) ClassNamed(class fleet.ClassID, model fleet.ModelID) (*Class, bool) {
	if c, ok := t.classes[classKey{class, model}]; ok {
		return c, true
	}
	c, ok := t.classes[classKey{class, ""}]
	return c, ok
}

// Weights are the shares of a model's and class's requests that start in a source region, one
// for each legal cluster, in the table's order; they sum to 1. Empty with ok: no cluster is
// legal. Not ok: the table doesn't speak of this combination.
func (t *Table) Weights(model fleet.ModelID, class fleet.ClassID, source fleet.RegionID) (w []Weight, ok bool) {
	w, ok = t.weights[weightKey{model, class, source}]
	return w, ok
}

// Shed is what of a model's and class's requests that start in a source region there is no room for anywhere,
// as the control plane knows it. The zero Shed: nothing is.
func (t *Table) Shed(model fleet.ModelID, class fleet.ClassID, source fleet.RegionID) Shed {
	return t.sheds[weightKey{model, class, source}] // mostly empty, which costs nothing
}

// UnknownRTT stands in for a round trip that the table doesn't tell: a long way, so that a place
// isn't preferred for want of a figure. It is the RegionSpec default.
const UnknownRTT = 150 * time.Millisecond

// RTT is the round trip between two regions, 0 within one.
func (t *Table) RTT(from, to fleet.RegionID) time.Duration {
	if from == to {
		return 0
	}
	if r := t.Regions[from]; r != nil {
		if d, ok := r.RTT[to]; ok {
			return d
		}
	}
	if r := t.Regions[to]; r != nil {
		if d, ok := r.RTT[from]; ok {
			return d
		}
	}
	return UnknownRTT
}

// Holder holds the current table; the zero Holder holds none. Reading never blocks.
type Holder struct {
	p atomic.Pointer[Table]
}

// Load is the current table, nil before the first.
func (h *Holder) Load() *Table { return h.p.Load() }

// Store makes t current. Requests that run keep the table they took.
func (h *Holder) Store(t *Table) { h.p.Store(t) }
