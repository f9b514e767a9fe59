package ratelimittest

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"anabranch/ratelimit"
)

// leaseSizes are limits of all kinds, from the odd and small to those counted in milliseconds.
var leaseSizes = []ratelimit.Limit{
	{ID: "rpm", Kind: ratelimit.Requests, Amount: 60, PeriodMs: 60_000, Burst: 60},
	{ID: "odd", Kind: ratelimit.Requests, Amount: 7, PeriodMs: 13, Burst: 3},
	{ID: "in", Kind: ratelimit.InputTokens, Amount: 100_000, PeriodMs: 60_000, Burst: 30_000},
	{ID: "out", Kind: ratelimit.OutputTokens, Amount: 74_999_999, PeriodMs: 60_000, Burst: 74_000_000},
	{ID: "total", Kind: ratelimit.TotalTokens, Amount: 150_000_001, PeriodMs: 60_000, Burst: 150_000_001},
	{ID: "fast", Kind: ratelimit.TotalTokens, Amount: 1000, PeriodMs: 1, Burst: 5_000_000},
	{ID: "slots", Kind: ratelimit.Slots, Burst: 10},
	{ID: "money", Kind: ratelimit.Money, Burst: 5_000_000},
}

// walker makes up the calls of some routers, as they might make them.
type walker struct {
	random *rand.Rand
	wild   bool
	sizes  []ratelimit.Limit
	seqs   map[string]int64
	held   map[string][]int64
	last   ratelimit.In
	policy int64
	epoch  int64
	names  int
	shares []ratelimit.Share
	// away is a region that is cut off, for so many calls.
	away string
	left int
}

// walkRegions are those of a walk's routers; the last is one of which nobody calls.
var walkRegions = []string{"eu", "us", "ap", "sa"}

func newWalker(seed uint64, wild bool) *walker {
	return &walker{
		random: rand.New(rand.NewPCG(seed, 11)), wild: wild, sizes: leaseSizes,
		seqs: map[string]int64{}, held: map[string][]int64{}, policy: 1, epoch: 1, names: 3,
		shares: []ratelimit.Share{{Region: "eu", Parts: 500_000}, {Region: "us", Parts: 300_001}, {Region: "ap", Parts: 99_999}, {Region: "sa", Parts: 100_000}},
	}
}

// call is the next call: now and then the one before again, as after a lost answer.
func (w *walker) call(now int64) ratelimit.In {
	if w.last.Seq > 0 && w.random.IntN(12) == 0 {
		return w.last
	}
	in := Call()
	in.Young = w.epoch == 1
	in.Policy, in.Epoch = w.policy, w.epoch
	// A router that crashes never comes back under its name.
	if w.random.IntN(50) == 0 {
		w.names++
	}
	router := w.names - w.random.IntN(3)
	if w.left--; w.left < 0 {
		w.away, w.left = walkRegions[w.random.IntN(len(walkRegions))], w.random.IntN(100)
	}
	for walkRegions[router%3] == w.away {
		router = w.names - w.random.IntN(3)
	}
	in.Router, in.Region, in.Shares = "r"+strconv.Itoa(router), walkRegions[router%3], w.shares
	if w.random.IntN(100) == 0 {
		in.Region = ""
	}
	first := w.random.IntN(len(w.sizes) - 2)
	for _, size := range w.sizes[first : first+1+w.random.IntN(3)] {
		in.Path = append(in.Path, ratelimit.Level{Limit: size, Cold: 20})
	}
	lane := in.Lane()
	w.seqs[lane]++
	in.Seq = w.seqs[lane]
	for i := range in.Path {
		w.tell(&in.Path[i], lane, i, now)
	}
	if w.wild {
		w.spoil(&in)
	}
	w.last = in
	return in
}

func (w *walker) tell(l *ratelimit.Level, lane string, i int, now int64) {
	var held int64
	if h := w.held[lane]; i < len(h) {
		held = h[i]
	}
	burst := l.Limit.Burst
	l.Want = w.random.Int64N(2 + burst/(1+w.random.Int64N(50)))
	part := func() int64 { return w.random.Int64N(held + 1) }
	if l.Limit.Kind == ratelimit.Money {
		hour := int64(3_600_000_000)
		l.Window = ratelimit.Window{FromUs: now - now%hour, NextUs: now - now%hour + hour, Spent: -1}
	}
	if l.Limit.Kind == ratelimit.Slots {
		l.Alone = w.random.IntN(4) > 0
		l.Back = part()
		return
	}
	l.Used = part()
	switch w.random.IntN(8) {
	case 0:
		l.Used += w.random.Int64N(burst/4 + 1)
	case 1:
		l.Refund = w.random.Int64N(burst/4 + 1)
	case 2:
		l.Back = max(held-l.Used, 0)
	}
}

