package rls

import (
	"reflect"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"pgregory.net/rapid"
)

// joined reads and joins descriptors.
func joined(ds ...*ratelimitv3.RateLimitDescriptor) []ask {
	wishes := make([]wish, len(ds))
	for i, d := range ds {
		wishes[i] = read(d, 0)
	}
	return join(nil, wishes)
}

// places are those of an ask's descriptors.
func places(a ask) (out []int) {
	for i := range maxDescriptors {
		if a.has(i) {
			out = append(out, i)
		}
	}
	return out
}

func TestDescriptorsOfOneTenantAreOneRequest(t *testing.T) {
	for _, c := range []struct {
		name string
		ds   []*ratelimitv3.RateLimitDescriptor
		want [][]int // descriptors of each request
	}{
		{"one", []*ratelimitv3.RateLimitDescriptor{entries("tenant", "a")}, [][]int{{0}}},
		{"a tenant and its model", []*ratelimitv3.RateLimitDescriptor{entries("tenant", "a"), entries("tenant", "a", "model", "m")}, [][]int{{0, 1}}},
		{"the other way round", []*ratelimitv3.RateLimitDescriptor{entries("tenant", "a", "model", "m"), entries("tenant", "a")}, [][]int{{0, 1}}},
		{"two units", []*ratelimitv3.RateLimitDescriptor{entries("tenant", "a"), entries("tenant", "a", "unit", "input-tokens")}, [][]int{{0, 1}}},
		{"two tenants", []*ratelimitv3.RateLimitDescriptor{entries("tenant", "a"), entries("tenant", "b")}, [][]int{{0}, {1}}},
		{"two models", []*ratelimitv3.RateLimitDescriptor{entries("tenant", "a", "model", "m"), entries("tenant", "a", "model", "n")}, [][]int{{0}, {1}}},
		{"two requests", []*ratelimitv3.RateLimitDescriptor{entries("tenant", "a", "request_id", "1"), entries("tenant", "a", "request_id", "2")}, [][]int{{0}, {1}}},
		{"an end and a beginning", []*ratelimitv3.RateLimitDescriptor{entries("tenant", "a", "phase", "done"), entries("tenant", "a")}, [][]int{{0}, {1}}},
		{"nobody", []*ratelimitv3.RateLimitDescriptor{entries("remote_address", "192.0.2.1"), entries("tenant", "a")}, [][]int{{1}}},
		{"what gives back", []*ratelimitv3.RateLimitDescriptor{{Entries: entries("tenant", "a").Entries, IsNegativeHits: true}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got [][]int
			for _, a := range joined(c.ds...) {
				got = append(got, places(a))
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestAShadowIsOneOnlyIfAllDescriptorsSaySo(t *testing.T) {
	both := joined(entries("tenant", "a", "shadow", "true"), entries("tenant", "a", "model", "m", "shadow", "true"))
	one := joined(entries("tenant", "a", "shadow", "true"), entries("tenant", "a", "model", "m"))
	if !both[0].shadow || one[0].shadow {
		t.Errorf("all say so: %v, one does: %v", both[0].shadow, one[0].shadow)
	}
}

func TestWhatARequestTakesAtItsBeginning(t *testing.T) {
	for _, c := range []struct {
		name string
		ds   []*ratelimitv3.RateLimitDescriptor
		want amounts
	}{
		{"one request", []*ratelimitv3.RateLimitDescriptor{entries("tenant", "a")}, amounts{requests: 1}},
		{"several limits of it, counted once", []*ratelimitv3.RateLimitDescriptor{entries("tenant", "a"), entries("tenant", "a", "model", "m")}, amounts{requests: 1}},
		{"the most that one of them says", []*ratelimitv3.RateLimitDescriptor{hits(2, entries("tenant", "a")), hits(5, entries("tenant", "a", "model", "m"))}, amounts{requests: 5}},
		{"only a look", []*ratelimitv3.RateLimitDescriptor{hits(0, entries("tenant", "a"))}, amounts{requests: 1, backRequests: 1}},
		{"a request, and a look at tokens", []*ratelimitv3.RateLimitDescriptor{entries("tenant", "a"), hits(0, entries("tenant", "a", "unit", "total-tokens"))}, amounts{requests: 1, output: 1, backOutput: 1}},
		{"a look at each sort of tokens", []*ratelimitv3.RateLimitDescriptor{hits(0, entries("tenant", "a", "unit", "input-tokens")), hits(0, entries("tenant", "a", "unit", "output-tokens"))}, amounts{input: 1, backInput: 1, output: 1, backOutput: 1}},
		{"tokens alone", []*ratelimitv3.RateLimitDescriptor{hits(812, entries("tenant", "a", "unit", "input-tokens"))}, amounts{input: 812}},
		{"tokens that are not told apart", []*ratelimitv3.RateLimitDescriptor{hits(812, entries("tenant", "a", "unit", "total-tokens"))}, amounts{output: 812}},
		{"of which some are told apart", []*ratelimitv3.RateLimitDescriptor{hits(812, entries("tenant", "a", "unit", "total-tokens", "input_tokens", "800"))}, amounts{input: 800, output: 12}},
		{"an end to come, and nothing said", []*ratelimitv3.RateLimitDescriptor{entries("tenant", "a", "request_id", "1")}, amounts{requests: 1, output: usualOutput}},
		{"an end to come, and a short answer", []*ratelimitv3.RateLimitDescriptor{entries("tenant", "a", "request_id", "1", "input_tokens", "30", "output_tokens", "20")}, amounts{requests: 1, input: 30, output: 20}},
		{"an end to come, and a long answer", []*ratelimitv3.RateLimitDescriptor{entries("tenant", "a", "request_id", "1", "output_tokens", "4096")}, amounts{requests: 1, output: usualOutput}},
		{"an end to come, and a look at tokens", []*ratelimitv3.RateLimitDescriptor{hits(0, entries("tenant", "a", "request_id", "1", "unit", "total-tokens"))}, amounts{output: usualOutput}},
		{"an end to come, and a reserve that is told", []*ratelimitv3.RateLimitDescriptor{hits(4000, entries("tenant", "a", "request_id", "1", "unit", "output-tokens"))}, amounts{output: 4000}},
		{"no end to come: an answer is charged later or never", []*ratelimitv3.RateLimitDescriptor{entries("tenant", "a", "output_tokens", "20")}, amounts{requests: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			asks := joined(c.ds...)
			if len(asks) != 1 {
				t.Fatalf("%d requests: %+v", len(asks), asks)
			}
			if got := asks[0].begin(); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestWhatARequestUsedInTheEnd(t *testing.T) {
	type sums struct{ requests, input, output int64 }
	done := func(words ...string) *ratelimitv3.RateLimitDescriptor {
		return entries(append([]string{"tenant", "a", "request_id", "1", "phase", "done"}, words...)...)
	}
	for _, c := range []struct {
		name     string
		reserved sums
		ds       []*ratelimitv3.RateLimitDescriptor
		want     sums
	}{
		{"both sorts of tokens", sums{1, 800, 256}, []*ratelimitv3.RateLimitDescriptor{hits(812, done("unit", "input-tokens")), hits(300, done("unit", "output-tokens"))}, sums{1, 812, 300}},
		{"one sort: the other as reserved", sums{1, 800, 256}, []*ratelimitv3.RateLimitDescriptor{hits(300, done("unit", "output-tokens"))}, sums{1, 800, 300}},
		{"all tokens in one number", sums{1, 800, 256}, []*ratelimitv3.RateLimitDescriptor{hits(1000, done("unit", "total-tokens"))}, sums{1, 800, 200}},
		{"fewer in all than the estimate of the prompt", sums{1, 800, 256}, []*ratelimitv3.RateLimitDescriptor{hits(700, done("unit", "total-tokens"))}, sums{1, 700, 0}},
		{"in all, and the prompt", sums{1, 800, 256}, []*ratelimitv3.RateLimitDescriptor{hits(1000, done("unit", "total-tokens")), hits(900, done("unit", "input-tokens"))}, sums{1, 900, 100}},
		{"in all less than the prompt", sums{1, 800, 256}, []*ratelimitv3.RateLimitDescriptor{hits(10, done("unit", "total-tokens")), hits(900, done("unit", "input-tokens"))}, sums{1, 900, 0}},
		{"no tokens at all", sums{1, 800, 256}, []*ratelimitv3.RateLimitDescriptor{hits(0, done("unit", "total-tokens"))}, sums{1, 0, 0}},
		{"not even the request", sums{1, 0, 256}, []*ratelimitv3.RateLimitDescriptor{hits(0, done()), hits(0, done("unit", "output-tokens"))}, sums{0, 0, 0}},
		{"estimates say nothing any more", sums{1, 800, 256}, []*ratelimitv3.RateLimitDescriptor{hits(300, done("unit", "output-tokens", "input_tokens", "5000", "output_tokens", "1"))}, sums{1, 800, 300}},
		{"of one that is not known", sums{}, []*ratelimitv3.RateLimitDescriptor{hits(300, done("unit", "output-tokens"))}, sums{0, 0, 300}},
	} {
		t.Run(c.name, func(t *testing.T) {
			asks := joined(c.ds...)
			if len(asks) != 1 {
				t.Fatalf("%d requests: %+v", len(asks), asks)
			}
			var got sums
			got.requests, got.input, got.output = asks[0].end(c.reserved.requests, c.reserved.input, c.reserved.output)
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// Whatever descriptors say, what is taken and charged is bounded and never below 0, and each descriptor
// with a tenant is of exactly one request.
func TestAmountsStayWithinBounds(t *testing.T) {
	word := rapid.SampledFrom([]string{
		KeyTenant, KeyModel, KeyKeySum, KeyUnit, KeyInput, KeyOutput, KeyRequestID, KeyPhase, KeyShadow, "other",
		"a", "b", UnitInput, UnitOutput, UnitTotal, PhaseDone, "true", "0", "17", "-1", "9223372036854775807", "",
	})
	rapid.Check(t, func(t *rapid.T) {
		ds := make([]*ratelimitv3.RateLimitDescriptor, rapid.IntRange(1, 6).Draw(t, "descriptors"))
		tenants := 0
		for i := range ds {
			ds[i] = entries(rapid.SliceOfN(word, 0, 12).Draw(t, "words")...)
			if rapid.Bool().Draw(t, "own") {
				ds[i] = hits(rapid.Uint64().Draw(t, "hits"), ds[i])
			}
			ds[i].IsNegativeHits = rapid.Bool().Draw(t, "negative")
			if w := read(ds[i], 0); w.tenant != "" && !w.negative {
				tenants++
			}
		}
		seen := map[int]bool{}
		for _, a := range joined(ds...) {
			for _, at := range places(a) {
				if seen[at] {
					t.Fatalf("descriptor %d is of two requests", at)
				}
				seen[at] = true
			}
			m := a.begin()
			for _, n := range []int64{m.requests - m.backRequests, m.input - m.backInput, m.output - m.backOutput} {
				if n < 0 || n > maxHits {
					t.Fatalf("takes %+v", m)
				}
			}
			r, in, out := a.end(1, 100, 256)
			if min(r, in, out) < 0 || max(r, in, out) > maxHits {
				t.Fatalf("charges %d, %d, %d", r, in, out)
			}
		}
		if len(seen) != tenants {
			t.Fatalf("%d of %d descriptors are of a request", len(seen), tenants)
		}
	})
}
