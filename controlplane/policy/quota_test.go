package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"anabranch/ratelimit"
)

// fleetOfGroup is a fleet with an organisation of two tenants and one on its own.
func fleetOfGroup(t testing.TB, more ...string) shelf {
	var s shelf
	for _, d := range append([]string{
		"Region us {quotaStore: {addresses: ['redis.us:6379']}}",
		"Region eu {quotaStore: {addresses: ['redis.eu:6379']}}",
		"Region ap {}",
		"Model llama {adapters: [legal]}",
		"Tenant acme {organization: group, apiKeys: [{id: laptop, sha256: " + sumA + "}, {id: laptop-20261130-0812, sha256: " + sumB + "}]}",
		"Tenant acme-dev {organization: group}",
		"Tenant globex {}",
		"Quota group {organization: group, homeRegion: us, limits: [{kind: requests, perMinute: 60}]}",
		"Quota laptop {tenant: acme, key: laptop, limits: [{kind: requests, perMinute: 6}]}",
	}, more...) {
		s = append(s, resource(t, d))
	}
	return s
}

func TestQuotasBesideTheOthers(t *testing.T) {
	crowd := "limits: [{kind: requests, perMinute: 1}, {kind: input-tokens, perMinute: 1}, {kind: output-tokens, perMinute: 1}, {kind: total-tokens, perMinute: 1}, {kind: concurrent-requests, max: 1}, {kind: money-per-day, usd: 1}]}"
	var many []string
	for i := range 5 {
		many = append(many, fmt.Sprintf("Quota many-%d {tenant: globex, %s", i, crowd))
	}
	all := fleetOfGroup(t, many...)
	for _, tt := range []struct{ doc, want string }{
		{"Quota q {organization: group, limits: [{kind: money-per-day, usd: 1}]}", ""},
		{"Quota q {organization: globex, limits: [{kind: money-per-day, usd: 1}]}", ""},
		{"Quota q {organization: nobody, limits: [{kind: money-per-day, usd: 1}]}", `spec.organization: no tenant is of organization "nobody"`},
		{"Quota q {organization: acme, limits: [{kind: money-per-day, usd: 1}]}", `spec.organization: no tenant is of organization "acme"`},
		{"Quota q {tenant: acme, model: llama, limits: [{kind: requests, perMinute: 1}]}", ""},
		{"Quota q {tenant: acme, model: legal, limits: [{kind: requests, perMinute: 1}]}", `spec.model: "legal" is an adapter`},
		{"Quota q {tenant: acme, key: laptop, limits: [{kind: requests, perMinute: 1}]}", ""},
		{"Quota q {tenant: acme, key: laptop-20270101-0000, limits: [{kind: requests, perMinute: 1}]}", ""},
		{"Quota q {tenant: acme, key: phone, limits: [{kind: requests, perMinute: 1}]}", `spec.key: tenant "acme" has no API key "phone"`},
		{"Quota q {tenant: acme, homeRegion: us, limits: [{kind: requests, perMinute: 1}]}", ""},
		{"Quota q {tenant: acme, homeRegion: eu, limits: [{kind: requests, perMinute: 1}]}", `spec.homeRegion: quota "group" of organization "group" says "us"`},
		{"Quota q {tenant: globex, homeRegion: eu, limits: [{kind: requests, perMinute: 1}]}", ""},
		{"Quota q {tenant: globex, homeRegion: ap, limits: [{kind: requests, perMinute: 1}]}", `spec.homeRegion: region "ap" has no quota store`},
		{"Quota q {tenant: globex, homeRegion: mars, limits: [{kind: requests, perMinute: 1}]}", `spec.homeRegion: there is no Region "mars"`},
		{"Quota group {organization: group, homeRegion: eu, limits: [{kind: requests, perMinute: 1}]}", ""},
		{"Quota q {tenant: globex, limits: [{kind: requests, perMinute: 1}, {kind: input-tokens, perMinute: 1}]}", ""},
		{"Quota q {tenant: globex, limits: [{kind: requests, perMinute: 1}, {kind: input-tokens, perMinute: 1}, {kind: output-tokens, perMinute: 1}]}", `spec.limits: some requests of tenant "globex" would pass 33 limits, and 32 are counted together`},
		{"Quota many-4 {tenant: globex, limits: [{kind: requests, perMinute: 1}]}", ""},

		{"Region us {}", `spec.quotaStore: quota "group" has its home here`},
		{"Region us {quotaStore: {addresses: ['other.us:6379']}}", ""},
		{"Region eu {}", ""},

		{"Tenant acme {organization: group, apiKeys: [{id: laptop-20261130-0812, sha256: " + sumB + "}]}", ""},
		{"Tenant acme {organization: group}", `spec.apiKeys: quota "laptop" is for the key "laptop"`},
		{"Tenant acme-dev {}", ""},
		{"Tenant globex {organization: other}", ""},
		{"Tenant globex {organization: group}", ""},
	} {
		t.Run(tt.doc, func(t *testing.T) { wantProblem(t, Vet(resource(t, tt.doc), nil, all), tt.want) })
	}
}