// spoil makes a call such as no sound router would make, or after something else has changed.
func (w *walker) spoil(in *ratelimit.In) {
	l := &in.Path[w.random.IntN(len(in.Path))]
	switch w.random.IntN(43) {
	case 42: // its clock is wrong
		off := (w.random.Int64N(9) - 4) * 3_600_000_000
		l.Window.FromUs, l.Window.NextUs = max(0, l.Window.FromUs+off), max(1, l.Window.NextUs+off)
	case 40:
		w.shares = nil
		for i, parts := range ratelimit.Shares([]int64{w.random.Int64N(9), w.random.Int64N(9), 1, 0}, w.random.Int64N(300_000)) {
			w.shares = append(w.shares, ratelimit.Share{Region: walkRegions[i], Parts: parts})
		}
	case 41:
		in.Shares = in.Shares[:w.random.IntN(1+len(in.Shares))]
	case 0:
		in.Policy = max(0, w.policy-1)
	case 1:
		w.policy++
		w.sizes = append([]ratelimit.Limit(nil), w.sizes...)
		s := &w.sizes[w.random.IntN(len(w.sizes))]
		s.Burst = 1 + w.random.Int64N(2*s.Burst)
	case 2:
		if w.random.IntN(5) == 0 {
			w.epoch++
		}
	case 3:
		in.Seq = max(1, in.Seq-2)
	case 4:
		in.TTL = time.Duration(100+w.random.IntN(3000)) * time.Millisecond
	case 5:
		l.Back = w.random.Int64N(1 << 62)
	case 6:
		l.Want = w.random.Int64N(1 << 36)
	case 7:
		l.Cold = w.random.Int64N(101)
	case 8:
		l.Window.Spent = w.random.Int64N(1 << 40)
	case 9:
		if l.Limit.Kind != ratelimit.Slots {
			l.Used, l.Refund = w.random.Int64N(1<<62), w.random.Int64N(1<<62)
		}
	}
}

// heard notes what the router holds from now on. Some answers are lost.
func (w *walker) heard(in *ratelimit.In, out ratelimit.Out) {
	if out.Status != ratelimit.Granted {
		return
	}
	held := make([]int64, len(out.Path))
	for i := range held {
		held[i] = out.Path[i].Held
	}
	w.held[in.Lane()] = held
}

// pause is the time to the next call: mostly well within a ttl, sometimes long.
func (w *walker) pause(now int64) int64 {
	switch w.random.IntN(40) {
	case 0:
		w.names += 3 // after so long, answers are no longer repeated
		w.last = ratelimit.In{}
		return now + w.random.Int64N(600_000_000)
	case 1:
		return now + w.random.Int64N(5_000_000)
	case 2, 3, 4:
		return now
	case 5:
		if w.wild {
			return max(Start-1e12, now-w.random.Int64N(3_600_000_000))
		}
	}
	return now + w.random.Int64N(200_000)
}

// leaseWalk makes calls and holds every answer to the model's.
func leaseWalk(t *testing.T, fresh lenderMaker, steps int) {
	s, clock := fresh(t)
	w, m := newWalker(1, false), newLeaseModel(ratelimit.DefaultTTL)
	for i := range steps {
		in := w.call(clock.Micros())
		got, err := s.Lease(t.Context(), in)
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if want := m.lease(in, clock.Micros()); !same(got, want) {
			t.Fatalf("step %d at %d: %+v\ngot  %+v\nwant %+v", i, clock.Micros()-Start, in, got, want)
		}
		w.heard(&in, got)
		clock.Set(w.pause(clock.Micros()))
	}
}

// wildWalk makes calls of every sort, with a clock that goes back, limits and ttl that change, and
// holds every answer to the account's.
func wildWalk(t *testing.T, fresh lenderMaker, steps int) {
	const walk = 1000
	for seed := range uint64(max(1, steps/walk)) {
		s, clock := fresh(t)
		w, account := newWalker(seed, true), &ratelimit.Account{}
		for i := range walk {
			in := w.call(clock.Micros())
			got, err := s.Lease(t.Context(), in)
			if err != nil {
				t.Fatalf("seed %d step %d: %v", seed, i, err)
			}
			if want := account.Lease(&in, clock.Micros()); !same(got, want) {
				t.Fatalf("seed %d step %d at %d: %+v\ngot  %+v\nwant %+v", seed, i, clock.Micros()-Start, in, got, want)
			}
			w.heard(&in, got)
			clock.Set(w.pause(clock.Micros()))
		}
	}
}
