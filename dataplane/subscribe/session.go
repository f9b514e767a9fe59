package subscribe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"anabranch/api/delta"
	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// maxMessage bounds one message, as the size of the file that keeps a table is bounded.
const maxMessage = 64 << 20

// farewellWithin bounds the wait for a node to end the stream after the last report.
const farewellWithin = time.Second

// features are what this build understands beyond the first version of the contract.
var features = []routerpb.Feature{routerpb.Feature_FEATURE_SLICE, routerpb.Feature_FEATURE_DELTA, routerpb.Feature_FEATURE_LEASES, routerpb.Feature_FEATURE_SHED}

// drillFeatures is what it understands of drills.
func (c *Client) drillFeatures() []routerpb.Feature {
	if c.o.Drills == nil {
		return nil
	}
	return []routerpb.Feature{routerpb.Feature_FEATURE_DRILL}
}

var errSilent = errors.New("the control plane node has fallen silent")

// session carries one stream to its end. Welcomed says that the node took the router in.
func (c *Client) session(ctx context.Context, address string) (welcomed bool, err error) {
	creds := insecure.NewCredentials()
	if c.o.TLS != nil {
		creds = credentials.NewTLS(c.o.TLS())
	}
	dial := append([]grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	}, c.o.Dial...)
	conn, err := grpc.NewClient(address, dial...)
	if err != nil {
		return false, fmt.Errorf("dial %s: %w", address, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()

	// The stream outlives ctx by its farewell. Silence ends it from outside, so that a send that
	// blocks ends too.
	leaving := ctx
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(leaving))
	silence := time.AfterFunc(c.o.Silence, func() { cancel(errSilent) })
	defer silence.Stop()

	// Until there is a stream there is nothing to say farewell to.
	connected := context.AfterFunc(leaving, func() { cancel(nil) })
	stream, err := routerpb.NewRouterControlClient(conn).Connect(ctx)
	connected()
	if err != nil {
		cancel(nil)
		return false, fmt.Errorf("connect to %s: %w", address, cause(ctx, err))
	}
	received := make(chan *routerpb.ToRouter)
	ended := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			m, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			silence.Reset(c.o.Silence)
			select {
			case received <- m:
			case <-ctx.Done():
				ended <- ctx.Err()
				return
			}
		}
	}()
	defer func() {
		cancel(nil)
		<-done
	}()
	s := &session{c: c, stream: stream, address: address, inquiries: inquiries{to: c.o.Requests}, account: account{purse: &c.purse}, usage: delivery{parcel: &c.parcel}}
	defer s.end()
	err = s.run(ctx, leaving.Done(), received, ended)
	return s.welcomed, fmt.Errorf("stream to %s: %w", address, cause(ctx, err))
}

// cause prefers why we ended the stream over how gRPC names it.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil && !errors.Is(why, context.Canceled) {
		return why
	}
	return err
}

type session struct {
	c        *Client
	stream   grpc.BidiStreamingClient[routerpb.FromRouter, routerpb.ToRouter]
	address  string
	welcomed bool
	inquiries
	account
	usage delivery
}

// run greets, then reports each period and takes what comes.
func (s *session) run(ctx context.Context, leave <-chan struct{}, received <-chan *routerpb.ToRouter, ended <-chan error) error {
	o := &s.c.o
	hello := &routerpb.Hello{
		Protocol: Protocol, RouterId: string(o.Router), Region: string(o.Region),
		Version: o.Version, Features: slices.Concat(features, s.inquiries.features(), s.account.features(), s.usage.features(), s.c.drillFeatures(), s.c.ordersFeatures()),
	}
	if held := o.Holder.Load(); held != nil {
		hello.Holds, hello.HoldsSha256 = held.Ref.Proto(), delta.Digest(held.Proto())
	}
	if err := s.stream.Send(&routerpb.FromRouter{Body: &routerpb.FromRouter_Hello{Hello: hello}}); err != nil {
		return s.reason(ended, err)
	}
	if err := s.report(); err != nil {
		return s.reason(ended, err)
	}
	if err := s.send(s.spend(time.Now())); err != nil { // what was sent on another stream, too
		return s.reason(ended, err)
	}
	tick := time.NewTicker(o.Period)
	defer tick.Stop()
	spend := time.NewTicker(o.SpendingEvery)
	defer spend.Stop()
	used := time.NewTicker(o.UsageEvery)
	defer used.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-leave:
			return s.farewell(received, ended)
		case err := <-ended:
			return err
		case <-tick.C:
			if err := s.report(); err != nil {
				return s.reason(ended, err)
			}
		case <-spend.C:
			if err := s.send(s.spend(time.Now())); err != nil {
				return s.reason(ended, err)
			}
		case <-used.C:
			if err := s.send(s.usage.tell(time.Now(), false)); err != nil {
				return s.reason(ended, err)
			}
		case m := <-received:
			if err := s.receive(m); err != nil {
				return s.reason(ended, err)
			}
		case <-s.due():
			if err := s.send(s.tell(time.Now())...); err != nil {
				return s.reason(ended, err)
			}
		}
	}
}

