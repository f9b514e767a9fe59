package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// envelope holds spending to rate × t + burst over every window at once: a bucket that is full at
// the start, is never refilled by anybody's clock but the true one, and must not run dry.
type envelope struct {
	limit Limit
	parts int64 // a unit has as many as the period has microseconds
	atUs  int64
	sum   int64
}

func newEnvelope(l Limit) *envelope {
	return &envelope{limit: l, parts: l.Burst * l.PeriodMs * 1000}
}

// spend answers what is over the envelope, in units: 0 if nothing.
func (e *envelope) spend(n, nowUs int64) int64 {
	size := e.limit.PeriodMs * 1000
	e.parts = min(e.parts+(nowUs-e.atUs)*e.limit.Amount, e.limit.Burst*size)
	e.atUs = nowUs
	e.parts -= n * size
	e.sum += n
	return max(0, (size-1-e.parts)/size)
}

// faults of a run.
type faults struct {
	lose     float64 // part of calls that are lost on their way, and of answers
	crash    time.Duration
	backward time.Duration // the authority's clock steps back by as much every five seconds
}

// flight is a call on its way.
type flight struct {
	in               In
	out              Out
	arrives, answers int64
	lost, arrived    bool
}

// station is a router with its distance and its call on the way.
type station struct {
	*router
	rtt    int64
	flight *flight
	cut    bool // from the authority
}

// world runs routers at several distances from one authority, in virtual milliseconds.
type world struct {
	t        *testing.T
	random   *rand.Rand
	limits   []Limit
	account  Account
	stations []*station
	names    int
	offset   int64 // of the authority's clock, in microseconds
	faults   faults
}

func (w *world) station(rtt int64) *station {
	w.names++
	r := newRouter(fmt.Sprint("r", w.names), w.limits...)
	r.lead = Span(time.Duration(rtt) * time.Millisecond)
	return &station{router: r, rtt: rtt}
}

// message moves the router's call on.
func (w *world) message(s *station, now int64) {
	f := s.flight
	switch {
	case f == nil:
		if s.Due(now * ms) {
			in := s.call(now * ms)
			s.flight = &flight{in: in, arrives: now + s.rtt/2, answers: now + s.rtt, lost: s.cut || w.random.Float64() < w.faults.lose}
		}
	case now >= f.answers && (f.arrived || f.lost):
		if f.lost || w.random.Float64() < w.faults.lose {
			s.flight = nil // and is repeated
			return
		}
		s.Answer(f.out, now*ms)
		s.flight = nil
	case now >= f.arrives && !f.arrived && !f.lost:
		f.arrived = true
		if err := f.in.Validate(); err != nil {
			w.t.Fatal(err)
		}
		f.out = w.account.Lease(&f.in, now*1000+w.offset)
	}
}

// run lets as much be asked for as demand says (as a multiple of the limit) for so many seconds,
// and answers the part of the limit, without the burst, that was used.
func (w *world) run(demand float64, seconds int64) float64 {
	w.t.Helper()
	tokens := w.limits[0]
	over := newEnvelope(tokens)
	perMs := demand * float64(tokens.Amount) / float64(tokens.PeriodMs)
	owed := 0.0
	const start = 1_000_000 // ms
	over.atUs = start * 1000
	for now := int64(start); now < start+seconds*1000; now++ {
		if d := w.faults.crash.Milliseconds(); d > 0 && now%d == 0 {
			i := w.random.IntN(len(w.stations))
			w.stations[i] = w.station(w.stations[i].rtt)
		}
		if w.faults.backward > 0 && now%5000 == 0 {
			w.offset -= w.faults.backward.Microseconds()
		}
		for owed += perMs; owed > 0; {
			cost := 1 + w.random.Int64N(40)
			owed -= float64(cost)
			s := w.stations[w.random.IntN(len(w.stations))]
			if s.Spend([]int64{cost, 1}, now*ms) != Spent {
				continue
			}
			if excess := over.spend(cost, now*1000); excess > 0 {
				w.t.Fatalf("after %d ms %d more than rate × t + burst were spent", now-start, excess)
			}
		}
		for _, s := range w.stations {
			w.message(s, now)
		}
	}
	return float64(over.sum-tokens.Burst) / (float64(tokens.Amount) * float64(seconds) * 1000 / float64(tokens.PeriodMs))
}

// TestNeverMoreThanTheEnvelopeAndNearlyAllOfIt runs five routers at the distances of five regions.
func TestNeverMoreThanTheEnvelopeAndNearlyAllOfIt(t *testing.T) {
	for name, c := range map[string]struct {
		demand float64
		faults faults
		least  float64 // part of the limit that must be used
	}{
		"twice the limit":                 {demand: 2, least: 0.95},
		"five times the limit":            {demand: 5, least: 0.95},
		"lost calls and answers":          {demand: 2, faults: faults{lose: 0.2}, least: 0.95},
		"routers crash":                   {demand: 2, faults: faults{crash: 3 * time.Second}, least: 0.94},
		"the clock steps back":            {demand: 2, faults: faults{backward: time.Hour}, least: 0.95},
		"all at once":                     {demand: 3, faults: faults{0.1, 2 * time.Second, time.Minute}, least: 0.93},
		"half the limit is not cut short": {demand: 0.5, least: 0.35}, // and an eighth out of the burst
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				w := &world{
					t: t, random: rand.New(rand.NewPCG(seed, 3)), faults: c.faults,
					limits: []Limit{
						{ID: "tpm", Kind: TotalTokens, Amount: 120_000, PeriodMs: 60_000, Burst: 10_000},
						{ID: "rpm", Kind: Requests, Amount: 60_000, PeriodMs: 60_000, Burst: 60_000},
					},
				}
				for _, rtt := range []int64{1, 70, 90, 150, 210} {
					w.stations = append(w.stations, w.station(rtt))
				}
				used := w.run(c.demand, 40)
				t.Logf("seed %d: %.1f %% of the limit used", seed, 100*used)
				if used < c.least {
					t.Errorf("seed %d: only %.1f %% of the limit were used, want %.0f %%", seed, 100*used, 100*c.least)
				}
			}
		})
	}
}
