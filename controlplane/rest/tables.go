package rest

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/access"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/signal"
)

// largestMoves is how many moves of a table's weights its entry in the list tells.
const largestMoves = 3

// TableVersion is one of the routing tables kept.
type TableVersion struct {
	Epoch     uint64    `json:"epoch"`
	Revision  uint64    `json:"revision"`
	CreatedAt time.Time `json:"createdAt"`
	// Change is what it did differently from the one before; nil: that one is not kept.
	Change *TableChange `json:"change"`
}

// TableChange sums up how a table differs from the one before.
type TableChange struct {
	Since uint64 `json:"since"` // revision of the one before
	// Weights is for how many demands (of a model, class and region) weights differ.
	Weights int `json:"weights"`
	// Largest are the largest moves of one cluster's share, at most three, largest first.
	Largest []WeightMove `json:"largest"`
	// Lists are those that differ.
	Lists []ListCount `json:"lists"`
}

// WeightMove is a cluster's share of one demand in two tables, 0..1.
type WeightMove struct {
	Model   fleet.ModelID   `json:"model"`
	Class   fleet.ClassID   `json:"class"`
	Source  fleet.RegionID  `json:"source"`
	Cluster fleet.ClusterID `json:"cluster"`
	From    float64         `json:"from"`
	To      float64         `json:"to"`
}

// ListCount is how many entries of a list of tables differ.
type ListCount struct {
	List      string `json:"list"`
	Added     int    `json:"added"`
	Removed   int    `json:"removed"`
	Changed   int    `json:"changed"`
	Reordered bool   `json:"reordered"`
}

// TableDiff is how two routing tables differ.
type TableDiff struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	// Weights are of the demands whose weights differ; traffic of then is not known.
	Weights []plan.Move `json:"weights"`
	// Lists are the others that differ.
	Lists []plan.ListChange `json:"lists"`
}

// tables lists the routing tables kept, newest first.
func (s *Server) tables(c echo.Context) error {
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	from, err := cursorOf(c)
	if err != nil {
		return err
	}
	view, err := s.view(c)
	if err != nil {
		return err
	}
	kept, scope := view.Tables(), identity(c).Scope
	page := List[TableVersion]{Items: []TableVersion{}}
	for i := len(kept) - 1; i >= 0; i-- {
		ref := kept[i].GetRef()
		if from.Before != 0 && ref.GetRevision() >= from.Before {
			continue
		}
		if len(page.Items) == limit {
			page.NextCursor = cursor{Before: page.Items[limit-1].Revision}.String()
			break
		}
		v := TableVersion{Epoch: ref.GetEpoch(), Revision: ref.GetRevision(), CreatedAt: time.UnixMilli(kept[i].GetCreatedUnixMs()).UTC()}
		if i > 0 {
			v.Change = s.changes.between(kept[i-1], kept[i], scope)
		}
		page.Items = append(page.Items, v)
	}
	s.changes.forget(kept)
	return c.JSON(http.StatusOK, page)
}

// oldTable answers one of the tables kept, as [Server.table] does the current one.
func (s *Server) oldTable(c echo.Context) error {
	kept, at, err := s.keptTable(c)
	if err != nil {
		return err
	}
	return answerTable(c, kept[at])
}

// tableDiff compares a table with another one, or with the one before.
func (s *Server) tableDiff(c echo.Context) error {
	kept, at, err := s.keptTable(c)
	if err != nil {
		return err
	}
	with := at - 1
	if text := c.QueryParam("from"); text != "" {
		if with, err = tableOf(kept, "from", text); err != nil {
			return err
		}
	}
	if with < 0 {
		return newProblem(codeNotFound, fmt.Sprintf("Revision %d is the oldest table that is kept.", kept[at].GetRef().GetRevision()))
	}
	scope := identity(c).Scope
	a, b := inScope(kept[with], scope), inScope(kept[at], scope)
	return c.JSON(http.StatusOK, TableDiff{
		From: a.GetRef().GetRevision(), To: b.GetRef().GetRevision(),
		Weights: plan.Moves(a, b, signal.Snapshot{}), Lists: plan.Lists(a, b),
	})
}

