package table

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/ratelimit"
)

// leased is a table with an organisation of two tenants, and limits of every kind.
func leased() *routerpb.Table {
	pb := good()
	pb.Regions[0].QuotaStore = &routerpb.QuotaStore{Addresses: []string{"redis.us:6379"}}
	pb.Tenants = append(pb.Tenants, &routerpb.Tenant{Id: "globex", KeySha256: [][]byte{keySum("k-globex")}})
	pb.Tenants[0].Organisation, pb.Tenants[1].Organisation = "group", "group"
	pb.Organisations = []*routerpb.Organisation{
		{
			Id: "group", Home: "us-east-1", FormerHome: "eu-west-1", Moved: true, Epoch: 7, Version: 9, ColdPercent: 20,
			Shares: []*routerpb.Share{{Region: "us-east-1", Parts: 700_000}, {Region: "eu-west-1", Parts: 300_000}},
		},
		{Id: "globex", Epoch: 1, Version: 1, Young: true},
	}
	minute := func(id, tenant, kind string, n int64) *routerpb.Quota {
		return &routerpb.Quota{Id: id, Organisation: "group", Tenant: tenant, Kind: kind, Limit: n, PeriodMs: 60_000, Burst: n}
	}
	model, key := minute("m/input-tokens", "acme", "input-tokens", 500), minute("k/requests", "acme", "requests", 5)
	model.Model = "llama"
	key.KeySha256 = [][]byte{keySum("k-acme"), keySum("k-acme-2")}
	both := minute("b/output-tokens", "acme", "output-tokens", 50)
	both.Model, both.KeySha256, both.Shadow = "big", [][]byte{keySum("k-acme")}, true
	pb.Quotas = []*routerpb.Quota{
		key, model, both,
		{Id: "t/concurrent-requests", Organisation: "group", Tenant: "acme", Kind: "concurrent-requests", Limit: 10, Overrun: "cut"},
		minute("g/requests", "", "requests", 1000),
		{
			Id: "a/money-per-day", Organisation: "group", Kind: "money", Limit: 5_000_000, Calendar: "day",
			TimeZone: "America/New_York", WarnPercent: []uint32{50, 100}, Degraded: "closed",
		},
		{Id: "x/requests", Organisation: "globex", Tenant: "globex", Kind: "requests", Limit: 60, PeriodMs: 60_000, Burst: 6, Model: "big"},
	}
	return pb
}

// passes lists the limits that a request passes, those in shadow in brackets.
func passes(tab *Table, tenant, model, key string) string {
	var id KeyID
	if key != "" {
		_, id, _ = tab.TenantByKey(key, time.Now())
	}
	p := tab.Path(fleet.TenantID(tenant), fleet.ModelID(model), id)
	if p == nil {
		return ""
	}
	var s []string
	for _, l := range p.Limits {
		s = append(s, l.ID)
	}
	for _, l := range p.Shadow {
		s = append(s, "("+l.ID+")")
	}
	return strings.Join(s, " ")
}

func TestPathsGoFromTheOrganisationToTheKey(t *testing.T) {
	tab := build(t, leased())
	for _, tt := range []struct{ tenant, model, key, want string }{
		{"acme", "other", "", "a/money-per-day g/requests t/concurrent-requests"},
		{"acme", "llama", "", "a/money-per-day g/requests t/concurrent-requests m/input-tokens"},
		{"acme", "llama", "k-acme", "a/money-per-day g/requests t/concurrent-requests m/input-tokens k/requests"},
		{"acme", "big", "k-acme-2", "a/money-per-day g/requests t/concurrent-requests k/requests"},
		{"acme", "big", "k-acme", "a/money-per-day g/requests t/concurrent-requests k/requests (b/output-tokens)"},
		{"initech", "llama", "", "a/money-per-day g/requests"},
		{"globex", "llama", "k-globex", ""},
		{"globex", "big", "k-globex", "x/requests"},
		{"nobody", "big", "", ""},
	} {
		if got := passes(tab, tt.tenant, tt.model, tt.key); got != tt.want {
			t.Errorf("%s for %s with key %q passes %q, want %q", tt.tenant, tt.model, tt.key, got, tt.want)
		}
	}
}

