package rest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	orders "anabranch/api/order"
	"anabranch/api/order/signed"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// Emergency takes orders without a quorum, and knows what all orders come to.
type Emergency interface {
	// Give takes a signed message; an error is a *[signed.Refusal].
	Give(*routerpb.SignedOrder) (m signed.Message, fresh bool, err error)
	// ClusterID is the control plane that orders must be signed for. Empty: the node does not know it yet.
	ClusterID() string
	// Ordered is what the orders come to that this node knows of.
	Ordered(view *state.View, now time.Time) *orders.View
}

// maxSigned bounds the body of a signed order in bytes.
const maxSigned = 16 << 10

// EmergencyOrder is an order that holds, as this node knows it.
type EmergencyOrder struct {
	orders.Given
	// TableRevision is of the table that a revert made; 0: the order is no revert, or given without quorum.
	TableRevision uint64 `json:"tableRevision,omitempty"`
	// Obeyed is how many routers say that they have it, of Routers that are known.
	Obeyed  int `json:"obeyed"`
	Routers int `json:"routers"`
}

// EmergencyAsk is what somebody wants ordered.
type EmergencyAsk struct {
	Kind   orders.Kind `json:"kind"`
	Target string      `json:"target"`
	// Epoch and Revision of revert name the table; epoch 0 is the newest of the revision.
	Epoch    uint64 `json:"epoch"`
	Revision uint64 `json:"revision"`
	// Priority of shed.
	Priority *int32 `json:"priority"`
	// For is how long it holds, as "30m"; empty: four hours.
	For    string `json:"for"`
	Reason string `json:"reason"`
}

// SignedAsk is a signed order, as `anabranch emergency` makes it.
type SignedAsk struct {
	Payload   string `json:"payload"` // base64 of SignedPayload
	Key       string `json:"key"`
	Signature string `json:"signature"` // base64
}

// SignedFor is what an order must say before it is signed.
type SignedFor struct {
	// ClusterID of the control plane that it is for.
	ClusterID string `json:"clusterId"`
}

// SignedTaken says what became of a signed order on this node.
type SignedTaken struct {
	ID string `json:"id"` // of the order that is given, or ended
	// Fresh: this node had not met it.
	Fresh   bool      `json:"fresh"`
	Key     string    `json:"key"`
	Actor   string    `json:"actor"`
	Expires time.Time `json:"expires,omitzero"`
	// OverruledBy is the order that holds instead; empty: this one holds.
	OverruledBy string `json:"overruledBy,omitempty"`
	// Quorum: this node knows a leader, and the order could have been given by a token.
	Quorum bool `json:"quorum"`
}

// emergencyRoutes are the paths of emergency orders. A signed one needs no token: its signature says who gives it, and
// that must be good enough where nobody can look tokens up.
func (s *Server) emergencyRoutes(e *echo.Echo) {
	e.GET("/v1/emergency", s.listEmergency, s.may(read, anyScope), timed)
	e.POST("/v1/emergency", s.giveEmergency, s.may(write), timed, s.keyed)
	e.GET("/v1/emergency/:id", s.getEmergency, s.may(read, anyScope), timed)
	e.DELETE("/v1/emergency/:id", s.endEmergency, s.may(write), timed, s.keyed)
	e.GET("/v1/emergency/signed", s.signedFor, timed)
	e.POST("/v1/emergency/signed", s.giveSigned, timed)
}

// ordered is what the orders come to that this node knows of.
func (s *Server) ordered(view *state.View, now time.Time) *orders.View {
	if s.o.Emergency != nil {
		return s.o.Emergency.Ordered(view, now)
	}
	return view.Ordered(now)
}

// emergency words the order that holds for a cluster of a region, or with no cluster for the region. Empty: there is
// none.
func (n standing) emergency(cluster fleet.ClusterID, region fleet.RegionID) string {
	o := n.orders.Of(cluster, region)
	if o == nil {
		return ""
	}
	return fmt.Sprintf("%s by %s until %s, order %s", o, o.Actor, o.Expires.UTC().Format(time.RFC3339), o.ID)
}

// emergencies are the orders that hold, as this node knows, oldest first.
func (s *Server) emergencies(view *state.View) []EmergencyOrder {
	now := s.o.Now()
	given, out := s.ordered(view, now).Given(), []EmergencyOrder{}
	if len(given) == 0 {
		return out // as nearly always: a look at the routers is not free
	}
	routers := s.seen.at(now, s.o.Signals.Snapshot).Routers
	for _, g := range given {
		item := EmergencyOrder{Given: g, TableRevision: view.RevertedTo(g.ID), Routers: len(routers)}
		for _, r := range routers {
			for _, held := range r.Report.GetOrders().GetHeld() {
				if held.GetId() == g.ID {
					item.Obeyed++
				}
			}
		}
		out = append(out, item)
	}
	return out
}

