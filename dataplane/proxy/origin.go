package proxy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// maxAmended bounds the errors of places that are amended, in bytes; those of model servers are
// some hundred.
const maxAmended = 64 << 10

// amended is a place's error in the shape that every error has here: what it lacks of message, type,
// code, param and origin is added, and a code that is a number becomes a string. The rest stays as
// it came. The shapes known are OpenAI's, with Anthropic's and a mere text in the place of the
// object; vLLM's of old, {"object":"error","message":…}; and {"detail":…} of FastAPI. What is no
// JSON object, or too large, stays as it is.
func amended(body []byte, status int, origin Origin) []byte {
	if len(body) > maxAmended {
		return body
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(body, &top) != nil || top == nil {
		return body
	}
	fields := map[string]json.RawMessage{}
	switch {
	case isText(top["error"]):
		fields["message"] = top["error"]
		if isText(top["error_type"]) {
			fields["type"] = top["error_type"]
		}
	case json.Unmarshal(top["error"], &fields) == nil && fields != nil:
	case isText(top["message"]):
		fields, top = top, map[string]json.RawMessage{}
		delete(fields, "object")
	default:
		fields = map[string]json.RawMessage{}
		if isText(top["detail"]) {
			fields["message"] = top["detail"]
		}
	}
	add := func(name string, value any) {
		if raw := fields[name]; raw == nil || string(raw) == "null" {
			fields[name] = encode(value)
		}
	}
	add("message", http.StatusText(status))
	add("type", TypeInvalidRequest)
	add("code", strconv.Itoa(status))
	add("param", nil)
	add("origin", origin)
	if code := fields["code"]; !isText(code) {
		fields["code"] = encode(string(code))
	}
	top["error"] = encode(fields)
	return encode(top)
}

func isText(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

// encode writes JSON without the escapes that only HTML wants.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // strings, and JSON that was read, can always be written
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
