package rival

import (
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// TestMishaps plays all policies through what may happen to a fleet. They differ in how well they come
// through; none may go on sending to what is dead, and all come back.
func TestMishaps(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const start, length = 5 * time.Second, 5 * time.Second
	for _, c := range []struct {
		name   string
		event  world.Event
		during int // of 25 a second, how many may fail while it lasts
	}{
		{"a pod dies", world.Event{Kind: world.PodLoss, Cluster: "c-us-east-1", Pod: 1}, 30},
		{"half of the pods die", world.Event{Kind: world.HalfPods, Cluster: "c-us-east-1"}, 50},
		{"a cluster dies", world.Event{Kind: world.Lost, Cluster: "c-eu-west-1"}, 40},
		{"a region is cut off", world.Event{Kind: world.Partition, Region: "eu-west-1"}, 60},
		{"nothing is told of a region", world.Event{Kind: world.Blackout, Region: "eu-west-1"}, 0},
		{"a pod is slow", world.Event{Kind: world.Slow, Cluster: "c-us-east-1", Pod: 0, Factor: 3}, 0},
		{"pods come", world.Event{Kind: world.ScaleOut, Cluster: "c-us-east-1", Count: 2}, 0},
		{"a pod goes", world.Event{Kind: world.ScaleIn, Cluster: "c-us-east-1"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := three()
			spec.Warmup = 0
			for i := range spec.Regions {
				spec.Regions[i].Routers = 2
				spec.Regions[i].Skew = time.Duration(i) * 700 * time.Millisecond
			}
			c.event.At, c.event.For = start, length
			spec.Events = []world.Event{c.event}
			for _, name := range Names() {
				f := play(t, spec, uniform(25, 400, everywhere...), name, Options{})
				var during, after int
				for _, x := range f.result.Records {
					switch {
					case x.End == world.OK:
					case x.At < start+length+time.Second:
						during++
					default:
						after++
					}
				}
				if during > c.during || after > 0 {
					t.Errorf("%s: %d failed, and %d when it was over", name, during, after)
				}
			}
		})
	}
}

// TestHang: a hung cluster's gauges stand still, so who believes them goes on sending. A bound on silence
// tells, and then the cluster is ejected.
func TestHang(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	spec := three()
	spec.Warmup, spec.Timeout = 0, 10*time.Second
	spec.Events = []world.Event{{At: 10 * time.Second, Kind: world.Hang, Cluster: "c-ap-northeast-1"}}
	late := func(name string, bound time.Duration) int {
		n := 0
		for _, x := range play(t, spec, uniform(25, 1000, everywhere...), name, Options{Bound: bound}).result.Records {
			if x.At > 25*time.Second && x.End != world.OK {
				n++
			}
		}
		return n
	}
	if got := late("random", 0); got < 50 {
		t.Errorf("two of nine pods hang, and %d of 375 requests at random fail", got)
	}
	for _, name := range Names() {
		if got := late(name, time.Second); got > 4 {
			t.Errorf("%s: %d of 375 failed 15 s later, though silence is bounded", name, got)
		}
	}
}

// TestTooLongForAllPods ends at once, without attempts elsewhere.
func TestTooLongForAllPods(t *testing.T) {
	spec := one(2, 16_000)
	spec.Warmup = 0
	load := workload.Uniform{
		Traffic: workload.Traffic{Seed: 1, Arrivals: workload.Arrivals{Rate: 5}, Requests: 20, Regions: []workload.Origin{{Region: fleet.RegionID("us-east-1")}}},
		Prompt:  workload.Lengths{Min: 1000, Max: 30_000}, Output: workload.Lengths{Fixed: 10},
	}
	for _, name := range Names() {
		f := play(t, spec, load, name, Options{})
		for _, x := range f.result.Records {
			if (x.End == world.OK) != (x.Prompt+10 <= 16_000) {
				t.Errorf("%s: a prompt of %d tokens ends as %d", name, x.Prompt, x.End)
			}
		}
	}
}
