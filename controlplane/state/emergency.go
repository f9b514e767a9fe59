package state

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/order"
	"anabranch/api/residence"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// KindOrder is what the audit trail calls an emergency order.
const KindOrder = "EmergencyOrder"

// ActionWithdrawn stands in the audit trail for a signed withdrawal of an order that is not known any more.
const ActionWithdrawn = "withdraw"

// CodeExpired says that an order has ended already.
const CodeExpired = "expired"

// MaxCounters is how many counters of one key are remembered at a time: those below come too late for the audit trail.
const MaxCounters = 1024

// emergency is the orders that were given by quorum, or entered since. The zero emergency has none.
type emergency struct {
	orders []*statepb.PutOrder       // by when they were given; replaced, never written to
	keys   []*statepb.SignedCounters // by key
}

// Orders gives the emergency orders that hold at now, oldest first. They must not be changed.
func (v *View) Orders(now time.Time) []*statepb.PutOrder {
	var out []*statepb.PutOrder
	for _, p := range v.emergency.orders {
		if p.GetEndedUnixMs() == 0 && now.UnixMilli() < p.GetOrder().GetExpiresUnixMs() {
			out = append(out, p)
		}
	}
	return out
}

// OrdersGiven gives the emergency orders that are remembered, also those that are over, oldest first. They must not be
// changed.
func (v *View) OrdersGiven() []*statepb.PutOrder { return v.emergency.orders }

// Ordered is what the emergency orders come to at now.
func (v *View) Ordered(now time.Time) *order.View {
	if len(v.emergency.orders) == 0 {
		return nil
	}
	return order.Set{}.With(order.DoorControlPlane, v.plainOrders(now)...).At(now)
}

func (v *View) plainOrders(now time.Time) []order.Order {
	var out []order.Order
	for _, p := range v.Orders(now) {
		out = append(out, order.FromProto(p.GetOrder()))
	}
	return out
}

// RevertedTo is the revision of the table that a revert made; 0: the order is no revert, or not remembered.
func (v *View) RevertedTo(id string) uint64 {
	for _, p := range v.emergency.orders {
		if p.GetOrder().GetId() == id {
			return p.GetTableRevision()
		}
	}
	return 0
}

// EndedOrders names the signed orders that a quorum has taken back and that would hold at now.
func (v *View) EndedOrders(now time.Time) []string {
	var out []string
	for _, p := range v.emergency.orders {
		if p.GetEndedUnixMs() != 0 && p.GetKey() != "" && now.UnixMilli() < p.GetOrder().GetExpiresUnixMs() {
			out = append(out, p.GetOrder().GetId())
		}
	}
	return out
}

// OrderEntered says whether the message of a counter of a key is in the audit trail, or comes too late to be.
func (v *View) OrderEntered(key string, counter uint64) bool {
	for _, k := range v.emergency.keys {
		if k.GetKey() == key {
			_, met := slices.BinarySearch(k.GetCounters(), counter)
			return met || counter <= k.GetFloor()
		}
	}
	return false
}

// FrozenAt says who keeps changes away from routers at now, and why: an operator until further notice, see
// [View.Frozen], or an emergency order for its time. Nil: nobody does.
func (v *View) FrozenAt(now time.Time) *statepb.Freeze {
	if v.roll.freeze != nil {
		return v.roll.freeze
	}
	o := v.Ordered(now).Freezer()
	if o == nil {
		return nil
	}
	return &statepb.Freeze{AtUnixMs: o.At.UnixMilli(), Actor: o.Actor, Reason: o.String() + " by emergency order " + o.ID + ": " + o.Reason}
}

