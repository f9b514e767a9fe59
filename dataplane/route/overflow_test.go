package route

import (
	"fmt"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func ceiling(c float64) func(*Input) { return func(in *Input) { in.Ceiling = c } }

func TestOverflowByTimeToTheFirstToken(t *testing.T) {
	const two = "u us 1\ne eu 0" // 100 ms apart
	tests := []struct {
		name  string
		fleet string
		table []func(*routerpb.Table)
		in    []func(*Input)
		at    map[fleet.ClusterID]Place
		want  string
	}{
		{
			name: "just not sooner by the margin", fleet: two,
			at:   map[fleet.ClusterID]Place{"u": {Saturation: 1, Wait: ms(400)}, "e": {Wait: ms(200)}},
			want: "u(weight) e(fallback) |  |",
		},
		{
			name: "just sooner", fleet: two,
			at:   map[fleet.ClusterID]Place{"u": {Saturation: 1, Wait: ms(401)}, "e": {Wait: ms(200)}},
			want: "e(local overflow) u(full) |  |",
		},
		{
			name: "a warm cache here is worth the wait", fleet: two,
			at:   map[fleet.ClusterID]Place{"u": {Saturation: 1, Wait: ms(900), Prefill: ms(50)}, "e": {Prefill: ms(900)}},
			want: "u(weight) e(fallback) |  |",
		},
		{
			name: "a warm cache there is worth the way", fleet: two,
			at:   map[fleet.ClusterID]Place{"u": {Saturation: 1, Wait: ms(10), Prefill: ms(900)}, "e": {Wait: ms(10), Prefill: ms(50)}},
			want: "e(local overflow) u(full) |  |",
		},
		{
			name: "exactly full is full", fleet: two,
			at:   map[fleet.ClusterID]Place{"u": {Saturation: 1, Wait: ms(5000)}},
			want: "e(local overflow) u(full) |  |",
		},
		{
			name: "just not full", fleet: two,
			at:   map[fleet.ClusterID]Place{"u": {Saturation: 0.999, Wait: ms(5000)}},
			want: "u(weight) e(fallback) |  |",
		},
		{
			name: "full for this priority", fleet: two, in: []func(*Input){ceiling(0.6)},
			at:   map[fleet.ClusterID]Place{"u": {Saturation: 0.6, Wait: ms(5000)}},
			want: "e(local overflow) u(full) |  |",
		},
		{
			name: "the other is full for this priority too", fleet: two, in: []func(*Input){ceiling(0.6)},
			at:   map[fleet.ClusterID]Place{"u": {Saturation: 0.7, Wait: ms(5000)}, "e": {Saturation: 0.65}},
			want: "u(weight) e(fallback) |  |",
		},
		{
			name: "said that it has no room", fleet: two,
			at:   map[fleet.ClusterID]Place{"u": {Busy: true, Wait: ms(5000)}},
			want: "e(local overflow) u(full) |  |",
		},
		{
			name: "the other said so", fleet: two,
			at:   map[fleet.ClusterID]Place{"u": {Saturation: 2, Wait: ms(5000)}, "e": {Busy: true}},
			want: "u(weight) e(fallback) |  |",
		},
		{
			name: "full with a wait that is not known counts as the objective", fleet: two,
			at:   map[fleet.ClusterID]Place{"u": {Busy: true}},
			want: "e(local overflow) u(full) |  |",
		},
		{
			name: "but not as more", fleet: two,
			at:   map[fleet.ClusterID]Place{"u": {Busy: true}, "e": {Wait: ms(1900)}},
			want: "u(weight) e(fallback) |  |",
		},
		{
			name: "a provider's way counts too", fleet: two, table: []func(*routerpb.Table){kind("e", "provider")},
			at:   map[fleet.ClusterID]Place{"u": {Saturation: 1, Wait: ms(150)}},
			want: "u(weight) e(fallback) |  |",
		},
		{
			name: "home before a full place abroad", fleet: "u us 0\ne eu 1",
			at:   map[fleet.ClusterID]Place{"e": {Saturation: 1.5, Wait: ms(500)}},
			want: "u(local overflow) e(full) |  |",
		},
		{
			name: "never to where the policy sends nothing", fleet: two, table: []func(*routerpb.Table){standbyOf("e")},
			at:   map[fleet.ClusterID]Place{"u": {Saturation: 3, Wait: ms(9000)}},
			want: "u(weight) e(standby) |  |",
		},
		{
			name: "nor to what returns in steps and has no share yet", fleet: two, table: []func(*routerpb.Table){capped("e", 0.05)},
			at:   map[fleet.ClusterID]Place{"u": {Saturation: 3, Wait: ms(9000)}},
			want: "u(weight) e(fallback) |  |",
		},
		{
			name: "to what returns in steps within its share", fleet: "u us 0.9999999\ne eu 0.0000001", table: []func(*routerpb.Table){capped("e", 0.05)},
			at:   map[fleet.ClusterID]Place{"u": {Saturation: 3, Wait: ms(9000)}},
			want: "e(local overflow) u(full) |  |",
		},
		{
			name: "past one that is full to the next with room", fleet: "u us 0.9999999\nv us 0.0000001\ne eu 0",
			at:   map[fleet.ClusterID]Place{"u": {Saturation: 1.5, Wait: ms(5000)}, "v": {Saturation: 1.5, Wait: ms(5000)}},
			want: "e(local overflow) u(full) v(weight) |  |",
		},
		{
			name: "to one with weight before one without", fleet: "u us 0.9999999\nv us 0.0000001\ne eu 0",
			at:   map[fleet.ClusterID]Place{"u": {Saturation: 1.5, Wait: ms(5000)}, "v": {Wait: ms(900)}},
			want: "v(local overflow) u(full) e(fallback) |  |",
		},
		{
			name: "not out of a pin", fleet: two, in: []func(*Input){only("u")},
			at:   map[fleet.ClusterID]Place{"u": {Saturation: 3, Wait: ms(9000)}},
			want: "u(weight) | e(pin) |",
		},
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

// All of a key's overflow goes to one place as long as that has room, so that one cache warms up for
// it; other keys have other places.
func TestOverflowWarmsUpOnePlaceForEachKey(t *testing.T) {
	tab := fleetOf(t, "u us 1\ne eu 0\nd de 0")
	went := map[fleet.ClusterID]int{}
	for key := range uint64(400) {
		var first fleet.ClusterID
		for _, wait := range []int{800, 2000, 9000} {
			in := input(tab, local(map[fleet.ClusterID]Place{
				"u": {Saturation: 1.2, Wait: ms(wait)}, "e": {Wait: ms(wait / 10)}, "d": {Wait: ms(int(key) % 100)},
			}))
			in.Key = key
			got := Choose(in).Targets[0].Cluster.ID
			if first == "" {
				first = got
			}
			if got != first || got == "u" {
				t.Fatalf("key %d goes to %s, and then to %s", key, first, got)
			}
		}
		went[first]++
	}
	if went["e"] < 150 || went["d"] < 150 {
		t.Errorf("went %v", went)
	}
}

func TestAChoiceIsFilledAgain(t *testing.T) {
	tab := fleetOf(t, "u us 0.5\ne eu 0.5\na ap 0")
	var c Choice
	for key := range uint64(50) {
		in := input(tab)
		in.Key = key
		if key%3 == 0 {
			tenant("lunar")(&in)
		}
		c.Fill(&in)
		if fresh := Choose(in); told(c) != told(fresh) {
			t.Fatalf("key %d: %s, anew %s", key, told(c), told(fresh))
		}
	}
}

func TestFillDoesNotAllocate(t *testing.T) {
	tab := fleetOf(t, "u us 0.4\nv us 0.3\ne eu 0.2\nd de 0.1\na ap 0")
	places := map[fleet.ClusterID]Place{"u": {Saturation: 1.5, Wait: time.Second}, "v": {Ejected: true, Reason: "3 connect failures"}, "d": {Unanswered: true}}
	in := input(tab, local(places), evacuated("e", "by ann"), narrowed("us", "eu"), only("u", "v", "e", "d"))
	var c Choice
	if n := testing.AllocsPerRun(100, func() {
		in.Key++
		c.Fill(&in)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	if len(c.Targets) == 0 || len(c.Removed) == 0 {
		t.Errorf("nothing to see: %s", told(c))
	}
}

func BenchmarkFill(b *testing.B) {
	for _, n := range []int{4, 16, 64} {
		b.Run(fmt.Sprintf("clusters=%d", n), func(b *testing.B) {
			weights := make([]float64, n)
			for i := range weights {
				weights[i] = 1 / float64(n)
			}
			in := input(fleetOf(b, lines(weights)), local(map[fleet.ClusterID]Place{"c1": {Saturation: 2, Wait: time.Second}}))
			var c Choice
			b.ReportAllocs()
			for b.Loop() {
				in.Key++
				if c.Fill(&in); len(c.Targets) != n {
					b.Fatal("targets")
				}
			}
		})
	}
}
