package publish

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/controlplane/signal"
)

func TestANodeThatIsCutOffLetsEachRouterGoOnceInAWhile(t *testing.T) {
	var i isolation
	look := func(cut bool, streams, looks int) (ended int) {
		for range looks {
			n := i.next(cut, streams)
			if n > max(1, streams/10) || n < 0 || n > streams {
				t.Fatalf("%d of %d at once", n, streams)
			}
			ended += n
		}
		return ended
	}
	for _, step := range []struct {
		what           string
		cut            bool
		streams, looks int
		want           int
	}{
		{"an election", true, 100, isolatedAfter - 1, 0},
		{"it is over", false, 100, 1, 0},
		{"another", true, 100, isolatedAfter - 1, 0},
		{"it does not end", true, 100, 1, 10},
		{"the others, who find no better place and come back", true, 100, 20, 90},
		{"they stay", true, 100, isolatedAgain - 21, 0},
		{"and try again", true, 100, 10, 100},
		{"without any", true, 0, isolatedAgain, 0},
		{"the last one", true, 1, isolatedAgain, 1},
		{"healed", false, 100, 100, 0},
	} {
		if got := look(step.cut, step.streams, step.looks); got != step.want {
			t.Errorf("%s: %d ended, want %d", step.what, got, step.want)
		}
	}
}

func TestRunLetsRoutersGoWhileTheNodeIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t)
		cut := true
		s, err := New(Options{
			Node: "n1", View: r.View, Changed: r.Changed, Signals: signal.New(nil), Logger: slog.New(slog.DiscardHandler),
			Isolated: func() bool { return cut },
		})
		if err != nil {
			t.Fatal(err)
		}
		var all []*session
		for i := range 5 {
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
		gone := func() (n int) {
			for _, x := range all {
				select {
				case <-x.moved:
					n++
				default:
				}
			}
			return n
		}
		for second := 1; second <= isolatedAfter+5; second++ {
			<-time.After(time.Second)
			synctest.Wait()
			if want := max(0, min(5, second-isolatedAfter+1)); gone() != want {
				t.Fatalf("second %d: %d were let go, want %d", second, gone(), want)
			}
			if second == isolatedAfter {
				select {
				case <-all[0].moved: // who has been there longest has the oldest table
				default:
					t.Error("the eldest stays")
				}
			}
		}
		for _, x := range all {
			s.unregister(x)
			s.leave()
		}
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}
