package meter

import (
	"testing"
	"time"

	"anabranch/dataplane/admit"
	"anabranch/ratelimit"
	"anabranch/ratelimit/redisbucket"
	"anabranch/ratelimit/redisbucket/redistest"
)

// TestRealUseReachesRedis settles through an admitter on a real Redis, as a router does.
func TestRealUseReachesRedis(t *testing.T) {
	store, err := redisbucket.New(redisbucket.Options{Addr: redistest.Start(t).Addr, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	a, err := admit.New(admit.Options{Authority: store, Region: "us-east-1", Budget: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	m, stop := start(t, Options{Authority: a})

	// Hardly anything flows in while the test runs.
	tk := ticket("acme")
	for i := range tk.Path {
		tk.Path[i].Limit.Amount, tk.Path[i].Limit.PeriodMs = 1, 86_400_000
	}
	take := func(path []ratelimit.Charge) ratelimit.Decision {
		t.Helper()
		d, err := store.Take(t.Context(), "acme", path)
		if err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		return d
	}
	take(tk.Path)
	m.Settle(tk, Usage{Prompt: 900, Completion: 300}, Completed)
	stop()

	for i, used := range map[int]int64{0: 1, 1: 900, 2: 300, 3: 1200} {
		look := []ratelimit.Charge{{Limit: tk.Path[i].Limit}}
		if got, want := take(look).Remaining, tk.Path[i].Limit.Burst-used; got != want {
			t.Errorf("%s: %d left, want %d", tk.Path[i].Limit.ID, got, want)
		}
	}
}
