package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/rest"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

const fleetOfTwo = eu + `---
apiVersion: anabranch/v1
kind: Model
metadata: {name: m}
spec: {}
---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: eu-a}
spec: {region: eu-west-1, models: [m], endpoints: [{id: e, url: "http://e", class: h100}]}
---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: us-a}
spec: {region: us-east-1, models: [m], endpoints: [{id: e, url: "http://u", class: h100}]}
`

const loseEU = `apiVersion: anabranch/v1
kind: DrillPlan
metadata: {name: lose-eu}
spec: {kind: soft, target: {region: eu-west-1}}
`

// drilling is a session with a cluster whose dry runs of drills find a load of us-a.
func drilling(t *testing.T, load float64) session {
	t.Helper()
	s := begin(t, func(o *rest.Options) {
		o.Drills = func(_ context.Context, _ *state.View, _ []byte, _ signal.Snapshot, _ time.Time) (rest.DrillDryRun, error) {
			found := rest.DrillDryRun{
				Resolved: drill.Resolved{Clusters: []fleet.ClusterID{"eu-a"}},
				Forecast: drill.Forecast{
					Verdict: "PASS", ColdFactor: 1.7, MicrosPerMinuteMore: 250_000,
					Survivors: []drill.Survivor{{Cluster: "us-a", Region: "us-east-1", Before: 0.4, With: load, Measured: true}},
					Stranded:  []drill.Stranded{{Tenant: "acme", Model: "m", Why: "may only be in eu"}},
					Slower:    []drill.Slower{{Tenant: "globex", Model: "m", Class: "interactive", Source: "eu-west-1", AddedMs: 80, TTFTMs: 410, ObjectiveMs: 350}},
				},
			}
			if load > 0.9 {
				found.Forecast.Verdict, found.Refused, found.Cause, found.Reason = "BLOCK", string(drill.CapacityFailed), "capacity", "us-a would be overloaded"
			}
			return found, nil
		}
	})
	out := s.node.Apply(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 6}}})
	if out.GetCode() != "" {
		t.Fatal(out)
	}
	s.do(0, fleetOfTwo+"---\n"+loseEU, "apply", "-f", "-")
	return s
}

// as runs a command line with another role's token.
func (s session) as(role string, code int, in string, args ...string) (out, errs string) {
	s.t.Helper()
	return s.do(code, in, append(args, "--token", role+"-token")...)
}

// steer moves the newest drill as the leader would.
func (s session) steer(st *statepb.SteerDrill) uint64 {
	s.t.Helper()
	all := s.node.View().Drills()
	d := all[len(all)-1]
	st.Id, st.IfRevision = d.GetId(), d.GetRevision()
	cmd := &statepb.Command{AtUnixMs: time.Now().UnixMilli(), Actor: &statepb.Actor{Name: "leader"}, Op: &statepb.Command_SteerDrill{SteerDrill: st}}
	cmd.Format = state.FormatOf(cmd)
	if out := s.node.Apply(cmd); out.GetCode() != "" {
		s.t.Fatalf("steer to %s: %v", st.GetState(), out)
	}
	return d.GetId()
}

// finish ends the newest drill with a report, after one second of it.
func (s session) finish(outcome drill.Outcome) {
	s.t.Helper()
	all := s.node.View().Drills()
	d := all[len(all)-1]
	in := drill.ReportInput{ClusterID: "c-1", PreviousSHA256: hex.EncodeToString(s.node.View().LastReport()), Facts: drill.Facts{
		ID: d.GetId(), Plan: d.GetPlan(), Kind: drill.Soft, Outcome: outcome, Cause: "errors", EndedUnixMs: time.Now().UnixMilli() + int64(d.GetId()),
	}}
	for i := range int64(6) {
		in.Samples = append(in.Samples, drill.Sample{At: i * 1000, State: drill.Hold, Shifted: 1e6, Tiers: []drill.TierSample{{Tier: "top", Total: 10, Lost: 1, TTFT: []int64{0, 9}}}})
	}
	report, sum := drill.Encode(drill.NewReport(in))
	s.steer(&statepb.SteerDrill{State: string(drill.RollingBack), Outcome: string(outcome), Cause: "errors", Reason: "error rate is 8 %"})
	s.steer(&statepb.SteerDrill{State: string(drill.Verify), Outcome: string(outcome), Cause: "errors"})
	s.steer(&statepb.SteerDrill{State: string(drill.Done), Outcome: string(outcome), Cause: "errors", Reason: "error rate is 8 %", Report: drill.Pack(report), ReportSha256: sum[:]})
}

