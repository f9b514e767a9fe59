package rest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/controlplane/state"
	"anabranch/controlplane/store"
)

// trail writes down the entries above an index as "actor action kind/name code: reason".
func (d *double) trail(after uint64) []string {
	var out []string
	for _, e := range d.current().Audit(after, 0) {
		out = append(out, e.GetActor()+" "+e.GetAction()+" "+e.GetKind()+"/"+e.GetName()+" "+e.GetCode()+": "+e.GetReason())
	}
	return out
}

func TestARefusedChangeIsInTheTrail(t *testing.T) {
	d := newDouble(t).third()
	d.seed("Tenant acme {}", "Quota q {tenant: acme, limits: [{kind: requests, perMinute: 1}]}") // 3, 4
	for name, step := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		want               string // beginning of the entry; empty: there is none
	}{
		"exists":       {"POST", "/v1/tenants", doc("Tenant", "acme", "{}"), []string{yaml}, 409, "operator refused Tenant/ exists: post: metadata.name"},
		"in use":       {"DELETE", "/v1/tenants/acme", "", []string{"If-Match: *", "X-Anabranch-Reason: tidy"}, 409, "operator refused Tenant/acme in_use: tidy; delete: "},
		"precondition": {"PUT", "/v1/tenants/acme", doc("Tenant", "acme", "{}"), []string{yaml, `If-Match: "1"`}, 412, "operator refused Tenant/acme precondition: put: "},
		"invalid":      {"PUT", "/v1/quotas/q", doc("Quota", "q", "{tenant: nobody, limits: [{kind: requests, perMinute: 1}]}"), []string{yaml, "If-Match: *"}, 422, "operator refused Quota/q invalid: put: spec.tenant"},
		"not there":    {"DELETE", "/v1/tenants/nobody", "", []string{"If-Match: *"}, 404, "operator refused Tenant/nobody not_found: delete: "},

		"a dry run":         {"DELETE", "/v1/tenants/nobody?dry_run=true", "", []string{"If-Match: *"}, 404, ""},
		"what is malformed": {"POST", "/v1/tenants", "{", []string{yaml}, 400, ""},
		"no precondition":   {"DELETE", "/v1/tenants/acme", "", nil, 428, ""},
		"a read":            {"GET", "/v1/tenants/nobody", "", nil, 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d.advance(time.Hour)
			before := d.current().Index()
			d.do("operator", step.method, step.path, step.body, step.headers...).want(step.status, "")
			got := d.trail(before)
			switch {
			case step.want == "" && len(got) != 0:
				t.Errorf("recorded: %q", got)
			case step.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], step.want)):
				t.Errorf("recorded %q, want %q", got, step.want)
			}
		})
	}
	if _, ok := d.current().Changes(3); !ok || len(d.current().List("Tenant")) != 1 {
		t.Error("an attempt changed something")
	}
}

func TestAFailureIsNoRefusalAndBelowTheLevelThereAreNoNotes(t *testing.T) {
	d := newDouble(t)
	d.do("operator", "DELETE", "/v1/tenants/nobody", "", "If-Match: *").want(404, "not_found")
	d.do("admin", "DELETE", "/v1/controlplane/members/n9", "").want(204, "")
	d.do("admin", "GET", "/v1/controlplane/snapshot", "").want(200, "")
	if got := d.trail(1); len(got) != 0 {
		t.Errorf("recorded %q", got)
	}
	d.third()
	d.failing(store.ErrBusy)
	d.do("operator", "POST", "/v1/tenants", doc("Tenant", "x", "{}"), yaml).want(503, "busy")
	if got := d.trail(2); len(got) != 0 {
		t.Errorf("recorded %q", got)
	}
}

