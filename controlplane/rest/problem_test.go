package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/forward"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
)

func TestEveryErrorHasAProblem(t *testing.T) {
	own := newProblem(codeBusy, "mine")
	tests := []struct {
		err  error
		want string
	}{
		{own, codeBusy},
		{fmt.Errorf("change x: %w", own), codeBusy},
		{echo.ErrNotFound, codeNotFound},
		{echo.ErrMethodNotAllowed, codeMethod},
		{echo.NewHTTPError(http.StatusTeapot), codeInternal},
		{&http.MaxBytesError{Limit: 1}, codeTooLarge},
		{forward.ErrNoLeader, codeNoLeader},
		{forward.ErrRefused, codeNoLeader},
		{fmt.Errorf("x: %w: %w", forward.ErrNoLeader, context.DeadlineExceeded), codeNoLeader},
		{store.ErrNotLeader{ID: "n1"}, codeNoLeader},
		{store.ErrClosed, codeNoLeader},
		{store.ErrUnknownOutcome, codeUnknownOutcome},
		{fmt.Errorf("x: %w: %w", store.ErrUnknownOutcome, context.DeadlineExceeded), codeUnknownOutcome},
		{store.ErrReadOnly, codeReadOnly},
		{store.ErrBusy, codeBusy},
		{store.ErrTooNew, codeUpgradeNeeded},
		{store.ErrTooLarge, codeTooLarge},
		{context.DeadlineExceeded, codeTimeout},
		{context.Canceled, codeTimeout},
		{errors.New("anything"), codeInternal},
	}
	for _, tt := range tests {
		p := problemOf(tt.err)
		if p.Code != tt.want || p.Status != kinds[tt.want].status || p.Detail == "" {
			t.Errorf("%v is %+v, want %s", tt.err, p, tt.want)
		}
	}
}

func TestEveryOutcomeHasAProblem(t *testing.T) {
	tests := map[string]string{
		state.CodeExists: codeExists, state.CodeNotFound: codeNotFound, state.CodePrecondition: codePrecondition,
		state.CodeInvalid: codeInvalid, state.CodeInUse: codeInUse, state.CodeNotInitialised: codeNotInitialised,
		state.CodeSkipped: codeInternal, "of-a-newer-node": codeInternal,
	}
	for code, want := range tests {
		p := problemOfOutcome(&statepb.Outcome{Code: code, Field: "spec.x", Message: "is wrong"})
		if p == nil || p.Code != want {
			t.Errorf("%s is %v, want %s", code, p, want)
			continue
		}
		for _, e := range p.Errors {
			if e.Field != "spec.x" || e.Reason != "is wrong" || e.Fix == "" {
				t.Errorf("%s: %+v", code, e)
			}
		}
	}
	if p := problemOfOutcome(&statepb.Outcome{}); p != nil {
		t.Errorf("done is %v", p)
	}
}

func TestProblemsOfDocuments(t *testing.T) {
	tests := []struct {
		name         string
		problems     []policy.Problem
		code, detail string
	}{
		{"unreadable", []policy.Problem{{Reason: "is not JSON"}}, codeMalformed, "is not JSON"},
		{"one", []policy.Problem{{Field: "spec.a", Reason: "is b"}}, codeInvalid, "spec.a is b"},
		{"two", []policy.Problem{{Field: "a", Reason: "x"}, {Field: "b", Reason: "y"}}, codeInvalid, "There are 2 problems."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if p := problemDocument(tt.problems); p.Code != tt.code || p.Detail != tt.detail || len(p.Errors) != len(tt.problems) {
				t.Errorf("got %+v", p)
			}
		})
	}
}

func TestRetryAfterIsWholeSeconds(t *testing.T) {
	for after, want := range map[time.Duration]string{0: "", time.Millisecond: "1", time.Second: "1", 2600 * time.Millisecond: "3"} {
		w := httptest.NewRecorder()
		if err := newProblem(codeBusy, "x").after(after).write(w); err != nil {
			t.Fatal(err)
		}
		if got := w.Header().Get("Retry-After"); got != want || w.Code != 503 {
			t.Errorf("%v: %q, want %q", after, got, want)
		}
	}
}