// putOrder gives an order, or enters in the audit trail one that was given without a quorum, once.
func (v *View) putOrder(cmd *statepb.Command, p *statepb.PutOrder) *statepb.Outcome {
	at := time.UnixMilli(cmd.GetAtUnixMs())
	given := proto.CloneOf(p)
	o := given.GetOrder()
	if o == nil {
		return refuse(CodeInvalid, "order", "is missing")
	}
	if p.GetKey() != "" && v.OrderEntered(p.GetKey(), p.GetCounter()) {
		return &statepb.Outcome{}
	}
	if o.GetId() == "" {
		o.Id = strconv.FormatUint(v.index, 10)
	}
	// A signed order is judged as of when it was taken: it may be over by now, and is to be told of all the same.
	judged := at
	if p.GetKey() != "" {
		judged = time.UnixMilli(max(p.GetGivenUnixMs(), o.GetAtUnixMs()))
	}
	if err := order.CheckWire(o, judged); err != nil {
		return refuse(CodeInvalid, "order", err.Error())
	}
	over := o.GetExpiresUnixMs() <= cmd.GetAtUnixMs()
	if p.GetKey() != "" {
		over = over || p.GetEndedUnixMs() != 0 || v.overBefore(o)
	} else {
		if over {
			return refuse(CodeExpired, "order", "the order has ended already")
		}
		if out := v.fitOrder(o, at); out != nil {
			return out
		}
	}
	given.Revision, given.EndedUnixMs, given.TableRevision = v.index, 0, 0
	if !over {
		v.hold(cmd, given, at)
	}
	if p.GetKey() != "" {
		v.enter(p.GetKey(), p.GetCounter())
	}
	plain := order.FromProto(o)
	v.record(cmd, entry{action: "create", kind: KindOrder, name: o.GetId(), code: o.GetKind(), reason: toldOf(&plain, p)})
	return &statepb.Outcome{}
}

// toldOf words an order for the audit trail.
func toldOf(o *order.Order, p *statepb.PutOrder) string {
	text := fmt.Sprintf("%s until %s", o, o.Expires.UTC().Format(time.RFC3339))
	if p.GetKey() != "" {
		text += fmt.Sprintf("; signed by %s with key %s, counter %d, and taken without quorum at %s",
			o.Actor, p.GetKey(), p.GetCounter(), time.UnixMilli(p.GetGivenUnixMs()).UTC().Format(time.RFC3339))
		if p.GetEndedUnixMs() != 0 {
			text += "; ended before it was entered"
		}
	}
	return text
}

// overBefore says whether a signed order that is entered late was ended by what was entered before it: a withdrawal, or
// a restore that was given after it. Nodes enter what they have as they come back, in any order.
func (v *View) overBefore(o *routerpb.Order) bool {
	return slices.ContainsFunc(v.emergency.orders, func(p *statepb.PutOrder) bool {
		x := p.GetOrder()
		return x.GetId() == o.GetId() ||
			o.GetKind() == string(order.Evacuate) && x.GetKind() == string(order.Restore) && x.GetTarget() == o.GetTarget() && x.GetAtUnixMs() >= o.GetAtUnixMs()
	})
}

// fitOrder refuses an order that would do nothing, or one too many; nil: it may be given.
func (v *View) fitOrder(o *routerpb.Order, at time.Time) *statepb.Outcome {
	if len(v.Orders(at)) >= order.MaxOrders {
		return refuse(CodeTooMany, "", fmt.Sprintf("%d emergency orders hold already: end some", order.MaxOrders))
	}
	plain := order.FromProto(o)
	switch plain.Kind {
	case order.Evacuate, order.Restore:
		what, name := plain.Place()
		kind := policy.KindCluster
		if what == "region" {
			kind = policy.KindRegion
		}
		if _, there := v.Get(kind, name); !there {
			return refuse(CodeNotFound, "order.target", fmt.Sprintf("there is no %s %q", what, name))
		}
	case order.Revert:
		if v.epochDue {
			return epochFirst()
		}
		t := v.tableOf(o)
		if t == nil {
			return refuse(CodeNotFound, "order.revision", fmt.Sprintf("table %d is not kept; GET /v1/tables lists those that are", o.GetRevision()))
		}
		if _, err := v.narrowed(t); err != nil {
			return refuse(CodeInvalid, "order.revision", err.Error())
		}
	}
	return nil
}

