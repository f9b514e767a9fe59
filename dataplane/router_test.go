package dataplane

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"anabranch/api/routerpb"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/table"
)

// one is a world of one region with one healthy endpoint.
func one(t testing.TB) (*world, *stub) {
	s := newStub(t, answers)
	return newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, nil), s
}

func TestARequestIsAnsweredAndSaysWhereFrom(t *testing.T) {
	w, s := one(t)
	for name, body := range map[string]string{"whole": askWhole, "stream": askStream} {
		t.Run(name, func(t *testing.T) {
			r := w.ask(us, "acme", body, "X-Request-Id", "mine-1", "Traceparent", "00-1-2-01")
			if r.status != 200 || r.err != nil {
				t.Fatalf("%d %q, %v", r.status, r.body, r.err)
			}
			want := whole
			if name == "stream" {
				want = role + content + content + content + finish + done // the usage event was not asked for
			}
			if r.body != want {
				t.Errorf("body %q, want %q", r.body, want)
			}
			for key, want := range map[string]string{
				"X-Anabranch-Region": us, "X-Anabranch-Cluster": "us-a", "X-Anabranch-Endpoint": "e1",
				"X-Anabranch-Attempts": "1", "X-Request-Id": "mine-1",
			} {
				if got := r.header.Get(key); got != want {
					t.Errorf("%s: %q, want %q", key, got, want)
				}
			}
			if id := r.header.Get("X-Anabranch-Request-Id"); !strings.HasPrefix(id, "r-us-east-1-") || len(id) != len("r-us-east-1-")+16 {
				t.Errorf("request id %q", id)
			}
			seen := *s.seen.Load()
			for key, want := range map[string]string{
				"X-Gateway-Inference-Fairness-Id": "acme", "X-Gateway-Inference-Objective": "top",
				"Authorization": "", "X-Request-Id": "mine-1", "Traceparent": "00-1-2-01",
			} {
				if got := seen.Get(key); got != want {
					t.Errorf("the place saw %s: %q, want %q", key, got, want)
				}
			}
			w.idle()
		})
	}
}

func TestAskingForUsageGetsIt(t *testing.T) {
	w, _ := one(t)
	r := w.ask(us, "acme", `{"model":"llama","stream":true,"stream_options":{"include_usage":true},"messages":[]}`)
	if !strings.Contains(r.body, counted) {
		t.Errorf("body %q", r.body)
	}
}

func TestNamesOfModelsReachThePlaceAsItKnowsThem(t *testing.T) {
	w, s := one(t)
	for asked, want := range map[string]string{"llama": "llama", "best": "llama", "legal": "legal"} {
		w.ask(us, "acme", fmt.Sprintf(`{"model":%q,"messages":[]}`, asked))
		if body := string(*s.body.Load()); body != fmt.Sprintf(`{"model":%q,"messages":[]}`, want) {
			t.Errorf("asked for %s, the place got %s", asked, body)
		}
	}
}

func TestClientsCanOnlyLowerTheirPriority(t *testing.T) {
	w, s := one(t)
	for name, c := range map[string]struct {
		tenant              string
		headers             []string
		objective, fairness string
	}{
		"by tier":             {"globex", nil, "standard", "globex"},
		"higher by number":    {"globex", []string{"X-Anabranch-Priority", "1000"}, "standard", "globex"},
		"higher by name":      {"globex", []string{"X-Gateway-Inference-Objective", "top"}, "standard", "globex"},
		"lower by number":     {"acme", []string{"X-Anabranch-Priority", "0"}, "best-effort", "acme"},
		"lower by name":       {"acme", []string{"X-Gateway-Inference-Objective", "batch"}, "batch", "acme"},
		"below the lowest":    {"acme", []string{"X-Anabranch-Priority", "-99"}, "batch", "acme"},
		"not a number":        {"acme", []string{"X-Anabranch-Priority", "high"}, "top", "acme"},
		"a flow of its own":   {"globex", []string{"X-Gateway-Inference-Fairness-Id", "team-1"}, "standard", "globex/team-1"},
		"another's flow":      {"globex", []string{"X-Gateway-Inference-Fairness-Id", "acme"}, "standard", "globex/acme"},
		"a flow beyond names": {"globex", []string{"X-Gateway-Inference-Fairness-Id", strings.Repeat("x", 65)}, "standard", "globex"},
	} {
		w.ask(us, c.tenant, askWhole, c.headers...)
		seen := *s.seen.Load()
		if got := seen.Get("X-Gateway-Inference-Objective"); got != c.objective {
			t.Errorf("%s: objective %q, want %q", name, got, c.objective)
		}
		if got := seen.Get("X-Gateway-Inference-Fairness-Id"); got != c.fairness {
			t.Errorf("%s: fairness %q, want %q", name, got, c.fairness)
		}
	}
}

