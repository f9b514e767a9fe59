package redisbucket

import (
	"errors"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/ratelimit"
	"anabranch/ratelimit/ratelimittest"
	"anabranch/ratelimit/redisbucket/redistest"
)

// lend opens a Lender on one server whose budget is generous, so that a busy machine fails no test.
func lend(t testing.TB, o LenderOptions) *Lender {
	t.Helper()
	if o.Budget == 0 {
		o.Budget = 5 * time.Second
	}
	l, err := NewLender(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

func TestLenderIsALender(t *testing.T) {
	server := redistest.Start(t)
	ratelimittest.RunLender(t, 2000, 8000, func(t *testing.T, clock *ratelimittest.Clock) ratelimit.Lender {
		l := lend(t, LenderOptions{Addrs: []string{server.Addr}})
		l.clock = clock.Micros
		if err := l.client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return l
	})
}

// FuzzLease gives the script and the account the same calls, of routers in two regions, and wants the same answers.
func FuzzLease(f *testing.F) {
	server := redistest.Start(f)
	l := lend(f, LenderOptions{Addrs: []string{server.Addr}})
	var now, org int64
	l.clock = func() int64 { return now }
	f.Add(uint8(0), int64(60), int64(60_000), int64(60), int64(10), int64(5), int64(3), int64(1), int64(20), int64(1_000_000), int64(1000), uint8(0b011001), int64(250_000))
	f.Add(uint8(1), int64(0), int64(0), int64(10), int64(8), int64(0), int64(3), int64(0), int64(0), int64(-5_000_000), int64(100), uint8(0b011001), int64(999_999))
	f.Add(uint8(2), int64(0), int64(0), int64(1000), int64(800), int64(900), int64(3), int64(9), int64(0), int64(5_000_000), int64(10_000), uint8(0b101010), int64(1))
	f.Add(uint8(4), int64(70_000_000_019), int64(60_000), int64(70_000_000_019), int64(1)<<36, int64(1)<<62, int64(1)<<62, int64(1)<<62, int64(99), int64(1)<<40, int64(777), uint8(0b110110), int64(1_000_000))
	f.Add(uint8(9), int64(999_983), int64(1), int64(5), int64(4), int64(1), int64(1), int64(0), int64(7), int64(1), int64(2500), uint8(0), int64(-1))
	kinds := []ratelimit.Kind{ratelimit.TotalTokens, ratelimit.Slots, ratelimit.Money}
	f.Fuzz(func(t *testing.T, shape uint8, amount, period, burst, want, used, back, refund, cold, dt, ttl int64, callers uint8, parts int64) {
		const start = int64(1_767_225_600_000_000)
		org++
		v := ratelimit.Level{
			Limit: ratelimit.Limit{ID: "a", Kind: kinds[int(shape%4)%3], Amount: amount, PeriodMs: period, Burst: burst},
			Cold:  cold, Want: want, Used: used, Back: back, Refund: refund,
		}
		v.Window = ratelimit.Window{FromUs: start - min(max(refund, 0), start), NextUs: start + 1 + min(max(used, 0), 1<<50), Spent: back}
		requests := ratelimit.Level{
			Limit: ratelimit.Limit{ID: "b", Kind: ratelimit.Requests, Amount: 60, PeriodMs: 60_000, Burst: 60}, Want: 7, Cold: 20,
		}
		in := ratelimit.In{
			Org: strconv.FormatInt(org, 10), Epoch: 1, Young: shape&4 != 0, Router: "r", Seq: 1, Policy: 1,
			TTL: time.Duration(ttl) * time.Millisecond, Path: []ratelimit.Level{v, requests},
		}
		if parts >= 0 {
			in.Shares = []ratelimit.Share{{Region: "eu", Parts: parts}, {Region: "us", Parts: ratelimit.ShareParts - parts}}
		}
		if in.Validate() != nil {
			return
		}
		account := &ratelimit.Account{}
		now = start
		for call := range 4 {
			in.Region = []string{"", "eu", "us", "ap"}[callers>>(2*call)&3]
			in.Router = "r" + in.Region
			got, err := l.Lease(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if want := account.Lease(&in, now); !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v\ngot  %+v\nwant %+v", in, got, want)
			}
			in.Seq++
			now = min(max(now+dt, 1), 1<<52)
		}
	})
}

func rpm(burst, want int64) ratelimit.In {
	return ratelimittest.Call(ratelimit.Level{
		Limit: ratelimit.Limit{ID: "rpm", Kind: ratelimit.Requests, Amount: 60, PeriodMs: 60_000, Burst: burst}, Want: want,
	})
}

func lease(t *testing.T, l *Lender, in ratelimit.In) ratelimit.Out {
	t.Helper()
	out, err := l.Lease(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestManyCallsTakeOneRoundTripAndLoadTheScript(t *testing.T) {
	l := lend(t, LenderOptions{Addrs: []string{redistest.Start(t).Addr}})
	for round := range int64(3) {
		calls := make([]ratelimit.In, 40)
		for i := range calls {
			calls[i] = rpm(60, 1)
			calls[i].Org = "org" + strconv.Itoa(i%4) // ten routers of four organisations
			calls[i].Router = "r" + strconv.Itoa(i)
			calls[i].Seq = round + 1
		}
		calls[7].Org = ""
		for i, r := range l.LeaseAll(t.Context(), calls) {
			if i == 7 {
				if r.Err == nil {
					t.Error("a call without an organisation was answered")
				}
				continue
			}
			if r.Err != nil || len(r.Out.Path) != 1 || r.Out.Path[0].Granted != 1 {
				t.Fatalf("round %d call %d: %+v", round, i, r)
			}
		}
		// The next round finds no script.
		if err := l.client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	probe := rpm(60, 0)
	probe.Org, probe.Router = "org1", "probe"
	if left := lease(t, l, probe).Path[0].Level; left != 60-3*10 {
		t.Errorf("%d left, want 30: something was carried out twice or never", left)
	}
}

func TestTheEpochOutlivesAnIdleOrganisation(t *testing.T) {
	l := lend(t, LenderOptions{Addrs: []string{redistest.Start(t).Addr}})
	in := rpm(60, 10)
	lease(t, l, in)
	ttl := func(key string) time.Duration {
		d, err := l.client.PTTL(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	fill := time.Duration(in.Path[0].KeepMs()) * time.Millisecond
	if got := ttl("rl:{acme}"); got <= fill || got > fill+time.Minute {
		t.Errorf("levels are kept for %v, want a little more than %v, the time to fill from the deepest debt", got, fill)
	}
	if got := ttl("rl:{acme}:epoch"); got != -1 {
		t.Errorf("the epoch is kept for %v, want for ever", got)
	}
	if got := ttl("rl:{acme}:" + in.Lane()); got <= 50*time.Second || got > laneKeep+5*time.Second {
		t.Errorf("the last answer is kept for %v", got)
	}
	// Within ten seconds the expiry is not written again.
	if err := l.client.PExpire(t.Context(), "rl:{acme}", fill+45*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	in.Seq = 2
	lease(t, l, in)
	if got := ttl("rl:{acme}"); got > fill+45*time.Second {
		t.Errorf("kept for %v: the expiry was written again", got)
	}

	// Idle: full again. State lost, the epoch too: cold.
	in.Path[0].Want, in.Path[0].Cold, in.Young = 0, 20, false
	if err := l.client.Del(t.Context(), "rl:{acme}").Err(); err != nil {
		t.Fatal(err)
	}
	in.Seq = 3
	if out := lease(t, l, in); out.Path[0].Level+out.Path[0].Held != 60 {
		t.Errorf("after idleness %+v, want a full bucket", out.Path[0])
	}
	if err := l.client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	in.Seq = 4
	if out := lease(t, l, in); out.Path[0].Level != 12 {
		t.Errorf("after the loss of all state %+v, want 20 percent", out.Path[0])
	}
}

func TestTheLendersClockIsRedisOwn(t *testing.T) {
	l := lend(t, LenderOptions{Addrs: []string{redistest.Start(t).Addr}})
	in := rpm(1, 1)
	in.Path[0].Limit.PeriodMs = 3000 // one each 50 ms
	lease(t, l, in)
	in.Path[0].Used, in.Path[0].Want = 1, 1
	in.Seq++
	first := lease(t, l, in)
	in.Path[0].Used = 0
	eventually(t, "the level fills with time", func() bool {
		in.Seq++
		return first.Path[0].Granted == 1 || lease(t, l, in).Path[0].Granted == 1
	})
}

func TestALenderTellsRedisThatEvicts(t *testing.T) {
	l := lend(t, LenderOptions{Addrs: []string{redistest.Start(t, "--maxmemory-policy", "allkeys-lru").Addr}})
	if err := l.Check(t.Context()); !errors.Is(err, ratelimit.ErrUnfit) || !strings.Contains(err.Error(), "CONFIG SET maxmemory-policy noeviction") {
		t.Fatalf("check: %v, want ErrUnfit with the fix", err)
	}
	if _, err := l.Lease(t.Context(), rpm(60, 1)); !errors.Is(err, ratelimit.ErrUnfit) {
		t.Fatalf("lease: %v, want ErrUnfit", err)
	}
}

func TestTheFixMakesItFit(t *testing.T) {
	l := lend(t, LenderOptions{Addrs: []string{redistest.Start(t).Addr}})
	set := func(policy string) {
		if err := l.client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("volatile-ttl")
	if err := l.Check(t.Context()); !errors.Is(err, ratelimit.ErrUnfit) {
		t.Fatalf("check: %v, want ErrUnfit", err)
	}
	set("noeviction")
	if err := l.Check(t.Context()); err != nil {
		t.Fatalf("check after the fix: %v", err)
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

// TestGarbledStateIsAsGoodAsMissing: a script that stumbled over it would leave the organisation without quotas.
func TestGarbledStateIsAsGoodAsMissing(t *testing.T) {
	l := lend(t, LenderOptions{Addrs: []string{redistest.Start(t).Addr}})
	in := rpm(60, 10)
	in.Region, in.Shares = "eu", []ratelimit.Share{{Region: "eu", Parts: 1}}
	garble := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		in.Seq++
		lease(t, l, in)
	}
	for _, field := range []string{"", "rpm", "@eu"} {
		garble(l.client.HSet(t.Context(), "rl:{acme}", field, "what is this").Err())
	}
	for _, key := range []string{"rl:{acme}:epoch", "rl:{acme}:" + in.Lane()} {
		garble(l.client.Set(t.Context(), key, "what is this", 0).Err())
	}
	garble(nil)
}

func TestAUserOfTheAccessListsNeedsNoMoreThanIsSaid(t *testing.T) {
	server := redistest.Start(t)
	admin := lend(t, LenderOptions{Addrs: []string{server.Addr}})
	rules := append([]any{"ACL", "SETUSER", "quota", "reset", "on", ">open sesame", "~rl:*"}, words(Commands)...)
	if err := admin.client.Do(t.Context(), rules...).Err(); err != nil {
		t.Fatal(err)
	}
	l := lend(t, LenderOptions{Addrs: []string{server.Addr}, Username: "quota", Password: "open sesame"})
	if out := lease(t, l, rpm(60, 1)); out.Path[0].Granted != 1 {
		t.Errorf("%+v", out)
	}
	if err := l.client.Get(t.Context(), "rl:{acme}:epoch").Err(); err == nil {
		t.Error("the user may do more than it was given")
	}
	wrong := lend(t, LenderOptions{Addrs: []string{server.Addr}, Username: "quota", Password: "sesame"})
	if out, err := wrong.Lease(t.Context(), rpm(60, 1)); err == nil {
		t.Errorf("with a wrong password: %+v", out)
	}
}

func TestAPasswordMayChange(t *testing.T) {
	server := redistest.Start(t)
	var now atomic.Value
	now.Store("")
	l := lend(t, LenderOptions{Addrs: []string{server.Addr}, PasswordFrom: func() (string, error) {
		if now.Load() == "lost" {
			return "", os.ErrNotExist
		}
		return now.Load().(string), nil
	}})
	in := rpm(60, 1)
	lease(t, l, in)
	// renew has all connections end, and makes new ones.
	renew := func(password string) error {
		now.Store(password)
		_ = l.client.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "no").Err() // it ends its own too
		in.Seq++
		var err error
		for range 5 { // connections that have ended are found out one by one
			if _, err = l.Lease(t.Context(), in); err == nil {
				return nil
			}
			l.health.back(everything)
		}
		return err
	}
	if err := l.client.ConfigSet(t.Context(), "requirepass", "second").Err(); err != nil {
		t.Fatal(err)
	}
	if err := renew("second"); err != nil {
		t.Errorf("with the new password: %v", err)
	}
	if err := renew("lost"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without any: %v", err)
	}
	if err := renew("first"); err == nil {
		t.Error("with the old password all is well")
	}
	now.Store("second")
	if err := renew("second"); err != nil {
		t.Errorf("with the new password again: %v", err)
	}
}

func TestOperatorsAreToldWhichCommandsAUserNeeds(t *testing.T) {
	page, err := os.ReadFile("../../dataplane/QUOTAS.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "reset on >PASSWORD ~"+Prefix+"* "+Commands+"\n") {
		t.Errorf("the page does not say: ~%s* %s", Prefix, Commands)
	}
}

func words(text string) (out []any) {
	for _, w := range strings.Fields(text) {
		out = append(out, w)
	}
	return out
}

func TestLenderOptionsNameWhatIsWrong(t *testing.T) {
	one := []string{"x:1"}
	for want, o := range map[string]LenderOptions{
		"addresses are empty":   {},
		"not both":              {Addrs: one, Master: "m", Cluster: true},
		"say that it is a":      {Addrs: []string{"x:1", "y:1"}},
		"redis budget":          {Addrs: one, Budget: -1},
		"redis pool size -1 is": {Addrs: one, PoolSize: -1},
	} {
		if _, err := NewLender(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	l := lend(t, LenderOptions{Addrs: one})
	in := rpm(60, 1)
	in.Org = "}odd"
	if _, err := l.Lease(t.Context(), in); err == nil || !strings.Contains(err.Error(), "can't start with }") {
		t.Errorf("an organisation that would lie in several slots: %v", err)
	}
}

func TestGarbledAnswersAreErrors(t *testing.T) {
	good := string(doubles(nil, 1, 1, 1_000_000, 0, 0, 5, 50, 5))
	if out, err := readOut(good, 1); err != nil || out.Path[0].Held != 5 {
		t.Fatalf("%+v, %v", out, err)
	}
	for name, text := range map[string]string{
		"empty": "", "short": good[:20], "cut": good[:56], "of another path": good + good[40:], "half": good[:56] + "\x00\x00\x00\x00\x00\x00\xe0\x3f",
		"not a number": good[:56] + "\xff\xff\xff\xff\xff\xff\xff\x7f",
	} {
		if out, err := readOut(text, 1); err == nil {
			t.Errorf("%s: %+v", name, out)
		}
	}
}