func TestATenantTakesItsQuotasAlong(t *testing.T) {
	all := fleetOfGroup(t,
		"Quota far {tenant: globex, homeRegion: eu, limits: [{kind: requests, perMinute: 1}]}",
		"Tenant lone {organization: alone}", "Quota lone {organization: alone, limits: [{kind: requests, perMinute: 1}]}")
	wantProblem(t, CheckQuotas(resource(t, "Tenant globex {organization: group}"), all), `spec.organization: quota "far" has its home in "eu", and quota "group" of organization "group" in "us"`)
	wantProblem(t, CheckQuotas(resource(t, "Tenant lone {}"), all), `spec.organization: quota "lone" is of organization "alone", which this change leaves without tenants`)
	wantProblem(t, CheckQuotas(resource(t, "Tenant acme {organization: group, apiKeys: [{id: laptop, sha256: "+sumA+"}]}"), all), "")
}

// What was too crowded before may be changed as long as it gets no worse.
func TestACrowdMayShrink(t *testing.T) {
	var all shelf
	all = append(all, resource(t, "Tenant t {}"))
	for i := range 20 {
		all = append(all, resource(t, fmt.Sprintf("Quota q%d {tenant: t, limits: [{kind: requests, perMinute: 1}, {kind: input-tokens, perMinute: 1}]}", i)))
	}
	wantProblem(t, CheckQuotas(resource(t, "Quota q0 {tenant: t, limits: [{kind: requests, perMinute: 1}]}"), all), "")
	wantProblem(t, CheckQuotas(resource(t, "Quota q0 {tenant: t, limits: [{kind: requests, perMinute: 2}, {kind: input-tokens, perMinute: 1}]}"), all), "")
	wantProblem(t, CheckQuotas(resource(t, "Quota new {tenant: t, limits: [{kind: requests, perMinute: 1}]}"), all), "spec.limits: some requests")
	wantProblem(t, CheckQuotas(resource(t, "Tenant t {tier: top}"), all), "")
}

func TestWhatHasQuotasStays(t *testing.T) {
	all := fleetOfGroup(t, "Tenant lone {organization: alone}", "Quota lone {organization: alone, limits: [{kind: requests, perMinute: 1}]}")
	for _, tt := range []struct {
		kind Kind
		name string
		want string
	}{
		{KindRegion, "us", `metadata.name: Quota "group" still names it in spec.homeRegion`},
		{KindRegion, "eu", ""},
		{KindTenant, "acme", `metadata.name: Quota "laptop" still names it in spec.tenant`},
		{KindTenant, "acme-dev", ""},
		{KindTenant, "lone", `metadata.name: it is the last tenant of organization "alone", which quota "lone" is for`},
		{KindTenant, "globex", ""},
	} {
		wantProblem(t, CheckDelete(tt.kind, tt.name, all), tt.want)
	}
}

// Builds before organisations come to the same verdict about what they know.
func TestOlderVerdictsStay(t *testing.T) {
	all := fleetOfGroup(t)
	for _, doc := range []string{
		"Quota q {tenant: acme, model: legal, limits: [{kind: requests, perMinute: 1}]}",
		"Quota q {organization: nobody, limits: [{kind: requests, perMinute: 1}]}",
		"Tenant acme {}",
		"Region us {}",
	} {
		wantProblem(t, Check(resource(t, doc), all), "")
	}
	wantProblem(t, Check(resource(t, "Quota q {tenant: nobody, limits: [{kind: requests, perMinute: 1}]}"), all), `spec.tenant: there is no Tenant "nobody"`)
}

