package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"time"

	"anabranch/api/fleet"
)

// Origin is a region that requests come from.
type Origin struct {
	Region fleet.RegionID
	// Weight is its part of all requests, relative to the others'. 0: 1.
	Weight float64
	// Shift is how much later its day runs than the workload's: a curve that peaks at 14:00 peaks at
	// 14:00 + Shift.
	Shift time.Duration
}

// Share is one of several values, with its part of all requests relative to the others'. Weight 0: 1.
type Share[T any] struct {
	Value  T
	Weight float64
}

// Target is a model, and perhaps an adapter, with its part of all requests. Weight 0: 1.
type Target struct {
	Model   fleet.ModelID
	Adapter string
	Weight  float64
}

// Mix says who asks for what. What is left out stays empty in the requests.
type Mix struct {
	Tenants []Share[fleet.TenantID]
	Models  []Target
	// Priorities; none: 50, the standard tier's.
	Priorities []Share[int32]
	Classes    []Share[fleet.ClassID]
}

// standard is the priority of the standard tier, and batch of the batch tier.
const (
	standard int32 = 50
	batch    int32 = -10
)

// Validate names the field that is wrong, and the fix.
func (m Mix) Validate() error {
	_, err := newWheel("mix", m)
	return err
}

// weights are cumulative, for draws.
type weights []float64

// cumulate sums up n weights, of which 0 stands for 1.
func cumulate(field string, n int, weight func(i int) float64) (weights, error) {
	var out weights
	sum := 0.0
	for i := range n {
		w := weight(i)
		if w == 0 {
			w = 1
		}
		if !(w > 0) || math.IsInf(w, 0) {
			return nil, fmt.Errorf("%s[%d].weight: is %v: set a positive number", field, i, w)
		}
		sum += w
		out = append(out, sum)
	}
	return out, nil
}

// at is the index that u, 0 to below 1, falls on. There must be one weight at least.
func (w weights) at(u float64) int {
	x := u * w[len(w)-1]
	return min(sort.Search(len(w), func(i int) bool { return w[i] > x }), len(w)-1)
}

// part is the share of index i in all.
func (w weights) part(i int) float64 {
	if i == 0 {
		return w[0] / w[len(w)-1]
	}
	return (w[i] - w[i-1]) / w[len(w)-1]
}

// wheel draws from a mix.
type wheel struct {
	mix                                  Mix
	tenants, models, priorities, classes weights
}

func newWheel(field string, m Mix) (wheel, error) {
	w := wheel{mix: m}
	for i, t := range m.Tenants {
		if err := fleet.CheckName(string(t.Value)); err != nil {
			return w, fmt.Errorf("%s.tenants[%d]: %w", field, i, err)
		}
	}
	for i, t := range m.Models {
		if err := fleet.CheckModel(string(t.Model)); err != nil {
			return w, fmt.Errorf("%s.models[%d]: %w", field, i, err)
		}
	}
	var err error
	for _, x := range []struct {
		name   string
		n      int
		weight func(int) float64
		to     *weights
	}{
		{"tenants", len(m.Tenants), func(i int) float64 { return m.Tenants[i].Weight }, &w.tenants},
		{"models", len(m.Models), func(i int) float64 { return m.Models[i].Weight }, &w.models},
		{"priorities", len(m.Priorities), func(i int) float64 { return m.Priorities[i].Weight }, &w.priorities},
		{"classes", len(m.Classes), func(i int) float64 { return m.Classes[i].Weight }, &w.classes},
	} {
		if *x.to, err = cumulate(field+"."+x.name, x.n, x.weight); err != nil {
			return w, err
		}
	}
	return w, nil
}

// who draws everything. Whatever the mix holds, it takes four numbers, so that what comes after does
// not change with it.
func (w *wheel) who(rng *rand.Rand, r *Request) {
	u := [4]float64{rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64()}
	if len(w.tenants) > 0 {
		r.Tenant = w.mix.Tenants[w.tenants.at(u[0])].Value
	}
	if len(w.models) > 0 {
		t := w.mix.Models[w.models.at(u[1])]
		r.Model, r.Adapter = t.Model, t.Adapter
	}
	r.Priority = standard
	if len(w.priorities) > 0 {
		r.Priority = w.mix.Priorities[w.priorities.at(u[2])].Value
	}
	if len(w.classes) > 0 {
		r.Class = w.mix.Classes[w.classes.at(u[3])].Value
	}
}

// origins are the weights of regions; none: one without a name.
func origins(field string, list []Origin) ([]Origin, weights, error) {
	if len(list) == 0 {
		list = []Origin{{}}
	}
	for i, o := range list {
		if o.Region == "" && len(list) == 1 {
			continue
		}
		if err := fleet.CheckName(string(o.Region)); err != nil {
			return nil, nil, fmt.Errorf("%s[%d].region: %w", field, i, err)
		}
		if o.Shift < -maxDelay || o.Shift > maxDelay {
			return nil, nil, fmt.Errorf("%s[%d].shift: is %v: set at most %v", field, i, o.Shift, maxDelay)
		}
	}
	w, err := cumulate(field, len(list), func(i int) float64 { return list[i].Weight })
	return list, w, err
}
