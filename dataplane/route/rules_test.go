package route

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// kind makes a cluster another kind of member.
func kind(id, to string) func(*routerpb.Table) {
	return func(pb *routerpb.Table) { find(pb, id).Kind = to }
}

func standbyOf(id string) func(*routerpb.Table) {
	return func(pb *routerpb.Table) {
		for _, c := range pb.Weights[0].Clusters {
			c.Standby = c.Standby || c.Cluster == id
		}
	}
}

func only(ids ...fleet.ClusterID) func(*Input) { return func(in *Input) { in.Only = ids } }

func narrowed(places ...string) func(*Input) { return func(in *Input) { in.Residency = places } }

func evacuated(id fleet.ClusterID, order string) func(*Input) {
	return func(in *Input) {
		in.Evacuated = func(c fleet.ClusterID) (string, bool) { return order, c == id }
	}
}

func TestRulesAndKinds(t *testing.T) {
	const two = "u us 1\ne eu 0"
	dead := Place{Ejected: true}
	tests := []struct {
		name  string
		fleet string
		table []func(*routerpb.Table)
		in    []func(*Input)
		want  string
	}{
		{name: "a pin", fleet: two, in: []func(*Input){only("e")}, want: "e(fallback) | u(pin) |"},
		{
			name: "a pin to what is dead", fleet: two, in: []func(*Input){only("e"), local(map[fleet.ClusterID]Place{"e": dead})},
			want: "| u(pin) e(ejected) | no_capacity",
		},
		{name: "a pin to nowhere", fleet: two, in: []func(*Input){only("x")}, want: "| u(pin) e(pin) | no_legal_target"},
		{name: "a rule's residency", fleet: two, in: []func(*Input){narrowed("eu")}, want: "e(fallback) | u(rule residency) |"},
		{
			name: "a rule's residency within the tenant's", fleet: "u us 0.5\ne eu 0.3\nd de 0.2", in: []func(*Input){tenant("european"), narrowed("de", "us")},
			want: "d(weight) | u(residency) e(rule residency) |",
		},
		{
			name: "a rule's residency outside the tenant's", fleet: two, in: []func(*Input){tenant("european"), narrowed("us")},
			want: "| u(residency) e(rule residency) | no_legal_target",
		},
		{
			name: "a pin outside the tenant's residency", fleet: two, in: []func(*Input){tenant("european"), only("u")},
			want: "| u(residency) e(pin) | no_legal_target",
		},
		{name: "an evacuation", fleet: two, in: []func(*Input){evacuated("u", "order of ann")}, want: "e(fallback) | u(evacuated: order of ann) |"},
		{
			name: "an evacuation of all, which waiting does not mend", fleet: "u us 1", in: []func(*Input){evacuated("u", "")},
			want: "| u(evacuated) | no_legal_target",
		},
		{name: "on standby after what the table gives nothing", fleet: "u us 1\ne eu 0\nd de 0", table: []func(*routerpb.Table){standbyOf("e")}, want: "u(weight) d(fallback) e(standby) |  |"},
		{
			name: "on standby when all else is dead", fleet: two, table: []func(*routerpb.Table){standbyOf("e")},
			in: []func(*Input){local(map[fleet.ClusterID]Place{"u": dead})}, want: "e(standby) | u(ejected) |",
		},

		{name: "a member that stands for this region", fleet: two, table: []func(*routerpb.Table){kind("u", "router")}, want: "e(fallback) | u(self) |"},
		{name: "a member that stands for another region", fleet: two, table: []func(*routerpb.Table){kind("e", "router")}, want: "u(weight) e(fallback) |  |"},
		{
			name: "a member that stands for a region that can't be entered", fleet: "u us 1\na ap 0", table: []func(*routerpb.Table){kind("a", "router")},
			want: "u(weight) | a(no peer) |",
		},
		{name: "a provider in a region that can't be entered", fleet: "u us 0\na ap 1", table: []func(*routerpb.Table){kind("a", "provider")}, want: "a(weight) u(fallback) |  |"},
		{
			name: "a provider where the tenant mustn't be", fleet: two, table: []func(*routerpb.Table){kind("e", "provider")}, in: []func(*Input){tenant("german")},
			want: "| u(residency) e(residency) | no_legal_target",
		},
		{
			name: "a provider elsewhere is away from home", fleet: two, table: []func(*routerpb.Table){kind("e", "provider")}, in: []func(*Input){class("home")},
			want: "u(weight) | e(no spill) |",
		},
		{
			name: "a provider here is home", fleet: "u us 0.5\ne eu 0.5", table: []func(*routerpb.Table){kind("u", "provider")}, in: []func(*Input){class("home")},
			want: "u(weight) | e(no spill) |",
		},
		{
			name: "a hop goes to a provider of its region, not to another's", fleet: "u us 1\nv us 0\ne eu 0", in: []func(*Input){hop},
			table: []func(*routerpb.Table){kind("u", "provider"), kind("e", "provider")}, want: "u(weight) v(fallback) | e(hop) |",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab := fleetOf(t, tt.fleet, tt.table...)
			for key := range uint64(20) {
				in := input(tab, tt.in...)
				in.Key = key
				if got := told(Choose(in)); got != tt.want {
					t.Fatalf("got  %s\nwant %s", got, tt.want)
				}
			}
		})
	}
}