// drilled makes, approves and starts a drill, and gives its id.
func (s session) drilled() string {
	s.t.Helper()
	s.as("operator", 0, "", "drill", "create", "lose-eu")
	all := s.node.View().Drills()
	id := fmt.Sprint(all[len(all)-1].GetId())
	s.as("approver", 0, "", "drill", "approve", id, "--yes")
	s.as("operator", 0, "", "drill", "run", id)
	s.steer(&statepb.SteerDrill{State: string(drill.Precheck)})
	return id
}

func TestAPlanIsShownAndMakesNothing(t *testing.T) {
	s := drilling(t, 0.7)
	out, _ := s.do(0, "", "drill", "plan", "lose-eu")
	for _, want := range []string{"takes out eu-a\n", "verdict PASS: a moved request is 1.7 times the work\n", "cost +0.2500 $ a minute\n", "us-a us-east-1 40 % 70 % measured\n", "stranded tenant acme has no legal place for m: may only be in eu", "slower globex: first tokens of m, interactive from eu-west-1 at 410 ms, 80 ms of it by distance, and owed within 350 ms"} {
		if !strings.Contains(fields(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out, _ := s.do(0, loseEU, "drill", "plan", "-f", "-", "-o", "json"); !strings.Contains(out, `"verdict": "PASS"`) {
		t.Errorf("json: %s", out)
	}
	s.do(0, "kind: soft\ntarget: {region: eu-west-1}\n", "drill", "plan", "-f", "-")
	if n := len(s.node.View().Drills()); n != 0 {
		t.Errorf("%d drills were made", n)
	}
	if _, errs := s.do(exitRefused, "", "drill", "plan", "none"); !strings.Contains(errs, "not_found") {
		t.Errorf("of none: %s", errs)
	}
	if _, errs := s.do(exitFailed, acme, "drill", "plan", "-f", "-"); !strings.Contains(errs, "holds a Tenant, and not a DrillPlan") {
		t.Errorf("of a tenant: %s", errs)
	}
	for _, args := range [][]string{{"drill", "plan"}, {"drill", "plan", "a", "-f", "b"}, {"drill", "verify"}, {"drill", "verify", "a", "--all"}} {
		s.do(exitUsage, "", args...)
	}
}

func TestAPlanThatOverloadsIsRefused(t *testing.T) {
	s := drilling(t, 1.3)
	if out, errs := s.do(exitFailed, "", "drill", "plan", "lose-eu"); !strings.Contains(errs, "CAPACITY_CHECK_FAILED (capacity): us-a would be overloaded") || !strings.Contains(out, "130 %") {
		t.Errorf("%s%s", out, errs)
	}
	if _, errs := s.do(exitFailed, "", "drill", "create", "lose-eu"); !strings.Contains(errs, "is refused: CAPACITY_CHECK_FAILED") {
		t.Errorf("create: %s", errs)
	}
	if out, errs := s.do(exitFailed, "", "drill", "create", "lose-eu", "-o", "json"); !strings.Contains(errs, "is refused: CAPACITY_CHECK_FAILED") || !strings.Contains(out, `"outcome": "CAPACITY_CHECK_FAILED"`) {
		t.Errorf("create -o json: %s%s", out, errs)
	}
}

func TestADrillNeedsTwoPeople(t *testing.T) {
	s := drilling(t, 0.7)
	out, _ := s.as("operator", 0, "", "drill", "create", "lose-eu", "--reason", "exercise")
	id := fmt.Sprint(s.node.View().Drills()[0].GetId())
	if !strings.Contains(out, "drill "+id+" is PENDING_APPROVAL\nnext: somebody else: anabranch drill approve "+id+"\n") {
		t.Errorf("create:\n%s", out)
	}
	if _, errs := s.as("operator", exitRefused, "", "drill", "run", id); !strings.Contains(errs, "not_approved") {
		t.Errorf("run: %s", errs)
	}
	out, errs := s.as("approver", exitFailed, "n\n", "drill", "approve", id)
	if !strings.Contains(out, "us-a") || !strings.Contains(errs, "approve drill "+id+"? [y/N]") || !strings.Contains(errs, "not approved") {
		t.Errorf("no: %s%s", out, errs)
	}
	if out, _ := s.as("approver", 0, "y\n", "drill", "approve", id); !strings.Contains(out, "drill "+id+" is SCHEDULED, approved by 1 of 1\n") {
		t.Errorf("yes: %s", out)
	}
	if out, _ := s.as("operator", 0, "", "drill", "run", id); !strings.Contains(out, "drill "+id+" is to begin now; ") {
		t.Errorf("run: %s", out)
	}
	s.steer(&statepb.SteerDrill{State: string(drill.Precheck)}) // which the leader does
	if out, _ := s.do(0, "", "status"); !strings.Contains(fields(out), "drill "+id+" is PRECHECK: anabranch drill show "+id) {
		t.Errorf("the status tells of no drill:\n%s", out)
	}
	if out, _ := s.do(0, "", "drill", "show"); !strings.Contains(fields(out), "approved 1 of 1, approver") || !strings.Contains(fields(out), "state PRECHECK since") {
		t.Errorf("show:\n%s", out)
	}
	if out, _ := s.do(0, "", "drill", "list", "--plan", "lose-eu"); !strings.Contains(fields(out), id+" lose-eu soft PRECHECK - - operator 1 of 1 ") {
		t.Errorf("list:\n%s", out)
	}
	if out, _ := s.as("operator", 0, "", "drill", "abort", "--reason", "enough"); !strings.Contains(out, "drill "+id+" is ended: ROLLING_BACK\n") {
		t.Errorf("abort: %s", out)
	}
	if _, errs := s.as("operator", exitRefused, "", "drill", "resume", id); !strings.Contains(errs, "drill_state") {
		t.Errorf("resume: %s", errs)
	}
}

func TestTheGlassOfADrillIsBroken(t *testing.T) {
	s := drilling(t, 0.7)
	s.as("operator", 0, "", "drill", "create", "lose-eu")
	id := fmt.Sprint(s.node.View().Drills()[0].GetId())
	s.as("operator", 0, "", "drill", "run", id, "--break-glass", "the auditor is here")
	if got := s.node.View().Drills()[0].GetBroken().GetWhy(); got != "the auditor is here" {
		t.Errorf("broken: %q", got)
	}
	if out, _ := s.do(0, "", "drill", "show", id); !strings.Contains(out, "the glass was broken by operator: the auditor is here") {
		t.Errorf("show:\n%s", out)
	}
}

func TestADrillIsFollowedToItsEnd(t *testing.T) {
	for outcome, code := range map[drill.Outcome]int{drill.Succeeded: 0, drill.Failed: exitDrillFailed, drill.Interrupted: exitDrillInterrupted} {
		s := drilling(t, 0.7)
		id := s.drilled()
		s.steer(&statepb.SteerDrill{State: string(drill.Measuring), Reason: "all is well"})
		s.steer(&statepb.SteerDrill{State: string(drill.Shifting), Baseline: []byte(`{"errors":0.002,"tiers":[{"tier":"top","p95":200}]}`), NotAfterUnixMs: time.Now().Add(time.Hour).UnixMilli()})
		samples := make([]drill.Sample, 5)
		for i := range samples {
			samples[i] = drill.Sample{
				At: int64(i) * 1000, State: drill.Shifting, Shifted: 10_000, Routers: 3, Obeying: 3, Scoped: 100, Away: 61,
				Tiers:    []drill.TierSample{{Tier: "top", Total: 100, TTFT: append(make([]int64, 20), 100)}},
				Clusters: []drill.ClusterSample{{Cluster: "eu-a", Drilled: true, Saturation: 2}, {Cluster: "us-a", Saturation: 0.5, Requests: 100, Failures: 1}},
			}
		}
		now := s.node.View().ActiveDrill()
		cmd := &statepb.Command{AtUnixMs: time.Now().UnixMilli(), Op: &statepb.Command_RenewDrill{RenewDrill: &statepb.RenewDrill{Id: now.GetId(), IfRevision: now.GetRevision(), Samples: drill.AppendSamples(nil, samples...)}}}
		cmd.Format = state.FormatOf(cmd)
		if out := s.node.Apply(cmd); out.GetCode() != "" {
			t.Fatal(out)
		}
		var out, errs bytes.Buffer
		ended := make(chan int, 1)
		go func() {
			ended <- run(t.Context(), []string{"anabranch", "drill", "watch", id}, strings.NewReader(""), &out, &errs)
		}()
		s.finish(outcome) // whether it is followed by now or not, it tells the same, but for seconds that are gone
		if got := <-ended; got != code {
			t.Errorf("%s: exit code %d, want %d\n%s%s", outcome, got, code, &out, &errs)
		}
		for _, want := range []string{"SHIFTING", "drill " + id + ": " + string(outcome) + " (errors): error rate is 8 %\n", "report: anabranch drill report " + id} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", outcome, want, &out)
			}
		}
	}
}

func TestASecondIsToldBesideWhatEndsTheDrill(t *testing.T) {
	g := gates{errors: 0.012, ttft: 300, saturated: 0.9}
	got := g.line(drill.Sample{
		At: 1000, State: drill.Dwell, Shifted: 500_000, Routers: 3, Obeying: 2, Scoped: 200, Away: 150,
		Tiers:    []drill.TierSample{{Tier: "top", Total: 100, TTFT: append(make([]int64, 20), 100)}},
		Clusters: []drill.ClusterSample{{Cluster: "eu-a", Drilled: true, Saturation: 2, Requests: 9, Failures: 9}, {Cluster: "us-a", Saturation: 0.5, Requests: 100, Failures: 1}},
	})
	_, got, _ = strings.Cut(fields(got), " ")
	if want := "DWELL ordered 50 %, away 75 % ttft p95 159/300 ms errors 1.0/1.2 % peak 50/90 % us-a routers 2 of 3"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := (gates{}).line(drill.Sample{State: drill.Precheck}); !strings.Contains(got, "away -") || !strings.Contains(got, "ttft p95 - ms") {
		t.Errorf("of nothing: %s", got)
	}
}

func TestCtrlCLeavesTheDrillAlone(t *testing.T) {
	s := drilling(t, 0.7)
	id := s.drilled()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"anabranch", "drill", "watch", id}, strings.NewReader(""), &out, &errs); code != exitFailed || !strings.Contains(errs.String(), "drill "+id+" goes on; ") {
		t.Errorf("%d: %s%s", code, &out, &errs)
	}
	if got := s.node.View().ActiveDrill().GetState(); got != string(drill.Precheck) {
		t.Errorf("the drill is %s", got)
	}
}

