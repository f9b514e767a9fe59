package queue

import (
	"slices"
	"time"
)

// slow is a queue that does what [Queue] does by looking at everything, so that it can be seen to be
// right. It holds items in the order of arrival.
type slow struct {
	limits Limits
	items  []*Item
	levels map[levelKey]*slowLevel // those where something waits
}

type levelKey struct {
	lane     uint64
	priority int32
}

type slowLevel struct {
	shares[string]
	flows map[string]*shares[uint8] // of tenants of which something waits
}

// shares is one level of start-time fair queueing, over names.
type shares[K comparable] struct {
	now   int64
	turn  uint64
	start map[K]int64
	since map[K]uint64
}

func newShares[K comparable]() shares[K] {
	return shares[K]{start: map[K]int64{}, since: map[K]uint64{}}
}

func (s *shares[K]) put(k K, start int64) {
	s.turn++
	s.start[k], s.since[k] = start, s.turn
}

func (s *shares[K]) join(k K) { s.put(k, max(s.start[k], s.now)) }

func (s *shares[K]) serve(k K, cost int64) {
	s.now = s.start[k]
	s.put(k, s.start[k]+cost)
}

func (s *shares[K]) least(names []K) K {
	return slices.MinFunc(names, func(a, b K) int {
		if s.start[a] != s.start[b] {
			return int(s.start[a] - s.start[b])
		}
		return int(s.since[a]) - int(s.since[b])
	})
}

func newSlow(l Limits) *slow { return &slow{limits: l, levels: map[levelKey]*slowLevel{}} }

func cost(it *Item) int64 { return min(max(it.Cost, 1), maxCost) }

// having are the items for which all the conditions hold.
func having(items []*Item, all ...func(*Item) bool) []*Item {
	var out []*Item
	for _, it := range items {
		if !slices.ContainsFunc(all, func(f func(*Item) bool) bool { return !f(it) }) {
			out = append(out, it)
		}
	}
	return out
}

func ofTenant(t string) func(*Item) bool { return func(it *Item) bool { return it.Tenant == t } }
func ofFlow(f uint8) func(*Item) bool    { return func(it *Item) bool { return slotOf(it.Flow) == f } }

func at(k levelKey) func(*Item) bool {
	return func(it *Item) bool { return levelKey{it.Lane, it.Priority} == k }
}
func below(p int32) func(*Item) bool { return func(it *Item) bool { return it.Priority < p } }
func of(p int32) func(*Item) bool    { return func(it *Item) bool { return it.Priority == p } }
func inLane(l uint64) func(*Item) bool {
	return func(it *Item) bool { return it.Lane == l }
}

func sizeOf(items []*Item) amount {
	var a amount
	for _, it := range items {
		a = a.plus(amount{1, max(it.Bytes, 0), cost(it)})
	}
	return a
}

func without(items []*Item, it *Item) []*Item {
	return slices.DeleteFunc(slices.Clone(items), func(x *Item) bool { return x == it })
}

// lowest is the last of the heaviest tenant among the lowest priority of some items.
func lowest(items []*Item) *Item {
	p := slices.MinFunc(items, func(a, b *Item) int { return int(a.Priority) - int(b.Priority) }).Priority
	return heaviest(having(items, of(p)))
}

func heaviest(items []*Item) *Item {
	var best *Item
	for _, it := range items { // in the order of arrival, so that the last of a tenant wins
		if best == nil || it.Tenant == best.Tenant {
			best = it
			continue
		}
		mine, others := sizeOf(having(items, ofTenant(it.Tenant))).cost, sizeOf(having(items, ofTenant(best.Tenant))).cost
		if mine > others || mine == others && it.Tenant < best.Tenant {
			best = it
		}
	}
	return best
}