func TestTheFormatThatADocumentNeeds(t *testing.T) {
	for doc, want := range map[string]uint32{
		"Region us {zone: us}":                         1,
		"Region us {quotaStore: {addresses: ['a:1']}}": 4,
		"Tenant t {tier: top}":                         1,
		"Tenant t {organization: t}":                   4,
		"Model organization {}":                        1,
		"RateCard r {gpus: [{class: x, region: us, purchase: owned, usdPerHour: 1, estimate: true}]}":                                                  1,
		"RateCard r {models: [{model: m, inputPerMTok: 1, outputPerMTok: 1}]}":                                                                         1,
		"RateCard r {gpus: [{class: x, region: us, instance: i, usdPerHour: 1}]}":                                                                      4,
		"RateCard r {gpus: [{class: x, region: us, availabilityZone: a, usdPerHour: 1}]}":                                                              4,
		"RateCard r {gpus: [{class: x, region: us, usdPerHour: 1}, {class: y, region: us, usdPerHour: 1, until: '2027-01-01T00:00:00Z'}]}":             4,
		"RateCard r {gpus: [{class: x, region: us, usdPerHour: 1, from: '2027-01-01T00:00:00Z'}]}":                                                     4,
		"RateCard r {gpus: [{class: x, region: us, usdPerHour: 1, purchase: capacity-block}]}":                                                         4,
		"RateCard r {models: [{model: m, inputPerMTok: 1, outputPerMTok: 1, cachedPerMTok: 0}]}":                                                       5,
		"TrafficPolicy t {costPreference: 1}":                                                                                                          1,
		"TrafficPolicy t {objective: cost-first}":                                                                                                      5,
		"TrafficPolicy t {maxPremium: {latencyMs: 5}}":                                                                                                 5,
		"TrafficPolicy t {regions: [{region: us, maxShare: 0.5}]}":                                                                                     1,
		"TrafficPolicy t {regions: [{region: eu}, {region: us, minShare: 0.5}]}":                                                                       5,
		"TrafficPolicy t {survive: region}":                                                                                                            5,
		"RateCard r {egress: [{from: us, usdPerGB: 1}]}":                                                                                               5,
		"RateCard r {gpus: [{class: x, region: us, instance: i, usdPerHour: 1}], carbon: {usdPerTonne: 1}}":                                            5,
		"Cluster c {region: us, models: [m], endpoints: [{id: p, url: 'http://p', class: x}], gpus: [{class: x, count: 1, purchase: spot}]}":           1,
		"Cluster c {region: us, models: [m], endpoints: [{id: p, url: 'http://p', class: x}], gpus: [{class: x, count: 1, purchase: capacity-block}]}": 4,
		"Cluster c {region: us, models: [m], endpoints: [{id: p, url: 'http://p', class: x}], gpus: [{class: x, count: 1, instance: i}]}":              4,
		"Quota q {tenant: t, model: m, degraded: open, limits: [{kind: requests, perMinute: 1}]}":                                                      1,
		"Quota q {tenant: t, limits: [{kind: total-tokens, perMinute: 1, burst: 5}]}":                                                                  1,
		"Quota q {organization: t, limits: [{kind: requests, perMinute: 1}]}":                                                                          4,
		"Quota q {tenant: t, key: k, limits: [{kind: requests, perMinute: 1}]}":                                                                        4,
		"Quota q {tenant: t, shadow: false, limits: [{kind: requests, perMinute: 1}]}":                                                                 4,
		"Quota q {tenant: t, overrun: cut, limits: [{kind: requests, perMinute: 1}]}":                                                                  4,
		"Quota q {tenant: t, homeRegion: us, limits: [{kind: requests, perMinute: 1}]}":                                                                4,
		"Quota q {tenant: t, limits: [{kind: requests, perMinute: 1}, {kind: money-per-day, usd: 1}]}":                                                 4,
		"Quota q {tenant: t, limits: [{kind: concurrent-requests, max: 1}]}":                                                                           4,
	} {
		r := resource(t, doc)
		if got := NeedsFormat(r.Kind, Canonical(r)); got != want {
			t.Errorf("%s needs format %d, want %d", doc, got, want)
		}
	}
	for _, doc := range []string{"", "7", `{"spec":[]}`, `{"spec":{"limits":{},"gpus":{}}}`, `{"spec":{"limits":[7],"gpus":[7]}}`, `{"spec":{"gpus":[{"purchase":7}]}}`, `{"spec":{"models":7}}`, `{"spec":{"models":[7]}}`} {
		for _, kind := range []Kind{KindQuota, KindRateCard} {
			if got := NeedsFormat(kind, []byte(doc)); got != 1 {
				t.Errorf("%s of %q needs format %d", kind, doc, got)
			}
		}
	}
}

