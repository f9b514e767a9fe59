package rest

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/controlplane/account"
	"anabranch/controlplane/episode"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/costmodel"
)

// CostEvents is what drills, failovers, drains and evacuations of a time cost.
type CostEvents struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Items are the newest first. More: there are others.
	Items []CostEvent `json:"items"`
	More  bool        `json:"more"`
}

// CostEvent is what keeping traffic away from clusters cost on top. All amounts are estimates: usage during it is
// compared with what the same usage cost before.
type CostEvent struct {
	// Kind is drill, failover, drain or order.
	Kind string `json:"kind"`
	// ID of the drill or the order, Plan of the drill; absent: it has none.
	ID       string            `json:"id,omitempty"`
	Plan     string            `json:"plan,omitempty"`
	Region   string            `json:"region"`
	Clusters []fleet.ClusterID `json:"clusters"`
	Reason   string            `json:"reason"`
	// From and Until are of the event; Until is absent as long as it goes on.
	From  time.Time `json:"from"`
	Until time.Time `json:"until,omitzero"`
	// Unknown says why its cost can't be told; absent: it can, and Extra tells it.
	Unknown string     `json:"unknown,omitempty"`
	Extra   *CostExtra `json:"extra,omitempty"`
}

// CostExtra is what usage cost on top of what the same usage would have cost as it was before; below 0: it was cheaper.
type CostExtra struct {
	// BeforeFrom, From and Until are the times that are compared, in steps of a minute or, as older minutes are not kept, of an
	// hour: then usage around the event is in it, too.
	BeforeFrom time.Time `json:"beforeFrom"`
	From       time.Time `json:"from"`
	Until      time.Time `json:"until"`
	Step       string    `json:"step"`
	// TotalUSD is WorkUSD (GPUs that are paid by the hour anyway: out of idle time), TokensUSD (providers who ask by token) and
	// EgressUSD together. PaidUSD is the latter two: what somebody sends a bill for.
	TotalUSD  string `json:"totalUSD"`
	PaidUSD   string `json:"paidUSD"`
	WorkUSD   string `json:"workUSD"`
	TokensUSD string `json:"tokensUSD"`
	EgressUSD string `json:"egressUSD"`
	// UncomparedUSD was spent on usage like none before: it is no part of the others.
	UncomparedUSD string `json:"uncomparedUSD"`
	// Moved is the share of the usage that is compared that was served elsewhere than before, 0 to 1.
	Moved float64 `json:"moved"`
	// Answers that succeeded among that usage.
	Answers int64 `json:"answers"`
	// Estimate: a price behind it is one too. Unpriced: a price is not known, and the amounts are too low.
	Estimate bool `json:"estimate"`
	Unpriced bool `json:"unpriced"`
	// Tenants that bear most of it, the largest amount first, whether it is more or less than before.
	Tenants []TenantExtra `json:"tenants"`
}

// TenantExtra is what one tenant's usage cost on top.
type TenantExtra struct {
	Tenant   string `json:"tenant"`
	TotalUSD string `json:"totalUSD"`
}

// Bounds of an answer: each event reads the account twice.
const (
	defaultCostEvents = 20
	maxCostEvents     = 50
	mostTenants       = 10
	// DefaultEventsSince is how far back it goes if nothing is said.
	defaultEventsSince = 7 * 24 * time.Hour
)

// costEvents answers what events of a time cost.
func (s *Server) costEvents(c echo.Context) error {
	var q costQuery
	if err := q.readTimeOr(c, s.o.Now(), defaultEventsSince); err != nil {
		return err
	}
	limit, err := intOf(c, "limit", 1, maxCostEvents, defaultCostEvents)
	if err != nil {
		return err
	}
	view, err := s.view(c)
	if err != nil {
		return err
	}
	at := sitesOf(view)
	events := episode.Find(episode.Input{
		Trail: view.Audit(0, 0), Drills: view.Drills(), Orders: view.OrdersGiven(), Region: at.region, Now: s.o.Now(),
	}, q.From, q.Until)
	out := CostEvents{From: q.From.UTC(), Until: q.Until.UTC(), Items: []CostEvent{}, More: len(events) > limit}
	leave, err := s.reckoning.take(c.Request().Context()) // a long time takes long to unpack
	if err != nil {
		return err
	}
	defer leave()
	for _, e := range events[:min(limit, len(events))] {
		if err := c.Request().Context().Err(); err != nil {
			return err
		}
		one, err := eventCost(view.Account(), e, at)
		if err != nil {
			return fmt.Errorf("cost of the %s of %s: %w", e.Kind, e.From, err)
		}
		out.Items = append(out.Items, one)
	}
	return c.JSON(http.StatusOK, out)
}

