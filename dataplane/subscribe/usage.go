package subscribe

import (
	"crypto/rand"
	"sync/atomic"
	"time"

	"anabranch/api/routerpb"
)

// Usage is what this router's clients used.
type Usage interface {
	// TakeUsage hands over what was used in minutes that are over, not too much at once, and, if it is the last
	// time that it is asked, in the one that is running. Empty: there is nothing, for now.
	TakeUsage(now time.Time, last bool) []*routerpb.UsageMinute
}

// DefaultUsage is the default of Options.UsageEvery. Streams begin at any time, so that routers tell of a
// minute one after the other.
const DefaultUsage = 5 * time.Second

// parcel holds what was used until the account has it, over all streams of a client. Only the goroutine that
// runs the client touches it, but for what waiting reads.
type parcel struct {
	from     Usage // nil: nobody counts
	run      string
	sequence uint64
	flying   *routerpb.UsageReport // sent, or to be sent, and not acknowledged; nil: none
	since    *atomic.Int64         // when flying was made, in ns since 1970; 0: there is none
}

func newParcel(u Usage) parcel { return parcel{from: u, run: rand.Text(), since: new(atomic.Int64)} }

// next is the message to send: the one that is not acknowledged, or one of what was used since. Nil:
// nothing was.
func (p *parcel) next(now time.Time, last bool) *routerpb.UsageReport {
	if p.flying != nil {
		return p.flying
	}
	minutes := p.from.TakeUsage(now, last)
	if len(minutes) == 0 {
		return nil
	}
	p.sequence++
	p.flying = &routerpb.UsageReport{Run: p.run, Sequence: p.sequence, Minutes: minutes}
	p.since.Store(now.UnixNano())
	return p.flying
}

// acknowledged forgets the message of a number, and says whether it was on its way.
func (p *parcel) acknowledged(sequence uint64) bool {
	if p.flying == nil || sequence != p.flying.GetSequence() {
		return false
	}
	p.flying = nil
	p.since.Store(0)
	return true
}

// waiting is for how long what is not acknowledged has been waiting for it; 0: nothing has.
func (p *parcel) waiting(now time.Time) time.Duration {
	since := p.since.Load()
	if since == 0 {
		return 0
	}
	return max(0, now.Sub(time.Unix(0, since)))
}

// delivery is the account's side of one stream.
type delivery struct {
	*parcel
	account bool      // the node has one: it has said so
	sent    time.Time // when what is flying was sent on this stream; zero: it was not
}

func (d *delivery) features() []routerpb.Feature {
	if d.from == nil {
		return nil
	}
	return []routerpb.Feature{routerpb.Feature_FEATURE_USAGE}
}

// tell is the message to send now; nil: none.
func (d *delivery) tell(now time.Time, last bool) *routerpb.FromRouter {
	if d.from == nil || !d.account || d.flying != nil && !d.sent.IsZero() && now.Sub(d.sent) < resendAfter {
		return nil
	}
	m := d.next(now, last)
	if m == nil {
		return nil
	}
	d.sent = now
	return &routerpb.FromRouter{Body: &routerpb.FromRouter_Usage{Usage: m}}
}

// hear takes the account's word: the first one says that there is one.
func (d *delivery) hear(taken *routerpb.UsageTaken) {
	d.account = true
	if d.acknowledged(taken.GetSequence()) {
		d.sent = time.Time{}
	}
}

// owed says whether something waits for the node to have it counted.
func (d *delivery) owed() bool { return d.account && d.flying != nil }
