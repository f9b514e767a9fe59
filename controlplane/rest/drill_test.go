package rest

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// aPlan is what the drills of these tests do.
const aPlan = `{"spec":{"kind":"soft","target":{"region":"eu"}}}`

// drilling is a node with two regions, whose dry runs find what found says.
func drilling(t *testing.T, found *DrillDryRun) *double {
	t.Helper()
	d := newDouble(t, func(o *Options) {
		o.Drills = func(_ context.Context, _ *state.View, spec []byte, _ signal.Snapshot, _ time.Time) (DrillDryRun, error) {
			if !json.Valid(spec) || found == nil {
				return DrillDryRun{}, errors.New("no dry run")
			}
			return *found, nil
		}
		o.DrillPage = func(report []byte) ([]byte, string, error) {
			return []byte("<!doctype html>" + fmt.Sprint(len(report))), "default-src 'none'", nil
		}
	})
	d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 6}})
	d.seed("Region us {}", "Region eu {}", "Model m {}", "Cluster us-a {region: us, models: [m], endpoints: [{id: e, url: 'http://u', class: h100}]}", "Cluster eu-a {region: eu, models: [m], endpoints: [{id: e, url: 'http://e', class: h100}]}")
	return d
}

func passing() *DrillDryRun {
	return &DrillDryRun{
		Resolved: drill.Resolved{Clusters: []fleet.ClusterID{"eu-a"}},
		Forecast: drill.Forecast{Verdict: "PASS", ColdFactor: 1.5, Survivors: []drill.Survivor{{Cluster: "us-a", Region: "us", Before: 0.4, With: 0.7, Measured: true}}},
	}
}

// made makes a drill as the operator, and gives it.
func (d *double) made() Drill {
	d.t.Helper()
	var out Drill
	d.do("operator", "POST", "/v1/drills", aPlan).want(201, "").into(&out)
	return out
}

// act does something to a drill, and gives it.
func (d *double) act(role, id, act, body string, headers ...string) Drill {
	d.t.Helper()
	var out Drill
	d.do(role, "POST", "/v1/drills/"+id+":"+act, body, headers...).want(200, "").into(&out)
	return out
}

// steer moves a drill as the leader would.
func (d *double) steer(id uint64, s *statepb.SteerDrill) {
	d.t.Helper()
	s.Id, s.IfRevision = id, d.current().Drill(id).GetRevision()
	cmd := &statepb.Command{AtUnixMs: d.now().UnixMilli(), Actor: &statepb.Actor{Name: "leader"}, Op: &statepb.Command_SteerDrill{SteerDrill: s}}
	cmd.Format = state.FormatOf(cmd)
	if out := d.apply(cmd); out.GetCode() != "" {
		d.t.Fatalf("steer to %s: %v", s.GetState(), out)
	}
}

func (d *double) renew(id uint64, samples ...drill.Sample) {
	d.t.Helper()
	cmd := &statepb.Command{AtUnixMs: d.now().UnixMilli(), Actor: &statepb.Actor{Name: "leader"}, Op: &statepb.Command_RenewDrill{RenewDrill: &statepb.RenewDrill{
		Id: id, IfRevision: d.current().Drill(id).GetRevision(), Samples: drill.AppendSamples(nil, samples...),
	}}}
	cmd.Format = state.FormatOf(cmd)
	if out := d.apply(cmd); out.GetCode() != "" {
		d.t.Fatalf("renew: %v", out)
	}
}

// running starts a drill that the approver has approved.
func (d *double) running() uint64 {
	d.t.Helper()
	one := d.made()
	one = d.act("operator", one.ID, "validate", "")
	d.act("approver", one.ID, "approve", `{"planSha256":"`+one.PlanSHA256+`"}`)
	d.act("operator", one.ID, "start", "")
	var id uint64
	_, _ = fmt.Sscan(one.ID, &id)
	d.steer(id, &statepb.SteerDrill{State: string(drill.Precheck)})
	return id
}

