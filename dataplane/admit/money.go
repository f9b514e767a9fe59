package admit

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// Spent is micro-dollars of one budget of money within one of its windows.
type Spent struct {
	Org, Limit string
	// WindowUs is the start of the window in microseconds of the Unix epoch.
	WindowUs int64
	// Micros that this router charged since they were last taken; or of what the ledger tells, the sum
	// that all routers charged in the window.
	Micros int64
}

// ledger is what this router knows of money: what it charged and nobody has taken yet, and what the
// control plane's ledger knows to be spent.
type ledger struct {
	mu      sync.Mutex // guards what follows
	charged map[Spent]int64
	known   map[budget]Spent
}

type budget struct{ org, limit string }

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
		g.charged = make(map[Spent]int64)
	}
	g.charged[Spent{Org: org, Limit: x.id, WindowUs: w.FromUs}] += micros
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
	if s, ok := g.known[budget{org, limit}]; ok && s.WindowUs == fromUs {
		return max(s.Micros, 0)
	}
	return -1
}

// TakeSpent appends what budgets were charged with since it was last called, by organisation, limit and
// window. Whoever takes it must bring it to the ledger, or give it back with PutBack.
func (a *Admitter) TakeSpent(to []Spent) []Spent {
	g := &a.ledger
	g.mu.Lock()
	defer g.mu.Unlock()
	from := len(to)
	for s, micros := range g.charged {
		if s.Micros = micros; micros != 0 {
			to = append(to, s)
		}
	}
	clear(g.charged)
	slices.SortFunc(to[from:], func(a, b Spent) int {
		return cmp.Or(cmp.Compare(a.Org, b.Org), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.WindowUs, b.WindowUs))
	})
	return to
}

// PutBack gives back what was taken and could not be brought to the ledger.
func (a *Admitter) PutBack(spent []Spent) {
	g := &a.ledger
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.charged == nil {
		g.charged = make(map[Spent]int64)
	}
	for _, s := range spent {
		micros := s.Micros
		s.Micros = 0
		g.charged[s] += micros
	}
}

// Ledger tells what the control plane's ledger knows to be spent, in place of what it knew before of the
// same budgets. Stores that have lost a budget's level begin with it.
func (a *Admitter) Ledger(spent []Spent) {
	g := &a.ledger
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil {
		g.known = make(map[budget]Spent)
	}
	for _, s := range spent {
		k := budget{s.Org, s.Limit}
		if old, ok := g.known[k]; ok && old.WindowUs > s.WindowUs {
			continue // of a window that is over
		}
		g.known[k] = s
	}
}

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
