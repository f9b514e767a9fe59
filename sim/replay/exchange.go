package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/proxy"
	"anabranch/sim/workload"
)

// paths of the APIs.
var paths = map[API]string{Chat: "/v1/chat/completions", Completions: "/v1/completions"}

// do sends a request and reads its answer to the end.
func (r *run) do(ctx context.Context, where string, q workload.Request, due time.Duration) Record {
	body := encode(q, r.opts)
	q.Blocks = nil
	rec := Record{Request: q, Due: due}
	sending, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	rec.Sent = time.Since(r.start)
	rec.Code = r.exchange(sending, cancel, where, body, &rec)
	if rec.Code != "" {
		rec.Ended = time.Since(r.start)
		switch {
		case ctx.Err() != nil:
			rec.Code = CodeCanceled
		case sending.Err() != nil:
			rec.Code = CodeTimeout
		}
	}
	return rec
}

// rest is how long a target may take to end a stream whose last event it has sent. Read to its end, a
// connection can be used again.
const rest = time.Second

// exchange does the talking; it returns the code of the record.
func (r *run) exchange(ctx context.Context, cancel context.CancelFunc, where string, body []byte, rec *Record) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, where, bytes.NewReader(body))
	if err != nil {
		return CodeConnect
	}
	r.headers(req.Header, rec.Request)
	resp, err := r.client.Do(req)
	if err != nil {
		return CodeConnect
	}
	defer resp.Body.Close()
	rec.Status = resp.StatusCode
	rec.Region = fleet.RegionID(told(resp.Header, proxy.HeaderRegion))
	rec.Cluster = fleet.ClusterID(told(resp.Header, proxy.HeaderCluster))
	rec.Endpoint = fleet.EndpointID(told(resp.Header, proxy.HeaderEndpoint))
	rec.Attempts, _ = strconv.Atoi(told(resp.Header, proxy.HeaderAttempts))
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return CodeMalformed
	}
	code := readStream(resp.Body, rec, func() time.Duration { return time.Since(r.start) })
	if code == "" {
		rec.Ended = time.Since(r.start)
		defer time.AfterFunc(rest, cancel).Stop()
		// How the rest ends makes no difference to the answer.
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	return code
}

// told is a header's value, cut to the length of a name.
func told(h http.Header, name string) string {
	v := h.Get(name)
	return v[:min(len(v), fleet.MaxNameLength)]
}

func (r *run) headers(h http.Header, q workload.Request) {
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "text/event-stream")
	key := r.opts.Keys[q.Tenant]
	if key == "" {
		key = r.opts.Key
	}
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
	if q.Session != 0 {
		h.Set("X-Anabranch-Session", strconv.FormatUint(q.Session, 16))
	}
	if r.opts.Priority {
		h.Set(proxy.HeaderPriority, strconv.Itoa(int(q.Priority)))
	}
}

// encode makes the body of a request. Its text needs no escapes.
func encode(q workload.Request, o Options) []byte {
	model := q.Adapter
	if model == "" {
		model = string(q.Model)
	}
	if model == "" {
		model = string(o.Model)
	}
	name, err := json.Marshal(model)
	if err != nil {
		name = []byte(`""`) // a string always has a form in JSON
	}
	text := workload.Text(q)
	b := make([]byte, 0, len(text)+256)
	b = append(append(b, `{"model":`...), name...)
	if o.API == Completions {
		b = append(append(append(b, `,"prompt":"`...), text...), '"')
	} else {
		b = append(append(append(b, `,"messages":[{"role":"user","content":"`...), text...), `"}]`...)
	}
	n := strconv.Itoa(q.OutputTokens)
	b = append(append(b, `,"max_tokens":`...), n...)
	if o.IgnoreEOS {
		b = append(append(b, `,"ignore_eos":true,"min_tokens":`...), n...)
	}
	return append(b, `,"stream":true,"stream_options":{"include_usage":true}}`...)
}

// apiError is an error in the shape of OpenAI's.
type apiError struct {
	Error *struct {
		Type string          `json:"type"`
		Code json.RawMessage `json:"code"` // a string, a number or null
	} `json:"error"`
}

// name is its code or else its type; ok: there is an error.
func (e *apiError) name() (string, bool) {
	if e.Error == nil {
		return "", false
	}
	code := strings.Trim(string(e.Error.Code), `"`)
	if code == "" || code == "null" {
		code = e.Error.Type
	}
	return word(code), true
}

// word keeps what looks like a code, so that no text of an answer gets into a record.
func word(s string) string {
	s = strings.ToLower(s)
	strange := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.'
	}
	if s == "" || len(s) > 64 || strings.ContainsFunc(s, strange) {
		return "error"
	}
	return s
}

// refusal is the code of an answer that is not 200.
func refusal(resp *http.Response) string {
	var e apiError
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err == nil && json.Unmarshal(body, &e) == nil {
		if code, ok := e.name(); ok {
			return code
		}
	}
	return "status_" + strconv.Itoa(resp.StatusCode)
}
