package rest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/state/statepb"
)

// Actions of entries in the audit trail that are no changes of resources.
const (
	actionRefused  = "refused"
	actionSnapshot = "snapshot"
	actionAdd      = "add"
	actionRemove   = "remove"
	actionTransfer = "transfer"
)

// kindMember is the kind of nodes of the control plane in the audit trail.
const kindMember = "Member"

// codeUnrecorded is of an entry that stands for many.
const codeUnrecorded = "unrecorded"

// witnessed records the refusal of a change that somebody known asked for: what collides with what
// there is (404, 409, 412) or is not allowed to be (422). What can't be read is no attempt, what a
// failure ended is in the trail if it was made, and a dry run attempts nothing.
func (s *Server) witnessed(c echo.Context, err error) error {
	if err == nil || !changes(c.Request().Method) {
		return err
	}
	if dry, bad := flag(c, "dry_run"); dry || bad != nil {
		return err
	}
	p := problemOf(err)
	switch p.Status {
	case http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed, http.StatusUnprocessableEntity:
	default:
		return err
	}
	if s.o.View().FeatureLevel() < 3 || !s.refusals.allow(actor(c).GetName()) {
		return err
	}
	detail := p.Detail
	if len(p.Errors) > 0 {
		detail = strings.TrimSpace(p.Errors[0].Field + " " + p.Errors[0].Reason)
	}
	kind, name := target(c)
	note := &statepb.Note{
		Action: actionRefused, Kind: kind, Name: printable(name, maxReason), Code: p.Code,
		Detail: printable(strings.ToLower(c.Request().Method)+": "+detail, maxReason),
	}
	if failed := s.note(c, actor(c), note); failed != nil {
		s.o.Logger.Warn("refusal not audited", slog.String("actor", actor(c).GetName()), slog.Any("err", failed))
	}
	s.tellUnrecorded(c)
	return err
}

func changes(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// intend records what is about to be done, of which nothing else in the state would tell. An act that
// can't be recorded is not to be done: the error is the answer. Below feature level 3 there are no notes.
func (s *Server) intend(c echo.Context, action, kind, name, detail string) error {
	if s.o.View().FeatureLevel() < 3 {
		return nil
	}
	note := &statepb.Note{Action: action, Kind: kind, Name: printable(name, maxReason), Detail: printable(detail, maxReason)}
	if err := s.note(c, actor(c), note); err != nil {
		return fmt.Errorf("record %s of %s %q: %w", action, kind, name, err)
	}
	return nil
}

// note commits one, also when the request has run out of time.
func (s *Server) note(c echo.Context, who *statepb.Actor, n *statepb.Note) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), noteTimeout)
	defer cancel()
	_, err := s.o.Propose(ctx, &statepb.Command{
		Format: commandFormat, AtUnixMs: s.o.Now().UnixMilli(), Actor: who,
		Op: &statepb.Command_Note{Note: n},
	})
	return err
}

// noteTimeout bounds how long an answer waits for an entry in the audit trail.
const noteTimeout = time.Second

// tellUnrecorded records how many refusals were not recorded one by one, of those actors who may have an
// entry again. It is called when somebody looks at the trail, or adds to it.
func (s *Server) tellUnrecorded(c echo.Context) {
	if s.o.View().FeatureLevel() < 3 {
		return
	}
	for _, l := range []*limiter{s.denials, s.refusals} {
		due := l.due()
		for i, u := range due {
			err := s.note(c, &statepb.Actor{Name: u.name, RequestId: requestID(c)}, &statepb.Note{
				Action: actionRefused, Code: codeUnrecorded,
				Detail: fmt.Sprintf("%d more refusals from %s to %s", u.count, u.from.UTC().Format(time.RFC3339), u.to.UTC().Format(time.RFC3339)),
			})
			if err != nil {
				l.restore(due[i:])
				s.o.Logger.Warn("refusals not audited", slog.String("actor", u.name), slog.Any("err", err))
				return
			}
		}
	}
}
