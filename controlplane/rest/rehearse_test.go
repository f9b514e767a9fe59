package rest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"anabranch/api/routerpb"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
)

// simulatorDouble answers what it is told to.
type simulatorDouble func(context.Context, *state.View, *state.View) (*Forecast, *Forecast, string, error)

func (s simulatorDouble) Simulate(ctx context.Context, before, after *state.View, _ signal.Snapshot) (*Forecast, *Forecast, string, error) {
	return s(ctx, before, after)
}

func (s simulatorDouble) Suppose(ctx context.Context, of *state.View, _ plan.Change, _ signal.Snapshot) (*Forecast, *Forecast, string, error) {
	return s(ctx, of, of)
}

// planning lets a double plan, and simulate if there is a simulator.
func planning(s Simulator) func(*Options) {
	return func(o *Options) {
		o.Simulator = s
		o.Planned = func(v *state.View, signals signal.Snapshot) plan.Input {
			return plan.Input{Resources: v, Signals: signals, Previous: v.Table(), Now: epoch, Warm: true}
		}
		o.Table = func(v *state.View, before *routerpb.Table, signals signal.Snapshot) *routerpb.Table {
			return plan.Compute(plan.Input{Resources: v, Signals: signals, Previous: before, Now: epoch, Warm: true}).Table
		}
	}
}

// rehearse asks for a dry run that drains the cluster us-1 of a fleet of two.
func (d *double) rehearse(query string) DryRun {
	d.t.Helper()
	var got struct {
		DryRun
		Resource any `json:"resource"`
	}
	d.do("operator", "PATCH", "/v1/clusters/us-1?dry_run=true"+query, `{spec: {drained: true}}`, "If-Match: *").want(200, "").into(&got)
	return got.DryRun
}

func pair(t *testing.T, s Simulator) *double {
	t.Helper()
	d := newDouble(t, planning(s))
	d.seed("Region us {peerURLs: ['https://us'], rttMs: {eu: 70}}", "Region eu {peerURLs: ['https://eu']}", "Model m {}",
		"Cluster us-1 {region: us, models: [m], endpoints: [{id: p, url: 'http://p', class: x}]}",
		"Cluster eu-1 {region: eu, models: [m], endpoints: [{id: p, url: 'http://q', class: x}]}",
		"Tenant acme {residency: [us]}")
	return d
}

func TestADryRunTellsWhatBecomesOfTraffic(t *testing.T) {
	p50, cost := 120.5, 900.0
	d := pair(t, simulatorDouble(func(_ context.Context, before, after *state.View) (*Forecast, *Forecast, string, error) {
		drained := func(v *state.View) bool {
			r, _ := v.Get(policy.KindCluster, "us-1")
			return r.Spec.(*policy.ClusterSpec).Drained
		}
		if drained(before) || !drained(after) {
			t.Error("before and after are not what they should be")
		}
		return &Forecast{Seconds: 30, Requests: 100, TTFTP50Ms: &p50, Goodput: 1}, &Forecast{Seconds: 30, Requests: 100, Goodput: 0.5, Shed: 0.25, MicroUSDPerAnswer: &cost}, "a note", nil
	}))
	index := d.current().Index()
	got := d.rehearse("")
	if len(got.Lint) != 1 || got.Lint[0].Resource != "tenants/acme" || got.Lint[0].Fix == "" {
		t.Errorf("lint %+v", got.Lint)
	}
	s := got.Simulation
	if s == nil || s.Note != "a note" || s.Before == nil || *s.Before.TTFTP50Ms != p50 || s.Before.TTFTP99Ms != nil || s.After == nil || s.After.Goodput != 0.5 || *s.After.MicroUSDPerAnswer != cost {
		t.Fatalf("simulation %+v", s)
	}
	gone := false
	for _, c := range s.Clusters {
		gone = gone || c.Cluster == "us-1" && c.From > 0.2 && c.To == 0
	}
	if !gone || len(s.Weights) == 0 || s.Weights[0].Model != "m" {
		t.Errorf("clusters %+v, weights %+v", s.Clusters, s.Weights)
	}
	if d.current().Index() != index {
		t.Error("the dry run changed something")
	}
	if without := d.rehearse("&simulate=false"); without.Simulation != nil || len(without.Lint) != 1 {
		t.Errorf("without: %+v", without)
	}
	d.do("operator", "PATCH", "/v1/clusters/us-1?dry_run=true&simulate=perhaps", `{}`, "If-Match: *").want(400, "invalid_request")
}

