package inquiry

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// Explain, Inspect and Follow are those of the other node's [Desk].
	Explain(ctx context.Context, node fleet.NodeID, router fleet.RouterID, request string) (Explanation, error)
	Inspect(ctx context.Context, node fleet.NodeID, router fleet.RouterID, cluster fleet.ClusterID, most uint32) (Inspection, error)
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
	e, err := find(ctx, d, router, func(ctx context.Context) (Explanation, error) {
		return d.o.Desk.Explain(ctx, router, request)
	}, func(ctx context.Context, node fleet.NodeID) (Explanation, error) {
		return d.o.Nodes.Explain(ctx, node, router, request)
	})
	d.metrics.explained(time.Since(start), e, err)
	return e, err
}

// Inspect asks a router how the places of a cluster stand, wherever the router is connected, for at most [Timeout].
// Errors as of Explain.
func (d *Desks) Inspect(ctx context.Context, router fleet.RouterID, cluster fleet.ClusterID, most uint32) (Inspection, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return find(ctx, d, router, func(ctx context.Context) (Inspection, error) {
		return d.o.Desk.Inspect(ctx, router, cluster, most)
	}, func(ctx context.Context, node fleet.NodeID) (Inspection, error) {
		return d.o.Nodes.Inspect(ctx, node, router, cluster, most)
	})
}

// find asks this node's desk, then the node that is said to hold the router's stream, then all others.
func find[T any](ctx context.Context, d *Desks, router fleet.RouterID, here func(context.Context) (T, error), at func(context.Context, fleet.NodeID) (T, error)) (T, error) {
	found, err := here(ctx)
	if !errors.Is(err, ErrNotConnected) {
		return found, err
	}
	holder, known := d.o.Holder(router)
	others := d.o.Nodes.Others()
	if i := slices.Index(others, holder); i >= 0 {
		if found, err = at(ctx, holder); err == nil || settled(err) {
			return found, err
		}
		others = slices.Delete(slices.Clone(others), i, i+1)
	}
	found, missing, err := anywhere(ctx, others, at)
	switch {
	case err == nil || settled(err):
		return found, err
	case ctx.Err() != nil:
		return found, ctx.Err()
	case !known && missing == nil:
		return found, ErrUnknownRouter
	case missing != nil:
		return found, fmt.Errorf("%w to the nodes that answer; %w", ErrNotConnected, missing)
	}
	return found, ErrNotConnected
}

// settled says whether an error is of the router, so that no other node knows better.
func settled(err error) bool {
	return errors.Is(err, ErrTooOld) || errors.Is(err, ErrBusy) || errors.Is(err, context.DeadlineExceeded)
}

// anywhere asks several nodes at once: the router may have moved since this node heard of it. The first
// that has something to say counts. Missing is why some could not be asked, if any.
func anywhere[T any](ctx context.Context, nodes []fleet.NodeID, at func(context.Context, fleet.NodeID) (T, error)) (found T, missing, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		found T
		err   error
	}
	answers := make(chan answer, len(nodes))
	var asked sync.WaitGroup
	defer asked.Wait()
	for _, node := range nodes {
		asked.Go(func() {
			found, err := at(ctx, node)
			answers <- answer{found, err}
		})
	}
	err = ErrNotConnected
	for range nodes {
		a := <-answers
		switch {
		case a.err == nil, settled(a.err):
			cancel()
			return a.found, nil, a.err
		case !errors.Is(a.err, ErrNotConnected):
			missing = a.err
		}
	}
	return found, missing, err
}
