// Package drill is a router's part in a drill: the lease that lets it obey the drill of its table for a while, which
// requests take part, and what is told of them. A lease is counted on the router's own clock and ends by itself,
// whatever becomes of those who gave it. What requests do about it is the router's to say, and what the
// drill is about the table's.
package drill

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"anabranch/api/routerpb"
	"anabranch/failover/drill"
)

// Moment is a time on both clocks of a router: leases are counted by the one that nobody sets.
type Moment struct {
	// Mono is the time since some moment before, by the monotonic clock.
	Mono time.Duration
	// WallMs is the time of day, Unix ms, as far as the router knows it.
	WallMs int64
}

// Whole is all of a scope, in millionths.
const Whole = 1_000_000

// View is the newest lease that a router was given. It is never changed. Nil: it was given none.
type View struct {
	// ID of the drill, Epoch and Sequence of the lease.
	ID, Epoch, Sequence uint64
	// Base names the table from before the drill.
	Base [sha256.Size]byte
	// Until is when it ends by the monotonic clock, NotAfterMs by the time of day, whichever is first.
	Until      time.Duration
	NotAfterMs int64
	// Shifted is how many of the scope's requests are to be shifted, in millionths.
	Shifted uint32
	// Dead: their attempts at drilled clusters fail. QuotaStoreLost: the quota store is taken not to answer.
	// WatchOnly: what would be shifted is counted, and not shifted.
	Dead, QuotaStoreLost, WatchOnly bool
	// Over: it was taken back.
	Over bool
}

// Holds says whether the lease has neither ended nor been taken back.
func (v *View) Holds(now Moment) bool {
	return v != nil && !v.Over && now.Mono < v.Until && now.WallMs < v.NotAfterMs
}

// Remaining is how long it holds yet; 0: it doesn't any more.
func (v *View) Remaining(now Moment) time.Duration {
	if !v.Holds(now) {
		return 0
	}
	return min(v.Until-now.Mono, time.Duration(v.NotAfterMs-now.WallMs)*time.Millisecond)
}

// Lapsed says that it ran out without a word.
func (v *View) Lapsed(now Moment) bool { return v != nil && !v.Over && !v.Holds(now) }

// Verdict is what became of a lease that came.
type Verdict string

// The verdicts.
const (
	Taken     Verdict = "taken"     // it is the one that counts now
	Finished  Verdict = "finished"  // the drill is over
	Again     Verdict = "again"     // its number was seen: it can only end sooner
	Outdated  Verdict = "outdated"  // a later one was seen, of this drill or another
	Malformed Verdict = "malformed" // it can't be obeyed
)

// verdicts are all of them.
var verdicts = [...]Verdict{Taken, Finished, Again, Outdated, Malformed}

// Next is the lease that counts after one has come, and why. had is never changed.
//
// Leases are ordered by epoch, which rises when the control plane is restored, then by drill, then by sequence.
// One whose sequence was seen tells nothing new, whoever says so: a node that has started again and goes through what
// happened while it was away may take an old renewal for one of now. So it may make the end come sooner and not later.
func Next(had *View, m *routerpb.DrillLease, now Moment) (*View, Verdict) {
	v, err := read(m, now)
	if err != nil {
		return had, Malformed
	}
	switch c := had.compare(v); {
	case c > 0:
		return had, Outdated
	case c == 0 && v.Over:
	case c == 0:
		if had.Over || had.Until <= v.Until && had.NotAfterMs <= v.NotAfterMs {
			return had, Again
		}
		sooner := *had
		sooner.Until, sooner.NotAfterMs = min(had.Until, v.Until), min(had.NotAfterMs, v.NotAfterMs)
		return &sooner, Again
	}
	if v.Over {
		return v, Finished
	}
	return v, Taken
}

// compare says which was given later: below 0 when o was.
func (v *View) compare(o *View) int {
	if v == nil {
		return -1
	}
	for _, n := range [...][2]uint64{{v.Epoch, o.Epoch}, {v.ID, o.ID}, {v.Sequence, o.Sequence}} {
		if n[0] < n[1] {
			return -1
		}
		if n[0] > n[1] {
			return 1
		}
	}
	return 0
}

// read takes a message for what it says from now on. No lease is longer than [drill.LeaseTTL], nor shifts more than
// all.
func read(m *routerpb.DrillLease, now Moment) (*View, error) {
	v := &View{
		ID: m.GetId(), Epoch: m.GetEpoch(), Sequence: m.GetSequence(), NotAfterMs: m.GetNotAfterUnixMs(),
		Shifted: min(m.GetShiftedPpm(), Whole), Dead: m.GetDead(), QuotaStoreLost: m.GetQuotaStoreLost(), WatchOnly: m.GetWatchOnly(),
		Over: m.GetTtlMs() == 0,
	}
	switch {
	case v.ID == 0:
		return nil, errors.New("lease.id is 0, want the number of a drill")
	case v.Over:
		return v, nil // whatever it says besides
	case len(m.GetBaseSha256()) != sha256.Size:
		return nil, fmt.Errorf("lease.base_sha256 has %d bytes, want %d", len(m.GetBaseSha256()), sha256.Size)
	}
	copy(v.Base[:], m.GetBaseSha256())
	ttl := min(time.Duration(m.GetTtlMs())*time.Millisecond, drill.LeaseTTL)
	// By the time of day of now too, so that a clock that is set back later makes it no longer.
	ttl = min(ttl, time.Duration(max(min(v.NotAfterMs-now.WallMs, drill.LeaseTTL.Milliseconds()), 0))*time.Millisecond)
	v.Until = now.Mono + ttl
	return v, nil
}
