package rls

import (
	"strconv"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"anabranch/ratelimit"
)

// call is a call about as many limits.
func call(descriptors int) *rlsv3.RateLimitRequest {
	q := &rlsv3.RateLimitRequest{Domain: DefaultDomain}
	for i := range descriptors {
		words := []string{"tenant", "acme"}
		if i > 0 {
			words = append(words, "model", "llama")
		}
		q.Descriptors = append(q.Descriptors, entries(words...))
	}
	return q
}

// BenchmarkDecision is a decision without gRPC, of a call of one descriptor and of two.
func BenchmarkDecision(b *testing.B) {
	for _, n := range []int{1, 2} {
		b.Run("descriptors="+strconv.Itoa(n), func(b *testing.B) {
			d := opened(b, ratelimit.NewLending(nil), limits(b, quota("all", "requests", 1e9), quota("some", "requests", 1e9, ofModel("llama"))))
			q := call(n)
			d.ok(q.Descriptors...)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.server.ShouldRateLimit(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCall is the same from a client, over a pipe in memory.
func BenchmarkCall(b *testing.B) {
	d := opened(b, ratelimit.NewLending(nil), limits(b, quota("all", "requests", 1e9)))
	d.ok(entries("tenant", "acme"))
	q := call(1)
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := d.client.ShouldRateLimit(b.Context(), q); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
