package admit

import (
	"time"

	"anabranch/dataplane/table"
)

const (
	// sweepEvery is how often paths are looked through for those that nobody uses.
	sweepEvery = time.Minute
	// quietSweeps is after how many of them without a request a path is forgotten.
	quietSweeps = 10
)

// adopt takes in the paths of a new table.
func (a *Admitter) adopt(t *table.Table) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range t.Paths() {
		org := a.organisation(p.Org)
		if old := org.now.Swap(p.Org); old != p.Org || org.sample.Load() == nil {
			if p.Org.Young || p.Org.Moved {
				a.owner.unmet = append(a.owner.unmet, org)
			}
		}
		org.sample.Store(p)
		if h := a.byID[p.ID]; h != nil {
			h.path.Store(p)
			a.byPath.Store(p, h)
		}
	}
	a.byPath.Range(func(p, h any) bool {
		if h.(*hold).path.Load() != p {
			a.byPath.Delete(p) // a request with an older table finds it by name
		}
		return true
	})
}

// sweep forgets paths that nobody has used for long and of which nothing is held.
func (a *Admitter) sweep(nowNs int64) {
	if time.Duration(nowNs-a.owner.sweepNs) < sweepEvery {
		return
	}
	a.owner.sweepNs = nowNs
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, h := range a.byID {
		taken := h.taken.Load()
		if taken != h.sweptTaken || h.settled.Load() != taken || h.busy() {
			h.sweptTaken, h.quiet = taken, 0
			continue
		}
		if h.quiet++; h.quiet >= quietSweeps {
			delete(a.byID, id)
			a.byPath.Delete(h.path.Load())
			h.bequeath(taken)
		}
	}
}

// busy says whether the owner has something to do about the path.
func (h *hold) busy() bool {
	return h.main != nil && h.main.listed.Load() || h.shadow != nil && h.shadow.listed.Load()
}

// bequeath keeps the count of a path that is forgotten.
func (h *hold) bequeath(taken int64) {
	for _, l := range []*lane{h.main, h.shadow} {
		if l != nil {
			for _, x := range l.tallies {
				x.gone.Add(taken)
			}
		}
	}
}
