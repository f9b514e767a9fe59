package workload

import (
	"testing"
	"time"

	"anabranch/api/fleet"
)

// shares counts a property of requests, as shares of all.
func shares[T comparable](list []Request, of func(r Request) T) map[T]float64 {
	out := map[T]float64{}
	for _, r := range list {
		out[of(r)] += 1 / float64(len(list))
	}
	return out
}

var everybody = Mix{
	Tenants:    []Share[fleet.TenantID]{{Value: "acme", Weight: 6}, {Value: "globex", Weight: 3}, {Value: "initech"}},
	Models:     []Target{{Model: "small", Weight: 4}, {Model: "small", Adapter: "legal"}, {Model: "big", Weight: 5}},
	Priorities: []Share[int32]{{Value: 100}, {Value: -10, Weight: 4}},
	Classes:    []Share[fleet.ClassID]{{Value: "bulk", Weight: 0.25}, {Value: "interactive", Weight: 0.75}},
}

func TestMixKeepsItsWeights(t *testing.T) {
	list := take(t, Uniform{Traffic: Traffic{Seed: 2}, Mix: everybody}, 40_000, 0)
	for tenant, want := range map[fleet.TenantID]float64{"acme": 0.6, "globex": 0.3, "initech": 0.1} {
		near(t, string(tenant), shares(list, func(r Request) fleet.TenantID { return r.Tenant })[tenant], want, 0.06)
	}
	type target struct {
		model   fleet.ModelID
		adapter string
	}
	for model, want := range map[target]float64{{"small", ""}: 0.4, {"small", "legal"}: 0.1, {"big", ""}: 0.5} {
		near(t, string(model.model), shares(list, func(r Request) target { return target{r.Model, r.Adapter} })[model], want, 0.06)
	}
	near(t, "the top tier", shares(list, func(r Request) int32 { return r.Priority })[100], 0.2, 0.05)
	near(t, "the bulk class", shares(list, func(r Request) fleet.ClassID { return r.Class })["bulk"], 0.25, 0.05)
	// Who asks and for what are independent of each other.
	both := shares(list, func(r Request) bool { return r.Tenant == "acme" && r.Model == "big" })[true]
	near(t, "acme's requests for the big model", both, 0.3, 0.05)
}

func TestWithoutAMixNobodyIsNamed(t *testing.T) {
	for _, r := range take(t, Uniform{}, 100, 0) {
		if r.Tenant != "" || r.Model != "" || r.Adapter != "" || r.Class != "" || r.Region != "" || r.Priority != 50 {
			t.Fatalf("request %+v", r)
		}
	}
}

// TestOneOptionChangesNothingElse lets two workloads be compared that differ in one thing.
func TestOneOptionChangesNothingElse(t *testing.T) {
	base := Uniform{
		Traffic: Traffic{Seed: 2, Arrivals: Arrivals{Rate: 3}}, Mix: everybody,
		Prompt: Lengths{Mean: 500, P99: 2000}, Output: Lengths{Mean: 100, P99: 900},
	}
	for _, c := range []struct {
		name   string
		change func(u *Uniform)
		undo   func(a, b *Request)
	}{
		{"prompts", func(u *Uniform) { u.Prompt = Lengths{Fixed: 7} }, func(a, b *Request) { b.PromptTokens = a.PromptTokens }},
		{"outputs", func(u *Uniform) { u.Output = Lengths{Min: 1, Max: 9} }, func(a, b *Request) { b.OutputTokens = a.OutputTokens }},
		{"tenants", func(u *Uniform) { u.Mix.Tenants = nil }, func(a, b *Request) { b.Tenant = a.Tenant }},
		{"models", func(u *Uniform) { u.Mix.Models = u.Mix.Models[:1] }, func(a, b *Request) { b.Model, b.Adapter = a.Model, a.Adapter }},
		{"priorities", func(u *Uniform) { u.Mix.Priorities = nil }, func(a, b *Request) { b.Priority = a.Priority }},
		{"classes", func(u *Uniform) { u.Mix.Classes = nil }, func(a, b *Request) { b.Class = a.Class }},
		{"arrivals", func(u *Uniform) { u.Traffic.Arrivals = Arrivals{Process: Weibull} }, func(a, b *Request) { b.At = a.At }},
		{"the number of requests", func(u *Uniform) { u.Traffic.Requests = 200 }, func(_, _ *Request) {}},
	} {
		changed := base
		c.change(&changed)
		a, b := take(t, base, 200, 0), take(t, changed, 200, 0)
		for i := range a {
			c.undo(&a[i], &b[i])
			if a[i].At != b[i].At || a[i].Tenant != b[i].Tenant || a[i].Model != b[i].Model || a[i].Priority != b[i].Priority ||
				a[i].Class != b[i].Class || a[i].PromptTokens != b[i].PromptTokens || a[i].OutputTokens != b[i].OutputTokens {
				t.Errorf("other %s change request %d:\n%+v\n%+v", c.name, i, a[i], b[i])
				break
			}
		}
	}
}

func TestRegionsKeepTheirWeights(t *testing.T) {
	spec := SharedPrefix{Traffic: Traffic{
		Seed: 3, Arrivals: Arrivals{Rate: 100, Process: Gamma},
		Regions: []Origin{{Region: "us", Weight: 2}, {Region: "eu"}, {Region: "ap", Shift: 9 * time.Hour}},
	}}
	parts := shares(take(t, spec, 40_000, 0), func(r Request) fleet.RegionID { return r.Region })
	for region, want := range map[fleet.RegionID]float64{"us": 0.5, "eu": 0.25, "ap": 0.25} {
		near(t, string(region), parts[region], want, 0.05)
	}
}

func TestPrefixesHaveOneOwner(t *testing.T) {
	type owner struct {
		tenant   fleet.TenantID
		model    fleet.ModelID
		adapter  string
		priority int32
		class    fleet.ClassID
	}
	owners := map[uint64]owner{}
	for _, r := range take(t, SharedPrefix{Traffic: Traffic{Seed: 3}, Mix: everybody}, 5000, 0) {
		now := owner{r.Tenant, r.Model, r.Adapter, r.Priority, r.Class}
		if was, ok := owners[r.Blocks[0]]; ok && was != now {
			t.Fatalf("a prefix is of %+v and of %+v", was, now)
		}
		owners[r.Blocks[0]] = now
	}
	if len(owners) != 100 {
		t.Errorf("%d prefixes", len(owners))
	}
}