// sites tells where clusters stand and which are providers.
type sites map[fleet.ClusterID]*policy.ClusterSpec

func sitesOf(v *state.View) sites {
	out := sites{}
	for _, r := range v.List(policy.KindCluster) {
		if spec, ok := r.Spec.(*policy.ClusterSpec); ok {
			out[fleet.ClusterID(r.Metadata.Name)] = spec
		}
	}
	return out
}

func (p sites) region(c fleet.ClusterID) fleet.RegionID {
	if spec := p[c]; spec != nil {
		return fleet.RegionID(spec.Region)
	}
	return ""
}

func (p sites) byToken(c fleet.ClusterID) bool {
	return p[c] != nil && p[c].Type == policy.TypeProvider
}

// eventCost compares the account during an event with what it says of the time before.
func eventCost(a account.Account, e episode.Episode, p sites) (CostEvent, error) {
	out := CostEvent{
		Kind: string(e.Kind), ID: e.ID, Plan: e.Name, Region: string(e.Region), Clusters: append([]fleet.ClusterID{}, e.Clusters...), Reason: e.Reason, From: e.From, Until: e.Until,
	}
	w, why := e.Window(a.Begun(), a.Closed())
	if out.Unknown = why; why != "" {
		return out, nil
	}
	before, err := rollup(a, w.BeforeFrom, w.From)
	if err != nil {
		return out, err
	}
	during, err := rollup(a, w.From, w.Until)
	if err != nil {
		return out, err
	}
	left := func(c fleet.ClusterID) bool {
		return slices.Contains(e.Clusters, c) || len(e.Clusters) == 0 && p.region(c) == e.Region
	}
	out.Extra = extraOf(w, costmodel.Compare(before, during, left, p.byToken))
	return out, nil
}

// rollup is all that the account knows of a time.
func rollup(a account.Account, from, until time.Time) (costmodel.Rollup, error) {
	const all = costmodel.ByTenant | costmodel.ByModel | costmodel.ByClass | costmodel.ByCluster | costmodel.ByRegion | costmodel.BySource
	report, err := a.Ask(account.Query{From: from, Until: until, By: all})
	if err != nil {
		return nil, err
	}
	out := costmodel.Rollup{}
	for _, r := range report.Rows {
		out.Add(r.Key, r.Sum)
	}
	return out, nil
}

func extraOf(w episode.Window, by map[costmodel.Key]costmodel.Extra) *CostExtra {
	var total costmodel.Extra
	tenants := map[fleet.TenantID]costmodel.Micros{}
	for k, e := range by {
		total = total.Plus(e)
		tenants[k.Tenant] += e.Total()
	}
	out := &CostExtra{
		BeforeFrom: w.BeforeFrom.UTC(), From: w.From.UTC(), Until: w.Until.UTC(), Step: account.ByMinute.String(),
		TotalUSD: dollars(total.Total()), PaidUSD: dollars(total.Paid()), WorkUSD: dollars(total.Work), TokensUSD: dollars(total.Tokens), EgressUSD: dollars(total.Egress),
		UncomparedUSD: dollars(total.Uncompared), Answers: total.Answers, Estimate: total.Estimate, Unpriced: total.Unpriced, Tenants: []TenantExtra{},
	}
	if w.Hours {
		out.Step = account.ByHour.String()
	}
	if total.Units > 0 {
		out.Moved = min(math.Round(total.Moved/total.Units*1e4)/1e4, 1)
	}
	var names []fleet.TenantID
	for t, m := range tenants {
		if m != 0 {
			names = append(names, t)
		}
	}
	slices.SortFunc(names, func(x, y fleet.TenantID) int {
		return cmp.Or(cmp.Compare(max(tenants[y], -tenants[y]), max(tenants[x], -tenants[x])), cmp.Compare(x, y))
	})
	for _, t := range names[:min(mostTenants, len(names))] {
		out.Tenants = append(out.Tenants, TenantExtra{string(t), dollars(tenants[t])})
	}
	return out
}
