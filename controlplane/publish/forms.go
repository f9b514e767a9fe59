package publish

import (
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"anabranch/api/delta"
	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// maxDeltas bounds the deltas kept for one form of the current table. Routers that hold something
// older than the last tables that many are sent the whole.
const maxDeltas = 16

// forms makes tables as routers get them, once for all routers that get the same.
type forms struct {
	mu sync.Mutex // guards of
	of map[*routerpb.Table]map[form]*made
}

// form is one way to send a table: sliced for a region, or whole (empty); plain for routers that know nothing
// of organisations, patient for those that shed nothing by the table, and settled for those that hold no leases of
// drills.
type form struct {
	region  fleet.RegionID
	plain   bool
	patient bool
	settled bool
}

// made is one form of a table.
type made struct {
	whole func() *routerpb.Table

	mu     sync.Mutex // guards deltas
	deltas map[number]func() *based
}

// number is a reference to a table, to be compared.
type number struct {
	cluster         string
	epoch, revision uint64
}

func numberOf(r *routerpb.TableRef) number {
	return number{r.GetClusterId(), r.GetEpoch(), r.GetRevision()}
}

// based is a delta from one earlier table.
type based struct {
	delta *routerpb.TableDelta // nil: the whole table is no larger
	// digest of the table that it starts from.
	digest []byte
}

// get gives the form of a table, which is one of those in force: one, or two while a rollout divides
// routers. Others' forms are dropped, but only by who sees later tables: a session that still looks at an
// earlier state has its own made.
func (f *forms) get(t *routerpb.Table, as form, inForce ...*routerpb.Table) *made {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.of[t]
	if of == nil {
		for kept := range f.of {
			if newer(kept.GetRef(), t.GetRef()) && !slices.Contains(inForce, kept) {
				return newMade(t, as)
			}
		}
		if f.of == nil {
			f.of = map[*routerpb.Table]map[form]*made{}
		}
		maps.DeleteFunc(f.of, func(kept *routerpb.Table, _ map[form]*made) bool { return !slices.Contains(inForce, kept) })
		of = map[form]*made{}
		f.of[t] = of
	}
	m := of[as]
	if m == nil {
		m = newMade(t, as)
		of[as] = m
	}
	return m
}

func newMade(t *routerpb.Table, as form) *made {
	return &made{deltas: map[number]func() *based{}, whole: sync.OnceValue(func() *routerpb.Table { return as.apply(t) })}
}

func (a form) apply(t *routerpb.Table) *routerpb.Table {
	if a.region != "" {
		t = Slice(t, a.region)
	}
	if a.plain {
		t = plain(t)
	}
	if a.patient {
		t = patient(t)
	}
	if a.settled {
		t = settled(t)
	}
	return t
}

// from gives what differs from the table of a reference, which is looked for among those kept. Nil:
// it is not there, or there is no room for another delta.
func (m *made) from(base *routerpb.TableRef, kept []*routerpb.Table, as form) *based {
	m.mu.Lock()
	d, ok := m.deltas[numberOf(base)]
	if !ok {
		d = m.maker(base, kept, as)
	}
	m.mu.Unlock()
	if d == nil {
		return nil
	}
	return d()
}

// maker remembers how to make a delta, without making it. The lock is held.
func (m *made) maker(base *routerpb.TableRef, kept []*routerpb.Table, as form) func() *based {
	i := slices.IndexFunc(kept, func(t *routerpb.Table) bool { return numberOf(t.GetRef()) == numberOf(base) })
	if i < 0 || len(m.deltas) >= maxDeltas {
		return nil
	}
	m.deltas[numberOf(base)] = sync.OnceValue(func() *based {
		before, now := as.apply(kept[i]), m.whole()
		d := delta.Make(before, now)
		if proto.Size(d) >= proto.Size(now) {
			return &based{}
		}
		return &based{delta: d, digest: delta.Digest(before)}
	})
	return m.deltas[numberOf(base)]
}
