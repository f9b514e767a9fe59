package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state/statepb"
)

const tenants = `apiVersion: anabranch/v1
kind: Tenant
metadata: {name: acme}
spec: {apiKeys: [{id: batch, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}]}
---
apiVersion: anabranch/v1
kind: Tenant
metadata: {name: globex}
spec: {}
---
apiVersion: anabranch/v1
kind: Quota
metadata: {name: acme-tokens}
spec: {tenant: acme, limits: [{kind: total-tokens, perMinute: 6000, burst: 12000}]}
`

// withLimits has the tenants, a table with limits of theirs, and what a router in each of two regions says.
func withLimits(t *testing.T) session {
	t.Helper()
	s := begin(t)
	s.do(0, eu+"---\n"+tenants, "apply", "-f", "-")
	limit := func(id, tenant, kind string, amount, periodMs, burst int64) *routerpb.Quota {
		return &routerpb.Quota{Id: id, Organisation: "works", Tenant: tenant, Kind: kind, Limit: amount, PeriodMs: periodMs, Burst: burst, Degraded: "share"}
	}
	shadow := limit("acme-m/requests~", "acme", "requests", 60, 60_000, 60)
	shadow.Shadow, shadow.Model = true, "m"
	spend := limit("acme-spend/money-per-day", "acme", "money", 50e6, 0, 50e6)
	spend.Calendar, spend.WarnPercent = "day", []uint32{80}
	s.node.Apply(&statepb.Command{Format: 4, AtUnixMs: time.Now().UnixMilli(), Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: &routerpb.Table{
		Regions: []*routerpb.Region{{Id: "us-east-1"}}, Clusters: []*routerpb.Cluster{{Id: "c"}}, Models: []*routerpb.Model{{Id: "m"}},
		Tenants:       []*routerpb.Tenant{{Id: "acme", Organisation: "works"}, {Id: "globex"}},
		Organisations: []*routerpb.Organisation{{Id: "works", Home: "eu-west-1", Shares: []*routerpb.Share{{Region: "us-east-1", Parts: 750_000}}}},
		Quotas: []*routerpb.Quota{
			limit("acme-tokens/total-tokens", "acme", "total-tokens", 6000, 60_000, 12_000), limit("works-all/requests", "", "requests", 1_500_000, 60_000, 1_500_000),
			limit("acme-slots/concurrent-requests", "acme", "concurrent-requests", 20, 0, 20), shadow, spend,
		},
	}}}})
	for region, q := range map[string][]*routerpb.QuotaSignal{
		"us-east-1": {
			{Organisation: "works", Limit: "acme-tokens/total-tokens", Level: 4000, LevelAgeMs: 100, Held: 300, Used: 50, Admitted: 5, Denied: 2},
			{Organisation: "works", Limit: "acme-slots/concurrent-requests", Level: 3, LevelAgeMs: 10, Held: 12, InUse: 5},
		},
		"eu-west-1": {
			{Organisation: "works", Limit: "acme-tokens/total-tokens", LevelAgeMs: -1, Used: 30, Admitted: 3, Degraded: true},
			{Organisation: "works", Limit: "acme-m/requests~", Level: 5, LevelAgeMs: 120_000, Used: 1, WouldDeny: 3},
		},
	} {
		s.node.Signals.Put(signal.Observation{
			Node: "n1", Connected: true, Received: time.Now(), Hello: &routerpb.Hello{RouterId: "r-" + region, Region: region},
			Report: &routerpb.Report{AtUnixMs: 1, WindowMs: 1000, QuotaStoreOk: true, Quotas: q},
		})
	}
	return s
}

// squeezed are lines with single blanks.
func squeezed(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		out = append(out, strings.Join(strings.Fields(line), " "))
	}
	return out
}

func wantLines(t *testing.T, what, text string, want ...string) {
	t.Helper()
	got := squeezed(text)
	for _, w := range want {
		found := false
		for _, g := range got {
			found = found || strings.HasPrefix(g, w)
		}
		if !found {
			t.Errorf("%s: no line %q in\n%s", what, w, text)
		}
	}
}

