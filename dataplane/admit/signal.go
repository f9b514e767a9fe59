package admit

import (
	"cmp"
	"slices"
	"time"

	"anabranch/api/routerpb"
)

// sum is what is known of one limit over all paths that it is on.
type sum struct {
	org, limit string
	of         *organisation
	tally      *tally
	shadow     bool
	taken      int64 // requests that passed it, or would have
	held       int64
}

// sums puts the paths' counts together by limit, ordered by organisation and limit.
func (a *Admitter) sums() []sum {
	a.mu.Lock()
	defer a.mu.Unlock()
	by := make(map[*tally]*sum)
	for _, h := range a.byID {
		for _, l := range []*lane{h.main, h.shadow} {
			if l == nil {
				continue
			}
			v := l.view.Load()
			for i, x := range l.tallies {
				s := by[x]
				if s == nil {
					s = &sum{org: h.org.id, limit: x.id, of: h.org, tally: x, shadow: l.shadow}
					by[x] = s
				}
				s.taken += h.taken.Load()
				if v != nil {
					s.held += v.held[i]
				}
			}
		}
	}
	out := make([]sum, 0, len(by))
	for x, s := range by {
		if s.taken += x.gone.Load(); s.shadow {
			s.taken -= x.wouldDeny.Load()
		}
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b sum) int { return cmp.Or(cmp.Compare(a.org, b.org), cmp.Compare(a.limit, b.limit)) })
	return out
}

// Signals is this router's sight of its limits, by organisation and limit: of those that were used since
// the last call, of which something is held or owed, or whose quota store has gone or is back. Counts are those since the last call.
func (a *Admitter) Signals(now time.Time) []*routerpb.QuotaSignal {
	var out []*routerpb.QuotaSignal
	nowNs := a.at(now)
	var last *organisation
	var away bool
	var awayFor time.Duration
	for _, s := range a.sums() {
		if s.of != last {
			last = s.of
			away, awayFor = last.sinceReport(now)
			away = away || a.unwell(last) != nil
		}
		if q := last.signal(&s, nowNs, away); q != nil {
			q.DegradedMs = uint64(awayFor.Milliseconds())
			out = append(out, q)
		}
	}
	return out
}

// sinceReport is for how long the organisation was kept by its degraded policies since this was asked
// last.
func (o *organisation) sinceReport(now time.Time) (away bool, since time.Duration) {
	total, away := o.time(now)
	o.mu.Lock()
	defer o.mu.Unlock()
	since = total - o.toldUntil
	o.toldUntil = total
	return away, max(since, 0)
}

// signal is what there is to say of a limit, or nil.
func (o *organisation) signal(s *sum, nowNs int64, away bool) *routerpb.QuotaSignal {
	o.mu.Lock()
	defer o.mu.Unlock()
	x := s.tally
	now := x.told
	now.taken, now.denied, now.wouldDeny = s.taken, x.denied.Load(), x.wouldDeny.Load()
	q := &routerpb.QuotaSignal{
		Organisation: s.org, Limit: s.limit, Degraded: away, LevelAgeMs: -1, Held: s.held, InUse: x.open.Load(),
		Used: now.used - x.before.used, Owed: x.account.owed(),
		Admitted: uint64(max(now.taken-x.before.taken, 0)),
		Denied:   uint64(now.denied - x.before.denied), WouldDeny: uint64(now.wouldDeny - x.before.wouldDeny),
	}
	if x.levelNs != 0 {
		q.Level, q.LevelAgeMs = x.level, (nowNs-x.levelNs)/1e6
	}
	if q.Held == 0 && q.InUse == 0 && q.Owed == 0 && now == x.before && away == x.toldAway {
		return nil
	}
	x.before, x.toldAway = now, away
	return q
}
