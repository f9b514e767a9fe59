package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Outcome is what a client got.
type Outcome int

// The outcomes.
const (
	// OK is a whole answer.
	OK Outcome = iota
	// Limited is a 429: over quota, as the tenant's limits want it.
	Limited
	// Broken is a stream that ended after its first content, with a well-formed error event.
	Broken
	// Failed is everything else.
	Failed
)

// Result is one finished request.
type Result struct {
	// Region that was asked, and the one that served; Served is empty when nobody did.
	Region, Served string
	Outcome        Outcome
	// Attempts that the router made, 0: not said.
	Attempts int
	// TTFT is the time to the first content, of streams only.
	TTFT, Latency time.Duration
	// Reason of a Failed or Broken, and the id to explain it by.
	Reason, RequestID string

	text string
}

// Bounds of what is read of an answer, in bytes.
const (
	maxAnswer = 8 << 20
	maxEvent  = 1 << 20
)

// send makes the request and judges the answer.
func send(ctx context.Context, h *http.Client, q request) Result {
	r := Result{Region: q.region, Outcome: Failed}
	start := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, q.url, bytes.NewReader(q.body))
	if err != nil {
		r.Reason = err.Error()
		return r
	}
	req.Header.Set("Authorization", "Bearer "+q.key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Anabranch-Session", q.session)
	resp, err := h.Do(req)
	if err != nil {
		r.Reason, r.Latency = root(err), time.Since(start)
		return r
	}
	defer func() { _ = resp.Body.Close() }() // only read
	r.Served = resp.Header.Get("X-Anabranch-Region")
	r.RequestID = resp.Header.Get("X-Anabranch-Request-Id")
	if n, err := strconv.Atoi(resp.Header.Get("X-Anabranch-Attempts")); err == nil {
		r.Attempts = n
	}
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		r.Outcome = Limited
	case resp.StatusCode != http.StatusOK:
		r.Reason = refusal(resp)
	case q.stream:
		r.readStream(resp.Body, start)
	default:
		r.readWhole(resp.Body)
	}
	r.Latency = time.Since(start)
	return r
}

// answer is what is read of whole answers, stream events and errors alike.
type answer struct {
	Choices []struct {
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
	} `json:"choices"`
	Error *struct {
		Message string `json:"message"`
		Code    any    `json:"code"`
		Origin  string `json:"origin"`
	} `json:"error"`
}

// refusal names an error answer by status, code and origin: few different texts, good to count.
func refusal(resp *http.Response) string {
	var a answer
	text := fmt.Sprintf("HTTP %d", resp.StatusCode)
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxEvent))
	if err != nil || json.Unmarshal(body, &a) != nil || a.Error == nil {
		return text + " not in the shape of an error"
	}
	return fmt.Sprintf("%s %v from %s", text, a.Error.Code, a.Error.Origin)
}

func (r *Result) readWhole(body io.Reader) {
	b, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	if err != nil {
		r.Reason = "answer cut: " + root(err)
		return
	}
	var a answer
	if err := json.Unmarshal(b, &a); err != nil || len(a.Choices) == 0 || a.Choices[0].Message.Content == "" {
		r.Reason = "answer without content"
		return
	}
	r.Outcome, r.text = OK, a.Choices[0].Message.Content
}

// readStream reads server-sent events until [DONE], an error event or the end.
func (r *Result) readStream(body io.Reader, start time.Time) {
	var text strings.Builder
	lines := bufio.NewScanner(io.LimitReader(body, maxAnswer))
	lines.Buffer(make([]byte, 0, 4096), maxEvent)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue
		}
		if data = strings.TrimSpace(data); data == "[DONE]" {
			if r.text = text.String(); r.text == "" {
				r.Reason = "stream without content"
				return
			}
			r.Outcome = OK
			return
		}
		var a answer
		if err := json.Unmarshal([]byte(data), &a); err != nil {
			r.Reason = "stream with an event that is no JSON"
			return
		}
		if a.Error != nil {
			r.Reason = fmt.Sprintf("stream error %v from %s", a.Error.Code, a.Error.Origin)
			if text.Len() > 0 {
				r.Outcome = Broken
			}
			return
		}
		if len(a.Choices) > 0 && a.Choices[0].Delta.Content != "" {
			if text.Len() == 0 {
				r.TTFT = time.Since(start)
			}
			text.WriteString(a.Choices[0].Delta.Content)
		}
	}
	r.Reason = "stream ended without [DONE] or an error event"
	if err := lines.Err(); err != nil {
		r.Reason += ": " + root(err)
	}
}

// root is the innermost error's text: without addresses and ports, so that like counts with like.
func root(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}
