package sim

import (
	"math"
	"testing"
	"time"
)

// The figures of the roofline worked out by hand, to three or more digits.
var figures = []struct {
	class, model         string
	parallel, kvTokens   int
	prefill2k, prefill8k float64 // tokens/s
	b1, b32, b128        float64 // decode step in ms at a context of 2,048 (b1: of one sequence)
}{
	{"L40S", "Llama-3.1-8B", 1, 191803, 4908, 4473, 27.8, 41.6, 84.2},
	{"A100-80", "Llama-3.1-8B", 1, 411530, 9399, 8568, 12.2, 18.1, 36.1},
	{"H100", "Llama-3.1-8B", 1, 411530, 26829, 24456, 7.8, 11.3, 22.3},
	{"H200", "Llama-3.1-8B", 1, 830383, 26829, 24456, 5.7, 8.1, 15.8},
	{"L40S", "Llama-3.1-70B", 8, 574951, 4076, 3860, 30.8, 35.1, 48.4},
	{"A100-80", "Llama-3.1-70B", 8, 1278076, 7806, 7393, 13.9, 15.7, 21.4},
	{"H100", "Llama-3.1-70B", 4, 423584, 11141, 10550, 16.6, 18.8, 25.7},
	{"H100x8", "Llama-3.1-70B", 8, 1278076, 22282, 21101, 9.1, 10.2, 13.6},
	{"H200", "Llama-3.1-70B", 4, 1093750, 11141, 10550, 12.1, 13.6, 18.4},
	{"L40S", "Qwen3-32B", 4, 378418, 4328, 3952, 28.8, 35.7, 57.0},
	{"A100-80", "Qwen3-32B", 2, 283813, 4145, 3785, 24.7, 30.5, 48.6},
	{"H100", "Qwen3-32B", 2, 283813, 11831, 10803, 15.6, 19.2, 30.1},
	{"H200", "Qwen3-32B", 1, 226212, 6573, 6002, 20.5, 25.4, 40.8},
}

func TestProfileFollowsTheRoofline(t *testing.T) {
	t.Parallel()
	for _, f := range figures {
		t.Run(f.class+" "+f.model, func(t *testing.T) {
			t.Parallel()
			p, err := Lookup(f.class, f.model)
			if err != nil {
				t.Fatal(err)
			}
			if p.Parallel != f.parallel {
				t.Errorf("parallel = %d, want %d", p.Parallel, f.parallel)
			}
			near(t, "KV tokens", float64(p.KVTokens), float64(f.kvTokens), 0.001)
			near(t, "prefill rate at 2k", p.PrefillRate(2048), f.prefill2k, 0.005)
			near(t, "prefill rate at 8k", p.PrefillRate(8192), f.prefill8k, 0.005)
			for batch, want := range map[int]float64{1: f.b1, 32: f.b32, 128: f.b128} {
				d := p.Step(Load{Decode: batch, Context: batch * 2048})
				near(t, "decode step", milliseconds(d), want, 0.02)
			}
		})
	}
}

func TestLookupNames(t *testing.T) {
	t.Parallel()
	for _, ok := range [][2]string{
		{"h100", "llama-3.1-8b"},
		{"H100", "meta-llama/Llama-3.1-8B-Instruct"},
		{"a100-80x8", "llama-3.1-70b"},
		{"H200", "Qwen/Qwen3-32B"},
	} {
		if _, err := Lookup(ok[0], ok[1]); err != nil {
			t.Errorf("Lookup(%q, %q): %v", ok[0], ok[1], err)
		}
	}
	for _, bad := range [][2]string{
		{"b300", "llama-3.1-8b"},
		{"h100", "gpt-2"},
		{"l40sx1", "llama-3.1-70b"}, // does not fit
		{"h100x0", "llama-3.1-8b"},
		{"h100x", "llama-3.1-8b"},
		{"", ""},
	} {
		if p, err := Lookup(bad[0], bad[1]); err == nil {
			t.Errorf("Lookup(%q, %q) = %+v, want an error", bad[0], bad[1], p)
		}
	}
}

func TestStepGrowsWithEveryPartOfTheLoad(t *testing.T) {
	t.Parallel()
	p := mustLookup("h100", "llama-3.1-8b")
	base := Load{Prefill: 512, Decode: 8, Attended: 1e5, Context: 1000}
	for name, more := range map[string]Load{
		"prefill":  {Prefill: 1024, Decode: 8, Attended: 1e5, Context: 1000},
		"decode":   {Prefill: 512, Decode: 80, Attended: 1e5, Context: 1000},
		"attended": {Prefill: 512, Decode: 8, Attended: 1e7, Context: 1000},
		"context":  {Prefill: 512, Decode: 8, Attended: 1e5, Context: 100000},
	} {
		if a, b := p.Step(base), p.Step(more); b <= a {
			t.Errorf("more %s: %v, not above %v", name, b, a)
		}
	}
	if d := p.Step(Load{}); d <= p.Overhead {
		t.Errorf("an empty step takes %v, less than reading the weights", d)
	}
}

func mustLookup(class, model string) Profile {
	p, err := Lookup(class, model)
	if err != nil {
		panic(err)
	}
	return p
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*want {
		t.Errorf("%s = %.4g, want %.4g within %.1f %%", what, got, want, tolerance*100)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
