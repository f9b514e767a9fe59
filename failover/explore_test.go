package failover

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"anabranch/api/fleet"
)

// explored is a fleet whose faults come and go by chance, and what the real machine makes of it.
type explored struct {
	rnd     *rand.Rand
	regions []fleet.RegionID
	states  map[Place]Cluster
	fault   map[Place]string // name of one of spoilt, or empty
	cut     map[fleet.RegionID]bool
	drained map[fleet.ClusterID]bool
	pinned  map[Place]Pin
	at      time.Time
}

func explore(seed uint64) *explored {
	return &explored{
		rnd: rand.New(rand.NewPCG(seed, 1)), regions: []fleet.RegionID{"ap", "eu", "us"}[:2+seed%2],
		fault: map[Place]string{}, cut: map[fleet.RegionID]bool{}, drained: map[fleet.ClusterID]bool{}, pinned: map[Place]Pin{}, at: noon,
	}
}

func (x *explored) places() (out []Place) {
	for _, r := range x.regions {
		for _, c := range []string{"a", "b"} {
			for _, m := range []fleet.ModelID{"m", "n"} {
				out = append(out, Place{fleet.ClusterID(string(r) + "-" + c), m})
			}
		}
	}
	return out
}

func regionOf(at Place) fleet.RegionID { return fleet.RegionID(at.Cluster[:2]) }

// change makes something happen, or end.
func (x *explored) change() {
	all := x.places()
	at := all[x.rnd.IntN(len(all))]
	switch x.rnd.IntN(10) {
	case 0:
		x.cut[regionOf(at)] = !x.cut[regionOf(at)]
	case 1:
		x.drained[at.Cluster] = !x.drained[at.Cluster]
	case 8:
		x.pinned[at] = Pin{}
	case 9:
		x.pinned[at] = Pin{Until: x.at.Add(time.Duration(x.rnd.IntN(60)) * time.Second), Share: []float64{0, 0, 0.1, 0.5, 1}[x.rnd.IntN(5)]}
	case 2: // a whole region
		name := x.draw()
		for _, p := range all {
			if regionOf(p) == regionOf(at) {
				x.fault[p] = name
			}
		}
	case 3:
		x.fault[at] = ""
	default:
		x.fault[at] = x.draw()
	}
}

func (x *explored) draw() string {
	return []string{"", "nothing is ready", "all eject it", "one router at home ejects it", "others eject it", "half of its requests fail", "its region is silent", "it is full"}[x.rnd.IntN(8)]
}

func (x *explored) evidence() map[Place]Evidence {
	out := map[Place]Evidence{}
	for _, at := range x.places() {
		in := threeRegions(nil)[place("c-us")]
		in.Region, in.Drained, in.Pin = regionOf(at), x.drained[at.Cluster], x.pinned[at]
		kept := in.Sights[:3]
		for i := range kept {
			kept[i].Region = in.Region
			kept[i].Router = fleet.RouterID(fmt.Sprintf("r-%s-%d", in.Region, i))
		}
		for _, r := range x.regions {
			if r != in.Region {
				kept = append(kept, Sight{Router: "r-" + fleet.RouterID(r), Region: r, Requests: 20})
			}
		}
		in.Sights = kept
		if spoil := spoilt[x.fault[at]]; spoil != nil {
			spoil(&in)
		}
		for i := range in.Sights {
			if x.cut[in.Sights[i].Region] {
				in.Sights[i].Age = 20 * time.Second
			}
		}
		in.Quiet = Of(x.states, at).Cap() == 0
		out[at] = in
	}
	return out
}

// step looks once, and checks what must hold always.
func (x *explored) step(t *testing.T) {
	evidence := x.evidence()
	before, now := x.states, x.at
	x.states, _ = StepAll(x.states, evidence, func(Place) Config { return Config{TimeScale: 0.02} }, x.at)
	x.at = x.at.Add(time.Second)
	inUse, good := map[part]bool{}, map[part]bool{}
	for _, at := range x.places() {
		c := x.states[at]
		if c.Cap() < 0 || c.Cap() > 1 {
			t.Fatalf("%s may take %v of its weight", at, c.Cap())
		}
		if x.drained[at.Cluster] {
			if c.Cap() != 0 {
				t.Fatalf("%s is drained, %s, and may take %v", at, c.State, c.Cap())
			}
			continue
		}
		if pin := x.pinned[at]; pin.Holds(now) {
			if c.Cap() != pin.Share || c.State != Pinned {
				t.Fatalf("%s is pinned at %v, and may take %v: %s", at, pin.Share, c.Cap(), c.State)
			}
			if pin.Share == 0 { // as an operator wants it
				continue
			}
		} else if c.State == Pinned {
			t.Fatalf("%s is pinned after its pin has ended", at)
		}
		of := part{regionOf(at), at.Model}
		inUse[of] = inUse[of] || c.Cap() > 0
		good[of] = good[of] || judge(evidence[at], Config{}.ready()).good && before[at].State == Healthy
	}
	for of := range good {
		x.reach(t, of.model, good, inUse)
	}
	for _, model := range []fleet.ModelID{"m", "n"} {
		// An operator's drain or pin may leave what is evacuated as all that there is.
		if was, is := x.emptied(before, model, now), x.emptied(x.states, model, now); is > max(was, 1) {
			t.Fatalf("%d regions are evacuated of %s, and were %d: %+v", is, model, was, x.states)
		}
	}
}