// over ends a drill with a report.
func (d *double) over(id uint64) ([]byte, string) {
	d.t.Helper()
	report, sum := drill.Encode(drill.NewReport(drill.ReportInput{ClusterID: "c-1", Facts: drill.Facts{ID: id, Kind: drill.Soft, Outcome: drill.Blocked, Cause: "window", EndedUnixMs: d.now().UnixMilli()}}))
	d.steer(id, &statepb.SteerDrill{State: string(drill.Done), Outcome: string(drill.Blocked), Cause: "window", Report: drill.Pack(report), ReportSha256: sum[:]})
	return report, hex.EncodeToString(sum[:])
}

func TestADrillGoesFromDraftToStartByTwoPeople(t *testing.T) {
	d := drilling(t, passing())
	a := d.do("operator", "POST", "/v1/drills", aPlan, "X-Anabranch-Reason: exercise").want(201, "")
	var one Drill
	a.into(&one)
	if one.State != "DRAFT" || one.Kind != "soft" || one.Creator.Name != "operator" || a.header.Get("Location") != "/v1/drills/"+one.ID || a.header.Get("ETag") != etag(one.Revision) {
		t.Errorf("made %+v, headers %v", one, a.header)
	}
	if !strings.Contains(string(one.Spec), `"holdSeconds":600`) {
		t.Errorf("the spec lacks its defaults: %s", one.Spec)
	}
	d.do("operator", "POST", "/v1/drills/"+one.ID+":start", "").want(409, "drill_state")
	one = d.act("operator", one.ID, "validate", "")
	if one.State != "PENDING_APPROVAL" || one.ApprovalsNeeded != 1 || len(one.PlanSHA256) != 64 || !strings.Contains(string(one.Forecast), `"us-a"`) {
		t.Errorf("validated %+v", one)
	}
	d.do("operator", "POST", "/v1/drills/"+one.ID+":start", "").want(409, "not_approved")
	d.do("operator", "POST", "/v1/drills/"+one.ID+":approve", `{"planSha256":"`+one.PlanSHA256+`"}`).want(403, "forbidden")
	d.do("approver", "POST", "/v1/drills/"+one.ID+":approve", `{"planSha256":"`+strings.Repeat("0", 64)+`"}`).want(409, "proposal_changed")
	d.do("approver", "POST", "/v1/drills/"+one.ID+":approve", `{}`).want(422, "invalid")
	one = d.act("approver", one.ID, "approve", `{"planSha256":"`+one.PlanSHA256+`"}`, "X-Anabranch-Reason: fine")
	if one.State != "SCHEDULED" || len(one.Approvals) != 1 || one.Approvals[0].Name != "approver" || one.Approvals[0].Reason != "fine" || one.ApprovedUntil.IsZero() {
		t.Errorf("approved %+v", one)
	}
	one = d.act("operator", one.ID, "start", "")
	if one.State != "SCHEDULED" || one.StartAt.IsZero() || len(one.Events) < 4 || one.BrokenGlass != nil {
		t.Errorf("started %+v", one)
	}
	d.steer(d.current().Drills()[0].GetId(), &statepb.SteerDrill{State: "PRECHECK"}) // which the leader does
	var st Status
	if d.do("viewer", "GET", "/v1/status", "").want(200, "").into(&st); st.Drill == nil || st.Drill.ID != one.ID || st.Drill.State != "PRECHECK" {
		t.Errorf("the status tells of %+v", st.Drill)
	}
	two := d.made()
	d.do("operator", "POST", "/v1/drills/"+two.ID+":validate", "").want(200, "")
	d.do("operator", "POST", "/v1/drills/"+two.ID+":start", "", "X-Anabranch-Break-Glass: now").want(409, "drill_under_way")
	if one = d.act("operator", one.ID, "abort", "", "X-Anabranch-Reason: enough"); one.Outcome != "INTERRUPTED" {
		t.Errorf("aborted %+v", one)
	}
}

func TestNobodyApprovesADrillOfTheirOwn(t *testing.T) {
	d := drilling(t, passing())
	var one Drill
	d.do("admin", "POST", "/v1/drills", aPlan).want(201, "").into(&one)
	one = d.act("admin", one.ID, "validate", "")
	d.do("admin", "POST", "/v1/drills/"+one.ID+":approve", `{"planSha256":"`+one.PlanSHA256+`"}`).want(409, "own_proposal")
}

