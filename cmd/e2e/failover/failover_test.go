package failover

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// trial is a system under load, and what is measured of it.
type trial struct {
	t *testing.T
	s *system
	*load
	*eye
	board *board
}

// TestFailover breaks one system in every way, many times each, and lets it get well between. What it measures is
// time, of which a machine that compiles and tests other things has none: it runs with ANABRANCH_STRESS=1 alone.
func TestFailover(t *testing.T) {
	if !long {
		t.Skip("measured by make stress LONG=Failover: times mean nothing beside other tests")
	}
	s := start(t)
	l := s.drive()
	tr := &trial{t: t, s: s, load: l, eye: s.watch(), board: newBoard()}
	defer func() {
		tr.board.add(skippedByLoad, l.leftOut())
		t.Logf("measured:\n\n%s", tr.board)
		tr.board.fail(t)
	}()
	for _, scenario := range []struct {
		name string
		runs int
		play func(*trial, int)
	}{
		{"kill", kills, (*trial).kill},
		{"hang", others, (*trial).hang},
		{"black hole", others, (*trial).blackHole},
		{"errors", others, (*trial).errors},
		{"slow", others, (*trial).slow},
		{"partition", others, (*trial).partition},
		{"drain", others, (*trial).drain},
		{"router lost", others, (*trial).routerLost},
		{"control plane lost", others, (*trial).controlPlaneLost},
		{"steady", (others + 2) / 3, (*trial).steady},
		{"alternating", (others + 9) / 10, (*trial).alternating},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			tr.t, s.t = t, t
			for n := range scenario.runs {
				began := time.Now()
				scenario.play(tr, n)
				if t.Skipped() {
					return
				}
				t.Logf("run %d took %v", n, time.Since(began).Round(100*time.Millisecond))
			}
		})
		tr.t, s.t = t, t
		t.Logf("so far:\n\n%s", tr.board)
	}
}

// regions in the order in which they are broken.
var regions = []string{usRegion, euRegion, apRegion}

// good waits until its region's traffic is at every cluster again, and until the control plane believes in all of
// them again.
func (tr *trial) good() {
	tr.t.Helper()
	// What is broken again within ten minutes is believed again after up to two minutes only, and its router's next look
	// may be a minute and a half away.
	tr.s.await(300*time.Second, "all to be well", func() error {
		v, err := tr.s.fleet(context.Background())
		if err != nil {
			return err
		}
		for _, c := range v.Clusters {
			if c.Health != "HEALTHY" {
				return fmt.Errorf("%s is %s: %s", c.Name, c.Health, c.Reason)
			}
		}
		recent := tr.between(time.Now().Add(-3*time.Second), time.Now()) // that have ended since
		for _, region := range regions {
			all, home := 0, 0
			for _, a := range recent {
				if a.door == region && a.tenant == anywhere {
					all++
					if a.region == region {
						home++
					}
				}
			}
			if all < 10 || float64(home) < 0.9*float64(all) {
				return fmt.Errorf("%d of %d requests of %s are served there", home, all, region)
			}
		}
		return nil
	})
}

// settle judges every answer that was under way since a moment, once all that began until now have
// ended, and gives the streams that were cut. Broken is the region whose cluster is, empty: none;
// ignored is a region whose clients are not counted.
func (tr *trial) settle(since time.Time, broken, ignored string) (cuts []answer) {
	tr.t.Helper()
	until := time.Now()
	pass(1500 * time.Millisecond) // most have ended by then; who goes on is judged by the next
	losses, abroad := 0, 0
	for _, a := range tr.between(since, until) {
		if a.tenant == onlyEU && a.status == 200 && a.region != euRegion {
			abroad++
			tr.t.Logf("a request of %s at %s was served by %s", a.tenant, a.door, a.region)
		}
		if a.door == ignored {
			continue
		}
		mayServe := a.tenant != onlyEU || broken != euRegion
		switch got, why := judge(a, tr.right[a.tenant][a.prompt], mayServe); got {
		case cut:
			cuts = append(cuts, a)
		case lost:
			if losses++; losses <= 3 {
				rec, err := explain(tr.s.router(a.door), a.id)
				tr.t.Logf("lost: %s of %s, %v before now, took %v after %d attempts: %s\n%+v %v", a.id, a.tenant, time.Since(a.began).Round(time.Millisecond),
					a.ended.Sub(a.began).Round(time.Millisecond), a.attempts, why, rec, err)
			}
		}
	}
	tr.board.add(lostRequests, float64(losses))
	tr.board.add(residency, float64(abroad))
	if most := tr.retries(since); most > 0 {
		tr.board.add(amplified, most)
	}
	if loads := tr.loads(since, broken); len(loads) > 0 {
		tr.board.add(survivors, quantile(loads, 1))
		tr.board.add(survivorsMean, mean(loads))
	}
	return cuts
}

// moved counts clusters that were moved away from since a moment, besides one.
func (tr *trial) moved(since time.Time, but string) (n int) {
	for _, c := range tr.changes(since) {
		if c.cluster != but && slices.Contains([]string{"FAILING_OVER", "EVACUATED"}, c.state) {
			tr.t.Logf("%s became %s", c.cluster, c.state)
			n++
		}
	}
	return n
}
