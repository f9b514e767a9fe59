package rest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/access"
	"anabranch/controlplane/policy"
)

// Usage is how the limits that a tenant's requests pass stand now.
type Usage struct {
	Tenant       string `json:"tenant"`
	Organization string `json:"organization"`
	// Home is the region whose quota store keeps the levels; empty: each router's own.
	Home string    `json:"home"`
	At   time.Time `json:"at"`
	// TableRevision is of the table whose limits these are; 0: there is none yet.
	TableRevision uint64 `json:"tableRevision"`
	// Limits of the organisation, then of the tenant, then of its models and keys.
	Limits []LimitUsage `json:"limits"`
}

// LimitUsage is how one limit stands, in units of its kind: requests, tokens, requests at the same time, or
// micro-dollars. Rates are averages with a time constant of 15 s.
type LimitUsage struct {
	ID    string `json:"id"`
	Quota string `json:"quota"`
	Kind  string `json:"kind"`
	// Organization that it is kept for; Tenant, Model and Keys narrow it. Empty: all of them.
	Organization string   `json:"organization"`
	Tenant       string   `json:"tenant"`
	Model        string   `json:"model"`
	Keys         []string `json:"keys"` // ids of the tenant's API keys
	Shadow       bool     `json:"shadow"`
	// Limit of units in each period; of slots and budgets, where PeriodMs is 0, at the same time and in
	// each window.
	Limit    int64 `json:"limit"`
	PeriodMs int64 `json:"periodMs"`
	Burst    int64 `json:"burst"`
	// Use is what part of the limit is used: of a rate its average, of slots those that are taken, of a
	// budget what is spent. Above 1 while a burst is spent.
	Use float64 `json:"use"`
	// Remaining is an estimate; nil: nobody has asked the quota store lately.
	Remaining *RemainingEstimate `json:"remaining"`
	// Budget is of money alone.
	Budget *BudgetUsage `json:"budget"`
	// Degraded is what holds while the quota store is away: share, open or closed.
	Degraded string `json:"degraded"`
	LimitTally
	// Regions from which it is used, by name, with those that have a share.
	Regions []RegionLimitUsage `json:"regions"`
}

// RemainingEstimate is what may be left: the level that a router heard of last, what flowed in since, and
// what routers hold and have not told to be spent.
type RemainingEstimate struct {
	Units int64 `json:"units"`
	// AgeMs is how long ago the level was told.
	AgeMs int64 `json:"ageMs"`
}

// BudgetUsage is what the ledger knows to be spent of a budget in its present window; routers tell it every
// few seconds.
type BudgetUsage struct {
	Calendar     string    `json:"calendar"` // day or month
	TimeZone     string    `json:"timeZone"`
	Start        time.Time `json:"start"`
	End          time.Time `json:"end"` // the start of the next
	LimitUSD     float64   `json:"limitUSD"`
	SpentUSD     float64   `json:"spentUSD"`
	RemainingUSD float64   `json:"remainingUSD"` // below 0 where more was spent than there was
	// WarnAt are the percentages at which a warning is due, WarnedAt the highest that was warned of in this
	// window; 0: none.
	WarnAt   []int `json:"warnAt"`
	WarnedAt int   `json:"warnedAt"`
}

// LimitTally is what routers say of a limit, together.
type LimitTally struct {
	// Routers that use it, and DegradedRouters of these, which keep it by themselves.
	Routers         int `json:"routers"`
	DegradedRouters int `json:"degradedRouters"`
	// Held is leased to routers, InUse are slots taken now, Owed is spent and not charged yet.
	Held               int64   `json:"held"`
	InUse              int64   `json:"inUse"`
	Owed               int64   `json:"owed"`
	UsedPerMinute      float64 `json:"usedPerMinute"`
	AdmittedPerMinute  float64 `json:"admittedPerMinute"`
	DeniedPerMinute    float64 `json:"deniedPerMinute"`
	WouldDenyPerMinute float64 `json:"wouldDenyPerMinute"`
	// Admitted, Denied and WouldDeny requests as far as this node has heard.
	Admitted  uint64 `json:"admitted"`
	Denied    uint64 `json:"denied"`
	WouldDeny uint64 `json:"wouldDeny"`
}

// RegionLimitUsage is what the routers of one region say of a limit.
type RegionLimitUsage struct {
	Region fleet.RegionID `json:"region"`
	// Share of the limit, 0..1, that holds there while it is cut off from the quota store.
	Share float64 `json:"share"`
	LimitTally
}

