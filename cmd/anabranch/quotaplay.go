package main

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/ratelimit"
	"anabranch/sim/workload"
)

// leastReserve is how many tokens routers set aside for an answer at least, as long as it is not known how
// long it becomes.
const leastReserve = 256

// mostNeed bounds the burst that a load is tried with: what a minute's bucket can count exactly.
const mostNeed = 70e9

// playedRequest is one request in virtual time.
type playedRequest struct {
	at            time.Duration
	input, output int64
	takes         time.Duration // until its answer is complete
}

// playedLimit is one limit that requests are played against. Of policy.LimitConcurrent Amount is how many
// may be open; the rest of the limit is for rates.
type playedLimit struct {
	kind string
	ratelimit.Limit
}

// played is what became of requests.
type played struct {
	Requests int `json:"requests"`
	Admitted int `json:"admitted"`
	Denied   int `json:"denied"`
	// Span is from the first request to the last.
	Span time.Duration `json:"-"`
	// FirstDenial is when somebody was refused first, FirstBy by what; below 0: nobody was.
	FirstDenial time.Duration `json:"-"`
	FirstBy     string        `json:"firstBy"`
	// DeniedBy counts refusals by the kind of limit that refused; several may refuse one request.
	DeniedBy map[string]int `json:"deniedBy"`
	// TooLarge are requests that cost more than the burst of a limit: they never pass.
	TooLarge map[string]int `json:"-"`
	// Longest is the longest time in which nobody was admitted who asked.
	Longest time.Duration `json:"-"`
	// Wait is the longest time that somebody was told to wait.
	Wait time.Duration `json:"-"`
	// Refill is how long after the last request all limits are full again.
	Refill time.Duration `json:"-"`
	// Lowest is the lowest that admissions brought each limit down to, in units below its burst: what burst
	// would have been enough, if nobody was refused. Of slots the most that were open.
	Lowest map[string]int64 `json:"-"`
	// PerMinute is what was asked of each limit on average, real sizes.
	PerMinute map[string]float64 `json:"-"`
}

// costs are what a request is to pay at a limit when it comes, and in the end. Routers know the length of a
// prompt, and set aside reserve tokens for the answer.
func (l *playedLimit) costs(r playedRequest, reserve int64) (first, last int64) {
	switch l.kind {
	case policy.LimitRequests, policy.LimitConcurrent:
		return 1, 1
	case policy.LimitInputTokens:
		return r.input, r.input
	case policy.LimitOutputTokens:
		return reserve, r.output
	}
	return r.input + reserve, r.input + r.output
}

// playing is a run of requests against limits. It has no clock.
type playing struct {
	limits  []playedLimit
	buckets []ratelimit.Bucket
	open    endings
	reserve int64
	out     played
	since   time.Duration // when the present time without an admission began; below 0: there is none
	costs   []int64       // of the request at hand
	asked   []float64
}

// ending is a request that is open.
type ending struct {
	at time.Duration
	playedRequest
}

// endings are open requests, the first to end in front.
type endings []ending

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].at < e[j].at }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }

// Push and Pop are for package heap.
func (e *endings) Push(x any) { *e = append(*e, x.(ending)) }

// Pop takes the last.
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newPlaying(limits []playedLimit, reserve int64) (*playing, error) {
	p := &playing{
		limits: limits, buckets: make([]ratelimit.Bucket, len(limits)), reserve: reserve, since: -1,
		costs: make([]int64, len(limits)), asked: make([]float64, len(limits)),
		out: played{FirstDenial: -1, DeniedBy: map[string]int{}, TooLarge: map[string]int{}, Lowest: map[string]int64{}, PerMinute: map[string]float64{}},
	}
	for i, l := range limits {
		if l.kind != policy.LimitConcurrent {
			if err := l.Validate(); err != nil {
				return nil, err
			}
		}
		p.buckets[i] = ratelimit.Full(l.Limit, 0)
	}
	return p, nil
}

// settle ends what has ended by now: what was set aside and not used is given back, what was used beyond is
// charged.
func (p *playing) settle(now time.Duration) {
	for len(p.open) > 0 && p.open[0].at <= now {
		done := heap.Pop(&p.open).(ending)
		for i := range p.limits {
			l := &p.limits[i]
			first, last := l.costs(done.playedRequest, p.reserve)
			if l.kind == policy.LimitConcurrent || first == last {
				continue
			}
			b := p.buckets[i].Refill(l.Limit, done.at.Microseconds())
			if last > first {
				b = b.Charge(l.Limit, last-first)
			} else {
				b = b.Give(l.Limit, first-last)
			}
			p.buckets[i] = b
		}
	}
}

// low remembers how far down a limit has come.
func (p *playing) low(i int) {
	l := &p.limits[i]
	down := l.Burst - p.buckets[i].Level
	if l.kind == policy.LimitConcurrent {
		down = int64(len(p.open))
	}
	p.out.Lowest[l.kind] = max(p.out.Lowest[l.kind], down)
}

