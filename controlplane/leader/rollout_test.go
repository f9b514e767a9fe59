package leader

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/order"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// crew is the routers of a rig: they take what they are to have, but for what a test says.
type crew struct {
	*rig
	refuse   map[string]string // router: code
	requests uint64            // of each router's reports
	failures map[string]uint64 // of these, by router
	taken    map[string][]uint64
}

const quick = "{rollout: {canary: {bakeSeconds: 5}, region: {bakeSeconds: 10}, timeoutSeconds: 60, errorBudget: {minRequests: 20}}}"

// newCrew is a fleet with a table in force and rollouts in stages of 5 and 10 seconds.
func newCrew(t *testing.T) *crew {
	t.Helper()
	c := &crew{rig: newRig(t), refuse: map[string]string{}, failures: map[string]uint64{}, taken: map[string][]uint64{}}
	c.seed()
	c.apply(&statepb.Command{Format: 2, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}})
	c.observe = func(o *signal.Observation) {
		id := string(o.Router())
		table := c.View().TableFor(o.Router(), o.Region()).GetRef()
		if table == nil {
			return
		}
		code := c.refuse[id]
		if fresh := c.View().FreshTable(); fresh.GetRef().GetRevision() != table.GetRevision() {
			code = "" // it refuses only what is new
		}
		o.Ack = &routerpb.Ack{Table: table, Ok: code == "", Code: code, Message: "because"}
		n := len(c.taken[id])
		if code == "" && (n == 0 || c.taken[id][n-1] != table.GetRevision()) {
			c.taken[id], n = append(c.taken[id], table.GetRevision()), n+1
		}
		if n > 0 {
			o.Report.Applied = &routerpb.TableRef{ClusterId: "c-1", Epoch: table.GetEpoch(), Revision: c.taken[id][n-1]}
		}
		o.Report.Requests, o.Report.Failures = c.requests, c.failures[id]
	}
	c.lead()
	c.pass(12 * time.Second)
	c.write(policy.KindSafetyRule, "s", quick)
	c.pass(2 * time.Second)
	if c.View().Table() == nil || c.View().Pending() || c.View().Rollout() != nil {
		t.Fatal("a rule alone is a change")
	}
	return c
}

// shift is an operator's change that moves all traffic to us.
func (c *crew) shift() {
	c.t.Helper()
	c.write(policy.KindTrafficPolicy, "p", "{failover: {timeScale: 0.05}, regions: [{region: ap, weight: 0}, {region: eu, weight: 0}]}")
}

// goes is the share of a region's own traffic that a router sends to us by the table that it is to have.
func (c *crew) goes(region string) float64 {
	for _, w := range c.View().TableFor(fleet.RouterID("r-"+region), fleet.RegionID(region)).GetWeights() {
		for _, to := range w.GetClusters() {
			if w.GetSource() == region && to.GetCluster() == "us-a" {
				return to.GetWeight()
			}
		}
	}
	return -1
}

func (c *crew) steer(s *statepb.SteerChange) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if out := c.apply(&statepb.Command{Format: 3, Actor: &statepb.Actor{Name: "ann"}, Op: &statepb.Command_SteerChange{SteerChange: s}}); out.GetCode() != "" {
		c.t.Fatalf("%v: %v", s, out)
	}
}

// last is the latest rollout, and what became of it.
func (c *crew) last() *statepb.Rollout {
	c.t.Helper()
	all := c.View().Rollouts()
	if len(all) == 0 {
		c.t.Fatal("no rollout began")
	}
	return all[len(all)-1]
}

func TestAChangeGoesOutInStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		c.shift()
		c.pass(2 * time.Second)
		if r := c.last(); r.GetStage() != "canary" || r.GetCanary() != "r-ap" || strings.Join(r.GetChanges(), " ") != "TrafficPolicy/p" {
			t.Fatalf("rollout %v", r)
		}
		if c.goes("ap") != 1 || c.goes("eu") == 1 {
			t.Errorf("canary: ap sends %v to us, eu %v", c.goes("ap"), c.goes("eu"))
		}
		c.pass(8 * time.Second)
		if r := c.last(); r.GetStage() != "region" || r.GetExpected() != 1 {
			t.Fatalf("after the bake of 5 s: %v", r)
		}
		c.pass(6 * time.Second)
		if c.goes("eu") == 1 {
			t.Error("the region's bake of 10 s was cut short")
		}
		c.pass(8 * time.Second)
		if c.last().GetStage() != "settled" || c.goes("eu") != 1 || c.goes("ap") != 1 || c.View().Pending() {
			t.Fatalf("at the end: %v, eu sends %v", c.last(), c.goes("eu"))
		}
		before := len(c.proposals())
		c.pass(20 * time.Second)
		if n := len(c.proposals()) - before; n > 0 {
			t.Errorf("%d proposals after the end", n)
		}
	})
}

func TestARefusedTableIsTakenBackAndNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		c.refuse["r-ap"] = "crash_loop"
		c.shift()
		c.pass(4 * time.Second)
		if r := c.last(); r.GetStage() != "returned" || !strings.Contains(r.GetReason(), "r-ap refused the table: crash_loop: because") {
			t.Fatalf("rollout %v", r)
		}
		before := len(c.proposals())
		c.pass(60 * time.Second)
		if n := len(c.proposals()) - before; n > 0 || len(c.View().Rollouts()) != 1 {
			t.Errorf("%d proposals, %d rollouts", n, len(c.View().Rollouts()))
		}
		if c.goes("eu") == 1 || c.goes("us") != 1 && c.goes("us") < 0.5 {
			t.Error("the change has reached others")
		}
		c.steer(&statepb.SteerChange{Act: state.ActRetry, Rollout: c.last().GetId()})
		delete(c.refuse, "r-ap")
		c.pass(30 * time.Second)
		if c.last().GetStage() != "settled" || c.goes("eu") != 1 {
			t.Errorf("after a retry: %v", c.last())
		}
	})
}

func TestAChangeBackNeedsNoRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		c.refuse["r-ap"] = "weights_sum"
		c.shift()
		c.pass(4 * time.Second)
		c.write(policy.KindTrafficPolicy, "p", "{failover: {timeScale: 0.05}}")
		c.pass(3 * time.Second)
		if c.View().Pending() || len(c.View().Rollouts()) != 1 {
			t.Errorf("pending %v, %v", c.View().Pending(), c.View().Rollouts())
		}
	})
}

func TestACanaryThatFailsRequestsBurnsTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		c.requests = 20
		c.pass(30 * time.Second)
		c.shift()
		c.pass(2 * time.Second)
		canary := c.last().GetCanary()
		c.failures[canary] = 4
		c.pass(4 * time.Second)
		if r := c.last(); r.GetStage() != "returned" || !strings.Contains(r.GetReason(), "error budget") {
			t.Errorf("rollout %v", r)
		}
	})
}

func TestACanaryThatFallsSilentIsNoSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		c.write(policy.KindSafetyRule, "s", "{rollout: {canary: {bakeSeconds: 20}}}")
		c.shift()
		c.pass(4 * time.Second)
		c.mute["ap"] = true
		c.pass(30 * time.Second)
		if r := c.last(); r.GetStage() != "canary" {
			t.Fatalf("within half a minute: %v", r)
		}
		c.pass(10 * time.Second)
		if r := c.last(); r.GetStage() != "returned" || !strings.Contains(r.GetReason(), "out of sight") {
			t.Errorf("rollout %v", r)
		}
	})
}

func TestAFailoverWaitsForNoRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		c.shift()
		c.pass(3 * time.Second)
		c.steer(&statepb.SteerChange{Act: state.ActPause, Rollout: c.last().GetId()})
		c.down["us"] = true
		c.pass(15 * time.Second)
		if c.last().GetStage() != "canary" || c.goes("us") != 0 || c.goes("ap") != 0 || c.goes("eu") != 0 {
			t.Errorf("%v: us sends %v to itself, ap %v, eu %v", c.last(), c.goes("us"), c.goes("ap"), c.goes("eu"))
		}
	})
}

func TestADrainWaitsForNoRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		c.write(policy.KindCluster, "us-a", "{region: us, models: [m], drained: true, endpoints: [{id: e, url: \"http://us:1\", class: h100}]}")
		c.pass(3 * time.Second)
		if c.goes("us") != 0 || c.View().Pending() || len(c.View().Rollouts()) != 0 {
			t.Errorf("us sends %v, pending %v, %v", c.goes("us"), c.View().Pending(), c.View().Rollouts())
		}
	})
}

// Nothing that operators change comes to routers while an order holds tables off, but residency that is tighter, which does
// at once, and stands by itself.
func TestTighterResidencyWaitsForNoOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.apply(&statepb.Command{Format: 2, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 6}}})
		r.write(policy.KindTenant, "acme", "{tier: top}")
		r.lead()
		r.pass(20 * time.Second)
		o := order.Order{Kind: order.Freeze, Actor: "ann", Reason: "x", At: time.Now(), Expires: time.Now().Add(time.Minute)}
		r.mu.Lock()
		out := r.apply(&statepb.Command{Format: 6, AtUnixMs: time.Now().UnixMilli(), Actor: &statepb.Actor{Name: "ann"}, Op: &statepb.Command_PutOrder{PutOrder: &statepb.PutOrder{Order: o.Proto()}}})
		r.mu.Unlock()
		if out.GetCode() != "" {
			t.Fatal(out)
		}
		tenants := func() (out []string) {
			for _, x := range r.View().Table().GetTenants() {
				out = append(out, fmt.Sprintf("%s %s %v", x.GetId(), x.GetTier(), x.GetResidency()))
			}
			return out
		}
		r.write(policy.KindTenant, "globex", "{}")
		r.pass(5 * time.Second)
		if got := tenants(); !slices.Equal(got, []string{"acme top []"}) {
			t.Errorf("under a freeze %v", got)
		}
		r.write(policy.KindTenant, "acme", "{tier: batch, residency: [us]}")
		r.pass(2 * time.Second)
		if got := tenants(); !slices.Equal(got, []string{"acme top [us]"}) {
			t.Errorf("tightened under a freeze: %v", got)
		}
		once := r.View().Table().GetRef().GetRevision()
		r.pass(10 * time.Second)
		r.write(policy.KindTenant, "acme", "{tier: batch}")
		r.pass(10 * time.Second)
		if got := tenants(); !slices.Equal(got, []string{"acme top [us]"}) || r.View().Table().GetRef().GetRevision() != once {
			t.Errorf("widened again: %v, in table %v, and was %d", got, r.View().Table().GetRef(), once)
		}
		r.pass(40 * time.Second)
		if got := tenants(); !slices.Equal(got, []string{"acme batch []", "globex standard []"}) {
			t.Errorf("when the freeze is over: %v", got)
		}
	})
}

