package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	orders "anabranch/api/order"
	"anabranch/api/routerpb"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
)

// ExplainedNow is what would become of a request that was answered some time ago, beside what became of it.
type ExplainedNow struct {
	Request string         `json:"request"`
	Model   fleet.ModelID  `json:"model"`
	Class   fleet.ClassID  `json:"class"`
	Tenant  fleet.TenantID `json:"tenant"`
	Source  fleet.RegionID `json:"source"`
	// Then is when it was decided, Cluster and Region where it ended, empty: nowhere; TableRevision the table that it
	// was decided by.
	Then DecidedThen `json:"then"`
	// At is now, TableRevision the table in force, Changed whether it is another than then.
	At            time.Time `json:"at"`
	TableRevision uint64    `json:"tableRevision"`
	Changed       bool      `json:"changed"`
	// Summary says in a sentence where such requests go now, and Standing how the shares in force stand to those that
	// are wanted; empty where this node does not plan, or nothing of the kind is asked for.
	Summary  string        `json:"summary"`
	Standing plan.Standing `json:"standing"`
	// Places are those that serve the model, and those that were thought of then; the likeliest first.
	Places []PlaceNow `json:"places"`
}

// DecidedThen is what was decided of a request.
type DecidedThen struct {
	At            time.Time       `json:"at"`
	TableEpoch    uint64          `json:"tableEpoch"`
	TableRevision uint64          `json:"tableRevision"`
	Cluster       fleet.ClusterID `json:"cluster"`
	Region        fleet.RegionID  `json:"region"`
	Status        int             `json:"status"`
}

// PlaceNow is a cluster, as it was thought of then and as it is now.
type PlaceNow struct {
	Cluster fleet.ClusterID `json:"cluster"`
	Region  fleet.RegionID  `json:"region"`
	// Then is nil where it was not thought of, as one that did not serve the model.
	Then *PlaceThen `json:"then"`
	// Chance, 0..1, that such a request goes there: its weight among those that may be used. A conversation stays where
	// its prefix is, so that one request may go another way than most.
	Chance float64 `json:"chance"`
	// WhyNot says why it is not used, or not more than that.
	WhyNot string `json:"whyNot"`
	// Excluded are rules and circumstances by which it may not be used now; none: it may.
	Excluded []string `json:"excluded"`
	// Weight is its share in the table in force, Wanted in the next solution; and why.
	Weight float64 `json:"weight"`
	Wanted float64 `json:"wanted"`
	Reason string  `json:"reason"`
	// Constraints that bind its share, and what a unit of work costs there; nil: it is not planned.
	Constraints []plan.Constraint   `json:"constraints"`
	Cost        *plan.ExplainedCost `json:"cost"`
	// Health of the model there, and the load of the cluster.
	Health     string    `json:"health"`
	Since      time.Time `json:"since,omitzero"`
	Cap        float64   `json:"cap"`
	Freshness  string    `json:"freshness"`
	AgeMs      int64     `json:"ageMs"` // of its signals; -1: never heard of
	Saturation float64   `json:"saturation"`
	TTFTP95Ms  float64   `json:"ttftP95Ms"`

	standby bool // the table has it for when nothing else is left
	last    bool // it is used though it has no weight
}

// PlaceThen is what a router thought of a cluster then.
type PlaceThen struct {
	// Tried: it was sent there.
	Tried  bool    `json:"tried"`
	Weight float64 `json:"weight"`
	Reason string  `json:"reason"`
	// Removed says why it was left out; empty: it was a candidate.
	Removed string `json:"removed"`
}

// pastRecord is what of a router's record is compared with now.
type pastRecord struct {
	ID         string         `json:"id"`
	At         time.Time      `json:"at"`
	Region     fleet.RegionID `json:"region"`
	Tenant     fleet.TenantID `json:"tenant"`
	Model      fleet.ModelID  `json:"model"`
	Class      fleet.ClassID  `json:"class"`
	Policy     string         `json:"policy"`
	Epoch      uint64         `json:"epoch"`
	Revision   uint64         `json:"revision"`
	Status     int            `json:"status"`
	Candidates []struct {
		Cluster fleet.ClusterID `json:"cluster"`
		Region  fleet.RegionID  `json:"region"`
		Weight  float64         `json:"weight"`
		Reason  string          `json:"reason"`
	} `json:"candidates"`
	Removed []struct {
		Cluster fleet.ClusterID `json:"cluster"`
		Reason  string          `json:"reason"`
	} `json:"removed"`
	Attempts []struct {
		Cluster fleet.ClusterID `json:"cluster"`
		Region  fleet.RegionID  `json:"region"`
	} `json:"attempts"`
}

