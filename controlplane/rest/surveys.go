package rest

import (
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan"
)

const (
	// mostLosses bounds the regions whose losses one may ask for.
	mostLosses = 1000
	// dearSurvey is how long making an answer takes of a fleet so large that it is kept for others, and surveyPart the part
	// of the time that is spent on making such answers, at most.
	dearSurvey = 250 * time.Millisecond
	surveyPart = 20
	// maxSurveys bounds the questions whose answers are kept.
	maxSurveys = 16
)

// surveyed is what is asked of the losses that a fleet survives.
type surveyed struct {
	model fleet.ModelID
	pairs bool
	most  int
}

// surveys are the answers that took long: all consoles ask the same, again and again, and an answer costs seconds of a
// processor at 200 regions. The zero value has none.
type surveys struct {
	mu sync.Mutex // guards of
	of map[surveyed]*survey
}

// survey is one answer. The turn is held while it is made, so that who asks meanwhile gets the same.
type survey struct {
	turn   chan struct{} // guards what is below, for whoever has put something in
	answer plan.Survival
	until  time.Time // when it is given out no more; zero: there is none
}

// answer gives one that was dear and is not old, or makes it.
func (s *surveys) answer(of surveyed, now func() time.Time, ask func(surveyed) (plan.Survival, error)) (plan.Survival, error) {
	s.mu.Lock()
	kept := s.of[of]
	if kept == nil {
		if s.of == nil || len(s.of) >= maxSurveys {
			s.of = map[surveyed]*survey{}
		}
		kept = &survey{turn: make(chan struct{}, 1)}
		s.of[of] = kept
	}
	s.mu.Unlock()
	kept.turn <- struct{}{}
	defer func() { <-kept.turn }()
	start := now()
	if start.Before(kept.until) {
		return kept.answer, nil
	}
	answer, err := ask(of)
	if took := now().Sub(start); err == nil && took >= dearSurvey {
		kept.answer, kept.until = answer, now().Add(surveyPart*took)
	} else {
		kept.answer, kept.until = plan.Survival{}, time.Time{}
	}
	return answer, err
}