// A pin holds at once, through a change of leader and whatever is seen, and ends by itself: what it kept off comes back
// in steps.
func TestAPinWaitsForNoRolloutAndEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		pin := func(percent int, lasts time.Duration) {
			c.write(policy.KindCluster, "us-a", fmt.Sprintf("{region: us, models: [m], pin: {percent: %d, until: %q}, endpoints: [{id: e, url: \"http://us:1\", class: h100}]}",
				percent, time.Now().Add(lasts).UTC().Format(time.RFC3339)))
		}
		pin(100, 40*time.Second)
		c.pass(2 * time.Second)
		c.down["us"] = true
		c.pass(15 * time.Second)
		if c.health("us-a") != "PINNED" || c.goes("us") != 1 || c.View().Pending() || len(c.View().Rollouts()) != 0 {
			t.Errorf("us-a is %s and gets %v; pending %v", c.health("us-a"), c.goes("us"), c.View().Pending())
		}
		c.end()
		synctest.Wait()
		c.lead()
		c.pass(15 * time.Second)
		if c.health("us-a") != "PINNED" || c.goes("us") != 1 {
			t.Errorf("under a new leader us-a is %s and gets %v", c.health("us-a"), c.goes("us"))
		}
		c.pass(15 * time.Second)
		if h := c.health("us-a"); h == "PINNED" || c.goes("us") != 0 {
			t.Errorf("after its end us-a, which is dead, is %s and gets %v", h, c.goes("us"))
		}
		delete(c.down, "us")
		c.pass(2 * time.Minute)
		pin(0, 30*time.Second)
		c.pass(4 * time.Second)
		if c.health("us-a") != "PINNED" || c.goes("us") != 0 {
			t.Errorf("pinned at nothing us-a is %s and gets %v", c.health("us-a"), c.goes("us"))
		}
		c.pass(27 * time.Second)
		if w := c.goes("us"); c.health("us-a") != "RAMPING" || w <= 0 || w > 0.1 {
			t.Errorf("after that us-a is %s and gets %v", c.health("us-a"), w)
		}
		c.pass(time.Minute)
		if c.health("us-a") != "HEALTHY" || c.goes("us") != 1 {
			t.Errorf("in the end us-a is %s and gets %v", c.health("us-a"), c.goes("us"))
		}
	})
}

func TestANewLeaderGoesOnWithARollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		c.shift()
		c.pass(4 * time.Second)
		c.end()
		synctest.Wait()
		c.pass(30 * time.Second)
		if r := c.last(); r.GetStage() != "canary" {
			t.Fatalf("without a leader: %v", r)
		}
		c.lead()
		c.pass(4 * time.Second)
		if r := c.last(); r.GetStage() != "canary" {
			t.Errorf("the new leader does not wait for a bake: %v", r)
		}
		c.pass(20 * time.Second)
		if r := c.last(); r.GetStage() != "settled" || c.goes("eu") != 1 {
			t.Errorf("the new leader: %v", r)
		}
	})
}

func TestWhileFrozenNoChangeTakesEffect(t *testing.T) {
	for name, rule := range map[string]string{"in stages": quick, "at once": "{rollout: {staged: false}}"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrew(t)
				c.write(policy.KindSafetyRule, "s", rule)
				c.steer(&statepb.SteerChange{Act: state.ActFreeze})
				c.shift()
				c.pass(20 * time.Second)
				if c.goes("ap") == 1 || !c.View().Pending() {
					t.Errorf("ap sends %v, pending %v", c.goes("ap"), c.View().Pending())
				}
				c.down["us"] = true
				c.pass(15 * time.Second)
				if c.goes("us") != 0 {
					t.Errorf("a dead region keeps %v", c.goes("us"))
				}
				c.down["us"] = false
				c.steer(&statepb.SteerChange{Act: state.ActUnfreeze})
				c.pass(90 * time.Second)
				if c.goes("ap") != 1 || c.View().Pending() {
					t.Errorf("after the freeze ap sends %v, pending %v", c.goes("ap"), c.View().Pending())
				}
			})
		})
	}
}

func TestWithoutTheRuleWhatIsOnItsWayGoesToAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		c.shift()
		c.pass(2 * time.Second)
		c.write(policy.KindSafetyRule, "s", "{rollout: {staged: false}}")
		c.pass(3 * time.Second)
		if r := c.last(); r.GetStage() != "settled" || c.goes("eu") != 1 || c.View().Pending() {
			t.Errorf("%v, eu sends %v", r, c.goes("eu"))
		}
	})
}

func TestARolloutWaitsForARouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		for _, region := range []string{"ap", "eu", "us"} {
			c.mute[region] = true
		}
		c.pass(40 * time.Second)
		c.shift()
		c.pass(10 * time.Second)
		if len(c.View().Rollouts()) != 0 || !c.View().Pending() {
			t.Fatalf("%v", c.View().Rollouts())
		}
		c.mute["eu"] = false
		c.pass(3 * time.Second)
		if r := c.last(); r.GetCanary() != "r-eu" {
			t.Errorf("rollout %v", r)
		}
	})
}
