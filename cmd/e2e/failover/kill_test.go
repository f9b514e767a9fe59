package failover

import (
	"fmt"
	"time"
)

// kill takes the model servers of a cluster away by SIGKILL until the control plane has evacuated it.
func (tr *trial) kill(n int) {
	region := regions[n%len(regions)]
	broken, router := tr.s.cluster(region), tr.s.router(region)
	tr.good()
	killed := time.Now()
	broken.kill(tr.t)
	err := poll(20*time.Second, 10*time.Millisecond, func() error { return leaves(router, broken.name) })
	noticed := time.Since(killed)
	if err != nil {
		tr.t.Error(err)
	}
	tr.board.add(notice, noticed.Seconds())
	pass(time.Until(killed.Add(6 * time.Second)))
	answers := began(tr.between(killed, time.Now()), killed)
	gone := away(answers, killed, func(a answer) bool {
		return a.door == region && a.attempts > 1 || a.region == region
	})
	tr.board.add(left, gone.Seconds())
	tr.retriesOf(answers, broken.name)
	cuts := tr.settle(killed, region, "")
	uncounted := 0
	for _, a := range cuts {
		tr.board.add(cutLate, a.ended.Sub(killed).Seconds())
		// Its record is the router's that the client asked.
		rec, err := explain(tr.s.router(a.door), a.id)
		if err != nil || !rec.Broken || rec.Usage.CompletionTokens == 0 {
			uncounted++
			tr.t.Logf("cut stream %s: %+v %v", a.id, rec, err)
		}
	}
	tr.board.add(cutUncounted, float64(uncounted))
	tr.board.add(evacuated, tr.evacuates(broken.name, killed).Seconds())
	tr.board.add(unjust, float64(tr.moved(killed, broken.name)))
	tr.t.Logf("%s: noticed after %v, all away after %v, %d cut", region, noticed.Round(time.Millisecond), gone.Round(time.Millisecond), len(cuts))
	broken.start(tr.s)
	tr.good()
}

// evacuates waits until the control plane has evacuated a cluster, and gives the time since a moment.
func (tr *trial) evacuates(cluster string, since time.Time) time.Duration {
	tr.t.Helper()
	var took time.Duration
	if err := poll(time.Until(since.Add(60*time.Second)), 100*time.Millisecond, func() error {
		for _, c := range tr.changes(since) {
			if c.cluster == cluster && c.state == "EVACUATED" {
				took = c.at.Sub(since)
				return nil
			}
		}
		return fmt.Errorf("the control plane has not evacuated %s: %v", cluster, tr.changes(since))
	}); err != nil {
		tr.t.Error(err)
		return time.Since(since)
	}
	return took
}

// retriesOf measures how long requests that the place refused took until another one had them.
func (tr *trial) retriesOf(answers []answer, place string) {
	for _, a := range answers {
		if a.attempts < 2 || a.status != 200 {
			continue
		}
		rec, err := explain(tr.s.router(a.door), a.id)
		if err != nil || len(rec.Attempts) < 2 {
			continue // it is no longer remembered
		}
		last := rec.Attempts[len(rec.Attempts)-1]
		if first := rec.Attempts[0]; first.Cluster == place && first.Code == "connect_failed" && last.Code == "" {
			tr.board.add(retried, rec.FirstByteMs-last.FirstByteMs)
		}
	}
}
