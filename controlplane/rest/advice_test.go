package rest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"anabranch/api/fleet"
	"anabranch/controlplane/access"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/shift"
)

// advisorDouble advises from what it is given, without a memory.
type advisorDouble struct {
	in   func() plan.Input
	cold shift.Cold
	// err is answered instead; asked is what was asked last.
	err   error
	asked plan.CapacityOptions
}

func (a *advisorDouble) Advise(model fleet.ModelID, survive string, peak bool) (plan.Advice, bool, error) {
	if a.err != nil {
		return plan.Advice{}, true, a.err
	}
	a.asked = plan.CapacityOptions{Model: model, Survive: survive, Peak: peak, Cold: a.Cold}
	all, err := plan.Capacity(a.in(), a.asked)
	if len(all) != 1 {
		return plan.Advice{}, false, err
	}
	return all[0], true, err
}

func (a *advisorDouble) Cold(fleet.ModelID) (shift.Cold, bool) { return a.cold, true }

// advised is busyPair with somebody who advises.
func advised(t *testing.T) (*double, *advisorDouble) {
	t.Helper()
	d := busyPair(t, nil)
	a := &advisorDouble{cold: shift.Cold{Prefill: 0.5, Hit: 0.5}}
	a.in = func() plan.Input {
		return plan.Input{Resources: d.current(), Signals: d.signals.Snapshot(d.now()), Now: d.now(), Warm: true}
	}
	d.server.o.Advisor = a
	return d, a
}

func TestHowManyReplicasAModelNeeds(t *testing.T) {
	d, advisor := advised(t)
	var got plan.Advice
	a := d.do("viewer", "GET", "/v1/models/m/capacity", "").want(200, "")
	a.into(&got)
	if got.Model != "m" || got.Survive != "none" || len(got.Clusters) != 2 || got.Clusters[1].Cluster != "us-1" || got.Clusters[1].Wanted != 1 || len(got.Clusters[1].Reasons) == 0 ||
		got.Demand.NowPerS != 1000 || a.header.Get("X-Staleness-Ms") != "250" {
		t.Errorf("got %+v", got)
	}
	d.do("viewer", "GET", "/v1/models/m/capacity?survive=region&demand=peak&cluster=us-1", "").want(200, "").into(&got)
	if len(got.Clusters) != 1 || got.Survive != "region" || advisor.asked.Survive != "region" || !advisor.asked.Peak || got.Demand.Basis != plan.BasisPeak {
		t.Errorf("got %+v", got)
	}
	d.failing(errNoLeader)
	d.do("viewer", "GET", "/v1/models/m/capacity", "").want(200, "") // it is local by nature
	d.do("", "GET", "/v1/models/m/capacity", "").want(401, "unauthenticated")
	d.do("viewer", "GET", "/v1/models/x/capacity", "").want(404, "not_found")
}

func TestWhatCannotBeAdvisedIsNamed(t *testing.T) {
	d, advisor := advised(t)
	for query, want := range map[string]string{
		"?survive=planet":  `survive is "planet"; use one of none, cluster, region.`,
		"?demand=tomorrow": `demand is "tomorrow"; use one of now, peak.`,
		"?cluster=x":       "use one of eu-1, us-1, or leave it out",
		"?colour=red":      "",
	} {
		p := d.do("viewer", "GET", "/v1/models/m/capacity"+query, "").want(400, "invalid_request").problem()
		if said := p.Detail; len(p.Errors) == 1 {
			if said = p.Errors[0].Fix; said != want || p.Errors[0].Field != "cluster" {
				t.Errorf("%s: %+v", query, p)
			}
		} else if want != "" && said != want {
			t.Errorf("%s: %+v", query, p)
		}
	}
	d.seed("Model lonely {}")
	if p := d.do("viewer", "GET", "/v1/models/lonely/capacity?cluster=us-1", "").want(400, "invalid_request").problem(); !strings.Contains(p.Errors[0].Fix, "no cluster serves the model") {
		t.Errorf("%+v", p)
	}
	advisor.err = plan.ErrTooMuch
	if p := d.do("viewer", "GET", "/v1/models/m/capacity", "").want(400, "invalid_request").problem(); !strings.Contains(p.Detail, "survive=none") {
		t.Errorf("%+v", p)
	}
	d.server.o.Advisor = nil
	d.do("viewer", "GET", "/v1/models/m/capacity", "").want(503, "busy")
}

