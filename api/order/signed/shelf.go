package signed

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/order"
	"anabranch/api/routerpb"
)

// Shelf keeps the signed messages that one router or node has taken: orders that hold, withdrawals, and what must be
// remembered of those that are over. Whatever the order in which the same messages come, the same orders hold. It is
// for one goroutine at a time; the zero Shelf is empty.
type Shelf struct {
	orders  []Message            // that hold, in the order of coming
	cancels []Message            // withdrawals, as long as what they end could come again
	until   map[string]time.Time // of cancels, by ID of what they end, and of what a quorum has ended
	windows map[string]Window    // by key
	// restored is when the last restore of a target was given that was ever met, withdrawn or not, so that what it ended
	// stays ended in whichever order messages come.
	restored map[string]time.Time
}

// maxCancels bounds withdrawals that are remembered; they are the oldest that go.
const maxCancels = 2 * order.MaxOrders

// Take takes a message that [Open] found good. Taken: it changed what holds or is remembered; false: it was met before.
// An error is a *[Refusal], and nothing has changed then.
func (s *Shelf) Take(m Message, now time.Time) (taken bool, err error) {
	if m.Order != nil && len(s.orders) >= order.MaxOrders && !s.Has(m.Order.ID) {
		return false, refuse(CodeFull, "%d signed orders hold already: cancel some", order.MaxOrders)
	}
	w := s.windows[m.Key.ID]
	fresh, err := w.Meet(m, now)
	if err != nil {
		return false, err
	}
	if !fresh {
		return false, nil
	}
	if s.windows == nil {
		s.windows = map[string]Window{}
	}
	s.windows[m.Key.ID] = w
	if m.Order == nil {
		s.End(now, m.Cancel)
		s.cancels = append(slices.Clone(s.cancels[max(0, len(s.cancels)-maxCancels+1):]), m)
		return true, nil
	}
	if m.Order.Kind == order.Restore {
		s.restore(m.Order)
	}
	if _, over := s.until[m.Order.ID]; over || s.ended(m.Order) {
		return true, nil
	}
	s.orders = append(slices.Clone(s.orders), m)
	return true, nil
}

// restore ends earlier evacuations of the same target for good.
func (s *Shelf) restore(o *order.Order) {
	if s.restored == nil {
		s.restored = map[string]time.Time{}
	}
	if o.At.After(s.restored[o.Target]) {
		s.restored[o.Target] = o.At
	}
	s.orders = slices.DeleteFunc(slices.Clone(s.orders), func(x Message) bool { return s.ended(x.Order) })
}

// ended says whether a restore has ended an evacuation, which may come late.
func (s *Shelf) ended(o *order.Order) bool {
	at, restored := s.restored[o.Target]
	return o.Kind == order.Evacuate && restored && !o.At.After(at)
}

// End ends orders, also those that are yet to come, as a quorum may.
func (s *Shelf) End(now time.Time, ids ...string) (changed bool) {
	for _, id := range ids {
		if _, over := s.until[id]; over {
			continue
		}
		if s.until == nil {
			s.until = map[string]time.Time{}
		}
		s.until[id] = now.Add(order.MaxTerm + order.MaxSkew)
		s.orders = slices.DeleteFunc(slices.Clone(s.orders), func(x Message) bool { return x.Order.ID == id })
		changed = true
	}
	return changed
}

// Prune forgets what is over at now, and orders of keys that are no longer known or for another cluster; an empty
// cluster is not compared, nil keys are not asked. It says which orders ended before their time.
func (s *Shelf) Prune(keys []Key, cluster string, now time.Time) (changed bool, ended []order.Order) {
	keep := func(m Message) bool {
		if m.Order != nil && !now.Before(m.Order.Expires) {
			return false
		}
		if keys == nil {
			return true
		}
		_, err := Open(keys, cluster, m.Raw, now)
		if err != nil && m.Order != nil {
			ended = append(ended, *m.Order)
		}
		return err == nil
	}
	orders := slices.DeleteFunc(slices.Clone(s.orders), func(m Message) bool { return !keep(m) })
	cancels := slices.DeleteFunc(slices.Clone(s.cancels), func(m Message) bool {
		until, known := s.until[m.Cancel]
		return !known || !now.Before(until) || !keep(m)
	})
	before := len(s.until) + len(s.restored)
	maps.DeleteFunc(s.until, func(_ string, until time.Time) bool { return !now.Before(until) })
	maps.DeleteFunc(s.restored, func(_ string, at time.Time) bool { return now.Sub(at) > order.MaxTerm }) // no evacuation from before lives
	changed = len(orders) != len(s.orders) || len(cancels) != len(s.cancels) || len(s.until)+len(s.restored) != before
	s.orders, s.cancels = orders, cancels
	return changed, ended
}

// Has says whether an order holds.
func (s *Shelf) Has(id string) bool {
	return slices.ContainsFunc(s.orders, func(m Message) bool { return m.Order.ID == id })
}

// Orders are those that hold, in the order of coming.
func (s *Shelf) Orders() []order.Order {
	out := make([]order.Order, 0, len(s.orders))
	for _, m := range s.orders {
		out = append(out, *m.Order)
	}
	return out
}

// Signed are the messages behind what holds, and withdrawals.
func (s *Shelf) Signed() []Message { return slices.Concat(s.orders, s.cancels) }

// Messages are those of [Shelf.Signed], to be handed on.
func (s *Shelf) Messages() []*routerpb.SignedOrder {
	var out []*routerpb.SignedOrder
	for _, m := range s.Signed() {
		out = append(out, m.Raw)
	}
	return out
}

// kept is a shelf on disk.
type kept struct {
	Messages [][]byte             `json:"messages,omitempty"`
	Until    map[string]time.Time `json:"until,omitempty"`
	Windows  map[string]Window    `json:"windows,omitempty"`
	Restored map[string]time.Time `json:"restored,omitempty"`
}

// MarshalJSON writes the shelf for the disk.
func (s *Shelf) MarshalJSON() ([]byte, error) {
	k := kept{Until: s.until, Windows: s.windows, Restored: s.restored}
	for _, m := range s.Messages() {
		text, err := proto.Marshal(m)
		if err != nil {
			return nil, err
		}
		k.Messages = append(k.Messages, text)
	}
	return json.Marshal(k)
}

// ReadShelf reads what MarshalJSON wrote. Messages of which keys are not known, or that have expired, are left out;
// that they were met is remembered.
func ReadShelf(text []byte, keys []Key, now time.Time) (*Shelf, error) {
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, err
	}
	s := &Shelf{until: k.Until, windows: k.Windows, restored: k.Restored}
	for i, text := range k.Messages {
		var m routerpb.SignedOrder
		if err := proto.Unmarshal(text, &m); err != nil {
			return nil, fmt.Errorf("signed order %d: %w", i+1, err)
		}
		signed, err := Open(keys, "", &m, now)
		switch {
		case errors.As(err, new(*Refusal)):
			continue
		case err != nil:
			return nil, err
		case signed.Order == nil:
			s.cancels = append(s.cancels, signed)
		default:
			s.orders = append(s.orders, signed)
		}
	}
	return s, nil
}