func (s *Server) listEmergency(c echo.Context) error {
	return c.JSON(http.StatusOK, List[EmergencyOrder]{Items: s.emergencies(s.localView(c))})
}

func (s *Server) getEmergency(c echo.Context) error {
	return s.answerEmergency(c, s.localView(c), c.Param("id"), http.StatusOK)
}

func (s *Server) answerEmergency(c echo.Context, view *state.View, id string, status int) error {
	for _, o := range s.emergencies(view) {
		if o.ID == id {
			return c.JSON(status, o)
		}
	}
	return newProblem(codeNotFound, fmt.Sprintf("No emergency order %.64q holds; GET /v1/emergency lists those that do.", id))
}

// giveEmergency gives an order by quorum.
func (s *Server) giveEmergency(c echo.Context) error {
	var ask EmergencyAsk
	if err := strictly(c, &ask, maxSigned); err != nil {
		return err
	}
	now := s.o.Now()
	o, err := ask.order(now)
	if err != nil {
		return newProblem(codeInvalid, err.Error(), policy.Problem{Field: cmp.Or(fieldOf(err), "kind"), Reason: err.Error()})
	}
	who := actor(c)
	o.Actor, o.Reason = printable(who.GetName(), orders.MaxText), strings.TrimSpace(ask.Reason)
	if o.Reason == "" {
		o.Reason = strings.TrimSpace(who.GetReason())
	}
	if o.Reason == "" {
		return newProblem(codeInvalid, "Say why, as reason or as "+headerReason+".", policy.Problem{Field: "reason", Reason: "is missing: every emergency order has one"})
	}
	o.ID = "new" // the state names it
	if err := orders.CheckWire(o.Proto(), now); err != nil {
		return newProblem(codeInvalid, err.Error(), policy.Problem{Field: cmp.Or(fieldOf(err), "kind"), Reason: err.Error()})
	}
	o.ID = ""
	who.Reason = o.Reason
	out, err := s.command(c, who, &statepb.Command{Op: &statepb.Command_PutOrder{PutOrder: &statepb.PutOrder{Order: o.Proto()}}})
	if err != nil {
		return err
	}
	id := strconv.FormatUint(out.GetRevision(), 10)
	s.o.Logger.Warn("emergency order given", slog.String("id", id), slog.String("order", o.String()), slog.String("actor", o.Actor), slog.String("reason", o.Reason))
	c.Response().Header().Set("Location", "/v1/emergency/"+id)
	return s.answerEmergency(c, s.o.View(), id, http.StatusCreated)
}

// order is the order that is asked for, without who and why.
func (a EmergencyAsk) order(now time.Time) (orders.Order, error) {
	term, err := orders.ParseTerm(a.For)
	if err != nil {
		return orders.Order{}, err
	}
	o := orders.Order{Kind: a.Kind, Target: a.Target, Epoch: a.Epoch, Revision: a.Revision, At: now, Expires: now.Add(term)}
	switch {
	case a.Priority != nil:
		o.Priority = *a.Priority
	case a.Kind == orders.Shed:
		return o, errors.New("priority is missing: requests below it are refused")
	}
	return o, nil
}

// fieldOf is the field that an error about an order begins with. Empty: it is about none of them.
func fieldOf(err error) string {
	field, _, _ := strings.Cut(err.Error(), " ")
	switch field {
	case "kind", "target", "epoch", "revision", "priority", "reason", "for", "actor", "id":
		return field
	case "it": // ends too soon, or too late
		return "for"
	}
	return ""
}

// command commits a command of the caller.
func (s *Server) command(c echo.Context, who *statepb.Actor, cmd *statepb.Command) (*statepb.Outcome, error) {
	cmd.AtUnixMs, cmd.Actor, cmd.Once = s.o.Now().UnixMilli(), who, once(c)
	cmd.Format = state.FormatOf(cmd)
	out, err := s.o.Propose(c.Request().Context(), cmd)
	if err != nil {
		return nil, fmt.Errorf("emergency order: %w", err)
	}
	switch out.GetCode() {
	case "":
		return out, nil
	case state.CodeNotFound:
		return nil, newProblem(codeNotFound, out.GetMessage()+".")
	}
	return nil, problemOfOutcome(out)
}