func TestReportsAreWrittenAndVerified(t *testing.T) {
	s := drilling(t, 0.7)
	var ids []string
	for range 3 {
		ids = append(ids, s.drilled())
		s.steer(&statepb.SteerDrill{State: string(drill.Measuring)})
		s.finish(drill.Failed)
	}
	var files []string
	for _, id := range ids {
		file := "report-" + id + ".json"
		s.do(0, "", "drill", "report", id, "--json", file, "--html", "report.html")
		files = append(files, file)
	}
	if page, err := os.ReadFile("report.html"); err != nil || !bytes.HasPrefix(page, []byte("<!doctype html>")) || !bytes.Contains(page, []byte("FAILED")) {
		t.Errorf("page: %v %.100s", err, page)
	}
	out, _ := s.do(0, "", "drill", "report", ids[0])
	if !strings.Contains(fields(out), "outcome FAILED (errors)") || !strings.Contains(fields(out), "requests 60: 0 retried and answered, 0 shed, 0 over quota, 6 lost, 0 ended mid-stream") || !strings.Contains(fields(out), "top during 60 ") {
		t.Errorf("report:\n%s", out)
	}
	indented, _ := s.do(0, "", "drill", "report", ids[1], "-o", "json")
	s.file(files[1], indented) // its hash is the same
	if out, _ := s.do(0, "", append([]string{"drill", "verify"}, files...)...); !strings.HasSuffix(out, "3 reports hold together\n") || !strings.Contains(out, ids[2]) {
		t.Errorf("verify:\n%s", out)
	}
	s.do(0, "", append([]string{"drill", "verify", "--server-too"}, files...)...)
	if out, _ := s.do(0, "", "drill", "verify", "--all", "-o", "json"); strings.Count(out, `"sha256"`) != 3 || !json.Valid([]byte(out)) {
		t.Errorf("verify all:\n%s", out)
	}
	if _, errs := s.do(exitFailed, "", "drill", "verify", files[0], files[2]); !strings.Contains(errs, "the chain breaks: "+files[2]) {
		t.Errorf("one is missing: %s", errs)
	}
	s.file(files[2], strings.Replace(read(t, files[2]), `"lost":6`, `"lost":0`, 1))
	s.do(0, "", "drill", "verify", files[2])
	if _, errs := s.do(exitFailed, "", "drill", "verify", files[2], "--server-too"); !strings.Contains(errs, "it is not what was written") {
		t.Errorf("one is changed: %s", errs)
	}
	s.do(exitRefused, "", "drill", "report", "7777")
}