func TestQuotaList(t *testing.T) {
	s := withLimits(t)
	out, errs := s.do(0, "", "quota", "list")
	wantLines(t, "list", out,
		"QUOTA SUBJECT LIMIT USE LEFT ADMITTED/MIN DENIED/MIN DEGRADED",
		"acme-m acme, model m 60 requests/min (shadow) 100% ~60 (2m0s old) 0 180 would be -",
		"acme-slots acme 20 at once 25% ~15 0 0 -",
		"acme-spend acme $50.00 a day 0% $50.00 0 0 -",
		"acme-tokens acme 6k total-tokens/min, burst 12k 80% ~4.3", // what flowed in since depends on the machine
		"works-all organization works 1.5M requests/min 0% - 0 0 -",
	)
	if !strings.Contains(out, "1 of 2 routers (share)") || errs != "" {
		t.Errorf("list:\n%s%s", out, errs)
	}
	if out, errs = s.do(0, "", "quota", "list", "--tenant", "globex"); len(squeezed(out)) != 1 || !strings.Contains(errs, "nothing limits these") {
		t.Errorf("of globex:\n%s%s", out, errs)
	}
	if _, errs = s.do(exitRefused, "", "quota", "list", "--tenant", "acne"); !strings.Contains(errs, `There is no Tenant "acne"`) {
		t.Errorf("of a tenant that there isn't: %s", errs)
	}
	if out, _ = s.do(0, "", "quota", "list", "--organization", "works", "--tenant", "acme"); len(squeezed(out)) != 6 {
		t.Errorf("of the organization:\n%s", out)
	}
	for flag, want := range map[string]string{"--tenant": "acme\n", "--home-region": "eu-west-1\n"} {
		if out, _ = s.do(0, "", "__complete", "quota", "set", "q", flag, ""); !strings.HasPrefix(out, want) {
			t.Errorf("%s is completed with %q", flag, out)
		}
	}
	var list struct{ Items []limitUse }
	out, _ = s.do(0, "", "quota", "list", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) != 5 || list.Items[3].DeniedPerMinute != 120 {
		t.Errorf("json: %v\n%s", err, out)
	}
	if out, _ = s.do(0, "", "quota", "list", "-o", "yaml"); !strings.Contains(out, "quota: acme-tokens\n") {
		t.Errorf("yaml:\n%s", out)
	}
	s.do(0, strings.ReplaceAll(quota, "name: acme}", "name: acme-new}"), "apply", "-f", "-")
	if _, errs = s.do(0, "", "quota", "list"); errs != "note: not in the routing table yet: acme-new\n" {
		t.Errorf("what is new: %q", errs)
	}
	s.do(exitRefused, "", "quota", "list", "--tenant", "No One")
	s.do(exitUsage, "", "quota", "list", "acme")
}

