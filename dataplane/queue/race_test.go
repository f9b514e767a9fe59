package queue

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestThousandsComeAndGo sends from thousands of goroutines at once, of which some leave, some have
// little time, some never say that they began, beside orders to shed; with the real clock. Every
// request has one answer, and nothing is left at the end.
func TestThousandsComeAndGo(t *testing.T) {
	const clients, each = 3000, 4
	g, err := New(Options{
		Limits: Limits{Items: 500, Bytes: 300_000, Tokens: 200_000},
		Tick:   time.Millisecond, Settle: time.Millisecond, BeginWithin: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() {
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	places := [3]*place{{slots: 40}, {slots: 40}, {slots: 40}}
	var let, refused, passes atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for range each {
				lane := rnd.IntN(len(places))
				p := places[lane]
				r := Request{
					Lane: uint64(lane), Priority: []int32{-10, 0, 50, 100}[rnd.IntN(4)],
					Tenant: fmt.Sprint("t", i%20), Flow: fmt.Sprint(i % 3), Cost: int64(rnd.IntN(1000)), Bytes: int64(rnd.IntN(2000)),
					Deadline: time.Now().Add(time.Duration(rnd.IntN(400)) * time.Millisecond), Slots: []float64{0, 40}[lane%2],
				}
				ctx, cancel := context.WithCancel(context.Background())
				if rnd.IntN(4) == 0 {
					time.AfterFunc(time.Duration(rnd.IntN(50))*time.Millisecond, cancel)
				}
				pass, refusal := g.Enter(ctx, r, p.room)
				switch {
				case (pass == nil) == (refusal == nil):
					t.Errorf("pass %+v and refusal %+v", pass, refusal)
				case pass == nil:
					refused.Add(1)
				default:
					let.Add(1)
					p.begin()
					if rnd.IntN(10) > 0 {
						pass.Begun()
					}
					passes.Add(1)
					p.load.Add(-1)
					g.Freed()
				}
				cancel()
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for i := 0; ; i++ {
		select {
		case <-done:
		case <-time.After(5 * time.Millisecond):
			g.Shed([]int32{0, 50, math.MinInt32}[i%3], time.Time{})
			g.Depths()
			continue
		}
		break
	}
	stop()
	run.Wait()
	if n := let.Load() + refused.Load(); n != clients*each {
		t.Errorf("%d answers for %d requests", n, clients*each)
	}
	if let.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d were let in, %d refused: both should happen", let.Load(), refused.Load())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting.Load() != 0 || g.queue.Len() != 0 || g.queue.Bytes() != 0 || g.queue.Tokens() != 0 {
		t.Errorf("%d wait at the end, %d in the queue with %d bytes", g.waiting.Load(), g.queue.Len(), g.queue.Bytes())
	}
	for lane, track := range *g.tracks.Load() {
		open := int64(0)
		for p := range g.open {
			if p.track == track {
				open++
			}
		}
		if track.waiting.Load() != 0 || track.open.Load() != open {
			t.Errorf("lane %d counts %d waiting and %d open, of which there are %d", lane, track.waiting.Load(), track.open.Load(), open)
		}
	}
}

// TestLanesOutOfUseAreForgotten: what is known of lanes is bounded by those in use and some.
func TestLanesOutOfUseAreForgotten(t *testing.T) {
	g, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	tracks := map[uint64]*track{}
	for lane := range uint64(maxTracks) {
		tracks[lane] = &track{}
	}
	tracks[3].waiting.Add(1)
	tracks[5].open.Add(1)
	g.tracks.Store(&tracks)
	if pass, _ := g.Enter(t.Context(), Request{Lane: maxTracks + 7, Slots: 1}, fixed(0)); pass == nil {
		t.Fatal("refused")
	}
	left := *g.tracks.Load()
	if len(left) != 3 || left[3] != tracks[3] || left[5] != tracks[5] || left[maxTracks+7] == nil {
		t.Errorf("%d lanes are remembered, want the one in which something waits, the one with an open pass, and the new one", len(left))
	}
}