// keptTable finds the table that the path names among those kept.
func (s *Server) keptTable(c echo.Context) ([]*routerpb.Table, int, error) {
	view, err := s.view(c)
	if err != nil {
		return nil, 0, err
	}
	at, err := tableOf(view.Tables(), "revision", c.Param("revision"))
	return view.Tables(), at, err
}

func tableOf(kept []*routerpb.Table, parameter, text string) (int, error) {
	revision, err := revisionOf(parameter, text)
	if err != nil {
		return 0, err
	}
	at := slices.IndexFunc(kept, func(t *routerpb.Table) bool { return t.GetRef().GetRevision() == revision })
	if at < 0 {
		return 0, newProblem(codeNotFound, fmt.Sprintf("There is no table of revision %d, or it is not kept any more; GET /v1/tables lists those that are.", revision))
	}
	return at, nil
}

// answerTable answers a table as routers get it, without the hashes of API keys.
func answerTable(c echo.Context, t *routerpb.Table) error {
	t = inScope(proto.CloneOf(t), identity(c).Scope)
	for _, tenant := range t.GetTenants() {
		tenant.KeySha256, tenant.ExpiringKeys = nil, nil
	}
	for _, q := range t.GetQuotas() {
		q.KeySha256 = nil
	}
	b, err := protojson.Marshal(t)
	if err != nil {
		return err
	}
	c.Response().Header().Set("ETag", etag(t.GetRef().GetRevision()))
	return c.JSONBlob(http.StatusOK, b)
}

// inScope is a table with the tenants, organisations and quotas that a scope shows. It is another one if it lacks any.
func inScope(t *routerpb.Table, scope access.Scope) *routerpb.Table {
	if len(scope.Tenants) == 0 {
		return t
	}
	t = proto.CloneOf(t)
	t.Tenants = slices.DeleteFunc(t.GetTenants(), func(tenant *routerpb.Tenant) bool { return !scope.Seen(tenant.GetId()) })
	t.Quotas = slices.DeleteFunc(t.GetQuotas(), func(q *routerpb.Quota) bool { return !scope.Seen(q.GetTenant()) })
	theirs := map[string]bool{}
	for _, tenant := range t.GetTenants() {
		theirs[cmp.Or(tenant.GetOrganisation(), tenant.GetId())] = true
	}
	t.Organisations = slices.DeleteFunc(t.GetOrganisations(), func(o *routerpb.Organisation) bool { return !theirs[o.GetId()] })
	return t
}

// tableChanges remembers what was found of tables, which don't change, for whoever may see all of them.
type tableChanges struct {
	mu    sync.Mutex // guards known
	known map[uint64]*TableChange
}

func (k *tableChanges) between(before, after *routerpb.Table, scope access.Scope) *TableChange {
	if len(scope.Tenants) > 0 {
		return summary(inScope(before, scope), inScope(after, scope))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	revision := after.GetRef().GetRevision()
	change := k.known[revision]
	if change == nil || change.Since != before.GetRef().GetRevision() {
		if change = summary(before, after); k.known == nil {
			k.known = map[uint64]*TableChange{}
		}
		k.known[revision] = change
	}
	return change
}

// forget drops what is known of tables that are not kept any more.
func (k *tableChanges) forget(kept []*routerpb.Table) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for revision := range k.known {
		if !slices.ContainsFunc(kept, func(t *routerpb.Table) bool { return t.GetRef().GetRevision() == revision }) {
			delete(k.known, revision)
		}
	}
}

func summary(before, after *routerpb.Table) *TableChange {
	moves := plan.Moves(before, after, signal.Snapshot{})
	change := &TableChange{Since: before.GetRef().GetRevision(), Weights: len(moves), Largest: []WeightMove{}, Lists: []ListCount{}}
	for _, m := range moves {
		for _, s := range m.Clusters {
			change.Largest = append(change.Largest, WeightMove{m.Model, m.Class, m.Source, s.Cluster, s.From, s.To})
		}
	}
	slices.SortStableFunc(change.Largest, func(a, b WeightMove) int {
		return cmp.Compare(math.Abs(b.To-b.From), math.Abs(a.To-a.From))
	})
	change.Largest = change.Largest[:min(len(change.Largest), largestMoves)]
	for _, l := range plan.Lists(before, after) {
		change.Lists = append(change.Lists, ListCount{l.List, len(l.Added), len(l.Removed), len(l.Changed), l.Reordered})
	}
	return change
}
