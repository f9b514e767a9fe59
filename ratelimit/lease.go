package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"
)

// Kinds that have no rate: a plain [Bucket] has no arithmetic for them.
const (
	// Slots counts requests at the same time: a limit without a rate, whose units come back.
	Slots Kind = "concurrent"
	// Money counts micro-dollars within a calendar window.
	Money Kind = "money"
)

// Level is one limit of a leased path, and what a router says of it.
type Level struct {
	// Limit is the rule. Slots and Money use its ID, Kind and Burst alone, the latter being the most
	// requests at the same time and the window's budget in micro-dollars.
	Limit Limit
	// Cold is the part of the burst, in percent (0 to 100), that is there when the authority has
	// lost its state or has only just become the organisation's home.
	Cold int64
	// Window is the calendar window of Money, else zero.
	Window Window
	// Alone tells that routers which are cut off from the authority go on by their region's share. Only of
	// Slots does it matter: then, and not else, the shares of regions that are missed are left free.
	Alone bool
	// Want is the units asked for, beyond those held; at most MaxWant.
	Want int64
	// Used is the units spent since the call before. What is above those held is a debt.
	// Always 0 for Slots.
	Used int64
	// Back is the units given back of those held. What the authority no longer counts as held is lost.
	Back int64
	// Refund is units told as used before that were not used in the end. Always 0 for Slots.
	Refund int64
}

// Window is the calendar window of a budget, see [Calendar].
type Window struct {
	// FromUs and NextUs are the starts of this window and of the one after it, in microseconds of
	// the Unix epoch. The authority's clock says which of the two it is in.
	FromUs, NextUs int64
	// Spent is what the ledger knows to have been spent since FromUs, in micro-dollars. It counts
	// where the authority has no level of its own. Below 0: the ledger doesn't know.
	Spent int64
}

// In is a router's call for a lease on all limits of a path.
type In struct {
	// Org is the organisation, whose limits are kept together.
	Org string
	// Epoch numbers the organisation's homes: it is raised whenever another store becomes the
	// authority. From 1.
	Epoch int64
	// Young tells that the organisation's quotas are new, so that a store that never heard of them has
	// lost nothing and its buckets are full.
	Young bool
	// Router names one run of one router: a router that starts again is another one.
	Router string
	// Seq numbers the calls of a router for a path, upwards from 1. A repetition keeps its number
	// and its content.
	Seq int64
	// Region is the router's. Empty: none that has a share.
	Region string
	// Shares are those of all regions of the organisation: while one of them that holds or wants something is not heard
	// for [SilentAfter], its share of what flows in is set aside. At most MaxShares; empty: nothing ever is.
	Shares []Share
	// TTL is how long what is granted and carried may be spent, counted by the router from the sending;
	// from MinTTL to MaxTTL.
	TTL time.Duration
	// Policy is the version of the policy that the levels are from.
	Policy int64
	// Path is the levels, at most MaxPath, each once and in an order that stays.
	Path []Level
}

// Bounds of calls.
const (
	// MaxPath is the most limits that one request may pass.
	MaxPath = 32
	// MaxWant bounds Want, so that shares of it can be computed in doubles exactly: 68 thousand million units.
	MaxWant = 1 << 36
	// MinTTL and MaxTTL bound TTL.
	MinTTL = 100 * time.Millisecond
	MaxTTL = 10 * time.Second
	// DefaultTTL is how long a lease lasts where nobody says otherwise.
	DefaultTTL = time.Second
	// SilentAfter is how long a region is not heard before its share is set aside: three times as long as a
	// router with anything in hand waits between two calls at DefaultTTL.
	SilentAfter = 1500 * time.Millisecond
	// grain is the fineness to which the scarcest level cuts the others: one in 65,536. MaxWant × grain < 2^53.
	grain = 1 << 16
)

// ErrAway is wrapped by errors of a Lender that could not be asked at all: the call surely changed
// nothing.
var ErrAway = errors.New("quota store is away")

// ErrUnfit is wrapped by errors of a Lender that answers but must not be relied on, such as a
// store that may forget levels at will. The message says how to put it right.
var ErrUnfit = errors.New("quota store is unfit")

// Status says what became of a call.
type Status int64

// The statuses of calls. The numbers are part of the protocol.
const (
	// Granted: settled, and granted what there was, which may be nothing.
	Granted Status = 1
	// Stale: the policy's version or the epoch is older than one that the authority has seen.
	// Nothing has changed. The router needs a newer policy.
	Stale Status = 2
	// Late: a later call of the same router for the same path has been answered. Nothing has changed.
	Late Status = 3
)

// String is the status as metrics name it.
func (s Status) String() string {
	switch s {
	case Granted:
		return "granted"
	case Stale:
		return "stale"
	case Late:
		return "late"
	}
	return "status " + strconv.FormatInt(int64(s), 10)
}

// Grant is the answer at one level.
type Grant struct {
	// Granted units, beyond those held before.
	Granted int64
	// Level is what the authority has left, below 0 in debt.
	Level int64
	// Held is what the router now holds: carried and granted.
	Held int64
}

// Out answers a call for a lease.
type Out struct {
	Status Status
	// Epoch that the authority is in.
	Epoch int64
	// Valid is how long what is held may be spent, from the first sending of the call.
	Valid time.Duration
	// Gap is when the share of the router's region was last set aside. Zero unless Granted, and for
	// a region without a share.
	Gap Gap
	// Path has the grant of each level, in the order of the call. Empty unless Granted.
	Path []Grant
}

// Result is the answer to one call of several.
type Result struct {
	Out Out
	Err error
}

