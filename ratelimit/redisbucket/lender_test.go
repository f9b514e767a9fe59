package redisbucket

import (
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
	ratelimittest.RunLender(t, 12_000, func(t *testing.T, clock *ratelimittest.Clock) ratelimit.Lender {
		l := lend(t, LenderOptions{Addrs: []string{server.Addr}})
		l.clock = clock.Micros
		if err := l.client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return l
	})
}
