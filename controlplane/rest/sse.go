package rest

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
)

// writeTimeout bounds one write to a watcher that does not read.
const writeTimeout = 10 * time.Second

// stream writes server-sent events, and gives up on a client that stops reading.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// errHeadersOnly ends a stream of which only the headers were asked for.
var errHeadersOnly = errors.New("only headers were asked for")

// openStream starts an event stream, unless the node serves too many; close gives the place back.
func (s *Server) openStream(c echo.Context) (st *stream, closed func(), err error) {
	if s.watches.Add(1) > MaxWatches {
		s.watches.Add(-1)
		return nil, nil, newProblem(codeBusy, fmt.Sprintf("This node serves %d watches already; try another node.", MaxWatches)).after(5 * time.Second)
	}
	s.gauge()
	closed = func() {
		s.watches.Add(-1)
		s.gauge()
	}
	w := c.Response()
	st = &stream{w: w, rc: http.NewResponseController(w)}
	// The server's read deadline is for the request; hitting it later would end the watch. Not all
	// writers have deadlines (recorders of tests do not), and then there is none to lift.
	_ = st.rc.SetReadDeadline(time.Time{})
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	if isHead(c) {
		closed()
		return nil, nil, errHeadersOnly
	}
	_ = st.rc.Flush() // there may be no event for long; a client that has left shows at the first
	return st, closed, nil
}

func (s *Server) gauge() {
	if s.metrics.watches != nil {
		s.metrics.watches.Set(float64(s.watches.Load()))
	}
}

// event sends one event; data is JSON on one line.
func (st *stream) event(id uint64, name string, data []byte) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "id: %d\nevent: %s\ndata: %s\n\n", id, name, data)
	return st.send(b.Bytes())
}

// heartbeat keeps the connection alive and moves the client's Last-Event-ID on.
func (st *stream) heartbeat(id uint64) error {
	return st.send([]byte(": heartbeat\nid: " + strconv.FormatUint(id, 10) + "\n\n"))
}

func (st *stream) send(b []byte) error {
	_ = st.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // as above
	if _, err := st.w.Write(b); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if err := st.rc.Flush(); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	return nil
}

// isWatch says whether the answer became an event stream.
func isWatch(c echo.Context) bool {
	return c.Response().Header().Get("Content-Type") == "text/event-stream"
}
