package world

import (
	"math"
	"testing"
	"time"

	"anabranch/sim/workload"
)

func uniform(t *testing.T, n int, rate float64) workload.Source {
	t.Helper()
	source, err := workload.Uniform{Traffic: workload.Traffic{
		Seed: 5, Requests: n, Arrivals: workload.Arrivals{Rate: rate}, Regions: []workload.Origin{{Region: "us-east-1"}, {Region: "eu-west-1"}},
	}}.Source()
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func TestSeedsDiffer(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) string {
		s := three(2)
		s.Jitter = 0.2
		r, err := Run(t.Context(), s, uniform(t, 50, 20), &turns{}, Options{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		r.Seed = 0
		return encoded(t, r)
	}
	one, again, two := run(1), run(1), run(2)
	if one != again {
		t.Error("one seed gives two results")
	}
	if one == two {
		t.Error("two seeds give one result")
	}
}

// Whatever a policy makes of other requests, the same requests meet the same routers and ways.
func TestPoliciesMeetTheSameChances(t *testing.T) {
	t.Parallel()
	run := func(draws int) map[uint64][2]int64 {
		s := three(2)
		s.Jitter, s.Regions[0].Routers = 1, 4
		met := map[uint64][2]int64{}
		p := &turns{}
		p.route = func(r *workload.Request, v *View) (Route, bool) {
			for range draws {
				v.Rand.Uint64()
			}
			if r.ID%2 == 0 && draws > 0 {
				return Route{Cluster: -1}, true
			}
			return Route{Cluster: 2}, true // which is across the sea
		}
		p.pick = func(r *workload.Request, _, _ int, v *View) (Pick, bool) {
			met[r.ID] = [2]int64{int64(v.Router), int64(v.Now - r.At)}
			return Pick{Pod: 0}, true
		}
		if _, err := Run(t.Context(), s, uniform(t, 200, 20), p, Options{Seed: 4}); err != nil {
			t.Fatal(err)
		}
		return met
	}
	few, all := run(3), run(0)
	ways := map[int64]bool{}
	for id, x := range few {
		if all[id] != x {
			t.Errorf("request %d met router %d after %d ns under one, %v under another", id, x[0], x[1], all[id])
		}
		ways[x[1]] = true
	}
	if len(few) != 100 || len(all) != 200 || len(ways) < 90 {
		t.Errorf("%d and %d requests, on %d ways", len(few), len(all), len(ways))
	}
}

func TestChanceIsEven(t *testing.T) {
	t.Parallel()
	const n = 20_000
	for what := forRouters; what <= forPolicy; what++ {
		sum, square, lag := 0.0, 0.0, 0.0
		before := 0.5
		for i := range n {
			u := chance(7).unit(what, uint64(i/10), uint64(i%10))
			if u < 0 || u >= 1 {
				t.Fatalf("%v is not in [0, 1)", u)
			}
			sum, square, lag = sum+u, square+u*u, lag+(u-0.5)*(before-0.5)
			before = u
		}
		// Five standard errors of each.
		if math.Abs(sum/n-0.5) > 5*0.29/math.Sqrt(n) || math.Abs(square/n-1.0/3) > 5*0.3/math.Sqrt(n) || math.Abs(lag/n) > 5*0.084/math.Sqrt(n) {
			t.Errorf("%d: mean %v, mean square %v, covariance with the next %v", what, sum/n, square/n, lag/n)
		}
	}
}

func TestRequestsWithoutRegionComeFromAll(t *testing.T) {
	t.Parallel()
	s := three(1)
	s.Regions[2].Routers = 2
	var requests []workload.Request
	for i := range 400 {
		r := ask(uint64(i+1), time.Duration(i)*ms, 1)
		r.Region = ""
		requests = append(requests, r)
	}
	r := play(t, s, &turns{local: true}, requests...)
	var from [3]int
	for _, rec := range r.Records {
		from[rec.Region]++
	}
	for i, n := range from {
		if n < 100 || n > 166 {
			t.Errorf("%d of 400 came from region %d", n, i)
		}
	}
}