// endEmergency takes an order back by quorum, also a signed one.
func (s *Server) endEmergency(c echo.Context) error {
	id := c.Param("id")
	if _, err := s.command(c, actor(c), &statepb.Command{Op: &statepb.Command_EndOrder{EndOrder: &statepb.EndOrder{Id: id}}}); err != nil {
		return err
	}
	s.o.Logger.Warn("emergency order ended", slog.String("id", printable(id, orders.MaxID)), slog.String("actor", actor(c).GetName()))
	return c.NoContent(http.StatusNoContent)
}

// giveSigned takes an order under a signature, whether there is a quorum or not. Who sends what is not good is slowed
// down as who tries tokens is.
func (s *Server) giveSigned(c echo.Context) error {
	from := address(c.Request())
	if wait := s.attempts.wait(from); wait > 0 {
		return problemTooMany("Too many signed orders that are not good came from this address.", wait)
	}
	taken, err := s.takeSigned(c)
	if err != nil {
		s.attempts.take(from)
		return err
	}
	status := http.StatusOK
	if taken.Fresh {
		status = http.StatusCreated
	}
	return c.JSON(status, taken)
}

// signedFor tells without a token what to sign orders for: after a start without a quorum a node knows of no tokens, and
// is to take orders all the same.
func (s *Server) signedFor(c echo.Context) error {
	id, err := s.signable()
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, SignedFor{ClusterID: id})
}

// signable is the control plane that orders must be signed for, or why none can be.
func (s *Server) signable() (string, error) {
	id := ""
	if s.o.Emergency != nil {
		id = s.o.Emergency.ClusterID()
	}
	if id == "" {
		return "", newProblem(codeCatchingUp, "This node has never been in contact with a control plane, and can't tell whether an order is for it. Ask another node.").after(time.Second)
	}
	return id, nil
}

func (s *Server) takeSigned(c echo.Context) (*SignedTaken, error) {
	if _, err := s.signable(); err != nil {
		return nil, err
	}
	var ask SignedAsk
	if err := strictly(c, &ask, maxSigned); err != nil {
		return nil, err
	}
	payload, err1 := base64.StdEncoding.DecodeString(ask.Payload)
	signature, err2 := base64.StdEncoding.DecodeString(ask.Signature)
	for field, err := range map[string]error{"payload": err1, "signature": err2} {
		if err != nil {
			return nil, newProblem(codeInvalidRequest, "payload and signature are base64: send what `anabranch emergency` makes.",
				policy.Problem{Field: field, Reason: "is not base64"})
		}
	}
	m, fresh, err := s.o.Emergency.Give(&routerpb.SignedOrder{Payload: payload, Key: ask.Key, Signature: signature})
	var r *signed.Refusal
	switch {
	case errors.As(err, &r):
		return nil, problemOfSigned(r)
	case err != nil:
		return nil, err
	}
	leader, _ := s.o.Leader()
	taken := &SignedTaken{ID: m.Cancel, Fresh: fresh, Key: m.Key.ID, Actor: m.Key.Name, Quorum: leader != ""}
	if m.Order != nil {
		taken.ID, taken.Expires = m.Order.ID, m.Order.Expires
		taken.OverruledBy = s.ordered(s.o.View(), s.o.Now()).Overruled(m.Order.ID)
	}
	return taken, nil
}

// problemOfSigned is what a refused signature means to the caller, and which field of it, or of what is signed in its
// payload, is the matter.
func problemOfSigned(r *signed.Refusal) *Problem {
	detail := strings.ToUpper(r.Text[:1]) + r.Text[1:] + "."
	code, field := codeOrderInvalid, ""
	switch r.Code {
	case signed.CodeNoKeys, signed.CodeKey:
		code, field = codeSignature, "key"
	case signed.CodeSignature:
		code, field = codeSignature, "signature"
	case signed.CodeCluster:
		code, field = codeSignature, "payload.clusterId"
	case signed.CodeReplayed:
		code, field = codeOrderOver, "payload.counter"
	case signed.CodeExpired:
		code, field = codeOrderOver, "payload.order.expires"
	case signed.CodeFull:
		return newProblem(codeLimitReached, detail)
	case signed.CodeInvalid:
		field = "payload"
		switch of := fieldOf(r); of {
		case "":
		case "for":
			field = "payload.order.expires"
		default:
			field = "payload.order." + of
		}
	}
	return newProblem(code, detail, policy.Problem{Field: field, Reason: r.Text})
}

// strictly reads a small JSON body, which must hold nothing that is not known.
func strictly(c echo.Context, into any, most int64) error {
	d := json.NewDecoder(http.MaxBytesReader(c.Response(), c.Request().Body, most))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && d.Decode(&struct{}{}) != io.EOF {
		err = errors.New("something follows the document")
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		return err
	}
	if err != nil {
		return newProblem(codeMalformed, fmt.Sprintf("The body can't be read: %v.", err))
	}
	return nil
}