func TestQuotaShow(t *testing.T) {
	s := withLimits(t)
	out, _ := s.do(0, "", "quota", "show", "acme-tokens")
	wantLines(t, "one", out,
		"acme-tokens acme 6k total-tokens/min, burst 12k 80%",
		"LIMIT REGION SHARE USED/MIN IN USE HELD ADMITTED/MIN DENIED/MIN DEGRADED",
		"acme-tokens/total-tokens eu-west-1 0% 1.80k 0 0 180 0 1 of 1 routers",
		"acme-tokens/total-tokens us-east-1 75% 3.00k 0 300 300 120 -",
	)
	out, _ = s.do(0, "", "quota", "show", "--tenant", "acme")
	var shape []string
	for line := range strings.Lines(out) {
		first, _, _ := strings.Cut(strings.TrimLeft(line, " "), "  ")
		shape = append(shape, strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " ")))+strings.TrimSpace(first))
	}
	want := []string{
		"LIMIT OF", "organization works (home eu-west-1)", "  requests", "  tenant acme",
		"    concurrent-requests", "    money", "    total-tokens", "    model m", "      requests",
	}
	if strings.Join(shape, "\n") != strings.Join(want, "\n") {
		t.Errorf("the tree is\n%s\nwant\n%s\n%s", strings.Join(shape, "\n"), strings.Join(want, "\n"), out)
	}
	out, _ = s.do(0, "", "quota", "show", "--tenant", "globex")
	wantLines(t, "none", out, "organization globex", "tenant globex: no limits of its own")
	var u tenantUse
	out, _ = s.do(0, "", "quota", "show", "--tenant", "acme", "-o", "json")
	if err := json.Unmarshal([]byte(out), &u); err != nil || u.Organization != "works" || len(u.Limits) != 5 {
		t.Errorf("json: %v\n%s", err, out)
	}
	s.do(0, strings.ReplaceAll(quota, "name: acme}", "name: acme-new}"), "apply", "-f", "-")
	if out, _ = s.do(0, "", "quota", "show", "acme-new"); out != "quotas/acme-new is not in the routing table yet\n" {
		t.Errorf("what is new: %q", out)
	}
	s.do(exitUsage, "", "quota", "show")
	s.do(exitUsage, "", "quota", "show", "acme-tokens", "--tenant", "acme")
	s.do(exitRefused, "", "quota", "show", "nothing")
	s.do(exitRefused, "", "quota", "show", "--tenant", "nobody")
}

func TestDescribeShowsTheLimitsOfATenant(t *testing.T) {
	s := withLimits(t)
	out, _ := s.do(0, "", "describe", "tenant", "acme")
	if !strings.Contains(out, "\nlimits:\n  LIMIT OF") || !strings.Contains(out, "\n  organization works (home eu-west-1)") || !strings.Contains(out, "\n      total-tokens ") {
		t.Errorf("described:\n%s", out)
	}
	if out, _ = s.do(0, "", "describe", "tenant", "globex"); strings.Contains(out, "limits:") {
		t.Errorf("one without limits:\n%s", out)
	}
}

func TestQuotaWatchPrintsLinesElsewhereThanOnATerminal(t *testing.T) {
	s := withLimits(t)
	out, _ := s.do(0, "", "quota", "watch", "--count", "1")
	lines := squeezed(out)
	if len(lines) != 3 || !strings.Contains(lines[0], "acme-m/requests~ use 100%") || !strings.Contains(lines[1], "acme-tokens/total-tokens use 80%") ||
		!strings.Contains(lines[1], "denied/min 120 degraded 1 of 2 routers (share)") || strings.Contains(out, "\x1b") {
		t.Errorf("lines:\n%s", out)
	}
	if out, _ = s.do(0, "", "quota", "watch", "--count", "2", "--interval", "200ms", "--top", "1"); len(squeezed(out)) != 2 {
		t.Errorf("two looks at one limit:\n%s", out)
	}
	var look struct {
		At    time.Time
		Items []limitUse
	}
	out, _ = s.do(0, "", "quota", "watch", "--count", "1", "-o", "json", "--tenant", "acme")
	if err := json.Unmarshal([]byte(out), &look); err != nil || look.At.IsZero() || len(look.Items) != 5 {
		t.Errorf("json: %v\n%s", err, out)
	}
	s.do(exitUsage, "", "quota", "watch", "--interval", "1ms")
	s.do(exitUsage, "", "quota", "watch", "--count", "-1")
	s.do(exitUnreachable, "", "quota", "watch", "--server", "http://127.0.0.1:1")
	s.do(exitRefused, "", "quota", "watch", "--token", "guess")
}

func TestAWatchOfLimitsDrawsAnewOnATerminal(t *testing.T) {
	s := withLimits(t)
	var out strings.Builder
	a := &app{out: &out, err: &out}
	w := quotaWatching{app: a, client: &client.Client{Servers: []string{s.node.URL}, Token: "admin-token"}, top: 2, screen: true}
	if err := w.run(t.Context(), time.Second, 1); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "\x1b[H\x1b[2J") || !strings.Contains(out.String(), "2 of 5 limits, the fullest first") {
		t.Errorf("drawn:\n%s", &out)
	}
	wantLines(t, "drawn", out.String(), "QUOTA SUBJECT", "acme-m ", "acme-tokens ")
}

