package workload

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
)

// gapsOf is the mean of the times between requests in seconds, and their coefficient of variation.
func gapsOf(list []Request) (mean, cv float64) {
	sum, squares := 0.0, 0.0
	for i := 1; i < len(list); i++ {
		gap := (list[i].At - list[i-1].At).Seconds()
		sum += gap
		squares += gap * gap
	}
	n := float64(len(list) - 1)
	mean = sum / n
	return mean, math.Sqrt(squares/n-mean*mean) / mean
}

func TestArrivalsHaveRateAndVariation(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, c := range []struct {
		name      string
		arrivals  Arrivals
		rate, cv  float64
		tolerance float64
	}{
		{"zero value is Poisson, one a second", Arrivals{}, 1, 1, 0.03},
		{"Poisson", Arrivals{Rate: 50}, 50, 1, 0.03},
		{"constant", Arrivals{Process: Constant, Rate: 4}, 4, 0, 1e-6},
		{"smooth Gamma", Arrivals{Process: Gamma, Rate: 5, CV: 0.3}, 5, 0.3, 0.03},
		{"bursty Gamma", Arrivals{Process: Gamma, Rate: 5, CV: 3}, 5, 3, 0.1},
		{"Gamma by default", Arrivals{Process: Gamma, Rate: 5}, 5, 2, 0.08},
		// The CV of a Weibull distribution is √(Γ(1+2/k)/Γ(1+1/k)² - 1): √5 for a half, √19 for a third.
		{"Weibull by default", Arrivals{Process: Weibull, Rate: 10}, 10, math.Sqrt(5), 0.08},
		{"bursty Weibull", Arrivals{Process: Weibull, Rate: 10, Shape: 1.0 / 3}, 10, math.Sqrt(19), 0.15},
		{"exponential Weibull", Arrivals{Process: Weibull, Rate: 10, Shape: 1}, 10, 1, 0.03},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := take(t, Uniform{Traffic: Traffic{Seed: 3, Arrivals: c.arrivals}}, 60_000, 0)
			mean, cv := gapsOf(list)
			near(t, "the rate", 1/mean, c.rate, c.tolerance)
			if math.Abs(cv-c.cv) > c.tolerance*math.Max(c.cv, 0.1) {
				t.Errorf("CV is %v, want %v", cv, c.cv)
			}
		})
	}
}

func TestGammaAndExponentialDrawsHaveTheirMoments(t *testing.T) {
	for _, shape := range []float64{0.05, 0.3, 1, 2.5, 40} {
		rng := random(9, tagArrivals)
		sum, squares := 0.0, 0.0
		const n = 200_000
		for range n {
			x := gammaDraw(rng, shape)
			sum += x
			squares += x * x
		}
		mean := sum / n
		near(t, "the mean", mean, shape, 0.05)
		near(t, "the variance", squares/n-mean*mean, shape, 0.08)
	}
}

func TestDayShapesTheRate(t *testing.T) {
	day := []float64{0, 1, 3, 0, 0, 0}
	list := take(t, Uniform{Traffic: Traffic{Seed: 1, Arrivals: Arrivals{Rate: 1, Day: day}, Duration: 12 * time.Hour}}, 1e6, 0)
	var hours [12]float64
	for _, r := range list {
		hours[int(r.At.Hours())]++
	}
	for h, n := range hours {
		want := 3600 * day[h%6]
		if math.Abs(n-want) > 4*math.Sqrt(want) {
			t.Errorf("hour %d has %v requests, want about %v", h, n, want)
		}
	}
}

func TestEachRegionHasItsPartOfTheRateAndItsOwnDay(t *testing.T) {
	spec := Uniform{Traffic: Traffic{
		Seed:     1,
		Arrivals: Arrivals{Process: Constant, Rate: 4, Day: []float64{1, 0, 0, 0}},
		Regions: []Origin{
			{Region: "us-east-1", Weight: 3},
			{Region: "eu-west-1", Shift: 2 * time.Hour},
		},
		Duration: 8 * time.Hour,
	}}
	type place struct {
		region fleet.RegionID
		hour   int
	}
	counts := map[place]int{}
	for _, r := range take(t, spec, 1e6, 0) {
		counts[place{r.Region, int(r.At.Hours())}]++
	}
	want := map[place]int{
		{"us-east-1", 0}: 10_800, {"us-east-1", 4}: 10_800,
		{"eu-west-1", 2}: 3600, {"eu-west-1", 6}: 3600,
	}
	for p, n := range want {
		if d := counts[p] - n; d < -1 || d > 1 {
			t.Errorf("%v has %d requests, want %d", p, counts[p], n)
		}
	}
	for p, n := range counts {
		if want[p] == 0 && n > 1 {
			t.Errorf("%v has %d requests, want none", p, n)
		}
	}
}

func TestShiftGoesBothWays(t *testing.T) {
	day := []float64{0, 0, 5, 0}
	for _, c := range []struct {
		shift time.Duration
		hour  int
	}{{0, 2}, {time.Hour, 3}, {-time.Hour, 1}, {-3 * time.Hour, 3}, {9 * time.Hour, 3}} {
		spec := Uniform{Traffic: Traffic{
			Arrivals: Arrivals{Day: day}, Duration: 4 * time.Hour, Regions: []Origin{{Region: "a", Shift: c.shift}},
		}}
		for _, r := range take(t, spec, 1e6, 0) {
			if int(r.At.Hours()) != c.hour {
				t.Fatalf("shifted by %v a request comes at %v, want hour %d alone", c.shift, r.At, c.hour)
			}
		}
	}
}