func TestHowKindsAreReached(t *testing.T) {
	tab := fleetOf(t, "u us 0.2\ne eu 0.2\np eu 0.2\nr de 0.2\nq us 0.2", kind("p", "provider"), kind("r", "router"), kind("q", "provider"))
	want := map[fleet.ClusterID]string{
		"u": "remote false, hint u, 0s", "e": "remote true, hint e, 100ms", "p": "remote false, hint p, 100ms",
		"r": "remote true, hint , 100ms", "q": "remote false, hint q, 0s",
	}
	for _, target := range Choose(input(tab)).Targets {
		got := fmt.Sprintf("remote %v, hint %s, %s", target.Remote, target.Hint(), target.RTT)
		if got != want[target.Cluster.ID] {
			t.Errorf("%s: %s, want %s", target.Cluster.ID, got, want[target.Cluster.ID])
		}
	}
}

func TestAnArmGetsItsShareOfKeys(t *testing.T) {
	arms := []table.Arm{{ID: "stable", Share: 0.9}, {ID: "new", Share: 0.1}, {ID: "off"}}
	hits := make([]int, len(arms))
	const n = 50_000
	for key := range uint64(n) {
		hits[Draw(arms, key)]++
	}
	if got := float64(hits[1]) / n; got < 0.09 || got > 0.11 || hits[2] > 0 {
		t.Errorf("hits %v", hits)
	}
}

func TestNoArmWithoutAShare(t *testing.T) {
	for _, arms := range [][]table.Arm{nil, {}, {{ID: "a"}, {ID: "b"}}} {
		if got := Draw(arms, 7); got != -1 {
			t.Errorf("%v: %d", arms, got)
		}
	}
}

// Which arm a key draws says nothing about the cluster that it draws, even where both have one name.
func TestArmsAndClustersAreDrawnApart(t *testing.T) {
	tab := fleetOf(t, "u us 0.5\ne eu 0.5")
	arms := []table.Arm{{ID: "u", Share: 0.5}, {ID: "e", Share: 0.5}}
	same, n := 0, 20_000
	for key := range uint64(n) {
		in := input(tab)
		in.Key = key
		if string(Choose(in).Targets[0].Cluster.ID) == arms[Draw(arms, key)].ID {
			same++
		}
	}
	if got := float64(same) / float64(n); got < 0.47 || got > 0.53 {
		t.Errorf("%.3f of the keys draw alike", got)
	}
}

// When one arm grows at the cost of the others alike, keys move to it only.
func TestAChangeOfTheSplitMovesOnlyTheChangedShare(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		shares := weightsOf(rt, rapid.IntRange(2, 6).Draw(rt, "arms"))
		before, after := make([]table.Arm, len(shares)), make([]table.Arm, len(shares))
		grown := rapid.IntRange(0, len(shares)-1).Draw(rt, "grown")
		if shares[grown] > 0.9 {
			return
		}
		to := rapid.Float64Range(shares[grown], 0.95).Draw(rt, "to")
		for i, s := range shares {
			before[i] = table.Arm{ID: fmt.Sprint("arm", i), Share: s}
			after[i] = table.Arm{ID: fmt.Sprint("arm", i), Share: s * (1 - to) / (1 - shares[grown])}
		}
		after[grown].Share = to
		moved := 0
		const keys = 2000
		for key := range uint64(keys) {
			a, b := Draw(before, key), Draw(after, key)
			if a == b {
				continue
			}
			if moved++; b != grown {
				rt.Fatalf("key %d moved from arm %d to %d, but only %d grew", key, a, b, grown)
			}
		}
		if more := to - shares[grown]; float64(moved)/keys > more+0.06 {
			rt.Fatalf("%d of %d keys moved for a growth of %v", moved, keys, more)
		}
	})
}

