package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"anabranch/controlplane/forward/nodepb"
)

func tcp(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

func TestARequestThatMetNobodyHasNotBeenSent(t *testing.T) {
	c := newClients(tcp)
	defer func() { _ = c.close() }() // nothing depends on it
	client, err := c.to("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, sent := withSent(t.Context())
	if _, err := client.Propose(ctx, &nodepb.ProposeRequest{}); err == nil || sent.Load() {
		t.Errorf("%v, sent %v, want an error before sending", err, sent.Load())
	}
}

// vanishing reads a request and closes the connection instead of answering.
type vanishing struct {
	nodepb.UnimplementedNodeServer
	drop func()
}

func (v vanishing) Propose(ctx context.Context, _ *nodepb.ProposeRequest) (*nodepb.ProposeReply, error) {
	v.drop()
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestARequestWhoseAnswerWasLostHasBeenSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []io.Closer
	server := grpc.NewServer()
	nodepb.RegisterNodeServer(server, vanishing{drop: func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			_ = c.Close() // what the client sees is the point
		}
	}})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) }) // ends with Stop
	defer serving.Wait()
	defer server.Stop()

	c := newClients(func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := tcp(ctx, address)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, conn)
		}
		return conn, err
	})
	defer func() { _ = c.close() }() // nothing depends on it
	client, err := c.to(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ctx, sent := withSent(ctx)
	_, err = client.Propose(ctx, &nodepb.ProposeRequest{})
	if err == nil || !sent.Load() {
		t.Fatalf("%v, sent %v, want an error after sending", err, sent.Load())
	}
	if err := fromWire(err, nil, sent.Load()); !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("%v, want unknown outcome", err)
	}
}

func TestClientsAreSharedDroppedAndClosed(t *testing.T) {
	c := newClients(tcp)
	for _, address := range []string{"a:1", "a:1", "a:2"} {
		if _, err := c.to(address); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.conns) != 2 {
		t.Errorf("%d connections for two addresses", len(c.conns))
	}
	c.drop("a:1")
	c.drop("a:3")
	if len(c.conns) != 1 {
		t.Errorf("%d connections after one was dropped", len(c.conns))
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.to("a:1"); !errors.Is(err, errUnreachable) {
		t.Errorf("after the end: %v", err)
	}
}

func TestPauseEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if !pause(ctx, time.Microsecond) {
		t.Error("a pause that was not interrupted says so")
	}
	cancel()
	if pause(ctx, time.Hour) {
		t.Error("a pause of a dead context goes on")
	}
}
