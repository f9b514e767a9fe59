package rest

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/access"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

const sum = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// limited is a node with two tenants of an organisation and one of none, their limits, and what two routers
// say of them at the epoch.
func limited(t *testing.T) *double {
	t.Helper()
	d := newDouble(t)
	d.seed(
		"Region us {}", "Region eu {}", "Model m {}", "Tenant acme {apiKeys: [{id: batch, sha256: "+sum+"}]}", "Tenant anvil {}", "Tenant globex {}",
	)
	rate := func(id, tenant string, amount int64) *routerpb.Quota {
		return &routerpb.Quota{Id: id, Organisation: "works", Tenant: tenant, Kind: "total-tokens", Limit: amount, PeriodMs: 60_000, Burst: 2 * amount, Degraded: "share"}
	}
	key, model := rate("acme-batch/total-tokens", "acme", 1000), rate("acme-m/total-tokens~", "acme", 2000)
	key.KeySha256 = [][]byte{{0x9f, 0x86, 0xd0, 0x81, 0x88, 0x4c, 0x7d, 0x65, 0x9a, 0x2f, 0xea, 0xa0, 0xc5, 0x5a, 0xd0, 0x15, 0xa3, 0xbf, 0x4f, 0x1b, 0x2b, 0x0b, 0x82, 0x2c, 0xd1, 0x5d, 0x6c, 0x15, 0xb0, 0xf0, 0x0a, 0x08}}
	model.Model, model.Shadow = "m", true
	own := rate("globex/total-tokens", "globex", 600)
	own.Organisation = "globex"
	d.apply(&statepb.Command{Format: 1, AtUnixMs: epoch.UnixMilli(), Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: &routerpb.Table{
		Regions: []*routerpb.Region{{Id: "us"}, {Id: "eu"}}, Clusters: []*routerpb.Cluster{{Id: "c"}}, Models: []*routerpb.Model{{Id: "m"}},
		Tenants: []*routerpb.Tenant{{Id: "acme", Organisation: "works"}, {Id: "anvil", Organisation: "works"}, {Id: "globex"}},
		Organisations: []*routerpb.Organisation{
			{Id: "works", Home: "eu", Shares: []*routerpb.Share{{Region: "us", Parts: 700_000}, {Region: "eu", Parts: 300_000}}}, {Id: "globex"},
		},
		Quotas: []*routerpb.Quota{
			key, model, rate("acme-tokens/total-tokens", "acme", 6000), rate("works-all/total-tokens", "", 60_000), rate("anvil/total-tokens", "anvil", 600), own,
			{Id: "acme-slots/concurrent-requests", Organisation: "works", Tenant: "acme", Kind: "concurrent-requests", Limit: 20, Burst: 20, Degraded: "closed"},
			{
				Id: "acme-spend/money-per-day", Organisation: "works", Tenant: "acme", Kind: "money", Limit: 50e6, Burst: 50e6, Degraded: "share",
				Calendar: "day", TimeZone: "Europe/Berlin", WarnPercent: []uint32{50, 80, 95},
			},
		},
	}}}})
	say := func(router, region string, quotas ...*routerpb.QuotaSignal) {
		d.signals.Put(signal.Observation{
			Node: "n1", Connected: true, Received: epoch, Hello: &routerpb.Hello{RouterId: router, Region: region},
			Report: &routerpb.Report{AtUnixMs: epoch.UnixMilli(), WindowMs: 1000, QuotaStoreOk: true, Quotas: quotas},
		})
	}
	say("r-us", "us",
		&routerpb.QuotaSignal{Organisation: "works", Limit: "acme-tokens/total-tokens", Level: 4000, LevelAgeMs: 500, Held: 300, Used: 50, Admitted: 5, Denied: 2},
		&routerpb.QuotaSignal{Organisation: "works", Limit: "acme-slots/concurrent-requests", Level: 2, LevelAgeMs: 100, Held: 10, InUse: 4},
		&routerpb.QuotaSignal{Organisation: "works", Limit: "acme-spend/money-per-day", Level: 8e6, LevelAgeMs: 100, Held: 1e6},
	)
	say("r-eu", "eu",
		&routerpb.QuotaSignal{Organisation: "works", Limit: "acme-tokens/total-tokens", Level: 3900, LevelAgeMs: 100, Held: 100, Used: 30, Admitted: 3, Degraded: true, Owed: 40},
		&routerpb.QuotaSignal{Organisation: "works", Limit: "acme-slots/concurrent-requests", Level: 1, LevelAgeMs: 300, Held: 8, InUse: 1},
		&routerpb.QuotaSignal{Organisation: "works", Limit: "acme-m/total-tokens~", LevelAgeMs: -1, WouldDeny: 3},
	)
	return d
}

