package route

import (
	"testing"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// What the control plane saw of health ages: of places that this router does not see itself first, then
// of all. What it decided does not.
func TestHealthIsBelievedAsFarAsTheSightGoes(t *testing.T) {
	const fleet3 = "u us 1\nv us 0\ne eu 0"
	stale := func(in *Input) { in.Stale = true }
	alone := func(in *Input) { in.Stale, in.Alone = true, true }
	dead := local(map[fleet.ClusterID]Place{"v": {Ejected: true, Reason: "3 connect failures"}})
	provider := func(pb *routerpb.Table) { find(pb, "e").Kind = "provider" }
	for _, c := range []struct {
		name  string
		table []func(*routerpb.Table)
		in    []func(*Input)
		want  string
	}{
		{
			"current: what is unhealthy gets nothing",
			[]func(*routerpb.Table){capped("v", 0), capped("e", 0)},
			nil,
			"u(weight) | v(health) e(health) |",
		},
		{
			"stale: what is seen from here is believed, what is not is a last resort",
			[]func(*routerpb.Table){capped("v", 0), capped("e", 0)},
			[]func(*Input){stale},
			"u(weight) e(fallback) | v(health) |",
		},
		{
			"stale: a provider is seen from here",
			[]func(*routerpb.Table){capped("e", 0), provider},
			[]func(*Input){stale},
			"u(weight) v(fallback) | e(health) |",
		},
		{
			"alone: nothing is believed",
			[]func(*routerpb.Table){capped("v", 0), capped("e", 0)},
			[]func(*Input){alone, local(nil)},
			"u(weight) v(fallback) e(fallback) |  |",
		},
		{
			"alone: but what this router sees",
			[]func(*routerpb.Table){capped("v", 0), capped("e", 0)},
			[]func(*Input){alone, dead},
			"u(weight) e(fallback) | v(ejected: 3 connect failures) |",
		},
		{
			"alone: weights hold",
			[]func(*routerpb.Table){capped("u", 0.5)},
			[]func(*Input){alone, dead},
			"u(weight) e(fallback) | v(ejected: 3 connect failures) |",
		},
		{
			"alone: drains hold",
			[]func(*routerpb.Table){drained("v"), capped("e", 0)},
			[]func(*Input){alone},
			"u(weight) e(fallback) | v(drained) |",
		},
		{
			"alone: residency holds",
			[]func(*routerpb.Table){capped("u", 0), capped("v", 0)},
			[]func(*Input){alone, tenant("european")},
			"e(fallback) | u(residency) v(residency) |",
		},
		{
			"alone: all unhealthy is no reason to refuse",
			[]func(*routerpb.Table){capped("u", 0), capped("v", 0), capped("e", 0)},
			[]func(*Input){alone, dead},
			"u(weight) e(fallback) | v(ejected: 3 connect failures) |",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := told(Choose(input(fleetOf(t, fleet3, c.table...), c.in...))); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// A place whose health is not known gets overflow only when nobody else's word on it is believed.
func TestOverflowToAPlaceThatReturnsInSteps(t *testing.T) {
	tab := fleetOf(t, "u us 1\ne eu 0", capped("e", 0.5))
	full := local(map[fleet.ClusterID]Place{"u": {Saturation: 2, Wait: 10e9}})
	for name, c := range map[string]struct {
		stale, alone bool
		want         string
	}{
		"current": {false, false, "u(weight) e(fallback) |  |"},
		"stale":   {true, false, "u(weight) e(fallback) |  |"},
		"alone":   {true, true, "e(local overflow) u(full) |  |"},
	} {
		if got := told(Choose(input(tab, full, func(in *Input) { in.Stale, in.Alone = c.stale, c.alone }))); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Less sight never takes a place away, and never brings one in but those that health kept out.
func TestLessSightOnlyAddsWhatHealthKeptOut(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		share := func(name string) float64 { return rapid.SampledFrom([]float64{0, 0.25, 1}).Draw(rt, name) }
		tab := fleetOf(t, "u us 1\nv us 0\ne eu 0\nd de 0", capped("u", share("u")), capped("v", share("v")), capped("e", share("e")), capped("d", share("d")))
		key := rapid.Uint64().Draw(rt, "key")
		ids := func(stale, alone bool) map[*table.Cluster]string {
			all := map[*table.Cluster]string{}
			c := Choose(input(tab, func(in *Input) { in.Key, in.Stale, in.Alone = key, stale, alone }))
			for _, x := range c.Targets {
				all[x.Cluster] = "target"
			}
			for _, x := range c.Removed {
				all[tab.Clusters[x.Cluster]] = x.Reason
			}
			return all
		}
		last := ids(false, false)
		for _, next := range []map[*table.Cluster]string{ids(true, false), ids(true, true)} {
			for cluster, was := range last {
				if is := next[cluster]; is != was && (was != Unhealthy || is != "target") {
					rt.Fatalf("%s was %s and is %s", cluster.ID, was, is)
				}
			}
			last = next
		}
		for cluster, is := range last {
			if is == Unhealthy {
				rt.Fatalf("%s is left out for its health by a router that is alone", cluster.ID)
			}
		}
	})
}