// unwell tells of a place that is not healthy; empty: all are.
func (x *explored) unwell() string {
	for at, c := range x.states {
		if c.State != Healthy {
			return fmt.Sprintf("%s is %s: %s", at, c.State, c.Reason)
		}
	}
	return ""
}

// reach holds each residency that a tenant could have, one region or more, to what all tenants are owed: while a place
// where its requests may go is good, one where they may go is in use.
func (x *explored) reach(t *testing.T, model fleet.ModelID, good, inUse map[part]bool) {
	for set := 1; set < 1<<len(x.regions); set++ {
		alive, open := false, false
		for i, r := range x.regions {
			if set&(1<<i) != 0 {
				alive, open = alive || good[part{r, model}], open || inUse[part{r, model}]
			}
		}
		if alive && !open {
			t.Fatalf("tenants of residency %b of %v have no place of %s in use, and one is good: %+v", set, x.regions, model, x.states)
		}
	}
}

// emptied counts the regions of which all places of a model are out of use on evidence.
func (x *explored) emptied(states map[Place]Cluster, model fleet.ModelID, now time.Time) (n int) {
	all, gone := map[fleet.RegionID]int{}, map[fleet.RegionID]int{}
	for _, at := range x.places() {
		if at.Model != model || (Evidence{Drained: x.drained[at.Cluster], Pin: x.pinned[at]}).off(now) {
			continue
		}
		all[regionOf(at)]++
		if Of(states, at).Gone() {
			gone[regionOf(at)]++
		}
	}
	for r, count := range all {
		if gone[r] == count {
			n++
		}
	}
	return n
}

// Whatever comes and goes: never is all taken out of use while something is good,
// nor all that a residency allows while something of that is, never are two regions evacuated by
// evidence, what is drained gets nothing, what is pinned its share, caps are shares; and once all is repaired all comes back.
func TestWhateverHappensTheFleetStaysUpAndComesBack(t *testing.T) {
	runs, end := uint64(20), time.Time{}
	if os.Getenv("ANABRANCH_STRESS") != "" {
		runs, end = 1<<40, time.Now().Add(2*time.Minute)
	}
	for seed := range runs {
		if !end.IsZero() && time.Now().After(end) {
			t.Logf("%d stories", seed)
			break
		}
		x := explore(seed)
		for range 150 {
			if x.rnd.IntN(6) == 0 {
				x.change()
			}
			x.step(t)
		}
		clear(x.fault)
		clear(x.cut)
		clear(x.drained)
		clear(x.pinned)
		// Outages of more than half an hour would want an operator; none was. The longest wait is an hour, scaled.
		for range 600 {
			if x.step(t); x.unwell() == "" {
				break
			}
		}
		if still := x.unwell(); still != "" {
			t.Fatalf("seed %d: all is repaired, and %s", seed, still)
		}
	}
}

// 200 clusters of three models out of 30 each, seen by 5,000 routers: each by the 25 of its region, and by two
// hundred from elsewhere.
func BenchmarkStepAll(b *testing.B) {
	evidence := map[Place]Evidence{}
	for c := range 200 {
		for m := range 3 {
			in := Evidence{Region: fleet.RegionID(fmt.Sprint("r", c%20)), Capacity: 10, Objective: time.Second}
			for r := range 225 {
				in.Sights = append(in.Sights, Sight{
					Router: fleet.RouterID(fmt.Sprint("r", r)), Region: fleet.RegionID(fmt.Sprint("r", r%20)), Own: r < 25,
					Scraped: r < 25, Total: 4, Ready: 4, Requests: 20,
				})
			}
			evidence[place(fmt.Sprintf("c%d/m%d", c, (c+10*m)%30))] = in
		}
	}
	var states map[Place]Cluster
	at := noon
	for b.Loop() {
		states, _ = StepAll(states, evidence, defaults, at)
		at = at.Add(time.Second)
	}
	b.ReportMetric(float64(len(evidence)*225), "sights")
}
