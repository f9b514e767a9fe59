package rest

import (
	"encoding/hex"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/state/statepb"
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
	// Frozen: weights are held because too much changed at once.
	Frozen bool `json:"frozen"`
	// Drill is the name of the drill under way; nil: none.
	Drill   *string  `json:"drill"`
	Routers []Router `json:"routers"`
}

func (s *Server) status(c echo.Context) error {
	view := s.localView(c)
	n := s.standing(view)
	leader, _ := s.o.Leader()
	st := Status{
		ClusterID: view.ClusterID(), Epoch: view.Epoch(), Revision: view.Index(), Leader: leader, Node: s.o.Node,
		Ready: s.o.Ready(), Version: s.o.Version, TableRevision: view.Table().GetRef().GetRevision(), Routers: []Router{},
	}
	for _, h := range view.Health() {
		st.Frozen = st.Frozen || h.GetState() == "FROZEN"
	}
	for _, o := range n.signals.Routers {
		st.Routers = append(st.Routers, n.router(o))
	}
	return c.JSON(http.StatusOK, st)
}

// AuditEntry is one entry of the audit trail. SHA256 is over the entry and PreviousSHA256, so the
// trail is a chain.
type AuditEntry struct {
	Index          uint64    `json:"index"`
	At             time.Time `json:"at"`
	Actor          string    `json:"actor"`
	Role           string    `json:"role"`
	Action         string    `json:"action"`
	Kind           string    `json:"kind"`
	Name           string    `json:"name"`
	Reason         string    `json:"reason"`
	RequestID      string    `json:"requestId"`
	Code           string    `json:"code"`
	PreviousSHA256 string    `json:"previousSha256"`
	SHA256         string    `json:"sha256"`
}

// audit lists the trail, newest first. Entries of one command stay on one page.
func (s *Server) audit(c echo.Context) error {
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
	scope, all := identity(c).Scope, view.Audit(0, 0)
	page := List[AuditEntry]{Items: []AuditEntry{}}
	for i := len(all) - 1; i >= 0; i-- {
		e := all[i]
		if from.Before != 0 && e.GetIndex() >= from.Before || !seesEntry(scope, view, e) {
			continue
		}
		if n := len(page.Items); n >= limit && page.Items[n-1].Index != e.GetIndex() {
			page.NextCursor = cursor{Before: page.Items[n-1].Index}.String()
			break
		}
		page.Items = append(page.Items, auditEntry(e))
	}
	return c.JSON(http.StatusOK, page)
}

func auditEntry(e *statepb.AuditEntry) AuditEntry {
	return AuditEntry{
		Index: e.GetIndex(), At: time.UnixMilli(e.GetAtUnixMs()).UTC(), Actor: e.GetActor(), Role: e.GetRole(),
		Action: e.GetAction(), Kind: e.GetKind(), Name: e.GetName(), Reason: e.GetReason(), RequestID: e.GetRequestId(),
		Code: e.GetCode(), PreviousSHA256: hex.EncodeToString(e.GetPreviousSha256()), SHA256: hex.EncodeToString(e.GetSha256()),
	}
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
	t := proto.CloneOf(view.Table())
	for _, tenant := range t.GetTenants() {
		tenant.KeySha256 = nil
	}
	scope := identity(c).Scope
	t.Tenants = slices.DeleteFunc(t.GetTenants(), func(tenant *routerpb.Tenant) bool { return !scope.Seen(tenant.GetId()) })
	t.Quotas = slices.DeleteFunc(t.GetQuotas(), func(q *routerpb.Quota) bool { return !scope.Seen(q.GetTenant()) })
	b, err := protojson.Marshal(t)
	if err != nil {
		return err
	}
	c.Response().Header().Set("ETag", etag(t.GetRef().GetRevision()))
	return c.JSONBlob(http.StatusOK, b)
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