func limitNamed(t *testing.T, all []LimitUsage, id string) LimitUsage {
	t.Helper()
	i := slices.IndexFunc(all, func(u LimitUsage) bool { return u.ID == id })
	if i < 0 {
		t.Fatalf("there is no %s in %+v", id, all)
	}
	return all[i]
}

func TestTheUsageOfATenant(t *testing.T) {
	d := limited(t)
	d.advance(time.Second)
	var u Usage
	a := d.do("viewer", "GET", "/v1/tenants/acme/usage", "").want(200, "")
	a.into(&u)
	if u.Tenant != "acme" || u.Organization != "works" || u.Home != "eu" || u.TableRevision == 0 || !u.At.Equal(epoch.Add(time.Second)) || a.header.Get("X-Staleness-Ms") != "250" {
		t.Errorf("got %+v", u)
	}
	var ids []string
	for _, l := range u.Limits {
		ids = append(ids, l.ID)
	}
	want := []string{
		"works-all/total-tokens", "acme-slots/concurrent-requests", "acme-spend/money-per-day", "acme-tokens/total-tokens", "acme-m/total-tokens~", "acme-batch/total-tokens",
	}
	if !slices.Equal(ids, want) {
		t.Errorf("limits %q, want the organisation's, the tenant's, the model's, the key's: %q", ids, want)
	}
	tokens := limitNamed(t, u.Limits, "acme-tokens/total-tokens")
	if tokens.Quota != "acme-tokens" || tokens.Tenant != "acme" || tokens.Limit != 6000 || tokens.Burst != 12_000 || tokens.Routers != 2 || tokens.DegradedRouters != 1 ||
		tokens.UsedPerMinute != 4800 || tokens.AdmittedPerMinute != 480 || tokens.DeniedPerMinute != 120 || math.Abs(tokens.Use-0.8) > 1e-9 || tokens.Denied != 2 || tokens.Owed != 40 {
		t.Errorf("tokens %+v", tokens)
	}
	// 3,900 a second and 100 ms ago, 400 held, 40 owed, 110 flowed in since.
	if r := tokens.Remaining; r == nil || r.Units != 3900+400-40+110 || r.AgeMs != 1100 {
		t.Errorf("remaining %+v", r)
	}
	if len(tokens.Regions) != 2 || tokens.Regions[0].Region != "eu" || tokens.Regions[0].Share != 0.3 || tokens.Regions[0].DegradedRouters != 1 ||
		tokens.Regions[1].Share != 0.7 || tokens.Regions[1].UsedPerMinute != 3000 {
		t.Errorf("regions %+v", tokens.Regions)
	}
	slots := limitNamed(t, u.Limits, "acme-slots/concurrent-requests")
	if slots.InUse != 5 || slots.Use != 0.25 || slots.Remaining.Units != 15 || slots.PeriodMs != 0 {
		t.Errorf("slots %+v", slots)
	}
	if shadow := limitNamed(t, u.Limits, "acme-m/total-tokens~"); !shadow.Shadow || shadow.Model != "m" || shadow.Quota != "acme-m" || shadow.WouldDenyPerMinute != 180 || shadow.Remaining != nil {
		t.Errorf("in shadow %+v", shadow)
	}
	if key := limitNamed(t, u.Limits, "acme-batch/total-tokens"); !slices.Equal(key.Keys, []string{"batch"}) || key.Remaining != nil || key.Use != 0 {
		t.Errorf("of a key %+v", key)
	}
}

