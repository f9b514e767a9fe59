package proxy

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func TestErrorsOfPlacesSayWhoseTheyAre(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"vLLM": {
			`{"error":{"message":"List <1> & more","type":"BadRequestError","param":"messages","code":400}}`,
			`{"error":{"message":"List <1> & more","type":"BadRequestError","param":"messages","code":"400","origin":"endpoint"}}`,
		},
		"vLLM of old": {
			`{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}`,
			`{"error":{"message":"too long","type":"BadRequestError","param":null,"code":"400","origin":"endpoint"}}`,
		},
		"OpenAI": {
			`{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"context_length_exceeded"}}`,
			`{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"context_length_exceeded","origin":"endpoint"}}`,
		},
		"Anthropic": {
			`{"type":"error","error":{"type":"invalid_request_error","message":"m"},"request_id":"r"}`,
			`{"type":"error","error":{"type":"invalid_request_error","message":"m","code":"400","param":null,"origin":"endpoint"},"request_id":"r"}`,
		},
		"a text": {
			`{"error":"m","error_type":"validation"}`,
			`{"error":{"message":"m","type":"validation","code":"400","param":null,"origin":"endpoint"},"error_type":"validation"}`,
		},
		"FastAPI": {
			`{"detail":"m"}`,
			`{"detail":"m","error":{"message":"m","type":"invalid_request_error","code":"400","param":null,"origin":"endpoint"}}`,
		},
		"FastAPI's list": {
			`{"detail":[{"loc":["body"]}]}`,
			`{"detail":[{"loc":["body"]}],"error":{"message":"Bad Request","type":"invalid_request_error","code":"400","param":null,"origin":"endpoint"}}`,
		},
		"its own origin, and more": {
			`{"error":{"message":"m","type":"t","param":"p","code":"c","origin":"router","more":1.50}}`,
			`{"error":{"message":"m","type":"t","param":"p","code":"c","origin":"router","more":1.50}}`,
		},
		"null for everything": {
			`{"error":null,"message":null}`,
			`{"error":{"message":"Bad Request","type":"invalid_request_error","code":"400","param":null,"origin":"endpoint"},"message":null}`,
		},
	} {
		var got, want any
		raw := amended([]byte(c.body), 400, FromEndpoint)
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%s: %q: %v", name, raw, err)
		}
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s\nwant %s", name, raw, c.want)
		}
		if again := amended(raw, 400, FromCluster); string(again) != string(raw) {
			t.Errorf("%s: amended again it is %s", name, again)
		}
	}
	large := `{"error":{"message":"` + strings.Repeat("x", maxAmended) + `"}}`
	for _, body := range []string{"", "no", "[1]", "null", `"x"`, `{"error":`, large} {
		if got := amended([]byte(body), 400, FromEndpoint); string(got) != body {
			t.Errorf("%.40q became %.80q", body, got)
		}
	}
}

func TestOnlyErrorsOfAPlaceItselfAreAmended(t *testing.T) {
	const body = `{"error":{"code":400,"message":"m"}}`
	for name, c := range map[string]struct {
		status  int
		header  string
		attempt func(*Attempt)
		want    string
	}{
		"an endpoint's": {status: 400, want: `"origin":"endpoint"`},
		"a gateway's":   {status: 422, attempt: func(a *Attempt) { a.Origin = FromCluster }, want: `"origin":"cluster"`},
		"a peer's":      {status: 400, attempt: func(a *Attempt) { a.Peer = true }, want: body},
		"compressed":    {status: 400, header: "br", want: body},
	} {
		u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if c.header != "" {
				w.Header().Set("Content-Encoding", c.header)
			}
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(body))
		})
		f := edge(t, u.URL, c.attempt)
		status, got, err := f.post(t)
		if status != c.status || err != nil || !strings.Contains(got, c.want) || c.want == body && got != body {
			t.Errorf("%s: %d %q, %v", name, status, got, err)
		}
		if r := f.result(t); !r.Committed || r.Retryable {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func FuzzAmended(f *testing.F) {
	for _, seed := range []string{
		`{"error":{"code":400,"message":"m","param":null,"type":"BadRequestError"}}`,
		`{"object":"error","message":"m","code":{}}`, `{"detail":[]}`, `{"error":[]}`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := amended(body, 400, FromEndpoint)
		var top map[string]json.RawMessage
		if len(body) > maxAmended || json.Unmarshal(body, &top) != nil || top == nil {
			if string(got) != string(body) {
				t.Fatalf("%q became %q", body, got)
			}
			return
		}
		var shape map[string]any
		if err := json.Unmarshal(got, &shape); err != nil {
			t.Fatalf("%q became %q: %v", body, got, err)
		}
		fields, _ := shape["error"].(map[string]any) // nil has none of them
		if _, ok := fields["code"].(string); !ok {
			t.Errorf("%q: no code in %q", body, got)
		}
		for _, name := range []string{"message", "type", "param", "origin"} {
			if _, ok := fields[name]; !ok {
				t.Errorf("%q: no %s in %q", body, name, got)
			}
		}
	})
}
