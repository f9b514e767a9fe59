package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // places must be known wherever the test runs

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

func TestWhichRegionsAreReadyIsAnswered(t *testing.T) {
	var asked drill.Kind
	var named []fleet.RegionID
	wrong := false
	d := newDouble(t, func(o *Options) {
		o.Readiness = func(_ context.Context, _ *state.View, kind drill.Kind, regions []fleet.RegionID, _ signal.Snapshot, at time.Time) ([]drill.Readiness, error) {
			asked, named = kind, regions
			if wrong {
				return nil, errors.New("no plan")
			}
			return []drill.Readiness{
				{Region: "eu", Ready: true, Blocks: []drill.Block{}, Opens: at, Forecast: drill.Forecast{Verdict: "PASS"}},
				{Region: "us", Blocks: []drill.Block{{Cause: drill.CauseWindow, Text: "blackout"}}, Forecast: drill.Forecast{Verdict: "WARN"}, Last: &drill.LastRun{ID: "7", Kind: drill.Soft, Outcome: drill.Failed, EndedAt: at}},
			}, nil
		}
	})
	var got DrillReadiness
	d.do("viewer", "GET", "/v1/drills/readiness", "").want(200, "").into(&got)
	if asked != drill.Soft || got.Kind != "soft" || got.At.IsZero() || len(got.Items) != 2 || !got.Items[0].Ready || got.Items[1].Blocks[0].Text != "blackout" || got.Items[1].Last.ID != "7" {
		t.Errorf("%s: %+v", asked, got)
	}
	d.do("viewer", "GET", "/v1/drills/readiness?kind=hard", "").want(200, "")
	if asked != drill.Hard {
		t.Errorf("asked of %s", asked)
	}
	d.seed("Region us {}", "Region eu {}")
	d.do("viewer", "GET", "/v1/drills/readiness?region=us&region=eu", "").want(200, "")
	if fmt.Sprint(named) != "[us eu]" {
		t.Errorf("asked of %v", named)
	}
	d.do("viewer", "GET", "/v1/drills/readiness?region=mars", "").want(404, "not_found")
	d.do("viewer", "GET", "/v1/drills/readiness?kind=quota-store", "").want(400, "invalid_request")
	d.do("", "GET", "/v1/drills/readiness", "").want(401, "unauthenticated")
	wrong = true
	d.do("viewer", "GET", "/v1/drills/readiness", "").want(500, "internal")
	newDouble(t).do("viewer", "GET", "/v1/drills/readiness", "").want(503, "busy")
}

func TestOnlySoManyQuestionsAboutReadinessAtATime(t *testing.T) {
	entered, leave := make(chan struct{}, maxExplaining), make(chan struct{})
	d := newDouble(t, func(o *Options) {
		o.Readiness = func(context.Context, *state.View, drill.Kind, []fleet.RegionID, signal.Snapshot, time.Time) ([]drill.Readiness, error) {
			entered <- struct{}{}
			<-leave
			return []drill.Readiness{}, nil
		}
	})
	done := make(chan int, maxExplaining)
	for range maxExplaining {
		go func() { done <- d.do("viewer", "GET", "/v1/drills/readiness", "").status }()
		<-entered
	}
	d.do("viewer", "GET", "/v1/drills/readiness", "").want(503, "busy")
	close(leave)
	for range maxExplaining {
		if status := <-done; status != 200 {
			t.Errorf("%d", status)
		}
	}
}

