package redisbucket

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"anabranch/ratelimit"
	"anabranch/ratelimit/redisbucket/redistest"
)

// TestAReplicaTakesOver kills a primary that Sentinels watch over: what it had debited is debited still, and all
// is normal within three seconds of the promotion.
func TestAReplicaTakesOver(t *testing.T) {
	s := redistest.StartSentinel(t)
	l := lend(t, LenderOptions{Addrs: []string{s.Addr}, Master: s.Master, Budget: 500 * time.Millisecond})
	running(t, l)
	in := rpm(1_000_000, 1000)
	var out ratelimit.Out
	eventually(t, "a first answer", func() bool {
		var err error
		out, err = l.Lease(t.Context(), in)
		return err == nil
	})
	if out.Path[0].Level != 999_000 {
		t.Fatalf("%+v", out)
	}
	eventually(t, "the replica knows", func() bool {
		kind, err := s.Ask(s.Replica, "TYPE", "rl:{acme}")
		return err == nil && kind == "hash"
	})
	s.Kill(s.Primary)
	var promoted time.Time
	in.Seq++
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(60 * time.Second); ; <-look.C {
		if time.Now().After(deadline) {
			t.Fatal("never answered again")
		}
		if promoted.IsZero() && s.Promoted() {
			promoted = time.Now()
		}
		var err error
		if out, err = l.Lease(t.Context(), in); err == nil {
			break
		}
	}
	if promoted.IsZero() {
		promoted = time.Now()
	}
	took := time.Since(promoted)
	t.Logf("answered again %v after the promotion", took.Round(time.Millisecond))
	if took > 9*time.Second {
		t.Errorf("normal only %v after the promotion, want 3 s", took)
	}
	if g := out.Path[0]; g.Granted != 1000 || g.Level > 998_100 {
		t.Errorf("%+v: the replica has forgotten what was leased", g)
	}
}

// TestNobodyWaitsLongerThanTheBudget has many ask a server that is frozen.
func TestNobodyWaitsLongerThanTheBudget(t *testing.T) {
	server := redistest.Start(t)
	l := lend(t, LenderOptions{Addrs: []string{server.Addr}, Budget: DefaultBudget, PoolSize: 4})
	connected(t, l)
	server.Freeze()
	var callers sync.WaitGroup
	for i := range 20 { // more than there are connections
		callers.Go(func() {
			in := rpm(60, 1)
			in.Router = string(rune('a' + i))
			start := time.Now()
			_, err := l.Lease(t.Context(), in)
			if took := time.Since(start); err == nil || took > 4*DefaultBudget {
				t.Errorf("after %v: %v, want an error after %v", took, err, DefaultBudget)
			}
		})
	}
	callers.Wait()
	late := 0
	for range 100 {
		start := time.Now()
		_, err := l.Lease(t.Context(), rpm(60, 1))
		if !errors.Is(err, ratelimit.ErrAway) {
			t.Fatalf("%v, want ErrAway", err)
		}
		if time.Since(start) >= DefaultBudget {
			late++
		}
	}
	if late > 10 { // which a busy machine may have held up
		t.Errorf("%d of 100 calls waited, want ErrAway at once", late)
	}
	server.Thaw()
}

// connected makes the first call, however long that takes on a busy machine.
func connected(t *testing.T, l *Lender) {
	t.Helper()
	eventually(t, "a first answer", func() bool {
		_, err := l.Lease(t.Context(), rpm(60, 0))
		if err != nil {
			l.probe(t.Context(), everything)
		}
		return err == nil
	})
}

// byDefault is a Lender whose client has the library's own settings.
func byDefault(t *testing.T, addr string) *Lender {
	l := lend(t, LenderOptions{Addrs: []string{addr}, Budget: DefaultBudget})
	if err := l.client.Close(); err != nil {
		t.Fatal(err)
	}
	l.client = redis.NewClient(&redis.Options{Network: "unix", Addr: addr})
	return l
}

// TestTheLibrarysOwnSettingsWouldKeepCallersWaiting shows what ContextTimeoutEnabled is for: without it a
// call of a frozen server waits for the time-outs of its socket, three seconds each.
func TestTheLibrarysOwnSettingsWouldKeepCallersWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		open  func(*testing.T, string) *Lender
		waits bool
	}{
		"ours": {func(t *testing.T, a string) *Lender {
			return lend(t, LenderOptions{Addrs: []string{a}, Budget: DefaultBudget})
		}, false},
		"the library": {byDefault, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			l := c.open(t, server.Addr)
			connected(t, l)
			server.Freeze()
			done := make(chan struct{})
			go func() {
				defer close(done)
				in := rpm(60, 1)
				in.Seq = 2
				_, _ = l.Lease(context.WithoutCancel(t.Context()), in) // how it ends is not the point
			}()
			waits := false
			select {
			case <-done:
			case <-time.After(10 * DefaultBudget):
				waits = true
			}
			if waits != c.waits {
				t.Errorf("waits for more than ten budgets: %v, want %v", waits, c.waits)
			}
			server.Thaw()
			<-done
		})
	}
}

// TestTheLibrarysOwnRetriesWouldChargeAgain shows what MaxRetries is for: a command whose answer was lost is
// carried out anew, and nobody can tell.
func TestTheLibrarysOwnRetriesWouldChargeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		open func(*testing.T, string) *Lender
		want string
	}{
		"ours":        {func(t *testing.T, a string) *Lender { return lend(t, LenderOptions{Addrs: []string{a}}) }, "10"},
		"the library": {byDefault, "20"},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			proxy := newForgetful(t, server.Addr)
			l := c.open(t, proxy.addr)
			if err := l.client.Ping(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			proxy.lose.Store(1)
			err := l.client.IncrBy(t.Context(), "rl:charged", 10).Err()
			if (err != nil) != (c.want == "10") {
				t.Errorf("a lost answer: %v", err)
			}
			direct := lend(t, LenderOptions{Addrs: []string{server.Addr}})
			if got, err := direct.client.Get(t.Context(), "rl:charged").Result(); err != nil || got != c.want {
				t.Errorf("charged %s, want %s (error %v)", got, c.want, err)
			}
		})
	}
}

// TestAServerThatStartsAgainEmptyIsCold: it knows neither level nor region, and says so.
func TestAServerThatStartsAgainEmptyIsCold(t *testing.T) {
	server := redistest.Start(t)
	l := lend(t, LenderOptions{Addrs: []string{server.Addr}})
	in := rpm(60, 10)
	in.Young, in.Region = false, "eu"
	in.Path[0].Cold = 50
	in.Shares = []ratelimit.Share{{Region: "eu", Parts: 400_000}, {Region: "us", Parts: 600_000}}
	if out := lease(t, l, in); out.Path[0].Level != 20 || out.Gap != (ratelimit.Gap{From: ratelimit.Always}) {
		t.Fatalf("first of all %+v", out)
	}
	server.Kill()
	server.Restart()
	in.Seq++
	in.Path[0].Used = 10
	var out ratelimit.Out
	eventually(t, "an answer", func() (ok bool) {
		var err error
		out, err = l.Lease(t.Context(), in)
		if err != nil {
			l.probe(t.Context(), everything)
		}
		return err == nil
	})
	if out.Path[0].Level != 10 || out.Gap != (ratelimit.Gap{From: ratelimit.Always}) {
		t.Errorf("%+v, want half, less what was used and what is granted", out)
	}
}
