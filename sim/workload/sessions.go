package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"anabranch/sim"
)

// Sessions is conversations: each turn's prompt is the one before, what was answered and what is said
// next, so that a place that has seen the last turn has most of this one in its cache. Traffic says
// when sessions begin (in a closed loop, each client begins its next when one is over); a turn comes
// when the one before it has been answered and thought about.
//
// A session goes on after a turn that failed, so that all policies are offered as much; what was not
// answered is missing from its history. Traffic's Requests and Duration bound turns.
type Sessions struct {
	Traffic Traffic
	// Mix is drawn once for each system prompt, or for each session if there is none.
	Mix Mix
	// Systems is how many system prompts there are, and System how long each is. 0: none. Skew is
	// their popularity, as of [SharedPrefix].
	Systems int
	System  Lengths
	Skew    float64
	// Turns of a session. Zero: uniform from 1 to 9.
	Turns Lengths
	// First is what is said in the first turn, and User in each later one. Zero: mean 300, P99 2,000
	// tokens, and mean 80, P99 600.
	First, User Lengths
	// Output of each turn. Zero: mean 200, P99 1,000 tokens.
	Output Lengths
	// Think is the time from an answer to the next turn. Zero: mean 20 s, P99 120 s.
	Think Delays
	// MaxContext ends a session whose next prompt would be longer. 0: 32,768 tokens.
	MaxContext int
}

func (s Sessions) withDefaults() Sessions {
	if s.Systems > 0 {
		s.System = s.System.or(Lengths{Fixed: 1000})
	}
	s.Turns = s.Turns.or(Lengths{Min: 1, Max: 9})
	s.First = s.First.or(Lengths{Mean: 300, P99: 2000})
	s.User = s.User.or(Lengths{Mean: 80, P99: 600})
	s.Output = s.Output.or(Lengths{Mean: 200, P99: 1000})
	if s.Think == (Delays{}) {
		s.Think = Delays{Mean: 20 * time.Second, P99: 120 * time.Second}
	}
	if s.MaxContext == 0 {
		s.MaxContext = 32_768
	}
	return s
}

// Validate names the field that is wrong, and the fix.
func (s Sessions) Validate() error {
	s = s.withDefaults()
	switch {
	case s.Systems < 0 || s.Systems > MaxPrefixes:
		return fmt.Errorf("systems: is %d: set 0 to %d", s.Systems, MaxPrefixes)
	case s.Systems == 0 && !s.System.Zero():
		return errors.New("system: is set and systems is 0: set systems")
	case !(s.Skew >= 0 && s.Skew <= 4):
		return fmt.Errorf("skew: is %v: set 0 to 4", s.Skew)
	case s.MaxContext < 1 || s.MaxContext > MaxTokens:
		return fmt.Errorf("maxContext: is %d: set 1 to %d", s.MaxContext, MaxTokens)
	}
	checks := []check{
		{"traffic", s.Traffic},
		{"mix", s.Mix},
		{"turns", s.Turns},
		{"first", s.First},
		{"user", s.User},
		{"output", s.Output},
		{"think", s.Think},
	}
	if s.Systems > 0 {
		checks = append(checks, check{"system", s.System})
	}
	return checkAll(checks...)
}

// Source starts it.
func (s Sessions) Source() (Source, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("sessions workload: %w", err)
	}
	s = s.withDefaults()
	list, w, err := origins("regions", s.Traffic.Regions)
	if err != nil {
		return nil, fmt.Errorf("sessions workload: %w", err)
	}
	c := &conversations{
		spec: s, origins: list, flying: map[uint64]*session{},
		starts:  newPace(s.Traffic.Arrivals, list, w, s.Traffic.Seed, s.Traffic.Duration),
		popular: random(s.Traffic.Seed, tagPopular),
	}
	if s.Systems > 0 {
		c.systems, err = newPopulation(s.Traffic.Seed, s.Mix, s.Systems, s.System, s.Skew)
	} else {
		c.wheel, err = newWheel("mix", s.Mix)
	}
	if err != nil {
		return nil, fmt.Errorf("sessions workload: %w", err)
	}
	return c, nil
}

