package sim

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkEngine keeps a batch full and reports the cost of a step and of a request.
func BenchmarkEngine(b *testing.B) {
	for _, batch := range []int{1, 32, 256} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			e := New(Options{Profile: h100, MaxSequences: batch})
			blocks := prompt(1, 512)
			var id uint64
			next := func(now time.Duration) {
				id++
				if err := e.Submit(now, Request{ID: id, PromptTokens: 600, Blocks: blocks, OutputTokens: 100}); err != nil {
					b.Fatal(err)
				}
			}
			for range 2 * batch {
				next(0)
			}
			var finished int
			b.ReportAllocs()
			for b.Loop() {
				at, _ := e.Next()
				ended := 0
				for _, ev := range e.Advance(at) {
					if ev.Kind == Finished {
						ended++
					}
				}
				for range ended {
					next(at)
				}
				finished += ended
			}
			if st := e.Stats(); st.GenerationTokens > 0 {
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(st.GenerationTokens), "ns/token")
			}
			b.ReportMetric(float64(finished), "requests")
		})
	}
}