func TestTheGlassIsBrokenWithAReason(t *testing.T) {
	d := drilling(t, passing())
	one := d.made()
	d.act("operator", one.ID, "validate", "")
	d.do("operator", "POST", "/v1/drills/"+one.ID+":start?break_glass=true", "").want(400, "invalid_request")
	one = d.act("operator", one.ID, "start?break_glass=true", "", "X-Anabranch-Reason: auditors are here")
	if one.BrokenGlass == nil || one.BrokenGlass.Reason != "auditors are here" || one.BrokenGlass.Actor != "operator" {
		t.Errorf("%+v", one.BrokenGlass)
	}
	d.do("viewer", "GET", "/v1/status", "").want(200, "")
}

func TestADryRunMakesNothing(t *testing.T) {
	d := drilling(t, passing())
	before := d.current().Index()
	var found DrillDryRun
	d.do("operator", "POST", "/v1/drills?dry_run=true", aPlan).want(200, "").into(&found)
	if found.Forecast.Verdict != "PASS" || found.Resolved.Clusters[0] != "eu-a" || !strings.Contains(string(found.Spec), "holdSeconds") || d.current().Index() != before {
		t.Errorf("%+v", found)
	}
	one := d.made()
	d.do("operator", "POST", "/v1/drills/"+one.ID+":validate?dry_run=true", "").want(200, "").into(&found)
	if got := d.current().Drill(d.current().Index()).GetState(); got != "DRAFT" {
		t.Errorf("a dry run of the dry run made it %s", got)
	}
}

func TestARefusedDryRunEndsTheDrill(t *testing.T) {
	found := passing()
	found.Refused, found.Cause, found.Reason = string(drill.CapacityFailed), "capacity", "us-a would be at 130 %"
	d := drilling(t, found)
	one := d.act("operator", d.made().ID, "validate", "")
	if one.State != "DONE" || one.Outcome != "CAPACITY_CHECK_FAILED" || one.Cause != "capacity" || !strings.HasSuffix(one.Reason, "us-a would be at 130 %") {
		t.Errorf("%+v", one)
	}
}

func TestWhatIsWrongWithAPlanIsNamed(t *testing.T) {
	d := drilling(t, passing())
	for body, field := range map[string]string{
		`{}`: "plan", `{"plan":"a","spec":{}}`: "plan", `{"spec":{"kind":"hardest"}}`: "spec.kind", `{"spec":{"kind":"soft","target":{"region":"nowhere"}}}`: "spec.target.region",
		`{"spec":{"kind":"soft","target":{"region":"eu"}},"startAt":"2020-01-01T00:00:00Z"}`: "startAt",
	} {
		p := d.do("operator", "POST", "/v1/drills", body).want(422, "invalid").problem()
		if len(p.Errors) == 0 || p.Errors[0].Field != field || p.Errors[0].Fix == "" {
			t.Errorf("%s: %+v", body, p)
		}
	}
	d.do("operator", "POST", "/v1/drills", `{"plan":"none"}`).want(404, "not_found")
	d.do("operator", "POST", "/v1/drills", `{"plam":"none"}`).want(400, "malformed")
	d.do("viewer", "POST", "/v1/drills", aPlan).want(403, "forbidden")
}

func TestADrillOfAPlanTellsWhich(t *testing.T) {
	d := drilling(t, passing())
	d.do("operator", "POST", "/v1/drillplans", doc("DrillPlan", "lose-eu", "{kind: hard, target: {region: eu}}"), yaml).want(201, "")
	var one Drill
	d.do("operator", "POST", "/v1/drills", `{"plan":"lose-eu"}`).want(201, "").into(&one)
	if one.Plan != "lose-eu" || one.PlanRevision == 0 || one.Kind != "hard" {
		t.Errorf("%+v", one)
	}
}