func TestRotatedKeysAreOneFamily(t *testing.T) {
	for id, want := range map[string]string{
		"laptop": "laptop", "laptop-20261130-0812": "laptop", "laptop-20261130": "laptop-20261130", "-20261130-0812": "-20261130-0812", "a-b": "a-b",
	} {
		if got := KeyFamily(id); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
	acme, _ := fleetOfGroup(t).Get(KindTenant, "acme")
	if keys := (&QuotaSpec{Key: "laptop-20270101-0000"}).Keys(acme.Spec.(*TenantSpec)); len(keys) != 2 {
		t.Errorf("keys %+v, want the old and the new one", keys)
	}
}

func TestBudgetsAreWholeMicroDollars(t *testing.T) {
	for usd, want := range map[float64]int64{0.000001: 1, 0.1: 100_000, 12.345678: 12_345_678, 1e9: 1e15, 0.0000004: 0} {
		if got := (&LimitSpec{Kind: LimitPerDay, USD: usd}).Micros(); got != want {
			t.Errorf("%v dollars are %d, want %d", usd, got, want)
		}
	}
}

func TestAddressesOfStores(t *testing.T) {
	for text, want := range map[string]bool{
		"redis.us:6379": true, "10.0.0.1:1": true, "[::1]:65535": true, "[fe80::1%eth0]:1": true,
		"": false, ":6379": false, "redis": false, "redis:": false, "redis:0": false, "redis:65536": false, "redis:+1": false, "::1:6379": false,
		"[::1]": false, "[10.0.0.1]:1": false, "[x]:1": false, "[::1:1": false, "u@redis:1": false, "redis://redis:1": false, "a b:1": false, "a\tb:1": false,
	} {
		if hostPort(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func TestLimitsInShadowAreOtherBuckets(t *testing.T) {
	s := &QuotaSpec{Limits: []LimitSpec{{Kind: LimitPerDay}}}
	if got := LimitID("q", s, &s.Limits[0]); got != "q/money-per-day" {
		t.Errorf("id %q", got)
	}
	s.Shadow = true
	if got := LimitID("q", s, &s.Limits[0]); got != "q/money-per-day~" {
		t.Errorf("id %q in shadow", got)
	}
}

// Passed agrees with trying each model and key.
func TestPassedLimitsAreThoseOfTheWorstRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"", "a", "b", "c"})
		quotas := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Narrow {
			return Narrow{names.Draw(t, "model"), names.Draw(t, "key"), rapid.IntRange(1, 6).Draw(t, "limits")}
		}), 0, 8).Draw(t, "quotas")
		most := 0
		for _, m := range []string{"", "a", "b", "c"} {
			for _, k := range []string{"", "a", "b", "c"} {
				n := 0
				for _, q := range quotas {
					if (q.Model == "" || q.Model == m) && (q.Key == "" || q.Key == k) {
						n += q.Limits
					}
				}
				most = max(most, n)
			}
		}
		if got, _ := Passed(quotas); got != most {
			t.Fatalf("%v: %d limits, want %d", quotas, got, most)
		}
	})
}

func TestTooManyWaysAreRefused(t *testing.T) {
	all := shelf{resource(t, "Tenant t {}")}
	var keys, models []string
	for i := range 32 {
		keys = append(keys, fmt.Sprintf("{id: k%d, sha256: '%064x'}", i, i+1))
		models = append(models, fmt.Sprintf("m%d", i))
		all = append(all, resource(t, "Model "+models[i]+" {}"))
	}
	all[0] = resource(t, "Tenant t {apiKeys: ["+strings.Join(keys, ", ")+"]}")
	for i := range 31 {
		all = append(all, resource(t, fmt.Sprintf("Quota m%d {tenant: t, model: m%d, limits: [{kind: requests, perMinute: 1}]}", i, i)),
			resource(t, fmt.Sprintf("Quota k%d {tenant: t, key: k%d, limits: [{kind: requests, perMinute: 1}]}", i, i)))
	}
	wantProblem(t, CheckQuotas(resource(t, "Quota all {tenant: t, limits: [{kind: requests, perMinute: 1}]}"), all), "")
	wantProblem(t, CheckQuotas(resource(t, "Quota next {tenant: t, key: k31, limits: [{kind: requests, perMinute: 1}]}"), all), "spec.limits: models and API keys")
}

