package endpoint

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/dataplane/inference"
	"anabranch/failover"
)

func TestCompanySumsWhatWasThereBetweenTwoMoments(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(seconds(s)) }
	var c company
	a := c.join(500, at(0))
	b := c.join(300, at(2))
	if got := c.leave(0, at(3)).since(a); got != (moment{4, 300}) { // a alone for 2 s, with b for 1 s
		t.Errorf("of the first %+v", got)
	}
	c.join(0, at(3))
	if got := c.leave(200, at(4)).since(b); got != (moment{4, 200}) {
		t.Errorf("of the second %+v", got)
	}
	c.leave(0, at(3)) // by another clock
	if m := c.join(0, at(10)).since(c.sum); m != (moment{}) || c.now != 1 {
		t.Errorf("no time has passed: %+v, and %d are there", m, c.now)
	}
	idle := c.leave(0, at(10))
	if got := c.join(0, at(100)).since(idle); got.decoding != 0 {
		t.Errorf("nobody is there, and %v s of decoding", got.decoding)
	}
}

func TestCompanyOfAnswersThatAreNotStreamed(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	whole := e.Begin(Load{Model: "m", PromptTokens: 700}, *now)
	stream := e.Begin(Load{Model: "m", PromptTokens: 300, Stream: true}, *now)
	*now = now.Add(time.Second)
	stream.FirstToken(*now)
	failed := e.Begin(Load{Model: "m", PromptTokens: 900}, *now)
	*now = now.Add(time.Second)
	failed.Done(Result{Outcome: failover.ServerFault}, *now)
	*now = now.Add(time.Second)
	whole.FirstToken(*now) // with the last
	whole.Done(Result{Outcome: failover.OK, FirstToken: 3 * time.Second}, *now)
	if got := e.company.sum.since(stream.joined); got != (moment{5, 700}) || e.company.now != 1 {
		t.Errorf("beside the stream %+v, want it and the other for 2 s, the failed one for 1 s, and 700 tokens", got)
	}
	stream.Done(Result{Outcome: failover.OK, FirstToken: time.Second}, *now)
	e.Begin(Load{Model: "m", PromptTokens: 300, Stream: true}, *now).Done(Result{Outcome: failover.Silence}, *now)
	if e.company.now != 0 {
		t.Errorf("%d are left", e.company.now)
	}
}

func TestCompanyEstimatesWhatOtherRoutersSend(t *testing.T) {
	var c company
	if got := c.all(); got != 1 {
		t.Errorf("of nobody %v", got)
	}
	for range 50 {
		c.meets(2, 6)
		c.meets(4, 12)
	}
	if got := c.all(); !near(got, 4, 0.01) {
		t.Errorf("%v for each own one, want 4", got)
	}
}

// Each request shares its time with what a look at all the others finds.
func TestCompanyAgreesWithALookAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type request struct {
			from, to float64
			tokens   float64
			joined   moment
			met      moment
		}
		n := rapid.IntRange(1, 12).Draw(t, "requests")
		all := make([]request, n)
		for i := range all {
			from := float64(rapid.IntRange(0, 50).Draw(t, "from"))
			all[i] = request{
				from: from, to: from + float64(rapid.IntRange(1, 50).Draw(t, "for")),
				tokens: float64(rapid.IntRange(0, 5000).Draw(t, "tokens")),
			}
		}
		var c company
		start := time.Unix(1000, 0)
		for s := range 101 {
			now := start.Add(time.Duration(s) * time.Second)
			for i := range all {
				if all[i].to == float64(s) {
					all[i].met = c.leave(0, now).since(all[i].joined)
				}
			}
			for i := range all {
				if all[i].from == float64(s) {
					all[i].joined = c.join(all[i].tokens, now)
				}
			}
		}
		for i, x := range all {
			var want moment
			for k, y := range all {
				want.decoding += max(min(x.to, y.to)-max(x.from, y.from), 0)
				if y.from > x.from && y.from < x.to || y.from == x.from && k > i { // at one time the later comes after
					want.prompts += y.tokens
				}
			}
			if math.Abs(x.met.decoding-want.decoding) > 1e-6 || math.Abs(x.met.prompts-want.prompts) > 1e-6 {
				t.Fatalf("of %d %+v, want %+v", i, x.met, want)
			}
		}
	})
}

