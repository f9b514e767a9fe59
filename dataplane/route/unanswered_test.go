package route

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// Where requests go unanswered comes last, and is never taken away.
func TestWhereRequestsGoUnanswered(t *testing.T) {
	const three = "u us 0.9999999\nv us 0.0000001\ne eu 0"
	mute, tried := Place{Unanswered: true}, Place{Unanswered: true, Trial: true}
	tests := []struct {
		name  string
		fleet string
		table []func(*routerpb.Table)
		in    []func(*Input)
		at    map[fleet.ClusterID]Place
		want  string
	}{
		{"after one with little weight and one with none", three, nil, nil, map[fleet.ClusterID]Place{"u": mute}, "v(weight) e(fallback) u(unanswered) |  |"},
		{"in their order where there are several", three, nil, nil, map[fleet.ClusterID]Place{"u": mute, "e": mute}, "v(weight) u(unanswered) e(unanswered) |  |"},
		{"in their order where that is everywhere", three, nil, nil, map[fleet.ClusterID]Place{"u": mute, "v": mute, "e": mute}, "u(unanswered) v(unanswered) e(unanswered) |  |"},
		{"where it is the only one", "u us 1", nil, nil, map[fleet.ClusterID]Place{"u": mute}, "u(unanswered) |  |"},
		{"where all others are dead", three, nil, nil, map[fleet.ClusterID]Place{"u": mute, "v": {Ejected: true}, "e": {Ejected: true}}, "u(unanswered) | v(ejected) e(ejected) |"},
		{"and dead too", three, nil, nil, map[fleet.ClusterID]Place{"u": {Unanswered: true, Ejected: true}}, "v(weight) e(fallback) | u(ejected) |"},
		{"after one on standby", three, []func(*routerpb.Table){standbyOf("e")}, nil, map[fleet.ClusterID]Place{"u": mute, "v": mute}, "e(standby) u(unanswered) v(unanswered) |  |"},
		{"not out of a pin", three, nil, []func(*Input){only("u")}, map[fleet.ClusterID]Place{"u": mute}, "u(unanswered) | v(pin) e(pin) |"},
		{"one request may try, by its draw", three, nil, nil, map[fleet.ClusterID]Place{"u": tried}, "u(trial) v(weight) e(fallback) |  |"},
		{"and only by its draw", three, nil, nil, map[fleet.ClusterID]Place{"v": tried, "e": tried}, "u(weight) v(trial) e(trial) |  |"},
		{
			"a trial is not put off by what is full there", three, nil, nil,
			map[fleet.ClusterID]Place{"u": {Unanswered: true, Trial: true, Saturation: 2, Wait: ms(9000)}},
			"u(trial) v(weight) e(fallback) |  |",
		},
		{
			"no overflow", three, nil, nil,
			map[fleet.ClusterID]Place{"u": {Saturation: 2, Wait: ms(9000)}, "v": mute},
			"e(local overflow) u(full) v(unanswered) |  |",
		},
		{
			"no overflow to a trial", three, nil, nil,
			map[fleet.ClusterID]Place{"u": {Saturation: 2, Wait: ms(9000)}, "v": tried},
			"e(local overflow) u(full) v(trial) |  |",
		},
		{
			"overflow among such where that is everywhere", three, nil, nil,
			map[fleet.ClusterID]Place{"u": {Unanswered: true, Saturation: 2, Wait: ms(9000)}, "v": mute, "e": mute},
			"v(local overflow) u(full) e(unanswered) |  |",
		},
		{"a class that does not spill does so then", "u us 1\ne eu 0", nil, []func(*Input){class("home")}, map[fleet.ClusterID]Place{"u": mute}, "e(fallback) u(unanswered) |  |"},
		{"and while one tries", "u us 1\ne eu 0", nil, []func(*Input){class("home")}, map[fleet.ClusterID]Place{"u": tried, "e": mute}, "u(trial) e(unanswered) |  |"},
		{"but not while another at home answers", "u us 0.5\nv us 0.5\ne eu 0", nil, []func(*Input){class("home")}, map[fleet.ClusterID]Place{"u": mute}, "v(weight) u(unanswered) | e(no spill) |"},
		{"one that answers again", three, nil, nil, map[fleet.ClusterID]Place{"u": {Share: 0.5}, "v": {Share: 1}, "e": {Share: 0.5}}, "u(returning) v(weight) e(fallback) |  |"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab := fleetOf(t, tt.fleet, tt.table...)
			for key := range uint64(20) {
				in := input(tab, append(tt.in, local(tt.at))...)
				in.Key = key
				if got := told(Choose(in)); got != tt.want {
					t.Fatalf("got  %s\nwant %s", got, tt.want)
				}
			}
		})
	}
}

// What returns gets its part of its weight, and takes no key from one of the others to another.
func TestWhatReturnsGetsAPartOfItsWeight(t *testing.T) {
	const keys = 4000
	for _, share := range []float64{0.1, 0.5, 1} {
		tab := fleetOf(t, "u us 0.5\nv us 0.3\ne eu 0.2")
		hits := 0
		for key := range uint64(keys) {
			in := input(tab)
			in.Key = key
			full := Choose(in).Targets[0].Cluster.ID
			local(map[fleet.ClusterID]Place{"u": {Share: share}})(&in)
			c := Choose(in)
			got := c.Targets[0].Cluster.ID
			if got != full && full != "u" {
				t.Fatalf("key %d: %s instead of %s", key, got, full)
			}
			if got == "u" {
				hits++
			}
		}
		want := 0.5 * share / (0.5*share + 0.5)
		if got := float64(hits) / keys; math.Abs(got-want) > 6*math.Sqrt(want*(1-want)/keys) {
			t.Errorf("with %v of its weight it gets %v of the keys, want %v", share, got, want)
		}
	}
}

// A place where requests go unanswered comes after each that answers, and it changes nothing of which
// places there are.
func TestUnansweredIsNeverARemoval(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(rt, "n")
		tab := fleetOf(t, lines(weightsOf(rt, n)))
		places := map[fleet.ClusterID]Place{}
		for i := range n {
			places[fleet.ClusterID(fmt.Sprint("c", i))] = Place{
				Ejected: rapid.IntRange(0, 3).Draw(rt, "ejected") == 0, Unanswered: rapid.Bool().Draw(rt, "unanswered"),
				Saturation: rapid.Float64Range(0, 2).Draw(rt, "saturation"), Busy: rapid.Bool().Draw(rt, "busy"),
			}
		}
		in := input(tab, local(places))
		in.Key = rapid.Uint64().Draw(rt, "key")
		c := Choose(in)
		last := false
		for _, x := range c.Targets {
			switch mute := places[x.Cluster.ID].Unanswered; {
			case last && !mute:
				rt.Fatalf("%s comes after one where requests go unanswered: %s", x.Cluster.ID, told(c))
			case mute:
				last = true
			}
		}
		for id, p := range places {
			p.Unanswered = false
			places[id] = p
		}
		if d := Choose(in); len(d.Targets) != len(c.Targets) || len(d.Removed) != len(c.Removed) {
			rt.Fatalf("%s, and %s if all were answered", told(c), told(d))
		}
	})
}
