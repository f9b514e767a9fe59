package redisbucket

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/ratelimit"
	"anabranch/ratelimit/redisbucket/redistest"
)

// running runs the lender's probes until the test ends.
func running(t *testing.T, l *Lender) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

func TestTwoFailuresOrASpentBudgetEndTheCalls(t *testing.T) {
	var h health
	gone := errors.New("gone")
	h.fail("a", gone, false)
	h.well("a")
	h.fail("a", gone, false)
	if h.why("a") != nil || len(h.away()) != 0 {
		t.Error("two failures with a success between them ended the calls")
	}
	h.fail("a", gone, false)
	if !errors.Is(h.why("a"), gone) || h.why("b") != nil {
		t.Error("two failures in a row did not, or did so for all")
	}
	h.well("a")
	if h.why("a") == nil {
		t.Error("a call that was on its way ended the absence")
	}
	h.back("a")
	h.fail(everything, gone, true)
	if h.why("a") == nil || h.why("b") == nil || len(h.away()) != 1 {
		t.Error("a spent budget did not end the calls, or not all")
	}
}

// TestAFrozenRedisHoldsNobodyUp fails with the library's own settings: a context's deadline would
// not reach the socket.
func TestAFrozenRedisHoldsNobodyUp(t *testing.T) {
	server := redistest.Start(t)
	l := lend(t, LenderOptions{Addrs: []string{server.Addr}, Budget: DefaultBudget})
	in := rpm(60, 10)
	eventually(t, "a first answer", func() bool {
		_, err := l.Lease(t.Context(), in)
		if err != nil {
			l.probe(t.Context(), everything)
		}
		return err == nil
	})
	server.Freeze()
	in.Seq = 2
	start := time.Now()
	_, err := l.Lease(t.Context(), in)
	if took := time.Since(start); err == nil || errors.Is(err, ratelimit.ErrAway) || took > 20*DefaultBudget {
		t.Errorf("after %v: %v, want an error after %v that leaves open whether it was carried out", took, err, DefaultBudget)
	}
	if l.Healthy("acme") == nil {
		t.Error("the budget was spent and calls go on")
	}
	if _, err := l.Lease(t.Context(), in); !errors.Is(err, ratelimit.ErrAway) {
		t.Errorf("the next call: %v, want ErrAway", err)
	}
	server.Thaw()
	running(t, l)
	eventually(t, "the absence ends", func() bool { return l.Healthy("acme") == nil })
	var out ratelimit.Out
	eventually(t, "an answer", func() bool {
		out, err = l.Lease(t.Context(), in)
		return err == nil
	})
	// Whether or not the frozen server carried the call out once it thawed, it was charged once.
	if g := out.Path[0]; g.Granted != 10 || g.Level != 40 || g.Held != 20 {
		t.Errorf("%+v, want ten more of sixty", g)
	}
}

func TestAnAbsenceEndsWithoutACall(t *testing.T) {
	server := redistest.Place(t)
	l := lend(t, LenderOptions{Addrs: []string{server.Addr}})
	in := rpm(60, 10)
	for range tolerated {
		if _, err := l.Lease(t.Context(), in); !errors.Is(err, ratelimit.ErrAway) {
			t.Fatalf("nobody there: %v, want ErrAway", err)
		}
	}
	if l.Healthy("acme") == nil {
		t.Fatal("two calls failed and calls go on")
	}
	running(t, l)
	server.Restart()
	eventually(t, "the absence ends", func() bool { return l.Healthy("acme") == nil })
	if out := lease(t, l, in); out.Path[0].Granted != 10 {
		t.Errorf("%+v", out)
	}
	server.Kill()
	eventually(t, "absence is noticed without a call", func() bool { return l.Healthy("acme") != nil })
	server.Restart()
	eventually(t, "and ends", func() bool { return l.Healthy("acme") == nil })
	in.Seq, in.Young, in.Path[0].Cold = 2, false, 50
	if out := lease(t, l, in); out.Path[0].Level != 20 {
		t.Errorf("of a server that started again empty %+v, want half and ten less", out.Path[0])
	}
}

