package inquiry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// Timeout bounds the wait for a router's answer.
const Timeout = 3 * time.Second

// Nodes asks the desks of other nodes. A node that is asked never asks further ones.
type Nodes interface {
	// Others are the other members of the control plane.
	Others() []fleet.NodeID
	// Explain and Follow are those of the other node's [Desk].
	Explain(ctx context.Context, node fleet.NodeID, router fleet.RouterID, request string) (Explanation, error)
	Follow(ctx context.Context, node fleet.NodeID, filter *routerpb.DecisionFilter, perSecond uint32, tell func(News) error) error
}

// Options of [Desks]. All but Registerer are needed.
type Options struct {
	// Desk is this node's.
	Desk *Desk
	// Nodes are the others.
	Nodes Nodes
	// Holder is the node that a router is, or was, connected to as far as this one has heard; false: it has
	// heard of no such router.
	Holder func(fleet.RouterID) (node fleet.NodeID, known bool)
	// Registerer takes the metrics. Nil: nobody does.
	Registerer prometheus.Registerer
}

// Desks ask the routers that are connected to any node. They are safe for concurrent use.
type Desks struct {
	o       Options
	metrics *metrics
}

// NewDesks connects the desks of all nodes; it starts nothing.
func NewDesks(o Options) (*Desks, error) {
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register metrics of inquiry: %w", err)
	}
	return &Desks{o: o, metrics: m}, nil
}

// Explain asks a router what became of a request, wherever the router is connected, for at most
// [Timeout]. Errors: [ErrUnknownRouter], [ErrNotConnected], [ErrTooOld], [ErrBusy], and
// context.DeadlineExceeded if the router, or the node that holds its stream, does not answer.
func (d *Desks) Explain(ctx context.Context, router fleet.RouterID, request string) (Explanation, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	start := time.Now()
	e, err := d.explain(ctx, router, request)
	d.metrics.explained(time.Since(start), e, err)
	return e, err
}

func (d *Desks) explain(ctx context.Context, router fleet.RouterID, request string) (Explanation, error) {
	e, err := d.o.Desk.Explain(ctx, router, request)
	if !errors.Is(err, ErrNotConnected) {
		return e, err
	}
	holder, known := d.o.Holder(router)
	others := d.o.Nodes.Others()
	for i, node := range others {
		if node != holder {
			continue
		}
		if e, err = d.o.Nodes.Explain(ctx, node, router, request); err == nil || settled(err) {
			return e, err
		}
		others = append(append([]fleet.NodeID{}, others[:i]...), others[i+1:]...)
		break
	}
	e, missing, err := d.anywhere(ctx, others, router, request)
	switch {
	case err == nil || settled(err):
		return e, err
	case ctx.Err() != nil:
		return e, ctx.Err()
	case !known && missing == nil:
		return e, ErrUnknownRouter
	case missing != nil:
		return e, fmt.Errorf("%w to the nodes that answer; %w", ErrNotConnected, missing)
	}
	return e, ErrNotConnected
}

// settled says whether an error is of the router, so that no other node knows better.
func settled(err error) bool {
	return errors.Is(err, ErrTooOld) || errors.Is(err, ErrBusy) || errors.Is(err, context.DeadlineExceeded)
}

// anywhere asks several nodes at once: the router may have moved since this node heard of it. The first
// that has something to say counts. Missing is why some could not be asked, if any.
func (d *Desks) anywhere(ctx context.Context, nodes []fleet.NodeID, router fleet.RouterID, request string) (e Explanation, missing, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		Explanation
		err error
	}
	answers := make(chan answer, len(nodes))
	var asked sync.WaitGroup
	defer asked.Wait()
	for _, node := range nodes {
		asked.Go(func() {
			e, err := d.o.Nodes.Explain(ctx, node, router, request)
			answers <- answer{e, err}
		})
	}
	err = ErrNotConnected
	for range nodes {
		a := <-answers
		switch {
		case a.err == nil, settled(a.err):
			cancel()
			return a.Explanation, nil, a.err
		case !errors.Is(a.err, ErrNotConnected):
			missing = a.err
		}
	}
	return Explanation{}, missing, err
}