func TestWhatIsFollowedIsToldAsItIsNow(t *testing.T) {
	var out bytes.Buffer
	f := &drillFollowing{app: &app{out: &out}, format: "table", id: "7"}
	for _, e := range []struct{ name, data string }{
		{"drill", `{"id":"7","state":"PAUSED","cause":"control-plane"}`},
		{"event", `{"at":"2026-11-30T09:00:00Z","state":"PAUSED","kind":"transition","text":"leader change"}`},
		{"event", `{"at":"2026-11-30T09:00:01Z","state":"PAUSED","kind":"operator","text":"looked at"}`},
		{"end", `{"id":"7","state":"DONE","outcome":"SUCCEEDED","reason":"all is again as before"}`},
	} {
		if err := f.event(t.Context(), nil, e.name, []byte(e.data)); err != nil && (e.name != "end" || !errors.Is(err, errDrillEnded)) {
			t.Fatal(err)
		}
	}
	if err := f.end(); err != nil {
		t.Error(err)
	}
	at := time.Date(2026, 11, 30, 9, 5, 0, 0, time.UTC).Local().Format("15:04:05")
	if got := out.String(); strings.Count(got, "`anabranch drill resume 7` has it go on; at "+at+" it is rolled back\n") != 1 {
		t.Errorf("what is there to do?\n%s", got)
	}
	if !strings.Contains(out.String(), "drill 7: SUCCEEDED: all is again as before\n") {
		t.Errorf("a cause that is over is told:\n%s", &out)
	}
}