func TestADryRunTellsWhoMovesAndWhoIsStranded(t *testing.T) {
	d := pair(t, nil)
	d.seed("Tenant beta {}", "Tenant gamma {residency: [us, eu]}")
	s := d.rehearse("").Simulation
	if got := fmt.Sprint(s.Tenants); got != "[{acme 0 [] [m]}]" {
		t.Errorf("tenants %s", got)
	}
	var got struct{ Simulation *Simulation }
	d.do("operator", "PATCH", "/v1/tenants/beta?dry_run=true", `{spec: {tier: top}}`, "If-Match: *").want(200, "").into(&got)
	if got.Simulation.Tenants == nil || len(got.Simulation.Tenants) > 0 {
		t.Errorf("nothing moves, and tenants are %+v", got.Simulation.Tenants)
	}
}

func TestADryRunWarnsOfFailoverThatCanNotBeReached(t *testing.T) {
	d := pair(t, nil)
	d.seed("TrafficPolicy main {}")
	var got struct{ Lint []policy.Warning }
	d.do("operator", "PATCH", "/v1/policies/main?dry_run=true&simulate=false", `{spec: {residency: [us]}}`, "If-Match: *").want(200, "").into(&got)
	found := false
	for _, w := range got.Lint {
		found = found || w.Resource == "policies/main" && w.Field == "spec.residency" && strings.HasPrefix(w.Reason, "without us nothing takes m over")
	}
	if !found {
		t.Errorf("lint %+v", got.Lint)
	}
}

func TestADryRunHasItsAnswerWhateverBecomesOfTheSimulation(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"fails":    {errors.New("broken"), "failed"},
		"too long": {fmt.Errorf("run: %w", context.DeadlineExceeded), "took longer"},
	} {
		t.Run(name, func(t *testing.T) {
			d := pair(t, simulatorDouble(func(ctx context.Context, _, _ *state.View) (*Forecast, *Forecast, string, error) {
				if _, bounded := ctx.Deadline(); !bounded {
					t.Error("no deadline")
				}
				return &Forecast{}, nil, "", tt.err
			}))
			s := d.rehearse("").Simulation
			if s.Before != nil || s.After != nil || !strings.Contains(s.Note, tt.want) || len(s.Clusters) == 0 {
				t.Errorf("simulation %+v", s)
			}
		})
	}
	t.Run("no simulator", func(t *testing.T) {
		if s := pair(t, nil).rehearse("").Simulation; !strings.Contains(s.Note, "no simulator") || len(s.Clusters) == 0 {
			t.Errorf("simulation %+v", s)
		}
	})
	t.Run("another runs", func(t *testing.T) {
		d := pair(t, simulatorDouble(nil))
		d.server.simulating.Lock()
		defer d.server.simulating.Unlock()
		if s := d.rehearse("").Simulation; !strings.Contains(s.Note, "Another") || len(s.Clusters) == 0 {
			t.Errorf("simulation %+v", s)
		}
	})
	t.Run("no plan", func(t *testing.T) {
		d := newDouble(t)
		var got DryRun
		d.do("operator", "POST", "/v1/regions?dry_run=true&simulate=true", doc("Region", "us", "{}"), yaml).want(200, "")
		d.do("operator", "POST", "/v1/regions?dry_run=true", doc("Region", "us", "{}"), yaml).want(200, "")
		if got.Simulation = d.server.simulate(t.Context(), d.current(), d.current(), signal.Snapshot{}); !strings.Contains(got.Simulation.Note, "does not plan") {
			t.Errorf("simulation %+v", got.Simulation)
		}
	})
	t.Run("nothing to plan", func(t *testing.T) {
		d := newDouble(t, planning(simulatorDouble(nil)))
		if s := d.server.simulate(t.Context(), d.current(), d.current(), signal.Snapshot{}); !strings.Contains(s.Note, "no routing table") {
			t.Errorf("simulation %+v", s)
		}
	})
}

// What the state would refuse is refused by a dry run too: it is the same function that judges.
func TestADryRunIsJudgedByTheState(t *testing.T) {
	d := pair(t, nil)
	d.seed("Quota q {tenant: acme, limits: [{kind: requests, perMinute: 60}]}")
	d.do("operator", "DELETE", "/v1/tenants/acme?dry_run=true", "", "If-Match: *").want(409, "in_use")
	d.do("operator", "PUT", "/v1/regions/us?dry_run=true&simulate=false", doc("Region", "us", "{}"), yaml, "If-Match: *").want(200, "")
}