// busyServer is a model server that computes prompts and decodes in turn: while it is at a prompt nobody
// gets a token.
type busyServer struct {
	e              *Endpoint
	now            time.Time
	prefill        float64 // tokens/s
	step, more     float64 // s
	stream         bool    // all requests are
	own, strangers []*stream
	rnd            *rand.Rand
}

// stream is a request there.
type stream struct {
	call  *Call // nil: of another router
	size  int64
	all   int // tokens of its answer
	left  int
	first time.Duration
}

// comes has a request come, and computes its prompt.
func (s *busyServer) comes(own bool) {
	x, began := &stream{size: 200 + s.rnd.Int64N(2000), all: 50 + s.rnd.IntN(200)}, s.now
	if own {
		x.call = s.e.Begin(Load{Model: "m", PromptTokens: x.size, Stream: s.stream}, s.now)
	}
	s.now = s.now.Add(seconds(0.001 + float64(x.size)/s.prefill))
	if x.left, x.first = x.all-1, s.now.Sub(began); own && s.stream {
		x.call.FirstToken(s.now)
	}
	if own {
		s.own = append(s.own, x)
	} else {
		s.strangers = append(s.strangers, x)
	}
}

// steps gives each a token.
func (s *busyServer) steps() {
	s.now = s.now.Add(seconds(s.step + s.more*float64(len(s.own)+len(s.strangers))))
	for _, list := range []*[]*stream{&s.own, &s.strangers} {
		var kept []*stream
		for _, x := range *list {
			if x.left--; x.left > 0 {
				kept = append(kept, x)
				continue
			}
			if x.call != nil {
				x.call.Done(Result{
					Outcome: failover.OK, FirstToken: x.first, Usage: inference.Usage{Prompt: x.size, Completion: int64(x.all)},
				}, s.now)
			}
		}
		*list = kept
	}
}

// scraped shows all that are there.
func (s *busyServer) scraped() {
	s.e.Observe(&Observation{
		At: s.now, InFlight: -1, Running: float64(len(s.own) + len(s.strangers)), Generated: -1, PrefixAsked: -1, PrefixFound: -1,
	}, s.now)
}

// Prompts are computed in the time of those that decode. That is not what a step takes, or each request
// would be counted twice, and the busier a place the less it would seem able to do.
func TestPromptsOfOthersAreNotTakenForSlowSteps(t *testing.T) {
	for _, tt := range []struct {
		name      string
		strangers float64 // of all requests
		every     int     // steps
		within    float64
	}{
		{"hardly any", 0, 40, 0.05},
		{"some", 0, 12, 0.05},
		{"most of the time", 0, 5, 0.08},
		{"half of them of another router", 0.5, 12, 0.3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, now := still(t)
			s := &busyServer{
				e: r.of("a")[0], now: *now, prefill: 20_000, step: 0.008, more: 0.0002, stream: true, rnd: rand.New(rand.NewPCG(1, 2)),
			}
			for i := range 6000 {
				if s.rnd.IntN(tt.every*(1+i/500%2)) == 0 { // in waves
					s.comes(s.rnd.Float64() >= tt.strangers)
				}
				s.steps()
				if i%5 == 0 {
					s.scraped()
				}
			}
			l := s.e.Rates("m").Learned()
			for _, batch := range []float64{1, 20, 60} {
				if got, want := l.Step+l.StepMore*batch, s.step+s.more*batch; !near(got, want, tt.within) {
					t.Errorf("a step of %v takes %v s, want %v (learned %+v)", batch, got, want, l)
				}
			}
		})
	}
}
