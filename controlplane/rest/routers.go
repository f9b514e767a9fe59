package rest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
)

// Router is a router that some node has heard of.
type Router struct {
	ID              fleet.RouterID `json:"id"`
	Region          fleet.RegionID `json:"region"`
	Version         string         `json:"version"`
	AppliedEpoch    uint64         `json:"appliedEpoch"`
	AppliedRevision uint64         `json:"appliedRevision"` // of the table; 0: none yet
	AgeMs           int64          `json:"ageMs"`           // of its last report; -1: none yet
	Node            fleet.NodeID   `json:"node"`            // that it is, or was, connected to
	Connected       bool           `json:"connected"`
	// Behind: it has neither reported nor taken the table that this node has.
	Behind bool `json:"behind"`
	// QuotaStoreOK: it reached the quota stores at its last report. DegradedLimits is how many limits it keeps by
	// itself because it does not.
	QuotaStoreOK   bool `json:"quotaStoreOk"`
	DegradedLimits int  `json:"degradedLimits"`
	// Orders are the emergency orders that it has, and how they stand there.
	Orders []HeldOrder `json:"orders"`
	// Answer is what it said last to a table that it was sent; nil: nothing since it connected.
	Answer *TableAnswer `json:"answer"`
}

// TableAnswer is a router's answer to a table.
type TableAnswer struct {
	Epoch    uint64 `json:"epoch"`
	Revision uint64 `json:"revision"`
	// Taken: the router obeys it. Otherwise Code says why not, Field where in the table, and Message
	// what is wrong, for people.
	Taken   bool   `json:"taken"`
	Code    string `json:"code,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message,omitempty"`
}

func (n standing) router(o signal.Observation) Router {
	applied, current := appliedBy(o), n.view.TableFor(o.Router(), o.Region()).GetRef()
	return Router{
		ID: o.Router(), Region: o.Region(), Version: o.Hello.GetVersion(),
		AppliedEpoch: applied.GetEpoch(), AppliedRevision: applied.GetRevision(),
		AgeMs: ms(o.Age(n.signals.At)), Node: o.Node, Connected: o.Connected,
		Behind:       earlier(applied, current),
		QuotaStoreOK: o.Report.GetQuotaStoreOk(), DegradedLimits: degradedLimits(o.Report),
		Orders: heldOrders(o.Report),
		Answer: tableAnswer(o.Ack),
	}
}

// appliedBy is the table that a router obeys; nil: none, as far as it said.
func appliedBy(o signal.Observation) *routerpb.TableRef {
	applied := o.Report.GetApplied()
	if o.Ack.GetOk() && earlier(applied, o.Ack.GetTable()) {
		return o.Ack.GetTable() // which the next report will say too
	}
	return applied
}

// HeldOrder is an emergency order that a router has.
type HeldOrder struct {
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`
	Target  string    `json:"target,omitempty"`
	Actor   string    `json:"actor"`
	Expires time.Time `json:"expires"`
	// Door is the one that it came by there: controlplane, signed, socket or file.
	Door string `json:"door"`
	// OverruledBy is the order that holds there instead; empty: this one does.
	OverruledBy string `json:"overruledBy,omitempty"`
}

func heldOrders(r *routerpb.Report) []HeldOrder {
	out := []HeldOrder{}
	for _, h := range r.GetOrders().GetHeld() {
		out = append(out, HeldOrder{
			ID: h.GetId(), Kind: h.GetKind(), Target: h.GetTarget(), Actor: h.GetActor(),
			Expires: time.UnixMilli(h.GetExpiresUnixMs()).UTC(), Door: h.GetDoor(), OverruledBy: h.GetOverruledBy(),
		})
	}
	return out
}

// degradedLimits counts limits that a router keeps by itself.
func degradedLimits(r *routerpb.Report) int {
	n := 0
	for _, q := range r.GetQuotas() {
		if q.GetDegraded() {
			n++
		}
	}
	return n
}

// earlier compares tables of one control plane.
func earlier(a, b *routerpb.TableRef) bool {
	if a.GetEpoch() != b.GetEpoch() {
		return a.GetEpoch() < b.GetEpoch()
	}
	return a.GetRevision() < b.GetRevision()
}

func tableAnswer(ack *routerpb.Ack) *TableAnswer {
	if ack == nil {
		return nil
	}
	return &TableAnswer{
		Epoch: ack.GetTable().GetEpoch(), Revision: ack.GetTable().GetRevision(), Taken: ack.GetOk(),
		Code: ack.GetCode(), Field: ack.GetField(), Message: ack.GetMessage(),
	}
}

// routerKeys are what routers can be sorted by, beside their ids. Their age is not among them: it changes
// from page to page.
var routerKeys = map[string]func(Router) int64{
	"appliedRevision": func(r Router) int64 { return int64(r.AppliedRevision) }, //nolint:gosec // indexes of the log stay far below
}

// routers lists the routers by id, as this node knows them, perhaps only some of them.
func (s *Server) routers(c echo.Context) error {
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	wanted, err := routerFilterOf(c)
	if err != nil {
		return err
	}
	order, err := orderOf(c, func(r Router) string { return string(r.ID) }, routerKeys)
	if err != nil {
		return err
	}
	from, err := listed(c)
	if err != nil {
		return err
	}
	n := s.standing(s.localView(c))
	all := make([]Router, 0, len(n.signals.Routers))
	for _, o := range n.signals.Routers { // in the order of their ids
		all = append(all, n.router(o))
	}
	items, next := order.page(all, from, limit, wanted)
	return c.JSON(http.StatusOK, List[Router]{Items: append([]Router{}, items...), NextCursor: next})
}

// routerFilterOf reads name, region, connected and behind.
func routerFilterOf(c echo.Context) (func(Router) bool, error) {
	name, region := pattern(c.QueryParam("name")), c.QueryParam("region")
	if len(name) > maxTerm {
		return nil, newProblem(codeInvalidRequest, fmt.Sprintf("name is %d bytes long, the limit is %d.", len(name), maxTerm))
	}
	if region != "" {
		if err := fleet.CheckName(region); err != nil {
			return nil, newProblem(codeInvalidRequest, fmt.Sprintf("region %s.", err))
		}
	}
	connected, err := flag(c, "connected")
	if err != nil {
		return nil, err
	}
	behind, err := flag(c, "behind")
	if err != nil {
		return nil, err
	}
	anyConnected, anyBehind := c.QueryParam("connected") == "", c.QueryParam("behind") == ""
	return func(r Router) bool {
		return name.fits(string(r.ID)) && (region == "" || string(r.Region) == region) &&
			(anyConnected || r.Connected == connected) && (anyBehind || r.Behind == behind)
	}, nil
}
