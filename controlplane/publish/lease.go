package publish

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// renewals knows when this node applied the newest renewal, or step, of the drill under way, by the clock that nobody
// sets: leases are as long as what is left from then on. A node that quorum has left applies none, and what
// it hands out gets less until it is nothing.
type renewals struct {
	mu    sync.Mutex // guards what is below
	was   point
	at    time.Time // when was was applied
	sawIt bool      // false: it was there before this process looked, nobody knows for how long
	seen  bool      // something was looked at
}

// point is how far a drill has come.
type point struct{ epoch, id, sequence uint64 }

func (p point) before(o point) bool {
	return cmp.Or(cmp.Compare(p.epoch, o.epoch), cmp.Compare(p.id, o.id), cmp.Compare(p.sequence, o.sequence)) < 0
}

// look notes how far the drill under way has come in a state. It is to be called for each state soon after it was
// applied.
func (r *renewals) look(view *state.View, now time.Time) {
	var p point
	if d := view.ActiveDrill(); d != nil {
		p = point{view.Epoch(), d.GetId(), d.GetSequence()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.seen || r.was.before(p) {
		r.was, r.at, r.sawIt = p, now, r.seen
		r.seen = true
	}
}

// since is when a point was applied; false: it was before this process looked, or another has been since.
func (r *renewals) since(p point) (at time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at, r.sawIt && r.was == p
}

// follow looks at each state until stop is closed, and wakes sessions for those that concern them.
func (s *Server) follow() {
	var before *state.View
	for {
		view := s.o.View()
		s.renewals.look(view, s.o.Now())
		if view.ConcernsRouters(before) {
			s.turns.turn()
		}
		before = view
		select {
		case <-s.o.Changed(view.Index()):
		case <-s.stop:
			return
		}
	}
}

// turns tells all sessions at once that there may be something to tell routers: a state changes far more often than that,
// and thousands would look each time. The zero value is ready.
type turns struct {
	mu   sync.Mutex // guards next
	next chan struct{}
}

// wait gives a channel that is closed at the next turn: ask for it before looking at the state.
func (t *turns) wait() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil {
		t.next = make(chan struct{})
	}
	return t.next
}

func (t *turns) turn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next != nil {
		close(t.next)
		t.next = nil
	}
}

// left is how much of a lease there is yet of a drill whose last renewal, or step, this node applied at a time; 0 or
// below: nothing. Of the time since then and the one since the leader said so, by both clocks of day, the longer
// counts: a node that starts again applies at once what happened while it was away.
func left(d *statepb.Drill, applied, now time.Time) time.Duration {
	said := time.UnixMilli(max(d.GetRenewedUnixMs(), d.GetStateUnixMs()))
	return drill.LeaseTTL - max(now.Sub(applied), now.Sub(said), 0)
}

// leaseOf is what routers are told of a drill in effect, with so much of its lease left. Nil: nothing.
func leaseOf(d *statepb.Drill, epoch uint64, e drill.Effect, left time.Duration) *routerpb.DrillLease {
	ttl := min(left, drill.LeaseTTL).Milliseconds()
	if !e.Leased || ttl <= 0 || len(d.GetBaseSha256()) == 0 || d.GetNotAfterUnixMs() == 0 {
		return nil
	}
	return &routerpb.DrillLease{
		Id: d.GetId(), Epoch: epoch, Sequence: d.GetSequence(), BaseSha256: d.GetBaseSha256(), TtlMs: uint32(ttl), NotAfterUnixMs: d.GetNotAfterUnixMs(),
		ShiftedPpm: uint32(max(min(e.Shifted, drill.Whole), 0)), Dead: e.Dead, QuotaStoreLost: e.QuotaStoreLost, WatchOnly: e.WatchOnly,
	}
}

// tenure is what a session has told its router of drills. Only the session's goroutine touches it.
type tenure struct {
	on     bool // the router holds leases
	opened bool // it was told how things stand
	told   point
	leased bool // what it was told last is a lease
}

// lease is what to tell the router of drills now, nil if nothing, and the tenure once that is on its way.
func (x *session) lease(view *state.View, now time.Time) (*routerpb.ToRouter, tenure) {
	t := x.tenure
	if !t.on || x.s.o.Effect == nil || view.EpochDue() {
		return nil, t // a state that was restored may have a drill of long ago
	}
	x.s.renewals.look(view, now)
	if d := view.ActiveDrill(); d != nil {
		p := point{view.Epoch(), d.GetId(), d.GetSequence()}
		if e := x.s.o.Effect(d); e.Leased {
			applied, ok := x.s.renewals.since(p)
			if t.opened && t.leased && t.told == p || !ok {
				return nil, t
			}
			m := leaseOf(d, p.epoch, e, left(d, applied, now))
			if m == nil {
				return nil, t
			}
			t.opened, t.told, t.leased = true, p, true
			return &routerpb.ToRouter{Body: &routerpb.ToRouter_Drill{Drill: m}}, t
		}
	}
	over := t.over(view)
	if over.id == 0 || t.opened && !t.leased {
		return nil, t
	}
	t.opened, t.told, t.leased = true, over, false
	return &routerpb.ToRouter{Body: &routerpb.ToRouter_Drill{Drill: &routerpb.DrillLease{Id: over.id, Epoch: over.epoch, Sequence: over.sequence}}}, t
}

// over is the drill whose end the router is to hear of: that of which it was told, or of one that comes the last that had
// leases, since another node may have told it of them. The zero point: none.
func (t *tenure) over(view *state.View) point {
	d := view.Drill(t.told.id)
	switch {
	case t.opened && d == nil:
		return t.told // it is not remembered any more; what has the same number ends it too
	case !t.opened:
		had := slices.DeleteFunc(slices.Clone(view.Drills()), func(d *statepb.Drill) bool { return d.GetNotAfterUnixMs() == 0 })
		if len(had) == 0 {
			return point{}
		}
		d = slices.MaxFunc(had, func(a, b *statepb.Drill) int { return cmp.Compare(a.GetNotAfterUnixMs(), b.GetNotAfterUnixMs()) })
	}
	return point{view.Epoch(), d.GetId(), d.GetSequence()}
}