func TestRefusalsNameTheReasonInOpenAIsShape(t *testing.T) {
	w, s := one(t)
	front := w.routers[us].front.URL
	chat := front + "/v1/chat/completions"
	for name, c := range map[string]struct {
		method, url, tenant, body string
		status                    int
		code, param, origin       string
	}{
		"no key":          {"POST", chat, "", askWhole, 401, "invalid_api_key", "", "router"},
		"unknown key":     {"POST", chat, "nobody", askWhole, 401, "invalid_api_key", "", "router"},
		"unknown model":   {"POST", chat, "acme", `{"model":"gpt-9"}`, 404, "model_not_found", "model", "router"},
		"no model":        {"POST", chat, "acme", `{"messages":[]}`, 400, "invalid_request", "model", "router"},
		"no JSON":         {"POST", chat, "acme", `{"model":"llama"`, 400, "invalid_request", "", "router"},
		"wrong type":      {"POST", chat, "acme", `{"model":"llama","stream":"yes"}`, 400, "invalid_request", "stream", "router"},
		"too large":       {"POST", chat, "acme", `{"model":"llama","x":"` + strings.Repeat("x", maxBody) + `"}`, 413, "request_too_large", "", "router"},
		"not served":      {"POST", chat, "acme", `{"model":"lonely"}`, 503, "no_legal_target", "", "router"},
		"residency":       {"POST", chat, "initech", askWhole, 503, "no_legal_target", "", "router"},
		"another method":  {"GET", chat, "acme", "", 405, "method_not_allowed", "", "router"},
		"posting models":  {"POST", front + "/v1/models", "acme", "", 405, "method_not_allowed", "", "router"},
		"another page":    {"POST", front + "/admin", "acme", askWhole, 404, "unknown_url", "", "router"},
		"a crooked path":  {"POST", front + "/v1/../metrics", "acme", askWhole, 404, "unknown_url", "", "router"},
		"adapters":        {"POST", front + "/v1/load_lora_adapter", "acme", askWhole, 404, "unknown_url", "", "router"},
		"a missing model": {"GET", front + "/v1/models/gpt-9", "acme", "", 404, "model_not_found", "model", "router"},
		"models, no key":  {"GET", front + "/v1/models", "", "", 401, "invalid_api_key", "", "router"},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.get(c.method, c.url, c.tenant, c.body)
			if r.status != c.status {
				t.Fatalf("status %d %q, want %d", r.status, r.body, c.status)
			}
			e := r.problem(t)
			if e["code"] != c.code || e["origin"] != c.origin {
				t.Errorf("error %v, want code %s of %s", e, c.code, c.origin)
			}
			if got, _ := e["param"].(string); got != c.param {
				t.Errorf("param %v, want %q", e["param"], c.param)
			}
			if r.header.Get("X-Anabranch-Request-Id") == "" || r.header.Get("Content-Type") != "application/json" {
				t.Errorf("headers %v", r.header)
			}
			if c.status == 401 && r.header.Get("WWW-Authenticate") != "Bearer" {
				t.Error("no WWW-Authenticate")
			}
		})
	}
	if n := s.requests.Load(); n != 0 {
		t.Errorf("%d of them reached a place", n)
	}
	w.idle()
}

