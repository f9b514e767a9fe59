package subscribe

import (
	"errors"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"anabranch/api/routerpb"
)

type node struct {
	routerpb.UnimplementedRouterControlServer
	address  string
	protocol uint32
	mute     bool // accepts the stream and says nothing
	from     chan *routerpb.FromRouter
	push     chan *routerpb.TablePush
	ledgers  chan *routerpb.Ledger
	taken    chan uint64 // sequences to acknowledge
}

func (n *node) Connect(stream grpc.BidiStreamingServer[routerpb.FromRouter, routerpb.ToRouter]) error {
	ctx := stream.Context()
	if n.mute {
		<-ctx.Done()
		return ctx.Err()
	}
	welcome := &routerpb.Welcome{Protocol: n.protocol, NodeId: "n1", ClusterId: "c-1"}
	if err := stream.Send(&routerpb.ToRouter{Body: &routerpb.ToRouter_Welcome{Welcome: welcome}}); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { // ends with the stream, which ends when this call returns
		defer close(ended)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case n.from <- m:
			default: // a report too many
			}
		}
	}()
	for {
		select {
		case p := <-n.push:
			if p == nil {
				return errors.New("the node is going down")
			}
			if err := stream.Send(&routerpb.ToRouter{Body: &routerpb.ToRouter_Table{Table: p}}); err != nil {
				return err
			}
		case l := <-n.ledgers:
			if err := stream.Send(&routerpb.ToRouter{Body: &routerpb.ToRouter_Ledger{Ledger: l}}); err != nil {
				return err
			}
		case sequence := <-n.taken:
			if err := stream.Send(&routerpb.ToRouter{Body: &routerpb.ToRouter_UsageTaken{UsageTaken: &routerpb.UsageTaken{Sequence: sequence}}}); err != nil {
				return err
			}
		case <-ended:
			return nil
		}
	}
}

func serve(t *testing.T, n *node, options ...grpc.ServerOption) *node {
	t.Helper()
	if n.protocol == 0 {
		n.protocol = Protocol
	}
	n.from, n.push = make(chan *routerpb.FromRouter, 64), make(chan *routerpb.TablePush)
	n.ledgers, n.taken = make(chan *routerpb.Ledger), make(chan uint64)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.address = l.Addr().String()
	s := grpc.NewServer(options...)
	routerpb.RegisterRouterControlServer(s, n)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // ends with Stop
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return n
}

func (n *node) next(t *testing.T, want func(*routerpb.FromRouter) bool) *routerpb.FromRouter {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case m := <-n.from:
			if want(m) {
				return m
			}
		case <-deadline:
			t.Fatal("the router sent nothing of the kind within 10 s")
		}
	}
}

func isAck(m *routerpb.FromRouter) bool    { return m.GetAck() != nil }
func isHello(m *routerpb.FromRouter) bool  { return m.GetHello() != nil }
func isReport(m *routerpb.FromRouter) bool { return m.GetReport() != nil }

func pushed(nonce, epoch, revision uint64) *routerpb.TablePush {
	return &routerpb.TablePush{Nonce: nonce, Table: &routerpb.Table{
		Ref:     &routerpb.TableRef{ClusterId: "c-1", Epoch: epoch, Revision: revision},
		Regions: []*routerpb.Region{{Id: "eu-west-1"}},
		Clusters: []*routerpb.Cluster{{
			Id: "eu-a", Region: "eu-west-1", Kind: "endpoints", Models: []string{"m"}, HealthCap: 1,
			Endpoints: []*routerpb.Endpoint{{Id: "e1", Url: "http://127.0.0.1:9", Class: "h100"}},
		}},
		Models: []*routerpb.Model{{Id: "m", OutputWeight: 6}},
	}}
}