func TestFirstTokensAreHeldToTheObjectiveWhereThatIsMore(t *testing.T) {
	for objective, want := range map[float64]float64{0: 60, 50: 60, 2000: 2000} {
		d := &client.Drill{
			Spec:     []byte(`{"abort":{"ttftFactor":{"over":1.5}}}`),
			Baseline: &drill.Baseline{ObjectiveMs: objective, Tiers: []drill.TierBaseline{{Tier: "top", P95: 40}}},
		}
		if g := gatesOf(d); g.ttft != want {
			t.Errorf("objective %v: %v ms, want %v", objective, g.ttft, want)
		}
	}
}

// watched stands before the node: it tells which version of a drill an act was about, and does something, once, right
// after a drill was read.
func (s session) watched(then func()) (about func() string) {
	s.t.Helper()
	node, err := url.Parse(s.node.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	var once sync.Once
	var etag atomic.Pointer[string]
	forward := httputil.NewSingleHostReverseProxy(node)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			seen := r.Header.Get("If-Match")
			etag.Store(&seen)
		}
		forward.ServeHTTP(w, r)
		if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v1/drills/") {
			once.Do(then)
		}
	}))
	s.t.Cleanup(srv.Close)
	s.t.Setenv("ANABRANCH_SERVER", srv.URL)
	return func() string {
		if e := etag.Swap(nil); e != nil {
			return *e
		}
		return "nothing was said"
	}
}

