package admit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/ratelimit/redisbucket"
	"anabranch/ratelimit/redisbucket/redistest"
)

// patient is a budget for tests that a busy machine must not take for an absence of Redis.
const patient = 5 * time.Second

// onRedis is an asker of an admitter of its own, as one router is, that runs until the test ends.
func onRedis(t *testing.T, server *redistest.Server, limit int64, budget time.Duration) *asker {
	t.Helper()
	store, err := redisbucket.New(redisbucket.Options{Addr: server.Addr, Timeout: max(budget, redisbucket.DefaultTimeout)})
	if err != nil {
		t.Fatal(err)
	}
	k := newAsker(t, store, tables(t, quota("requests", limit, "share", 0.3)))
	k.a.budget = budget
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		running.Go(func() { <-stop; cancel() })
		if err := k.a.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(func() {
		close(stop)
		running.Wait()
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return k
}

// soon waits for a condition of the outside world.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(15 * time.Second); !ok(); <-look.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestRedisIsKilledAndComesBack(t *testing.T) {
	server := redistest.Start(t)
	k := onRedis(t, server, 100, patient)
	if _, d := k.take(1, 1); !d.Allowed || d.Degraded {
		t.Fatalf("%+v", d)
	}

	server.Kill()
	soon(t, "the absence is seen", func() bool { return !k.a.StoreOK() })
	spent := k.admitted(100)
	if spent < 1 || spent > 7 {
		t.Errorf("%d of 100 pass without Redis, want at most a fifth of a share of 30", spent)
	}

	// It comes back empty, so that the bucket is full but for what was spent without it.
	server.Restart()
	soon(t, "the return is seen", k.a.StoreOK)
	_, d := k.take(1, 1)
	if !d.Allowed || d.Degraded {
		t.Fatalf("%+v", d)
	}
	if most := 100 - 1 - int64(spent); d.Remaining > most+2 {
		t.Errorf("%d left, want about %d: what was spent was not charged", d.Remaining, most)
	}
	if got := k.admitted(200); got > 100 {
		t.Errorf("%d pass after the return: the quota doesn't hold again", got)
	}
}

func TestRedisIsFrozenAndThaws(t *testing.T) {
	server := redistest.Start(t)
	k := onRedis(t, server, 1000, DefaultBudget)
	k.admitted(10)
	server.Freeze()
	thaw := sync.OnceFunc(server.Thaw)
	defer thaw()
	var slowest time.Duration
	for k.a.StoreOK() {
		slowest = max(slowest, elapsed(func() {
			if _, d := k.take(1, 1); !d.Allowed {
				t.Errorf("%+v", d)
			}
		}))
	}
	// Half a second of grace: the machine may be busy, and without a budget it would be for ever.
	if slowest > DefaultBudget+500*time.Millisecond {
		t.Errorf("a request waited %v for a frozen Redis", slowest)
	}
	thaw()
	soon(t, "the thaw is seen", func() bool {
		_, d := k.take(1, 1)
		return d.Allowed && !d.Degraded
	})
}

func TestStartingBeforeRedis(t *testing.T) {
	server := redistest.Place(t)
	k := onRedis(t, server, 1000, patient)
	if _, d := k.take(1, 1); !d.Allowed || !d.Degraded {
		t.Errorf("without Redis from the start: %+v", d)
	}
	server.Restart()
	soon(t, "Redis is found", func() bool {
		_, d := k.take(1, 1)
		return d.Allowed && !d.Degraded
	})
}

// TestThreeRoutersTogetherKeepOneLimit drives three admitters well over the limit of one tenant
// against one Redis: over the whole time no more passes than rate × t + burst, and nearly all of
// that does, so that the limit is not kept by refusing everybody.
func TestThreeRoutersTogetherKeepOneLimit(t *testing.T) {
	server := redistest.Start(t)
	const perMinute = 30_000 // 500 a second
	window := 1500 * time.Millisecond
	var askers []*asker
	for range 3 {
		k := onRedis(t, server, perMinute, patient)
		askers = append(askers, k)
		// A small bucket, so that the rate decides.
		k.table = tables(t, quota("requests", perMinute, "share", 0.3))
		for _, q := range k.table.Quotas("acme", "llama-3.1-8b") {
			q.Burst = 100
		}
	}
	var passed, degraded atomic.Int64
	start := time.Now()
	var routers sync.WaitGroup
	for _, k := range askers {
		for range 2 {
			routers.Go(func() {
				for time.Since(start) < window {
					_, d := k.take(1, 1)
					if d.Allowed {
						passed.Add(1)
					}
					if d.Degraded {
						degraded.Add(1)
					}
				}
			})
		}
	}
	routers.Wait()
	took := time.Since(start)
	if degraded.Load() > 0 {
		t.Fatalf("%d decisions without Redis, which was there", degraded.Load())
	}
	inflow := int64(took.Seconds() * perMinute / 60)
	// Redis's clock may run a moment longer than the one here between the first and last call.
	if most := inflow + 100 + 1; passed.Load() > most {
		t.Errorf("%d passed in %v, at most %d may", passed.Load(), took, most)
	}
	if least := (inflow + 100) * 90 / 100; passed.Load() < least {
		t.Errorf("%d passed in %v, want at least %d", passed.Load(), took, least)
	}
}
