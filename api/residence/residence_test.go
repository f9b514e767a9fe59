package residence

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
)

// request is what rules look at.
type request struct{ tenant, model, path, header string }

// serves is the slow and obvious judge: where a table lets a request be served, by the residency of its tenant and of the
// first rule that fits it.
func serves(t *routerpb.Table, r request) (where []string) {
	var tenant, rule []string
	for _, x := range t.GetTenants() {
		if x.GetId() == r.tenant {
			tenant = x.GetResidency()
		}
	}
	for _, x := range t.GetRules() {
		if fits(x, r) {
			rule = x.GetResidency()
			break
		}
	}
	for _, x := range regionsOf(t) {
		if x.allows(tenant) && x.allows(rule) {
			where = append(where, x.id)
		}
	}
	return where
}

func fits(x *routerpb.Rule, r request) bool {
	if len(x.GetModels()) > 0 && !slices.Contains(x.GetModels(), r.model) {
		return false
	}
	for _, m := range x.GetMatch() {
		ok := len(m.GetTenants()) == 0 || slices.Contains(m.GetTenants(), r.tenant)
		ok = ok && (len(m.GetPaths()) == 0 || slices.ContainsFunc(m.GetPaths(), func(p string) bool {
			prefix, open := strings.CutSuffix(p, "*")
			return p == r.path || open && strings.HasPrefix(r.path, prefix)
		}))
		for _, h := range m.GetHeaders() {
			ok = ok && h.GetValue() == r.header
		}
		if ok {
			return true
		}
	}
	return len(x.GetMatch()) == 0
}

// some picks a few of a list, none of it as often as any.
func some(r *rand.Rand, of ...string) []string {
	var out []string
	for _, s := range of {
		if r.IntN(3) == 0 {
			out = append(out, s)
		}
	}
	return out
}

func random(r *rand.Rand) *routerpb.Table {
	t := &routerpb.Table{Models: []*routerpb.Model{{Id: "a"}, {Id: "b"}}}
	for i, id := range []string{"r1", "r2", "r3", "r4"} {
		t.Regions = append(t.Regions, &routerpb.Region{Id: id, Zone: []string{"eu", "us", "", "eu"}[(i+r.IntN(2))%4]})
	}
	places := []string{"eu", "us", "r1", "r2", "r3", "r4", "gone"}
	for _, id := range []string{"t1", "t2"} {
		t.Tenants = append(t.Tenants, &routerpb.Tenant{Id: id, Residency: some(r, places...)})
	}
	for i := range r.IntN(4) {
		rule := &routerpb.Rule{Id: fmt.Sprintf("p%d", i), Class: "c", Models: some(r, "a", "b"), Residency: some(r, places...)}
		for range r.IntN(3) {
			m := &routerpb.Match{Tenants: some(r, "t1", "t2"), Paths: some(r, "/v1/*", "/v1/chat*", "/v1/chat", "/x")}
			if r.IntN(3) == 0 {
				m.Headers = []*routerpb.HeaderMatch{{Name: "H", Value: []string{"1", "2"}[r.IntN(2)]}}
			}
			rule.Match = append(rule.Match, m)
		}
		t.Rules = append(t.Rules, rule)
	}
	return t
}

// TestARequestGoesWhereBothTablesLetIt holds random tables against the judge.
func TestARequestGoesWhereBothTablesLetIt(t *testing.T) {
	narrower := 0
	for seed := range uint64(1200) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // of a test
		earlier, newest := random(r), random(r)
		got, err := Narrow(earlier, newest)
		if err != nil {
			t.Fatal(err)
		}
		where := proto.CloneOf(earlier) // of the earlier rules, with regions where they are now
		for i := range where.GetRegions() {
			where.Regions[i].Zone = newest.GetRegions()[i].GetZone()
		}
		ids := map[string]bool{}
		for _, x := range got.GetRules() {
			if ids[x.GetId()] || x.GetClass() == "" {
				t.Fatalf("seed %d: rules %v", seed, got.GetRules())
			}
			ids[x.GetId()] = true
		}
		for _, q := range []request{
			{"t1", "a", "/v1/chat", "1"}, {"t2", "a", "/v1/chat", "2"}, {"t1", "b", "/v1/chats", ""}, {"t2", "b", "/v1/x", "1"}, {"t3", "a", "/x", "2"}, {"t1", "a", "/", ""},
		} {
			now := serves(newest, q)
			want := slices.DeleteFunc(serves(where, q), func(id string) bool { return !slices.Contains(now, id) })
			if is := serves(got, q); !slices.Equal(is, want) {
				t.Fatalf("seed %d: %+v may be served in %v, want %v\nearlier %v\nnewest %v\ngot %v", seed, q, is, want, earlier, newest, got)
			}
			if len(want) < len(serves(where, q)) {
				narrower++
			}
		}
		// What is as narrow as can be is not narrowed again, as whoever holds a table by an order tries to each second.
		if again, err := Narrow(got, newest); err != nil || again != got {
			t.Fatalf("seed %d: narrowed once more: %v\n%v\nby %v\nis %v", seed, err, got.GetRules(), newest.GetRules(), again.GetRules())
		}
	}
	if narrower < 500 {
		t.Errorf("only %d requests were narrowed: the tables are too tame", narrower)
	}
}