func TestWhatIsLeftAfterEachLoss(t *testing.T) {
	d, _ := advised(t)
	var got plan.Survival
	a := d.do("viewer", "GET", "/v1/plan/survival", "").want(200, "")
	a.into(&got)
	var lost []string
	for _, r := range got.Rows {
		lost = append(lost, r.Lost.String())
	}
	if s := strings.Join(lost, ", "); s != "nothing, eu, us, eu-1, us-1" || a.header.Get("X-Staleness-Ms") != "250" || len(got.Silent) != 1 {
		t.Errorf("rows %s of %+v", s, got)
	}
	us := got.Rows[2]
	if us.MovedPerS != 1000 || us.ColdPerS != 500 || us.ExtraRTTMs != 70 || us.Verdict != plan.Fails || len(us.Tenants) != 1 || us.Tenants[0].Tenant != "acme" || !strings.Contains(us.Why, "acme") {
		t.Errorf("without us: %+v", us)
	}
	d.do("viewer", "GET", "/v1/plan/survival?model=m&pairs=true", "").want(200, "").into(&got)
	if len(got.Rows) != 6 || got.Model != "m" {
		t.Errorf("with pairs %+v", got)
	}
	if p := d.do("viewer", "GET", "/v1/plan/survival?model=x", "").want(400, "invalid_request").problem(); p.Errors[0].Field != "model" || p.Errors[0].Fix != "use one of m, or leave it out" {
		t.Errorf("%+v", p)
	}
	d.do("viewer", "GET", "/v1/plan/survival?pairs=perhaps", "").want(400, "invalid_request")
	d.do("viewer", "GET", "/v1/plan/survival?most=1", "").want(200, "").into(&got)
	if got.Untried != 1 || len(got.Rows) != 2 {
		t.Errorf("the busiest region alone: %d rows, %d untried", len(got.Rows), got.Untried)
	}
	for _, most := range []string{"0", "1001", "few"} {
		d.do("viewer", "GET", "/v1/plan/survival?most="+most, "").want(400, "invalid_request")
	}
	d.do("", "GET", "/v1/plan/survival", "").want(401, "unauthenticated")
}

func TestAMatrixNamesNoTenantsOutOfScope(t *testing.T) {
	d, _ := advised(t)
	d.seed("Tenant globex {}")
	d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}})
	d.token("of-globex", "viewer", access.Scope{Tenants: []string{"globex"}})
	var got plan.Survival
	a := d.do("of-globex", "GET", "/v1/plan/survival", "").want(200, "")
	a.into(&got)
	for _, r := range got.Rows {
		if len(r.Tenants) != 0 || strings.Contains(r.Why, "acme") || r.Verdict != plan.Survives {
			t.Errorf("%+v", r)
		}
	}
}

func TestAMatrixOfALargeFleetIsRefused(t *testing.T) {
	d, _ := advised(t)
	d.server.o.Planned = func(*state.View, signal.Snapshot) plan.Input { return plan.Input{Resources: largeFleet(3200)} }
	if p := d.do("viewer", "GET", "/v1/plan/survival", "").want(400, "invalid_request").problem(); !strings.Contains(p.Detail, "give a model") {
		t.Errorf("%+v", p)
	}
	d.server.o.Planned = nil
	d.do("viewer", "GET", "/v1/plan/survival", "").want(503, "busy")
}

var errNoLeader = errors.New("no leader")

// largeFleet is a region with so many clusters.
type largeFleet int

func (n largeFleet) List(kind policy.Kind) []*policy.Resource {
	switch kind {
	case policy.KindRegion:
		return []*policy.Resource{{Kind: kind, Metadata: policy.Metadata{Name: "us"}, Spec: &policy.RegionSpec{}}}
	case policy.KindModel:
		return []*policy.Resource{{Kind: kind, Metadata: policy.Metadata{Name: "m"}, Spec: &policy.ModelSpec{}}}
	case policy.KindCluster:
		var out []*policy.Resource
		for i := range int(n) {
			out = append(out, &policy.Resource{Kind: kind, Metadata: policy.Metadata{Name: fmt.Sprintf("c%04d", i)}, Spec: &policy.ClusterSpec{Region: "us", Models: []string{"m"}}})
		}
		return out
	}
	return nil
}
