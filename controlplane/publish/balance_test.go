package publish

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"

	"anabranch/controlplane/signal"
)

func TestSurplus(t *testing.T) {
	tests := map[string]struct{ streams, routers, nodes, want int }{
		"alone":                       {500, 500, 1, 0},
		"no node is known":            {500, 500, 0, 0},
		"even":                        {334, 1000, 3, 0},
		"a tenth more":                {368, 1000, 3, 0},
		"one above":                   {369, 1000, 3, 1},
		"a third node comes":          {500, 1000, 3, 5},
		"few":                         {3, 3, 3, 1},
		"two of three":                {2, 3, 3, 0},
		"all on one of many":          {1000, 1000, 5, 10},
		"the others are not heard of": {100, 0, 2, 1},
	}
	for name, tt := range tests {
		if got := surplus(tt.streams, tt.routers, tt.nodes); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// Three nodes, the third empty: the routers spread within a minute and a half, few at a time, and a
// node that is away for a moment moves nobody.
func TestStreamsSpreadSlowlyAfterANodeHasCome(t *testing.T) {
	streams := []int{500, 500, 0}
	nodes := make([]balance, 3)
	look := func(up int) (moved int) {
		for i := range nodes {
			n := nodes[i].next(streams[i], 1000, up)
			streams[i] -= n
			streams[(i+1)%3] += n // the next of its list
			moved += n
		}
		return moved
	}
	for second := range 60 {
		if n := look(2); n > 0 {
			t.Fatalf("second %d: %d moved between two even nodes", second, n)
		}
	}
	for range 9 {
		if look(3) > 0 {
			t.Fatal("moved before the third had settled")
		}
	}
	look(2)
	even := 0
	for second := 1; second <= 200; second++ {
		if n := look(3); n > 15 {
			t.Fatalf("%d moved in a second", n)
		}
		if even == 0 && max(streams[0], streams[1], streams[2]) <= 369 {
			even = second
		}
	}
	t.Logf("even after %d s: %v", even, streams)
	if even == 0 || even > 90 {
		t.Errorf("streams %v", streams)
	}
}

func TestRoutersThatComeBackAreNotSentRoundForEver(t *testing.T) {
	var b balance
	moved := 0
	for range 10_000 { // they always return
		moved += b.next(900, 1000, 3)
	}
	if moved != 1000 {
		t.Errorf("%d moved, want as many as there are routers", moved)
	}
}

func TestANodeWithMoreThanItsShareLetsTheLatestGo(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := newRig(t, func(o *Options) { o.Registerer = registry })
	var all []*router
	for i := range 6 {
		all = append(all, r.join(fmt.Sprint("r", i), nil))
	}
	var b balance
	for range settledAfter {
		r.server.move(b.next(r.server.Streams(), 6, 2), latest)
	}
	wantCode(t, all[5].ended(), codes.Unavailable, "more than its share")
	eventually(t, "one has gone", func() bool { return r.server.Streams() == 5 })
	if o, known := r.observed("r5"); !known || o.Connected {
		t.Errorf("observation %v", o)
	}
	all[0].say(report(1)) // those that came first stay
	eventually(t, "the first is heard", func() bool { o, _ := r.observed("r0"); return o.Report.GetRequests() == 1 })
	if got := testutil.ToFloat64(r.server.metrics.moved); got != 1 {
		t.Errorf("counted %v", got)
	}
}

// In virtual time: a node looks each second, and begins once the nodes have been the same for ten.
func TestRunMovesStreamsOnceTheNodesHaveSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t)
		s, err := New(Options{
			Node: "n1", View: r.View, Changed: r.Changed, Signals: signal.New(nil), Logger: slog.New(slog.DiscardHandler),
			Fleet: func() (int, int) { return 20, 2 },
		})
		if err != nil {
			t.Fatal(err)
		}
		var all []*session
		for i := range 20 {
			if err := s.enter(); err != nil {
				t.Fatal(err)
			}
			x := newSession(s, hello(fmt.Sprint("r", i), nil).GetHello(), nil)
			s.register(x)
			all = append(all, x)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		ended := 0
		leave := func() (now int) { // what Connect does when a stream ends
			for _, x := range all {
				select {
				case <-x.moved:
					if s.current[x.router] == x {
						s.unregister(x)
						s.leave()
						now++
					}
				default:
				}
			}
			ended += now
			return now
		}
		for second := 1; second <= 30; second++ {
			<-time.After(time.Second)
			synctest.Wait()
			if n := leave(); n > 1 || n > 0 && second < settledAfter {
				t.Fatalf("second %d: %d moved", second, n)
			}
		}
		if ended != 8 { // down to its ten and a tenth
			t.Errorf("%d moved, %d left", ended, s.Streams())
		}
		for range s.Streams() {
			s.leave()
		}
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}