// tableOf finds the kept table that a revert names; nil: it is not kept. Epoch 0 is the newest of the revision.
func (v *View) tableOf(o *routerpb.Order) *routerpb.Table {
	for _, t := range slices.Backward(v.tables) {
		if t.GetRef().GetRevision() == o.GetRevision() && (o.GetEpoch() == 0 || o.GetEpoch() == t.GetRef().GetEpoch()) {
			return t
		}
	}
	return nil
}

// hold puts an order in force. A restore ends evacuations of the same target for good; a revert makes a new table of
// the old one, unless one that goes to a later table holds already.
func (v *View) hold(cmd *statepb.Command, p *statepb.PutOrder, at time.Time) {
	o := order.FromProto(p.GetOrder())
	kept := v.rememberedOrders(at)
	if o.Kind == order.Restore {
		for i, x := range kept {
			if x.GetOrder().GetKind() == string(order.Evacuate) && x.GetOrder().GetTarget() == o.Target && x.GetEndedUnixMs() == 0 &&
				x.GetOrder().GetAtUnixMs() <= o.At.UnixMilli() {
				kept[i] = ended(x, cmd.GetAtUnixMs())
			}
		}
	}
	kept = append(kept, p)
	slices.SortStableFunc(kept, func(a, b *statepb.PutOrder) int { return int(a.GetRevision()) - int(b.GetRevision()) })
	v.emergency.orders = kept
	if held := v.Ordered(at).Revert(); o.Kind == order.Revert && held != nil && held.ID == o.ID && !v.epochDue {
		v.goBack(cmd, p)
	}
}