// Lender keeps the levels of organisations and leases parts of them to routers. Implementations
// are safe for concurrent use, but calls of one router for one path must follow each other.
type Lender interface {
	// Lease settles what the router tells and grants what there is. After an error the call may
	// have been carried out or not: repeat it as it was, under its number.
	Lease(ctx context.Context, in In) (Out, error)
}

// Validate says what is wrong with the call, or nil.
func (in *In) Validate() error {
	switch {
	case in.Org == "" || len(in.Org) > maxID:
		return fmt.Errorf("lease: organisation's name is %d bytes long, want 1 to %d", len(in.Org), maxID)
	case in.Router == "" || len(in.Router) > maxID:
		return fmt.Errorf("lease of %s: router's name is %d bytes long, want 1 to %d", in.Org, len(in.Router), maxID)
	case !counts(in.Epoch) || !counts(in.Seq):
		return fmt.Errorf("lease of %s: epoch %d and sequence number %d must be from 1 to below 2^53", in.Org, in.Epoch, in.Seq)
	case in.Policy < 0 || in.Policy >= exact:
		return fmt.Errorf("lease of %s: policy version %d must be from 0 to below 2^53", in.Org, in.Policy)
	case in.TTL < MinTTL || in.TTL > MaxTTL || in.TTL%time.Microsecond != 0:
		return fmt.Errorf("lease of %s: ttl %v must be whole microseconds from %v to %v", in.Org, in.TTL, MinTTL, MaxTTL)
	case len(in.Path) == 0 || len(in.Path) > MaxPath:
		return fmt.Errorf("lease of %s: path has %d limits, want 1 to %d", in.Org, len(in.Path), MaxPath)
	case len(in.Region) > maxID:
		return fmt.Errorf("lease of %s: region's name is %d bytes long, want at most %d", in.Org, len(in.Region), maxID)
	}
	if err := validateShares(in.Shares); err != nil {
		return fmt.Errorf("lease of %s: %w", in.Org, err)
	}
	for i := range in.Path {
		if err := in.Path[i].validate(); err != nil {
			return fmt.Errorf("lease of %s: %w", in.Org, err)
		}
		for j := range i {
			if in.Path[i].Limit.ID == in.Path[j].Limit.ID {
				return fmt.Errorf("lease of %s: limit %s stands in the path twice", in.Org, in.Path[i].Limit.ID)
			}
		}
	}
	return nil
}

func counts(n int64) bool { return n >= 1 && n < exact }

// ValidateRule says what is wrong with the limit, cold start and window of the level, or nil: what
// a policy can get wrong, rather than a router.
func (l *Level) ValidateRule() error {
	id := l.Limit.ID
	switch l.Limit.Kind {
	case Slots, Money:
		if id == "" || len(id) > maxID {
			return fmt.Errorf("limit's id is %d bytes long, want 1 to %d", len(id), maxID)
		}
		if l.Limit.Burst <= 0 || l.Limit.Burst >= exact/4 {
			return fmt.Errorf("limit %s: %w: %d, want above 0 and below 2^51", id, ErrTooLarge, l.Limit.Burst)
		}
	default:
		if err := l.Limit.Validate(); err != nil {
			return err
		}
	}
	if id[0] == '@' {
		return fmt.Errorf("limit %s: the name can't start with @, by which regions are kept", id)
	}
	if l.Cold < 0 || l.Cold > 100 {
		return fmt.Errorf("limit %s: cold start at %d percent, want 0 to 100", id, l.Cold)
	}
	if w := l.Window; l.Limit.Kind == Money && (w.FromUs < 0 || w.NextUs <= w.FromUs || w.NextUs >= exact) {
		return fmt.Errorf("limit %s: window from %d to %d µs is none", id, w.FromUs, w.NextUs)
	}
	return nil
}

func (l *Level) validate() error {
	if err := l.ValidateRule(); err != nil {
		return err
	}
	if l.Want < 0 || l.Want > MaxWant || l.Used < 0 || l.Back < 0 || l.Refund < 0 {
		return fmt.Errorf("limit %s: want %d, used %d, back %d and refund %d must be 0 or more, and want at most 2^36",
			l.Limit.ID, l.Want, l.Used, l.Back, l.Refund)
	}
	if l.Limit.Kind == Slots && (l.Used != 0 || l.Refund != 0) {
		return errors.New("limit " + l.Limit.ID + ": slots are given back, not used")
	}
	return nil
}

// Lane names the numbering that the call belongs to: that of its router for its path. It is short
// whatever the path, and a path with other limits has another.
func (in *In) Lane() string {
	h := fnv.New64a()
	for i := range in.Path {
		h.Write([]byte(in.Path[i].Limit.ID))
		h.Write([]byte{0})
	}
	return in.Router + "/" + strconv.FormatUint(h.Sum64(), 16)
}

// Bounded is Used, Back and Refund, cut so that sums stay exact, and no further: of a limit that was
// lowered more may be held than it has in all.
func (l *Level) Bounded() (used, back, refund int64) {
	const most = exact / 4
	return min(l.Used, most), min(l.Back, most), min(l.Refund, most)
}

// KeepMs is how long, in milliseconds, the level must be remembered after a call. Of one forgotten
// after that nothing is lost: it would be full, or its window is over.
func (l *Level) KeepMs() int64 {
	switch l.Limit.Kind {
	case Slots:
		return 0
	case Money:
		return (l.Window.NextUs - l.Window.FromUs) / 1000 * 2
	}
	return l.Limit.FillMs()
}
