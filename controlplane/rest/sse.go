package rest

import (
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// writeTimeout bounds one write to a watcher that does not read.
const writeTimeout = 10 * time.Second

// stream writes server-sent events, and gives up on a client that stops reading.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
	gz *gzip.Writer // nil: events go as they are
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
	return st.named(strconv.FormatUint(id, 10), name, data)
}

// named is event for ids that are no numbers.
func (st *stream) named(id, name string, data []byte) error {
	b := make([]byte, 0, len(data)+len(id)+len(name)+len("id: \nevent: \ndata: \n\n"))
	b = append(append(b, "id: "...), id...)
	b = append(append(b, "\nevent: "...), name...)
	b = append(append(b, "\ndata: "...), data...)
	return st.send(append(b, "\n\n"...))
}

// heartbeat keeps the connection alive and moves the client's Last-Event-ID on.
func (st *stream) heartbeat(id uint64) error {
	return st.send([]byte(": heartbeat\nid: " + strconv.FormatUint(id, 10) + "\n\n"))
}

func (st *stream) send(b []byte) error {
	_ = st.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // as above
	if err := st.write(b); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if err := st.rc.Flush(); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	return nil
}

func (st *stream) write(b []byte) error {
	if st.gz == nil {
		_, err := st.w.Write(b)
		return err
	}
	if _, err := st.gz.Write(b); err != nil {
		return err
	}
	return st.gz.Flush()
}

// end writes what compression holds back.
func (st *stream) end() {
	if st.gz != nil {
		_ = st.rc.SetWriteDeadline(time.Now().Add(time.Second)) // to a client that may have left
		_ = st.gz.Close()
	}
}

// maxGzipped is how many streams a node compresses at a time: each takes a megabyte or so.
const maxGzipped = 64

// gzips says whether a stream is to be compressed, as its client takes it and there are not too many, and tells so
// in the header: before the stream is opened. Compress begins it when it is open; done gives the place back.
func (s *Server) gzips(c echo.Context) (compress func(*stream), done func()) {
	c.Response().Header().Add(echo.HeaderVary, echo.HeaderAcceptEncoding)
	if !takesGzip(c.Request().Header.Get(echo.HeaderAcceptEncoding)) || isHead(c) {
		return func(*stream) {}, func() {}
	}
	if s.gzipped.Add(1) > maxGzipped {
		s.gzipped.Add(-1)
		return func(*stream) {}, func() {}
	}
	c.Response().Header().Set(echo.HeaderContentEncoding, "gzip")
	return func(st *stream) {
		st.gz, _ = gzip.NewWriterLevel(st.w, gzip.BestSpeed) // which there is
	}, func() { s.gzipped.Add(-1) }
}

// takesGzip reads a header Accept-Encoding, as browsers and programs write it.
func takesGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		coding, weight, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			return strings.ReplaceAll(strings.TrimSpace(weight), " ", "") != "q=0"
		}
	}
	return false
}

// isWatch says whether the answer became an event stream.
func isWatch(c echo.Context) bool {
	return c.Response().Header().Get("Content-Type") == "text/event-stream"
}
