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
func (p *patient) Picks() int       { return p.most }

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

// A router that picks for another tries a second pod when the first has refused, and the one that asked
// hears of one attempt.
func TestTheRouterThatPicksForAnotherMayPickAgain(t *testing.T) {
	for _, c := range []struct{ most, tries, picks int }{{1, 1, 1}, {2, 2, 2}, {5, 2, 2}} {
		spec := three(2)
		spec.Events = []Event{{At: 0, Kind: PodLoss, Cluster: "eu-west-1", Pod: 0}}
		picks, homes := 0, 0
		p := &patient{turns{}, c.most}
		p.route = func(*workload.Request, *View) (Route, bool) { return Route{Cluster: 1}, true }
		p.pick = func(*workload.Request, int, int, *View) (Pick, bool) {
			picks++
			return Pick{Pod: min(picks-1, 1)}, true
		}
		p.log = func(what string, a *Attempt, _ Outcome, _ *View) {
			if what == "sent" && a.Away {
				homes++
			}
		}
		source, err := workload.Uniform{Traffic: workload.Traffic{
			Seed: 1, Requests: 1, Arrivals: workload.Arrivals{Rate: 1}, Regions: []workload.Origin{{Region: "us-east-1"}},
		}}.Source()
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), spec, source, p, Options{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		rec := &r.Records[0]
		if c.most == 1 {
			if rec.End != Failed || homes != 1 || picks != 1 {
				t.Errorf("of one pick: %s after %d attempts and %d picks", rec.End, homes, picks)
			}
			continue
		}
		if rec.End != OK || homes != 1 || picks != c.picks || int(rec.Attempts) != c.tries || rec.Pod != 1 {
			t.Errorf("of %d picks: %s by pod %d, %d attempts and %d picks, %d are told", c.most, rec.End, rec.Pod, homes, picks, rec.Attempts)
		}
	}
}
