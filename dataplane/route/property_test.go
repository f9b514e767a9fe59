package route

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// weightsOf draws n shares that sum to 1, some of them 0.
func weightsOf(t *rapid.T, n int) []float64 {
	w := make([]float64, n)
	sum := 0.0
	for i := range w {
		if rapid.IntRange(0, 3).Draw(t, "zero") > 0 {
			w[i] = rapid.Float64Range(0.05, 1).Draw(t, "weight")
		}
		sum += w[i]
	}
	if sum == 0 {
		w[0], sum = 1, 1
	}
	for i := range w {
		w[i] /= sum
	}
	return w
}

func lines(w []float64) string {
	regions := []string{"us", "eu", "de"}
	var b strings.Builder
	for i, v := range w {
		fmt.Fprintf(&b, "c%d %s %v\n", i, regions[i%3], v)
	}
	return b.String()
}

func winners(t testing.TB, w []float64, keys int) []fleet.ClusterID {
	tab := fleetOf(t, lines(w))
	out := make([]fleet.ClusterID, keys)
	for k := range out {
		in := input(tab)
		in.Key = uint64(k)
		out[k] = Choose(in).Targets[0].Cluster.ID
	}
	return out
}

// The share of keys that go to a cluster is its weight, within what chance allows.
func TestSharesAreProportionalToWeights(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := weightsOf(rt, rapid.IntRange(1, 8).Draw(rt, "n"))
		const keys = 1500
		hits := map[fleet.ClusterID]int{}
		for _, c := range winners(t, w, keys) {
			hits[c]++
		}
		for i, want := range w {
			got := float64(hits[fleet.ClusterID(fmt.Sprint("c", i))]) / keys
			if want == 0 && got != 0 {
				rt.Fatalf("cluster %d of weight 0 got %v of the keys", i, got)
			}
			if sigma := math.Sqrt(want * (1 - want) / keys); math.Abs(got-want) > 6*sigma+3.0/keys {
				rt.Fatalf("cluster %d of weight %v got %v of the keys", i, want, got)
			}
		}
	})
}

// When one weight grows at the cost of all others alike, keys move to that cluster only, and no
// more of them than its growth.
func TestChangeMovesOnlyTheNeededShare(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		before := weightsOf(rt, rapid.IntRange(2, 8).Draw(rt, "n"))
		grown := rapid.IntRange(0, len(before)-1).Draw(rt, "grown")
		if before[grown] > 0.9 {
			return
		}
		to := rapid.Float64Range(before[grown], 0.95).Draw(rt, "to")
		after := slices.Clone(before)
		for i := range after {
			after[i] *= (1 - to) / (1 - before[grown])
		}
		after[grown] = to
		const keys = 1500
		was, is := winners(t, before, keys), winners(t, after, keys)
		moved := 0
		for k := range was {
			if was[k] == is[k] {
				continue
			}
			moved++
			if is[k] != fleet.ClusterID(fmt.Sprint("c", grown)) {
				rt.Fatalf("key %d moved from %s to %s, but only c%d grew", k, was[k], is[k], grown)
			}
		}
		want := to - before[grown]
		if sigma := math.Sqrt(want * (1 - want) / keys); math.Abs(float64(moved)/keys-want) > 6*sigma+3.0/keys {
			rt.Fatalf("%v of the keys moved, the weight grew by %v", float64(moved)/keys, want)
		}
	})
}

// When a cluster dies its keys spread over the rest, and no other key moves.
func TestDeathMovesOnlyTheDeadOnesKeys(t *testing.T) {
	tab := fleetOf(t, "u us 0.4\nv us 0.3\ne eu 0.2\nd de 0.1")
	for key := range uint64(2000) {
		in := input(tab)
		in.Key = key
		before := Choose(in)
		in.Local = func(id fleet.ClusterID, _ *table.Tenant) Place { return Place{Ejected: id == "v"} }
		after := Choose(in)
		want := before.Targets[0].Cluster.ID
		if want == "v" {
			want = before.Targets[1].Cluster.ID
		}
		if got := after.Targets[0].Cluster.ID; got != want {
			t.Fatalf("key %d: %s before, %s after", key, told(before), told(after))
		}
	}
}

// Whatever has failed, is full or was tried, no request is sent where it may not go.
func TestRulesAreNeverBroken(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(rt, "n")
		tab := fleetOf(t, lines(weightsOf(rt, n)), func(pb *routerpb.Table) {
			for _, c := range pb.Clusters {
				c.Drained = rapid.IntRange(0, 4).Draw(rt, "drained") == 0
				if rapid.IntRange(0, 4).Draw(rt, "capped") == 0 {
					c.HealthCap = 0
				}
			}
		})
		places := map[fleet.ClusterID]Place{}
		for i := range n {
			places[fleet.ClusterID(fmt.Sprint("c", i))] = Place{
				Ejected:    rapid.IntRange(0, 2).Draw(rt, "ejected") == 0,
				Saturation: rapid.Float64Range(0, 2).Draw(rt, "saturation"),
				Wait:       time.Duration(rapid.IntRange(0, 5000).Draw(rt, "wait")) * time.Millisecond,
			}
		}
		in := input(tab, tenant(rapid.SampledFrom([]fleet.TenantID{"free", "german", "european", "lunar"}).Draw(rt, "tenant")), local(places))
		in.Key = rapid.Uint64().Draw(rt, "key")
		in.Hop = rapid.Bool().Draw(rt, "hop")
		in.Region = rapid.SampledFrom([]fleet.RegionID{"us", "eu"}).Draw(rt, "region")
		c := Choose(in)
		for _, target := range c.Targets {
			cl := target.Cluster
			switch {
			case !in.Tenant.Allows(cl.Region, cl.Zone):
				rt.Fatalf("%s breaks residency of %s", cl.ID, in.Tenant.ID)
			case in.Hop && target.Remote:
				rt.Fatalf("%s is a second hop", cl.ID)
			case cl.Drained, cl.Cap == 0, places[cl.ID].Ejected:
				rt.Fatalf("%s is out of use", cl.ID)
			}
		}
		if len(c.Targets)+len(c.Removed) != n {
			rt.Fatalf("%d targets and %d removed of %d clusters", len(c.Targets), len(c.Removed), n)
		}
		if (len(c.Targets) == 0) != (c.Code != "") {
			rt.Fatalf("%d targets with code %q", len(c.Targets), c.Code)
		}
	})
}
