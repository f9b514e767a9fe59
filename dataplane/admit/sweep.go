package admit

import (
	"maps"
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
	for _, org := range a.orgs {
		org.gone.Store(true)
	}
	for p := range t.Paths() {
		org := a.organisation(p.Org)
		org.gone.Store(false)
		if old := org.now.Swap(p.Org); old != p.Org || org.sample.Load() == nil {
			if (p.Org.Young || p.Org.Moved) && !org.unmet {
				org.unmet = true
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

// sweep forgets paths that nobody has used for long and of which nothing is held, and what neither they nor
// the table know of.
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
	a.forget()
}

// forget drops organisations and limits that are neither in the table nor on a path. The lock is held.
func (a *Admitter) forget() {
	if a.owner.table == nil {
		return
	}
	known := make(map[string]map[string]bool, len(a.orgs))
	keep := func(org, limit string) {
		if known[org] == nil {
			known[org] = make(map[string]bool)
		}
		known[org][limit] = true
	}
	for p := range a.owner.table.Paths() {
		for _, limits := range [][]table.Limit{p.Limits, p.Shadow} {
			for i := range limits {
				keep(p.Org.ID, limits[i].ID)
			}
		}
	}
	for _, h := range a.byID {
		for _, l := range []*lane{h.main, h.shadow} {
			if l != nil {
				for _, x := range l.tallies {
					keep(h.org.id, x.id)
				}
			}
		}
	}
	for id, o := range a.orgs {
		if limits := known[id]; limits == nil {
			delete(a.orgs, id)
		} else {
			o.forget(limits)
		}
	}
}

// forget drops all limits but some.
func (o *organisation) forget(but map[string]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.tallies, func(id string, _ *tally) bool { return !but[id] })
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