// explainNow compares what became of a request with what would become of it now.
func (s *Server) explainNow(c echo.Context) error {
	region := fleet.RegionID(c.QueryParam("region"))
	if region != "" {
		if err := fleet.CheckName(string(region)); err != nil {
			return newProblem(codeInvalidRequest, fmt.Sprintf("region %s.", err))
		}
	}
	e, err := s.recorded(c)
	if err != nil {
		return err
	}
	var r pastRecord
	if err := json.Unmarshal(e.Record, &r); err != nil {
		return fmt.Errorf("record of router %s: %w", e.Router, err)
	}
	view := s.localView(c)
	if _, known := view.Get(policy.KindRegion, string(region)); region != "" && !known {
		return newProblem(codeInvalidRequest, fmt.Sprintf("There is no region %.64q.", region))
	}
	n := s.standing(view)
	planned, err := s.plannedFor(c.Request().Context(), view, r)
	if err != nil {
		return err
	}
	out := n.now(r, planned)
	if region != "" {
		out.Places = slices.DeleteFunc(out.Places, func(p PlaceNow) bool { return p.Region != region })
	}
	return c.JSON(http.StatusOK, out)
}

// plannedFor is the plan for traffic such as a request; without demands where there is none, or this node plans none.
func (s *Server) plannedFor(ctx context.Context, view *state.View, r pastRecord) (plan.Explanation, error) {
	if s.o.Planned == nil || r.Model == "" {
		return plan.Explanation{}, nil
	}
	in, done, err := s.planning(ctx, view)
	if err != nil {
		return plan.Explanation{}, err
	}
	defer done()
	out, err := plan.Explain(in, plan.Ask{Model: r.Model, Class: r.Class, Source: r.Region})
	if err != nil && !errors.Is(err, plan.ErrNoDemand) {
		return out, err
	}
	return out, nil
}

// now puts the answer together.
func (n standing) now(r pastRecord, planned plan.Explanation) ExplainedNow {
	table := n.view.Table()
	out := ExplainedNow{
		Request: r.ID, Model: r.Model, Class: r.Class, Tenant: r.Tenant, Source: r.Region,
		Then: DecidedThen{At: r.At, TableEpoch: r.Epoch, TableRevision: r.Revision, Status: r.Status},
		At:   n.signals.At.UTC(), TableRevision: table.GetRef().GetRevision(), Places: []PlaceNow{},
	}
	out.Changed = r.Revision != out.TableRevision || r.Epoch != table.GetRef().GetEpoch()
	if last := len(r.Attempts) - 1; last >= 0 && r.Status < http.StatusBadRequest {
		out.Then.Cluster, out.Then.Region = r.Attempts[last].Cluster, r.Attempts[last].Region
	}
	routes := map[fleet.ClusterID]plan.ExplainedRoute{}
	if len(planned.Demands) > 0 {
		d := planned.Demands[0]
		out.Summary, out.Standing = d.Summary, d.Standing
		for _, route := range d.Clusters {
			routes[route.Cluster] = route
		}
	}
	then := r.places()
	total := 0.0
	for _, c := range n.view.List(policy.KindCluster) {
		id := fleet.ClusterID(c.Metadata.Name)
		if !slices.Contains(c.Spec.(*policy.ClusterSpec).Models, string(r.Model)) && then[id] == nil {
			continue
		}
		p := n.place(c, r)
		p.Then = then[id]
		if route, known := routes[id]; known {
			p.Wanted, p.Constraints, p.Cost = route.Wanted, route.Constraints, &route.Cost
			p.Reason = cmp.Or(p.Reason, route.Reason)
		}
		if len(p.Excluded) == 0 {
			total += p.Weight
		}
		out.Places = append(out.Places, p)
	}
	if total == 0 {
		fallBack(out.Places)
	}
	for i := range out.Places {
		p := &out.Places[i]
		if len(p.Excluded) == 0 && total > 0 {
			p.Chance = p.Weight / total
		}
		p.WhyNot = p.whyNot()
	}
	slices.SortStableFunc(out.Places, func(a, b PlaceNow) int { return cmp.Compare(b.Chance, a.Chance) })
	return out
}

// fallBack shares requests out where no place that may be used has a weight, as routers do: by what the health of each
// allows, and of those on standby only if there is nothing else.
func fallBack(places []PlaceNow) {
	for _, standby := range []bool{false, true} {
		sum := 0.0
		for i := range places {
			if p := &places[i]; len(p.Excluded) == 0 && p.standby == standby {
				sum += p.Cap
			}
		}
		for i := range places {
			if p := &places[i]; sum > 0 && len(p.Excluded) == 0 && p.standby == standby {
				p.Chance, p.last = p.Cap/sum, true
			}
		}
		if sum > 0 {
			return
		}
	}
}

// places are what the router thought of clusters.
func (r pastRecord) places() map[fleet.ClusterID]*PlaceThen {
	out := map[fleet.ClusterID]*PlaceThen{}
	at := func(id fleet.ClusterID) *PlaceThen {
		if out[id] == nil {
			out[id] = &PlaceThen{}
		}
		return out[id]
	}
	for _, c := range r.Candidates {
		at(c.Cluster).Weight, at(c.Cluster).Reason = c.Weight, c.Reason
	}
	for _, x := range r.Removed {
		at(x.Cluster).Removed = x.Reason
	}
	for _, a := range r.Attempts {
		at(a.Cluster).Tried = true
	}
	return out
}

