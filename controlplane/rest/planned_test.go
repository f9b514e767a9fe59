package rest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
)

// busyPair is a fleet of two clusters with demand in us.
func busyPair(t *testing.T, s Simulator) *double {
	t.Helper()
	d := pair(t, s)
	for i := range 61 { // until what is measured is trusted
		d.signals.Put(signal.Observation{
			Node: "n1", Connected: true, Received: epoch.Add(time.Duration(i-60) * time.Second), Hello: &routerpb.Hello{RouterId: "r", Region: "us"},
			Report: &routerpb.Report{
				AtUnixMs: int64(i + 1), WindowMs: 1000, Demand: []*routerpb.DemandSignal{{Model: "m", Class: "interactive", RequestsPerS: 1, WorkPerS: 1000}},
				Clusters: []*routerpb.ClusterSignal{{Cluster: "us-1", Model: "m", Scraped: true, EndpointsTotal: 1, EndpointsReady: 1, CapacityWork: 4000}},
			},
		})
	}
	return d
}

func TestThePlanIsExplained(t *testing.T) {
	d := busyPair(t, nil)
	var got PlanAnswer
	a := d.do("viewer", "GET", "/v1/models/m/plan", "").want(200, "")
	a.into(&got)
	if len(got.Demands) != 2 || got.Model != "m" || got.Solved == 0 || got.Cut || a.header.Get("X-Staleness-Ms") != "250" {
		t.Fatalf("got %+v", got)
	}
	us := got.Demands[1]
	if us.Source != "us" || us.WorkPerS != 1000 || us.Summary != "us serves all of it at home: home is at 0.25 of what it can do" || us.Objective.Title != "latency first" {
		t.Errorf("us: %+v", us)
	}
	if len(us.Changes) == 0 || us.Changes[0].Text == "" || !us.Clusters[0].Capacity.Measured || us.Clusters[1].Capacity.Measured {
		t.Errorf("us: %+v", us)
	}
	for query, demands := range map[string]int{"?source=us": 1, "?class=interactive": 2, "?class=interactive&source=eu&cluster=us-1": 1, "?changes=false": 2} {
		d.do("viewer", "GET", "/v1/models/m/plan"+query, "").want(200, "").into(&got)
		if len(got.Demands) != demands {
			t.Errorf("%s: %d demands", query, len(got.Demands))
		}
		if query == "?changes=false" && (got.Solved != 0 || len(got.Demands[1].Changes) != 0) {
			t.Errorf("%s: solved %d times", query, got.Solved)
		}
	}
	d.failing(errors.New("no leader"))
	d.do("viewer", "GET", "/v1/models/m/plan", "").want(200, "") // it is local by nature
	d.do("", "GET", "/v1/models/m/plan", "").want(401, "unauthenticated")
}

func TestWhatIsUnknownOfAPlanIsNamed(t *testing.T) {
	d := busyPair(t, nil)
	d.seed("Model n {}", "TrafficPolicy batch {class: offline, models: [n]}")
	d.do("viewer", "GET", "/v1/models/x/plan", "").want(404, "not_found")
	for query, want := range map[string]string{
		"?source=uk":     "source: use one of eu, us, or leave it out",
		"?class=x":       "class: use one of interactive, offline, or leave it out",
		"?cluster=x":     "cluster: use one of eu-1, us-1, or leave it out",
		"?class=offline": "No policy of class offline speaks of model m.",
	} {
		p := d.do("viewer", "GET", "/v1/models/m/plan"+query, "").want(400, "invalid_request").problem()
		got := p.Detail
		if len(p.Errors) > 0 {
			got = p.Errors[0].Field + ": " + p.Errors[0].Fix
		}
		if got != want {
			t.Errorf("%s: %s", query, got)
		}
	}
	p := d.do("viewer", "GET", "/v1/models/n/plan?cluster=us-1", "").want(400, "invalid_request").problem()
	if !strings.Contains(p.Detail, "does not serve model n") {
		t.Errorf("%+v", p)
	}
	for _, query := range []string{"?changes=perhaps", "?colour=red", "?source=us&source=eu"} {
		d.do("viewer", "GET", "/v1/models/m/plan"+query, "").want(400, "invalid_request")
	}
}

func TestWhatIfSaysWhatWouldBe(t *testing.T) {
	d := busyPair(t, nil)
	var got WhatIfAnswer
	d.do("viewer", "POST", "/v1/plan/what-if", `{"withoutRegions": ["us"], "demand": [{"factor": 2}], "capacity": [{"cluster": "eu-1", "factor": 0.5}]}`).want(200, "").into(&got)
	if len(got.Moves) != 1 || got.Moves[0].Source != "us" || got.After.WorkPerS != 2000 || got.After.RTTMs != 70 || got.Before.RTTMs != 0 || got.Simulation != nil {
		t.Errorf("got %+v", got)
	}
	if got.After.Sites[1].WorkPerS != 0 || !got.After.Sites[1].Lost || got.After.Sites[0].CapacityPerS != 2000 {
		t.Errorf("sites %+v", got.After.Sites) // eu is believed to do as well for its prior as us does
	}
}

