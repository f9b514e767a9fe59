package workload

import (
	"bytes"
	"testing"
)

// A simulation of a million requests should not wait for them: one costs a microsecond or so.
func BenchmarkSharedPrefix(b *testing.B) {
	s := start(b, SharedPrefix{Traffic: Traffic{Seed: 1}, Prefixes: 500, Prefix: Lengths{Fixed: 8000}, Skew: 1})
	b.ReportAllocs()
	for b.Loop() {
		s.Next()
	}
}

func BenchmarkSessions(b *testing.B) {
	s := start(b, Sessions{Traffic: Traffic{Seed: 1, Arrivals: Arrivals{Rate: 10}}})
	b.ReportAllocs()
	for b.Loop() {
		r, _ := s.Next()
		s.Done(r.ID, r.At, true)
	}
}

func BenchmarkMooncake(b *testing.B) {
	s, err := Mooncake(&endless{}, TraceOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Next()
	}
}

func BenchmarkServeGen(b *testing.B) {
	clients, lengths := load(b, "servegen_clients.csv"), load(b, "servegen_lengths.csv")
	b.ReportAllocs()
	var s *Clients
	for b.Loop() {
		if s == nil || s.Ended() {
			var err error
			if s, err = ServeGen(bytes.NewReader(clients), bytes.NewReader(lengths), TraceOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		s.Next()
	}
}

func BenchmarkText(b *testing.B) {
	r := Request{ID: 1, PromptTokens: 8000, Blocks: extend(nil, 1, 400)}
	b.SetBytes(32_000)
	for b.Loop() {
		Text(r)
	}
}
