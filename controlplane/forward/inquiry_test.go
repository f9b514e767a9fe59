package forward

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/inquiry"
	"anabranch/controlplane/store"
)

// visit connects a router to a node, which answers every question that begins with its name with a
// record, others with none, and each tail with a decision.
func visit(t *testing.T, n *node, id string, features ...routerpb.Feature) {
	asks, done := make(chan *routerpb.ToRouter, 16), make(chan struct{})
	heard, leave := n.desk.Join(&routerpb.Hello{RouterId: id, Region: "us", Features: features}, asks)
	go func() {
		defer close(done)
		for m := range asks {
			if ask := m.GetExplain(); ask != nil && id != "silent" {
				answer := &routerpb.Explained{Number: ask.GetNumber(), RememberedMost: 4096}
				if ask.GetRequestId() == id+"-7" {
					answer.Record, answer.OldestUnixMs = []byte(`{"id":7}`), 7000
				}
				heard(&routerpb.FromRouter{Body: &routerpb.FromRouter_Explained{Explained: answer}})
			}
			if ask := m.GetInspect(); ask != nil && id != "silent" {
				heard(&routerpb.FromRouter{Body: &routerpb.FromRouter_Inspected{Inspected: &routerpb.Inspected{
					Number: ask.GetNumber(), Known: true, Kind: ask.GetCluster(), Left: ask.GetMost(),
				}}})
			}
			if ask := m.GetTail(); ask != nil {
				record := fmt.Sprintf(`{"tenants":%q,"rate":%d}`, ask.GetFilter().GetTenants(), ask.GetRatePerS())
				heard(&routerpb.FromRouter{Body: &routerpb.FromRouter_Decisions{Decisions: &routerpb.Decisions{
					Number: ask.GetNumber(), Records: [][]byte{[]byte(record)}, Dropped: 2,
				}}})
			}
		}
	}()
	t.Cleanup(func() {
		leave()
		close(asks)
		<-done
	})
}

func TestTheRoutersOfAnotherNodeAreAsked(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, 2)
	c.begin()
	here, there := c.nodes["n1"], c.nodes["n2"]
	able := []routerpb.Feature{routerpb.Feature_FEATURE_EXPLAIN, routerpb.Feature_FEATURE_TAIL, routerpb.Feature_FEATURE_INSPECT}
	visit(t, there, "r1", able...)
	visit(t, there, "silent", able...)
	visit(t, there, "old")
	visit(t, here, "own", able...)
	ask := Inquiries{here.Forward}
	if others := ask.Others(); len(others) != 1 || others[0] != "n2" {
		t.Errorf("others are %v", others)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	e, err := ask.Explain(ctx, "n2", "r1", "r1-7")
	if err != nil || string(e.Record) != `{"id":7}` || e.Node != "n2" || e.Router != "r1" || e.Region != "us" || e.Most != 4096 || !e.Oldest.Equal(time.UnixMilli(7000)) {
		t.Errorf("got %+v, %v", e, err)
	}
	if e, err = ask.Explain(ctx, "n2", "r1", "r1-8"); err != nil || e.Record != nil || !e.Oldest.IsZero() || e.Most != 4096 {
		t.Errorf("of an unknown request: %+v, %v", e, err)
	}
	short, end := context.WithTimeout(ctx, 50*time.Millisecond)
	defer end()
	for router, want := range map[string]error{
		"nobody": inquiry.ErrNotConnected, "own": inquiry.ErrNotConnected, // the node asked asks no further ones
		"old": inquiry.ErrTooOld, "silent": context.DeadlineExceeded,
	} {
		in := ctx
		if router == "silent" {
			in = short
		}
		if _, err := ask.Explain(in, "n2", fleet.RouterID(router), "r1-7"); !errors.Is(err, want) {
			t.Errorf("of %s: %v, want %v", router, err, want)
		}
		if _, err := ask.Inspect(in, "n2", fleet.RouterID(router), "us-a", 0); !errors.Is(err, want) {
			t.Errorf("of places by %s: %v, want %v", router, err, want)
		}
	}
	i, err := ask.Inspect(ctx, "n2", "r1", "us-a", 7)
	if err != nil || i.Node != "n2" || i.Router != "r1" || i.Region != "us" || !i.Sight.GetKnown() || i.Sight.GetKind() != "us-a" || i.Sight.GetLeft() != 7 {
		t.Errorf("of places: %+v, %v", i, err)
	}
	if _, err := ask.Inspect(ctx, "n9", "r1", "us-a", 0); !errors.Is(err, store.ErrNotMember) {
		t.Errorf("of places, no member: %v", err)
	}
	if _, err := ask.Explain(ctx, "n9", "r1", "r1-7"); !errors.Is(err, store.ErrNotMember) {
		t.Errorf("of no member: %v", err)
	}

	news, ended := make(chan inquiry.News, 16), make(chan error, 1)
	follow := func(ctx context.Context) {
		ended <- ask.Follow(ctx, "n2", &routerpb.DecisionFilter{Tenants: []string{"acme"}}, 9, func(n inquiry.News) error { news <- n; return nil })
	}
	first, leave := context.WithCancel(ctx)
	go follow(first)
	if n := <-news; n.Node != "n2" || n.Router != "" || n.Standing.Following != 2 || fmt.Sprint(n.Standing.Unable) != "[old]" {
		t.Errorf("first it tells %+v", n)
	}
	if n := <-news; n.Node != "n2" || n.Region != "us" || n.Dropped != 2 || len(n.Records) != 1 || string(n.Records[0]) != `{"tenants":["acme"],"rate":9}` {
		t.Errorf("then %+v", n)
	}
	leave()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	for len(news) > 0 {
		<-news
	}
	broken := errors.New("broken pipe")
	if err := ask.Follow(ctx, "n2", nil, 0, func(inquiry.News) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("of a listener that fails: %v", err)
	}
	go follow(ctx)
	<-news
	there.stop()
	if err := <-ended; err == nil && ctx.Err() == nil {
		t.Error("the end of the node is no error")
	}
	if _, err := ask.Explain(ctx, "n2", "r1", "r1-7"); err == nil || errors.Is(err, inquiry.ErrNotConnected) {
		t.Errorf("of a node that is down: %v", err)
	}
}
