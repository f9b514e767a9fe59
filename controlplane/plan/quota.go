package plan

import (
	"encoding/hex"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/ratelimit"
)

// quotaPeriod is what LimitSpec.PerMinute counts over.
const quotaPeriod = time.Minute

// The kinds of limit that routers know by another name than operators.
const kindMoney = "money"

// addQuotas makes one bucket of each limit, and the organisations whose they are.
func (w *world) addQuotas(t *routerpb.Table, in Input) {
	q := quotas{
		tenants: map[string]*routerpb.Tenant{}, members: map[string][]string{}, passed: map[string]crowd{}, homes: map[string]string{},
		share: 1 / float64(max(len(w.regionIDs), 1)), older: in.Older,
	}
	for _, x := range t.GetTenants() {
		q.tenants[x.GetId()] = x
		q.members[organisationOf(x)] = append(q.members[organisationOf(x)], x.GetId())
	}
	specs := map[string]*policy.TenantSpec{}
	for _, r := range w.resources.List(policy.KindTenant) {
		if spec, ok := r.Spec.(*policy.TenantSpec); ok {
			specs[r.Metadata.Name] = spec
		}
	}
	for _, r := range w.resources.List(policy.KindQuota) {
		if spec, ok := r.Spec.(*policy.QuotaSpec); ok && (spec.Model == "" || w.adapters[spec.Model] == "") {
			q.add(r.Metadata.Name, spec, specs[spec.Tenant])
		}
	}
	t.Quotas = q.list
	if in.Older {
		for _, x := range t.GetTenants() {
			x.Organisation = ""
		}
		return
	}
	if in.Beside != nil {
		keepQuotas(t, in.Beside)
		return
	}
	t.Organisations = organisations(t, q.homes, in)
}

func organisationOf(t *routerpb.Tenant) string {
	if t.GetOrganisation() != "" {
		return t.GetOrganisation()
	}
	return t.GetId()
}

// quotas gathers the quotas of a table.
type quotas struct {
	tenants map[string]*routerpb.Tenant
	members map[string][]string // tenants by organisation
	passed  map[string]crowd    // by tenant
	homes   map[string]string   // by organisation
	// share is each region's for routers that know of no organisations: one that can't ask how much is left
	// can at least not exceed an equal part with the others.
	share float64
	older bool
	list  []*routerpb.Quota
}

// crowd is the quotas that hold for a tenant's requests.
type crowd struct {
	quotas []policy.Narrow
	limits int
}

// add takes in one resource. What routers would refuse a table for is left out: it was stored before that was
// looked for. So are limits for keys that the tenant has no longer.
func (q *quotas) add(name string, spec *policy.QuotaSpec, tenant *policy.TenantSpec) {
	of, holds := spec.Organization, q.members[spec.Organization]
	if of == "" {
		t := q.tenants[spec.Tenant]
		if t == nil || tenant == nil {
			return
		}
		of, holds = organisationOf(t), []string{spec.Tenant}
	}
	var keys [][]byte
	if spec.Key != "" {
		if keys = sums(spec.Keys(tenant)); len(keys) == 0 {
			return
		}
	}
	if len(holds) == 0 || !q.fit(holds, policy.NarrowOf(spec)) {
		return
	}
	if spec.HomeRegion != "" && q.homes[of] == "" {
		q.homes[of] = spec.HomeRegion
	}
	for i := range spec.Limits {
		l := &spec.Limits[i]
		if l.Countable() != nil {
			continue
		}
		p := &routerpb.Quota{
			Id: policy.LimitID(name, spec, l), Tenant: spec.Tenant, Kind: l.Kind, Degraded: spec.Degraded, Model: spec.Model,
			Share: q.share, KeySha256: keys, Shadow: spec.Shadow,
		}
		if !q.older {
			p.Organisation = of
		}
		if spec.Overrun == policy.OverrunCut {
			p.Overrun = spec.Overrun
		}
		amounts(p, l)
		q.list = append(q.list, p)
	}
}

// fit says whether the tenants' requests may pass some more limits, and counts them if so.
func (q *quotas) fit(tenants []string, more policy.Narrow) bool {
	const few = 60 // quotas, which can't combine in too many ways
	for _, t := range tenants {
		c := q.passed[t]
		if c.limits+more.Limits <= ratelimit.MaxPath && len(c.quotas) < few {
			continue
		}
		limits, ways := policy.Passed(append(c.quotas[:len(c.quotas):len(c.quotas)], more))
		if limits > ratelimit.MaxPath || ways > policy.MaxWays {
			return false
		}
	}
	for _, t := range tenants {
		c := q.passed[t]
		q.passed[t] = crowd{append(c.quotas, more), c.limits + more.Limits}
	}
	return true
}

// amounts fills in the numbers of a limit.
func amounts(p *routerpb.Quota, l *policy.LimitSpec) {
	switch {
	case l.Money():
		p.Kind, p.Limit, p.Burst = kindMoney, l.Micros(), l.Micros()
		p.Calendar, p.TimeZone = string(l.Calendar()), l.TimeZone
		for _, percent := range l.WarnAt {
			p.WarnPercent = append(p.WarnPercent, uint32(max(percent, 0)))
		}
	case l.Kind == policy.LimitConcurrent:
		p.Limit, p.Burst = l.Max, l.Max
	default:
		p.Limit, p.PeriodMs, p.Burst = l.PerMinute, quotaPeriod.Milliseconds(), l.Burst
		if p.Burst == 0 {
			p.Burst = l.PerMinute
		}
	}
}

// sums are the hashes of API keys.
func sums(keys []policy.APIKeySpec) [][]byte {
	var out [][]byte
	for _, k := range keys {
		if sum, err := hex.DecodeString(k.SHA256); err == nil {
			out = append(out, sum)
		}
	}
	return out
}

func quotaStore(s *policy.QuotaStoreSpec) *routerpb.QuotaStore {
	if s == nil {
		return nil
	}
	return &routerpb.QuotaStore{
		Addresses: s.Addresses, Master: s.SentinelMaster, Cluster: s.Cluster,
		Username: s.Username, PasswordFile: s.PasswordFile, PasswordEnv: s.PasswordEnv,
		Tls: s.TLS, CaFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile,
	}
}
