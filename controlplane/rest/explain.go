package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/inquiry"
)

// Inquiries ask the routers, to whichever node they are connected; see [inquiry.Desks].
type Inquiries interface {
	Explain(ctx context.Context, router fleet.RouterID, request string) (inquiry.Explanation, error)
	Inspect(ctx context.Context, router fleet.RouterID, cluster fleet.ClusterID, most uint32) (inquiry.Inspection, error)
	Follow(ctx context.Context, filter *routerpb.DecisionFilter, perSecond uint32, tell func(inquiry.News) error) error
}

// Origin is where a record of a request comes from.
type Origin struct {
	Router fleet.RouterID `json:"router"`
	Region fleet.RegionID `json:"region"`
	// Node is the one that the router is connected to.
	Node fleet.NodeID `json:"node"`
}

// Explanation is a router's record of a request, as its admin page /explain/{id} writes it, and with it:
type Explanation struct {
	From Origin `json:"from"`
}

// maxRequestID bounds the name of a request in bytes: a router's name, a hyphen and 16 digits.
const maxRequestID = fleet.MaxNameLength + 17

// explain says what became of a request.
func (s *Server) explain(c echo.Context) error {
	e, err := s.recorded(c)
	if err != nil {
		return err
	}
	body, err := withOrigin(e.Record, Origin{e.Router, e.Region, e.Node})
	if err != nil {
		return fmt.Errorf("record of router %s: %w", e.Router, err)
	}
	return c.JSONBlob(http.StatusOK, body)
}

// recorded gets a router's record of a request, as far as the caller may see it. The request's name says which
// router to ask, unless the caller does: the router of another region that it went on to knows it by the same name.
func (s *Server) recorded(c echo.Context) (e inquiry.Explanation, err error) {
	id := c.Param("id")
	router, ok := fleet.RouterOf(id)
	if name := c.QueryParam("router"); name != "" {
		if err := fleet.CheckName(name); err != nil {
			return e, newProblem(codeInvalidRequest, fmt.Sprintf("router %s.", err))
		}
		router, ok = fleet.RouterID(name), len(id) <= maxRequestID
	}
	if !ok {
		return e, newProblem(codeUnknownRequest, "No router gives a request such a name: it is the router's id, a hyphen and 16 hex digits, as in the header x-anabranch-request-id of the answer.")
	}
	if s.o.Inquiries == nil {
		return e, problemOfInquiry(inquiry.ErrNotConnected, router)
	}
	if e, err = s.o.Inquiries.Explain(c.Request().Context(), router, id); err != nil {
		return e, problemOfInquiry(err, router)
	}
	if len(e.Record) == 0 || !seesRecord(identity(c).Scope, e.Record) {
		return e, problemForgotten(e, s.o.Now())
	}
	return e, nil
}

// problemOfInquiry says why a router gave no answer.
func problemOfInquiry(err error, router fleet.RouterID) error {
	switch {
	case errors.Is(err, inquiry.ErrUnknownRouter):
		return newProblem(codeUnknownRouter, fmt.Sprintf("No router %s has been heard of in the last ten minutes; /v1/routers lists those that have.", router))
	case errors.Is(err, inquiry.ErrTooOld):
		return newProblem(codeRouterTooOld, fmt.Sprintf("The build of router %s answers no such questions. Its own admin pages /explain/{id} and /status do.", router))
	case errors.Is(err, inquiry.ErrBusy):
		return newProblem(codeBusy, fmt.Sprintf("Too many questions wait for router %s.", router)).after(time.Second)
	case errors.Is(err, context.DeadlineExceeded):
		return newProblem(codeRouterSilent, fmt.Sprintf("Router %s, or the node that it is connected to, did not answer within %s.", router, inquiry.Timeout)).after(time.Second)
	case errors.Is(err, inquiry.ErrNotConnected):
		return newProblem(codeRouterAway, fmt.Sprintf("Router %s is connected to no node that answers now. Its own admin pages /explain/{id} and /status may.", router)).after(5 * time.Second)
	}
	return err
}

// problemForgotten says how far back the router remembers.
func problemForgotten(e inquiry.Explanation, now time.Time) *Problem {
	detail := fmt.Sprintf("Router %s remembers no request of this name. It remembers the newest %d, and none now.", e.Router, e.Most)
	if !e.Oldest.IsZero() {
		detail = fmt.Sprintf("Router %s remembers no request of this name. It remembers the newest %d, the oldest of which came at %s, %s ago.",
			e.Router, e.Most, e.Oldest.UTC().Format(time.RFC3339), max(0, now.Sub(e.Oldest)).Round(time.Second))
	}
	return newProblem(codeUnknownRequest, detail)
}

// withOrigin adds to a record, as field from, where it comes from. The result is one line.
func withOrigin(record []byte, from Origin) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, record); err != nil {
		return nil, err
	}
	if b.Bytes()[0] != '{' {
		return nil, errors.New("it is no object")
	}
	origin, err := json.Marshal(Explanation{from})
	if err != nil {
		return nil, err
	}
	b.Truncate(b.Len() - 1)
	if b.Len() > 1 {
		b.WriteByte(',')
	}
	b.Write(origin[1:])
	return b.Bytes(), nil
}
