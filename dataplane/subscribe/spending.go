package subscribe

import (
	"crypto/rand"
	"sync/atomic"
	"time"

	"anabranch/api/routerpb"
)

// Budgets are what this router charges to budgets of money.
type Budgets interface {
	// TakeSpent hands over what was charged since it was asked last, nothing below 0. Entries of the same window
	// may be several.
	TakeSpent() []*routerpb.Spent
	// Ledger tells what all routers spent, as far as the control plane knows: of all budgets, where one that is
	// not named has nothing spent, or of those that have changed. The list must not be changed.
	Ledger(whole bool, spent []*routerpb.Spent)
}

const (
	// DefaultSpending is the default of Options.SpendingEvery. A node may take a second to have it counted, and
	// another to tell other routers: they know of all but the last 5 s.
	DefaultSpending = 2 * time.Second
	// resendAfter is how long an acknowledgement may take before a message is sent again.
	resendAfter = 10 * time.Second
	// settleWithin bounds the wait for the last ones, and the last use, when this router stops.
	settleWithin = 2 * time.Second
	// maxSpent bounds the entries of a message.
	maxSpent = 1000
)

// purse holds what was charged until the ledger has it, over all streams of a client. Only the goroutine
// that runs the client touches it, but for what waiting reads.
type purse struct {
	budgets  Budgets // nil: there are none
	run      string
	sequence uint64
	flying   *routerpb.Spending // sent, or to be sent, and not acknowledged; nil: none
	rest     []*routerpb.Spent  // taken, and for later messages
	since    *atomic.Int64      // when flying was made, in ns since 1970; 0: there is none
}

func newPurse(b Budgets) purse { return purse{budgets: b, run: rand.Text(), since: new(atomic.Int64)} }

// next is the message to send: the one that is not acknowledged, or one of what was charged since. Nil:
// nothing was.
func (p *purse) next(now time.Time) *routerpb.Spending {
	if p.budgets == nil || p.flying != nil {
		return p.flying
	}
	p.rest = append(p.rest, p.budgets.TakeSpent()...)
	if len(p.rest) == 0 {
		return nil
	}
	n := min(len(p.rest), maxSpent)
	p.sequence++
	p.flying = &routerpb.Spending{Run: p.run, Sequence: p.sequence, Spent: p.rest[:n:n]}
	p.rest = p.rest[n:]
	p.since.Store(now.UnixNano())
	return p.flying
}

// acknowledged forgets the message of a number, and says whether it was on its way.
func (p *purse) acknowledged(sequence uint64) bool {
	if p.flying == nil || sequence != p.flying.GetSequence() {
		return false
	}
	p.flying = nil
	p.since.Store(0)
	return true
}

// waiting is for how long what is not acknowledged has been waiting for it; 0: nothing has.
func (p *purse) waiting(now time.Time) time.Duration {
	since := p.since.Load()
	if since == 0 {
		return 0
	}
	return max(0, now.Sub(time.Unix(0, since)))
}

// account is the ledger's side of one stream.
type account struct {
	*purse
	knows bool      // the node does: it has told of the ledger
	sent  time.Time // when what is flying was sent on this stream; zero: it was not
}

func (a *account) features() []routerpb.Feature {
	if a.budgets == nil {
		return nil
	}
	return []routerpb.Feature{routerpb.Feature_FEATURE_LEDGER}
}

// spend is the message to send now; nil: none.
func (a *account) spend(now time.Time) *routerpb.FromRouter {
	if !a.sent.IsZero() && a.flying != nil && now.Sub(a.sent) < resendAfter {
		return nil
	}
	m := a.next(now)
	if m == nil {
		return nil
	}
	a.sent = now
	return &routerpb.FromRouter{Body: &routerpb.FromRouter_Spending{Spending: m}}
}

// hear takes the ledger's word. More says that something has been waiting for the acknowledgement.
func (a *account) hear(l *routerpb.Ledger) (more bool) {
	if a.budgets == nil {
		return false
	}
	a.knows = true
	if l.GetWhole() || len(l.GetSpent()) > 0 {
		a.budgets.Ledger(l.GetWhole(), l.GetSpent())
	}
	if !a.acknowledged(l.GetAcknowledged()) {
		return false
	}
	a.sent = time.Time{}
	return len(a.rest) > 0
}

// owed says whether something waits for the node to have it counted.
func (a *account) owed() bool { return a.knows && a.flying != nil }

// settle sends what is left to the ledger and the account before this router stops, and waits for it to be
// counted, as long as settleWithin. It ends early if the node knows neither.
func (s *session) settle(received <-chan *routerpb.ToRouter, ended <-chan error) error {
	timer := time.NewTimer(settleWithin)
	defer timer.Stop()
	for {
		now := time.Now()
		if err := s.send(s.spend(now), s.usage.tell(now, true)); err != nil {
			return s.reason(ended, err)
		}
		if !s.owed() && !s.usage.owed() {
			return nil
		}
		select {
		case m := <-received:
			if l := m.GetLedger(); l != nil {
				s.hear(l)
			}
			if taken := m.GetUsageTaken(); taken != nil {
				s.usage.hear(taken)
			}
		case err := <-ended:
			return err
		case <-timer.C:
			return nil
		}
	}
}
