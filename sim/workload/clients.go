package workload

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"anabranch/api/fleet"
)

// Clients is the source of [ServeGen].
type Clients struct {
	opts   TraceOptions
	period time.Duration
	due    timeline[*stream]
	given  int
	cut    int
	last   time.Duration
}

// stream is the requests of one client.
type stream struct {
	client  *client
	lender  *client // whose lengths it has; nil: the options'
	head    Request // what they have in common
	key     uint64
	offset  time.Duration // where in the period the workload begins for it
	window  int           // the next to draw
	round   int           // how often the windows have gone round
	carry   float64       // the part of a request that earlier windows left
	batch   []float64     // times in the window that was drawn last
	at      int           // of batch
	rng     *rand.Rand
	begin   time.Duration // of that window, since the start of the workload
	next    time.Duration
	tableAt int // the window of lengths that the tables are of; -1: none yet
	in, out Lengths
}

func newClients(list []*client, o TraceOptions) (*Clients, error) {
	regions, w, err := origins("regions", o.Regions)
	if err != nil {
		return nil, fmt.Errorf("trace options: %w", err)
	}
	mixed, err := newWheel("mix", o.Mix)
	if err != nil {
		return nil, fmt.Errorf("trace options: %w", err)
	}
	o = o.withDefaults()
	c := &Clients{opts: o, period: period(list)}
	c.opts.Length = min(o.Length, maxDelay)
	if o.Length > maxDelay {
		c.opts.Length = c.period
	}
	most := 0.0
	for _, one := range list {
		busiest := slices.MaxFunc(one.windows, func(a, b window) int { return cmp.Compare(a.rate, b.rate) })
		most += float64(busiest.rate) * servegenWindow * o.Thin
	}
	if most > maxWindow {
		return nil, fmt.Errorf("trace options: thin: a window may have %.0f requests, at most %d are drawn: keep a smaller share", most, maxWindow)
	}
	lenders := map[string][]*client{}
	for _, one := range list {
		if len(one.lengths) > 0 {
			lenders[one.model] = append(lenders[one.model], one)
		}
	}
	shift := map[fleet.RegionID]time.Duration{}
	for _, r := range regions {
		shift[r.Region] = r.Shift
	}
	for _, one := range list {
		s := &stream{client: one, lender: one, key: nameKey(o.Seed, one.id()), tableAt: -1}
		if len(one.lengths) == 0 {
			s.lender = nil
			if others := lenders[one.model]; len(others) > 0 {
				s.lender = others[mix(s.key, tagLengths)%uint64(len(others))]
			} else if o.Prompt.Zero() || o.Output.Zero() {
				return nil, fmt.Errorf("client %s: no client of its model has lengths: set prompt and output", one.id())
			}
		}
		mixed.who(random(s.key, tagMix), &s.head)
		s.head.Model = fleet.ModelID(one.model)
		if to := o.ModelMap[one.model]; to != "" {
			s.head.Model = to
		}
		s.head.Region = regions[w.at(unit(mix(s.key, tagTrace)))].Region
		if to := o.RegionMap[one.id()]; to != "" {
			s.head.Region = to
		}
		if to := o.TenantMap[one.id()]; to != "" {
			s.head.Tenant = to
		}
		s.offset = (o.From - shift[s.head.Region]) % c.period
		if s.offset < 0 {
			s.offset += c.period
		}
		s.carry = unit(mix(s.key, tagThin))
		at := int32(s.offset / time.Second)
		s.window = sort.Search(len(one.windows), func(i int) bool { return one.windows[i].start+servegenWindow > at })
		c.advance(s)
	}
	return c, nil
}

// nameKey hashes a name with the seed.
func nameKey(seed uint64, name string) uint64 {
	h := mix(seed, tagTrace)
	for _, b := range []byte(name) {
		h = mix(h, uint64(b))
	}
	return h
}

// advance finds the stream's next request and lines it up, or drops the stream at the end.
func (c *Clients) advance(s *stream) {
	for {
		for s.at < len(s.batch) {
			s.next = s.begin + seconds(s.batch[s.at])
			s.at++
			if s.next >= c.opts.Length {
				return
			}
			if s.next >= 0 {
				c.due.add(s.next, s)
				return
			}
		}
		if !c.draw(s) {
			return
		}
	}
}

// draw makes the requests of the stream's next window; false at the end of the workload.
func (c *Clients) draw(s *stream) bool {
	if s.window == len(s.client.windows) {
		s.window = 0
		s.round++
	}
	w := s.client.windows[s.window]
	s.begin = time.Duration(s.round)*c.period + time.Duration(w.start)*time.Second - s.offset
	if s.begin >= c.opts.Length {
		return false
	}
	s.rng = random(mix(s.key, uint64(w.start)), mix(tagTurn, uint64(s.round)))
	s.carry += float64(w.rate) * servegenWindow * c.opts.Thin
	n := int(s.carry)
	s.carry -= float64(n)
	s.batch, s.at = w.arrivals(s.rng, n), 0
	s.window++
	return true
}

// Peek is the time of the next request.
func (c *Clients) Peek() (time.Duration, bool) {
	s, ok := c.due.peek()
	if !ok || c.opts.Requests > 0 && c.given >= c.opts.Requests {
		return 0, false
	}
	return max(c.last, time.Duration(float64(s.next)/c.opts.Speedup)), true
}

// Next is the next request.
func (c *Clients) Next() (Request, bool) {
	at, ok := c.Peek()
	if !ok {
		return Request{}, false
	}
	s := c.due.pop()
	c.given++
	c.last = at
	r := s.head
	r.ID, r.At = uint64(c.given), at
	s.tables(c)
	r.PromptTokens, r.OutputTokens = lengthsOf(s.rng, s.in, s.out)
	// A length that was drawn beyond the cap is just at it.
	if r.PromptTokens == s.in.Cap || r.OutputTokens == s.out.Cap {
		c.cut++
	}
	c.advance(s)
	return r, true
}

// tables brings the lengths up to the time of the next request.
func (s *stream) tables(c *Clients) {
	if s.lender == nil {
		s.in, s.out = c.opts.Prompt, c.opts.Output
		return
	}
	i := s.lender.lengthsAt(((s.next + s.offset) % c.period).Seconds())
	if i == s.tableAt {
		return
	}
	l := s.lender.lengths[i]
	s.tableAt = i
	s.in = Lengths{Quantiles: quantileTable(l.in), Cap: c.opts.Prompt.Cap}
	s.out = Lengths{Quantiles: quantileTable(l.out), Cap: c.opts.Output.Cap}
}

// Done changes nothing: clients don't wait.
func (c *Clients) Done(uint64, time.Duration, bool) {}

// Ended says that nothing will come any more.
func (c *Clients) Ended() bool {
	_, more := c.Peek()
	return !more
}

// Counts is what was given out so far, and the share of the rates that it is.
func (c *Clients) Counts() Counts {
	return Counts{Read: c.given, Given: c.given, Cut: c.cut, Thin: c.opts.Thin}
}
