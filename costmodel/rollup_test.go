package costmodel

import (
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestWhatAnAnswerCosts(t *testing.T) {
	tests := map[string]struct {
		sum                 Sum
		perMillion, success Micros
		tokens, answers     bool
	}{
		"nothing":                {Sum{}, 0, 0, false, false},
		"all went well":          {Sum{Usage: Usage{Input: 750_000, Output: 250_000, Succeeded: 10}, Cost: 2 * Dollar}, 2 * Dollar, Dollar / 5, true, true},
		"failed ones are paid":   {Sum{Usage: Usage{Input: 500_000, Succeeded: 5, Failed: 5}, Cost: 2 * Dollar}, 4 * Dollar, 2 * Dollar / 5, true, true},
		"none succeeded":         {Sum{Usage: Usage{Input: 1, Failed: 5}, Cost: 1}, 1_000_000, 0, true, false},
		"rounded up":             {Sum{Usage: Usage{Output: 3_000_000, Succeeded: 3}, Cost: 1}, 1, 1, true, true},
		"idle time is apart":     {Sum{Usage: Usage{Output: 1_000_000, Succeeded: 1}, Cost: 1, Idle: 5, Carbon: 7}, 1, 1, true, true},
		"egress is spent":        {Sum{Usage: Usage{Output: 1_000_000, Succeeded: 1}, Cost: 1, Egress: 2}, 3, 3, true, true},
		"beyond all bounds":      {Sum{Usage: Usage{Input: 1, Succeeded: 1}, Cost: math.MaxInt64}, math.MaxInt64, math.MaxInt64, true, true},
		"tokens beyond counting": {Sum{Usage: Usage{Input: math.MaxInt64, Output: math.MaxInt64}, Cost: math.MaxInt64}, 1_000_000, 0, true, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got, ok := tt.sum.PerMillionTokens(); got != tt.perMillion || ok != tt.tokens {
				t.Errorf("a million tokens cost %s %v", got, ok)
			}
			if got, ok := tt.sum.PerSuccess(); got != tt.success || ok != tt.answers {
				t.Errorf("an answer costs %s %v", got, ok)
			}
		})
	}
}

func TestWhatWorkCosts(t *testing.T) {
	for name, tt := range map[string]struct {
		sum  Sum
		want Micros
		ok   bool
	}{
		"nothing":            {Sum{Cost: 5}, 0, false},
		"a million units":    {Sum{Work: 1_000_000_000, Cost: 5, Egress: 2, Idle: 100}, 7, true},
		"rounded up":         {Sum{Work: 3_000_000_000, Cost: 1}, 1, true},
		"a unit":             {Sum{Work: 1000, Cost: 3}, 3_000_000, true},
		"beyond all bounds":  {Sum{Work: 1, Cost: math.MaxInt64}, math.MaxInt64, true},
		"free":               {Sum{Work: 1}, 0, true},
		"no work below none": {Sum{Work: -1, Cost: 1}, 0, false},
	} {
		if got, ok := tt.sum.PerMillionWork(); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %s %v", name, got, ok)
		}
	}
}