func TestACallersOwnEndSaysNothingOfRedis(t *testing.T) {
	l := lend(t, LenderOptions{Addrs: []string{redistest.Start(t).Addr}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range tolerated + 1 {
		if _, err := l.Lease(ctx, rpm(60, 1)); err == nil {
			t.Error("an ended context got an answer")
		}
	}
	if err := l.Healthy("acme"); err != nil {
		t.Errorf("not healthy: %v", err)
	}
}

// eventually waits for a condition, for ten seconds at most.
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

// forgetful stands between a client and Redis and loses answers when told to.
type forgetful struct {
	addr string
	lose atomic.Int32 // answers to lose, each with its connection
	lost atomic.Int32
}

func newForgetful(t *testing.T, to string) *forgetful {
	t.Helper()
	dir, err := os.MkdirTemp("", "proxy")
	if err != nil {
		t.Fatal(err)
	}
	f := &forgetful{addr: filepath.Join(dir, "socket")}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex // guards open
	var open []net.Conn
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("unix", to)
			if err != nil {
				c.Close()
				continue
			}
			mu.Lock()
			open = append(open, c, up)
			mu.Unlock()
			all.Go(func() { _, _ = io.Copy(up, c); up.Close() })
			all.Go(func() { f.answers(c, up) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("clean up after the proxy: %v", err)
		}
	})
	return f
}

func (f *forgetful) answers(c, up net.Conn) {
	defer c.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := up.Read(buf)
		if err != nil {
			return
		}
		if f.lose.Load() > 0 {
			f.lose.Add(-1)
			f.lost.Add(1)
			return
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}

func TestALostAnswerIsAskedForAgainAndChargedOnce(t *testing.T) {
	server := redistest.Start(t)
	direct := lend(t, LenderOptions{Addrs: []string{server.Addr}})
	proxy := newForgetful(t, server.Addr)
	l := lend(t, LenderOptions{Addrs: []string{proxy.addr}})
	in := rpm(60, 1)
	lease(t, l, in) // the connection is made and the script loaded
	for range 5 {
		in.Seq++
		proxy.lose.Store(1)
		if out := lease(t, l, in); out.Path[0].Granted != 1 {
			t.Errorf("%+v", out)
		}
	}
	// All in one pipeline.
	calls := make([]ratelimit.In, 10)
	for i := range calls {
		calls[i] = rpm(60, 1)
		calls[i].Router = string(rune('a' + i))
	}
	proxy.lose.Store(1)
	for _, r := range l.LeaseAll(t.Context(), calls) {
		if r.Err != nil || r.Out.Path[0].Granted != 1 {
			t.Errorf("%+v", r)
		}
	}
	if proxy.lost.Load() != 6 {
		t.Fatalf("%d answers were lost, want 6", proxy.lost.Load())
	}
	probe := rpm(60, 0)
	probe.Router = "probe"
	if left := lease(t, direct, probe).Path[0].Level; left != 60-6-10 {
		t.Errorf("%d left, want 44: a repetition was charged again", left)
	}
}

func TestOneOrganisationThatCanNotBeReadTakesNoOtherAlong(t *testing.T) {
	server := redistest.Start(t)
	l := lend(t, LenderOptions{Addrs: []string{server.Addr}})
	good, bad := rpm(600, 1), rpm(600, 1)
	bad.Org = "bad"
	lease(t, l, bad)
	if err := l.client.Set(t.Context(), Prefix+"{bad}", "not a hash", 0).Err(); err != nil {
		t.Fatal(err)
	}
	bad.Seq++
	for range 3 {
		for _, calls := range [][]ratelimit.In{{bad}, {good, bad}} {
			results := l.LeaseAll(t.Context(), calls)
			if err := results[len(results)-1].Err; err == nil {
				t.Fatal("a string is read as levels")
			}
			if err := results[0].Err; calls[0].Org == good.Org && err != nil {
				t.Fatalf("the other organisation: %v", err)
			}
			good.Seq++
		}
	}
	if err := l.Healthy(good.Org); err != nil {
		t.Errorf("calls for the other organisation are not made: %v", err)
	}
	if l.Healthy("bad") == nil {
		t.Error("calls that can't be answered are made again and again")
	}
	running(t, l)
	if err := l.client.Del(t.Context(), Prefix+"{bad}").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what is put right is asked again", func() bool {
		_, err := l.Lease(t.Context(), bad)
		return err == nil
	})
}