func tenant(residency ...string) *routerpb.Table {
	return &routerpb.Table{
		Regions: []*routerpb.Region{{Id: "de", Zone: "eu"}, {Id: "fr", Zone: "eu"}, {Id: "va", Zone: "us"}},
		Models:  []*routerpb.Model{{Id: "m"}}, Tenants: []*routerpb.Tenant{{Id: "acme", Residency: residency}},
	}
}

func TestResidencyOfATenant(t *testing.T) {
	for name, c := range map[string]struct{ earlier, newest, want []string }{
		"a newer rule holds":             {nil, []string{"eu"}, []string{"eu"}},
		"one that is gone holds as ever": {[]string{"eu"}, nil, []string{"eu"}},
		"both hold":                      {[]string{"eu"}, []string{"fr", "us"}, []string{"fr"}},
		"together they may be nothing":   {[]string{"eu"}, []string{"us"}, []string{Nowhere}},
		"the same":                       {[]string{"eu"}, []string{"eu"}, []string{"eu"}},
	} {
		got, err := Narrow(tenant(c.earlier...), tenant(c.newest...))
		if err != nil || !slices.Equal(got.GetTenants()[0].GetResidency(), c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got.GetTenants(), err, c.want)
		}
	}
}

func TestARegionOfTheNameOfAZoneLetsNobodyIn(t *testing.T) {
	earlier, newest := tenant("de", "eu"), tenant("de", "us")
	earlier.Regions = append(earlier.Regions, &routerpb.Region{Id: "x", Zone: "de"}) // region x is in a zone named as a region is
	got, err := Narrow(earlier, newest)
	if err != nil {
		t.Fatal(err)
	}
	if where := serves(got, request{tenant: "acme"}); !slices.Equal(where, []string{"de", "x"}) {
		t.Errorf("in %v", where) // both lists name zone de
	}
	newest.Tenants[0].Residency = []string{"de", "us"}
	earlier.Tenants[0].Residency = []string{"eu"}
	if got, err = Narrow(earlier, newest); err != nil || len(serves(got, request{tenant: "acme"})) != 0 {
		t.Errorf("in %v, %v: naming region de would let zone de in, where x is", serves(got, request{tenant: "acme"}), err)
	}
}

func TestNothingToNarrowChangesNothing(t *testing.T) {
	earlier := tenant("eu")
	earlier.Rules = []*routerpb.Rule{{Id: "p", Class: "c"}}
	for name, newest := range map[string]*routerpb.Table{"no table": nil, "the same": proto.CloneOf(earlier), "one without rules": tenant()} {
		if got, err := Narrow(earlier, newest); err != nil || got != earlier {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestATenantThatOnlyTheEarlierTableHasKeepsItsResidency(t *testing.T) {
	earlier, newest := tenant("eu"), tenant("us")
	newest.Tenants[0].Id = "other"
	if got, err := Narrow(earlier, newest); err != nil || got != earlier {
		t.Errorf("%v, %v", got, err)
	}
}

func TestTooManyRulesAreRefused(t *testing.T) {
	earlier, newest := tenant(), tenant()
	for i := range 50 {
		rule := func(header string) *routerpb.Rule {
			return &routerpb.Rule{Id: fmt.Sprintf("p%d", i), Class: "c", Residency: []string{"eu"}, Match: []*routerpb.Match{{Headers: []*routerpb.HeaderMatch{{Name: header, Value: fmt.Sprint(i)}}}}}
		}
		earlier.Rules, newest.Rules = append(earlier.Rules, rule("A")), append(newest.Rules, rule("B"))
	}
	if _, err := Narrow(earlier, newest); err == nil || !strings.Contains(err.Error(), "at most 2000") {
		t.Errorf("error %v", err)
	}
}