// A watch outlives looks that fail, and ends when it is refused.
func TestAWatchOfLimitsGoesOnAfterAFailure(t *testing.T) {
	answers := []int{200, 500, 200, 403}
	n := 0
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answers[n])
		n++
		_, _ = w.Write([]byte(`{"items":[],"nextCursor":""}`))
	}))
	defer h.Close()
	var out, errs strings.Builder
	w := quotaWatching{app: &app{out: &out, err: &errs}, client: &client.Client{Servers: []string{h.URL}}, format: "json"}
	err := w.run(t.Context(), time.Millisecond, 0)
	if !client.IsStatus(err, 403) || n != 4 || strings.Count(out.String(), "\n") != 2 || !strings.Contains(errs.String(), "trying again") {
		t.Errorf("after %d looks: %v\n%s%s", n, err, &out, &errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.run(ctx, time.Millisecond, 0); err != nil {
		t.Errorf("interrupted: %v", err)
	}
}

func TestAmounts(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "600": 600, "1k": 1000, "1.5k": 1500, "2M": 2e6, "0.25M": 250_000, "1G": 1e9, " 7 ": 7,
		"": 0, "0": 0, "-1": 0, "1.5": 0, "1K": 0, "k": 0, "1e3": 0, "0x10": 0, "1_000": 0, "NaN": 0, "Inf": 0, "10000000G": 0, "1.005k": 1005, "1.0001k": 0, "1/2": 0, ".5k": 500, "1 M M": 0,
	} {
		got, err := units(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("units(%q) is %d, %v; want %d", text, got, err, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 60: "60", 1000: "1k", 1500: "1.5k", 1234: "1234", 12_340: "12.34k", 1e6: "1M", 1_250_000: "1.25M", 3e9: "3G", 1_234_567: "1234567", -2000: "-2k"} {
		if got := amount(n); got != want {
			t.Errorf("amount(%d) is %q, want %q", n, got, want)
		}
		if back, err := units(want); n > 0 && (err != nil || back != n) {
			t.Errorf("%q is read as %d, %v", want, back, err)
		}
	}
	for v, want := range map[float64]string{0: "0", 12.4: "12", 999: "999", 1234: "1.23k", 12_345: "12.3k", 123_456: "123k", 1.5e6: "1.50M", -4321: "-4.32k", 2e12: "2000G"} {
		if got := about(v); got != want {
			t.Errorf("about(%v) is %q, want %q", v, got, want)
		}
	}
}

// Whatever is taken for an amount is one, and what is written for it is read as the same again.
func FuzzUnits(f *testing.F) {
	for _, text := range []string{"600", "1.5k", "2M", "0.25M", "1G", "", "-1", "1e3", "0x1p4", "1/2", "99999999999999999999", ".", "1.k", "9007199254740992"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := units(text)
		if err != nil {
			if n != 0 || len(err.Error()) > 400 {
				t.Errorf("%q is %d, %v", text, n, err)
			}
			return
		}
		if n < 1 || n > 1<<53 {
			t.Errorf("%q is %d", text, n)
		}
		if back, err := units(amount(n)); err != nil || back != n {
			t.Errorf("%q is %d, written %s, read %d, %v", text, n, amount(n), back, err)
		}
	})
}

func TestMoneyIsShownToTheCentOrAsItIs(t *testing.T) {
	for dollars, want := range map[float64]string{0: "$0.00", 0.0003: "$0.0003", 0.5: "$0.50", 1: "$1.00", 49.98765: "$49.99", -0.002: "-$0.002"} {
		if got := usd(dollars); got != want {
			t.Errorf("%v: %s, want %s", dollars, got, want)
		}
	}
}