func TestAPathHasAllThatItsLimitsNeed(t *testing.T) {
	tab := build(t, leased())
	p := tab.Path("acme", "other", 0)
	day, slots := p.Limits[0], p.Limits[2]
	if day.Kind != ratelimit.Money || day.Burst != 5_000_000 || day.Calendar != ratelimit.Daily || day.Place.String() != "America/New_York" ||
		!slices.Equal(day.Warn, []int{50, 100}) || day.Degraded != DegradedClosed || day.Cut || day.Tenant != "" {
		t.Errorf("budget %+v", day)
	}
	if slots.Kind != ratelimit.Slots || slots.Burst != 10 || slots.PeriodMs != 0 || !slots.Cut || slots.Degraded != DegradedShare || slots.Tenant != "acme" {
		t.Errorf("slots %+v", slots)
	}
	o := p.Org
	if o.ID != "group" || o.Home != "us-east-1" || o.FormerHome != "eu-west-1" || !o.Moved || o.Epoch != 7 || o.Version != 9 || o.Young || o.Cold != 20 {
		t.Errorf("organisation %+v", o)
	}
	if o.Share("eu-west-1") != 300_000 || o.Share("us-east-1") != 700_000 || o.Share("mars") != 0 {
		t.Errorf("shares %v", o.Shares)
	}
	if found, ok := tab.Organisation("group"); !ok || found != o {
		t.Error("the organisation is another than the path's")
	}
	if s := tab.Regions["us-east-1"].QuotaStore; s == nil || !slices.Equal(s.Addresses, []string{"redis.us:6379"}) || tab.Regions["eu-west-1"].QuotaStore != nil {
		t.Errorf("quota store %+v", s)
	}
}

func TestAPathIsMadeOnce(t *testing.T) {
	tab := build(t, leased())
	seen := map[string]bool{}
	for p := range tab.Paths() {
		if seen[p.ID] {
			t.Errorf("path %q is there twice", p.ID)
		}
		seen[p.ID] = true
	}
	if len(seen) != 7 {
		t.Errorf("%d paths, want 7: one for initech, one for globex, and for acme 5 that differ", len(seen))
	}
	_, first, _ := tab.TenantByKey("k-acme", time.Now())
	_, second, _ := tab.TenantByKey("k-acme-2", time.Now())
	if tab.Path("acme", "llama", first) != tab.Path("acme", "llama", second) {
		t.Error("keys that the same limits name for a model have two paths")
	}
	if tab.Path("initech", "llama", first) != tab.Path("initech", "llama", 0) || tab.Path("initech", "llama", 99) == nil {
		t.Error("another tenant's key changes the path")
	}
}

func TestKeysOfTheSameQuotasAreTheSame(t *testing.T) {
	pb := leased()
	pb.Quotas = pb.Quotas[:1]
	tab := build(t, pb)
	_, first, _ := tab.TenantByKey("k-acme", time.Now())
	_, second, _ := tab.TenantByKey("k-acme-2", time.Now())
	if first == 0 || first != second {
		t.Errorf("old and new secret are keys %d and %d", first, second)
	}
	if _, id, _ := tab.TenantByKey("k-initech", time.Now()); id != 0 {
		t.Errorf("a key that no quota names is %d", id)
	}
}

func TestPathsKeepTheirNames(t *testing.T) {
	before, pb := build(t, leased()), leased()
	slices.Reverse(pb.Quotas)
	for _, q := range pb.Quotas {
		q.Limit *= 2
	}
	after := build(t, pb)
	id := func(tab *Table, model fleet.ModelID) string { return tab.Path("acme", model, 0).ID }
	if id(before, "llama") != id(after, "llama") {
		t.Errorf("%q became %q, though only numbers and the order of the list changed", id(before, "llama"), id(after, "llama"))
	}
	pb.Quotas[len(pb.Quotas)-2].Shadow = true
	if id(build(t, pb), "llama") == id(after, "llama") {
		t.Error("a limit went to shadow, and the path is called the same")
	}
}

