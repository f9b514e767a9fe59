package rest

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/controlplane/access"
	"anabranch/controlplane/state"
)

// Status sums the control plane up, as this node sees it.
type Status struct {
	ClusterID     string       `json:"clusterId"`
	Epoch         uint64       `json:"epoch"`
	Revision      uint64       `json:"revision"`
	Leader        fleet.NodeID `json:"leader"` // empty: none known
	Node          fleet.NodeID `json:"node"`
	Ready         bool         `json:"ready"`
	Version       string       `json:"version"`
	TableRevision uint64       `json:"tableRevision"` // 0: none published
	// FeatureLevel is the newest format of commands that the whole cluster applies: while it is below that
	// of its members, what is newer is refused as upgrade_needed.
	FeatureLevel uint32 `json:"featureLevel"`
	// Frozen: weights are held because too much changed at once, or an operator has frozen changes.
	Frozen bool `json:"frozen"`
	// Unwell are the clusters, and the models on them that fare otherwise, which are not HEALTHY: the worst first, at most 100.
	Unwell []UnwellPlace `json:"unwell"`
	// Freeze is what an operator said to the latter; nil: nobody did.
	Freeze *Freeze `json:"freeze"`
	// Rollout is the id of the one under way; nil: none.
	Rollout *string `json:"rollout"`
	// HeldBack: changes of configuration have not come to all routers yet, or wait. Returned: they have
	// been tried as they are, and taken back.
	HeldBack bool `json:"heldBack"`
	Returned bool `json:"returned"`
	// PendingProposals wait for somebody to approve them, BrokenGlass are the writes of the last day that did
	// not, oldest first.
	PendingProposals int           `json:"pendingProposals"`
	BrokenGlass      []BrokenGlass `json:"brokenGlass"`
	// Emergency are the emergency orders that hold, oldest first.
	Emergency []EmergencyOrder `json:"emergency"`
	// Drill is the one under way; nil: none.
	Drill   *Drill   `json:"drill"`
	Routers []Router `json:"routers"`
}

func (s *Server) status(c echo.Context) error {
	view := s.localView(c)
	n := s.standing(view)
	st := s.statusOf(identity(c).Scope, view)
	for _, o := range n.signals.Routers {
		st.Routers = append(st.Routers, n.router(o))
	}
	return c.JSON(http.StatusOK, st)
}

// statusOf is the status of a view as a scope shows it, without routers.
func (s *Server) statusOf(scope access.Scope, view *state.View) Status {
	leader, _ := s.o.Leader()
	st := Status{
		ClusterID: view.ClusterID(), Epoch: view.Epoch(), Revision: view.Index(), Leader: leader, Node: s.o.Node,
		Ready: s.o.Ready(), Version: s.o.Version, TableRevision: view.Table().GetRef().GetRevision(), FeatureLevel: view.FeatureLevel(), Routers: []Router{},
	}
	st.Freeze, st.HeldBack, st.Returned = s.freezeOf(view), view.Pending(), view.ReturnedNow()
	st.Frozen, st.Unwell = st.Freeze != nil, unwell(view)
	st.Emergency = s.emergencies(view)
	st.PendingProposals, st.BrokenGlass = s.pendingProposals(scope, view), s.brokenGlass(scope, view)
	if r := view.Rollout(); r != nil {
		id := strconv.FormatUint(r.GetId(), 10)
		st.Rollout = &id
	}
	if d := view.ActiveDrill(); d != nil {
		one := s.drill(d)
		st.Drill = &one
	}
	for _, h := range view.Health() {
		st.Frozen = st.Frozen || h.GetState() == "FROZEN"
	}
	return st
}

// table answers the current routing table as routers get it, without the hashes of API keys.
func (s *Server) table(c echo.Context) error {
	view, err := s.view(c)
	if err != nil {
		return err
	}
	if view.Table() == nil {
		return newProblem(codeNotFound, "No routing table has been published yet.")
	}
	return answerTable(c, view.Table())
}

func (s *Server) healthz(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }

// readyz says no until the state has caught up since the start, and again while shutting down.
func (s *Server) readyz(c echo.Context) error {
	select {
	case <-s.draining:
		return c.String(http.StatusServiceUnavailable, "shutting down\n")
	default:
	}
	if !s.o.Ready() {
		return c.String(http.StatusServiceUnavailable, "not ready: the state has not caught up with the leader since the start, or the node is no member\n")
	}
	return c.String(http.StatusOK, "ready\n")
}

func (s *Server) prometheus(c echo.Context) error {
	if s.o.Metrics == nil {
		return echo.ErrNotFound
	}
	s.o.Metrics.ServeHTTP(c.Response(), c.Request())
	return nil
}
