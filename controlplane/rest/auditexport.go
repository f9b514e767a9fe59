package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/audit"
	"anabranch/controlplane/state"
)

// exportTimeout bounds an export of the audit trail.
const exportTimeout = 5 * time.Minute

// exportAudit sends the whole trail that is kept, oldest first, an entry a line: what it takes to check
// the chain elsewhere. It is written from the state as it is, without a copy.
func (s *Server) exportAudit(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), exportTimeout)
	defer cancel()
	c.SetRequest(c.Request().WithContext(ctx))
	s.tellUnrecorded(c)
	view, err := s.view(c)
	if err != nil {
		return err
	}
	w := c.Response()
	w.Header().Set(echo.HeaderContentType, "application/x-ndjson")
	w.Header().Set(headerRevision, strconv.FormatUint(view.Index(), 10))
	w.WriteHeader(http.StatusOK)
	if isHead(c) {
		return nil
	}
	out := bufio.NewWriterSize(pieces{w, http.NewResponseController(w)}, snapshotPiece/16)
	err = audit.Write(out, func(yield func(audit.Entry) bool) {
		for sequence, e := range entries(view, true) {
			if ctx.Err() != nil || !yield(audit.Of(e, sequence)) {
				return
			}
		}
	})
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		s.o.Logger.Info("audit trail not sent", slog.String("request_id", requestID(c)), slog.Any("err", err))
		panic(http.ErrAbortHandler) // the status is out: a cut connection says that there is more
	}
	return nil
}

// The events of a watch of the audit trail.
const eventEntry = "entry"

// watchAudit streams the entries as they are written. Ids are sequence numbers. Without Last-Event-ID it
// starts with the next one.
func (s *Server) watchAudit(c echo.Context) error {
	resume, err := lastEventID(c)
	if err != nil {
		return err
	}
	if resume != nil {
		if err := s.barrier(c.Request().Context()); err != nil {
			return err
		}
	}
	view := s.o.View()
	at := newest(view)
	if resume != nil {
		if *resume > at || *resume < view.AuditDropped() {
			return newProblem(codeGone, fmt.Sprintf("The trail holds the entries %d to %d. Read it at /v1/audit, and watch from the last that you got.", view.AuditDropped()+1, at))
		}
		at = *resume
	}
	st, closed, err := s.openStream(c)
	if err != nil {
		return err
	}
	defer closed()
	heartbeat := time.NewTicker(s.o.Heartbeat)
	defer heartbeat.Stop()
	for !s.lapsed(c) {
		view := s.o.View()
		if at, err = tellEntries(st, view, at); err != nil {
			return nil // the client left, or reads too slowly: there is nobody to tell
		}
		select {
		case <-s.o.Changed(view.Index()):
		case <-heartbeat.C:
			if err := st.event(at, eventBookmark, []byte(`{"sequence":`+strconv.FormatUint(at, 10)+`}`)); err != nil {
				return nil // as above
			}
		case <-c.Request().Context().Done():
			return nil
		case <-s.draining:
			return nil
		}
	}
	return nil
}

func newest(view *state.View) uint64 {
	for sequence := range entries(view, false) {
		return sequence
	}
	return view.AuditDropped()
}

// tellEntries sends what comes after the entry at, and returns how far it got. Entries that were dropped
// meanwhile are passed over: the numbers show it.
func tellEntries(st eventSink, view *state.View, at uint64) (uint64, error) {
	for at = max(at, view.AuditDropped()); ; at++ {
		e := view.AuditEntry(at + 1)
		if e == nil {
			return at, nil
		}
		data, err := json.Marshal(audit.Of(e, at+1))
		if err != nil {
			return at, fmt.Errorf("watch audit entry %d: %w", at+1, err)
		}
		if err := st.event(at+1, eventEntry, data); err != nil {
			return at, err
		}
	}
}
