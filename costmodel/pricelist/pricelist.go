// Package pricelist keeps offers that come from several sources: of each source the last good answer, how
// old it is, and what went wrong since. It reads files of offers itself; sources that ask sellers live in
// packages of their own, apart from it because of the client libraries behind them.
package pricelist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"anabranch/costmodel"
)

// ErrAbsent says that a source can't be used here, which is a normal state: nobody gave it credentials.
// Sources wrap it.
var ErrAbsent = errors.New("source of prices not set up")

// Source answers with all offers that it knows at present, or with an error and none.
type Source interface {
	// Name is short, told to people, and differs from those of other sources.
	Name() string
	Offers(ctx context.Context) ([]costmodel.Offer, error)
}

// Options of a List. Only Sources is required.
type Options struct {
	Sources []Source
	// AtOnce is how many sources are asked at the same time; default 4.
	AtOnce int
	// Timeout bounds one answer; default 2 minutes.
	Timeout time.Duration
	// Now tells the time; default time.Now.
	Now func() time.Time
	// Logger hears of a source once each time that its state changes, not each time that it is asked;
	// default: nobody does.
	Logger *slog.Logger
}

// Standing is how a source does.
type Standing string

// The standings.
const (
	Unasked Standing = "unasked" // not asked so far
	Good    Standing = "good"    // the last answer was good
	Absent  Standing = "absent"  // not set up here, see ErrAbsent
	Failing Standing = "failing" // the last answer was an error
)

// State is what is known of one source.
type State struct {
	Source   string   `json:"source"`
	Standing Standing `json:"standing"`
	// Offers that are kept of it, those of the last good answer.
	Offers int `json:"offers"`
	// Read is when the last good answer came, zero: never. Asked is when it was asked last.
	Read  time.Time `json:"read,omitzero"`
	Asked time.Time `json:"asked,omitzero"`
	// Failures in a row, and what the last one was; none after a good answer.
	Failures int    `json:"failures"`
	Error    string `json:"error,omitempty"`
}

// List is safe for use by several goroutines.
type List struct {
	o       Options
	sources []Source

	mu     sync.Mutex // guards what is below
	states []State
	offers [][]costmodel.Offer
}

// maxError is how much of an error is kept.
const maxError = 256

// New makes a list that has not asked anybody yet.
func New(o Options) (*List, error) {
	if len(o.Sources) == 0 {
		return nil, errors.New("a list of prices needs a source")
	}
	if o.AtOnce <= 0 {
		o.AtOnce = 4
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &List{o: o, sources: o.Sources, offers: make([][]costmodel.Offer, len(o.Sources))}
	names := make(map[string]bool, len(o.Sources))
	for _, s := range o.Sources {
		if names[s.Name()] {
			return nil, fmt.Errorf("two sources of prices are called %q", s.Name())
		}
		names[s.Name()] = true
		l.states = append(l.states, State{Source: s.Name(), Standing: Unasked})
	}
	return l, nil
}

// Refresh asks every source once and returns when all have answered or the context has ended. What a source
// said before stays unless its answer is good.
func (l *List) Refresh(ctx context.Context) {
	var all sync.WaitGroup
	turn := make(chan struct{}, l.o.AtOnce)
	for i := range l.sources {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		all.Go(func() {
			defer func() { <-turn }()
			l.ask(ctx, i)
		})
	}
	all.Wait()
}

func (l *List) ask(ctx context.Context, i int) {
	bounded, cancel := context.WithTimeout(ctx, l.o.Timeout)
	defer cancel()
	offers, err := l.sources[i].Offers(bounded)
	if err != nil && ctx.Err() != nil {
		return // the end is nobody's failure
	}
	now := l.o.Now()

	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.states[i]
	before := s.Standing
	s.Asked = now
	switch {
	case err == nil:
		l.offers[i] = offers
		s.Standing, s.Offers, s.Read, s.Failures, s.Error = Good, len(offers), now, 0, ""
	case errors.Is(err, ErrAbsent):
		s.Standing, s.Failures, s.Error = Absent, 0, cut(err.Error())
	default:
		s.Standing, s.Error = Failing, cut(err.Error())
		s.Failures++
	}
	if s.Standing != before {
		l.tell(s)
	}
}

// tell logs a change of state.
func (l *List) tell(s *State) {
	log := l.o.Logger.With("component", "pricelist", "source", s.Source)
	switch s.Standing {
	case Absent:
		log.Info("source of prices is not set up", "reason", s.Error)
	case Failing:
		log.Warn("source of prices fails, the last prices stay", "error", s.Error, "offers", s.Offers)
	default:
		log.Info("source of prices answers", "offers", s.Offers)
	}
}

func cut(text string) string {
	if len(text) > maxError {
		return text[:maxError] + "…"
	}
	return text
}

// States are in the order in which the sources were given.
func (l *List) States() []State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]State(nil), l.states...)
}

// Answer is what one source says.
type Answer struct {
	State
	// Offers of the last good answer; nil: there was none. They are not to be written to.
	Offers []costmodel.Offer
}

// Answers are in the order in which the sources were given.
func (l *List) Answers() []Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Answer, len(l.states))
	for i, s := range l.states {
		all[i] = Answer{s, l.offers[i]}
	}
	return all
}

// Offers are those of all sources, the last good answer of each, in the order of the sources.
func (l *List) Offers() []costmodel.Offer {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []costmodel.Offer
	for _, offers := range l.offers {
		all = append(all, offers...)
	}
	return all
}
