package dataplane

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestTheOperatorsPages(t *testing.T) {
	w, _ := one(t)
	n := w.routers[us]
	n.o.Control = func() ControlStatus { return ControlStatus{Connected: true, Node: "n1", LastContact: time.Unix(1, 0)} }
	secret := "the prompt nobody else may read"
	r := w.ask(us, "acme", strings.Replace(askWhole, "hello", secret, 1))
	w.ask(us, "nobody", askWhole)
	id := r.header.Get("X-Anabranch-Request-Id")
	w.record(us, r)
	w.eventually("both are counted", func() bool {
		strangers := n.metrics.requests.WithLabelValues("client", none, none, "401", "invalid_api_key")
		return n.ended.Load() == 1 && testutil.ToFloat64(strangers) == 1
	})
	page := func(path string) got { return w.get(http.MethodGet, n.admin.URL+path, "", "") }

	for path, want := range map[string]struct {
		status int
		holds  []string
	}{
		"/healthz":       {200, []string{"ok"}},
		"/readyz":        {200, []string{"ready"}},
		"/table":         {200, []string{`"revision"`, `"us-a"`}},
		"/explain/" + id: {200, []string{`"cluster": "us-a"`, `"candidates"`, `"attempts"`, `"status": 200`, `"promptTokens"`, `"weight": 1`}},
		"/explain/none":  {404, []string{"error"}},
		"/status":        {200, []string{`"revision": 5`, `"connected": true`, `"us-a"`, `"e1"`}},
		"/metrics": {200, []string{
			`anabranch_router_requests_total{cluster="us-a",code="ok",from="client",model="llama",status="200"} 1`,
			`anabranch_router_requests_total{cluster="none",code="invalid_api_key",from="client",model="none",status="401"} 1`,
			`anabranch_router_attempts_total{cluster="us-a",kind="first",outcome="ok"} 1`,
			`anabranch_router_table_revision 5`, `anabranch_router_cluster_ejected{cluster="us-a"} 0`,
			`gen_ai_server_request_duration_seconds_count{cluster="us-a",gen_ai_request_model="llama"} 1`,
		}},
	} {
		r := page(path)
		if r.status != want.status {
			t.Errorf("%s: %d", path, r.status)
		}
		for _, text := range want.holds {
			if !strings.Contains(r.body, text) {
				t.Errorf("%s has no %s in\n%s", path, text, r.body)
			}
		}
		if strings.Contains(r.body, secret) || strings.Contains(r.body, "acme-key") || strings.Contains(r.body, "keySha256") {
			t.Errorf("%s shows what it must not", path)
		}
	}
	if r := w.get(http.MethodPost, n.admin.URL+"/table", "", ""); r.status != 405 {
		t.Errorf("a POST: %d", r.status)
	}
}

func TestADrainingRouterIsNotReadyAndServesOn(t *testing.T) {
	w, _ := one(t)
	n := w.routers[us]
	n.Drain()
	if r := w.get(http.MethodGet, n.admin.URL+"/readyz", "", ""); r.status != 503 || !strings.Contains(r.body, "draining") {
		t.Errorf("%d %q", r.status, r.body)
	}
	if r := w.ask(us, "acme", askWhole); r.status != 200 {
		t.Errorf("a request: %d", r.status)
	}
}

func TestPagesWithoutATable(t *testing.T) {
	w, _ := one(t)
	n := w.routers[us]
	n.tables.Store(nil)
	for path, want := range map[string]int{"/readyz": 503, "/healthz": 200, "/table": 404, "/status": 200, "/metrics": 200} {
		if r := w.get(http.MethodGet, n.admin.URL+path, "", ""); r.status != want {
			t.Errorf("%s: %d, want %d", path, r.status, want)
		}
	}
}

func TestAStreamsTimesAreMeasured(t *testing.T) {
	w, _ := one(t)
	r := w.ask(us, "acme", askStream)
	w.record(us, r)
	n := w.routers[us]
	w.eventually("it is counted", func() bool { return n.ended.Load() == 1 })
	body := w.get(http.MethodGet, n.admin.URL+"/metrics", "", "").body
	for _, name := range []string{"gen_ai_server_time_to_first_token_seconds", "gen_ai_server_time_per_output_token_seconds"} {
		if !strings.Contains(body, name+`_count{cluster="us-a",gen_ai_request_model="llama"} 1`) {
			t.Errorf("%s was not observed", name)
		}
	}
	var rec Record
	if err := json.Unmarshal([]byte(w.get(http.MethodGet, n.admin.URL+"/explain/"+r.header.Get("X-Anabranch-Request-Id"), "", "").body), &rec); err != nil {
		t.Fatal(err)
	}
	if rec.FirstByteMs <= 0 || rec.TotalMs < rec.FirstByteMs || rec.Usage.Prompt != 11 || rec.Usage.Completion != 3 || !rec.Stream {
		t.Errorf("record %+v", rec)
	}
}