func TestWhatCannotBeSupposedIsNamed(t *testing.T) {
	d := busyPair(t, nil)
	for body, want := range map[string]string{
		`{}`:                            " give withoutRegions, withoutClusters, prices, demand or capacity",
		``:                              " give withoutRegions, withoutClusters, prices, demand or capacity",
		`{"withoutRegions": ["uk"]}`:    "withoutRegions[0] use one of eu, us",
		`{"demand": [{"factor": -1}]}`:  "demand[0].factor give a number from 0 to 1e+06",
		`{"prices": [{"class": "zx"}]}`: "prices[0].class use one of those that there are, which are none",
	} {
		p := d.do("viewer", "POST", "/v1/plan/what-if", body).want(422, "invalid").problem()
		if len(p.Errors) != 1 || p.Errors[0].Field+" "+p.Errors[0].Fix != want {
			t.Errorf("%s: %+v", body, p.Errors)
		}
	}
	d.do("viewer", "POST", "/v1/plan/what-if", `{"colour": "red"}`).want(400, "malformed")
	d.do("viewer", "POST", "/v1/plan/what-if", `[]`).want(400, "malformed")
	d.do("viewer", "POST", "/v1/plan/what-if?simulate=perhaps", `{"withoutRegions": ["us"]}`).want(400, "invalid_request")
	d.do("", "POST", "/v1/plan/what-if", `{"withoutRegions": ["us"]}`).want(401, "unauthenticated")
}

func TestAWhatIfCanBeSimulated(t *testing.T) {
	failing := error(nil)
	d := busyPair(t, simulatorDouble(func(context.Context, *state.View, *state.View) (*Forecast, *Forecast, string, error) {
		return &Forecast{Requests: 3}, nil, "so it is", failing
	}))
	ask := func() *SupposedSimulation {
		var got WhatIfAnswer
		d.do("viewer", "POST", "/v1/plan/what-if?simulate=true", `{"withoutRegions": ["us"]}`).want(200, "").into(&got)
		return got.Simulation
	}
	if s := ask(); s == nil || s.Before == nil || s.Before.Requests != 3 || s.After != nil || s.Note != "so it is" {
		t.Errorf("got %+v", s)
	}
	failing = context.DeadlineExceeded
	if s := ask(); s.Before != nil || !strings.Contains(s.Note, "longer than") {
		t.Errorf("got %+v", s)
	}
	failing = fmt.Errorf("a surprise")
	if s := ask(); s.Before != nil || !strings.Contains(s.Note, "log says why") {
		t.Errorf("got %+v", s)
	}
	d.server.simulating.Lock()
	defer d.server.simulating.Unlock()
	if s := ask(); !strings.Contains(s.Note, "Another simulation") {
		t.Errorf("got %+v", s)
	}
}

func TestQuestionsAboutThePlanAreBounded(t *testing.T) {
	d := busyPair(t, nil)
	for range maxExplaining {
		_, done, err := d.server.planning(t.Context(), d.current())
		if err != nil {
			t.Fatal(err)
		}
		defer done()
	}
	d.do("viewer", "GET", "/v1/models/m/plan", "").want(503, "busy")
	d.do("viewer", "POST", "/v1/plan/what-if", `{"withoutRegions": ["us"]}`).want(503, "busy")

	blind := pair(t, nil)
	blind.server.o.Planned = nil
	blind.do("viewer", "GET", "/v1/models/m/plan", "").want(503, "busy")
}

// Nothing of a what-if stays: the same question has the same answer after it.
func TestAWhatIfChangesNothing(t *testing.T) {
	d := busyPair(t, nil)
	before := plan.WhatIf(d.server.o.Planned(d.current(), d.signals.Snapshot(epoch)), plan.Change{})
	revision := d.current().Index()
	d.do("viewer", "POST", "/v1/plan/what-if", `{"withoutClusters": ["us-1"], "demand": [{"region": "us", "factor": 9}]}`).want(200, "")
	after := plan.WhatIf(d.server.o.Planned(d.current(), d.signals.Snapshot(epoch)), plan.Change{})
	if fmt.Sprint(before) != fmt.Sprint(after) || d.current().Index() != revision {
		t.Errorf("%+v\n%+v", before, after)
	}
}
