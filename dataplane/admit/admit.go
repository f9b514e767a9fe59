// Package admit decides whether quotas allow a request. A router holds leases on parts of all limits
// that a request passes and spends from them, without a lock and without asking anybody; one
// goroutine, the owner, asks the quota stores for more before it is needed. Where a store is away, each
// limit's degraded policy holds, and what was spent by it is charged once the store is back.
//
// Who the tenant is and how much a request turned out to use are told by others.
package admit

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	random "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// DefaultBudget is the longest that a request waits for a store.
const DefaultBudget = 50 * time.Millisecond

// farthest is the longest that a request waits for a closed limit whose store is far away.
const farthest = 500 * time.Millisecond

// inlineTurns is how often a request makes the owner's turn itself at most.
const inlineTurns = 4

// Options of New.
type Options struct {
	// Stores keep the levels. Required.
	Stores Stores
	// Router names this router, Run this run of it, which no other ever has. Empty: "router", and the
	// router's name with something random behind it.
	Router fleet.RouterID
	Run    string
	// Region is this router's: its share of each limit, over the routers that it has, is what this one
	// may spend by itself.
	Region fleet.RegionID
	// Budget bounds how long a request waits for a store. 0: DefaultBudget.
	Budget time.Duration
	// Informed says whether what the ledger told last is still to be believed. Stores that have lost a budget's level
	// are else told that this router doesn't know what was spent: others do. Nil: always.
	Informed func(now time.Time) bool
	// Inline has a request that lacks units make the owner's turn itself instead of waiting for one:
	// for virtual time, in which nobody can wait. Run must not run then; call Turn.
	Inline bool
	// Lost says whether the stores are to be taken not to answer now, because that is rehearsed. Nil: never.
	Lost func() bool
	// Registerer takes the metrics. Nil: none are kept.
	Registerer prometheus.Registerer
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// Rand is uniform in [0, 1). Nil: math/rand/v2.
	Rand func() float64
	// Logger of what a person should know. Nil: none.
	Logger *slog.Logger
}

// Validate names the option that is wrong and the fix, or answers nil.
func (o Options) Validate() error {
	switch {
	case o.Stores == nil:
		return errors.New("quota stores are nil: give admit.Own of a redisbucket.Lender, or of ratelimit.NewLending for a single router")
	case o.Budget < 0:
		return fmt.Errorf("quota budget %v is below 0: leave it 0 for %v", o.Budget, DefaultBudget)
	}
	return nil
}

// Admitter admits requests. It is safe for concurrent use. Run must run, or Turn be called often.
type Admitter struct {
	stores Stores
	run    string
	region fleet.RegionID
	budget time.Duration
	inline bool
	now    func() time.Time // nil: the real clock
	// informed is as in Options.
	informed func(now time.Time) bool
	lost     func() bool // as in Options
	start    time.Time
	rand     func() float64
	log      *slog.Logger
	waits    *waits

	table  atomic.Pointer[table.Table] // newest
	byPath sync.Map                    // *table.Path → *hold, of tables in use
	queue  queue
	ledger ledger

	mu    sync.Mutex // guards what follows
	byID  map[string]*hold
	orgs  map[string]*organisation
	holds int // made so far

	turn  sync.Mutex // held by the owner in its turn
	owner owner
}

