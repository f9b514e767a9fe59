package table

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/ratelimit"
)

func TestQuotasThatCantBe(t *testing.T) {
	const key, model, both, slots, group, money = 0, 1, 2, 3, 4, 5 // of leased's quotas
	q := func(i int, spoil func(*routerpb.Quota)) func(*routerpb.Table) {
		return func(p *routerpb.Table) { spoil(p.Quotas[i]) }
	}
	org := func(spoil func(*routerpb.Organisation)) func(*routerpb.Table) {
		return func(p *routerpb.Table) { spoil(p.Organisations[0]) }
	}
	store := func(spoil func(*routerpb.QuotaStore)) func(*routerpb.Table) {
		return func(p *routerpb.Table) { spoil(p.Regions[0].QuotaStore) }
	}
	for name, tt := range map[string]struct {
		spoil       func(*routerpb.Table)
		code, field string
	}{
		"without an organisation":        {q(group, func(x *routerpb.Quota) { x.Organisation = "" }), CodeUnknown, "quotas[4].organisation"},
		"of an unknown organisation":     {q(group, func(x *routerpb.Quota) { x.Organisation = "none" }), CodeUnknown, "quotas[4].organisation"},
		"of another's tenant":            {q(slots, func(x *routerpb.Quota) { x.Tenant = "globex" }), CodeUnknown, "quotas[3].tenant"},
		"of an unknown tenant":           {q(slots, func(x *routerpb.Quota) { x.Tenant = "none" }), CodeUnknown, "quotas[3].tenant"},
		"of a key of nobody":             {q(key, func(x *routerpb.Quota) { x.KeySha256[1] = keySum("none") }), CodeUnknown, "quotas[0].key_sha256[1]"},
		"of a key of another":            {q(key, func(x *routerpb.Quota) { x.KeySha256[0] = keySum("k-initech") }), CodeUnknown, "quotas[0].key_sha256[0]"},
		"of half a key":                  {q(both, func(x *routerpb.Quota) { x.KeySha256[0] = []byte("short") }), CodeUnknown, "quotas[2].key_sha256[0]"},
		"of an organisation's key":       {q(key, func(x *routerpb.Quota) { x.Tenant = "" }), CodeValue, "quotas[0].key_sha256"},
		"of a name that breaks lines":    {q(model, func(x *routerpb.Quota) { x.Id = "a\nb" }), CodeValue, "quotas[1].id"},
		"of a name without an end":       {q(model, func(x *routerpb.Quota) { x.Id = strings.Repeat("a", 513) }), CodeValue, "quotas[1].id"},
		"of a name twice":                {q(model, func(x *routerpb.Quota) { x.Id = "k/requests" }), CodeDuplicate, "quotas[1].id"},
		"of an unknown kind":             {q(slots, func(x *routerpb.Quota) { x.Kind = "concurrent" }), CodeValue, "quotas[3].kind"},
		"of an unknown overrun":          {q(slots, func(x *routerpb.Quota) { x.Overrun = "stop" }), CodeValue, "quotas[3].overrun"},
		"degraded in an unknown way":     {q(slots, func(x *routerpb.Quota) { x.Degraded = "half" }), CodeValue, "quotas[3].degraded"},
		"of no slots":                    {q(slots, func(x *routerpb.Quota) { x.Limit = 0 }), CodeLarge, "quotas[3].limit"},
		"of slots beyond counting":       {q(slots, func(x *routerpb.Quota) { x.Limit = 1 << 51 }), CodeLarge, "quotas[3].limit"},
		"of a rate beyond counting":      {q(group, func(x *routerpb.Quota) { x.Burst = 1 << 50 }), CodeLarge, "quotas[4].limit"},
		"of a negative rate":             {q(group, func(x *routerpb.Quota) { x.Limit = -1 }), CodeValue, "quotas[4].limit"},
		"of money in no calendar":        {q(money, func(x *routerpb.Quota) { x.Calendar = "week" }), CodeValue, "quotas[5].calendar"},
		"of money nowhere":               {q(money, func(x *routerpb.Quota) { x.TimeZone = "Mars/Olympus" }), CodeValue, "quotas[5].time_zone"},
		"of money at the router's":       {q(money, func(x *routerpb.Quota) { x.TimeZone = "Local" }), CodeValue, "quotas[5].time_zone"},
		"of money up the tree":           {q(money, func(x *routerpb.Quota) { x.TimeZone = "../../etc/passwd" }), CodeValue, "quotas[5].time_zone"},
		"warned at nothing":              {q(money, func(x *routerpb.Quota) { x.WarnPercent[0] = 0 }), CodeValue, "quotas[5].warn_percent[0]"},
		"warned downwards":               {q(money, func(x *routerpb.Quota) { x.WarnPercent[1] = 50 }), CodeValue, "quotas[5].warn_percent[1]"},
		"warned too late":                {q(money, func(x *routerpb.Quota) { x.WarnPercent[1] = 101 }), CodeValue, "quotas[5].warn_percent[1]"},
		"a nameless organisation":        {org(func(o *routerpb.Organisation) { o.Id = "" }), CodeValue, "organisations[0].id"},
		"an organisation twice":          {func(p *routerpb.Table) { p.Organisations[1].Id = "group" }, CodeDuplicate, "organisations[1].id"},
		"an unknown home":                {org(func(o *routerpb.Organisation) { o.Home = "mars" }), CodeUnknown, "organisations[0].home"},
		"a home without a store":         {org(func(o *routerpb.Organisation) { o.Home = "eu-west-1" }), CodeUnknown, "organisations[0].home"},
		"no epoch":                       {org(func(o *routerpb.Organisation) { o.Epoch = 0 }), CodeValue, "organisations[0].epoch"},
		"an epoch beyond counting":       {org(func(o *routerpb.Organisation) { o.Epoch = 1 << 53 }), CodeValue, "organisations[0].epoch"},
		"no version":                     {org(func(o *routerpb.Organisation) { o.Version = 0 }), CodeValue, "organisations[0].version"},
		"a version beyond counting":      {org(func(o *routerpb.Organisation) { o.Version = 1 << 53 }), CodeValue, "organisations[0].version"},
		"more than all when cold":        {org(func(o *routerpb.Organisation) { o.ColdPercent = 101 }), CodeValue, "organisations[0].cold_percent"},
		"a share of nowhere":             {org(func(o *routerpb.Organisation) { o.Shares[0].Region = "mars" }), CodeUnknown, "organisations[0].shares[0].region"},
		"a share twice":                  {org(func(o *routerpb.Organisation) { o.Shares[1].Region = "us-east-1" }), CodeDuplicate, "organisations[0].shares[1].region"},
		"shares above all":               {org(func(o *routerpb.Organisation) { o.Shares[1].Parts = 300_001 }), CodeValue, "organisations[0].shares[1].parts"},
		"a store nowhere":                {store(func(s *routerpb.QuotaStore) { s.Addresses = nil }), CodeValue, "regions[0].quota_store.addresses"},
		"a store without a port":         {store(func(s *routerpb.QuotaStore) { s.Addresses[0] = "redis" }), CodeValue, "regions[0].quota_store.addresses[0]"},
		"a store at port 0":              {store(func(s *routerpb.QuotaStore) { s.Addresses[0] = "redis:0" }), CodeValue, "regions[0].quota_store.addresses[0]"},
		"a cluster with Sentinels":       {store(func(s *routerpb.QuotaStore) { s.Cluster, s.Master = true, "m" }), CodeValue, "regions[0].quota_store.master"},
		"two passwords":                  {store(func(s *routerpb.QuotaStore) { s.PasswordFile, s.PasswordEnv = "a", "b" }), CodeValue, "regions[0].quota_store.password_env"},
		"a certificate without its key":  {store(func(s *routerpb.QuotaStore) { s.Tls, s.CertFile = true, "a" }), CodeValue, "regions[0].quota_store.key_file"},
		"authorities without encryption": {store(func(s *routerpb.QuotaStore) { s.CaFile = "a" }), CodeValue, "regions[0].quota_store.tls"},
		"too many limits on a path": {func(p *routerpb.Table) {
			for i := range ratelimit.MaxPath {
				x := proto.CloneOf(p.Quotas[group])
				x.Id = fmt.Sprint("more-", i)
				p.Quotas = append(p.Quotas, x)
			}
		}, CodePath, "tenants[0]"},
		"too many ways to combine": {func(p *routerpb.Table) {
			for i := range maxWays {
				x := proto.CloneOf(p.Quotas[model])
				x.Id, x.Model = fmt.Sprint("more-", i), fmt.Sprint("model-", i)
				p.Quotas = append(p.Quotas, x)
			}
		}, CodePath, "tenants[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			pb := leased()
			tt.spoil(pb)
			_, err := Build(pb)
			var bad *Invalid
			if !errors.As(err, &bad) || bad.Code != tt.code || bad.Field != tt.field {
				t.Errorf("%v, want %s at %s", err, tt.code, tt.field)
			}
		})
	}
}

