package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// counter is a system that does nothing but count.
type counter struct {
	puts atomic.Int64
	err  error
}

func (c *counter) Put(context.Context, int, string) error { c.puts.Add(1); return c.err }
func (c *counter) Restart(context.Context) error          { return nil }
func (c *counter) Close() error                           { return nil }

func TestEveryWriteIsCounted(t *testing.T) {
	c := &counter{}
	row, err := load(t.Context(), c, 4, 20*time.Millisecond)
	if err != nil || row.Writers != 4 || row.Writes != int(c.puts.Load()) || row.Writes == 0 || row.P50 > row.P99 || row.PerSec <= 0 {
		t.Errorf("%+v, %v of %d", row, err, c.puts.Load())
	}
	c.err = errors.New("no")
	if _, err := load(t.Context(), c, 4, time.Minute); !errors.Is(err, c.err) {
		t.Errorf("got %v", err)
	}
}

func TestQuantiles(t *testing.T) {
	sorted := []time.Duration{1, 2, 3, 4, 100}
	if quantile(sorted, 0.5) != 3 || quantile(sorted, 1) != 100 || quantile(nil, 0.5) != 0 {
		t.Error("wrong")
	}
}

func TestTheTableSaysHowOursComparesWithTheOther(t *testing.T) {
	var b strings.Builder
	r := func(d time.Duration, n float64) result {
		return result{Rows: []row{{Writers: 64, P50: d, P99: d, PerSec: n}}, Entries: 10, Restart: d, ResidentBytes: 5 << 20}
	}
	compare(&b, r(time.Millisecond, 100), r(2*time.Millisecond, 50))
	for _, says := range []string{"64 writers, p50", "1ms", "2ms", "0.50", "2.00", "restart"} {
		if !strings.Contains(b.String(), says) {
			t.Errorf("no %q in\n%s", says, b.String())
		}
	}
}

// Both systems take writes and come back with them, in as little time as is needed to see that.
func TestBothSystemsAreMeasured(t *testing.T) {
	for _, name := range []string{"ours", "etcd"} {
		r, err := measure(t.Context(), name, options{dir: t.TempDir(), each: 200 * time.Millisecond, entries: 100})
		if err != nil || len(r.Rows) != 3 || r.Entries < 100 || r.Restart <= 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if _, err := measure(t.Context(), "another", options{dir: t.TempDir()}); err == nil {
		t.Error("a system that does not exist was measured")
	}
}
