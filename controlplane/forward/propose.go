package forward

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/forward/nodepb"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
)

// Propose commits a command through whichever node leads, and returns when it has been applied
// here too, so that the caller reads its own write. It looks for a leader, again and again, until
// ctx ends ([DefaultTimeout] if that has no deadline), but only while the command certainly was
// not proposed. Format and time are stamped if they are zero; cmd itself is not changed.
//
// Errors: [ErrNoLeader], [ErrUnknownOutcome], store.ErrReadOnly, store.ErrTooLarge, ctx's. If ctx
// ends after the commit, while this node is still behind, the outcome is returned without error.
func (f *Forward) Propose(ctx context.Context, cmd *statepb.Command) (*statepb.Outcome, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	cmd = stamped(cmd, time.Now())
	var outcome *statepb.Outcome
	err := f.atLeader(ctx,
		func() (err error) {
			outcome, err = f.store.Propose(ctx, cmd)
			return err
		},
		func(c nodepb.NodeClient) error {
			ctx, sent := withSent(ctx)
			var trailer metadata.MD
			reply, err := c.Propose(ctx, &nodepb.ProposeRequest{ClusterId: f.store.View().ClusterID(), Command: cmd}, grpc.Trailer(&trailer))
			outcome = reply.GetOutcome()
			return fromWire(err, trailer, sent.Load())
		})
	if err != nil {
		return nil, fmt.Errorf("propose: %w", err)
	}
	// The command is committed: what ctx says now does not change the answer.
	_ = f.store.WaitApplied(ctx, outcome.GetRevision())
	return outcome, nil
}

// ReadIndex returns when this node's view holds everything that was acknowledged anywhere before
// the call. Errors: [ErrNoLeader], ctx's.
func (f *Forward) ReadIndex(ctx context.Context) error {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	var index uint64
	err := f.atLeader(ctx,
		func() error {
			return f.attempt(ctx, func(ctx context.Context) (err error) {
				index, err = f.store.ReadIndex(ctx)
				return err
			})
		},
		func(c nodepb.NodeClient) error {
			return f.attempt(ctx, func(ctx context.Context) error {
				var trailer metadata.MD
				reply, err := c.ReadIndex(ctx, &nodepb.ReadIndexRequest{ClusterId: f.store.View().ClusterID()}, grpc.Trailer(&trailer))
				index = reply.GetIndex()
				return fromWire(err, trailer, false) // a read can always be asked again
			})
		})
	if err != nil {
		return fmt.Errorf("strong read: %w", err)
	}
	if err := f.store.WaitApplied(ctx, index); err != nil {
		return fmt.Errorf("strong read: wait for %d: %w", index, err)
	}
	f.store.MarkReady()
	return nil
}

// attempt bounds one attempt of something that can be tried again elsewhere.
func (f *Forward) attempt(ctx context.Context, do func(context.Context) error) error {
	short, cancel := context.WithTimeout(ctx, 2*f.o.Interval)
	defer cancel()
	err := do(short)
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", errUnreachable, err)
	}
	return err
}

// atLeader does local here or remote at another node, whoever leads, until one of them has an
// answer that is not "not me" or "not reachable". A node that does not lead never passes a call
// on, so a call makes one hop at most.
func (f *Forward) atLeader(ctx context.Context, local func() error, remote func(nodepb.NodeClient) error) error {
	retry := f.o.Interval / 50
	var hint string
	for round := 0; ; round++ {
		err := local()
		if address := f.target(err, hint, round); address != "" {
			hint = ""
			var client nodepb.NodeClient
			if client, err = f.clients.to(address); err == nil {
				err = remote(client)
			}
		}
		var elsewhere store.ErrNotLeader
		switch {
		case errors.As(err, &elsewhere):
			hint = elsewhere.Address
		case errors.Is(err, errUnreachable), errors.Is(err, store.ErrBusy), errors.Is(err, store.ErrClosed):
		case err != nil && ctx.Err() != nil && !errors.Is(err, ErrUnknownOutcome):
			return fmt.Errorf("%w: %w", ErrNoLeader, ctx.Err())
		default:
			return err
		}
		if !pause(ctx, retry) {
			return fmt.Errorf("%w: %w", ErrNoLeader, ctx.Err())
		}
		retry = min(2*retry, f.o.Interval/5)
	}
}

// patientRounds is for how many rounds, about two seconds, a node without a leader waits to hear of one
// itself. Asking others at once would send commands of an election to a machine that has just
// vanished, where their outcome stays unknown.
const patientRounds = 12

// target says which node to ask after the local answer err, "" for none: the leader that this node
// knows, else what another node hinted at, else, after some patience, the others in turn.
func (f *Forward) target(err error, hint string, round int) string {
	var elsewhere store.ErrNotLeader
	if !errors.As(err, &elsewhere) {
		return ""
	}
	switch {
	case elsewhere.Address != "" && round%2 == 0:
		return elsewhere.Address
	case hint != "" && hint != f.store.Address():
		return hint
	case elsewhere.Address != "":
		return elsewhere.Address
	case round < patientRounds:
		return ""
	}
	others := f.others()
	if len(others) == 0 {
		return ""
	}
	return others[round%len(others)].Address
}

// others are the members without this node.
func (f *Forward) others() []store.Member {
	var others []store.Member
	for _, m := range f.store.Members() {
		if m.ID != f.store.ID() {
			others = append(others, m)
		}
	}
	return others
}

func stamped(cmd *statepb.Command, now time.Time) *statepb.Command {
	cmd = proto.CloneOf(cmd)
	if cmd.Format == 0 {
		cmd.Format = state.FormatOf(cmd)
	}
	if cmd.AtUnixMs == 0 {
		cmd.AtUnixMs = now.UnixMilli()
	}
	return cmd
}

func withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, DefaultTimeout)
}
