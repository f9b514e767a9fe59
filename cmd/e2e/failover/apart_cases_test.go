package failover

import (
	"context"
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"

	"anabranch/cmd/anabranch/dev/seed"
	"anabranch/controlplane/policy"
)

// partition: what the control plane says to routers is lost, or what they say to it, in turn.
func (tr *trial) partition(n int) {
	tr.good()
	began := time.Now()
	for _, r := range tr.s.relays {
		if n%2 == 0 {
			r.up.Store(true)
		} else {
			r.down.Store(true)
		}
	}
	pass(10 * time.Second) // silence is believed after 5 s, and what was hard to see moves after 3 s more
	tr.settle(began, "", "")
	tr.board.add(unjust, float64(tr.moved(began, "")))
	for _, r := range tr.s.relays {
		r.heal()
	}
	tr.current(60 * time.Second)
	tr.good()
	tr.board.add(unjust, float64(tr.moved(began, "")))
}

// current waits until every router has the control plane's table.
func (tr *trial) current(within time.Duration) {
	tr.t.Helper()
	tr.s.await(within, "every router to be current", func() error {
		v, err := tr.s.fleet(context.Background())
		if err != nil {
			return err
		}
		for _, r := range tr.s.routers {
			st, err := status(r)
			if err != nil {
				return err
			}
			if st.Sight != "current" || st.Epoch < v.Epoch || st.Revision < v.TableRevision {
				return fmt.Errorf("%s has table %d/%d of %d/%d, its sight is %s", r.name, st.Epoch, st.Revision, v.Epoch, v.TableRevision, st.Sight)
			}
		}
		return nil
	})
}

// drain: an operator drains a cluster, and its router is ended in order while streams are open.
func (tr *trial) drain(n int) {
	region := regions[n%len(regions)]
	if region == euRegion {
		region = usRegion // the zone of the tenant who may not leave it has no other cluster
	}
	tr.good()
	began := time.Now()
	name := tr.s.cluster(region).name
	tr.s.patch(policy.KindCluster, name, `{"spec":{"drained":true}}`)
	err := poll(30*time.Second, 100*time.Millisecond, func() error {
		for _, a := range tr.between(time.Now().Add(-2*time.Second), time.Now()) {
			if a.region == region && a.began.After(time.Now().Add(-2*time.Second)) {
				return fmt.Errorf("%s serves still", name)
			}
		}
		return nil
	})
	if err != nil {
		tr.t.Error(err)
	}
	tr.board.add(drained, float64(len(tr.settle(began, "", ""))))
	tr.s.patch(policy.KindCluster, name, `{"spec":{"drained":false}}`)
	tr.good()

	began = time.Now()
	router := tr.s.router(region)
	tr.bar(region, true) // as the load balancer before it does
	tr.drains(router, began)
	router.start(tr.s)
	tr.bar(region, false)
	tr.good()
}

// drains ends a router in order, to whom no client goes since a moment.
func (tr *trial) drains(router *part, since time.Time) {
	tr.t.Helper()
	if err := syscall.Kill(router.running().Status().PID, syscall.SIGTERM); err != nil {
		tr.t.Fatal(err)
	}
	select {
	case <-router.running().Done():
	case <-time.After(30 * time.Second):
		tr.t.Fatalf("%s goes on", router.name)
	}
	// Requests that were on their way to its door just then find it closed.
	cuts := 0
	for _, a := range tr.between(since, time.Now()) {
		if a.door != router.region {
			continue
		}
		if got, _ := judge(a, tr.right[a.tenant][a.prompt], true); got == cut || got == lost && a.status == 200 {
			cuts++
		}
	}
	tr.board.add(drained, float64(cuts))
}

// routerLost: a region's only router is killed. Nobody else's clients notice, and nobody believes that
// the region's cluster is gone.
func (tr *trial) routerLost(n int) {
	region := regions[n%len(regions)]
	if region == euRegion {
		region = apRegion // the tenant of the EU is served by that router, from wherever it asks
	}
	tr.good()
	began := time.Now()
	router := tr.s.router(region)
	tr.bar(region, true)
	router.kill(tr.t)
	pass(10 * time.Second)
	tr.settle(began, "", region)
	tr.board.add(unjust, float64(tr.moved(began, "")))
	router.start(tr.s)
	tr.bar(region, false)
	tr.good()
}

