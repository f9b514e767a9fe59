package override

import (
	"errors"
	"slices"

	"anabranch/api/order"
	"anabranch/api/order/signed"
	"anabranch/api/routerpb"
)

// Take takes in what a node of the control plane wants held. Committed orders are held as the node knows them; where it
// knows nothing, those of before hold on. Signed ones are added if they are good: what is not is told by [Book.Status]
// and in the log, once each. It never fails: a bad order must not end the stream that brought it.
func (b *Book) Take(m *routerpb.Orders) {
	now := b.o.Now()
	keys, err := b.o.Keys.Keys()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problem("keys", err)
	changed := m.GetCommittedKnown() && b.commit(m.GetCommitted())
	if m.GetCommittedKnown() {
		changed = b.signed.End(now, m.GetEnded()...) || changed
	}
	refused := map[string]string{}
	for _, raw := range m.GetSigned() {
		s, err := signed.Open(keys, b.cluster(), raw, now)
		if err == nil {
			var taken bool
			taken, err = b.signed.Take(s, now)
			changed = changed || taken
			if taken {
				b.tookSigned(s)
			}
		}
		if r, ok := errors.AsType[*signed.Refusal](err); ok {
			refused[string(r.Code)] = r.Text
		}
	}
	for code, why := range refused {
		if b.refused[code] != why {
			b.log.Error("signed order refused", "code", code, "reason", why)
		}
	}
	b.refused = refused
	if changed {
		b.keep()
		b.show(now)
	}
}

// cluster is the control plane that the table in force is of. Empty: not known.
func (b *Book) cluster() string {
	if t := b.o.Table(); t != nil {
		return t.Ref.ClusterID
	}
	return ""
}

// commit replaces the orders of the quorum, and says whether that changes anything. The lock is held.
func (b *Book) commit(list []*routerpb.Order) (changed bool) {
	var next []Order
	for _, p := range list[:min(len(list), order.MaxOrders)] {
		o := order.FromProto(p)
		if err := order.CheckWire(p, o.At); err != nil { // of a newer build, since the control plane checks them
			b.log.Error("order of the control plane is not understood", "id", o.ID, "error", err)
			continue
		}
		if !slices.Contains(b.committed, o) {
			b.log.Warn("order given by the control plane", "id", o.ID, "order", o.String(), "actor", o.Actor, "reason", o.Reason, "expires", o.Expires)
		}
		next = append(next, o)
	}
	changed = !slices.Equal(next, b.committed)
	b.committed = next
	return changed
}

// tookSigned tells of a message that was met for the first time.
func (b *Book) tookSigned(s signed.Message) {
	if s.Order == nil {
		b.log.Warn("signed order withdrawn", "id", s.Cancel, "key", s.Key.ID, "actor", s.Key.Name)
		return
	}
	b.log.Warn("signed order given", "id", s.Order.ID, "order", s.Order.String(), "key", s.Key.ID, "actor", s.Key.Name,
		"reason", s.Order.Reason, "expires", s.Order.Expires)
}

// prune ends what is over of what came from the control plane. The lock is held.
func (b *Book) prune() (changed bool) {
	now := b.o.Now()
	keys, err := b.o.Keys.Keys()
	b.problem("keys", err)
	if keys == nil {
		keys = []signed.Key{} // none is known, so that none holds
	}
	changed, ended := b.signed.Prune(keys, b.cluster(), now)
	for _, o := range ended {
		b.log.Error("signed order does not hold any more: its key is no longer known here, or it is for another control plane", "id", o.ID)
	}
	left := slices.DeleteFunc(slices.Clone(b.committed), func(o Order) bool { return !now.Before(o.Expires) })
	if len(left) < len(b.committed) {
		b.committed, changed = left, true
	}
	return changed
}

// Signal is what a report tells of the orders of a view. Nil: there are none.
func Signal(v *View) *routerpb.OrderSignal {
	given := v.Given()
	if len(given) == 0 {
		return nil
	}
	s := &routerpb.OrderSignal{}
	for i := range given[:min(len(given), order.MaxOrders)] {
		g := &given[i]
		s.Held = append(s.Held, &routerpb.HeldOrder{
			Id: g.ID, Kind: string(g.Kind), Target: g.Target, Actor: g.Actor, ExpiresUnixMs: g.Expires.UnixMilli(),
			OverruledBy: g.OverruledBy, Door: g.Door,
		})
	}
	return s
}