// place is a cluster as it is now, for requests such as one.
func (n standing) place(c *policy.Resource, r pastRecord) PlaceNow {
	spec, id := c.Spec.(*policy.ClusterSpec), fleet.ClusterID(c.Metadata.Name)
	load := n.signals.Cluster(id, r.Model)
	p := PlaceNow{
		Cluster: id, Region: fleet.RegionID(spec.Region), Constraints: []plan.Constraint{}, Health: unknownHealth,
		Cap: plan.HealthCap(n.described(c.Metadata.Name), r.Model), Freshness: string(load.Freshness), AgeMs: ms(load.Age),
		Saturation: rough(load.Saturation), TTFTP95Ms: rough(load.TTFTP95Ms),
	}
	if h, known := n.view.HealthOf(c.Metadata.Name, string(r.Model)); known {
		p.Health, p.Since = h.GetState(), sinceOf(h)
	}
	for _, w := range n.view.Table().GetWeights() {
		if w.GetModel() != string(r.Model) || w.GetClass() != string(r.Class) || w.GetSource() != string(r.Region) {
			continue
		}
		for _, x := range w.GetClusters() {
			if x.GetCluster() == c.Metadata.Name {
				p.Weight, p.Reason, p.standby = x.GetWeight(), x.GetReason(), x.GetStandby()
			}
		}
	}
	p.Excluded = n.excluded(c, spec, r)
	return p
}

// excluded are the rules and circumstances by which a cluster may not be used for requests such as one, as far as the
// control plane knows them: what a router finds out by itself it tells of each request.
func (n standing) excluded(c *policy.Resource, spec *policy.ClusterSpec, r pastRecord) []string {
	out := []string{}
	add := func(is bool, format string, args ...any) {
		if is {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	table := n.view.Table()
	zone := ""
	if home, ok := n.view.Get(policy.KindRegion, spec.Region); ok {
		zone = home.Spec.(*policy.RegionSpec).Zone
	}
	lives := func(in []string) bool {
		return len(in) == 0 || slices.Contains(in, spec.Region) || zone != "" && slices.Contains(in, zone)
	}
	add(!slices.Contains(spec.Models, string(r.Model)), "it does not serve %s", r.Model)
	for _, t := range table.GetTenants() {
		add(t.GetId() == string(r.Tenant) && !lives(t.GetResidency()), "residency: requests of %s stay in %s", r.Tenant, strings.Join(t.GetResidency(), ", "))
	}
	if rule := ruleOf(table, r.Policy); rule != nil {
		add(!lives(rule.GetResidency()), "residency: policy %s keeps its requests in %s", r.Policy, strings.Join(rule.GetResidency(), ", "))
		add(len(rule.GetClusters()) > 0 && !slices.Contains(rule.GetClusters(), c.Metadata.Name), "policy %s pins its requests to %s", r.Policy, strings.Join(rule.GetClusters(), ", "))
	}
	id, home := fleet.ClusterID(c.Metadata.Name), fleet.RegionID(spec.Region)
	add(spec.Drained && !n.orders.Restored(id, home), "it is drained")
	if order := n.orders.Of(id, home); order != nil {
		add(order.Kind == orders.Evacuate, "emergency order: %s", n.emergency(id, home))
	}
	described := n.described(c.Metadata.Name)
	add(described == nil, "no table names it yet")
	add(described != nil && plan.HealthCap(described, r.Model) <= 0, "its health allows it nothing")
	return out
}

func ruleOf(table *routerpb.Table, id string) *routerpb.Rule {
	for _, rule := range table.GetRules() {
		if id != "" && rule.GetId() == id {
			return rule
		}
	}
	return nil
}

// whyNot is the sentence for one place.
func (p PlaceNow) whyNot() string {
	switch {
	case len(p.Excluded) > 0:
		return "It may not be used: " + strings.Join(p.Excluded, "; ") + "."
	case p.last:
		return fmt.Sprintf("It has no weight, and gets %.0f %% of such requests all the same: nothing that has any may be used.", 100*p.Chance)
	case p.Chance >= 0.995:
		return ""
	case p.Chance > 0:
		return fmt.Sprintf("It gets %.0f %% of such requests; which of them, their prefix or session decides.", 100*p.Chance)
	}
	var why []string
	for _, c := range p.Constraints {
		why = append(why, c.Text)
	}
	switch {
	case len(why) > 0:
		return "It has no weight: " + strings.Join(why, "; ") + "."
	case p.Cost != nil && p.Cost.AboveLevelMs > 0:
		return fmt.Sprintf("It has no weight: a unit of work costs %.0f ms more there than where it goes (%.0f ms of distance, %.0f of money, %.0f of congestion).",
			p.Cost.AboveLevelMs, p.Cost.DistanceMs, p.Cost.MoneyMs, p.Cost.CongestionMs)
	}
	return "It has no weight: " + cmp.Or(p.Reason, "the table in force sends such requests elsewhere") + "."
}