// controlPlaneLost: all nodes are killed. Meanwhile a cluster is, too, and a router starts again.
func (tr *trial) controlPlaneLost(n int) {
	region := regions[n%len(regions)]
	tr.good()
	pass(3 * time.Second) // of what is usual
	usual := quantile(tr.firstTokens("", time.Now().Add(-6*time.Second)), 0.5)
	before := tr.lastWeights()
	gone := time.Now()
	for _, node := range tr.s.nodes {
		node.kill(tr.t)
	}
	pass(6 * time.Second)
	tr.board.add(aloneSlower, quantile(tr.firstTokens("", gone), 0.5)/usual)
	tr.settle(gone, "", "")

	// A router starts from its disk.
	restarted := time.Now()
	router := tr.s.router(region)
	tr.bar(region, true)
	if n%2 == 0 {
		tr.drains(router, restarted)
	} else {
		router.kill(tr.t)
	}
	began := time.Now()
	router.launch(tr.s)
	if err := poll(20*time.Second, 10*time.Millisecond, func() error {
		a := ask(context.Background(), router.front, tr.s.keys[anywhere], body("ready?", 1, false))
		if a.status != 200 {
			return fmt.Errorf("%d %s %w", a.status, a.code, a.err)
		}
		return nil
	}); err != nil {
		tr.t.Error(err)
	}
	tr.board.add(fromDisk, time.Since(began).Seconds())
	tr.bar(region, false)
	tr.settle(restarted, region, region) // who may be served in its region alone has no other way there

	// Local failover goes on.
	killed := time.Now()
	broken := tr.s.cluster(region)
	broken.kill(tr.t)
	if err := poll(20*time.Second, 10*time.Millisecond, func() error { return leaves(router, broken.name) }); err != nil {
		tr.t.Error(err)
	}
	tr.board.add(notice, time.Since(killed).Seconds())
	pass(2 * time.Second)
	tr.settle(killed, region, "")
	broken.start(tr.s)

	for _, node := range tr.s.nodes {
		node.launch(tr.s)
	}
	tr.s.await(60*time.Second, "a quorum", func() error {
		var status struct{ Leader string }
		if err := tr.s.admin.JSON(context.Background(), "/v1/status", nil, &status); err != nil {
			return err
		}
		if status.Leader == "" {
			return errNotYet
		}
		return nil
	})
	back := time.Now()
	tr.current(60 * time.Second)
	tr.board.add(quorumBack, time.Since(back).Seconds())
	pass(3 * time.Second)
	most := 0.0
	for name, share := range tr.lastWeights() {
		most = max(most, 100*math.Abs(share-before[name]))
	}
	tr.board.add(jump, most)
	tr.good()
}

// lastWeights are the shares at the last look.
func (tr *trial) lastWeights() map[string]float64 {
	tr.eye.mu.Lock()
	defer tr.eye.mu.Unlock()
	if len(tr.weights) == 0 {
		return nil
	}
	return tr.weights[len(tr.weights)-1].shares
}

// steady: nothing happens, and the weights stay where they are.
func (tr *trial) steady(int) {
	tr.good()
	began, length := time.Now(), time.Minute
	pass(length)
	peak, most := 0.0, 0
	for _, series := range tr.series(began) {
		p, n := swing(series, 0.01)
		peak, most = max(peak, p), max(most, n)
	}
	tr.board.add(swings, 100*peak)
	tr.board.add(turns, float64(most)/length.Minutes())
	tr.settle(began, "", "")
}

// alternating: a cluster's errors come and go every few seconds, for ten minutes.
func (tr *trial) alternating(n int) {
	tr.good()
	// What returns in seconds would be believed again between two errors.
	tr.s.patch(policy.KindTrafficPolicy, seed.Policy, `{"spec":{"failover":{"timeScale":1}}}`)
	defer func() {
		tr.s.patch(policy.KindTrafficPolicy, seed.Policy, fmt.Sprintf(`{"spec":{"failover":{"timeScale":%v}}}`, fast))
		tr.good()
	}()
	c, began := tr.s.cluster(usRegion), time.Now()
	periods := []time.Duration{2 * time.Second, 8 * time.Second, 30 * time.Second}
	period := periods[n%len(periods)]
	for ill := true; time.Since(began) < 10*time.Minute; ill = !ill {
		if ill {
			tr.s.fault(c, `{"fault":"error500"}`)
		} else {
			tr.s.fault(c, "")
		}
		pass(period)
	}
	tr.s.fault(c, "")
	steps := slices.DeleteFunc(tr.changes(began), func(s stateAt) bool { return s.cluster != c.name || s.state == "SUSPECT" })
	tr.board.add(flaps, float64(len(steps)))
	tr.t.Logf("every %v: %v", period, steps)
	tr.settle(began, "", "")
}
