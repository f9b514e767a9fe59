package rest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/rollout"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// bareTable is a table that routers could not serve by, and the state does not mind.
func bareTable(zone string) *routerpb.Table {
	return &routerpb.Table{Regions: []*routerpb.Region{{Id: "us", Zone: zone}}, Clusters: []*routerpb.Cluster{{Id: "c"}}}
}

// newRolling is a node of a cluster in which a rollout to router r-1 of us is under way; its id is given.
func newRolling(t *testing.T) (d *double, id string) {
	t.Helper()
	d = newChronicler(t, func(o *Options) {
		o.CohortOf = func(*state.View, *statepb.Rollout, signal.Snapshot) []rollout.Member {
			return []rollout.Member{{Router: "r-1", Heard: true, Holds: true}, {Router: "r-2", Holds: true}, {Router: "r-3", Refused: "no"}}
		}
	})
	d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: bareTable("a")}}})
	d.do("operator", "POST", "/v1/safetyrules", doc("SafetyRule", "s", "{rollout: {}}"), yaml).want(201, "")
	d.seed("Region us {}")
	return d, d.begin()
}

func (d *double) begin() string {
	d.t.Helper()
	out := d.apply(&statepb.Command{Format: 3, AtUnixMs: epoch.UnixMilli(), Actor: &statepb.Actor{Name: "system/leader"}, Op: &statepb.Command_StartRollout{StartRollout: &statepb.StartRollout{
		ConfigRevision: d.current().Config().Revision(), Table: bareTable("b"), Canary: "r-1", Region: "us", Expected: 1,
	}}})
	if out.GetCode() != "" {
		d.t.Fatal(out)
	}
	var list List[Rollout]
	d.do("viewer", "GET", "/v1/rollouts", "").want(200, "").into(&list)
	return list.Items[0].ID
}

func (d *double) rollout(id string) Rollout {
	d.t.Helper()
	var r Rollout
	d.do("viewer", "GET", "/v1/rollouts/"+id, "").want(200, "").into(&r)
	return r
}

func (d *double) standing() Status {
	d.t.Helper()
	var st Status
	d.do("viewer", "GET", "/v1/status", "").want(200, "").into(&st)
	return st
}

func TestARolloutIsShownAsItGoes(t *testing.T) {
	d, id := newRolling(t)
	r := d.rollout(id)
	if r.Stage != "canary" || r.Canary != "r-1" || r.Region != "us" || !slices.Equal(r.Changes, []string{"Region/us"}) || !r.StartedAt.Equal(epoch) || r.TableRevision == 0 {
		t.Errorf("rollout %+v", r)
	}
	if *r.Cohort != (Cohort{Expected: 1, Known: 3, Holding: 1, Refused: 1}) {
		t.Errorf("cohort %+v", r.Cohort)
	}
	if st := d.standing(); *st.Rollout != id || !st.HeldBack || st.Returned || st.Frozen || st.Freeze != nil {
		t.Errorf("status %+v", st)
	}
	d.do("viewer", "GET", "/v1/rollouts/999", "").want(404, "not_found")
	d.do("viewer", "POST", "/v1/rollouts/"+id+"/promote", "").want(403, "forbidden")
	d.do("operator", "POST", "/v1/rollouts/"+id+"/promote", "", "X-Anabranch-Reason: urgent", key("k")).want(204, "")
	again := d.do("operator", "POST", "/v1/rollouts/"+id+"/promote", "", key("k")).want(204, "")
	if again.header.Get(headerKey) != "k" {
		t.Error("the key is not in force")
	}
	d.do("operator", "POST", "/v1/rollouts/"+id+"/promote", "").want(409, "not_under_way")
	r = d.rollout(id)
	if r.Stage != "settled" || r.Reason != "by operator" || r.Actor != "operator" || r.Cohort != nil || r.TableRevision != 0 {
		t.Errorf("rollout %+v", r)
	}
	if st := d.standing(); st.Rollout != nil || st.HeldBack {
		t.Errorf("status %+v", st)
	}
	var told []string
	for _, e := range d.current().Audit(0, 0) {
		if e.GetKind() == "Rollout" {
			told = append(told, e.GetActor()+" "+e.GetCode()+": "+e.GetReason())
		}
	}
	if !slices.Contains(told, "operator settled: urgent; by operator") {
		t.Errorf("audit %q", told)
	}
}

func TestARolloutIsHeldReturnedAndRetried(t *testing.T) {
	d, id := newRolling(t)
	path := "/v1/rollouts/" + id
	d.do("operator", "POST", path+"/pause", "").want(204, "")
	if !d.rollout(id).Paused {
		t.Error("not paused")
	}
	d.do("operator", "POST", path+"/resume", "").want(204, "")
	d.do("operator", "POST", path+"/retry", "").want(409, "not_under_way")
	d.do("operator", "POST", path+"/return", "", "X-Anabranch-Reason: "+strings.Repeat("x", maxReason+1)).want(400, "invalid_request")
	d.do("operator", "POST", path+"/return", "").want(204, "")
	if st := d.standing(); !st.Returned || !st.HeldBack || st.Rollout != nil {
		t.Errorf("status %+v", st)
	}
	d.do("operator", "POST", path+"/retry", "").want(204, "")
	if r := d.rollout(id); !r.Retried || r.Stage != "returned" || d.standing().Returned {
		t.Errorf("rollout %+v", r)
	}
	second := d.begin()
	if second == id {
		t.Error("the newest rollout is not listed first")
	}
	d.failing(errNoLeaderForTest)
	d.do("operator", "POST", "/v1/rollouts/"+second+"/return", "").want(503, "no_leader")
}