func TestQuotasOfOlderControlPlanes(t *testing.T) {
	pb := good()
	pb.Quotas[0].Share, pb.Quotas[1].Share = 0.5, 0.25
	tab := build(t, pb)
	if got := passes(tab, "acme", "llama", "k-acme"); got != "q1 q2" {
		t.Errorf("acme passes %q", got)
	}
	o := tab.Path("acme", "llama", 0).Org
	if o.ID != "acme" || o.Home != "" || o.Epoch != 1 || o.Version != 1<<40 || !o.Young || o.Cold != 20 {
		t.Errorf("made up %+v", o)
	}
	if o.Share("us-east-1") != 250_000 || o.Share("eu-west-1") != 250_000 {
		t.Errorf("shares %v, want the least of its quotas'", o.Shares)
	}
	pb.Ref.Revision++
	if next := build(t, pb).Path("acme", "llama", 0).Org; next.Version != o.Version {
		t.Error("each table has another version: while a rollout divides routers, half of them are stale")
	}
	pb.Ref.Epoch++
	if next := build(t, pb).Path("acme", "llama", 0).Org; next.Version <= o.Version {
		t.Error("a restore doesn't raise the version")
	}
	pb.Quotas[0].Limit, pb.Quotas[0].Burst = 1<<52, 1<<52
	if got := passes(build(t, pb), "acme", "llama", ""); got != "q2" {
		t.Errorf("with a limit beyond counting acme passes %q", got)
	}
	pb.Quotas = nil
	for i := range ratelimit.MaxPath + 5 {
		pb.Quotas = append(pb.Quotas, &routerpb.Quota{Id: fmt.Sprint(i), Tenant: "acme", Kind: "requests", Limit: 1, PeriodMs: 1, Burst: 1})
	}
	if n := len(build(t, pb).Path("acme", "", 0).Limits); n != ratelimit.MaxPath {
		t.Errorf("a path of %d limits", n)
	}
}

func TestLookingUpPathsDoesNotAllocate(t *testing.T) {
	tab := build(t, leased())
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() {
		_, key, _ := tab.TenantByKey("k-acme", now)
		tab.Path("acme", "llama", key)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// crowd is a table of many tenants with a path for each of two models.
func crowd(tenants int) *routerpb.Table {
	pb := good()
	pb.Tenants, pb.Quotas = nil, nil
	for i := range tenants {
		id := fmt.Sprintf("tenant-%d", i)
		pb.Tenants = append(pb.Tenants, &routerpb.Tenant{Id: id})
		pb.Organisations = append(pb.Organisations, &routerpb.Organisation{Id: id, Epoch: 1, Version: 1})
		for _, model := range []string{"", "llama"} {
			pb.Quotas = append(pb.Quotas, &routerpb.Quota{
				Id: id + model, Organisation: id, Tenant: id, Model: model, Kind: "requests", Limit: 60, PeriodMs: 60_000, Burst: 60,
			})
		}
	}
	return pb
}

func BenchmarkPathAmongTenThousand(b *testing.B) {
	tab, err := Build(crowd(5000))
	if err != nil {
		b.Fatal(err)
	}
	tenants := make([]fleet.TenantID, 4096)
	for i := range tenants {
		tenants[i] = fleet.TenantID(fmt.Sprintf("tenant-%d", i*7%5000))
	}
	models := []fleet.ModelID{"llama", "big"}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if tab.Path(tenants[i%len(tenants)], models[i%2], 0) == nil {
			b.Fatal("no path")
		}
	}
}

func BenchmarkBuildTenThousandPaths(b *testing.B) {
	pb := crowd(5000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Build(pb); err != nil {
			b.Fatal(err)
		}
	}
}