func TestDrillsAreListedNewestFirstInPages(t *testing.T) {
	d := drilling(t, passing())
	var ids []string
	for range 5 {
		ids = append(ids, d.made().ID)
	}
	d.act("operator", ids[0], "abort", "")
	var page List[Drill]
	d.do("viewer", "GET", "/v1/drills?limit=3", "").want(200, "").into(&page)
	if len(page.Items) != 3 || page.Items[0].ID != ids[4] || page.NextCursor == "" || page.Items[0].Spec != nil || page.Items[0].Events != nil {
		t.Errorf("%+v", page)
	}
	cursor := page.NextCursor
	page = List[Drill]{}
	d.do("viewer", "GET", "/v1/drills?limit=3&cursor="+cursor, "").want(200, "").into(&page)
	if len(page.Items) != 2 || page.Items[1].ID != ids[0] || page.NextCursor != "" {
		t.Errorf("the second page: %+v", page)
	}
	d.do("viewer", "GET", "/v1/drills?limit=3&state=DRAFT&cursor="+cursor, "").want(400, "invalid_request")
	for query, n := range map[string]int{"state=DRAFT": 4, "outcome=INTERRUPTED": 1, "plan=none": 0, "kind=soft": 5, "kind=hard": 0, "active=true": 0} {
		page = List[Drill]{}
		d.do("viewer", "GET", "/v1/drills?"+query, "").want(200, "").into(&page)
		if len(page.Items) != n {
			t.Errorf("%s: %d", query, len(page.Items))
		}
	}
	for _, query := range []string{"state=LOST", "outcome=FINE", "active=perhaps", "limit=0", "colour=red"} {
		d.do("viewer", "GET", "/v1/drills?"+query, "").want(400, "invalid_request")
	}
	for _, id := range []string{"7777", "x", "0", "12:flee"} {
		d.do("viewer", "GET", "/v1/drills/"+id, "").want(404, "not_found")
	}
}

func TestWhatWasLookedAtIsDecidedOn(t *testing.T) {
	d := drilling(t, passing())
	one := d.made()
	old := etag(one.Revision)
	d.act("operator", one.ID, "validate", "", "If-Match: "+old)
	d.do("operator", "POST", "/v1/drills/"+one.ID+":abort", "", "If-Match: "+old).want(412, "precondition")
	d.act("operator", one.ID, "abort", "", "If-Match: *")
	d.do("operator", "POST", "/v1/drills/"+one.ID+":abort", "").want(409, "drill_state")
	for _, path := range []string{one.ID + "/:abort", one.ID + ":flee", ":abort"} {
		if got := d.do("operator", "POST", "/v1/drills/"+path, "").status; got != 404 && got != 405 {
			t.Errorf("POST %s: %d", path, got)
		}
	}
}

func TestAKeyMakesOneDrill(t *testing.T) {
	d := drilling(t, passing())
	const key = "Idempotency-Key: 1"
	var first, again Drill
	d.do("operator", "POST", "/v1/drills", aPlan, key).want(201, "").into(&first)
	d.do("operator", "POST", "/v1/drills", aPlan, key).want(201, "").into(&again)
	if first.ID != again.ID || len(d.current().Drills()) != 1 {
		t.Errorf("%s and %s of %d", first.ID, again.ID, len(d.current().Drills()))
	}
	d.do("operator", "POST", "/v1/drills", `{"spec":{"kind":"hard","target":{"region":"eu"}}}`, key).want(422, "idempotency_key_reused")
	d.act("operator", first.ID, "abort", "", "Idempotency-Key: 2")
	if one := d.act("operator", first.ID, "abort", "", "Idempotency-Key: 2"); one.Outcome != "INTERRUPTED" {
		t.Errorf("again: %+v", one)
	}
}

func TestTheReportIsThereWhenItIsOver(t *testing.T) {
	d := drilling(t, passing())
	id := d.running()
	path := fmt.Sprintf("/v1/drills/%d/report", id)
	d.do("viewer", "GET", path, "").want(404, "not_found")
	report, sum := d.over(id)
	a := d.do("viewer", "GET", path, "").want(200, "")
	if string(a.body) != string(report) || a.header.Get("ETag") != `"`+sum+`"` || a.header.Get("Vary") != "Accept" {
		t.Errorf("%s %v", a.body, a.header)
	}
	if again, err := drill.Sum(a.body); err != nil || hex.EncodeToString(again[:]) != sum {
		t.Errorf("the answer has another hash: %x %v", again, err)
	}
	for accept, html := range map[string]bool{"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8": true, "application/json, text/html": false, "*/*": false, "text/html;q=1": true} {
		a := d.do("viewer", "GET", path, "", "Accept: "+accept).want(200, "")
		if got := strings.HasPrefix(a.header.Get("Content-Type"), "text/html"); got != html || html && a.header.Get("Content-Security-Policy") != "default-src 'none'" {
			t.Errorf("%s: %v", accept, a.header)
		}
	}
	d.do("", "GET", path, "").want(401, "unauthenticated")
}

