package dataplane

import (
	"sync"
	"sync/atomic"

	"anabranch/api/fleet"
	"anabranch/dataplane/proxy"
)

// bodies bounds what is held of requests' bodies, in bytes, for all together and for each tenant half of
// that: a few hundred large ones would otherwise fill the memory of a router that everybody's streams
// go through. The first piece of each does not count, which the number of requests bounds; so most
// requests touch no counter.
type bodies struct {
	most    int64
	held    atomic.Int64
	tenants sync.Map // fleet.TenantID → *atomic.Int64
}

// holding is what one request holds.
type holding struct {
	of     *bodies
	id     fleet.TenantID
	tenant *atomic.Int64 // of all its requests; nil while this one holds nothing
	bytes  int64
}

func (b *bodies) holding(tenant fleet.TenantID) holding { return holding{of: b, id: tenant} }

// ofTenant is the count of a tenant.
func (b *bodies) ofTenant(id fleet.TenantID) *atomic.Int64 {
	held, there := b.tenants.Load(id)
	if !there {
		held, _ = b.tenants.LoadOrStore(id, &atomic.Int64{})
	}
	return held.(*atomic.Int64)
}

// upTo says that so many bytes are needed by now. Where there is no room for them it says why, and
// nothing changes. It never gives back.
func (h *holding) upTo(bytes int64) *proxy.Error {
	more := bytes - firstPiece - 1 - h.bytes
	if more <= 0 {
		return nil
	}
	if h.tenant == nil {
		h.tenant = h.of.ofTenant(h.id)
	}
	switch {
	case h.tenant.Add(more) > h.of.most/2:
		h.tenant.Add(-more)
		return tooMany()
	case h.of.held.Add(more) > h.of.most:
		h.of.held.Add(-more)
		h.tenant.Add(-more)
		return busy()
	}
	h.bytes += more
	return nil
}

// free gives all back. It may be called twice, and for the zero holding.
func (h *holding) free() {
	if h.bytes > 0 {
		h.of.held.Add(-h.bytes)
		h.tenant.Add(-h.bytes)
		h.bytes = 0
	}
}

// keep forgets the tenants that the table does not have any more and that hold nothing.
func (b *bodies) keep(has func(fleet.TenantID) bool) {
	b.tenants.Range(func(id, held any) bool {
		if !has(id.(fleet.TenantID)) && held.(*atomic.Int64).Load() == 0 {
			b.tenants.Delete(id)
		}
		return true
	})
}
