package emergency

import (
	"context"
	"slices"
	"time"

	"anabranch/api/order"
	"anabranch/api/order/signed"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// maxDue bounds what waits for a quorum to be entered in the audit trail.
const maxDue = 256

// due is a signed message that may not be in the audit trail yet. It is kept until it is, however long that takes, also
// when what it gave is over: the trail tells what was done.
type due struct {
	Key     string       `json:"key"`
	Actor   string       `json:"actor"`
	Counter uint64       `json:"counter"`
	Order   *order.Order `json:"order,omitempty"` // nil: a withdrawal
	Cancel  string       `json:"cancel,omitempty"`
	Taken   time.Time    `json:"taken"` // by this node
}

// owe notes what is to be entered. The lock is held.
func (b *Book) owe(m signed.Message, now time.Time) {
	if over := len(b.due) - maxDue + 1; over > 0 {
		b.log.Error("so many signed orders wait for a quorum that the oldest will not be in the audit trail", "key", b.due[0].Key, "counter", b.due[0].Counter)
		b.due = slices.Clone(b.due[over:])
	}
	b.due = append(b.due, due{m.Key.ID, m.Key.Name, m.Counter, m.Order, m.Cancel, now})
}

// holds says whether an order that is due still holds. The lock is held.
func (b *Book) holds(d due) bool { return d.Order != nil && b.shelf.Has(d.Order.ID) }

// enter has what was signed entered in the audit trail. Several nodes may try: the state takes each once.
func (b *Book) enter(ctx context.Context) {
	view := b.o.View()
	if view.FeatureLevel() < level || !b.o.Led() {
		return
	}
	for _, cmd := range b.missing(view) {
		if ctx.Err() != nil {
			return
		}
		b.propose(ctx, cmd)
	}
}

// missing are the commands that enter what the audit trail of a state does not have. What it has, and is over, is
// forgotten; what holds may have to be entered again, if the state is restored from before.
func (b *Book) missing(view *state.View) (cmds []*statepb.Command) {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(b.due), func(d due) bool { return view.OrderEntered(d.Key, d.Counter) && !b.holds(d) })
	if len(left) < len(b.due) {
		b.due = left
		b.save()
	}
	for _, d := range left {
		if !view.OrderEntered(d.Key, d.Counter) {
			cmds = append(cmds, d.command(!b.holds(d), b.o.Now()))
		}
	}
	return cmds
}

func (b *Book) propose(ctx context.Context, cmd *statepb.Command) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch out, err := b.o.Propose(ctx, cmd); {
	case err != nil:
		b.log.Info("signed order is not in the audit trail yet", "error", err)
	case out.GetCode() != "":
		b.log.Error("signed order is not taken into the audit trail", "code", out.GetCode(), "reason", out.GetMessage())
	}
}

// command enters what was taken. Over: it was taken back, overruled for good or ended since, and is only told of.
func (d due) command(over bool, now time.Time) *statepb.Command {
	cmd := &statepb.Command{
		AtUnixMs: now.UnixMilli(),
		Actor:    &statepb.Actor{Name: d.Actor, Role: "emergency", Kind: "key", Credential: d.Key},
	}
	if d.Order == nil {
		cmd.Op = &statepb.Command_EndOrder{EndOrder: &statepb.EndOrder{Id: d.Cancel, Key: d.Key, Counter: d.Counter, GivenUnixMs: d.Taken.UnixMilli()}}
	} else {
		put := &statepb.PutOrder{Order: d.Order.Proto(), Key: d.Key, Counter: d.Counter, GivenUnixMs: d.Taken.UnixMilli()}
		if over {
			put.EndedUnixMs = now.UnixMilli()
		}
		cmd.Actor.Reason = d.Order.Reason
		cmd.Op = &statepb.Command_PutOrder{PutOrder: put}
	}
	cmd.Format = state.FormatOf(cmd)
	return cmd
}