// FuzzQuota: whatever stands in a quota, nothing panics, and what is accepted can be counted and told apart.
func FuzzQuota(f *testing.F) {
	for _, spec := range []string{
		`{"tenant":"acme","limits":[{"kind":"requests","perMinute":60,"burst":7}]}`,
		`{"organization":"group","homeRegion":"us","degraded":"closed","overrun":"cut","limits":[{"kind":"concurrent-requests","max":5},{"kind":"money-per-day","usd":0.5,"timeZone":"Europe/Berlin","warnAt":[1,100]}]}`,
		`{"tenant":"acme","key":"laptop","model":"llama","shadow":true,"limits":[{"kind":"money-per-month","usd":1e9}]}`,
		`{"tenant":"acme","limits":[{"kind":"money-per-day","usd":1e-7,"timeZone":"../etc/passwd"},{"kind":"total-tokens","perMinute":50000000000,"burst":50000000001}]}`,
	} {
		f.Add([]byte(spec))
	}
	all := fleetOfGroup(f)
	f.Fuzz(func(t *testing.T, spec []byte) {
		doc, err := json.Marshal(map[string]any{"apiVersion": APIVersion, "kind": "Quota", "metadata": map[string]string{"name": "q"}, "spec": json.RawMessage(spec)})
		if err != nil {
			return // not JSON
		}
		r, found := Parse(doc)
		problems := Vet(r, found, all)
		if r == nil || len(problems) > 0 {
			return
		}
		s := r.Spec.(*QuotaSpec)
		ids := map[string]bool{}
		for i := range s.Limits {
			l := &s.Limits[i]
			if err := l.Countable(); err != nil {
				t.Fatalf("%s: accepted, and %v", doc, err)
			}
			if id := LimitID("q", s, l); ids[id] {
				t.Fatalf("%s: two limits are %q", doc, id)
			} else {
				ids[id] = true
			}
			if l.Money() == (l.Calendar() == "") || l.Money() && l.Micros() < 1 {
				t.Fatalf("%s: a budget of %d micro-dollars per %q", doc, l.Micros(), l.Calendar())
			}
		}
		if n, _ := Passed([]Narrow{NarrowOf(s)}); n != len(s.Limits) || n > ratelimit.MaxPath {
			t.Fatalf("%s: passes %d limits of %d", doc, n, len(s.Limits))
		}
		if !s.plain() && NeedsFormat(KindQuota, Canonical(r)) == firstFormat {
			t.Fatalf("%s: older builds would take it for something else", doc)
		}
	})
}

// plain says whether older builds would do with the quota what this one does.
func (s *QuotaSpec) plain() bool {
	return s.Organization == "" && s.Key == "" && s.HomeRegion == "" && !s.Shadow && s.Overrun == OverrunFinish &&
		!slices.ContainsFunc(s.Limits, func(l LimitSpec) bool { return !l.rate() })
}

// shelves is a Lookup as the state keeps it.
type shelves map[Kind][]*Resource

func (s shelves) Get(k Kind, name string) (*Resource, bool) {
	at, ok := slices.BinarySearchFunc(s[k], name, func(r *Resource, name string) int { return strings.Compare(r.Metadata.Name, name) })
	if !ok {
		return nil, false
	}
	return s[k][at], true
}

func (s shelves) List(k Kind) []*Resource { return s[k] }

// A quota is checked each time that one is applied, on every node.
func BenchmarkCheckAmongTenThousand(b *testing.B) {
	all := shelves{}
	for i := range 10_000 {
		name := fmt.Sprintf("t%05d", i)
		all[KindTenant] = append(all[KindTenant], &Resource{Kind: KindTenant, Metadata: Metadata{Name: name}, Spec: &TenantSpec{Organization: fmt.Sprintf("o%02d", i%50)}})
		all[KindQuota] = append(all[KindQuota], &Resource{Kind: KindQuota, Metadata: Metadata{Name: name}, Spec: &QuotaSpec{Tenant: name, Limits: []LimitSpec{{Kind: LimitRequests, PerMinute: 1}}}})
	}
	for name, doc := range map[string]string{
		"of a tenant":        "Quota new {tenant: t00500, limits: [{kind: requests, perMinute: 1}]}",
		"of an organisation": "Quota new {organization: o07, limits: [{kind: requests, perMinute: 1}]}",
	} {
		r := resource(b, doc)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if p := CheckQuotas(r, all); len(p) > 0 {
					b.Fatal(p)
				}
			}
		})
	}
}