func TestTheUsageOfABudgetIsTheLedgers(t *testing.T) {
	d := limited(t)
	start := time.Date(2026, 11, 28, 23, 0, 0, 0, time.UTC) // of the day in Berlin
	budget := func() (LimitUsage, BudgetUsage) {
		t.Helper()
		var u Usage
		d.do("viewer", "GET", "/v1/tenants/acme/usage", "").want(200, "").into(&u)
		spend := limitNamed(t, u.Limits, "acme-spend/money-per-day")
		if spend.Budget == nil {
			t.Fatalf("got %+v", spend)
		}
		return spend, *spend.Budget
	}
	spend, b := budget()
	if b.LimitUSD != 50 || b.SpentUSD != 0 || b.RemainingUSD != 50 || b.WarnedAt != 0 || !slices.Equal(b.WarnAt, []int{50, 80, 95}) || spend.Use != 0 {
		t.Errorf("before anything was told: %+v", b)
	}
	if !b.Start.Equal(start) || !b.End.Equal(start.AddDate(0, 0, 1)) || b.TimeZone != "Europe/Berlin" || b.Calendar != "day" {
		t.Errorf("the day in Berlin is from %s to %s", b.Start, b.End)
	}
	for _, cmd := range []*statepb.Command{
		{Op: &statepb.Command_CountSpending{CountSpending: &statepb.CountSpending{
			Runs: []*statepb.SpendingRun{{Run: "r-us/1", Sequence: 1}},
			Spent: []*routerpb.Spent{
				{Organisation: "works", Limit: "acme-spend/money-per-day", WindowUnixUs: start.UnixMicro(), Micros: 41e6},
				{Organisation: "works", Limit: "acme-spend/money-per-day", WindowUnixUs: start.AddDate(0, 0, -1).UnixMicro(), Micros: 7e6},
			},
		}}},
		{Op: &statepb.Command_WarnBudget{WarnBudget: &statepb.WarnBudget{
			Organisation: "works", Limit: "acme-spend/money-per-day", WindowUnixUs: start.UnixMicro(), Percent: 80,
		}}},
	} {
		cmd.Format, cmd.AtUnixMs, cmd.Actor = state.Format, epoch.UnixMilli(), &statepb.Actor{Name: "test"}
		if out := d.apply(cmd); out.GetCode() != "" {
			t.Fatalf("%v", out)
		}
	}
	if spend, b = budget(); b.SpentUSD != 41 || b.RemainingUSD != 9 || b.WarnedAt != 80 || math.Abs(spend.Use-0.82) > 1e-9 {
		t.Errorf("after it was: %+v", b)
	}
	d.advance(13 * time.Hour) // it is another day in Berlin
	if _, b = budget(); b.SpentUSD != 0 || b.WarnedAt != 0 || !b.Start.Equal(start.AddDate(0, 0, 1)) {
		t.Errorf("the next day: %+v", b)
	}
}

func TestTheUsageOfATenantWithoutLimits(t *testing.T) {
	d := newDouble(t)
	d.seed("Tenant acme {}")
	var u Usage
	d.do("viewer", "GET", "/v1/tenants/acme/usage", "").want(200, "").into(&u)
	if u.Organization != "acme" || u.TableRevision != 0 || u.Limits == nil || len(u.Limits) != 0 {
		t.Errorf("got %+v", u)
	}
	d.do("viewer", "GET", "/v1/tenants/nobody/usage", "").want(404, "not_found")
	d.do("", "GET", "/v1/tenants/acme/usage", "").want(401, "unauthenticated")
	d.do("viewer", "GET", "/v1/tenants/acme/usage?watch=true", "").want(400, "invalid_request")
}

func TestLimitsAreListedByIdAndFiltered(t *testing.T) {
	d := limited(t)
	ids := func(who, query string) string {
		t.Helper()
		var page List[LimitUsage]
		d.do(who, "GET", "/v1/usage"+query, "").want(200, "").into(&page)
		out := []string{}
		for _, l := range page.Items {
			out = append(out, quotaOf(l.ID))
		}
		return strings.Join(out, " ")
	}
	d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}})
	d.token("of-anvil", "viewer", access.Scope{Tenants: []string{"anvil"}})
	d.token("of-globex", "viewer", access.Scope{Tenants: []string{"globex"}})
	d.token("of-us", "viewer", access.Scope{Regions: []string{"us"}})
	all := "acme-batch acme-m acme-slots acme-spend acme-tokens anvil globex works-all"
	for _, tt := range []struct{ who, query, want string }{
		{"viewer", "", all},
		{"viewer", "?organization=works", strings.Replace(all, " globex", "", 1)},
		{"viewer", "?tenant=anvil", "anvil works-all"},
		{"viewer", "?tenant=globex", "globex"},
		{"viewer", "?tenant=nobody", ""},
		{"viewer", "?quota=acme-m", "acme-m"},
		{"viewer", "?quota=acme-m&tenant=anvil", ""},
		{"of-anvil", "", "anvil works-all"},
		{"of-anvil", "?tenant=acme", ""},
		{"of-anvil", "?quota=acme-tokens", ""},
		{"of-globex", "", "globex"},
		{"of-globex", "?organization=works", ""},
		{"of-us", "", all},
	} {
		if got := ids(tt.who, tt.query); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.who, tt.query, got, tt.want)
		}
	}
	d.do("of-anvil", "GET", "/v1/tenants/acme/usage", "").want(404, "not_found")
	d.do("of-anvil", "GET", "/v1/tenants/anvil/usage", "").want(200, "")
	for _, query := range []string{"?tenant=%20", "?organization=A%2FB", "?quota=*", "?limit=0", "?cursor=x", "?region=us"} {
		d.do("viewer", "GET", "/v1/usage"+query, "").want(400, "invalid_request")
	}
	d.failing(fmt.Errorf("no leader"))
	d.do("viewer", "GET", "/v1/usage", "").want(200, "") // it is local by nature
}

