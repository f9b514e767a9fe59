package rest

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/controlplane/access"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state/statepb"
)

const topTier = `{"spec":{"tier":"top"}}`

func TestBrokenGlassAppliesAtOnceAndIsLoud(t *testing.T) {
	registry := prometheus.NewRegistry()
	var log bytes.Buffer
	d := newGuarded(t, func(o *Options) {
		o.Registerer, o.Logger = registry, slog.New(slog.NewTextHandler(&log, nil))
	})
	d.do("operator", "PATCH", "/v1/tenants/acme", topTier, "If-Match: *", "X-Anabranch-Break-Glass: they pay").want(200, "")
	if d.tier("acme") != "top" || len(d.current().Proposals()) != 0 {
		t.Errorf("tier %s", d.tier("acme"))
	}
	st := d.standing()
	if want := []BrokenGlass{{epoch, "operator", "operator", "Tenant", "acme", "they pay", d.current().Index()}}; !slices.Equal(st.BrokenGlass, want) {
		t.Errorf("status %+v, want %+v", st.BrokenGlass, want)
	}
	var past List[Version]
	d.do("viewer", "GET", "/v1/tenants/acme/history", "").want(200, "").into(&past)
	if v := past.Items[0]; !v.BreakGlass || v.Author != "operator" || v.Reason != "they pay" {
		t.Errorf("history %+v", v)
	}
	var told List[struct{ Action, Reason string }]
	d.do("viewer", "GET", "/v1/audit?action=break_glass", "").want(200, "").into(&told)
	if len(told.Items) != 1 || !strings.Contains(told.Items[0].Reason, "they pay") {
		t.Errorf("audit %+v", told.Items)
	}
	if text := log.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "the glass was broken") || !strings.Contains(text, `reason="they pay"`) {
		t.Errorf("log %s", text)
	}
	for name, want := range map[string]float64{
		"anabranch_controlplane_break_glass_total": 1, "anabranch_controlplane_glass_broken": 1, "anabranch_controlplane_proposals_pending": 0,
	} {
		if got := measured(t, registry, name); got != want {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
	d.do("operator", "DELETE", "/v1/tenants/acme?break_glass=true", "", "If-Match: *", "X-Anabranch-Reason: gone").want(204, "")
	d.advance(24 * time.Hour)
	if st := d.standing(); len(st.BrokenGlass) != 0 {
		t.Errorf("a day later %+v", st.BrokenGlass)
	}
}

// measured is the value of a metric without labels.
func measured(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestTheGlassIsBrokenForAReasonAndByFew(t *testing.T) {
	d := newGuarded(t)
	for name, headers := range map[string][]string{
		"no reason":         {"X-Anabranch-Break-Glass: "},
		"blanks":            {"X-Anabranch-Break-Glass:  "},
		"a reason too long": {"X-Anabranch-Break-Glass: " + strings.Repeat("x", maxReason+1)},
	} {
		if a := d.do("operator", "PATCH", "/v1/tenants/acme", topTier, append(headers, "If-Match: *")...); a.status != 400 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	d.do("operator", "PATCH", "/v1/tenants/acme?break_glass=true", topTier, "If-Match: *").want(400, "invalid_request")
	d.do("operator", "PATCH", "/v1/tenants/acme?break_glass=perhaps", topTier, "If-Match: *").want(400, "invalid_request")
	for _, role := range []string{"viewer", "approver"} {
		d.do(role, "PATCH", "/v1/tenants/acme", topTier, "If-Match: *", "X-Anabranch-Break-Glass: fire").want(403, "forbidden")
	}
	if d.tier("acme") != "standard" || len(d.current().Proposals()) != 0 {
		t.Error("something came of it")
	}
}

func TestGlassThatNeedNotBeBrokenIsNot(t *testing.T) {
	d := newGuarded(t)
	d.do("operator", "POST", "/v1/models", doc("Model", "m", "{}"), yaml, "X-Anabranch-Break-Glass: fire").want(201, "")
	if len(d.current().BrokenGlass(epoch)) != 0 {
		t.Error("it is told")
	}
}

func TestTheGlassIsBrokenSoOftenOnly(t *testing.T) {
	d := newGuarded(t)
	for i := range 30 {
		d.do("operator", "POST", "/v1/tenants", doc("Tenant", "t-"+strings.Repeat("x", i+1), "{}"), yaml, "X-Anabranch-Break-Glass: fire").want(201, "")
	}
	d.do("operator", "POST", "/v1/tenants", doc("Tenant", "one-more", "{}"), yaml, "X-Anabranch-Break-Glass: fire").want(409, "limit_reached")
}

func TestBrokenGlassLiftsTheChangeLimitAndNoFreeze(t *testing.T) {
	d := pair(t, nil)
	d.apply(&statepb.Command{Format: 2, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}})
	d.do("operator", "POST", "/v1/safetyrules", doc("SafetyRule", "s", "{changeLimit: {maxMovedShare: 0.2}}"), yaml).want(201, "")
	table := d.server.o.Table(d.current(), nil, signal.Snapshot{})
	d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: table}}})
	d.do("operator", "PUT", "/v1/freeze", "").want(204, "")
	const path, drain = "/v1/clusters/us-1", `{"spec":{"drained":true}}`
	d.do("operator", "PATCH", path, drain, "If-Match: *").want(422, "change_too_large")
	d.do("operator", "PATCH", path, drain, "If-Match: *", "X-Anabranch-Break-Glass: it burns").want(200, "")
	last := d.standing()
	if len(last.BrokenGlass) != 1 || last.BrokenGlass[0].Name != "us-1" {
		t.Errorf("status %+v", last)
	}
	if !last.HeldBack || !last.Frozen {
		t.Error("the freeze was lifted")
	}
	entries := d.current().Audit(d.current().Index()-1, 0)
	if reason := entries[len(entries)-1].GetReason(); !strings.Contains(reason, "it burns; allowed to move") {
		t.Errorf("audit %q", reason)
	}
}

func TestAKeyWithAnotherReasonToBreakTheGlassIsAnotherRequest(t *testing.T) {
	d := newGuarded(t)
	d.do("operator", "PATCH", "/v1/tenants/acme", topTier, "If-Match: *", key("k")).want(202, "")
	d.do("operator", "PATCH", "/v1/tenants/acme", topTier, "If-Match: *", key("k"), "X-Anabranch-Break-Glass: fire").want(422, "idempotency_key_reused")
}

func TestBrokenGlassOfOtherTenantsIsNotTold(t *testing.T) {
	d := newGuarded(t)
	d.do("operator", "POST", "/v1/tenants", doc("Tenant", "mine", "{}"), yaml, "X-Anabranch-Break-Glass: set up").want(201, "")
	d.token("mine", "viewer", access.Scope{Tenants: []string{"mine"}})
	d.do("operator", "PATCH", "/v1/tenants/acme", topTier, "If-Match: *", "X-Anabranch-Break-Glass: they pay").want(200, "")
	var st Status
	d.do("mine", "GET", "/v1/status", "").want(200, "").into(&st)
	if len(st.BrokenGlass) != 1 || st.BrokenGlass[0].Name != "mine" {
		t.Errorf("told %+v", st.BrokenGlass)
	}
}