// ask has a request come. Requests come in order.
func (p *playing) ask(r playedRequest) {
	p.settle(r.at)
	p.out.Requests++
	p.out.Span = r.at
	allowed := true
	for i := range p.limits {
		l := &p.limits[i]
		var last int64
		p.costs[i], last = l.costs(r, p.reserve)
		p.asked[i] += float64(last)
		if l.kind != policy.LimitConcurrent {
			p.buckets[i] = p.buckets[i].Refill(l.Limit, r.at.Microseconds())
		}
		if p.lacks(i) {
			allowed = false
			p.refuse(i, r.at)
		}
	}
	if !allowed {
		p.out.Denied++
		if p.since < 0 {
			p.since = r.at
		}
		p.out.Longest = max(p.out.Longest, r.at-p.since)
		return
	}
	if p.since >= 0 {
		p.out.Longest = max(p.out.Longest, r.at-p.since)
		p.since = -1
	}
	p.out.Admitted++
	heap.Push(&p.open, ending{r.at + r.takes, r})
	for i := range p.limits {
		if p.limits[i].kind != policy.LimitConcurrent {
			p.buckets[i] = p.buckets[i].Charge(p.limits[i].Limit, p.costs[i])
		}
		p.low(i)
	}
}

// lacks says whether a limit has no room for the request at hand.
func (p *playing) lacks(i int) bool {
	if p.limits[i].kind == policy.LimitConcurrent {
		return int64(len(p.open)) >= p.limits[i].Amount
	}
	return p.buckets[i].Level < p.costs[i]
}

// refuse notes that a limit refused.
func (p *playing) refuse(i int, at time.Duration) {
	l := &p.limits[i]
	p.out.DeniedBy[l.kind]++
	if p.out.FirstDenial < 0 {
		p.out.FirstDenial, p.out.FirstBy = at, l.kind
	}
	wait := time.Duration(0)
	switch {
	case l.kind == policy.LimitConcurrent:
		wait = p.open[0].at - at
	case p.costs[i] > l.Burst:
		p.out.TooLarge[l.kind]++
	default:
		wait = time.Duration(p.buckets[i].WaitMs(l.Limit, p.costs[i])) * time.Millisecond
	}
	p.out.Wait = max(p.out.Wait, wait)
}

// end settles all and gives the result.
func (p *playing) end() played {
	last := p.out.Span
	for _, e := range p.open {
		last = max(last, e.at)
	}
	p.settle(last)
	for i := range p.limits {
		l := &p.limits[i]
		full := last - p.out.Span
		if l.kind != policy.LimitConcurrent {
			b := p.buckets[i].Refill(l.Limit, last.Microseconds())
			full += time.Duration(b.WaitMs(l.Limit, l.Burst)) * time.Millisecond
		}
		p.out.Refill = max(p.out.Refill, full)
		if p.out.Span > 0 {
			p.out.PerMinute[l.kind] = p.asked[i] / p.out.Span.Minutes()
		}
	}
	return p.out
}

// quotaLoad is requests that can be played more than once.
type quotaLoad struct {
	open func() (workload.Source, error)
	// of makes a request of one of the workload's.
	of func(workload.Request) playedRequest
	// most requests are played.
	most int
}

// each plays all requests.
func (q *quotaLoad) each(f func(playedRequest)) error {
	s, err := q.open()
	if err != nil {
		return err
	}
	for range q.most {
		r, ok := s.Next()
		if !ok {
			break
		}
		f(q.of(r))
	}
	return workload.Err(s)
}

// reserve is what routers would set aside for an answer, once they have learned how long answers are: what
// nine of ten need, and no less than a small one.
func (q *quotaLoad) reserve() (int64, error) {
	var outputs []int64
	if err := q.each(func(r playedRequest) { outputs = append(outputs, r.output) }); err != nil {
		return 0, err
	}
	if len(outputs) == 0 {
		return 0, errNoLoad
	}
	slices.Sort(outputs)
	return max(outputs[(len(outputs)-1)*9/10], leastReserve), nil
}

// play plays a load against limits, and finds what burst each rate, and how many slots, would have admitted
// all of it. What is above any burst that can be counted is left out.
func (q *quotaLoad) play(limits []playedLimit) (out played, need map[string]int64, err error) {
	reserve, err := q.reserve()
	if err != nil {
		return out, nil, err
	}
	p, err := newPlaying(limits, reserve)
	if err != nil {
		return out, nil, err
	}
	if err := q.each(p.ask); err != nil {
		return out, nil, err
	}
	out = p.end()
	wide := slices.Clone(limits)
	for i := range wide {
		wide[i].Burst = int64(mostNeed)
		if wide[i].kind == policy.LimitConcurrent {
			wide[i].Amount = int64(mostNeed)
		}
	}
	if p, err = newPlaying(wide, reserve); err != nil {
		return out, nil, fmt.Errorf("find the burst: %w", err)
	}
	if err := q.each(p.ask); err != nil {
		return out, nil, err
	}
	all := p.end()
	need = map[string]int64{}
	for kind, n := range all.Lowest {
		if all.Denied == 0 {
			need[kind] = n
		}
	}
	return out, need, nil
}
