package rest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/state"
)

const (
	// mostUsage bounds the limits that a stream tells of: the most used.
	mostUsage = 500
	// mostUsageTenants bounds the tenants that a stream may be narrowed to, and the limits it may look at closely.
	mostUsageTenants = 16
	// mostLimitID is as long as the id of a limit may be, in bytes: a name, a kind, and what marks a shadow.
	mostLimitID = 200
)

// LiveUsage is how limits stand, by their ids.
type LiveUsage struct {
	At     time.Time            `json:"at"`
	Limits map[string]LiveLimit `json:"limits"`
	// Left is how many limits are not told of, as they are used less than all of these.
	Left int `json:"left"`
}

// LiveLimit is [LimitUsage] as a stream tells it: what is null there is absent, and regions are told to those who
// name tenants or the limit.
type LiveLimit struct {
	LimitUsage
	Use       float64            `json:"use"`
	Remaining *RemainingEstimate `json:"remaining,omitempty"`
	Budget    *BudgetUsage       `json:"budget,omitempty"`
	Regions   []RegionLimitUsage `json:"regions,omitempty"`
}

// usageFeed is how all limits stand, which streams share. The zero value has nothing.
type usageFeed struct {
	mu     sync.Mutex // guards what is below
	at     time.Time
	quotas []*routerpb.Quota
	limits []LimitUsage // of quotas
	owner  ownership
}

// look gives how limits stand, looked at once in an interval of the fleet.
func (f *usageFeed) look(s *Server) (limits []LimitUsage, quotas []*routerpb.Quota, owner ownership, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := s.o.Now()
	if f.owner == nil || now.Sub(f.at) >= s.o.FleetInterval/2 || now.Before(f.at) {
		n := s.standing(s.o.View())
		table := n.view.Table()
		f.at, f.quotas, f.owner = now, table.GetQuotas(), owners(table)
		f.limits = n.limitsOf(f.quotas)
	}
	return f.limits, f.quotas, f.owner, f.at
}

// tenantsOf reads the tenants that a stream is narrowed to.
func tenantsOf(c echo.Context) ([]string, error) {
	all := c.QueryParams()["tenant"]
	if len(all) > mostUsageTenants {
		return nil, newProblem(codeInvalidRequest, fmt.Sprintf("tenant is given %d times, the limit is %d.", len(all), mostUsageTenants))
	}
	for _, t := range all {
		if err := fleet.CheckName(t); err != nil {
			return nil, newProblem(codeInvalidRequest, fmt.Sprintf("tenant %s.", err))
		}
	}
	return all, nil
}

// closelyOf reads the limits that are looked at closely.
func closelyOf(c echo.Context) ([]string, error) {
	all := c.QueryParams()["usageOf"]
	if len(all) > mostUsageTenants {
		return nil, newProblem(codeInvalidRequest, fmt.Sprintf("usageOf is given %d times, the limit is %d.", len(all), mostUsageTenants))
	}
	for _, id := range all {
		if id == "" || len(id) > mostLimitID {
			return nil, newProblem(codeInvalidRequest, fmt.Sprintf("usageOf is %.40q; give the id of a limit, as /v1/usage does.", id))
		}
	}
	return all, nil
}

// usageTopic tells how the limits stand that the caller may see.
type usageTopic struct {
	*eventStream
	tenants []string
	closely []string // ids of limits
	before  *LiveUsage
}

func beginUsage(e *eventStream, _, _ string) (topic, bool) {
	tenants, _ := tenantsOf(e.c) // was judged, as is the next
	closely, _ := closelyOf(e.c)
	return &usageTopic{eventStream: e, tenants: tenants, closely: closely}, true
}

func (t *usageTopic) place() string { return "" }

func (t *usageTopic) tell(*state.View) error {
	now := t.look()
	before := t.before
	t.before = now
	if before == nil {
		return t.say("usage", now)
	}
	at := now.At
	now.At = before.At
	patch, err := mergePatch(*before, *now)
	now.At = at
	if err != nil || patch == nil {
		return err
	}
	head, err := json.Marshal(at)
	if err != nil {
		return fmt.Errorf("watch usage: %w", err)
	}
	return t.send("usage.delta", slices.Concat([]byte(`{"at":`), head, []byte{','}, patch[1:]))
}

// look picks the limits that are told of: those that are looked at closely and the most used, of what the caller may
// see and asks for.
func (t *usageTopic) look() *LiveUsage {
	limits, quotas, owner, at := t.limits.look(t.Server)
	filters := t.filters(owner)
	var fit []int
	for i, q := range quotas {
		if slices.ContainsFunc(filters, func(fits func(*routerpb.Quota) bool) bool { return fits(q) }) {
			fit = append(fit, i)
		}
	}
	slices.SortStableFunc(fit, func(a, b int) int { return cmp.Compare(limits[b].Use, limits[a].Use) })
	near := func(i int) bool { return slices.Contains(t.closely, limits[i].ID) }
	if len(t.closely) > 0 {
		slices.SortStableFunc(fit, func(a, b int) int { return cmp.Compare(first(near(b)), first(near(a))) })
	}
	out := &LiveUsage{At: at.UTC(), Limits: map[string]LiveLimit{}}
	for n, i := range fit {
		if n == mostUsage {
			out.Left = len(fit) - n
			break
		}
		out.Limits[limits[i].ID] = liveLimit(limits[i], len(t.tenants) > 0 || near(i))
	}
	return out
}

// filters say which limits are wanted, by tenant.
func (t *usageTopic) filters(owner ownership) []func(*routerpb.Quota) bool {
	scope := identity(t.c).Scope
	if len(t.tenants) == 0 {
		return []func(*routerpb.Quota) bool{limitFilter{}.of(owner, scope)}
	}
	var all []func(*routerpb.Quota) bool
	for _, tenant := range t.tenants {
		all = append(all, limitFilter{tenant: tenant}.of(owner, scope))
	}
	return all
}

func first(is bool) int {
	if is {
		return 1
	}
	return 0
}

func liveLimit(u LimitUsage, regions bool) LiveLimit {
	out := LiveLimit{LimitUsage: u, Use: rough(u.Use), Budget: u.Budget}
	if regions {
		out.Regions = u.Regions
	}
	for _, rate := range []*float64{&out.UsedPerMinute, &out.AdmittedPerMinute, &out.DeniedPerMinute, &out.WouldDenyPerMinute} {
		*rate = rough(*rate)
	}
	if u.Remaining != nil {
		r := *u.Remaining
		r.AgeMs = r.AgeMs / 5000 * 5000 // an age alone is no news
		out.Remaining = &r
	}
	return out
}
