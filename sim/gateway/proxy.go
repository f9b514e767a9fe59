package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"anabranch/api/fleet"
)

// Headers of the field: what clients may say, what they may not, and what the gateway answers.
const (
	objectiveHeader    = "x-gateway-inference-objective"
	objectiveHeaderLLM = "x-llm-d-inference-objective"
	droppedHeader      = "x-llm-d-request-dropped-reason"
	destinationHeader  = "x-gateway-destination-endpoint"

	rejectedSaturated = "rejected-saturated"
)

// Codes are those of the endpoint picker's errors; each goes with a status.
const (
	codeBadRequest = "BadRequest"
	codeNoReady    = "ServiceUnavailable"
	codeSaturated  = "ResourceExhausted"
	codeUpstream   = "ModelServerError"
)

// maxBody bounds what is kept for a second try.
const maxBody = 32 << 20

// hopHeaders end at each hop (RFC 9110, section 7.6.1).
var hopHeaders = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// serve takes one request through the gateway.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	if g.firstScrape.wait(r.Context()) != nil {
		panic(http.ErrAbortHandler)
	}
	came := time.Now()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		g.refuse(w, "", http.StatusRequestEntityTooLarge, codeBadRequest, "the body is over the limit or incomplete")
		return
	}
	name := g.metrics.model(modelOf(body))
	if r.Method == http.MethodPost {
		defer g.metrics.begin(name)()
	}
	v := g.pool.view()
	if v.ready > 0 && g.sheds(r.Header, v.saturation) {
		w.Header().Set(droppedHeader, rejectedSaturated)
		w.Header().Set("Retry-After", "1")
		g.refuse(w, name, http.StatusTooManyRequests, codeSaturated, "system saturated, request dropped")
		return
	}
	resp, m, err := g.send(r, body)
	switch {
	case r.Context().Err() != nil:
		if resp != nil {
			_ = resp.Body.Close() // nobody reads it any more
			g.pool.release(m)
		}
		panic(http.ErrAbortHandler) // or a gateway that stops would answer with an empty 200
	case errors.Is(err, errNoEndpoint):
		g.refuse(w, name, http.StatusServiceUnavailable, codeNoReady, "no ready endpoint in the pool")
		return
	case err != nil:
		g.refuse(w, name, http.StatusServiceUnavailable, codeUpstream, "upstream connect error or disconnect/reset before headers")
		return
	}
	defer g.pool.release(m)
	g.relay(w, resp, name, came)
}

// sheds says whether a request is refused at this saturation.
func (g *Gateway) sheds(h http.Header, saturation float64) bool {
	if saturation >= g.opts.MaxSaturation {
		return true
	}
	objective := h.Get(objectiveHeader)
	if objective == "" {
		objective = h.Get(objectiveHeaderLLM)
	}
	return saturation >= 1 && slices.Contains(g.opts.Sheddable, objective)
}

// refuse answers in the endpoint picker's words.
func (g *Gateway) refuse(w http.ResponseWriter, model string, status int, code, message string) {
	g.metrics.fail(model, code)
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "inference error: %s - %s", code, message) // the client may be gone
}

var errNoEndpoint = errors.New("no ready endpoint")

// send tries pods until one takes the connection. With an answer the pod's request stays in
// flight: the caller closes the body and releases the pod.
func (g *Gateway) send(r *http.Request, body []byte) (*http.Response, *member, error) {
	tried := map[fleet.EndpointID]bool{}
	for {
		m := g.pool.pick(tried)
		if m == nil {
			return nil, nil, errNoEndpoint
		}
		resp, err := g.try(r, m, body)
		if err == nil {
			g.metrics.dispatched()
			return resp, m, nil
		}
		g.pool.release(m)
		var dial *net.OpError
		if !errors.As(err, &dial) || dial.Op != "dial" || r.Context().Err() != nil {
			return nil, nil, err
		}
		g.pool.miss(m, true)
		tried[m.ID] = true
	}
}

func (g *Gateway) try(r *http.Request, m *member, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, m.URL+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	maps.Copy(req.Header, endToEnd(r.Header))
	// Clients choose no pod, and their secrets are not the pod's business.
	for name := range req.Header {
		if strings.HasPrefix(strings.ToLower(name), destinationHeader) {
			req.Header.Del(name)
		}
	}
	req.Header.Del("Authorization")
	resp, err := g.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("send to %s: %w", m.ID, err)
	}
	return resp, nil
}

// relay copies an answer as it comes. A pod that breaks off breaks the client's connection too,
// for a clean end would say that all is there.
func (g *Gateway) relay(w http.ResponseWriter, resp *http.Response, model string, came time.Time) {
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	maps.Copy(w.Header(), endToEnd(resp.Header))
	w.WriteHeader(resp.StatusCode)
	if resp.StatusCode >= http.StatusInternalServerError {
		g.metrics.fail(model, codeUpstream)
	}
	rc := http.NewResponseController(w)
	if resp.ContentLength < 0 && rc.Flush() != nil { // the head of a stream doesn't wait for its body
		return
	}
	watch := g.metrics.start(came)
	var seen tail
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			watch.first(model)
			seen.add(buf[:n])
			_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // without one the connection's end decides
			if _, werr := w.Write(buf[:n]); werr != nil {
				return // the client is gone; closing the body tells the pod
			}
			if werr := rc.Flush(); werr != nil {
				return
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if resp.StatusCode == http.StatusOK {
				g.metrics.usage(model, seen.bytes())
			}
			return
		case err != nil:
			g.metrics.fail(model, codeUpstream)
			panic(http.ErrAbortHandler)
		}
	}
}

// endToEnd is a header without what ends at this hop.
func endToEnd(h http.Header) http.Header {
	out := h.Clone()
	for _, v := range h.Values("Connection") {
		for name := range strings.SplitSeq(v, ",") {
			out.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopHeaders {
		out.Del(name)
	}
	return out
}

// modelOf is the model that a body names; empty if it names none.
func modelOf(body []byte) string {
	var b struct {
		Model string `json:"model"`
	}
	if json.Unmarshal(body, &b) != nil {
		return ""
	}
	return b.Model
}
