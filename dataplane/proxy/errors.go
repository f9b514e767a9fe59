package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Origin says which layer said no, so that nobody has to wonder.
type Origin string

// The layers.
const (
	FromRouter   Origin = "router"
	FromQuota    Origin = "quota"
	FromCluster  Origin = "cluster"
	FromEndpoint Origin = "endpoint"
)

// Types of an error, as OpenAI's API names them.
const (
	TypeInvalidRequest = "invalid_request_error"
	TypeServer         = "server_error"
	TypeRateLimit      = "rate_limit_exceeded"
	TypeBudget         = "insufficient_quota"
)

// Error is an answer that is not the model's, in OpenAI's shape.
type Error struct {
	// Status is the HTTP status of it.
	Status int
	// Message is for a person. It never quotes a prompt or a secret.
	Message string
	// Type is one of the types above, Code a stable word for programs.
	Type, Code string
	// Param names the field of the request that is wrong. Empty: none, null in JSON.
	Param  string
	Origin Origin
	// RetryAfter is when to try again, rounded up to seconds on the wire. 0: nothing to say.
	RetryAfter time.Duration
}

// Error is the code and the message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

type errorBody struct {
	Error errorFields `json:"error"`
}

type errorFields struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Code    string  `json:"code"`
	Param   *string `json:"param"`
	Origin  Origin  `json:"origin"`
}

// JSON is the body: {"error": {message, type, code, param, origin}}.
func (e *Error) JSON() []byte {
	b, err := json.Marshal(errorBody{e.fields()})
	if err != nil {
		panic(err) // strings can always be marshalled
	}
	return b
}

func (e *Error) fields() errorFields {
	f := errorFields{Message: e.Message, Type: e.Type, Code: e.Code, Origin: e.Origin}
	if e.Param != "" {
		f.Param = &e.Param
	}
	return f
}

// Event is the body as the one SSE event that ends a broken stream. Only whole events are ever sent
// on before it, so it stands on its own.
func (e *Error) Event() []byte {
	return append(append([]byte("data: "), e.JSON()...), "\n\n"...)
}

// event is the event for clients that tell events by their names if named: those of the responses and the
// messages API, each of which finds in it what its own errors have.
// https://docs.anthropic.com/en/docs/build-with-claude/streaming#error-events
// https://platform.openai.com/docs/api-reference/responses-streaming/error
func (e *Error) event(named bool) []byte {
	if !named {
		return e.Event()
	}
	f := e.fields()
	b, err := json.Marshal(struct {
		Type    string      `json:"type"`
		Code    string      `json:"code"`
		Message string      `json:"message"`
		Param   *string     `json:"param"`
		Error   errorFields `json:"error"`
	}{"error", f.Code, f.Message, f.Param, f})
	if err != nil {
		panic(err) // strings can always be marshalled
	}
	return append(append([]byte("event: error\ndata: "), b...), "\n\n"...)
}

// Write answers with the error. Nothing may have been written before.
func (e *Error) Write(w http.ResponseWriter) {
	body := e.JSON()
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	if e.RetryAfter > 0 && h.Get("Retry-After") == "" {
		h.Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
	}
	w.WriteHeader(e.Status)
	_, _ = w.Write(body) // the client may be gone, and there is nobody else to tell
}