// session is one conversation on its way.
type session struct {
	head    Request // what all its turns have in common
	key     uint64
	client  int
	rng     *rand.Rand
	left    int // turns
	history int // tokens that the next prompt begins with
	blocks  []uint64
	at      time.Duration
	output  int // of the turn in flight
}

// conversations is the source of Sessions.
type conversations struct {
	spec    Sessions
	origins []Origin
	starts  pace
	systems *population // nil: no system prompts
	wheel   wheel       // where there are none
	popular *rand.Rand
	begun   uint64
	due     timeline[*session]
	flying  map[uint64]*session
	given   int
	last    time.Duration
}

func (c *conversations) full() bool {
	return c.spec.Traffic.Requests > 0 && c.given >= c.spec.Traffic.Requests
}

// first says whether a new session comes next, or else a turn; and when.
func (c *conversations) first() (start bool, at time.Duration, ok bool) {
	a, starts := c.starts.peek()
	next, goesOn := c.due.peek()
	switch {
	case c.full() || !starts && !goesOn:
		return false, 0, false
	case starts && (!goesOn || a.at < next.at):
		return true, max(a.at, c.last), true
	default:
		return false, max(next.at, c.last), true
	}
}

// Peek is the time of the next turn.
func (c *conversations) Peek() (time.Duration, bool) {
	_, at, ok := c.first()
	return at, ok
}

// Next is the next turn.
func (c *conversations) Next() (Request, bool) {
	start, at, ok := c.first()
	if !ok {
		return Request{}, false
	}
	var s *session
	if start {
		s = c.begin()
	} else {
		s = c.due.pop()
	}
	c.given++
	c.last = at
	return c.turn(s, at), true
}

// begin makes the session that starts now.
func (c *conversations) begin() *session {
	a, _ := c.starts.peek()
	c.starts.pop()
	c.begun++
	key := mix(mix(c.spec.Traffic.Seed, tagSession), c.begun)
	s := &session{key: key, client: a.client, rng: random(key, tagTurn)}
	if c.systems != nil {
		c.systems.begin(c.popular.Float64(), &s.head)
		s.blocks = append(s.blocks, s.head.Blocks...)
		s.history = s.head.PromptTokens
	} else {
		c.wheel.who(s.rng, &s.head)
	}
	s.head.Region = c.origins[a.origin].Region
	s.head.Session = key | 1 // never 0
	s.left = c.spec.Turns.Quantile(s.rng.Float64())
	s.history += c.spec.First.Quantile(s.rng.Float64())
	s.history = min(s.history, max(c.spec.MaxContext, s.head.PromptTokens+1))
	return s
}

// turn makes a session's next request.
func (c *conversations) turn(s *session, at time.Duration) Request {
	if more := s.history/sim.BlockSize - len(s.blocks); more > 0 {
		from := s.key
		if n := len(s.blocks); n > 0 {
			from = mix(s.blocks[n-1], s.key)
		}
		s.blocks = extend(s.blocks, from, more)
	}
	s.left--
	s.output = c.spec.Output.Quantile(s.rng.Float64())
	r := s.head
	r.ID, r.At = uint64(c.given), at
	r.PromptTokens, r.OutputTokens = s.history, s.output
	// Later turns append behind what this one sees.
	r.Blocks = s.blocks[:len(s.blocks):len(s.blocks)]
	c.flying[r.ID] = s
	return r
}

// Done brings the next turn of the session, or ends it.
func (c *conversations) Done(id uint64, at time.Duration, ok bool) {
	s := c.flying[id]
	if s == nil {
		return
	}
	delete(c.flying, id)
	if ok {
		s.history += s.output
	}
	s.history += c.spec.User.Quantile(s.rng.Float64())
	s.at = at + c.spec.Think.Quantile(s.rng.Float64())
	end := c.spec.Traffic.Duration
	if s.left > 0 && s.history <= c.spec.MaxContext && (end == 0 || s.at < end) {
		c.due.add(s.at, s)
		return
	}
	c.starts.done(s.client, at)
}

// Ended says that nothing will come any more.
func (c *conversations) Ended() bool {
	return c.full() || c.due.len() == 0 && len(c.flying) == 0 && c.starts.ended()
}
