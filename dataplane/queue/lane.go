package queue

import "slices"

// lane is what waits for the same places, by priority.
type lane struct {
	key    uint64
	levels []*level // none is empty; the highest priority first
}

// level is one priority of a lane. Start-time fair queueing (Goyal, Vin, Cheng 1996) shares it: each
// tenant has a start tag, the service in tokens that it had, and the least is next; one that comes
// anew begins where the one served last stood, so that nobody saves up turns. The tokens count when
// the turn comes, as in the virtual token counter (Sheng et al., OSDI 2024). Within a tenant it is
// the same among flows.
//
// It lasts while something waits in it: what nobody had to wait for is not held against anyone.
type level struct {
	priority int32
	items    int
	cost     int64
	tags     tags
	payers   map[string]*payer // also those idle, whose tag may be ahead of the others
	waiting  heap[*payer]
}

// payer is a tenant at a level. Its flows are forgotten when nothing of it waits.
type payer struct {
	tag
	name    string
	tags    tags
	flows   map[uint8]*flow
	waiting heap[*flow]
}

// flow is what waits of one flow, in order.
type flow struct {
	tag
	level *level
	payer *payer
	name  uint8
	items list
}

// tags is a virtual time: the start of what was served last.
type tags struct {
	now  int64 // tokens
	turn uint64
}

// tag is where one stands in a virtual time.
type tag struct {
	start int64
	turn  uint64 // orders those with equal starts: who got its start first
	at    int    // slot
}

func (t *tag) slot() *int { return &t.at }

func (t *tag) sooner(other *tag) bool {
	if t.start != other.start {
		return t.start < other.start
	}
	return t.turn < other.turn
}

func (p *payer) before(other *payer) bool { return p.sooner(&other.tag) }
func (f *flow) before(other *flow) bool   { return f.sooner(&other.tag) }

// join gives one that was idle its start.
func (ts *tags) join(t *tag) { ts.put(t, max(t.start, ts.now)) }

// serve charges one for the service that it gets.
func (ts *tags) serve(t *tag, cost int64) {
	ts.now = t.start
	ts.put(t, t.start+cost)
}

func (ts *tags) put(t *tag, start int64) {
	ts.turn++
	t.start, t.turn = start, ts.turn
}

func (l *lane) head() *Item { return l.levels[0].head() }

func (v *level) head() *Item { return v.waiting.top().waiting.top().items.oldest }

// at finds the level of a priority, or where it would stand.
func (l *lane) at(priority int32) (int, bool) {
	return slices.BinarySearchFunc(l.levels, priority, func(v *level, p int32) int {
		switch {
		case v.priority > p:
			return -1
		case v.priority < p:
			return 1
		}
		return 0
	})
}

func (l *lane) push(it *Item) {
	i, found := l.at(it.Priority)
	if !found {
		l.levels = slices.Insert(l.levels, i, &level{priority: it.Priority, payers: make(map[string]*payer)})
	}
	v := l.levels[i]
	p := v.payers[it.Tenant]
	if p == nil {
		p = &payer{name: it.Tenant}
		v.payers[it.Tenant] = p
	}
	f := p.flow(v, slotOf(it.Flow))
	f.items.insert(it)
	it.flow = f
	v.items++
	v.cost += it.size.cost
	if f.at == 0 {
		p.tags.join(&f.tag)
		p.waiting.push(f)
	}
	if p.at == 0 {
		v.tags.join(&p.tag)
		v.waiting.push(p)
	}
}

func (p *payer) flow(v *level, name uint8) *flow {
	f := p.flows[name]
	if f == nil {
		f = &flow{level: v, payer: p, name: name, items: list{which: inFlow}}
		if p.flows == nil {
			p.flows = make(map[uint8]*flow)
		}
		p.flows[name] = f
	}
	return f
}

// serve charges for an item, which must be the head, and is taken out next.
func (l *lane) serve(it *Item) {
	f, p, v := it.flow, it.flow.payer, it.flow.level
	v.tags.serve(&p.tag, it.size.cost)
	v.waiting.fix(p)
	p.tags.serve(&f.tag, it.size.cost)
	p.waiting.fix(f)
}

func (l *lane) remove(it *Item) {
	f, p, v := it.flow, it.flow.payer, it.flow.level
	f.items.remove(it)
	it.flow = nil
	v.items--
	v.cost -= it.size.cost
	if f.items.oldest != nil {
		return
	}
	p.waiting.remove(f)
	if p.waiting.len() > 0 {
		return
	}
	p.flows, p.tags = nil, tags{}
	v.waiting.remove(p)
	if v.waiting.len() == 0 {
		i, _ := l.at(v.priority)
		l.levels = slices.Delete(l.levels, i, i+1)
		return
	}
	v.forget(p)
}

// forget drops the idle whose start is no later than that of anybody new, which makes no
// difference: this one, or all when there have come to be many.
func (v *level) forget(p *payer) {
	if p.start <= v.tags.now {
		delete(v.payers, p.name)
	}
	if len(v.payers) <= 2*v.waiting.len()+64 {
		return
	}
	for name, p := range v.payers {
		if p.at == 0 && p.start <= v.tags.now {
			delete(v.payers, name)
		}
	}
}

// Lists that an item is in.
const (
	inFlow = iota
	inHolding
)

// link is an item's place in a list.
type link struct{ older, newer *Item }

// list holds items in the order of arrival.
type list struct {
	oldest, newest *Item
	which          int
}

func (l *list) push(it *Item) {
	it.links[l.which] = link{older: l.newest}
	if l.newest != nil {
		l.newest.links[l.which].newer = it
	} else {
		l.oldest = it
	}
	l.newest = it
}

// insert puts an item behind those that came no later.
func (l *list) insert(it *Item) {
	older := l.newest
	for older != nil && !it.Came.IsZero() && it.Came.Before(older.Came) {
		older = older.links[l.which].older
	}
	newer := l.oldest
	if older != nil {
		newer = older.links[l.which].newer
		older.links[l.which].newer = it
	} else {
		l.oldest = it
	}
	if newer != nil {
		newer.links[l.which].older = it
	} else {
		l.newest = it
	}
	it.links[l.which] = link{older, newer}
}

func (l *list) remove(it *Item) {
	k := it.links[l.which]
	if k.older != nil {
		k.older.links[l.which].newer = k.newer
	} else {
		l.oldest = k.newer
	}
	if k.newer != nil {
		k.newer.links[l.which].older = k.older
	} else {
		l.newest = k.older
	}
	it.links[l.which] = link{}
}