// told reads events of a stream until its end, as "name id data".
func (d *double) told(id uint64, last string) []string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+fmt.Sprintf("/v1/drills/%d/events", id), nil)
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer secret-viewer")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var out []string
	var at, name string
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "id":
			at = value
		case "event":
			name = value
		case "data":
			out = append(out, name+" "+at+" "+value)
		}
	}
	return out
}

func names(events []string) string {
	var out []string
	for _, e := range events {
		name, _, _ := strings.Cut(e, " ")
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

func TestADrillIsFollowedToItsEndAndResumed(t *testing.T) {
	d := drilling(t, passing())
	id := d.running()
	d.steer(id, &statepb.SteerDrill{State: string(drill.Measuring), Reason: "all is well"})
	d.renew(id, drill.Sample{At: 1000, State: drill.Measuring}, drill.Sample{At: 2000, State: drill.Measuring})
	told := make(chan []string)
	go func() { told <- d.told(id, "") }()
	d.renew(id, drill.Sample{At: 3000, State: drill.Measuring})
	d.act("operator", fmt.Sprint(id), "abort", "")
	d.steer(id, &statepb.SteerDrill{State: string(drill.Verify), Outcome: "INTERRUPTED", Cause: "operator"})

	d.over(id)
	all := <-told
	if got := strings.Count(names(all), "event"); got != len(d.current().Drill(id).GetEvents()) {
		t.Errorf("%d of %d events: %s", got, len(d.current().Drill(id).GetEvents()), names(all))
	}
	if !strings.HasPrefix(all[0], "drill ") || !strings.HasPrefix(all[len(all)-1], "end ") {
		t.Errorf("from %s to %s", all[0], all[len(all)-1])
	}
	// After the fourth event only what came later is told.
	var fourth string
	n := 0
	for _, e := range all {
		if name, rest, _ := strings.Cut(e, " "); name == "event" {
			if n++; n == 4 {
				fourth, _, _ = strings.Cut(rest, " ")
			}
		}
	}
	rest := d.told(id, fourth)
	if got := strings.Count(names(rest), "event"); got != n-4 {
		t.Errorf("%d instead of %d events after %s: %s", got, n-4, fourth, names(rest))
	}
	d.do("viewer", "GET", fmt.Sprintf("/v1/drills/%d/events", id), "", "Last-Event-ID: x").want(400, "invalid_request")
	d.do("viewer", "GET", "/v1/drills/7777/events", "").want(404, "not_found")
}

// TestSecondsAreToldOnce follows one stream by hand: every second once, also after it was cut off.
func TestSecondsAreToldOnce(t *testing.T) {
	d := drilling(t, passing())
	id := d.running()
	d.steer(id, &statepb.SteerDrill{State: string(drill.Measuring)})
	for at := range int64(5) {
		d.renew(id, drill.Sample{At: at, State: drill.Measuring}, drill.Sample{At: at + 100, State: drill.Measuring})
	}
	now := d.current().Drill(id)
	for skip := range uint32(11) {
		var b strings.Builder
		w := drillWatch{Server: d.server, id: id, told: drillCursor{samples: skip}, st: &stream{w: keeper{&b}, rc: http.NewResponseController(keeper{&b})}}
		if _, err := w.tell(now); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(b.String(), "event: sample"); got != 10-int(skip) {
			t.Errorf("after %d seconds %d are told", skip, got)
		}
		b.Reset()
		if _, err := w.tell(now); err != nil || b.Len() > 0 {
			t.Errorf("told again: %q %v", b.String(), err)
		}
		if w.told.samples != 10 {
			t.Errorf("the cursor is at %d", w.told.samples)
		}
	}
}

// keeper is an http.ResponseWriter that keeps the body.
type keeper struct{ b *strings.Builder }

func (w keeper) Header() http.Header         { return http.Header{} }
func (w keeper) Write(p []byte) (int, error) { return w.b.Write(p) }
func (w keeper) WriteHeader(int)             {}
func (w keeper) Flush()                      {}
