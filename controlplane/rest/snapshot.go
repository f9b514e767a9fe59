package rest

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/backup"
	"anabranch/controlplane/state"
)

// snapshotPiece is how much of an archive is written within one write deadline, in bytes.
const snapshotPiece = 1 << 20

// snapshot answers an archive of the whole state, hashes of tokens included. One at a time: the state
// is held in memory twice while it is written.
func (s *Server) snapshot(c echo.Context) error {
	if !s.archiving.CompareAndSwap(false, true) {
		return newProblem(codeBusy, "This node is writing a snapshot already; try another node.").after(5 * time.Second)
	}
	defer s.archiving.Store(false)
	view, err := s.view(c)
	if err != nil {
		return err
	}
	if err := s.noteSnapshot(c, view); err != nil {
		return err
	}
	w := c.Response()
	w.Header().Set(echo.HeaderContentType, echo.MIMEOctetStream)
	w.Header().Set(echo.HeaderContentDisposition, fmt.Sprintf("attachment; filename=%q",
		fmt.Sprintf("anabranch-%s-%d-%d.backup", view.ClusterID(), view.Epoch(), view.Index())))
	w.Header().Set(headerRevision, strconv.FormatUint(view.Index(), 10))
	w.WriteHeader(http.StatusOK)
	m, err := backup.Write(pieces{w, http.NewResponseController(w)}, view,
		backup.Origin{At: s.o.Now(), Node: s.o.Node, Version: s.o.Version})
	if err != nil {
		s.o.Logger.Warn("snapshot not sent", slog.String("request_id", requestID(c)), slog.Any("err", err))
		panic(http.ErrAbortHandler) // the status is out: a cut connection says that there is more
	}
	s.o.Logger.Info("snapshot sent", slog.String("actor", actor(c).GetName()), slog.Uint64("revision", m.Revision), slog.String("request_id", requestID(c)))
	return nil
}

// noteSnapshot records who takes the state away. One that is taken without a leader can't be: what is left
// of a cluster must be there to be saved.
func (s *Server) noteSnapshot(c echo.Context, view *state.View) error {
	if isHead(c) {
		return nil
	}
	err := s.intend(c, actionSnapshot, "ControlPlane", view.ClusterID(), fmt.Sprintf("revision %d", view.Index()))
	if err != nil && c.QueryParam("consistency") == "stale" {
		s.o.Logger.Warn("snapshot not audited", slog.String("actor", actor(c).GetName()), slog.Any("err", err))
		return nil
	}
	return err
}

// pieces gives each piece of a long answer its own deadline: what bounds it is a client that stops
// reading, not its length.
type pieces struct {
	w  io.Writer
	rc *http.ResponseController
}

// Write writes b piece by piece.
func (p pieces) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		_ = p.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // recorders of tests have none
		n, err := p.w.Write(b[done:min(len(b), done+snapshotPiece)])
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}
