package workload

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Traffic is what all generators have in common: when requests come, and from where.
type Traffic struct {
	// Seed of everything. Workloads that must not share prompts need different ones.
	Seed uint64
	// Arrivals says when.
	Arrivals Arrivals
	// Regions says from where. None: one without a name.
	Regions []Origin
	// Requests is how many there are, and Duration the time after which none comes. 0: no end.
	Requests int
	Duration time.Duration
}

// Validate names the field that is wrong, and the fix.
func (t Traffic) Validate() error {
	switch {
	case t.Requests < 0:
		return fmt.Errorf("requests: is %d: set 0 or more", t.Requests)
	case t.Duration < 0 || t.Duration > maxDelay:
		return fmt.Errorf("duration: is %v: set 0 to %v", t.Duration, maxDelay)
	}
	if err := t.Arrivals.Validate(); err != nil {
		return fmt.Errorf("arrivals: %w", err)
	}
	_, _, err := origins("regions", t.Regions)
	return err
}

// generator is a source whose requests don't depend on what became of others, but for the times of
// a closed loop.
type generator struct {
	traffic Traffic
	origins []Origin
	pace    pace
	// prompt fills in all but ID, time and region.
	prompt  func(r *Request)
	clients map[uint64]int // of requests in flight in a closed loop; nil: an open one
	given   int
	last    time.Duration
}

// newGenerator starts checked traffic.
func newGenerator(t Traffic, prompt func(r *Request)) (*generator, error) {
	list, w, err := origins("regions", t.Regions)
	if err != nil {
		return nil, err
	}
	g := &generator{
		traffic: t, origins: list, prompt: prompt,
		pace: newPace(t.Arrivals, list, w, t.Seed, t.Duration),
	}
	if t.Arrivals.Clients > 0 {
		g.clients = map[uint64]int{}
	}
	return g, nil
}

func (g *generator) full() bool { return g.traffic.Requests > 0 && g.given >= g.traffic.Requests }

// Peek is the time of the next request.
func (g *generator) Peek() (time.Duration, bool) {
	a, ok := g.pace.peek()
	if !ok || g.full() {
		return 0, false
	}
	return max(a.at, g.last), true
}

// Next is the next request.
func (g *generator) Next() (Request, bool) {
	at, ok := g.Peek()
	if !ok {
		return Request{}, false
	}
	a, _ := g.pace.peek()
	g.pace.pop()
	g.given++
	g.last = at
	r := Request{ID: uint64(g.given), At: at, Region: g.origins[a.origin].Region}
	g.prompt(&r)
	if g.clients != nil {
		g.clients[r.ID] = a.client
	}
	return r, true
}

// Done lets a client of a closed loop go on.
func (g *generator) Done(id uint64, at time.Duration, _ bool) {
	if client, ok := g.clients[id]; ok {
		delete(g.clients, id)
		g.pace.done(client, at)
	}
}

// Ended says that nothing will come any more.
func (g *generator) Ended() bool { return g.full() || g.pace.ended() }

// lengthsOf draws prompt and output; a number each, whatever they are.
func lengthsOf(rng *rand.Rand, prompt, output Lengths) (in, out int) {
	u, v := rng.Float64(), rng.Float64()
	return prompt.Quantile(u), output.Quantile(v)
}

// checkAll validates fields in order and names the first that is wrong.
func checkAll(fields ...check) error {
	for _, f := range fields {
		if err := f.what.Validate(); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

type check struct {
	name string
	what interface{ Validate() error }
}
