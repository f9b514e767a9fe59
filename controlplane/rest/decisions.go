package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/access"
	"anabranch/controlplane/inquiry"
)

const (
	// MaxTails is how many tails of decisions one node serves at a time: each costs every request of
	// every router a look.
	MaxTails = 16
	// MaxTokenTails is how many of them one token may have.
	MaxTokenTails = 4
	// tailRate is how many decisions a second a tail tells unless it asks for another number, tailRateMost
	// the most that it may ask for.
	tailRate, tailRateMost = 100, 1000
	// maxFilterValues bounds how often a filter may be given.
	maxFilterValues = 16
	// droppedEvery is how often a tail tells of what was dropped, at most.
	droppedEvery = time.Second
)

// The events of a tail of decisions. Ids count from 1; there is nothing to resume.
const (
	eventDecision = "decision" // an Explanation
	eventRouters  = "routers"  // Followed: first, and when it has changed
	eventDropped  = "dropped"  // Dropped: at most once a second
)

// Followed is which routers a tail follows.
type Followed struct {
	Following int `json:"following"`
	// Unable are routers that can't be followed, because of their build or because they serve too many
	// tails.
	Unable []fleet.RouterID `json:"unable"`
	// Missing are nodes whose routers can't be followed now.
	Missing []fleet.NodeID `json:"missing"`
}

// Dropped is how many decisions a tail wanted and did not tell, above its rate or because its client read
// too slowly: since the event before, and in all.
type Dropped struct {
	Dropped uint64 `json:"dropped"`
	Total   uint64 `json:"total"`
}

// outcomes of requests, as routers tell them apart.
var outcomes = []string{"answered", "refused", "failed", "gone"}

// wantedDecisions reads which decisions are wanted, and how many a second at most.
func wantedDecisions(q url.Values) (*routerpb.DecisionFilter, uint32, error) {
	f, rate := &routerpb.DecisionFilter{}, uint64(tailRate)
	for _, p := range []struct {
		name  string
		into  *[]string
		check func(string) error
	}{
		{"tenant", &f.Tenants, fleet.CheckName},
		{"model", &f.Models, fleet.CheckModel},
		{"cluster", &f.Clusters, fleet.CheckName},
		{"region", &f.Regions, fleet.CheckName},
		{"class", &f.Classes, fleet.CheckName},
		{"outcome", &f.Outcomes, checkOutcome},
	} {
		values := q[p.name]
		if len(values) > maxFilterValues {
			return nil, 0, newProblem(codeInvalidRequest, fmt.Sprintf("%s is given %d times; %d are allowed.", p.name, len(values), maxFilterValues))
		}
		for _, v := range values {
			if err := p.check(v); err != nil {
				return nil, 0, newProblem(codeInvalidRequest, fmt.Sprintf("%s %.200s.", p.name, err))
			}
		}
		*p.into = values
	}
	attempts := uint64(0)
	for _, p := range []struct {
		name string
		into *uint64
		most uint64
	}{{"minAttempts", &attempts, 100}, {"rate", &rate, tailRateMost}} {
		text := q.Get(p.name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n < 1 || n > p.most {
			return nil, 0, newProblem(codeInvalidRequest, fmt.Sprintf("%s is %.40q; give a number from 1 to %d.", p.name, text, p.most))
		}
		*p.into = n
	}
	f.MinAttempts = uint32(attempts)
	return f, uint32(rate), nil
}

func checkOutcome(s string) error {
	if !slices.Contains(outcomes, s) {
		return fmt.Errorf("is %.40q; there are %s", s, strings.Join(outcomes, ", "))
	}
	return nil
}

// places count the tails of a node. The zero value has none.
type places struct {
	mu      sync.Mutex // guards all and byToken
	all     int
	byToken map[string]int
}

// enter takes a place; leave gives it back.
func (p *places) enter(token string) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.byToken[token] >= MaxTokenTails:
		return nil, newProblem(codeBusy, fmt.Sprintf("Token %s follows decisions %d times at this node already; end one of these.", token, MaxTokenTails)).after(5 * time.Second)
	case p.all >= MaxTails:
		return nil, newProblem(codeBusy, fmt.Sprintf("This node serves %d tails of decisions already; try another node.", MaxTails)).after(5 * time.Second)
	case p.byToken == nil:
		p.byToken = map[string]int{}
	}
	p.all++
	p.byToken[token]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all--
		if p.byToken[token]--; p.byToken[token] == 0 {
			delete(p.byToken, token)
		}
	}, nil
}

