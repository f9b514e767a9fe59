package dataplane

import (
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What the router costs, over real sockets and beside a bare relay that is measured at the same time.
// None of it fails because it is slow: see the card of make bench.

// cost is what requests took of a process.
type cost struct {
	requests      int
	cpu, wall     time.Duration
	allocs, bytes uint64
}

// measure lets the far end send requests through a system.
func (f *far) measure(s system, o order, to *cost) {
	f.b.Helper()
	o.Do, o.URL = "load", s.url
	runtime.GC() // what others left behind is not this one's to clear away
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := s.cpu()
	done := f.does(o)
	to.cpu += s.cpu() - cpu
	runtime.ReadMemStats(&after)
	to.requests += o.N
	to.wall += done.Took
	to.allocs += after.Mallocs - before.Mallocs
	to.bytes += after.TotalAlloc - before.TotalAlloc
}

func (c *cost) per(n float64) float64 { return n / float64(c.requests) }

// BenchmarkRequest is what a request of 4 KB takes of the processors, with an answer that is whole,
// a stream of 66 events that come as fast as they can, and one whose events come two milliseconds
// apart.
func BenchmarkRequest(b *testing.B) {
	f := newFar(b)
	all := systems(b, f)
	for _, o := range []order{
		{Answer: "whole", N: 1000, Workers: 16},
		{Answer: "stream", N: 500, Workers: 16},
		{Answer: "paced", N: 500, Workers: 64},
	} {
		for _, s := range all {
			b.Run("answer="+o.Answer+"/by="+s.name, func(b *testing.B) {
				f.b = b
				b.ReportAllocs()
				var base, c cost
				f.measure(all[0], o, &cost{}) // so that connections are there
				f.measure(s, o, &cost{})
				for b.Loop() {
					f.measure(all[0], o, &base)
					f.measure(s, o, &c)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(c.per(float64(c.cpu)), "cpu-ns/op")
				b.ReportMetric(c.per(float64(c.cpu))/base.per(float64(base.cpu)), "x-bare")
				b.ReportMetric(float64(c.requests)/c.wall.Seconds(), "requests/s")
				if s.name != "haproxy" { // a process of its own
					b.ReportMetric(c.per(float64(c.allocs)), "allocs/op")
					b.ReportMetric(c.per(float64(c.bytes)), "B/op")
				}
			})
		}
	}
	f.b = b
}

// BenchmarkLatency is what the router adds to the time of an answer, at half of the rate that it can
// do on this machine, clients and model servers included; beside it what a bare relay adds at half of
// its own. The rate is measured again and again, since the machine may have other things to do.
func BenchmarkLatency(b *testing.B) {
	f := newFar(b)
	for _, s := range systems(b, f) {
		b.Run("by="+s.name, func(b *testing.B) {
			f.b = b
			var direct, through []time.Duration
			sum, rounds, sent, failed := 0.0, 0, 0, 0
			for ; b.Loop(); rounds++ {
				most := order{Do: "load", URL: s.url, Answer: "whole", N: 1000, Workers: 64}
				o := order{Do: "pace", Answer: "whole", Rate: float64(most.N) / f.does(most).Took.Seconds() / 2}
				o.N = int(o.Rate/2) + 1 // for half a second
				o.URL = f.places[rounds%farPlaces].String()
				direct = append(direct, f.does(o).Latencies...)
				o.URL = s.url
				done := f.does(o)
				through = append(through, done.Latencies...)
				sum, sent, failed = sum+o.Rate, sent+o.N, failed+done.Failed
			}
			slices.Sort(direct)
			slices.Sort(through)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(sum/float64(rounds), "requests/s")
			b.ReportMetric(100*float64(failed)/float64(sent), "failed-%")
			b.ReportMetric(float64(at50(through)-at50(direct)), "added-p50-ns")
			b.ReportMetric(float64(at99(through)-at99(direct)), "added-p99-ns")
			b.ReportMetric(float64(at50(direct)), "direct-p50-ns")
			b.ReportMetric(float64(at99(direct)), "direct-p99-ns")
		})
	}
	f.b = b
}

func at50(sorted []time.Duration) time.Duration { return sorted[len(sorted)/2] }
func at99(sorted []time.Duration) time.Duration { return sorted[len(sorted)*99/100] }

// openStreams is how many streams are held open, if the system lets a process have two sockets for
// each of them.
const openStreams = 10_000

// BenchmarkOpenStreams is what a process holds for each stream that waits for its next token: of the
// heap, of stacks, and of what the system counts as its memory.
func BenchmarkOpenStreams(b *testing.B) {
	n := min(openStreams, (sockets(b)-400)/2)
	for name, start := range map[string]func(*testing.B, *far) system{"bare": bare, "router": memoryRouter} {
		b.Run("by="+name, func(b *testing.B) {
			f := newFar(b)
			s := start(b, f)
			for b.Loop() {
				before := held()
				f.does(order{Do: "hold", URL: s.url, Answer: "held", N: n})
				after := held()
				f.does(order{Do: "release"})
				per := func(before, after uint64) float64 { return (float64(after) - float64(before)) / float64(n) }
				b.ReportMetric(per(before.HeapInuse+before.StackInuse, after.HeapInuse+after.StackInuse), "B/stream")
				b.ReportMetric(per(before.HeapInuse, after.HeapInuse), "heap-B/stream")
				b.ReportMetric(per(before.StackInuse, after.StackInuse), "stack-B/stream")
				b.ReportMetric(per(before.resident, after.resident), "rss-B/stream")
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(n), "streams")
		})
	}
}

type memory struct {
	runtime.MemStats
	resident uint64
}

// held is the memory in use once what is not needed has been collected.
func held() memory {
	var m memory
	runtime.GC()
	debug.FreeOSMemory() // collects once more, since what pools hold goes with the second
	runtime.ReadMemStats(&m.MemStats)
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil { // 0 where there is none
		if fields := strings.Fields(string(statm)); len(fields) > 1 {
			pages, _ := strconv.ParseUint(fields[1], 10, 64)
			m.resident = pages * uint64(os.Getpagesize())
		}
	}
	return m
}

// sockets is how many files this process may have open, once it has asked for as many as it may.
func sockets(b *testing.B) int {
	b.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		b.Fatal(err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		b.Fatal(err)
	}
	return int(min(limit.Max, 1<<20))
}
