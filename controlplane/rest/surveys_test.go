package rest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/controlplane/plan"
)

// In virtual time: what takes long is made once for all who ask, and again when making it is a twentieth of the time.
func TestAnswersThatTakeLongAreShared(t *testing.T) {
	for name, tt := range map[string]struct {
		takes, later time.Duration
		asked        int
		made         int64
	}{
		"dear, asked at once":   {2 * time.Second, 0, 20, 1},
		"dear, asked again":     {2 * time.Second, 39 * time.Second, 1, 1},
		"dear, and old":         {2 * time.Second, 41 * time.Second, 1, 2},
		"cheap is never old":    {10 * time.Millisecond, time.Millisecond, 1, 2},
		"at the edge of dear":   {dearSurvey, time.Second, 1, 1},
		"dearer is kept longer": {10 * time.Second, 190 * time.Second, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s surveys
				var made atomic.Int64
				ask := func(surveyed) (plan.Survival, error) {
					<-time.After(tt.takes)
					return plan.Survival{Untried: int(made.Add(1))}, nil
				}
				var all sync.WaitGroup
				for range tt.asked {
					all.Go(func() {
						if a, err := s.answer(surveyed{most: 3}, time.Now, ask); err != nil || a.Untried != 1 {
							t.Errorf("%+v %v", a, err)
						}
					})
				}
				all.Wait()
				<-time.After(tt.later)
				if _, err := s.answer(surveyed{most: 3}, time.Now, ask); err != nil {
					t.Error(err)
				}
				if made.Load() != tt.made {
					t.Errorf("made %d times, want %d", made.Load(), tt.made)
				}
			})
		})
	}
}

func TestEachQuestionHasItsAnswerAndErrorsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s surveys
		ask := func(of surveyed) (plan.Survival, error) {
			<-time.After(time.Second)
			return plan.Survival{Untried: of.most}, nil
		}
		for i := range 3 * maxSurveys {
			if a, err := s.answer(surveyed{most: i}, time.Now, ask); err != nil || a.Untried != i {
				t.Fatalf("%d: %+v %v", i, a, err)
			}
			if len(s.of) > maxSurveys {
				t.Fatalf("%d are kept", len(s.of))
			}
		}
		broken := errors.New("busy")
		fails := func(surveyed) (plan.Survival, error) { <-time.After(time.Second); return plan.Survival{}, broken }
		if _, err := s.answer(surveyed{model: "m"}, time.Now, fails); !errors.Is(err, broken) {
			t.Error(err)
		}
		if a, err := s.answer(surveyed{model: "m", most: 0}, time.Now, ask); err != nil || a.Untried != 0 {
			t.Errorf("after an error: %+v %v", a, err)
		}
	})
}