func TestABodyWithoutALengthIsBoundedToo(t *testing.T) {
	w, _ := one(t)
	long := io.MultiReader(strings.NewReader(`{"model":"llama","x":"`), strings.NewReader(strings.Repeat("x", maxBody)), strings.NewReader(`"}`))
	q, err := http.NewRequest(http.MethodPost, w.routers[us].front.URL+"/v1/chat/completions", long)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer acme-key")
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestOverQuotaIs429WithTheNumbers(t *testing.T) {
	w, s := one(t)
	w.run()
	r := w.ask(us, "globex", askWhole)
	if r.status != 200 || r.header.Get("X-Ratelimit-Limit-Requests") != "1000000" || r.header.Get("X-Ratelimit-Remaining-Requests") != "999999" {
		t.Errorf("%d %v", r.status, r.header)
	}
	w.ledger.denies(true)
	before, passed := s.requests.Load(), int64(0)
	for r = w.ask(us, "globex", askWhole); r.status == 200 && passed < 60; passed++ {
		r = w.ask(us, "globex", askWhole) // what is held already is spent
	}
	if r.status != 429 || r.header.Get("Retry-After") == "" || r.header.Get("X-Ratelimit-Limit-Requests") != "1000000" {
		t.Errorf("%d %v", r.status, r.header)
	}
	if e := r.problem(t); e["code"] != "rate_limit_exceeded" || e["type"] != "rate_limit_exceeded" || e["origin"] != "quota" {
		t.Errorf("error %v", e)
	}
	if q := w.record(us, r).Quota; q == nil || q.Limit == "" || q.Reason != "over_limit" || q.Message != r.problem(t)["message"] {
		t.Errorf("its record says of the quota %+v", q)
	}
	if s.requests.Load() != before+passed {
		t.Error("it reached a place")
	}
	if r := w.ask(us, "acme", askWhole); r.status != 200 {
		t.Errorf("a tenant without quotas: %d", r.status)
	}
}

func TestWithoutATableNothingIsReady(t *testing.T) {
	w, _ := one(t)
	n := w.routers[us]
	n.tables.Store(nil)
	r := w.ask(us, "acme", askWhole)
	if r.status != 503 || r.problem(t)["code"] != "no_table" || r.header.Get("Retry-After") == "" {
		t.Errorf("%d %q", r.status, r.body)
	}
	if ready, why := n.Ready(); ready || why == "" {
		t.Errorf("ready %v, %q", ready, why)
	}
}

func TestMoreRequestsThanAllowedAreDeclined(t *testing.T) {
	w, s := one(t)
	arrived, leave := make(chan struct{}), make(chan struct{})
	s.does(func(rw http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-leave
		answers(rw, r)
	})
	w.routers[us].o.MaxInFlight = 1
	first := make(chan got, 1)
	go func() { first <- w.ask(us, "acme", askStream) }()
	<-arrived
	if r := w.ask(us, "acme", askWhole); r.status != 503 || r.problem(t)["code"] != "router_busy" {
		t.Errorf("%d %q", r.status, r.body)
	}
	close(leave)
	if r := <-first; r.status != 200 {
		t.Errorf("the first: %d", r.status)
	}
	w.idle()
}

func TestModelsAreThoseThatTheTenantMayUse(t *testing.T) {
	w, _ := one(t)
	url := w.routers[us].front.URL + "/v1/models"
	r := w.get(http.MethodGet, url, "acme", "")
	for _, id := range []string{"llama", "best", "legal"} {
		if !strings.Contains(r.body, `"id":"`+id+`"`) {
			t.Errorf("%s is not in %s", id, r.body)
		}
	}
	if strings.Contains(r.body, "lonely") {
		t.Errorf("a model that nobody serves is in %s", r.body)
	}
	if r := w.get(http.MethodGet, url, "initech", ""); !strings.Contains(r.body, `"data":[]`) {
		t.Errorf("initech, whose data stays in the eu, sees %s", r.body)
	}
	if r := w.get(http.MethodGet, url+"/legal", "acme", ""); r.status != 200 || !strings.Contains(r.body, `"parent":"llama"`) {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestAGatewayIsSentToAsItIs(t *testing.T) {
	s := newStub(t, answers)
	w := newWorld(t, []site{{id: "us-gw", region: us, weight: 1, gateway: true, endpoints: []*stub{s}}}, nil)
	r := w.ask(us, "acme", askStream)
	if r.status != 200 || r.header.Get("X-Anabranch-Cluster") != "us-gw" {
		t.Errorf("%d %v", r.status, r.header)
	}
}

func TestACredentialIsReadWhereTheTableSays(t *testing.T) {
	t.Setenv("US_A_TOKEN", "s3cret")
	s := newStub(t, answers)
	auth := &routerpb.Credential{Type: "bearer", Env: "US_A_TOKEN"}
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, func(pb *routerpb.Table) {
		pb.Clusters[0].Auth = []*routerpb.Credential{auth}
	})
	r := w.ask(us, "acme", askWhole)
	if seen := *s.seen.Load(); seen.Get("Authorization") != "Bearer s3cret" {
		t.Errorf("the place saw %q", seen.Get("Authorization"))
	}
	if strings.Contains(fmt.Sprint(r.header, r.body, *w.record(us, r)), "s3cret") {
		t.Error("the secret came out")
	}
	auth.Env = "NOT_SET"
	w.apply()
	if r := w.ask(us, "acme", askWhole); r.status != 502 || r.problem(t)["code"] != "credential_missing" {
		t.Errorf("%d %q", r.status, r.body)
	}
}

func TestARequestKeepsItsTable(t *testing.T) {
	w, s := one(t)
	s.does(func(rw http.ResponseWriter, r *http.Request) {
		w.table.Ref.Revision++ // while the request is under way
		w.apply()
		answers(rw, r)
	})
	r := w.ask(us, "acme", askWhole)
	if rec := w.record(us, r); rec.Revision != 5 || w.routers[us].tables.Load().Ref.Revision != 6 {
		t.Errorf("the record says table %d", rec.Revision)
	}
}

func TestReportsCountSinceTheLast(t *testing.T) {
	w, s := one(t)
	n := w.routers[us]
	n.Report(n.now())
	w.ask(us, "acme", askWhole)
	s.does(says(500))
	w.ask(us, "acme", askWhole)
	w.idle()
	w.eventually("both are counted", func() bool { return n.ended.Load() == 2 })
	r := n.Report(n.now())
	if r.GetRequests() != 2 || r.GetFailures() != 1 || r.GetApplied().GetRevision() != 5 || !r.GetQuotaStoreOk() {
		t.Errorf("report %v", r)
	}
	if len(r.GetClusters()) != 1 || r.GetClusters()[0].GetRequests() != 2 || r.GetClusters()[0].GetFailures() != 1 {
		t.Errorf("clusters %v", r.GetClusters())
	}
	if len(r.GetDemand()) != 1 || r.GetDemand()[0].GetModel() != "llama" || r.GetDemand()[0].GetClass() != "interactive" {
		t.Errorf("demand %v", r.GetDemand())
	}
	if again := n.Report(n.now()); again.GetRequests() != 0 || again.GetFailures() != 0 {
		t.Errorf("again %v", again)
	}
}

func TestOptionsNameWhatIsMissing(t *testing.T) {
	complete := func() Options {
		return Options{Router: "r", Region: us, Tables: &table.Holder{}, Quotas: admit.Own(&ledger{})}
	}
	for field, unset := range map[string]func(*Options){
		"Router": func(o *Options) { o.Router = "" }, "Region": func(o *Options) { o.Region = "" },
		"Tables": func(o *Options) { o.Tables = nil }, "Quotas": func(o *Options) { o.Quotas = nil },
		"MaxInFlight": func(o *Options) { o.MaxInFlight = -1 },
	} {
		o := complete()
		unset(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("without %s: %v", field, err)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	w, _ := one(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w.routers[us].rest()
	if err := w.routers[us].Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestAWriterThatIsNoServersIsServedToo(t *testing.T) {
	w, _ := one(t)
	q := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(askStream))
	q.Header.Set("X-Api-Key", "acme-key") // as Anthropic's clients send it
	rec := httptest.NewRecorder()
	w.routers[us].Front().ServeHTTP(rec, q)
	if rec.Code != 200 || !strings.HasSuffix(rec.Body.String(), done) {
		t.Errorf("%d %q", rec.Code, rec.Body)
	}
}
