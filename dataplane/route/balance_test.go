package route

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// desk is a router that sends requests with prompts of log-normal lengths over a table, and counts their work.
type desk struct {
	tab     *table.Table
	balance Balance
	now     time.Time
	rnd     *rand.Rand
	places  map[fleet.ClusterID]Place
	change  []func(*Input)
	choice  Choice

	work, long map[fleet.ClusterID]float64
	all        float64
}

func newDesk(t testing.TB, lines string) *desk {
	d := &desk{tab: fleetOf(t, lines), now: time.Unix(1_764_400_000, 0), rnd: rand.New(rand.NewPCG(1, 2))}
	d.again()
	return d
}

func (d *desk) again() {
	d.work, d.long, d.all = map[fleet.ClusterID]float64{}, map[fleet.ClusterID]float64{}, 0
}

// send lets requests come, a tenth of a second apart.
func (d *desk) send(n int) {
	for range n {
		d.now = d.now.Add(100 * time.Millisecond)
		d.one(int64(600 * math.Exp(d.rnd.NormFloat64())))
	}
}

func (d *desk) one(tokens int64) *Target {
	in := input(d.tab, d.change...)
	in.Key = d.rnd.Uint64()
	in.Local = func(id fleet.ClusterID, _ *table.Tenant) Place {
		p := d.places[id]
		p.Prefill = time.Duration(tokens) * 40 * time.Microsecond
		return p
	}
	in.Leaning = d.balance.Of("m", "interactive")
	d.choice.Fill(&in)
	if in.Long = in.Leaning.Long(tokens) && d.choice.Far(); in.Long {
		d.choice.Fill(&in)
	}
	work := float64(tokens) + 500
	in.Leaning.Sent(&d.choice, work, d.now)
	to := &d.choice.Targets[0]
	d.work[to.Cluster.ID] += work
	d.all += work
	if tokens > 3000 {
		d.long[to.Cluster.ID]++
	}
	return to
}

func TestLongPromptsStayNearAndSharesHold(t *testing.T) {
	tests := map[string]struct {
		fleet  string
		shares map[fleet.ClusterID]float64
		near   float64 // of the long prompts
	}{
		"most at home":   {"u us 0.6\ne eu 0.3\nd de 0.1", map[fleet.ClusterID]float64{"u": 0.6, "e": 0.3, "d": 0.1}, 0.99},
		"half at home":   {"u us 0.5\ne eu 0.5", map[fleet.ClusterID]float64{"u": 0.5, "e": 0.5}, 0.99},
		"little at home": {"u us 0.1\ne eu 0.9", map[fleet.ClusterID]float64{"u": 0.1, "e": 0.9}, 0},
		"two at home":    {"u us 0.4\nv us 0.2\ne eu 0.4", map[fleet.ClusterID]float64{"u": 0.4, "v": 0.2, "e": 0.4}, 0.99},
		"none at home":   {"u us 0\ne eu 0.5\nd de 0.5", map[fleet.ClusterID]float64{"e": 0.5, "d": 0.5}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, tt.fleet)
			d.send(2000)
			d.again()
			d.send(8000)
			for id, want := range tt.shares {
				if got := d.work[id] / d.all; math.Abs(got-want) > 0.04 {
					t.Errorf("%s got %.3f of the work, want %.3f", id, got, want)
				}
			}
			var long float64
			for _, n := range d.long {
				long += n
			}
			if home := d.long["u"] + d.long["v"]; long < 100 || home < tt.near*long {
				t.Errorf("of %g long prompts %g stayed at home, want %g of them", long, home, tt.near)
			}
		})
	}
}

func TestLongPromptsGoWhereTheyAreSoonest(t *testing.T) {
	tests := map[string]struct {
		fleet  string
		places map[fleet.ClusterID]Place
		change []func(*Input)
		want   string // for every key
	}{
		"home before a place far away":            {fleet: "u us 1e-9\ne eu 1", want: "u(long prompt) e(weight) |  |"},
		"not where it waits longer than the way":  {fleet: "u us 1e-9\ne eu 1", places: map[fleet.ClusterID]Place{"u": {Wait: ms(101), Saturation: 0.5}}, want: "e(weight) u(weight) |  |"},
		"not to one that is full":                 {fleet: "u us 1e-9\ne eu 1", places: map[fleet.ClusterID]Place{"u": {Saturation: 1}}, want: "e(weight) u(weight) |  |"},
		"nor one that is full for its priority":   {fleet: "u us 1e-9\ne eu 1", places: map[fleet.ClusterID]Place{"u": {Saturation: 0.6}}, change: []func(*Input){ceiling(0.6)}, want: "e(weight) u(weight) |  |"},
		"nor one that says so":                    {fleet: "u us 1e-9\ne eu 1", places: map[fleet.ClusterID]Place{"u": {Busy: true}}, want: "e(weight) u(weight) |  |"},
		"not to one that the table gives nothing": {fleet: "u us 0\ne eu 1", want: "e(weight) u(fallback) |  |"},
		"not where requests go unanswered":        {fleet: "u us 1e-9\ne eu 1", places: map[fleet.ClusterID]Place{"u": {Unanswered: true}}, want: "e(weight) u(unanswered) |  |"},
		"to the sooner of two":                    {fleet: "u us 1e-9\nv us 1e-9\ne eu 1", places: map[fleet.ClusterID]Place{"u": {Wait: ms(20)}}, want: "v(long prompt) e(weight) u(weight) |  |"},
		"not out of a pin":                        {fleet: "u us 1e-9\ne eu 1", change: []func(*Input){only("e")}, want: "e(weight) | u(pin) |"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tab := fleetOf(t, tt.fleet)
			for key := range uint64(20) {
				in := input(tab, append(tt.change, local(tt.places))...)
				in.Key, in.Long, in.Leaning = key, true, &Leaning{}
				c := Choose(in)
				if got := told(c); got != tt.want && len(c.Targets) < 3 || c.Targets[0].Reason != ByWeight && got[:2] != tt.want[:2] {
					t.Fatalf("got  %s\nwant %s", got, tt.want)
				}
			}
		})
	}
}

