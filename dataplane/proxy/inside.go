package proxy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"anabranch/dataplane/inference"
	"anabranch/failover"
)

// errorInside judges an error that came under a status of success, as model servers send them that
// find out too late: like an answer with the status that it names, or a server's fault.
func (x *exchange) errorInside(body []byte) {
	r := &x.result
	e := inside(body)
	if e.status > 0 {
		r.Status = e.status
	}
	switch {
	case x.refused(e.status, "", nil):
	case e.status >= 400:
		r.Outcome, r.Retryable = failover.Ignored, x.a.Resume != nil // what continues it is this router's request
		r.Err = &Error{Status: e.status, Message: e.message, Type: TypeInvalidRequest, Code: strconv.Itoa(e.status), Origin: x.origin()}
	default:
		r.Outcome, r.Retryable = failover.ServerFault, true
		r.Err = x.fault("upstream_error", "the place sent an error in place of an answer")
	}
}

// isError is [inference.IsError], quick about what is none.
func isError(body []byte) bool {
	return bytes.Contains(body, []byte(`"error"`)) && inference.IsError(body)
}

// told is an error that stands inside an answer.
type told struct {
	status  int // 0: the server's, or not known
	message string
}

// inside reads an error in OpenAI's shape, vLLM's or Anthropic's. What is not plainly the client's
// to mend is the server's.
func inside(body []byte) told {
	var flat toldFields
	var whole struct {
		Error    json.RawMessage `json:"error"`
		Response struct {
			Error json.RawMessage `json:"error"`
		} `json:"response"` // of the event response.failed
	}
	if json.Unmarshal(body, &whole) != nil {
		return told{}
	}
	for _, inner := range []json.RawMessage{whole.Error, whole.Response.Error, body} {
		if len(inner) > 0 && inner[0] == '{' && json.Unmarshal(inner, &flat) == nil {
			break
		}
	}
	return told{flat.status(), flat.Message}
}

type toldFields struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    any    `json:"code"` // a word or a status
}

// kinds are the words that model servers and providers have for what a status says too.
var kinds = map[string]int{
	"badrequesterror":       http.StatusBadRequest, // vLLM and SGLang
	"notfounderror":         http.StatusNotFound,
	"invalid_request_error": http.StatusBadRequest, // OpenAI and Anthropic
	"invalid_prompt":        http.StatusBadRequest,
	"not_found_error":       http.StatusNotFound,
	"rate_limit_error":      http.StatusTooManyRequests,
	"rate_limit_exceeded":   http.StatusTooManyRequests,
	"overloaded_error":      http.StatusTooManyRequests,
}

func (e toldFields) status() int {
	n := 0
	switch code := e.Code.(type) {
	case float64:
		n = int(code)
	case string:
		if n, _ = strconv.Atoi(code); n == 0 { // a word
			n = kinds[strings.ToLower(code)]
		}
	}
	if n == 0 {
		n = kinds[strings.ToLower(e.Type)]
	}
	if n < 400 || n > 599 {
		return 0
	}
	return n
}