func (s *slow) Push(it *Item) ([]*Item, Cause) {
	left := slices.Clone(s.items)
	var shed []*Item
	out := func(x *Item) { left, shed = without(left, x), append(shed, x) }
	mine := func() amount { return sizeOf(append(having(left, ofTenant(it.Tenant)), it)) }
	all := func() amount { return sizeOf(append(slices.Clone(left), it)) }
	for !mine().within(s.limits.share()) {
		own := having(left, ofTenant(it.Tenant), below(it.Priority))
		if len(own) == 0 {
			return nil, TenantShare
		}
		out(lowest(own))
	}
	for !all().within(s.limits.whole()) {
		if lower := having(left, below(it.Priority)); len(lower) > 0 {
			out(lowest(lower))
			continue
		}
		equal := having(left, of(it.Priority))
		if len(equal) == 0 {
			return nil, QueueFull
		}
		x := heaviest(equal)
		theirs := sizeOf(without(having(equal, ofTenant(x.Tenant)), x)).cost
		if x.Tenant == it.Tenant || theirs < sizeOf(append(having(equal, ofTenant(it.Tenant)), it)).cost {
			return nil, QueueFull
		}
		out(x)
		if !all().within(s.limits.whole()) {
			return nil, QueueFull
		}
	}
	for _, x := range shed {
		s.Remove(x)
	}
	s.enter(it)
	return shed, ""
}

func (s *slow) enter(it *Item) {
	k := levelKey{it.Lane, it.Priority}
	there := having(s.items, at(k))
	if len(there) == 0 {
		s.levels[k] = &slowLevel{shares: newShares[string](), flows: map[string]*shares[uint8]{}}
	}
	v := s.levels[k]
	there = having(there, ofTenant(it.Tenant))
	if len(there) == 0 {
		f := newShares[uint8]()
		v.flows[it.Tenant] = &f
		v.join(it.Tenant)
	}
	if len(having(there, ofFlow(slotOf(it.Flow)))) == 0 {
		v.flows[it.Tenant].join(slotOf(it.Flow))
	}
	s.items = append(s.items, it)
}

func (s *slow) Peek(lane uint64) *Item {
	there := having(s.items, inLane(lane))
	if len(there) == 0 {
		return nil
	}
	p := slices.MaxFunc(there, func(a, b *Item) int { return int(a.Priority) - int(b.Priority) }).Priority
	there = having(there, of(p))
	v := s.levels[levelKey{lane, p}]
	var tenants []string
	for _, it := range there {
		tenants = append(tenants, it.Tenant)
	}
	tenant := v.least(tenants)
	there = having(there, ofTenant(tenant))
	var flows []uint8
	for _, it := range there {
		flows = append(flows, slotOf(it.Flow))
	}
	return slices.MinFunc(having(there, ofFlow(v.flows[tenant].least(flows))), func(a, b *Item) int { return a.Came.Compare(b.Came) })
}

func (s *slow) Pop(lane uint64) *Item {
	it := s.Peek(lane)
	if it == nil {
		return nil
	}
	v := s.levels[levelKey{lane, it.Priority}]
	v.serve(it.Tenant, cost(it))
	v.flows[it.Tenant].serve(slotOf(it.Flow), cost(it))
	s.Remove(it)
	return it
}

func (s *slow) Remove(it *Item) bool {
	had := len(s.items)
	s.items = without(s.items, it)
	return len(s.items) < had
}

func (s *slow) Expire(now time.Time) []*Item {
	out := having(s.items, func(it *Item) bool { return !it.Deadline.IsZero() && it.Deadline.Before(now) })
	slices.SortStableFunc(out, func(a, b *Item) int { return a.Deadline.Compare(b.Deadline) })
	for _, it := range out {
		s.Remove(it)
	}
	return out
}

func (s *slow) Below(priority int32) []*Item {
	var out []*Item
	for lower := having(s.items, below(priority)); len(lower) > 0; lower = having(s.items, below(priority)) {
		out = append(out, lowest(lower))
		s.Remove(out[len(out)-1])
	}
	return out
}

func (s *slow) Ahead(lane uint64, priority int32) (int, int64) {
	a := sizeOf(having(s.items, inLane(lane), func(it *Item) bool { return it.Priority >= priority }))
	return int(a.items), a.cost
}
