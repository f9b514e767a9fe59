//go:build unix

package collect

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"anabranch/controlplane/signal"
)

// cpuTime is what this process has used so far.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTwoHundredSources polls 200 sources of 100 KB each every second, from two servers in the same
// process, whose part of the CPU is in the figure.
func BenchmarkTwoHundredSources(b *testing.B) {
	text := serverPage + strings.Repeat("vllm:request_prompt_tokens_bucket{engine=\"0\",le=\"1\",model_name=\"llama-3.1-8b\"} 117.0\n", 1200)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, text)
	}))
	b.Cleanup(srv.Close)
	clusters := map[string]string{}
	for i := range 200 {
		clusters[fmt.Sprintf("c%03d", i)] = server(fmt.Sprintf("%s/%d", srv.URL, i), "intervalMs: 1000, timeoutMs: 10000")
	}
	w := newWorld(b, nil, clusters)
	w.o.Logger = slog.New(slog.DiscardHandler)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w.run()
	for i := range 200 {
		w.await("polled", fmt.Sprintf("c%03d", i), "a", func(s signal.Source) bool { return s.Polls > 0 })
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	polls := func() (n uint64) {
		for _, s := range w.c.sources() {
			n += s.Polls
		}
		return n
	}
	for b.Loop() {
		began, cpu, done := time.Now(), cpuTime(b), polls()
		<-time.After(5 * time.Second)
		took := time.Since(began).Seconds()
		b.ReportMetric(100*(cpuTime(b)-cpu).Seconds()/took, "%cpu")
		b.ReportMetric(float64(polls()-done)/took, "polls/s")
		b.ReportMetric((cpuTime(b)-cpu).Seconds()*1e6/float64(polls()-done), "µs/poll")
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/200/1024, "KiB/source")
}