// What somebody approves, begins or lets go on is the drill as they saw it; what stops one is about whatever it is.
func TestWhatIsDecidedIsWhatWasSeen(t *testing.T) {
	s := drilling(t, 0.7)
	newest := func() *statepb.Drill {
		all := s.node.View().Drills()
		return all[len(all)-1]
	}
	s.as("operator", 0, "", "drill", "create", "lose-eu")
	id := fmt.Sprint(newest().GetId())
	about := s.watched(func() {})
	says := func(want, role string, args ...string) {
		t.Helper()
		if want == "as seen" {
			want = fmt.Sprintf("%q", fmt.Sprint(newest().GetRevision()))
		}
		s.as(role, 0, "", append([]string{"drill"}, args...)...)
		if got := about(); got != want {
			t.Errorf("%s is about %s, want %s", args[0], got, want)
		}
	}
	says("as seen", "approver", "approve", id, "--yes")
	if _, errs := s.as("operator", exitFailed, "", "drill", "run", id, "--sha256", "abcd"); !strings.Contains(errs, "look at it again") || about() != "nothing was said" {
		t.Errorf("run of what was not looked at: %s", errs)
	}
	says("as seen", "operator", "run", id, "--sha256", hex.EncodeToString(newest().GetPlanSha256()))
	s.steer(&statepb.SteerDrill{State: string(drill.Precheck)})
	s.steer(&statepb.SteerDrill{State: string(drill.Measuring)})
	s.steer(&statepb.SteerDrill{State: string(drill.Shifting)})
	says("", "operator", "pause")
	says("as seen", "operator", "resume")
	says("", "operator", "pause", id)

	// Between look and word somebody else lets it go on and stops it once more, for a reason of their own.
	decide := func(act string) {
		cmd := &statepb.Command{AtUnixMs: time.Now().UnixMilli(), Actor: &statepb.Actor{Name: "carol", Role: "admin"}, Op: &statepb.Command_DecideDrill{DecideDrill: &statepb.DecideDrill{
			Id: newest().GetId(), Act: act, Why: "INC-7",
		}}}
		cmd.Format = state.FormatOf(cmd)
		if out := s.node.Apply(cmd); out.GetCode() != "" {
			t.Errorf("%s by somebody else: %v", act, out)
		}
	}
	s.watched(func() {
		decide(state.DrillResume)
		decide(state.DrillPause)
	})
	if _, errs := s.as("operator", exitRefused, "", "drill", "resume"); !strings.Contains(errs, "HTTP 412") || newest().GetState() != string(drill.Paused) {
		t.Errorf("what somebody else stopped is %s: %s", newest().GetState(), errs)
	}
	s.watched(func() { decide(state.DrillResume) })
	s.as("operator", 0, "", "drill", "abort", id)
}
