package world

import (
	"testing"

	"anabranch/sim/workload"
)

// patient is a policy that finds no place, and bounds its attempts itself.
type patient struct {
	turns
	most int
}

func (p *patient) MaxAttempts() int { return p.most }

func TestAPolicyMayBoundItsAttemptsItself(t *testing.T) {
	nowhere := func(*workload.Request, int, int, *View) (Pick, bool) { return Pick{Pod: -1}, true }
	for most, p := range map[int]Policy{
		MaxAttempts: &turns{pick: nowhere},
		1:           &patient{turns{pick: nowhere}, 1},
		7:           &patient{turns{pick: nowhere}, 7},
	} {
		source, err := workload.Uniform{Traffic: workload.Traffic{Seed: 1, Requests: 5, Arrivals: workload.Arrivals{Rate: 10}}}.Source()
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), three(1), source, p, Options{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Records {
			if rec := &r.Records[i]; int(rec.Attempts) != most || rec.End != Shed {
				t.Errorf("%d attempts, want %d, and then %s", rec.Attempts, most, rec.End)
			}
		}
	}
}
