package world

import (
	"context"
	"fmt"
	"testing"
	"time"

	"anabranch/sim/workload"
)

// BenchmarkRun plays requests on 3 regions of 7 pods at about 60 % load.
func BenchmarkRun(b *testing.B) {
	for _, n := range []int{30_000, 1_000_000} {
		b.Run(fmt.Sprintf("requests=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			events, longest := 0, time.Duration(0)
			for b.Loop() {
				source, err := workload.Uniform{Traffic: workload.Traffic{
					Seed: 1, Requests: n, Arrivals: workload.Arrivals{Rate: 300},
				}}.Source()
				if err != nil {
					b.Fatal(err)
				}
				r, err := Run(context.Background(), three(7), source, &turns{local: true}, Options{Seed: 1})
				if err != nil {
					b.Fatal(err)
				}
				events += r.Events
				longest = r.Ended
			}
			per := func(count int, unit string) {
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(count), "ns/"+unit)
			}
			per(b.N*n, "request")
			per(events, "event")
			b.ReportMetric(longest.Seconds(), "virtual-s")
		})
	}
}