func TestTheCalendarTellsWhatSchedulesBegin(t *testing.T) {
	d := drilling(t, passing())
	plan := func(name, schedule string) {
		t.Helper()
		d.do("operator", "POST", "/v1/drillplans", doc("DrillPlan", name, "{kind: soft, target: {region: eu}"+schedule+"}"), yaml).want(201, "")
	}
	plan("nightly", ", schedule: {cron: '30 2 * * *', timeZone: Europe/Berlin}")
	plan("weekly", ", schedule: {cron: '0 12 * * Mon', blackouts: [{from: 2027-03-22, until: 2027-03-22}]}")
	plan("by-hand", "")
	d.do("admin", "POST", "/v1/safetyrules", doc("SafetyRule", "times", "{drills: {windows: [{from: '00:00', until: '06:00', timeZone: UTC}]}}"), yaml).want(201, "")
	ask := func(query string) DrillCalendar {
		t.Helper()
		var got DrillCalendar
		d.do("viewer", "GET", "/v1/drills/calendar?"+query, "").want(200, "").into(&got)
		return got
	}
	told := func(c DrillCalendar) string {
		var out []string
		for _, one := range c.Items {
			line := one.Plan + " " + one.At.Format("2T15:04")
			for _, b := range one.Refused {
				line += " " + string(b.Cause)
			}
			out = append(out, line)
		}
		return strings.Join(out, "; ")
	}
	got := ask("from=2027-03-27&until=2027-03-30")
	if text := told(got); text != "nightly 27T01:30; nightly 28T01:00; nightly 29T00:30; weekly 29T12:00 window" || got.More {
		t.Errorf("%s, more %v", text, got.More)
	}
	if one := got.Items[0]; one.Kind != "soft" || one.Cron != "30 2 * * *" || one.TimeZone != "Europe/Berlin" || one.Approved || one.ID != "" || one.Ends.Sub(one.At) < 20*time.Minute {
		t.Errorf("%+v", one)
	}
	if got = ask("from=2027-03-27&until=2027-03-30&limit=2"); len(got.Items) != 2 || !got.More {
		t.Errorf("%+v", got)
	}
	if text := told(ask("from=2027-03-21&until=2027-03-30&plan=weekly")); text != "weekly 29T12:00 window" {
		t.Errorf("its own blackout is left out: %s", text)
	}
	if got = ask("plan=by-hand"); len(got.Items) != 0 || got.Until.Sub(got.From) != defaultCalendar {
		t.Errorf("%+v", got)
	}
	for _, query := range []string{"from=soon", "until=1999-01-01", "until=2029-01-01&from=2027-01-01", "limit=0", "colour=red"} {
		d.do("viewer", "GET", "/v1/drills/calendar?"+query, "").want(400, "invalid_request")
	}
	d.do("viewer", "GET", "/v1/drills/calendar?plan=none", "").want(404, "not_found")
}

func TestTheCalendarNamesWhatWasMadeAndApproved(t *testing.T) {
	d := drilling(t, passing())
	d.do("operator", "POST", "/v1/drillplans", doc("DrillPlan", "nightly", "{kind: soft, target: {region: eu}, schedule: {cron: '30 2 * * *'}}"), yaml).want(201, "")
	var got DrillCalendar
	d.do("viewer", "GET", "/v1/drills/calendar?limit=2", "").want(200, "").into(&got)
	r, _ := d.current().Get(policy.KindDrillPlan, "nightly")
	spec, err := json.Marshal(r.Spec)
	if err != nil {
		t.Fatal(err)
	}
	cmd := &statepb.Command{AtUnixMs: d.now().UnixMilli(), Actor: &statepb.Actor{Name: "leader"}, Op: &statepb.Command_CreateDrill{CreateDrill: &statepb.CreateDrill{
		Plan: "nightly", Series: "nightly", Spec: spec, StartUnixMs: got.Items[0].At.UnixMilli(),
	}}}
	cmd.Format = state.FormatOf(cmd)
	if out := d.apply(cmd); out.GetCode() != "" {
		t.Fatal(out)
	}
	id := strconv.FormatUint(d.current().Drills()[0].GetId(), 10)
	one := d.act("operator", id, "validate", "")
	d.act("approver", one.ID, "approve", `{"planSha256":"`+one.PlanSHA256+`","series":true}`)
	d.do("viewer", "GET", "/v1/drills/calendar?limit=2", "").want(200, "").into(&got)
	if got.Items[0].ID != one.ID || got.Items[0].State != "SCHEDULED" || !got.Items[0].Approved || got.Items[1].ID != "" || !got.Items[1].Approved {
		t.Errorf("%+v", got.Items)
	}
}
