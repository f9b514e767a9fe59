package workload

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim"
)

// take gives the first n requests, or all there are. Each is answered after the given time.
func take(t testing.TB, spec Spec, n int, answer time.Duration) []Request {
	t.Helper()
	s, err := spec.Source()
	if err != nil {
		t.Fatal(err)
	}
	return drain(t, s.(Peeker), n, answer)
}

// drain is a fleet that answers everything after the same time. It checks what every source promises.
func drain(t testing.TB, s Peeker, n int, answer time.Duration) []Request {
	t.Helper()
	var out []Request
	answered := 0
	ids := map[uint64]bool{}
	for len(out) < n {
		at, ok := s.Peek()
		if answered < len(out) && (!ok || out[answered].At+answer <= at) {
			s.Done(out[answered].ID, out[answered].At+answer, true)
			answered++
			continue
		}
		r, more := s.Next()
		if more != ok || ok && r.At != at {
			t.Fatalf("request %d: Peek says %v, %v and Next %v, %v", len(out), at, ok, r.At, more)
		}
		if !ok {
			if !s.Ended() {
				t.Fatalf("nothing after %d requests, all answered, but not ended", len(out))
			}
			break
		}
		switch {
		case len(out) > 0 && r.At < out[len(out)-1].At:
			t.Fatalf("request %d at %v is before the one at %v", r.ID, r.At, out[len(out)-1].At)
		case ids[r.ID]:
			t.Fatalf("id %d is there twice", r.ID)
		case r.PromptTokens < 1 || r.OutputTokens < 1:
			t.Fatalf("request %d has lengths %d and %d", r.ID, r.PromptTokens, r.OutputTokens)
		case len(r.Blocks) > r.PromptTokens/sim.BlockSize:
			t.Fatalf("request %d has %d blocks for %d tokens", r.ID, len(r.Blocks), r.PromptTokens)
		}
		ids[r.ID] = true
		out = append(out, r)
	}
	if err := Err(s); err != nil {
		t.Fatal(err)
	}
	return out
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) {
		t.Errorf("%s is %v, want %v within %v %%", what, got, want, tolerance*100)
	}
}

// roots counts requests by their first block.
func roots(list []Request) map[uint64]int {
	out := map[uint64]int{}
	for _, r := range list {
		out[r.Blocks[0]]++
	}
	return out
}

func TestSharedPrefix(t *testing.T) {
	spec := SharedPrefix{
		Traffic:  Traffic{Seed: 7, Arrivals: Arrivals{Rate: 10}},
		Mix:      Mix{Tenants: []Share[fleet.TenantID]{{Value: "acme", Weight: 3}, {Value: "globex"}}},
		Prefixes: 50, Prefix: Lengths{Fixed: 8010}, Suffix: Lengths{Min: 10, Max: 20},
	}
	list := take(t, spec, 5000, 0)
	seen := roots(list)
	if len(seen) != 50 {
		t.Errorf("%d prefixes, want 50", len(seen))
	}
	owner := map[uint64]fleet.TenantID{}
	acme := 0
	for _, r := range list {
		if len(r.Blocks) != 500 || r.PromptTokens < 8020 || r.PromptTokens > 8030 {
			t.Fatalf("request %d: %d blocks, %d tokens", r.ID, len(r.Blocks), r.PromptTokens)
		}
		if was := owner[r.Blocks[0]]; was != "" && was != r.Tenant {
			t.Fatalf("a prefix belongs to both %s and %s", was, r.Tenant)
		}
		owner[r.Blocks[0]] = r.Tenant
		if r.Tenant == "acme" {
			acme++
		}
	}
	near(t, "the share of acme", float64(acme)/5000, 0.75, 0.3)
	for root, n := range seen {
		if n < 50 || n > 160 {
			t.Errorf("prefix %x has %d of 5000 requests, want about 100", root, n)
		}
	}
}

func TestSharedPrefixSkew(t *testing.T) {
	spec := SharedPrefix{Traffic: Traffic{Seed: 1}, Prefixes: 200, Skew: 1.1}
	counts := []int{}
	for _, n := range roots(take(t, spec, 20_000, 0)) {
		counts = append(counts, n)
	}
	slices.Sort(counts)
	slices.Reverse(counts)
	sum := 0.0
	for k := range 200 {
		sum += math.Pow(float64(k+1), -1.1)
	}
	near(t, "the first", float64(counts[0])/20_000, 1/sum, 0.05)
	near(t, "the fourth", float64(counts[3])/20_000, math.Pow(4, -1.1)/sum, 0.1)
}

func TestSharedPrefixRenewsItsPopulation(t *testing.T) {
	spec := SharedPrefix{
		Traffic: Traffic{Arrivals: Arrivals{Process: Constant, Rate: 1}}, Prefixes: 3,
		Renew: []time.Duration{100 * time.Second, 200 * time.Second},
	}
	list := take(t, spec, 299, 0)
	a, b, c := roots(list[:99]), roots(list[99:199]), roots(list[199:])
	if len(a) != 3 || len(b) != 3 || len(c) != 3 || len(roots(list)) != 9 {
		t.Errorf("%d, %d and %d prefixes, %d in all; want three times 3 different ones", len(a), len(b), len(c), len(roots(list)))
	}
}

func TestSameSeedSameRequests(t *testing.T) {
	for _, c := range specs {
		t.Run(c.name, func(t *testing.T) {
			a, b := take(t, c.spec(5), 500, time.Second), take(t, c.spec(5), 500, time.Second)
			if !reflect.DeepEqual(a, b) {
				t.Error("two runs of one seed differ")
			}
			if reflect.DeepEqual(a, take(t, c.spec(6), 500, time.Second)) {
				t.Error("another seed gives the same")
			}
		})
	}
}

// specs is one workload of each kind, by its seed.
var specs = []struct {
	name string
	spec func(seed uint64) Spec
}{
	{"uniform", func(seed uint64) Spec { return Uniform{Traffic: Traffic{Seed: seed}} }},
	{"shared prefix", func(seed uint64) Spec { return SharedPrefix{Traffic: Traffic{Seed: seed}} }},
	{"bursty", func(seed uint64) Spec { return Bursty{Traffic: Traffic{Seed: seed}} }},
	{"closed", func(seed uint64) Spec {
		return SharedPrefix{Traffic: Traffic{Seed: seed, Arrivals: Arrivals{Clients: 5, Think: Delays{Mean: time.Second}}}}
	}},
	{"sessions", func(seed uint64) Spec { return Sessions{Traffic: Traffic{Seed: seed}, Systems: 3} }},
	{"agentic", func(seed uint64) Spec { return Agentic{Traffic: Traffic{Seed: seed}} }},
	{"batch", func(seed uint64) Spec { return Batch{Traffic: Traffic{Seed: seed}, Size: Lengths{Min: 1, Max: 5}} }},
}
