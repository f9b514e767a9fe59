package endpoint

import (
	"sync/atomic"

	"anabranch/api/fleet"
)

// perModel is something that is kept of each model that a place serves. It is read without a lock;
// the zero perModel has none.
type perModel[T any] struct {
	p atomic.Pointer[map[fleet.ModelID]*T] // never changed in place
}

// of is that of a model; nil if it isn't served.
func (m *perModel[T]) of(id fleet.ModelID) *T { return m.all()[id] }

// all must not be changed.
func (m *perModel[T]) all() map[fleet.ModelID]*T {
	if p := m.p.Load(); p != nil {
		return *p
	}
	return nil
}

// keep makes it that of these models: those there were stay as they are. It must not be called twice
// at once.
func (m *perModel[T]) keep(models []fleet.ModelID, fresh func(fleet.ModelID) *T) {
	old := m.all()
	next := make(map[fleet.ModelID]*T, len(models))
	for _, id := range models {
		if next[id] = old[id]; next[id] == nil {
			next[id] = fresh(id)
		}
	}
	m.p.Store(&next)
}