// New makes an Admitter.
func New(o Options) (*Admitter, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	a := &Admitter{
		stores: o.Stores, run: o.Run, region: o.Region, budget: o.Budget, inline: o.Inline, now: o.Now, informed: o.Informed, lost: o.Lost, rand: o.Rand, log: o.Logger,
		byID: make(map[string]*hold), orgs: make(map[string]*organisation), queue: queue{bell: make(chan struct{}, 1)},
	}
	if a.run == "" {
		if o.Router == "" {
			o.Router = "router"
		}
		a.run = string(o.Router) + "-" + rand.Text()[:10]
	}
	if a.budget == 0 {
		a.budget = DefaultBudget
	}
	if a.rand == nil {
		a.rand = random.Float64
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.log = a.log.With(slog.String("component", "admit"))
	a.start = a.clock().Add(-time.Second) // a Holding's times are above 0
	a.owner.roundTrips = make(map[fleet.RegionID]*roundTrip)
	var err error
	if a.waits, err = newMetrics(o.Registerer, a); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *Admitter) clock() time.Time {
	if a.now != nil {
		return a.now()
	}
	return time.Now()
}

// mono is the time that holdings count by. The real one reads the monotonic clock alone, at half the
// price of a whole time.
func (a *Admitter) mono() int64 {
	if a.now != nil {
		return a.at(a.now())
	}
	return int64(time.Since(a.start))
}

func (a *Admitter) at(t time.Time) int64 { return int64(t.Sub(a.start)) }

// Applied tells of a new table. Without it the owner learns of tables from requests alone.
func (a *Admitter) Applied(t *table.Table) {
	a.table.Store(t)
	a.queue.ring()
}

// Run is the owner: it asks the stores whenever something is due, until ctx ends; then it gives back
// what is held and tells what was spent. Stop whoever settles first.
func (a *Admitter) Run(ctx context.Context) error { return a.own(ctx) }

// Request is what limits count of a request.
type Request struct {
	Tenant *table.Tenant
	// Key that it came with, if quotas single it out.
	Key table.KeyID
	// Model is the base model that is asked for, and has the prices. Nil: none in particular.
	Model *table.Model
	// Requests is how many requests it counts as. 0: one. Below 0: none, only its tokens count.
	Requests int64
	// Input and Output are the tokens to reserve, see InputTokens and OutputTokens.
	Input, Output int64
	// Budget bounds the wait for a store. 0: the admitter's own.
	Budget time.Duration
}

// use is what the request takes, and model what is asked for.
func (q *Request) use() (u use, model fleet.ModelID) {
	u = use{requests: q.Requests, input: q.Input, output: q.Output}
	if q.Requests == 0 {
		u.requests = 1
	}
	if q.Model != nil {
		model = q.Model.ID
		u.inputMicros, u.outputMicros = q.Model.InputMicros, q.Model.OutputMicros
	}
	return u.bounded(), model
}

// Take charges a request to all of its limits, or to none. It waits for a store at most for the budget (of a
// closed limit, for an answer from afar), and that only where nothing is held of a limit and the store has not refused lately. Where ctx ends
// before, the request is refused.
//
// The reservation is nil where the request is refused, and else must be settled.
func (a *Admitter) Take(ctx context.Context, t *table.Table, q Request) (*Reservation, ratelimit.Decision) {
	u, model := q.use()
	p := t.Path(q.Tenant.ID, model, q.Key)
	if p == nil {
		return &Reservation{admitter: a, use: u}, ratelimit.Decision{Allowed: true, Tightest: -1}
	}
	h := a.find(t, p)
	d := ratelimit.Decision{Allowed: true, Tightest: -1}
	if l := h.main; l != nil {
		var room [ratelimit.MaxPath]int64
		costs := room[:len(l.units)]
		u.costs(costs, l.units)
		now := a.mono()
		if verdict := l.holding.Spend(costs, now); verdict == ratelimit.Spent {
			d = l.allowed(costs, now)
		} else if d = a.lacking(ctx, t, l, costs, verdict, cmp.Or(q.Budget, a.patience(l))); !d.Allowed {
			d.RetryAfterMs += int64(float64(d.RetryAfterMs) * jitter * a.rand())
			return nil, d
		}
		if l.slotted {
			l.keep(1)
		}
	}
	h.taken.Add(1)
	return &Reservation{admitter: a, hold: h, use: u, degraded: d.Degraded, shadow: h.shadow != nil && a.shadow(h.shadow, &u)}, d
}

// patience is how long a request waits for an answer about a lane: the budget, or where it is refused without
// one, for as long as an answer takes from a store that is far away.
func (a *Admitter) patience(l *lane) time.Duration {
	far := time.Duration(l.hold.org.far.Load())
	if far <= a.budget/2 || !slices.ContainsFunc(l.limits(), func(x table.Limit) bool { return x.Degraded == table.DegradedClosed }) {
		return a.budget
	}
	return min(max(a.budget, far+far/2), farthest)
}

// lacking decides on a request whose path lacks units here. It is the slow way.
func (a *Admitter) lacking(ctx context.Context, t *table.Table, l *lane, costs []int64, verdict ratelimit.Verdict, patience time.Duration) ratelimit.Decision {
	if at := l.tooLarge(costs); at >= 0 {
		l.tallies[at].denied.Add(1)
		return l.never(at, costs, a.mono())
	}
	var budget *time.Timer
	var began time.Time
	first := l.view.Load()
	for round := 0; ; round++ {
		seen := l.count()
		now := a.mono()
		if a.why(l) != nil {
			return a.alone(t, l, costs)
		}
		if round > 0 || l.has(costs, now) { // an answer has come since
			verdict = l.holding.Spend(costs, now)
		}
		switch verdict {
		case ratelimit.Spent:
			a.waits.waited(began, a.clock)
			return l.allowed(costs, now)
		case ratelimit.Refused:
			a.waits.waited(began, a.clock)
			return a.deny(l, costs, now)
		}
		a.rouse(l, true)
		if a.inline {
			for _, b := range a.due(a.clock(), false) {
				a.call(ctx, b)
			}
			if l.count() != seen && round < inlineTurns {
				continue
			}
			break
		}
		if budget == nil {
			began = a.clock()
			budget = time.NewTimer(patience)
			defer budget.Stop()
		}
		select {
		case <-l.after(seen):
			continue
		case <-ctx.Done():
			return a.deny(l, costs, a.mono())
		case <-budget.C:
		}
		break
	}
	a.waits.waited(began, a.clock)
	// On a busy machine what was waited for and the end of the patience are seen at once.
	if now := a.mono(); l.has(costs, now) && l.holding.Spend(costs, now) == ratelimit.Spent {
		return l.allowed(costs, now)
	}
	if now := a.mono(); l.view.Load() != first && a.why(l) == nil && !l.plenty(costs, now) {
		return a.deny(l, costs, now)
	}
	// Nobody has answered, or what the answer brought others have taken and the next one is late, though the store has
	// enough: it is as good as away.
	return a.alone(t, l, costs)
}

func (a *Admitter) deny(l *lane, costs []int64, now int64) ratelimit.Decision {
	d := l.refused(costs, now)
	l.tallies[d.Tightest].denied.Add(1)
	return d
}

// alone decides without the store.
func (a *Admitter) alone(t *table.Table, l *lane, costs []int64) ratelimit.Decision {
	d := l.hold.org.take(l, costs, a.part(t, l.hold.org), a.clock())
	if !d.Allowed {
		l.tallies[d.Tightest].denied.Add(1)
		a.rouse(l, false) // the store is asked when it is back, which ends the absence
		return d
	}
	// The store is told when it is back: of a rate, what it has not set aside.
	l.holding.Charge(l.direct(costs))
	a.rouse(l, false)
	return d
}

// part of an organisation's limits that is this router's: its region's share over the region's routers.
func (a *Admitter) part(t *table.Table, o *organisation) float64 {
	routers := 1
	if r := t.Regions[a.region]; r != nil {
		routers = max(1, len(r.PeerURLs))
	}
	return float64(o.now.Load().Share(a.region)) / ratelimit.ShareParts / float64(routers)
}

// shadow counts what the limits in shadow would have said, and says whether the use was charged to
// them. Nobody waits for them: what their lease lacks while the store has not refused is charged to it.
func (a *Admitter) shadow(l *lane, u *use) bool {
	var room [ratelimit.MaxPath]int64
	costs := room[:len(l.units)]
	u.costs(costs, l.units)
	at := l.tooLarge(costs)
	if at < 0 {
		now := a.mono()
		switch l.holding.Spend(costs, now) {
		case ratelimit.Spent:
			return true
		case ratelimit.Short:
			l.holding.Charge(costs)
			a.rouse(l, true)
			return true
		}
		a.rouse(l, false)
		at = l.refused(costs, now).Tightest
	}
	l.tallies[at].wouldDeny.Add(1)
	return false
}

// errUnknown and errStale are why a lane's store is not asked.
var (
	errUnknown = errors.New("the organisation's quota store is not known here")
	errStale   = errors.New("the quota store has heard of a newer policy than this router")
	errLost    = errors.New("the loss of the quota store is rehearsed")
)

// why is the reason not to ask the lane's store, or nil.
func (a *Admitter) why(l *lane) error {
	if l.stale.Load().of(l.hold.org.now.Load()) {
		return errStale
	}
	return a.unwell(l.hold.org)
}

// unwell is why an organisation's store is not asked: a rehearsed loss, or a real one.
func (a *Admitter) unwell(o *organisation) error {
	if a.lost != nil && a.lost() {
		return errLost
	}
	return a.sick(o)
}

func (a *Admitter) sick(o *organisation) error {
	store := a.stores.Of(o.now.Load().Home)
	if store == nil {
		return errUnknown
	}
	return store.Healthy(o.id)
}

// StoreOK says whether the stores of all organisations that this router serves answer, as far as is
// known; where one doesn't, the degraded policy of each limit holds. One whose loss is only rehearsed is well.
func (a *Admitter) StoreOK() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range a.orgs {
		if !o.gone.Load() && a.sick(o) != nil {
			return false
		}
	}
	if s := a.stores.Of(""); len(a.orgs) == 0 && s != nil {
		return s.Healthy("") == nil
	}
	return true
}
