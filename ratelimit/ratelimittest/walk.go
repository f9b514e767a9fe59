package ratelimittest

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"anabranch/ratelimit"
)

// model is a bucket as one would write it down: a fraction that grows with time. It is slow and
// exact, and shares no arithmetic with the package.
type model struct {
	limit ratelimit.Limit
	held  *big.Rat
	stamp int64
}

func newModel(l ratelimit.Limit, now int64) *model {
	return &model{limit: l, held: new(big.Rat).SetInt64(l.Burst), stamp: now}
}

// at brings the model to the given time.
func (m *model) at(now int64) {
	m.stamp = min(m.stamp, now)
	unit := m.limit.Unit()
	passed := (now - m.stamp) / unit
	rate := big.NewRat(m.limit.Amount, m.limit.PeriodMs*1000/unit)
	m.held.Add(m.held, rate.Mul(rate, new(big.Rat).SetInt64(passed)))
	m.stamp += passed * unit
	if burst := new(big.Rat).SetInt64(m.limit.Burst); m.held.Cmp(burst) >= 0 {
		m.held, m.stamp = burst, now
	}
}

// add gives (or with n below 0 takes) units, within the bucket and its deepest debt.
func (m *model) add(n int64) {
	m.held.Add(m.held, new(big.Rat).SetInt64(n))
	if burst := new(big.Rat).SetInt64(m.limit.Burst); m.held.Cmp(burst) > 0 {
		m.held = burst
	}
	if level, part := m.split(); level < -m.limit.Burst {
		// The debt is cut in whole units.
		m.held.SetInt64(-m.limit.Burst)
		m.held.Add(m.held, part)
	}
}

// split is the whole units and the rest.
func (m *model) split() (int64, *big.Rat) {
	whole := new(big.Int)
	whole.Div(m.held.Num(), m.held.Denom()) // Euclidean, so floor
	return whole.Int64(), new(big.Rat).Sub(m.held, new(big.Rat).SetInt(whole))
}

// bucket is the model as the package would store it.
func (m *model) bucket() ratelimit.Bucket {
	level, part := m.split()
	part.Mul(part, new(big.Rat).SetInt64(m.limit.Period()))
	return ratelimit.Bucket{Level: level, StampUs: m.stamp, Part: part.Num().Int64()}
}

// sizes of limits from the odd and small to the largest that can be counted.
var sizes = []ratelimit.Limit{
	{Kind: ratelimit.Requests, Amount: 60, PeriodMs: 60_000, Burst: 60},
	{Kind: ratelimit.Requests, Amount: 7, PeriodMs: 13, Burst: 3},
	{Kind: ratelimit.InputTokens, Amount: 100_000, PeriodMs: 60_000, Burst: 30_000},
	{Kind: ratelimit.OutputTokens, Amount: 74_999_999, PeriodMs: 60_000, Burst: 74_000_000},
	{Kind: ratelimit.TotalTokens, Amount: 150_000_001, PeriodMs: 60_000, Burst: 150_000_001},
	{Kind: ratelimit.TotalTokens, Amount: 70_000_000_019, PeriodMs: 60_000, Burst: 70_000_000_019},
	{Kind: ratelimit.Requests, Amount: 1, PeriodMs: 86_400_000, Burst: 1},
	{Kind: ratelimit.TotalTokens, Amount: 999_983, PeriodMs: 1, Burst: 5},
}

func walks(t *testing.T, fresh maker) {
	for seed := range uint64(len(sizes)) {
		walk(t, fresh, seed)
	}
}

// walk makes random calls on a path of two limits and compares every answer and every stored
// bucket with the model.
func walk(t *testing.T, fresh maker, seed uint64) {
	t.Helper()
	steps := 2500
	if testing.Short() {
		steps = 250
	}
	random := rand.New(rand.NewPCG(seed, 7))
	s, clock := fresh(t)
	a, b := sizes[seed], sizes[random.IntN(len(sizes))]
	a.ID, b.ID = "a", "b"
	models := []*model{newModel(a, Start), newModel(b, Start)}
	path := []ratelimit.Charge{{Limit: a}, {Limit: b}}
	for i := range steps {
		clock.Set(later(random, clock.Micros(), path[i%2].Limit))
		for j := range path {
			path[j].Cost = random.Int64N(2 + path[j].Limit.Burst/(1+random.Int64N(200)))
			models[j].at(clock.Micros())
		}
		if random.IntN(4) == 0 {
			for j := range path {
				path[j].Cost *= 3 * int64(random.IntN(3)-1)
				models[j].add(-path[j].Cost)
			}
			if err := s.Adjust(t.Context(), "acme", path); err != nil {
				t.Fatalf("seed %d step %d: %v", seed, i, err)
			}
		} else {
			la, _ := models[0].split()
			lb, _ := models[1].split()
			want := la >= path[0].Cost && lb >= path[1].Cost
			if want {
				models[0].add(-path[0].Cost)
				models[1].add(-path[1].Cost)
			}
			d, err := s.Take(t.Context(), "acme", path)
			if err != nil || d.Allowed != want {
				t.Fatalf("seed %d step %d: allowed %v, model says %v (error %v), path %+v", seed, i, d.Allowed, want, err, path)
			}
		}
		for j := range path {
			if got, ok := s.Bucket("acme", path[j].Limit.ID); !ok || got != models[j].bucket() {
				t.Fatalf("seed %d step %d limit %+v: bucket %+v, model says %+v", seed, i, path[j].Limit, got, models[j].bucket())
			}
		}
	}
}

// later is the time of the next call: usually a little later, sometimes the same, sometimes long
// after, and sometimes the clock has been set back.
func later(random *rand.Rand, now int64, l ratelimit.Limit) int64 {
	fill := l.FillMs()*1000 + 1
	switch random.IntN(12) {
	case 0:
		return now
	case 1:
		return now + random.Int64N(min(fill, 1e13))
	case 2:
		return max(Start-1e12, now-random.Int64N(3_600_000_000))
	case 3:
		return now + 1
	}
	return now + random.Int64N(1+min(fill/50, 1e12))
}