func TestAnOlderControlPlanesQuotaIsOfNoOrganisation(t *testing.T) {
	pb := good()
	pb.Quotas[0].Organisation = "acme"
	if _, err := Build(pb); err == nil || !strings.Contains(err.Error(), "quotas[0].organisation") {
		t.Errorf("%v", err)
	}
	pb.Quotas[0].Organisation, pb.Quotas[0].Tenant = "", ""
	if _, err := Build(pb); err == nil || !strings.Contains(err.Error(), "quotas[0].tenant") {
		t.Errorf("%v", err)
	}
}

// Paths are what a search through the message finds, and nothing is there twice.
func TestPathsAgreeWithTheMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pb := good()
		pb.Quotas, pb.Organisations = nil, []*routerpb.Organisation{{Id: "group", Epoch: 1, Version: 1}, {Id: "initech", Epoch: 1, Version: 1}}
		pb.Tenants[0].Organisation = "group"
		pb.Tenants = append(pb.Tenants, &routerpb.Tenant{Id: "lab", Organisation: "group"})
		keys := map[string][]string{"acme": {"k-acme", "k-acme-2"}, "initech": {"k-initech"}}
		for i := range rapid.IntRange(0, 9).Draw(t, "quotas") {
			q := &routerpb.Quota{
				Id: fmt.Sprint("q", i), Kind: "requests", Limit: 1, PeriodMs: 1, Burst: 1, Shadow: rapid.Bool().Draw(t, "shadow"),
				Tenant: rapid.SampledFrom([]string{"", "acme", "initech", "lab"}).Draw(t, "tenant"), Model: rapid.SampledFrom([]string{"", "llama", "big"}).Draw(t, "model"),
			}
			q.Organisation = "group"
			if q.Tenant == "initech" {
				q.Organisation = "initech"
			}
			for _, k := range keys[q.Tenant] {
				if rapid.Bool().Draw(t, "for the key") {
					q.KeySha256 = append(q.KeySha256, keySum(k))
				}
			}
			pb.Quotas = append(pb.Quotas, q)
		}
		tab, err := Build(pb)
		if err != nil {
			t.Fatal(err)
		}
		all := map[*Path]bool{}
		for p := range tab.Paths() {
			all[p] = true
		}
		used := map[*Path]bool{}
		for _, x := range pb.Tenants {
			for _, model := range []string{"llama", "big", "other"} {
				for _, key := range append([]string{""}, keys[x.Id]...) {
					var id KeyID
					if key != "" {
						id = tab.keys[[32]byte(keySum(key))].id
					}
					p := tab.Path(fleet.TenantID(x.Id), fleet.ModelID(model), id)
					if p != nil && !all[p] {
						t.Fatalf("the path of %s is not among all", x.Id)
					}
					used[p] = true
					got := map[string]bool{}
					if p != nil {
						for _, l := range p.Limits {
							got[l.ID] = false
						}
						for _, l := range p.Shadow {
							got[l.ID] = true
						}
					}
					want := map[string]bool{}
					for _, q := range pb.Quotas {
						mine := q.Tenant == x.Id || q.Tenant == "" && q.Organisation == tab.tenants[fleet.TenantID(x.Id)].Organisation
						named := len(q.KeySha256) == 0 || key != "" && slices.ContainsFunc(q.KeySha256, func(s []byte) bool { return string(s) == string(keySum(key)) })
						if mine && named && (q.Model == "" || q.Model == model) {
							want[q.Id] = q.Shadow
						}
					}
					if fmt.Sprint(got) != fmt.Sprint(want) {
						t.Fatalf("%s, %s, key %q pass %v, want %v of %v", x.Id, model, key, got, want, pb.Quotas)
					}
				}
			}
		}
		if delete(used, nil); len(used) != len(all) {
			t.Fatalf("%d paths, of which %d can be passed", len(all), len(used))
		}
	})
}