// farewell has the last charges and the last use counted and sends a last report, so that nothing since the one before is lost, and waits for the
// node to have taken it.
func (s *session) farewell(received <-chan *routerpb.ToRouter, ended <-chan error) error {
	if err := s.settle(received, ended); err != nil {
		return err
	}
	if err := s.report(); err != nil {
		return s.reason(ended, err)
	}
	if err := s.stream.CloseSend(); err != nil {
		return err
	}
	timer := time.NewTimer(farewellWithin)
	defer timer.Stop()
	for {
		select {
		case <-received: // too late to matter
		case err := <-ended:
			return err
		case <-timer.C:
			return nil
		}
	}
}

// reason prefers what the receiving side says of a stream's end: a failed Send is only io.EOF.
func (s *session) reason(ended <-chan error, sent error) error {
	select {
	case err := <-ended:
		return err
	default:
		return sent
	}
}

func (s *session) report() error {
	r := s.c.o.Report(time.Now())
	return s.stream.Send(&routerpb.FromRouter{Body: &routerpb.FromRouter_Report{Report: r}})
}

func (s *session) receive(m *routerpb.ToRouter) error {
	now := time.Now()
	s.c.heard(now)
	switch body := m.GetBody().(type) {
	case *routerpb.ToRouter_Welcome:
		w := body.Welcome
		if w.GetProtocol() != Protocol {
			return fmt.Errorf("node %s speaks version %d of the contract, this router %d", w.GetNodeId(), w.GetProtocol(), Protocol)
		}
		s.welcomed = true
		s.c.update(func(st *Status) {
			st.Connected, st.Address, st.Node = true, s.address, fleet.NodeID(w.GetNodeId())
		})
		s.c.o.Logger.Info("connected to the control plane", "node", w.GetNodeId(), "address", s.address)
	case *routerpb.ToRouter_Table:
		return s.acknowledge(s.c.consider(body.Table, now))
	case *routerpb.ToRouter_Delta:
		return s.acknowledge(s.c.considerDelta(body.Delta, now))
	case *routerpb.ToRouter_Explain:
		return s.send(s.explain(body.Explain))
	case *routerpb.ToRouter_Inspect:
		return s.send(s.inspect(body.Inspect))
	case *routerpb.ToRouter_Tail:
		return s.send(s.follow(body.Tail, now))
	case *routerpb.ToRouter_StopTail:
		s.stop(body.StopTail.GetNumber())
	case *routerpb.ToRouter_Drill:
		if s.c.o.Drills != nil {
			s.c.o.Drills(body.Drill, now)
		}
	case *routerpb.ToRouter_Ledger:
		if more := s.hear(body.Ledger); more {
			return s.send(s.spend(now))
		}
	case *routerpb.ToRouter_Orders:
		s.c.ordered(body.Orders)
	case *routerpb.ToRouter_UsageTaken:
		s.usage.hear(body.UsageTaken)
		return s.send(s.usage.tell(now, false)) // what has been waiting, too
	}
	return nil // a ping, or something newer than this build: hearing it was the point
}

// send sends messages; nil is none.
func (s *session) send(messages ...*routerpb.FromRouter) error {
	for _, m := range messages {
		if m == nil {
			continue
		}
		if err := s.stream.Send(m); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) acknowledge(ack *routerpb.Ack) error {
	return s.stream.Send(&routerpb.FromRouter{Body: &routerpb.FromRouter_Ack{Ack: ack}})
}
