package redisbucket

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"anabranch/ratelimit"
	"anabranch/ratelimit/ratelimittest"
	"anabranch/ratelimit/redisbucket/redistest"
)

func open(t *testing.T, addr string) *Store {
	t.Helper()
	s, err := New(Options{Addr: addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, s) })
	return s
}

func closed(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// stored reads one bucket as Redis keeps it.
func stored(t *testing.T, s *Store, tenant, limit string) (ratelimit.Bucket, bool) {
	t.Helper()
	text, err := s.client.HGet(t.Context(), Prefix+tenant, limit).Result()
	if err != nil {
		return ratelimit.Bucket{}, false
	}
	words := strings.Fields(text)
	var n [3]int64
	for i, w := range words {
		if n[i], err = strconv.ParseInt(w, 10, 64); err != nil {
			t.Fatalf("bucket %q: %v", text, err)
		}
	}
	return ratelimit.Bucket{Level: n[0], StampUs: n[1], Part: n[2]}, true
}

func TestStoreIsAnAuthority(t *testing.T) {
	server := redistest.Start(t)
	ratelimittest.Run(t, func(t *testing.T, clock *ratelimittest.Clock) ratelimittest.Subject {
		s := open(t, server.Addr)
		s.clock = clock.Micros
		if err := s.client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return ratelimittest.Subject{
			Authority: s,
			Bucket:    func(tenant, limit string) (ratelimit.Bucket, bool) { return stored(t, s, tenant, limit) },
		}
	})
}

func path(amount, periodMs, burst, cost int64) []ratelimit.Charge {
	return []ratelimit.Charge{{
		Limit: ratelimit.Limit{ID: "rpm", Kind: ratelimit.Requests, Amount: amount, PeriodMs: periodMs, Burst: burst},
		Cost:  cost,
	}}
}

// take takes and must be answered.
func take(t *testing.T, s *Store, p []ratelimit.Charge) ratelimit.Decision {
	t.Helper()
	d, err := s.Take(t.Context(), "acme", p)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// eventually waits for a condition of the outside world.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(10 * time.Second); !ok(); <-look.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestTheClockIsRedisOwn(t *testing.T) {
	s := open(t, redistest.Start(t).Addr)
	one := path(1, 50, 1, 1)
	if !take(t, s, one).Allowed {
		t.Fatal("a fresh bucket refuses")
	}
	refused := take(t, s, one)
	if refused.Allowed || refused.RetryAfterMs < 1 || refused.RetryAfterMs > 50 {
		t.Fatalf("an empty bucket says %+v, want to wait up to 50 ms", refused)
	}
	eventually(t, "the bucket fills with time", func() bool { return take(t, s, one).Allowed })
	b, _ := stored(t, s, "acme", "rpm")
	if off := time.Since(time.UnixMicro(b.StampUs)).Abs(); off > time.Minute {
		t.Errorf("stamp is %v away from this machine's clock", off)
	}
}

func TestIdleHashesGoAwayOnceFull(t *testing.T) {
	s := open(t, redistest.Start(t).Addr)
	p := path(60, 60_000, 60, 1)
	ttl := func() time.Duration {
		d, err := s.client.PTTL(t.Context(), Prefix+"acme").Result()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	fill := time.Duration(p[0].Limit.FillMs()) * time.Millisecond
	take(t, s, p)
	if got := ttl(); got <= fill || got > fill+11*time.Second {
		t.Errorf("kept for %v, want a little more than %v, the time to fill from the deepest debt", got, fill)
	}

	// Within ten seconds the expiry is not written again.
	if err := s.client.PExpire(t.Context(), Prefix+"acme", fill+5*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	take(t, s, p)
	if got := ttl(); got > fill+5*time.Second {
		t.Errorf("kept for %v: the expiry was written again", got)
	}
	if err := s.client.PExpire(t.Context(), Prefix+"acme", fill-time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	take(t, s, p)
	if got := ttl(); got <= fill {
		t.Errorf("kept for %v: the expiry was not renewed", got)
	}

	// What is short of time doesn't shorten what isn't.
	if d, err := s.Take(t.Context(), "acme", path(1, 1, 1, 1)); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	if got := ttl(); got <= fill {
		t.Errorf("kept for %v: a quick limit shortened it", got)
	}
	if err := s.client.Del(t.Context(), Prefix+"acme").Err(); err != nil {
		t.Fatal(err)
	}
	if d := take(t, s, path(60, 60_000, 60, 60)); !d.Allowed {
		t.Errorf("a bucket that was idle says %+v", d)
	}
}

func TestALostScriptIsLoadedAgain(t *testing.T) {
	s := open(t, redistest.Start(t).Addr)
	take(t, s, path(60, 60_000, 60, 1))
	if err := s.client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if d := take(t, s, path(60, 60_000, 60, 1)); !d.Allowed || d.Remaining != 58 {
		t.Errorf("%+v, want 58 left", d)
	}
}

func TestAGarbledBucketStartsAnew(t *testing.T) {
	s := open(t, redistest.Start(t).Addr)
	if err := s.client.HSet(t.Context(), Prefix+"acme", "rpm", "what is this").Err(); err != nil {
		t.Fatal(err)
	}
	if d := take(t, s, path(60, 60_000, 60, 1)); !d.Allowed || d.Remaining != 59 {
		t.Errorf("%+v, want 59 left", d)
	}
}

func TestRedisThatEvictsIsUnfit(t *testing.T) {
	s := open(t, redistest.Start(t, "--maxmemory-policy", "allkeys-lru").Addr)
	err := s.Check(t.Context())
	if !errors.Is(err, ratelimit.ErrUnfit) || !strings.Contains(err.Error(), "CONFIG SET maxmemory-policy noeviction") {
		t.Fatalf("check: %v, want ErrUnfit with the fix", err)
	}
	if _, err := s.Take(t.Context(), "acme", path(60, 60_000, 60, 1)); !errors.Is(err, ratelimit.ErrUnfit) {
		t.Fatalf("take: %v, want ErrUnfit", err)
	}
	if err := s.Adjust(t.Context(), "", nil); !errors.Is(err, ratelimit.ErrUnfit) {
		t.Fatalf("sign of life: %v, want ErrUnfit", err)
	}
}

func TestTheFixMakesItFit(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.Addr)
	set := func(policy string) {
		if err := s.client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("volatile-ttl")
	if err := s.Check(t.Context()); !errors.Is(err, ratelimit.ErrUnfit) {
		t.Fatalf("check: %v, want ErrUnfit", err)
	}
	set("noeviction")
	if err := s.Check(t.Context()); err != nil {
		t.Fatalf("check after the fix: %v", err)
	}
}

func TestAbsenceIsToldApartFromDoubt(t *testing.T) {
	server := redistest.Place(t)
	s := open(t, server.Addr)
	p := path(60, 60_000, 60, 1)
	if _, err := s.Take(t.Context(), "acme", p); !errors.Is(err, ratelimit.ErrAway) {
		t.Fatalf("nobody there: %v, want ErrAway", err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, ratelimit.ErrAway) {
		t.Fatalf("check of nobody: %v, want ErrAway", err)
	}
	server.Restart()
	take(t, s, p)

	server.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := s.Take(ctx, "acme", p)
	took := time.Since(start)
	server.Thaw()
	if err == nil || errors.Is(err, ratelimit.ErrAway) {
		t.Fatalf("frozen: %v, want an error that leaves open whether it was charged", err)
	}
	if took > time.Second {
		t.Errorf("a call with 50 ms to spend waited %v for a frozen Redis", took)
	}
	eventually(t, "the thawed server answers", func() bool {
		d, err := s.Take(t.Context(), "acme", p)
		return err == nil && d.Allowed
	})

	server.Kill()
	eventually(t, "the dead server is away", func() bool {
		_, err := s.Take(t.Context(), "acme", p)
		return errors.Is(err, ratelimit.ErrAway)
	})
	server.Restart()
	eventually(t, "the new server answers, empty", func() bool {
		d, err := s.Take(t.Context(), "acme", p)
		return err == nil && d.Remaining == 59
	})
}

func TestOptionsNameWhatIsWrong(t *testing.T) {
	for want, o := range map[string]Options{
		"address is empty": {},
		"time-out":         {Addr: "x:1", Timeout: -1},
		"pool size":        {Addr: "x:1", PoolSize: -1},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

func TestFieldOfInfo(t *testing.T) {
	info := "# Memory\r\nused_memory:1\r\nmaxmemory_policy:noeviction\r\nmaxmemory:0\r\n"
	for name, want := range map[string]string{"maxmemory_policy": "noeviction", "maxmemory": "0", "memory": ""} {
		if got, found := field(info, name); got != want || found != (want != "") {
			t.Errorf("%s: %q, %v", name, got, found)
		}
	}
}

func BenchmarkTakeFourLimits(b *testing.B) {
	s, err := New(Options{Addr: redistest.Start(b).Addr})
	if err != nil {
		b.Fatal(err)
	}
	defer closed(b, s)
	var p []ratelimit.Charge
	for _, id := range []string{"a", "b", "c", "d"} {
		p = append(p, ratelimit.Charge{
			Limit: ratelimit.Limit{ID: id, Kind: ratelimit.TotalTokens, Amount: 1e7, PeriodMs: 60_000, Burst: 1e7}, Cost: 1,
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Take(b.Context(), "acme", p); err != nil {
			b.Fatal(err)
		}
	}
}