func TestSumsAreGathered(t *testing.T) {
	r := Rollup{
		{"a", "m", "chat", "c1", "us", "src"}:  {Cost: 1},
		{"a", "n", "chat", "c2", "us", "src"}:  {Cost: 2},
		{"b", "m", "batch", "c2", "us", "src"}: {Cost: 4},
		{"b", "m", "chat", "c3", "eu", "src"}:  {Cost: 8},
		{Cluster: "c3", Region: "eu"}:          {Idle: 16},
	}
	tests := map[string]struct {
		by   Dimensions
		want Rollup
	}{
		"tenants":             {ByTenant, Rollup{{Tenant: "a"}: {Cost: 3}, {Tenant: "b"}: {Cost: 12}, {}: {Idle: 16}}},
		"models":              {ByModel, Rollup{{Model: "m"}: {Cost: 13}, {Model: "n"}: {Cost: 2}, {}: {Idle: 16}}},
		"classes":             {ByClass, Rollup{{Class: "chat"}: {Cost: 11}, {Class: "batch"}: {Cost: 4}, {}: {Idle: 16}}},
		"clusters":            {ByCluster, Rollup{{Cluster: "c1"}: {Cost: 1}, {Cluster: "c2"}: {Cost: 6}, {Cluster: "c3"}: {Cost: 8, Idle: 16}}},
		"regions":             {ByRegion, Rollup{{Region: "us"}: {Cost: 7}, {Region: "eu"}: {Cost: 8, Idle: 16}}},
		"regions and tenants": {ByRegion | ByTenant, Rollup{{Tenant: "a", Region: "us"}: {Cost: 3}, {Tenant: "b", Region: "us"}: {Cost: 4}, {Tenant: "b", Region: "eu"}: {Cost: 8}, {Region: "eu"}: {Idle: 16}}},
		"sources":             {BySource, Rollup{{Source: "src"}: {Cost: 15}, {}: {Idle: 16}}},
		"all as one":          {0, Rollup{{}: {Cost: 15, Idle: 16}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := r.By(tt.by); !maps.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	want := []Key{{Cluster: "c3", Region: "eu"}, {"b", "m", "chat", "c3", "eu", "src"}, {"a", "m", "chat", "c1", "us", "src"}, {"a", "n", "chat", "c2", "us", "src"}, {"b", "m", "batch", "c2", "us", "src"}}
	if got := r.Keys(); !slices.Equal(got, want) {
		t.Errorf("keys come as %v", got)
	}
}

func someRollup(t *rapid.T, name string) Rollup {
	v := someInterval(t)
	r := v.Attribute(v.used(someLines.Draw(t, name), plain))
	if rapid.Bool().Draw(t, name+" spread") {
		return r.SpreadIdle()
	}
	return r
}

// Rollups add up in any order and grouping, amounts beyond all bounds included, and to gather them
// before or after is the same.
func TestRollupsAddUp(t *testing.T) {
	merged := func(all ...Rollup) Rollup {
		out := Rollup{}
		for _, r := range all {
			out.Merge(r)
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := someRollup(t, "a"), someRollup(t, "b"), someRollup(t, "c")
		if left, right := merged(merged(a, b), c), merged(a, merged(b, c)); !maps.Equal(left, right) {
			t.Fatalf("grouping matters: %v, %v", left, right)
		}
		if one, other := merged(a, b), merged(b, a); !maps.Equal(one, other) {
			t.Fatalf("order matters: %v, %v", one, other)
		}
		fine := Dimensions(rapid.Uint8Range(0, 1<<6-1).Draw(t, "fine"))
		coarse := fine & Dimensions(rapid.Uint8Range(0, 1<<6-1).Draw(t, "coarse"))
		if before, after := merged(a.By(coarse), b.By(coarse)), merged(a, b).By(fine).By(coarse); !maps.Equal(before, after) {
			t.Fatalf("gathering matters: %v, %v", before, after)
		}
	})
}

func TestCountsThatAddUpSaturate(t *testing.T) {
	for u, want := range map[Usage][2]int64{
		{Input: 3, Cached: 2, Output: 4, Succeeded: 5, Failed: 6}:                          {7, 11},
		{Input: -3, Output: 4, Succeeded: -1, Failed: 2}:                                   {4, 2},
		{Input: math.MaxInt64, Output: 1, Succeeded: math.MaxInt64, Failed: math.MaxInt64}: {math.MaxInt64, math.MaxInt64},
		{}: {},
	} {
		if u.Tokens() != want[0] || u.Answers() != want[1] {
			t.Errorf("%+v: %d tokens, %d answers", u, u.Tokens(), u.Answers())
		}
	}
}