func TestLimitsComeInPages(t *testing.T) {
	d := limited(t)
	var got []string
	next := ""
	for range 4 {
		var page List[LimitUsage]
		d.do("viewer", "GET", "/v1/usage?organization=works&limit=3&cursor="+next, "").want(200, "").into(&page)
		for _, l := range page.Items {
			got = append(got, l.ID)
		}
		if next = page.NextCursor; next == "" {
			break
		}
	}
	if len(got) != 7 || next != "" || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != 7 {
		t.Errorf("pages %q, and then %q", got, next)
	}
}

func TestWhatRemainsOfALimit(t *testing.T) {
	rate := &routerpb.Quota{Kind: "requests", Limit: 60, PeriodMs: 60_000, Burst: 100}
	for name, tt := range map[string]struct {
		of   *routerpb.Quota
		l    signal.Limit
		want int64
	}{
		"as it was told":      {rate, signal.Limit{Level: 40}, 40},
		"with what flowed in": {rate, signal.Limit{Level: 40, LevelAge: 10 * time.Second}, 50},
		"no more than fits":   {rate, signal.Limit{Level: 40, LevelAge: 24 * time.Hour}, 100},
		"out of debt":         {rate, signal.Limit{Level: -100, LevelAge: 24 * time.Hour}, 100},
		"in debt":             {rate, signal.Limit{Level: -30}, -30},
		"held by routers":     {rate, signal.Limit{Level: 10, Tally: signal.Tally{Held: 7}}, 17},
		"owed by routers":     {rate, signal.Limit{Level: 10, Tally: signal.Tally{Owed: 7}}, 3},
		"slots":               {&routerpb.Quota{Kind: "concurrent-requests", Limit: 20, Burst: 20}, signal.Limit{Level: 2, Tally: signal.Tally{Held: 18, InUse: 5}}, 15},
		"money":               {&routerpb.Quota{Kind: "money", Limit: 1000, Burst: 1000}, signal.Limit{Level: 300, LevelAge: time.Hour, Tally: signal.Tally{Held: 20}}, 320},
		"over the largest":    {&routerpb.Quota{Kind: "requests", Limit: 1 << 50, PeriodMs: 1, Burst: 1 << 50}, signal.Limit{Level: 1, LevelAge: 24 * time.Hour}, 1 << 50},
	} {
		if got := remaining(tt.of, tt.l); got == nil || got.Units != tt.want {
			t.Errorf("%s: %+v, want %d", name, got, tt.want)
		}
	}
	if got := remaining(rate, signal.Limit{LevelAge: -1}); got != nil {
		t.Errorf("of what nobody asked for: %+v", got)
	}
}

// Examples of the document are answers that could be given.
func TestExamplesFitTheirSchemas(t *testing.T) {
	seen := 0
	var walk func(at string, n any)
	walk = func(at string, n any) {
		switch x := n.(type) {
		case []any:
			for i, v := range x {
				walk(fmt.Sprintf("%s[%d]", at, i), v)
			}
		case node:
			schema, _ := x["schema"].(node)
			examples, _ := x["examples"].(node)
			for name, e := range examples {
				text, err := json.Marshal(e.(node)["value"])
				if err != nil {
					t.Fatal(err)
				}
				v, err := readBody(text)
				if err != nil {
					t.Fatal(err)
				}
				for _, wrong := range mismatches(schema, v, at+"."+name) {
					t.Error(wrong)
				}
				seen++
			}
			for key, v := range x {
				walk(at+"."+key, v)
			}
		}
	}
	walk("paths", rawDocument()["paths"])
	if seen < 2 {
		t.Errorf("only %d examples were found", seen)
	}
}
