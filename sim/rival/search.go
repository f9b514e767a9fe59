package rival

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Trial is one set of parameters and how it did.
type Trial struct {
	Values map[string]float64
	Score  float64 // the less the better
}

// Search looks for the parameters with which a policy does best, so that it is compared at its best: first
// the defaults, then weights that are shares at the corners of their simplex and the middles between
// them, then each other parameter's values one after the other, then small moves around the best until
// nothing gets better. It stops after budget runs; what o sets itself stays as it is. run gives a score,
// the less the better, such as a mean over seeds of the 99th percentile of first-token times; it is
// called with all parameters, and not twice with the same. All trials are returned too, in their order.
// A policy without parameters is run once.
func Search(ctx context.Context, name string, o Options, budget int, run func(context.Context, Options) (float64, error)) (Trial, []Trial, error) {
	k, ok := find(name)
	if !ok {
		return Trial{}, nil, fmt.Errorf("policy %q is not one of %s", name, strings.Join(Names(), ", "))
	}
	start, err := complete(k, o.Values)
	if err != nil {
		return Trial{}, nil, err
	}
	s := search{options: o, left: max(1, budget), run: run, seen: map[string]bool{}}
	fixed := func(p Parameter) bool {
		_, ok := o.Values[p.Name]
		return ok
	}
	shares := !slices.ContainsFunc(k.parameters, func(p Parameter) bool { return p.Share && fixed(p) })
	for _, p := range k.parameters {
		switch {
		case p.Share && shares:
			s.shares = append(s.shares, p.Name)
		case len(p.Try) > 0 && !fixed(p):
			s.others = append(s.others, p)
		}
	}
	if err := s.try(ctx, start); err != nil {
		return Trial{}, nil, fmt.Errorf("search parameters of %s: %w", name, err)
	}
	if err := s.all(ctx); err != nil {
		return Trial{}, nil, fmt.Errorf("search parameters of %s: %w", name, err)
	}
	return s.best, s.trials, nil
}

type search struct {
	options Options
	shares  []string
	others  []Parameter
	left    int
	run     func(context.Context, Options) (float64, error)
	seen    map[string]bool
	best    Trial
	trials  []Trial
}

// steps are the shares that are moved from one weight to another, in turn.
var steps = []float64{0.25, 0.125, 0.0625}

func (s *search) all(ctx context.Context) error {
	for _, point := range middles(len(s.shares)) {
		if err := s.try(ctx, s.with(point)); err != nil {
			return err
		}
	}
	for i := 0; ; {
		before := s.best.Score
		if err := s.values(ctx); err != nil {
			return err
		}
		if len(s.shares) > 0 && i < len(steps) {
			if err := s.move(ctx, steps[i]); err != nil {
				return err
			}
		}
		switch {
		case s.left == 0:
			return nil
		case s.best.Score < before:
		case len(s.shares) > 0 && i+1 < len(steps):
			i++
		default:
			return nil
		}
	}
}

// values tries those of each parameter that is no share, the others as they are best.
func (s *search) values(ctx context.Context) error {
	for _, p := range s.others {
		base := maps.Clone(s.best.Values)
		for _, x := range p.Try {
			next := maps.Clone(base)
			next[p.Name] = x
			if err := s.try(ctx, next); err != nil {
				return err
			}
		}
	}
	return nil
}

// move shifts a share between each two weights, from where it was best.
func (s *search) move(ctx context.Context, step float64) error {
	base := maps.Clone(s.best.Values)
	for _, from := range s.shares {
		for _, to := range s.shares {
			moved := min(step, base[from])
			if from == to || moved <= 0 {
				continue
			}
			next := maps.Clone(base)
			next[from] -= moved
			next[to] += moved
			if err := s.try(ctx, next); err != nil {
				return err
			}
		}
	}
	return nil
}

// with is the best so far with other shares.
func (s *search) with(point []float64) values {
	next := maps.Clone(s.best.Values)
	for i, name := range s.shares {
		next[name] = point[i]
	}
	return next
}

// try runs values that have not been run, if a run is left.
func (s *search) try(ctx context.Context, v values) error {
	key := fmt.Sprint(map[string]float64(v)) // in the order of names
	if s.left == 0 || s.seen[key] {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.seen[key] = true
	s.left--
	o := s.options
	o.Values = maps.Clone(v)
	score, err := s.run(ctx, o)
	if err != nil {
		return err
	}
	t := Trial{Values: maps.Clone(v), Score: score}
	s.trials = append(s.trials, t)
	if len(s.trials) == 1 || t.Score < s.best.Score {
		s.best = t
	}
	return nil
}

// middles are the corners of a simplex of n weights and the middles of its edges, faces and so on: for
// each set of weights the point where these are equal and the others 0. Smaller sets come first.
func middles(n int) [][]float64 {
	if n == 0 {
		return nil
	}
	var points [][]float64
	for size := 1; size <= n; size++ {
		for set := 1; set < 1<<n; set++ {
			point := make([]float64, n)
			count := 0
			for i := range point {
				if set>>i&1 == 1 {
					point[i] = 1
					count++
				}
			}
			if count != size {
				continue
			}
			for i := range point {
				point[i] /= float64(count)
			}
			points = append(points, point)
		}
	}
	return points
}
