package redisbucket

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"anabranch/ratelimit/redisbucket/redistest"
)

func TestAClockThatWasSetIsTold(t *testing.T) {
	const s = time.Second
	const ms = time.Millisecond
	// looks are pairs of what a server's clock shows and the middle of the round trip that asked for it.
	for name, tt := range map[string]struct {
		looks [][2]time.Duration
		trip  time.Duration
		want  []time.Duration
	}{
		"steady":                         {[][2]time.Duration{{0, 0}, {s, s}, {2 * s, 2 * s}}, 2 * ms, []time.Duration{0, 0, 0}},
		"another time zone":              {[][2]time.Duration{{5000 * s, 0}, {5001 * s, s}}, 2 * ms, []time.Duration{0, 0}},
		"slewed":                         {[][2]time.Duration{{0, 0}, {1000*s + 500*ms, 1000 * s}, {2000 * s, 2000 * s}}, 2 * ms, []time.Duration{0, 0, 0}},
		"forward":                        {[][2]time.Duration{{0, 0}, {61 * s, s}, {62 * s, 2 * s}}, 0, []time.Duration{0, 60 * s, 0}},
		"backward":                       {[][2]time.Duration{{0, 0}, {-3599 * s, s}, {-3598 * s, 2 * s}}, 0, []time.Duration{0, -3600 * s, 0}},
		"what a slow answer may explain": {[][2]time.Duration{{0, 0}, {2 * s, s}}, s, []time.Duration{0, 0}},
		"what it doesn't":                {[][2]time.Duration{{0, 0}, {4 * s, s}}, s, []time.Duration{0, 2 * s}},
	} {
		began := time.Now()
		var c clocks
		var got []time.Duration
		for _, look := range tt.looks {
			at := began.Add(look[1])
			got = append(got, c.step("a", reading{
				shown: time.Unix(1_800_000_000, 0).Add(look[0]), sent: at.Add(-tt.trip / 2), got: at.Add(tt.trip / 2),
			}))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestClocksOfServersAreLookedAtEachByItself(t *testing.T) {
	var c clocks
	now := time.Now()
	for i, server := range []string{"a", "b", "a", "b"} {
		at := now.Add(time.Duration(i) * time.Second)
		shown := at
		if server == "b" {
			shown = at.Add(time.Hour)
		}
		if by := c.step(server, reading{shown: shown, sent: at, got: at}); by != 0 {
			t.Errorf("look %d at %s: set by %v", i, server, by)
		}
	}
}

// ahead is a server whose clock is so many nanoseconds ahead.
type ahead struct{ by atomic.Int64 }

func (*ahead) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*ahead) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a *ahead) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if c, ok := cmd.(*redis.TimeCmd); ok {
			c.SetVal(c.Val().Add(time.Duration(a.by.Load())))
		}
		return err
	}
}

func TestALenderLooksAtRedisClock(t *testing.T) {
	var told []time.Duration
	l := lend(t, LenderOptions{Addrs: []string{redistest.Start(t).Addr}, Stepped: func(by time.Duration) { told = append(told, by) }})
	var clock ahead
	l.client.AddHook(&clock)
	for range 3 {
		l.look(t.Context())
	}
	if len(told) > 0 {
		t.Fatalf("nobody set it, and %v is told", told)
	}
	clock.by.Store(int64(time.Hour))
	l.look(t.Context())
	clock.by.Store(0)
	l.look(t.Context())
	if len(told) != 2 || told[0] < time.Hour-5*time.Second || told[0] > time.Hour || told[1] > 5*time.Second-time.Hour || told[1] < -time.Hour {
		t.Errorf("told %v, want an hour forward and back, less the time of a round trip", told)
	}
}

func TestALenderThatNobodyListensToLeavesTheClockAlone(t *testing.T) {
	l := lend(t, LenderOptions{Addrs: []string{redistest.Start(t).Addr}})
	l.look(t.Context())
	if len(l.clocks.last) != 0 {
		t.Errorf("%v was read", l.clocks.last)
	}
}
