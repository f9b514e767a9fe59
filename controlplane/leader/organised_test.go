package leader

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// raise is what all voters have come to apply.
func (r *rig) raise(level uint32) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if out := r.apply(&statepb.Command{Format: 2, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: level}}}); out.GetCode() != "" {
		r.t.Fatal(out)
	}
}

// limited is a crew whose table has a quota of one organisation.
func limited(t *testing.T) *crew {
	c := newCrew(t)
	c.raise(4)
	c.write(policy.KindTenant, "acme", "{}")
	c.pass(30 * time.Second)
	c.write(policy.KindQuota, "q", "{tenant: acme, limits: [{kind: requests, perMinute: 60}]}")
	c.pass(3 * time.Second)
	if c.View().Pending() || len(c.View().Table().GetQuotas()) != 1 || len(c.View().Table().GetOrganisations()) != 1 {
		t.Fatalf("pending %v, table %v", c.View().Pending(), c.View().Table())
	}
	return c
}

func limit(t *routerpb.Table) int64 { return t.GetQuotas()[0].GetLimit() }

func TestLimitsAloneHoldAtOnceWhileRolloutsAreStaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := limited(t)
		rollouts, before := len(c.View().Rollouts()), c.View().Table().GetOrganisations()[0]
		c.write(policy.KindQuota, "q", "{tenant: acme, limits: [{kind: requests, perMinute: 30}]}")
		c.pass(3 * time.Second)
		after := c.View().Table().GetOrganisations()[0]
		if limit(c.View().Table()) != 30 || len(c.View().Rollouts()) != rollouts {
			t.Errorf("limit %d after %d more rollouts", limit(c.View().Table()), len(c.View().Rollouts())-rollouts)
		}
		if after.GetVersion() <= before.GetVersion() || after.GetEpoch() != before.GetEpoch() {
			t.Errorf("%v after %v", after, before)
		}
	})
}

func TestATrialCountsByTheQuotasOfTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := limited(t)
		c.write(policy.KindQuota, "q", "{tenant: acme, limits: [{kind: requests, perMinute: 30}]}")
		c.shift()
		c.pass(3 * time.Second)
		if c.last().GetStage() != "canary" {
			t.Fatalf("rollout %v", c.last())
		}
		fresh, others := c.View().FreshTable(), c.View().Table()
		if limit(fresh) != 60 || limit(others) != 60 || !proto.Equal(fresh.GetOrganisations()[0], others.GetOrganisations()[0]) {
			t.Errorf("the canary has %v of %v, the others %v of %v", fresh.GetQuotas(), fresh.GetOrganisations(), others.GetQuotas(), others.GetOrganisations())
		}
		before := others.GetOrganisations()[0].GetVersion()
		c.pass(30 * time.Second)
		if now := c.View().Table(); c.last().GetStage() != "settled" || limit(now) != 30 || now.GetOrganisations()[0].GetVersion() <= before {
			t.Errorf("at the end: %s, %v", c.last().GetStage(), now.GetQuotas())
		}
	})
}

func TestOrganisationsComeOnceAllNodesKnowThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.write(policy.KindTenant, "acme", "{}")
		r.write(policy.KindQuota, "q", "{tenant: acme, limits: [{kind: requests, perMinute: 60}]}")
		r.lead()
		r.pass(12 * time.Second)
		if table := r.View().Table(); len(table.GetQuotas()) != 1 || len(table.GetOrganisations()) != 0 || table.GetQuotas()[0].GetOrganisation() != "" {
			t.Fatalf("before: %v of %v", table.GetQuotas(), table.GetOrganisations())
		}
		r.raise(4)
		r.pass(3 * time.Second)
		if table := r.View().Table(); len(table.GetOrganisations()) != 1 || table.GetQuotas()[0].GetOrganisation() != "acme" || !table.GetOrganisations()[0].GetYoung() {
			t.Errorf("after: %v of %v", table.GetQuotas(), table.GetOrganisations())
		}
	})
}