// narrowed is an earlier table as it may be gone back to: residency is never widened, neither by what was tightened in the
// tables since nor by what a rollout under way tightens.
func (v *View) narrowed(t *routerpb.Table) (*routerpb.Table, error) {
	for _, newest := range []*routerpb.Table{v.Table(), v.roll.stable, v.roll.fresh} {
		var err error
		if t, err = residence.Narrow(t, newest); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// goBack publishes an earlier table as a new one. A rollout under way is taken back: the table is everybody's.
func (v *View) goBack(cmd *statepb.Command, p *statepb.PutOrder) {
	t := v.tableOf(p.GetOrder())
	if t == nil {
		return
	}
	t, err := v.narrowed(t)
	if err != nil {
		return // of a signed order: routers that serve by it say the same
	}
	v.interrupt(cmd, "an emergency order goes back to table "+strconv.FormatUint(t.GetRef().GetRevision(), 10))
	again := proto.CloneOf(t)
	again.CreatedUnixMs, again.Drill = cmd.GetAtUnixMs(), nil
	p.TableRevision = v.keep(again).GetRef().GetRevision()
	v.record(cmd, entry{action: "publish", kind: "Table", name: strconv.FormatUint(v.index, 10)})
}

// rememberedOrders are those that are kept at a time, in a list of their own.
func (v *View) rememberedOrders(at time.Time) []*statepb.PutOrder {
	return slices.DeleteFunc(slices.Clone(v.emergency.orders), func(p *statepb.PutOrder) bool {
		return p.GetOrder().GetExpiresUnixMs() <= at.UnixMilli() || p.GetEndedUnixMs() != 0 && p.GetKey() == ""
	})
}

func ended(p *statepb.PutOrder, atUnixMs int64) *statepb.PutOrder {
	p = proto.CloneOf(p)
	p.EndedUnixMs = atUnixMs
	return p
}

// enter remembers that a counter is in the audit trail.
func (v *View) enter(key string, counter uint64) {
	v.emergency.keys = slices.Clone(v.emergency.keys)
	i, found := slices.BinarySearchFunc(v.emergency.keys, key, func(k *statepb.SignedCounters, key string) int {
		switch {
		case k.GetKey() < key:
			return -1
		case k.GetKey() > key:
			return 1
		}
		return 0
	})
	next := &statepb.SignedCounters{Key: key}
	if found {
		next = proto.CloneOf(v.emergency.keys[i])
	} else {
		v.emergency.keys = slices.Insert(v.emergency.keys, i, next)
	}
	if at, met := slices.BinarySearch(next.GetCounters(), counter); !met {
		next.Counters = slices.Insert(next.Counters, at, counter)
	}
	if over := len(next.GetCounters()) - MaxCounters; over > 0 {
		next.Floor, next.Counters = next.GetCounters()[over-1], next.GetCounters()[over:]
	}
	v.emergency.keys[i] = next
}

// endOrder takes an order back.
func (v *View) endOrder(cmd *statepb.Command, e *statepb.EndOrder) *statepb.Outcome {
	if err := order.CheckID(e.GetId()); err != nil || e.GetId() == "" {
		return refuse(CodeInvalid, "id", "is no name of an order")
	}
	signed := e.GetKey() != ""
	if signed && v.OrderEntered(e.GetKey(), e.GetCounter()) {
		return &statepb.Outcome{}
	}
	at := time.UnixMilli(cmd.GetAtUnixMs())
	held := slices.ContainsFunc(v.Orders(at), func(p *statepb.PutOrder) bool { return p.GetOrder().GetId() == e.GetId() })
	if !held && !signed {
		return refuse(CodeNotFound, "id", fmt.Sprintf("no emergency order %s holds", e.GetId()))
	}
	action, reason := "delete", ""
	if signed {
		v.enter(e.GetKey(), e.GetCounter())
		reason = fmt.Sprintf("signed with key %s, counter %d, and taken without quorum at %s",
			e.GetKey(), e.GetCounter(), time.UnixMilli(e.GetGivenUnixMs()).UTC().Format(time.RFC3339))
	}
	if held {
		v.emergency.orders = slices.Clone(v.emergency.orders)
		for i, p := range v.emergency.orders {
			if p.GetOrder().GetId() == e.GetId() {
				v.emergency.orders[i] = ended(p, cmd.GetAtUnixMs())
			}
		}
		v.emergency.orders = v.rememberedOrders(at)
	} else {
		action = ActionWithdrawn
		v.emergency.orders = append(v.rememberedOrders(at), withdrawn(cmd, v.index, e))
	}
	v.record(cmd, entry{action: action, kind: KindOrder, name: e.GetId(), reason: reason})
	return &statepb.Outcome{}
}

// withdrawn stands for an order that is not known here, so that it does not hold if it is entered later, for as long as
// it could.
func withdrawn(cmd *statepb.Command, revision uint64, e *statepb.EndOrder) *statepb.PutOrder {
	given := max(e.GetGivenUnixMs(), cmd.GetAtUnixMs())
	return &statepb.PutOrder{
		Order: &routerpb.Order{Id: e.GetId(), AtUnixMs: given, ExpiresUnixMs: given + (order.MaxTerm + order.MaxSkew).Milliseconds()},
		Key:   e.GetKey(), Counter: e.GetCounter(), GivenUnixMs: e.GetGivenUnixMs(), Revision: revision, EndedUnixMs: cmd.GetAtUnixMs(),
	}
}

// proto is what a snapshot holds of it; nil: nothing.
func (e emergency) proto() *statepb.Orders {
	if len(e.orders) == 0 && len(e.keys) == 0 {
		return nil
	}
	return &statepb.Orders{Orders: e.orders, Keys: e.keys}
}

// read is the inverse of proto.
func (e *emergency) read(p *statepb.Orders) error {
	for _, o := range p.GetOrders() {
		if o.GetOrder() == nil || o.GetOrder().GetId() == "" {
			return errors.New("an emergency order has no name")
		}
	}
	if !slices.IsSortedFunc(p.GetKeys(), func(a, b *statepb.SignedCounters) int {
		if a.GetKey() < b.GetKey() {
			return -1
		}
		return 1
	}) {
		return errors.New("the keys of emergency orders are out of order")
	}
	e.orders, e.keys = p.GetOrders(), p.GetKeys()
	return nil
}
