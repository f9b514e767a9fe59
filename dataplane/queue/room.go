package queue

import (
	"cmp"
	"slices"
)

// band is all that waits at one priority, over all lanes, by tenant: where there are too many, the
// lowest band gives way, and in it the tenant that holds most, with what came last.
type band struct {
	priority int32
	held     amount
	holdings map[string]*holding
	heaviest heap[*holding]
}

// holding is what waits of one tenant at one priority.
type holding struct {
	band   *band
	tenant string
	held   amount
	items  list
	at     int
}

func (h *holding) slot() *int { return &h.at }

func (h *holding) before(other *holding) bool {
	if h.held.cost != other.held.cost {
		return h.held.cost > other.held.cost
	}
	return h.tenant < other.tenant
}

func (q *Queue) band(priority int32) (int, bool) {
	return slices.BinarySearchFunc(q.bands, priority, func(b *band, p int32) int { return cmp.Compare(b.priority, p) })
}

// hold counts an item in.
func (q *Queue) hold(it *Item) {
	i, found := q.band(it.Priority)
	if !found {
		q.bands = slices.Insert(q.bands, i, &band{priority: it.Priority, holdings: make(map[string]*holding)})
	}
	b := q.bands[i]
	h := b.holdings[it.Tenant]
	if h == nil {
		h = &holding{band: b, tenant: it.Tenant, items: list{which: inHolding}}
		b.holdings[it.Tenant] = h
		b.heaviest.push(h)
	}
	h.items.push(it)
	it.holding = h
	h.held = h.held.plus(it.size)
	b.heaviest.fix(h)
	b.held = b.held.plus(it.size)
	q.held = q.held.plus(it.size)
	of := q.tenants[it.Tenant]
	if of == nil {
		of = &amount{}
		q.tenants[it.Tenant] = of
	}
	*of = of.plus(it.size)
}

// release counts an item out.
func (q *Queue) release(it *Item) {
	h := it.holding
	b := h.band
	h.items.remove(it)
	it.holding = nil
	h.held = h.held.minus(it.size)
	b.held = b.held.minus(it.size)
	q.held = q.held.minus(it.size)
	of := q.tenants[it.Tenant]
	if *of = of.minus(it.size); of.items == 0 {
		delete(q.tenants, it.Tenant)
	}
	if h.held.items > 0 {
		b.heaviest.fix(h)
		return
	}
	b.heaviest.remove(h)
	delete(b.holdings, h.tenant)
	if b.held.items == 0 {
		i, _ := q.band(b.priority)
		q.bands = slices.Delete(q.bands, i, i+1)
	}
}

// shed takes the first that must go out of a band.
func (q *Queue) shed(b *band) *Item {
	it := b.heaviest.top().items.newest
	q.take(it)
	return it
}

// makeRoom takes out what must go so that an item has a place, or nothing and says why it has none.
// A tenant at the end of its share makes room for itself out of what is its own and lower.
func (q *Queue) makeRoom(it *Item) ([]*Item, Cause) {
	whole, share := q.limits.whole(), q.limits.share()
	mine := it.size
	if of := q.tenants[it.Tenant]; of != nil {
		mine = mine.plus(*of)
	}
	all := q.held.plus(it.size)
	if mine.within(share) && all.within(whole) {
		return nil, ""
	}
	var lower, myLower amount
	for _, b := range q.bands {
		if b.priority >= it.Priority {
			break
		}
		lower = lower.plus(b.held)
		if h := b.holdings[it.Tenant]; h != nil {
			myLower = myLower.plus(h.held)
		}
	}
	if !mine.minus(myLower).within(share) {
		return nil, TenantShare
	}
	var unfair *Item
	if left := all.minus(lower); !left.within(whole) {
		if unfair = q.unfair(it); unfair == nil || !left.minus(unfair.size).within(whole) {
			return nil, QueueFull
		}
	}
	var shed []*Item
	// What is taken out is lower than the item, and so no more than what was summed up above.
	for over := mine; !over.within(share); {
		out := q.lowestOf(it.Tenant)
		q.take(out)
		over = over.minus(out.size)
		shed = append(shed, out)
	}
	for !q.held.plus(it.size).within(whole) {
		if b := q.bands[0]; b.priority < it.Priority {
			shed = append(shed, q.shed(b))
			continue
		}
		q.take(unfair)
		shed = append(shed, unfair)
	}
	return shed, ""
}

// lowestOf is the last that came of a tenant's items with the lowest priority.
func (q *Queue) lowestOf(tenant string) *Item {
	for _, b := range q.bands {
		if h := b.holdings[tenant]; h != nil {
			return h.items.newest
		}
	}
	return nil
}

// unfair is what must go for an item of the same priority: the last of the tenant that holds most
// there, if that is more than the item's tenant would hold with it, even when it has lost that. Nil:
// there is none.
func (q *Queue) unfair(it *Item) *Item {
	i, found := q.band(it.Priority)
	if !found {
		return nil
	}
	b := q.bands[i]
	with := it.size.cost
	if h := b.holdings[it.Tenant]; h != nil {
		with += h.held.cost
	}
	most := b.heaviest.top()
	out := most.items.newest
	if most.tenant == it.Tenant || most.held.cost-out.size.cost < with {
		return nil
	}
	return out
}
