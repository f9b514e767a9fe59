package admit

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// ledger is what this router knows of money: what it charged and nobody has taken yet, and what the
// control plane's ledger knows to be spent.
type ledger struct {
	mu      sync.Mutex // guards what follows
	charged map[charge]int64
	// known are the newest windows that the ledger has told of. heard: it has told of all that there are.
	known map[budget]known
	heard bool
}

type budget struct{ org, limit string }

// charge is to a budget in the window that began at a time.
type charge struct {
	budget
	windowUs int64
}

// known is what is spent in the two newest windows of a budget, the newest first. Two, since a router whose
// clock is ahead has the next one begin early.
type known [2]struct{ windowUs, micros int64 }

// learn takes in what is spent in a window. That only grows.
func (k *known) learn(windowUs, micros int64) {
	at := 0
	for ; at < len(k) && windowUs <= k[at].windowUs; at++ {
		if windowUs == k[at].windowUs {
			k[at].micros = max(k[at].micros, micros)
			return
		}
	}
	if at < len(k) {
		copy(k[at+1:], k[at:])
		k[at].windowUs, k[at].micros = windowUs, micros
	}
}

// count adds to what a budget was charged with, in the window that now is in.
func (g *ledger) count(org string, x *tally, micros int64, now time.Time, l *table.Limit) {
	if micros == 0 {
		return
	}
	w, err := g.window(x, now, l)
	if err != nil {
		return // a table's calendars are known
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.charged == nil {
		g.charged = make(map[charge]int64)
	}
	g.charged[charge{budget{org, x.id}, w.FromUs}] += micros
}

// window is a budget's that now is in, of which nobody knows what was spent. It is remembered: to find
// it takes as long as many decisions.
func (g *ledger) window(x *tally, now time.Time, l *table.Limit) (ratelimit.Window, error) {
	us := now.UnixMicro()
	if w := x.window.Load(); w != nil && w.FromUs <= us && us < w.NextUs && w.calendar == l.Calendar && w.place == l.Place {
		return w.Window, nil
	}
	w, err := l.Calendar.Window(now, l.Place)
	if err == nil {
		x.window.Store(&window{w, l.Calendar, l.Place})
	}
	return w, err
}

// window of a budget, by what it was found.
type window struct {
	ratelimit.Window
	calendar ratelimit.Calendar
	place    *time.Location
}

// spent is what the ledger knows to be spent of a budget in a window, -1: it doesn't.
func (g *ledger) spent(org, limit string, fromUs int64) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	told := g.known[budget{org, limit}]
	for _, s := range told {
		if s.windowUs == fromUs {
			return max(s.micros, 0)
		}
	}
	if g.heard && told[0].windowUs < fromUs {
		return 0
	}
	return -1
}

// TakeSpent hands over what budgets were charged with since it was last called, by organisation, limit
// and window. Whoever takes it must bring it to the ledger.
func (a *Admitter) TakeSpent() []*routerpb.Spent {
	g := &a.ledger
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*routerpb.Spent
	for c, micros := range g.charged {
		if micros != 0 {
			out = append(out, &routerpb.Spent{Organisation: c.org, Limit: c.limit, WindowUnixUs: c.windowUs, Micros: micros})
		}
	}
	clear(g.charged)
	slices.SortFunc(out, func(a, b *routerpb.Spent) int {
		return cmp.Or(cmp.Compare(a.Organisation, b.Organisation), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.WindowUnixUs, b.WindowUnixUs))
	})
	return out
}

// Ledger tells what all routers spent, as far as the control plane knows: of all budgets, where of one
// that is not named nothing is spent, or of those that have changed. Stores that have lost a budget's
// level begin with it, and so does what this router spends by itself.
//
// What is spent in a window only grows. So what was told before stays if it is more: a node may be
// behind, or the control plane restored from a backup, which knows of an earlier time.
func (a *Admitter) Ledger(whole bool, spent []*routerpb.Spent) {
	g := &a.ledger
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil {
		g.known = make(map[budget]known, len(spent))
	}
	newest := int64(0)
	for _, s := range spent {
		k := budget{s.GetOrganisation(), s.GetLimit()}
		of := g.known[k]
		of.learn(s.GetWindowUnixUs(), s.GetMicros())
		g.known[k] = of
		newest = max(newest, s.GetWindowUnixUs())
	}
	if whole {
		g.heard = true
		maps.DeleteFunc(g.known, func(_ budget, k known) bool { return k[0].windowUs < newest-forgetAfter.Microseconds() })
	}
}

// forgetAfter is how much older than the newest window that of a budget may be until it is forgotten: two
// months, and no month is over sooner.
const forgetAfter = 63 * 24 * time.Hour

// remains is what is left of a budget in a window, as far as this router knows. The organisation's lock
// is held.
func (o *organisation) remains(x *tally, budget, fromUs int64) int64 {
	if spent := o.ledger.spent(o.id, x.id, fromUs); spent >= 0 {
		return budget - spent
	}
	if x.levelNs != 0 && x.windowUs == fromUs {
		return x.level
	}
	return 0
}
