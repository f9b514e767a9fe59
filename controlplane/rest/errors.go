package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/forward"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
)

// answerError is the one place where an error becomes an HTTP status.
func (s *Server) answerError(err error, c echo.Context) {
	if c.Response().Committed {
		return // a watch that broke: its status is out already
	}
	p := problemOf(err)
	if p.Code == codeMethod && strings.HasPrefix(c.Request().URL.Path, "/v1/") && strings.HasSuffix(c.Path(), "/*") {
		p = problemOf(echo.ErrNotFound) // only the place that says so takes GET
		c.Response().Header().Del(echo.HeaderAllow)
	}
	if p.Status >= http.StatusInternalServerError {
		level := slog.LevelWarn
		if errors.Is(err, context.Canceled) {
			level = slog.LevelDebug // the client left: nothing is wrong here
		}
		s.o.Logger.Log(c.Request().Context(), level, "request failed", slog.String("code", p.Code), slog.String("route", c.Path()), slog.String("request_id", requestID(c)), slog.Any("err", err))
	}
	if err := p.write(c.Response()); err != nil {
		s.o.Logger.Debug("answer not sent", slog.Any("err", err))
	}
}

// problemOf finds the problem that an error stands for.
func problemOf(err error) *Problem {
	var (
		p         *Problem
		h         *echo.HTTPError
		notLeader store.ErrNotLeader
		tooLarge  *http.MaxBytesError
	)
	switch {
	case errors.As(err, &p):
		return p
	case problemOfMembership(err) != nil:
		return problemOfMembership(err)
	case errors.As(err, &h):
		return problemOfRouter(h)
	case errors.As(err, &tooLarge), errors.Is(err, store.ErrTooLarge):
		return newProblem(codeTooLarge, fmt.Sprintf("The limit is %d bytes.", MaxBody))
	case errors.Is(err, store.ErrUnknownOutcome):
		return newProblem(codeUnknownOutcome, "The leader was lost while it committed the change. Send it again with the same Idempotency-Key, or read the resource first.")
	case errors.Is(err, context.Canceled):
		return newProblem(codeTimeout, "The request ended before there was an answer.").after(time.Second)
	case errors.Is(err, forward.ErrNoLeader), errors.As(err, &notLeader), errors.Is(err, store.ErrClosed), errors.Is(err, forward.ErrRefused):
		return newProblem(codeNoLeader, "Nothing was changed. Reads with ?consistency=stale are still answered.").after(time.Second)
	case errors.Is(err, store.ErrReadOnly):
		return newProblem(codeReadOnly, "A disk of the control plane is nearly full. Nothing was changed.").after(30 * time.Second)
	case errors.Is(err, store.ErrTooNew):
		return problemUpgradeNeeded()
	case errors.Is(err, store.ErrBusy):
		return newProblem(codeBusy, "Nothing was changed.").after(time.Second)
	case errors.Is(err, context.DeadlineExceeded):
		return newProblem(codeTimeout, "The request ended before there was an answer.").after(time.Second)
	}
	return problemInternal()
}

func problemOfRouter(h *echo.HTTPError) *Problem {
	switch h.Code {
	case http.StatusNotFound:
		return newProblem(codeNotFound, "There is nothing at this path; /v1/openapi.yaml lists what there is.")
	case http.StatusMethodNotAllowed:
		return newProblem(codeMethod, "The header Allow lists the methods of this path.")
	}
	return problemInternal()
}

// problemOfOutcome is what a refused command means to the caller; nil: it was done.
func problemOfOutcome(out *statepb.Outcome) *Problem {
	at := policy.Problem{Field: out.GetField(), Reason: out.GetMessage()}
	switch out.GetCode() {
	case "":
		return nil
	case state.CodeExists:
		at.Fix = "choose another name, or PUT with If-Match to change it"
		return newProblem(codeExists, out.GetMessage(), at)
	case state.CodeInUse:
		at.Fix = "change or delete that first"
		return newProblem(codeInUse, out.GetMessage(), at)
	case state.CodeFieldOwned:
		at.Fix = fixOwned
		return newProblem(codeFieldOwned, out.GetMessage()+".", at)
	case state.CodeNotFound:
		return newProblem(codeNotFound, out.GetMessage())
	case state.CodePrecondition:
		return newProblem(codePrecondition, out.GetMessage()+". Read it again, and send its ETag as If-Match.")
	case state.CodeInvalid:
		at.Fix = "correct the field, or create what it names first"
		return newProblem(codeInvalid, out.GetMessage(), at)
	case state.CodeTooMany:
		return newProblem(codeLimitReached, out.GetMessage()+".")
	case state.CodeKeyReused:
		return problemKeyReused()
	case state.CodeNotInitialised:
		return problemNotInitialised()
	}
	return problemInternal()
}
