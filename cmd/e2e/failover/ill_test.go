package failover

import (
	"fmt"
	"math"
	"time"

	"anabranch/cmd/anabranch/dev/seed"
	"anabranch/controlplane/policy"
)

// ill breaks a cluster, measures how long its router uses it, and heals it.
func (tr *trial) ill(region, goal string, within time.Duration, breaks, heals func()) {
	tr.t.Helper()
	broken, router := tr.s.cluster(region), tr.s.router(region)
	tr.good()
	began := time.Now()
	breaks()
	err := poll(within, 20*time.Millisecond, func() error { return leaves(router, broken.name) })
	noticed := time.Since(began)
	if err != nil {
		tr.t.Error(err)
	}
	tr.board.add(goal, noticed.Seconds())
	gone := tr.evacuates(broken.name, began) // a suspect that gets well before that waits longer for trust each time
	tr.board.add(evacuatedIll, gone.Seconds())
	heals()
	tr.good()
	cuts := tr.settle(began, region, "")
	tr.board.add(unjust, float64(tr.moved(began, broken.name)))
	tr.t.Logf("%s: left after %v, evacuated after %v, %d cut", region, noticed.Round(time.Millisecond), gone.Round(time.Millisecond), len(cuts))
}

// hang: all model servers of a cluster take requests and emit nothing more.
func (tr *trial) hang(n int) {
	region := regions[n%len(regions)]
	c := tr.s.cluster(region)
	tr.ill(region, silent, 30*time.Second,
		func() { tr.s.fault(c, `{"fault":"hang"}`) }, func() { tr.s.fault(c, "") })
}

// errors: three in ten requests get a 500.
func (tr *trial) errors(n int) {
	region := regions[n%len(regions)]
	c := tr.s.cluster(region)
	tr.ill(region, errorsGrey, 60*time.Second,
		func() { tr.s.fault(c, `{"fault":"error500","ratio":0.3}`) }, func() { tr.s.fault(c, "") })
}

// blackHole: packets to a cluster's network are lost, and nobody says so.
func (tr *trial) blackHole(int) {
	if tr.s.away == nil {
		tr.t.Skipf("this machine allows no network namespaces: %v", tr.s.why)
	}
	tr.ill(apRegion, blackHole, 30*time.Second, tr.s.away.swallow, tr.s.away.heal)
}

// slow: all takes a cluster three times as long, under an objective that this breaks and that the usual times keep.
// The model servers of all are slow beforehand, so that first tokens take long beside what everything else takes.
func (tr *trial) slow(n int) {
	region := regions[n%len(regions)]
	c := tr.s.cluster(region)
	for _, each := range tr.s.clusters {
		tr.s.fault(each, `{"fault":"slow","factor":4}`)
		defer tr.s.fault(each, "")
	}
	tr.good()
	pass(10 * time.Second) // of what is usual
	p95 := quantile(tr.firstTokens(region, time.Now().Add(-10*time.Second)), 0.95)
	tr.s.patch(policy.KindTrafficPolicy, seed.Policy, fmt.Sprintf(`{"spec":{"ttftObjectiveMs":%d}}`, max(10, int(math.Ceil(p95*1000)))))
	began := time.Now()
	tr.s.fault(c, `{"fault":"slow","factor":12}`)
	err := poll(60*time.Second, 100*time.Millisecond, func() error {
		for _, s := range tr.changes(began) {
			if s.cluster == c.name && s.state == "DEGRADED" {
				return nil
			}
		}
		return fmt.Errorf("%s is still believed to be well: first tokens took %.3f s, now %.3f s", c.name, p95,
			quantile(tr.firstTokens(region, time.Now().Add(-10*time.Second)), 0.95))
	})
	noticed := time.Since(began)
	if err != nil {
		tr.t.Error(err)
	}
	tr.board.add(slowGrey, noticed.Seconds())
	tr.t.Logf("%s: DEGRADED after %v; first tokens took %.3f s, then %.3f s", region, noticed.Round(time.Millisecond), p95,
		quantile(tr.firstTokens(region, time.Now().Add(-10*time.Second)), 0.95))
	tr.s.fault(c, `{"fault":"slow","factor":4}`)
	tr.s.patch(policy.KindTrafficPolicy, seed.Policy, `{"spec":{"ttftObjectiveMs":2000}}`)
	tr.settle(began, "", "")
	tr.good()
}

// firstTokens are the times, in s, to the first tokens of streams of a region since a moment.
func (tr *trial) firstTokens(region string, since time.Time) []float64 {
	var all []float64
	for _, a := range began(tr.between(since, time.Now()), since) {
		if (region == "" || a.door == region) && a.stream && !a.first.IsZero() {
			all = append(all, a.first.Sub(a.began).Seconds())
		}
	}
	return all
}