func TestActsThatLeaveNothingElseAreInTheTrail(t *testing.T) {
	d := newDouble(t).third()
	d.do("admin", "POST", "/v1/controlplane/members", `{"id":"n4","address":"10.0.0.4:7120"}`, "X-Anabranch-Reason: more room").want(200, "")
	d.do("admin", "DELETE", "/v1/controlplane/members/n1?force=true", "").want(204, "")
	d.do("admin", "POST", "/v1/controlplane/transfer", `{"to":"n3"}`).want(200, "")
	d.do("admin", "GET", "/v1/controlplane/snapshot", "").want(200, "")
	d.do("admin", "HEAD", "/v1/controlplane/snapshot", "").want(200, "")
	d.membership.fail = store.ErrTooFewVoters
	d.do("admin", "DELETE", "/v1/controlplane/members/n2", "").want(409, "too_few_voters")
	got, want := d.trail(2), []string{
		"admin add Member/n4 : more room; at 10.0.0.4:7120",
		"admin remove Member/n1 : by force",
		"admin transfer Member/n3 : ",
		"admin snapshot ControlPlane/c-1 : revision 5",
		"admin remove Member/n2 : ",
		"admin refused Member/n2 too_few_voters: delete: Fewer",
	}
	for i := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	d.failing(errNoLeaderForTest)
	asked := len(d.membership.asked)
	d.do("admin", "POST", "/v1/controlplane/transfer", "").want(503, "no_leader")
	if len(d.membership.asked) != asked {
		t.Error("what can't be recorded was done")
	}
	d.do("admin", "GET", "/v1/controlplane/snapshot", "").want(503, "no_leader")
	d.do("admin", "GET", "/v1/controlplane/snapshot?consistency=stale", "").want(200, "")
}

func TestAFloodOfRefusalsIsSummedUp(t *testing.T) {
	registry := prometheus.NewRegistry()
	d := newDouble(t, func(o *Options) { o.Registerer = registry }).third()
	for range denialBurst + 30 {
		d.do("operator", "DELETE", "/v1/tenants/nobody", "", "If-Match: *").want(404, "")
	}
	for range denialBurst + 5 {
		d.do("viewer", "DELETE", "/v1/tenants/nobody", "").want(403, "")
	}
	count := func() (single, sums int) {
		for _, e := range d.current().Audit(2, 0) {
			if e.GetCode() == codeUnrecorded {
				sums++
			} else {
				single++
			}
		}
		return single, sums
	}
	d.do("viewer", "GET", "/v1/audit", "").want(200, "")
	if single, sums := count(); single != 2*denialBurst || sums != 0 {
		t.Errorf("%d entries and %d sums", single, sums)
	}
	if n := testutil.ToFloat64(d.server.metrics.missed); n != 35 {
		t.Errorf("%v counted", n)
	}
	d.advance(denialEvery)
	d.failing(errors.New("no quorum"))
	d.do("viewer", "GET", "/v1/audit?consistency=stale", "").want(200, "")
	d.failing(nil)
	d.advance(denialEvery)
	d.do("viewer", "GET", "/v1/audit/export", "").want(200, "")
	d.do("viewer", "GET", "/v1/audit/export", "").want(200, "")
	var told []string
	for _, line := range d.trail(2) {
		if strings.Contains(line, codeUnrecorded) {
			told = append(told, line)
		}
	}
	want := []string{
		"viewer refused / unrecorded: 5 more refusals from 2026-11-29T12:00:00Z to 2026-11-29T12:00:00Z",
		"operator refused / unrecorded: 30 more refusals from 2026-11-29T12:00:00Z to 2026-11-29T12:00:00Z",
	}
	if strings.Join(told, "\n") != strings.Join(want, "\n") {
		t.Errorf("told %q, want %q", told, want)
	}
	if err := state.VerifyAudit(d.current().Audit(0, 0)); err != nil {
		t.Error(err)
	}
}

func TestTheLimiterForgetsTheQuiet(t *testing.T) {
	now := epoch
	l := newLimiter(func() time.Time { return now }, nil)
	for i := range maxBuckets {
		l.allow(string(rune('a' + i)))
	}
	for l.allow("loud") {
	}
	now = now.Add(denialBurst * denialEvery)
	l.allow("one more")
	if n := len(l.buckets); n != 2 {
		t.Errorf("%d buckets", n)
	}
	if due := l.due(); len(due) != 1 || due[0].name != "loud" || due[0].count != 1 || l.due() != nil {
		t.Errorf("due %v", due)
	}
}
