package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// row is what some writers saw.
type row struct {
	Writers  int
	Writes   int
	P50, P99 time.Duration
	PerSec   float64
}

// result is what one system did.
type result struct {
	Rows          []row
	Entries       int
	Restart       time.Duration
	ResidentBytes int64 // of all three nodes, after the entries
}

// load has writers write one after the other for some time.
func load(ctx context.Context, s system, writers int, long time.Duration) (row, error) {
	var mu sync.Mutex // guards all and failed
	var all []time.Duration
	var failed error
	var running sync.WaitGroup
	began := time.Now()
	for w := range writers {
		running.Go(func() {
			var took []time.Duration
			var err error
			for i := 0; err == nil && time.Since(began) < long; i++ {
				at := time.Now()
				err = s.Put(ctx, w%64, strings.Repeat("x", 96)+fmt.Sprintf("%16d%16d", w, i))
				took = append(took, time.Since(at))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			if failed == nil {
				failed = err
			}
		})
	}
	running.Wait()
	if failed != nil {
		return row{}, failed
	}
	slices.Sort(all)
	return row{
		Writers: writers, Writes: len(all), P50: quantile(all, 0.5), P99: quantile(all, 0.99),
		PerSec: float64(len(all)) / time.Since(began).Seconds(),
	}, nil
}

// quantile of sorted durations; 0 of none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

// compare prints both systems side by side. Ratios are ours to etcd's.
func compare(w io.Writer, ours, theirs result) {
	fmt.Fprintf(w, "%-22s %12s %12s %8s\n", "", "ours", "etcd", "ratio")
	line := func(what string, a, b fmt.Stringer, x, y float64) {
		fmt.Fprintf(w, "%-22s %12s %12s %8.2f\n", what, a, b, x/y)
	}
	for i, a := range ours.Rows {
		b := theirs.Rows[i]
		name := strconv.Itoa(a.Writers) + " writers"
		line(name+", p50", micro(a.P50), micro(b.P50), float64(a.P50), float64(b.P50))
		line(name+", p99", micro(a.P99), micro(b.P99), float64(a.P99), float64(b.P99))
		line(name+", writes/s", perSec(a.PerSec), perSec(b.PerSec), a.PerSec, b.PerSec)
	}
	line("entries", perSec(float64(ours.Entries)), perSec(float64(theirs.Entries)), float64(ours.Entries), float64(theirs.Entries))
	line("restart, first write", micro(ours.Restart), micro(theirs.Restart), float64(ours.Restart), float64(theirs.Restart))
	line("memory of 3 nodes, MiB", perSec(float64(ours.ResidentBytes>>20)), perSec(float64(theirs.ResidentBytes>>20)),
		float64(ours.ResidentBytes), float64(theirs.ResidentBytes))
}

type micro time.Duration

// String rounds to what matters.
func (m micro) String() string { return time.Duration(m).Round(10 * time.Microsecond).String() }

type perSec float64

// String leaves fractions out.
func (p perSec) String() string { return strconv.FormatFloat(float64(p), 'f', 0, 64) }

// resident is the memory of this process in bytes after garbage was collected; 0: not known here.
func resident() int64 {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
