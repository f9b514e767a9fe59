package rest

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/ratelimit"
)

// The kinds of limit that count no flow of something.
const (
	kindSlots = "concurrent-requests"
	kindMoney = "money"
)

// microsPerUSD is how many units of a budget make a dollar.
const microsPerUSD = 1e6

// fewLimits are looked up one by one among what routers say; of more all that they say is put together.
const fewLimits = 16

// limitsOf puts together how some limits of the table stand, in their order.
func (n standing) limitsOf(quotas []*routerpb.Quota) []LimitUsage {
	limits := n.signals.Limits
	if len(quotas) > fewLimits {
		all := n.signals.AllLimits()
		limits = func(organisation string) []signal.Limit { return all[organisation] }
	}
	live := map[string]map[string]signal.Limit{} // by organisation and id, of those that are asked for
	shares := map[string][]*routerpb.Share{}     // by organisation
	for _, o := range n.view.Table().GetOrganisations() {
		shares[o.GetId()] = o.GetShares()
	}
	out := make([]LimitUsage, 0, len(quotas))
	for _, q := range quotas {
		owner := organisationOf(q)
		of, looked := live[owner]
		if !looked {
			of = map[string]signal.Limit{}
			for _, l := range limits(owner) {
				of[l.ID] = l
			}
			live[owner] = of
		}
		l, heard := of[q.GetId()]
		if !heard {
			l = signal.Limit{LevelAge: -1}
		}
		u := n.limitUsage(q, l)
		u.Regions = regionLimits(shares[owner], l)
		out = append(out, u)
	}
	return out
}

// organisationOf is whose limit it is; a tenant of no organisation is its own.
func organisationOf(q *routerpb.Quota) string { return cmp.Or(q.GetOrganisation(), q.GetTenant()) }

func (n standing) limitUsage(q *routerpb.Quota, l signal.Limit) LimitUsage {
	u := LimitUsage{
		ID: q.GetId(), Quota: quotaOf(q.GetId()), Kind: q.GetKind(), Organization: organisationOf(q), Tenant: q.GetTenant(), Model: q.GetModel(),
		Keys: n.keysOf(q), Shadow: q.GetShadow(), Limit: q.GetLimit(), PeriodMs: q.GetPeriodMs(), Burst: q.GetBurst(),
		Degraded: q.GetDegraded(), LimitTally: tallyOf(l.Tally), Remaining: remaining(q, l),
	}
	switch {
	case u.Kind == kindMoney:
		u.Budget = n.budget(q)
		if u.Limit > 0 {
			u.Use = u.Budget.SpentUSD / u.Budget.LimitUSD
		}
	case u.Limit <= 0:
	case u.Kind == kindSlots:
		u.Use = float64(u.InUse) / float64(u.Limit)
	case u.PeriodMs > 0:
		u.Use = u.UsedPerMinute * float64(u.PeriodMs) / float64(time.Minute.Milliseconds()) / float64(u.Limit)
	}
	return u
}

// quotaOf is the name of the Quota that a limit is of.
func quotaOf(id string) string {
	if i := strings.LastIndexByte(id, '/'); i >= 0 {
		return id[:i]
	}
	return id
}

// keysOf lists the ids of the API keys that a limit is for, as far as the tenant still has them.
func (n standing) keysOf(q *routerpb.Quota) []string {
	ids := []string{}
	if len(q.GetKeySha256()) == 0 {
		return ids
	}
	t, ok := n.view.Get(policy.KindTenant, q.GetTenant())
	if !ok {
		return ids
	}
	for _, k := range t.Spec.(*policy.TenantSpec).APIKeys {
		if slices.ContainsFunc(q.GetKeySha256(), func(sum []byte) bool { return hex.EncodeToString(sum) == k.SHA256 }) {
			ids = append(ids, k.ID)
		}
	}
	return ids
}

func tallyOf(t signal.Tally) LimitTally {
	return LimitTally{
		Routers: t.Routers, DegradedRouters: t.Degraded, Held: t.Held, InUse: t.InUse, Owed: t.Owed,
		UsedPerMinute: 60 * t.UsedPerS, AdmittedPerMinute: 60 * t.AdmittedPerS,
		DeniedPerMinute: 60 * t.DeniedPerS, WouldDenyPerMinute: 60 * t.WouldDenyPerS,
		Admitted: t.Admitted, Denied: t.Denied, WouldDeny: t.WouldDeny,
	}
}

// regionLimits tells of each region that uses a limit or has a share of it, by name.
func regionLimits(shares []*routerpb.Share, l signal.Limit) []RegionLimitUsage {
	all := map[fleet.RegionID]RegionLimitUsage{}
	for _, s := range shares {
		all[fleet.RegionID(s.GetRegion())] = RegionLimitUsage{Share: float64(s.GetParts()) / ratelimit.ShareParts}
	}
	for region, t := range l.Regions {
		all[region] = RegionLimitUsage{Share: all[region].Share, LimitTally: tallyOf(t)}
	}
	out := make([]RegionLimitUsage, 0, len(all))
	for region, u := range all {
		u.Region = region
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b RegionLimitUsage) int { return cmp.Compare(a.Region, b.Region) })
	return out
}

// remaining estimates what is left of a limit; nil: nobody has asked lately.
func remaining(q *routerpb.Quota, l signal.Limit) *RemainingEstimate {
	if l.LevelAge < 0 {
		return nil
	}
	out := &RemainingEstimate{AgeMs: ms(l.LevelAge)}
	switch {
	case q.GetKind() == kindSlots:
		out.Units = q.GetLimit() - l.InUse
	case q.GetPeriodMs() > 0:
		inflow := float64(q.GetLimit()) * float64(out.AgeMs) / float64(q.GetPeriodMs())
		out.Units = l.Level + l.Held - l.Owed + int64(min(inflow, 2*float64(q.GetBurst())))
	default:
		out.Units = l.Level + l.Held - l.Owed
	}
	out.Units = min(out.Units, q.GetBurst())
	return out
}

// budget is what the ledger knows to be spent in the present window.
func (n standing) budget(q *routerpb.Quota) *BudgetUsage {
	b := &BudgetUsage{
		Calendar: q.GetCalendar(), TimeZone: cmp.Or(q.GetTimeZone(), time.UTC.String()), LimitUSD: usd(q.GetLimit()), WarnAt: []int{},
	}
	for _, percent := range q.GetWarnPercent() {
		b.WarnAt = append(b.WarnAt, int(percent))
	}
	place, err := time.LoadLocation(b.TimeZone)
	if err != nil {
		place = time.UTC // this node's machine knows fewer places than the one that took the quota
	}
	w, err := ratelimit.Calendar(b.Calendar).Window(n.signals.At, place)
	if err != nil {
		return b // a calendar that only newer nodes know
	}
	b.Start, b.End = time.UnixMicro(w.FromUs).In(place), time.UnixMicro(w.NextUs).In(place)
	spent := state.SpentIn(n.view.Budget(organisationOf(q), q.GetId()), w.FromUs)
	b.SpentUSD, b.RemainingUSD, b.WarnedAt = usd(spent.GetMicros()), usd(q.GetLimit()-spent.GetMicros()), int(spent.GetWarnedPercent())
	return b
}

func usd(micros int64) float64 { return float64(micros) / microsPerUSD }