func TestChangesAreFrozen(t *testing.T) {
	d, id := newRolling(t)
	d.do("viewer", "GET", "/v1/freeze", "").want(404, "not_found")
	d.do("approver", "PUT", "/v1/freeze", "").want(403, "forbidden")
	d.do("operator", "PUT", "/v1/freeze", "", "X-Anabranch-Reason: black friday").want(204, "")
	d.do("operator", "PUT", "/v1/freeze", "").want(204, "")
	var f Freeze
	d.do("viewer", "GET", "/v1/freeze", "").want(200, "").into(&f)
	if f.Actor != "operator" || f.Reason != "black friday" || !f.At.Equal(epoch) {
		t.Errorf("freeze %+v", f)
	}
	if st := d.standing(); !st.Frozen || *st.Freeze != f {
		t.Errorf("status %+v", st)
	}
	d.do("operator", "POST", "/v1/rollouts/"+id+"/promote", "").want(409, "frozen")
	d.do("operator", "POST", "/v1/rollouts/"+id+"/return", "").want(204, "")
	d.do("operator", "DELETE", "/v1/freeze", "").want(204, "")
	if st := d.standing(); st.Frozen || st.Freeze != nil {
		t.Errorf("status %+v", st)
	}
}

func TestAWatchOfRolloutsTellsWhatDiffers(t *testing.T) {
	d, id := newRolling(t)
	s := d.watch("/v1/rollouts?watch=true")
	stage := func() string {
		t.Helper()
		e, ok := s.next()
		var r Rollout
		if err := json.Unmarshal([]byte(e.data), &r); err != nil || !ok || e.name != "rollout" || r.ID != id {
			t.Fatalf("event %+v, %v", e, err)
		}
		return r.Stage
	}
	if got := stage(); got != "canary" {
		t.Errorf("first %s", got)
	}
	d.do("operator", "POST", "/v1/rollouts/"+id+"/return", "").want(204, "")
	if got := stage(); got != "returned" {
		t.Errorf("then %s", got)
	}
	d.do("viewer", "GET", "/v1/rollouts?watch=perhaps", "").want(400, "invalid_request")
}

func TestAWriteThatMovesTooMuchIsRefused(t *testing.T) {
	d := pair(t, nil)
	was := d.server.o.Table(d.current(), nil, signal.Snapshot{})
	d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: was}}})
	const path, drain = "/v1/clusters/us-1", `{spec: {drained: true}}`
	drained := func() bool {
		r, _ := d.current().Get(policy.KindCluster, "us-1")
		return r.Spec.(*policy.ClusterSpec).Drained
	}
	limit := func(share string) {
		d.do("operator", "PUT", "/v1/safetyrules/s", doc("SafetyRule", "s", "{changeLimit: {maxMovedShare: "+share+"}}"), yaml, "If-Match: *")
		d.do("operator", "PUT", "/v1/safetyrules/s", doc("SafetyRule", "s", "{changeLimit: {maxMovedShare: "+share+"}}"), yaml, "If-None-Match: *")
	}
	limit("0.2")
	for _, query := range []string{"", "?dry_run=true"} {
		p := d.do("operator", "PATCH", path+query, drain, "If-Match: *").want(422, "change_too_large").problem()
		if len(p.Errors) == 0 || !strings.Contains(p.Errors[0].Reason, "us-1 ") || !strings.Contains(p.Errors[0].Reason, "→ 0 %") || !strings.Contains(p.Detail, "20 %") {
			t.Errorf("problem %+v", p)
		}
	}
	d.do("operator", "PATCH", "/v1/tenants/acme", `{spec: {tier: top}}`, "If-Match: *").want(200, "") // moves nothing
	d.do("operator", "PATCH", path+"?allow_large_change=true", drain, "If-Match: *").want(400, "invalid_request")
	if drained() {
		t.Fatal("it was made")
	}
	d.do("operator", "PATCH", path+"?allow_large_change=true", drain, "If-Match: *", "X-Anabranch-Reason: it burns"+strings.Repeat("!\xff", maxReason/2-4)).want(200, "")
	all := d.current().Audit(0, 0)
	if last := all[len(all)-1].GetReason(); !drained() || !strings.HasPrefix(last, "it burns!\uFFFD!") || !strings.HasSuffix(last, "; allowed to move 50 % of all traffic at once") {
		t.Errorf("audit %v", last)
	}
	limit("1")
	d.do("operator", "PATCH", path, `{spec: {drained: false}}`, "If-Match: *").want(200, "")
	d.do("operator", "PATCH", path, drain, "If-Match: *").want(200, "")
}
