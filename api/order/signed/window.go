package signed

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"time"

	"anabranch/api/order"
)

// MaxMet is how many counters of one key are remembered at a time.
const MaxMet = 256

// Window remembers which counters of a key were met, as long as what they were for could be used again: until an order
// has expired, and a day after a withdrawal. Messages come by several ways and in any order, so that a later counter
// does not shut out an earlier one that was not met; only when more than [MaxMet] are remembered the lowest are
// forgotten, and all up to them are over. The zero Window has met nothing.
type Window struct {
	Floor uint64 `json:"floor,omitempty"` // what is not above it is over
	Met   []Met  `json:"met,omitempty"`   // by counter
}

// Met is a counter that was met.
type Met struct {
	Counter uint64    `json:"counter"`
	Sum     []byte    `json:"sum"`   // SHA-256 of the payload
	Until   time.Time `json:"until"` // it is remembered
}

// Meet notes a message at now. New: it was not met before. An error is a *[Refusal] of [CodeReplayed]: its counter was
// used for something else, or is over.
func (w *Window) Meet(s Message, now time.Time) (fresh bool, err error) {
	w.Met = slices.DeleteFunc(slices.Clone(w.Met), func(m Met) bool { return !now.Before(m.Until) })
	sum := sha256.Sum256(s.Raw.GetPayload())
	at, found := slices.BinarySearchFunc(w.Met, s.Counter, func(m Met, c uint64) int {
		switch {
		case m.Counter < c:
			return -1
		case m.Counter > c:
			return 1
		}
		return 0
	})
	switch {
	case found && bytes.Equal(w.Met[at].Sum, sum[:]):
		return false, nil
	case found:
		return false, refuse(CodeReplayed, "counter %d of key %s was used for another order: sign it anew", s.Counter, s.Key.ID)
	case s.Counter <= w.Floor:
		return false, refuse(CodeReplayed, "counter %d of key %s is over, the lowest that is taken is %d: sign it anew", s.Counter, s.Key.ID, w.Floor+1)
	}
	until := now.Add(order.MaxTerm + order.MaxSkew)
	if s.Order != nil {
		until = s.Order.Expires
	}
	w.Met = slices.Insert(w.Met, at, Met{s.Counter, sum[:], until})
	if len(w.Met) > MaxMet {
		w.Floor = w.Met[0].Counter
		w.Met = w.Met[1:]
	}
	return true, nil
}