func TestBurstsKeepTheMeanRate(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	spec := Bursty{Traffic: Traffic{Seed: 4, Arrivals: Arrivals{Rate: 20, Burst: Burst{On: 10 * time.Second, Off: 30 * time.Second, Quiet: 0.1}}}}
	list := take(t, spec, 200_000, 0)
	mean, _ := gapsOf(list)
	near(t, "the rate", 1/mean, 20, 0.08)
	// In windows of a second the counts are those of two rates, not of one: 20·40/(10+3) is 61.5 a
	// second in a burst, and 6.15 in a silence.
	counts := map[int]int{}
	for _, r := range list {
		counts[int(r.At.Seconds())]++
	}
	low, high, middle := 0, 0, 0
	for s := range int(list[len(list)-1].At.Seconds()) {
		switch n := counts[s]; {
		case n <= 15:
			low++
		case n >= 40:
			high++
		default:
			middle++
		}
	}
	all := float64(low + high + middle)
	near(t, "the part of silences", float64(low)/all, 0.73, 0.08)
	near(t, "the part of bursts", float64(high)/all, 0.24, 0.15)
	if float64(middle)/all > 0.1 {
		t.Errorf("%v of the seconds are neither burst nor silence", float64(middle)/all)
	}
}

func TestBurstyIsBurstyByDefault(t *testing.T) {
	steady, bursty := take(t, Uniform{Traffic: Traffic{Arrivals: Arrivals{Rate: 10}}}, 20_000, 0), take(t, Bursty{Traffic: Traffic{Arrivals: Arrivals{Rate: 10}}}, 20_000, 0)
	_, a := gapsOf(steady)
	_, b := gapsOf(bursty)
	if b < 1.5*a {
		t.Errorf("CV is %v, and %v when steady", b, a)
	}
	if _, c := gapsOf(take(t, Bursty{Traffic: Traffic{Arrivals: Arrivals{Rate: 10, Process: Weibull, Shape: 2}}}, 20_000, 0)); c > 0.6 {
		t.Errorf("a process of one's own is made bursty: CV %v", c)
	}
}

func TestBadArrivals(t *testing.T) {
	for _, c := range []struct {
		arrivals Arrivals
		says     string
	}{
		{Arrivals{Rate: -1}, "rate: is -1"},
		{Arrivals{Rate: math.NaN()}, "rate: is NaN"},
		{Arrivals{Rate: 1e9}, "a million"},
		{Arrivals{Process: "pareto"}, `process: is "pareto": set poisson`},
		{Arrivals{Process: Gamma, CV: 100}, "cv: is 100"},
		{Arrivals{Process: Gamma, CV: math.NaN()}, "cv: is NaN"},
		{Arrivals{Process: Weibull, Shape: 0.01}, "shape: is 0.01"},
		{Arrivals{Day: []float64{1, -1}}, "day[1]: is -1"},
		{Arrivals{Day: []float64{0, 0}}, "one above 0"},
		{Arrivals{Day: make([]float64, 10_000)}, "up to a year"},
		{Arrivals{Burst: Burst{On: time.Second}}, "burst: on and off"},
		{Arrivals{Burst: Burst{On: time.Second, Off: time.Second, Quiet: 2}}, "burst.quiet: is 2"},
		{Arrivals{Burst: Burst{Quiet: 1}}, "burst: on and off"},
		{Arrivals{Clients: -1}, "clients: is -1"},
		{Arrivals{Clients: 2_000_000}, "clients: is 2000000"},
		{Arrivals{Clients: 1, Rate: 2}, "a closed loop has no rate"},
		{Arrivals{Think: Delays{Fixed: time.Second}}, "think:"},
		{Arrivals{Clients: 1, Think: Delays{Fixed: -1}}, "think: is negative"},
		{Arrivals{Clients: 1, Ramp: -1}, "ramp: is -1ns"},
	} {
		_, err := Uniform{Traffic: Traffic{Arrivals: c.arrivals}}.Source()
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "traffic: arrivals: ") {
			t.Errorf("%+v: error is %v, want one that says %q", c.arrivals, err, c.says)
		}
	}
}

func TestAnyArrivalsComeInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Arrivals{
			Process: rapid.SampledFrom([]Process{"", Poisson, Gamma, Weibull, Constant}).Draw(t, "process"),
			Rate:    rapid.Float64Range(0.001, 1e5).Draw(t, "rate"),
			CV:      rapid.Float64Range(0.05, 30).Draw(t, "cv"),
			Shape:   rapid.Float64Range(0.2, 20).Draw(t, "shape"),
			Day:     rapid.SliceOfN(rapid.Float64Range(0, 3), 0, 24).Draw(t, "day"),
		}
		if rapid.Bool().Draw(t, "bursts") {
			a.Burst = Burst{On: time.Second, Off: time.Minute, Quiet: rapid.Float64Range(0, 1).Draw(t, "quiet")}
		}
		tr := Traffic{Seed: rapid.Uint64().Draw(t, "seed"), Arrivals: a, Duration: time.Hour, Regions: []Origin{{Region: "a", Shift: time.Minute}, {Region: "b"}}}
		s, err := Uniform{Traffic: tr}.Source()
		if err != nil {
			if checkDay(a.Day) == nil {
				t.Fatal(err)
			}
			return
		}
		last := time.Duration(0)
		for range 200 {
			r, ok := s.Next()
			if !ok {
				if !s.Ended() {
					t.Fatal("an open loop gives nothing and has not ended")
				}
				return
			}
			if r.At < last || r.At >= time.Hour {
				t.Fatalf("request at %v after one at %v", r.At, last)
			}
			last = r.At
		}
	})
}