// Places that have had more than their share for long get no more than it for long prompts' sake.
func TestAShareThatIsUsedUpTakesNoMoreLongPrompts(t *testing.T) {
	d := newDesk(t, "u us 0.02\ne eu 0.98")
	d.send(10_000)
	if got := d.work["u"] / d.all; got > 0.06 {
		t.Errorf("home got %.3f of the work, its share is 0.02", got)
	}
}

func TestPromptsOfOneLengthAreNotLong(t *testing.T) {
	var l Leaning
	for i := range 1000 {
		if l.Long(1000) {
			t.Fatalf("request %d of 1000 tokens is long", i)
		}
	}
	long := 0
	for range 10_000 {
		if l.Long(int64(100 + rand.IntN(10_000))) {
			long++
		}
	}
	if long < 700 || long > 1300 {
		t.Errorf("%d of 10,000 are long, want about a tenth", long)
	}
}

// What chance does is made up for: after any number of requests no place is far from its share.
func TestSharesHoldWhateverComes(t *testing.T) {
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 9), 2, 5).Draw(t, "weights")
		sum, lines := 0.0, ""
		for _, w := range weights {
			sum += float64(w)
		}
		for i, w := range weights {
			lines += fmt.Sprintf("c%d %s %.15f\n", i, []string{"us", "eu", "de"}[i%3], float64(w)/sum)
		}
		d := &desk{tab: fleetOf(outer, lines), now: time.Unix(1_764_400_000, 0), rnd: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))}
		d.again()
		d.send(1500)
		d.again()
		d.send(1000)
		for i, w := range weights {
			id := fleet.ClusterID(fmt.Sprintf("c%d", i))
			if got, want := d.work[id]/d.all, float64(w)/sum; math.Abs(got-want) > 0.06 {
				t.Fatalf("%s got %.3f of the work, want %.3f of %v", id, got, want, weights)
			}
		}
	})
}

func TestOverflowIsNotMadeUpFor(t *testing.T) {
	d := newDesk(t, "u us 0.5\ne eu 0.5")
	d.places = map[fleet.ClusterID]Place{"u": {Saturation: 1.2, Wait: ms(5000)}}
	d.send(3000)
	if lean := d.balance.Of("m", "interactive").factor("u"); lean > 1.5 || lean < 0.6 {
		t.Errorf("the share of a full home counts %.2f times", lean)
	}
	if d.work["u"] != 0 {
		t.Errorf("the full home got %g work", d.work["u"])
	}
}

func TestWhatIsBehindFades(t *testing.T) {
	d := newDesk(t, "u us 0.1\ne eu 0.9")
	d.send(3000)
	l := d.balance.Of("m", "interactive")
	if f := l.factor("u"); f > 0.9 {
		t.Fatalf("the share of home, which long prompts want, counts %.2f times", f)
	}
	d.now = d.now.Add(2 * time.Hour)
	d.send(1)
	if f := l.factor("u"); math.Abs(f-1) > 0.1 {
		t.Errorf("two hours later it counts %.2f times", f)
	}
	if other := d.balance.Of("m", "bulk").factor("u"); other != 1 {
		t.Errorf("another class leans by %.2f", other)
	}
	var none *Leaning
	none.Sent(&d.choice, 1, d.now)
	if none.factor("u") != 1 || none.Long(1<<40) || none.mayHaveMore("u") {
		t.Error("no account leans, or knows what is long")
	}
}

func TestABalanceIsForMany(t *testing.T) {
	var b Balance
	tab := fleetOf(t, "u us 0.5\ne eu 0.5")
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			var c Choice
			for i := range 500 {
				in := input(tab)
				in.Key, in.Leaning = uint64(g*1000+i), b.Of("m", "interactive")
				in.Long = in.Leaning.Long(int64(i))
				c.Fill(&in)
				in.Leaning.Sent(&c, 100, time.Unix(int64(i), 0))
			}
		})
	}
	all.Wait()
	if f := b.Of("m", "interactive").factor("u") * b.Of("m", "interactive").factor("e"); math.Abs(f-1) > 1e-9 {
		t.Errorf("the places' factors multiply to %v: one is behind by what the other is ahead", f)
	}
}

func TestBalanceDoesNotAllocate(t *testing.T) {
	d := newDesk(t, "u us 0.4\nv us 0.3\ne eu 0.3")
	d.send(100)
	in := input(d.tab)
	in.Leaning = d.balance.Of("m", "interactive")
	if n := testing.AllocsPerRun(100, func() {
		in.Key++
		in.Long = in.Leaning.Long(int64(in.Key))
		d.choice.Fill(&in)
		in.Leaning.Sent(&d.choice, 500, d.now)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