// A split with arms that are pinned: each conversation stays on its arm, and each arm on its clusters.
func TestACanaryOnClustersOfItsOwn(t *testing.T) {
	tab := fleetOf(t, "u us 0.6\nv us 0.2\ne eu 0.2")
	arms := []table.Arm{{ID: "stable", Share: 0.9, Clusters: []fleet.ClusterID{"u", "e"}}, {ID: "canary", Share: 0.1, Clusters: []fleet.ClusterID{"v"}}}
	hits := map[fleet.ClusterID]float64{}
	const n = 20_000
	for key := range uint64(n) {
		in := input(tab, only(arms[Draw(arms, key)].Clusters...))
		in.Key = key
		hits[Choose(in).Targets[0].Cluster.ID] += 100.0 / n
	}
	expect(t, "split", hits, map[fleet.ClusterID]float64{"v": 10, "u": 67.5, "e": 22.5})
}

// Whatever rules, orders and evidence say together, each only takes away: a request goes nowhere that
// any of them forbids, and what all allow and nothing has found dead is a target.
func TestEachRuleOnlyNarrows(t *testing.T) {
	regions := []string{"us", "eu", "de"}
	zones := map[fleet.RegionID]string{"us": "us", "eu": "eu", "de": "eu"}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(rt, "n")
		tab := fleetOf(t, lines(weightsOf(rt, n)), func(pb *routerpb.Table) {
			for i, c := range pb.Clusters {
				c.Kind = rapid.SampledFrom([]string{"gateway", "provider", "router"}).Draw(rt, "kind")
				pb.Weights[0].Clusters[i].Standby = pb.Weights[0].Clusters[i].Weight == 0 && rapid.Bool().Draw(rt, "standby")
			}
		})
		var ids []fleet.ClusterID
		for i := range n {
			ids = append(ids, fleet.ClusterID(fmt.Sprint("c", i)))
		}
		pick := func(label string) []fleet.ClusterID {
			return rapid.SliceOfDistinct(rapid.SampledFrom(append(ids, "unknown")), rapid.ID[fleet.ClusterID]).Draw(rt, label)
		}
		gone, dead := pick("evacuated"), pick("dead")
		in := input(tab, tenant(rapid.SampledFrom([]fleet.TenantID{"free", "german", "european"}).Draw(rt, "tenant")), func(in *Input) {
			in.Key, in.Hop = rapid.Uint64().Draw(rt, "key"), rapid.Bool().Draw(rt, "hop")
			in.Ceiling = rapid.SampledFrom([]float64{0, 0.6, 1}).Draw(rt, "ceiling")
			if rapid.Bool().Draw(rt, "pinned") {
				in.Only = pick("only")
			}
			if rapid.Bool().Draw(rt, "narrowed") {
				in.Residency = rapid.SliceOfDistinct(rapid.SampledFrom(append(regions, "moon")), rapid.ID[string]).Draw(rt, "residency")
			}
			in.Evacuated = func(id fleet.ClusterID) (string, bool) { return "", slices.Contains(gone, id) }
			in.Local = func(id fleet.ClusterID, _ *table.Tenant) Place {
				return Place{
					Unanswered: rapid.Bool().Draw(rt, "unanswered"), Trial: rapid.Bool().Draw(rt, "trial"), Share: rapid.Float64Range(0, 1).Draw(rt, "share"),
					Ejected: slices.Contains(dead, id), Busy: rapid.Bool().Draw(rt, "busy"), Saturation: rapid.Float64Range(0, 2).Draw(rt, "saturation"),
					Wait: time.Duration(rapid.IntRange(0, 3000).Draw(rt, "wait")) * time.Millisecond,
				}
			}
		})
		c := Choose(in)
		targets := map[fleet.ClusterID]bool{}
		for _, target := range c.Targets {
			targets[target.Cluster.ID] = true
		}
		for _, id := range ids {
			cl := tab.Clusters[id]
			zone := zones[cl.Region]
			away := cl.Region != "us"
			may := in.Tenant.Allows(cl.Region, zone) &&
				(len(in.Residency) == 0 || slices.Contains(in.Residency, string(cl.Region)) || slices.Contains(in.Residency, zone)) &&
				(len(in.Only) == 0 || slices.Contains(in.Only, id)) &&
				(away || cl.Kind != "router") && (!away || !in.Hop) && !slices.Contains(gone, id)
			if want := may && !slices.Contains(dead, id); targets[id] != want {
				rt.Fatalf("%s (%s in %s) is a target: %v, want %v; %s", id, cl.Kind, cl.Region, targets[id], want, told(c))
			}
		}
		if len(c.Targets)+len(c.Removed) != n {
			rt.Fatalf("%d targets and %d removed of %d clusters", len(c.Targets), len(c.Removed), n)
		}
		known := []string{Residency, Narrowed, Pinned, Self, Hopped, NotThere, Drained, Evacuated, Unhealthy, Ejected, NoSpill}
		for _, r := range c.Removed {
			if !slices.Contains(known, r.Reason) {
				rt.Fatalf("%q is not a reason of the set", r.Reason)
			}
		}
	})
}
