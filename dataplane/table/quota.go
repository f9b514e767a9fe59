package table

import (
	"iter"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/ratelimit"
)

// Organisation is tenants whose quotas are kept together, in one quota store.
type Organisation struct {
	ID string
	// Home is the region whose quota store keeps its levels. Empty: this router's own store does.
	Home fleet.RegionID
	// FormerHome was home before, if Moved: its store is to be told of the epoch before Home's is asked.
	FormerHome fleet.RegionID
	Moved      bool
	// Epoch numbers its homes, Version its quotas, both upwards from 1 and below 2^53.
	Epoch, Version int64
	// Young: its quotas are new, so that a store that never heard of it has lost nothing.
	Young bool
	// Cold is the part of a rate's burst, in percent, that is there when the store has lost its memory.
	Cold int64
	// Shares of regions for when they are cut off from the store, together no more than
	// ratelimit.ShareParts. A region that is not among them has none.
	Shares []ratelimit.Share
}

// Share is a region's part of the organisation's limits, in parts of ratelimit.ShareParts.
func (o *Organisation) Share(region fleet.RegionID) int64 {
	for i := range o.Shares {
		if o.Shares[i].Region == string(region) {
			return o.Shares[i].Parts
		}
	}
	return 0
}

// Words of [Limit]'s Degraded: what holds while the quota store is away.
const (
	DegradedShare  = "share"  // the region's share of the limit
	DegradedOpen   = "open"   // nothing is refused
	DegradedClosed = "closed" // nothing but what is held already
)

// Limit is one bucket.
type Limit struct {
	// Limit has the numbers. Of ratelimit.Slots and ratelimit.Money, Amount is Burst and PeriodMs is 0.
	ratelimit.Limit
	// Tenant whose requests count. Empty: those of all tenants of the organisation.
	Tenant fleet.TenantID
	// Model narrows it to a base model. Empty: all.
	Model fleet.ModelID
	// Degraded is [DegradedShare], [DegradedOpen] or [DegradedClosed].
	Degraded string
	// Cut: a stream that needs more than there is, is ended. Otherwise it may finish, as a debt.
	Cut bool
	// Calendar and Place of ratelimit.Money: its windows, and where clocks show them; else empty and nil.
	Calendar ratelimit.Calendar
	Place    *time.Location
	// Warn of ratelimit.Money: percent of the budget, upwards.
	Warn []int
}

// Path is the limits that some requests of a tenant pass, in a fixed order: the organisation's, the
// tenant's, the model's, the key's. Limits and Shadow together are at least one and at most
// ratelimit.MaxPath, and no id is there twice.
type Path struct {
	// ID names the list of limits, those in shadow included. Equal IDs in two tables mean the same limits
	// in the same order; their numbers may differ.
	ID string
	// Org is whose they are; never nil.
	Org *Organisation
	// Limits are enforced; Shadow is counted and refuses nothing.
	Limits, Shadow []Limit
}

// KeyID is an API key that quotas single out, within one table. Keys that the same quotas name, such as
// the old and the new secret of one that is being replaced, have the same. 0: no particular one.
type KeyID int

// Path finds the limits of a tenant's requests for a base model with an API key. Nil: there are none.
func (t *Table) Path(tenant fleet.TenantID, model fleet.ModelID, key KeyID) *Path {
	w := t.ways[tenant]
	if w == nil {
		return nil
	}
	if k := int(key) - 1; k >= 0 && k < len(t.keyed) && t.keyed[k].tenant == tenant {
		w = t.keyed[k]
	}
	if p, ok := w.byModel[model]; ok {
		return p
	}
	return w.other
}

// Paths are all that requests can pass, each once, in an order of no meaning.
func (t *Table) Paths() iter.Seq[*Path] { return slices.Values(t.paths) }

// Organisation finds an organisation that has quotas, by name.
func (t *Table) Organisation(id string) (*Organisation, bool) {
	o, ok := t.orgs[id]
	return o, ok
}

// ways are the paths of a tenant's requests, or of those with one of its keys.
type ways struct {
	tenant  fleet.TenantID
	byModel map[fleet.ModelID]*Path // of models with limits of their own
	other   *Path                   // of all others; nil: no limits
}