// usage answers how the limits stand that a tenant's requests pass, as this node knows it.
func (s *Server) usage(c echo.Context) error {
	n := s.standing(s.localView(c))
	name := nameOf(c)
	tenant, ok := n.view.Get(policy.KindTenant, name)
	if !ok || !identity(c).Scope.Sees(tenant) {
		return notFound(policy.KindTenant, name)
	}
	table := n.view.Table()
	owner := owners(table).of(name)
	var quotas []*routerpb.Quota
	for _, q := range table.GetQuotas() {
		if organisationOf(q) == owner && (q.GetTenant() == "" || q.GetTenant() == name) {
			quotas = append(quotas, q)
		}
	}
	slices.SortStableFunc(quotas, func(a, b *routerpb.Quota) int {
		return cmp.Or(cmp.Compare(depth(a), depth(b)), cmp.Compare(a.GetId(), b.GetId()))
	})
	out := Usage{
		Tenant: name, Organization: owner, At: n.signals.At.UTC(), TableRevision: table.GetRef().GetRevision(), Limits: n.limitsOf(quotas),
	}
	for _, o := range table.GetOrganisations() {
		if o.GetId() == owner {
			out.Home = o.GetHome()
		}
	}
	return c.JSON(http.StatusOK, out)
}

// depth is where a limit stands on the paths of requests: the organisation's, a tenant's, a model's, a key's.
func depth(q *routerpb.Quota) int {
	switch {
	case len(q.GetKeySha256()) > 0:
		return 3
	case q.GetModel() != "":
		return 2
	case q.GetTenant() != "":
		return 1
	}
	return 0
}

// ownership is the organisation of each tenant of a table that has one.
type ownership map[string]string

func owners(t *routerpb.Table) ownership {
	out := ownership{}
	for _, x := range t.GetTenants() {
		if o := x.GetOrganisation(); o != "" {
			out[x.GetId()] = o
		}
	}
	return out
}

// of gives a tenant's organisation, which is the tenant itself where nothing says another.
func (o ownership) of(tenant string) string { return cmp.Or(o[tenant], tenant) }

// usages lists limits by id and how they stand, perhaps only some of them.
func (s *Server) usages(c echo.Context) error {
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	for _, name := range []string{"tenant", "organization", "quota"} {
		if value := c.QueryParam(name); value != "" {
			if err := fleet.CheckName(value); err != nil {
				return newProblem(codeInvalidRequest, fmt.Sprintf("%s %s.", name, err))
			}
		}
	}
	regions, err := flagOr(c, "regions", true)
	if err != nil {
		return err
	}
	from, err := sameList(c, "tenant", "organization", "quota")
	if err != nil {
		return err
	}
	n := s.standing(s.localView(c))
	table := n.view.Table()
	wanted := limitFilter{c.QueryParam("tenant"), c.QueryParam("organization"), c.QueryParam("quota")}.of(owners(table), identity(c).Scope)
	all := slices.SortedFunc(slices.Values(table.GetQuotas()), func(a, b *routerpb.Quota) int { return cmp.Compare(a.GetId(), b.GetId()) })
	items, next := order[*routerpb.Quota]{name: (*routerpb.Quota).GetId}.page(all, from, limit, wanted)
	out := List[LimitUsage]{Items: n.limitsOf(items), NextCursor: next}
	for i := range out.Items {
		if !regions { // of 500 limits in 200 regions they are nine tenths of the answer
			out.Items[i].Regions = []RegionLimitUsage{}
		}
	}
	return c.JSON(http.StatusOK, out)
}

// limitFilter is which limits are wanted; empty: whatever.
type limitFilter struct{ tenant, organisation, quota string }

// of gives the filter for a scope, and shows of what belongs to tenants what the scope does: limits of an
// organisation to those who may see one of its tenants, whose requests they hold.
func (f limitFilter) of(owner ownership, scope access.Scope) func(*routerpb.Quota) bool {
	tenant, organisation, quota := f.tenant, f.organisation, f.quota
	return func(q *routerpb.Quota) bool {
		switch {
		case q.GetTenant() != "" && !scope.Seen(q.GetTenant()):
			return false
		case q.GetTenant() == "" && len(scope.Tenants) > 0 &&
			!slices.ContainsFunc(scope.Tenants, func(t string) bool { return owner.of(t) == organisationOf(q) }):
			return false
		case tenant != "" && !scope.Seen(tenant): // whose organization is not told either
			return false
		case quota != "" && quotaOf(q.GetId()) != quota, organisation != "" && organisationOf(q) != organisation:
			return false
		case tenant == "":
			return true
		}
		return q.GetTenant() == tenant || q.GetTenant() == "" && owner.of(tenant) == organisationOf(q)
	}
}