// decisions streams what routers decide, until the client leaves.
func (s *Server) decisions(c echo.Context) error {
	filter, rate, err := wantedDecisions(c.QueryParams())
	if err != nil {
		return err
	}
	scope := identity(c).Scope
	if err := narrow(filter, scope); err != nil {
		s.recordDenied(c, codeOutOfScope)
		return err
	}
	if s.o.Inquiries == nil {
		return newProblem(codeRouterAway, "This node asks no routers.")
	}
	leave, err := s.tails.enter(identity(c).Name)
	if err != nil {
		return err
	}
	defer leave()
	st, closed, err := s.openStream(c)
	if err != nil {
		return err
	}
	defer closed()
	ctx, cancel := context.WithCancel(c.Request().Context())
	t := &tail{st: st, scope: scope, news: make(chan inquiry.News)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.o.Inquiries.Follow(ctx, filter, rate, func(n inquiry.News) error { return t.put(ctx, n) }) // fails when ctx ends
	}()
	defer func() {
		cancel()
		<-ended
	}()
	s.tellAll(ctx, c, t)
	return nil // the client left, or reads too slowly: there is nobody to tell
}

// tail is one client's stream of decisions.
type tail struct {
	st    *stream
	scope access.Scope
	news  chan inquiry.News
	id    uint64
	Dropped
}

// put waits for the client to have taken what came before; what comes meanwhile is dropped at its source.
func (t *tail) put(ctx context.Context, n inquiry.News) error {
	select {
	case t.news <- n:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tellAll tells until either side ends it, or the caller may not listen any more.
func (s *Server) tellAll(ctx context.Context, c echo.Context, t *tail) {
	heartbeat := time.NewTicker(s.o.Heartbeat)
	defer heartbeat.Stop()
	counted := time.NewTicker(droppedEvery)
	defer counted.Stop()
	var err error
	for err == nil {
		select {
		case n := <-t.news:
			err = t.tell(n)
		case <-counted.C:
			if s.lapsed(c) {
				return
			}
			if t.Dropped.Dropped > 0 {
				err = t.event(eventDropped, t.Dropped)
				t.Dropped.Dropped = 0
			}
		case <-heartbeat.C:
			err = t.st.heartbeat(t.id)
		case <-ctx.Done():
			return
		case <-s.draining:
			return
		}
	}
}

func (t *tail) tell(n inquiry.News) error {
	if n.Router == "" {
		return t.event(eventRouters, Followed{
			Following: n.Standing.Following,
			Unable:    append([]fleet.RouterID{}, n.Standing.Unable...), Missing: append([]fleet.NodeID{}, n.Standing.Missing...),
		})
	}
	t.Dropped.Dropped += n.Dropped
	t.Total += n.Dropped
	for _, record := range n.Records {
		if !seesRecord(t.scope, record) {
			continue // a router that doesn't keep to the filter
		}
		data, err := withOrigin(record, Origin{n.Router, n.Region, n.Node})
		if err != nil {
			continue // nor to JSON
		}
		t.id++
		if err := t.st.event(t.id, eventDecision, data); err != nil {
			return err
		}
	}
	return nil
}

func (t *tail) event(name string, what any) error {
	data, err := json.Marshal(what)
	if err != nil {
		return err
	}
	t.id++
	return t.st.event(t.id, name, data)
}
