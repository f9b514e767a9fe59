package rival

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
)

// bowl has its least at the given values.
func bowl(at map[string]float64, runs *int) func(context.Context, Options) (float64, error) {
	return func(_ context.Context, o Options) (float64, error) {
		*runs++
		var score float64
		for name, x := range at {
			score += (o.Values[name] - x) * (o.Values[name] - x)
		}
		return score, nil
	}
}

func TestSearchFindsTheLeast(t *testing.T) {
	for _, c := range []struct {
		name string
		at   map[string]float64
		off  float64 // how far a value may be
	}{
		{"aws-gig", map[string]float64{kvHeadroom: 0.1, queueDepth: 0.55, regionProximity: 0.35, errorRate: 0, guard: 2, tier1: 1}, 0.07},
		{"spill", map[string]float64{threshold: 0.75, countOwn: 0}, 0},
		{"prefix-hash", map[string]float64{concurrency: 8, prefixLength: 16384}, 0},
		{"oracle", map[string]float64{queueCost: 1.5, wasteCost: 4}, 0},
	} {
		runs := 0
		best, trials, err := Search(t.Context(), c.name, Options{}, 200, bowl(c.at, &runs))
		if err != nil {
			t.Fatal(err)
		}
		if runs != len(trials) || runs > 200 {
			t.Errorf("%s: %d runs, %d trials", c.name, runs, len(trials))
		}
		var sum float64
		for name, want := range c.at {
			if got := best.Values[name]; math.Abs(got-want) > c.off+1e-9 {
				t.Errorf("%s: %s is %v, want %v, after %d runs", c.name, name, got, want, runs)
			}
		}
		for _, p := range Parameters(c.name) {
			if p.Share {
				sum += best.Values[p.Name]
			}
		}
		if c.name == "aws-gig" && math.Abs(sum-1) > 1e-9 {
			t.Errorf("weights sum to %v", sum)
		}
		if _, err := New(c.name, Options{Values: best.Values}); err != nil {
			t.Errorf("what was found can't be used: %v", err)
		}
	}
}

func TestSearchNeverLosesToTheDefaults(t *testing.T) {
	runs := 0
	// The defaults are the least of all.
	best, trials, err := Search(t.Context(), "aws-gig", Options{}, 30, bowl(weights(0.25, 0.25, 0.25, 0.25), &runs))
	if err != nil || best.Score != 0 || trials[0].Score != 0 {
		t.Errorf("best is %+v, %v", best, err)
	}
	if runs != 30 {
		t.Errorf("%d runs of a budget of 30", runs)
	}
}

func TestSearchKeepsWhatIsSet(t *testing.T) {
	fixed := weights(0.4, 0.3, 0.2, 0.1)
	fixed[guard] = 4
	best, trials, err := Search(t.Context(), "aws-gig", Options{Values: fixed, NoResidency: true}, 100, func(_ context.Context, o Options) (float64, error) {
		if !o.NoResidency {
			t.Error("the other options are lost")
		}
		return o.Values[tier1] + o.Values[countOwn], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range fixed {
		for _, trial := range trials {
			if trial.Values[name] != x {
				t.Fatalf("%s was set to %v and tried as %v", name, x, trial.Values[name])
			}
		}
	}
	if best.Score != 0 {
		t.Errorf("best is %+v", best)
	}
}

func TestSearchOfAPolicyWithoutParameters(t *testing.T) {
	runs := 0
	if _, trials, err := Search(t.Context(), "random", Options{}, 10, bowl(nil, &runs)); err != nil || len(trials) != 1 || runs != 1 {
		t.Errorf("%d trials, %d runs, %v, want one each", len(trials), runs, err)
	}
}

func TestSearchStops(t *testing.T) {
	broken := errors.New("no such trace")
	_, _, err := Search(t.Context(), "spill", Options{}, 10, func(context.Context, Options) (float64, error) { return 0, broken })
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "search parameters of spill") {
		t.Errorf("error of the run: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	runs := 0
	_, _, err = Search(ctx, "spill", Options{}, 10, func(context.Context, Options) (float64, error) {
		if runs++; runs == 3 {
			cancel()
		}
		return 1, nil
	})
	if !errors.Is(err, context.Canceled) || runs != 3 {
		t.Errorf("after it was stopped: %v, %d runs", err, runs)
	}
	if _, _, err := Search(t.Context(), "best", Options{}, 10, nil); err == nil {
		t.Error("a policy that there isn't was searched")
	}
	if _, _, err := Search(t.Context(), "spill", Options{Values: map[string]float64{"x": 1}}, 10, nil); err == nil {
		t.Error("a parameter that there isn't was taken")
	}
}

func TestMiddles(t *testing.T) {
	points := middles(4)
	if len(points) != 15 {
		t.Errorf("%d points, want 4 corners, 6 edges, 4 faces and the centre", len(points))
	}
	for i, p := range points {
		var sum float64
		for _, x := range p {
			sum += x
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("point %d, %v, sums to %v", i, p, sum)
		}
	}
	if middles(0) != nil {
		t.Error("no weights have points")
	}
}
