package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
)

// newKeeper starts a node of a cluster that keeps keys.
func newKeeper(t *testing.T, change ...func(*Options)) *double {
	t.Helper()
	d := newDouble(t, change...)
	d.apply(&statepb.Command{Format: 2, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 2}}})
	return d
}

func key(k string) string { return headerKey + ": " + k }

// sameAnswer compares all that an answer says of the write.
func sameAnswer(t *testing.T, what string, first, again answer) {
	t.Helper()
	if again.status != first.status || string(again.body) != string(first.body) {
		t.Errorf("%s: first %d %s, then %d %s", what, first.status, first.body, again.status, again.body)
	}
	for _, h := range []string{"ETag", "Location", headerKey, "Content-Type"} {
		if first.header.Get(h) != again.header.Get(h) {
			t.Errorf("%s: %s was %q, then %q", what, h, first.header.Get(h), again.header.Get(h))
		}
	}
}

func TestEveryWriteWithAKeyIsDoneOnceAndAnsweredAgain(t *testing.T) {
	d := newKeeper(t)
	d.seed("Tenant put {}", "Tenant patched {}", "Tenant gone {}")
	revision := func(name string) string {
		r, _ := d.current().Get(policy.KindTenant, name)
		return "If-Match: " + etag(r.Metadata.Revision)
	}
	for i, w := range []struct {
		what, method, path, body string
		status                   int
		headers                  []string
	}{
		{"create", "POST", "/v1/tenants", doc("Tenant", "acme", "{tier: top}"), 201, []string{yaml}},
		{"create by put", "PUT", "/v1/tenants/globex", doc("Tenant", "globex", "{}"), 201, []string{yaml, "If-None-Match: *"}},
		{"replace", "PUT", "/v1/tenants/put", doc("Tenant", "put", "{tier: batch}"), 200, []string{yaml, revision("put")}},
		{"replace by the same", "PUT", "/v1/tenants/put", doc("Tenant", "put", "{tier: batch}"), 200, []string{yaml, "If-Match: *"}},
		{"patch", "PATCH", "/v1/tenants/patched", `{"spec":{"tier":"top"}}`, 200, []string{revision("patched")}},
		{"delete", "DELETE", "/v1/tenants/gone", "", 204, []string{revision("gone")}},
	} {
		headers := append(w.headers, key(fmt.Sprintf("key-%d", i)))
		d.advance(time.Minute)
		first := d.do("operator", w.method, w.path, w.body, headers...).want(w.status, "")
		if first.header.Get(headerKey) == "" {
			t.Errorf("%s: the key is not repeated", w.what)
		}
		proposed := d.propose
		sameAnswer(t, w.what, first, d.do("operator", w.method, w.path, w.body, headers...))
		if d.propose != proposed {
			t.Errorf("%s: it was proposed again", w.what)
		}
		// The world goes on, and the answer stays.
		if w.method != "DELETE" {
			name := w.path[strings.LastIndex(w.path, "/")+1:]
			if w.method == "POST" {
				name = "acme"
			}
			d.do("admin", "PATCH", "/v1/tenants/"+name, fmt.Sprintf(`{"spec":{"residency":["x%d"]}}`, i), "If-Match: *")
		}
		sameAnswer(t, w.what+", later", first, d.do("operator", w.method, w.path, w.body, headers...))
	}
	if n := len(d.current().List(policy.KindTenant)); n != 4 {
		t.Errorf("%d tenants", n)
	}
}

func TestAKeyWithAnotherRequestIsRefused(t *testing.T) {
	d := newKeeper(t)
	post := func(role, body string, headers ...string) answer {
		return d.do(role, "POST", "/v1/tenants", body, append(headers, yaml)...)
	}
	post("operator", doc("Tenant", "acme", "{}"), key("k")).want(201, "")
	post("operator", doc("Tenant", "other", "{}"), key("k")).want(422, codeKeyReused)
	d.do("operator", "DELETE", "/v1/tenants/acme", "", "If-Match: *", key("k")).want(422, codeKeyReused)
	d.do("operator", "PUT", "/v1/tenants/acme", doc("Tenant", "acme", "{}"), yaml, "If-Match: *", key("k")).want(422, codeKeyReused)
	if _, ok := d.current().Get(policy.KindTenant, "other"); ok {
		t.Error("it was done all the same")
	}
	post("admin", doc("Tenant", "other", "{}"), key("k")).want(201, "") // keys are each token's own
	post("operator", doc("Tenant", "third", "{}"), key("k2")).want(201, "")
	d.advance(state.AnswersFor)
	post("operator", doc("Tenant", "fourth", "{}"), key("k")).want(201, "") // the first is forgotten
}

func TestWhatWasRefusedMayBeSentAgainWithItsKey(t *testing.T) {
	d := newKeeper(t)
	cluster := doc("Cluster", "c", "{region: us, models: [m], endpoints: [{id: e, url: \"http://us:1\", class: h100}]}")
	d.do("operator", "POST", "/v1/clusters", cluster, yaml, key("k")).want(422, codeInvalid)
	d.seed("Region us {peerURLs: [\"https://us:1\"]}", "Model m {}")
	d.do("operator", "POST", "/v1/clusters", cluster, yaml, key("k")).want(201, "")
	d.do("operator", "POST", "/v1/clusters", cluster, yaml, key("k")).want(201, "")
}

func TestBadKeysAndDryRuns(t *testing.T) {
	d := newKeeper(t)
	acme := doc("Tenant", "acme", "{}")
	for _, bad := range []string{strings.Repeat("k", 256), "two words", "ümlaut"} {
		d.do("operator", "POST", "/v1/tenants", acme, yaml, key(bad)).want(400, codeInvalidRequest)
	}
	d.do("operator", "POST", "/v1/tenants?dry_run=true", acme, yaml, key("k")).want(200, "")
	d.do("operator", "POST", "/v1/tenants?dry_run=perhaps", acme, yaml, key("k")).want(400, codeInvalidRequest)
	d.do("operator", "POST", "/v1/tenants", acme+strings.Repeat("#", MaxBody), yaml, key("k")).want(413, codeTooLarge)
	d.do("viewer", "POST", "/v1/tenants", acme, yaml, key("k")).want(403, codeForbidden)
	d.do("operator", "POST", "/v1/tenants", acme, yaml, key("k")).want(201, "")
	d.failing(errNoLeaderForTest)
	d.do("operator", "POST", "/v1/tenants", acme, yaml, key("k")).want(503, codeNoLeader) // not even the memory is up to date
}

func TestKeysAreNotInForceWhileAnOlderVersionTakesPart(t *testing.T) {
	d := newDouble(t)
	a := d.do("operator", "POST", "/v1/tenants", doc("Tenant", "acme", "{}"), yaml, key("k")).want(201, "")
	if got := a.header.Get(headerKey); got != "" {
		t.Errorf("the answer repeats %q", got)
	}
	d.do("operator", "POST", "/v1/tenants", doc("Tenant", "acme", "{}"), yaml, key("k")).want(409, codeExists)
}

// The outcome of the first attempt is lost on the way; it may have been committed before the second is
// judged, or after that and before the second itself.
func TestASecondAttemptAfterAnUnknownOutcome(t *testing.T) {
	acme := doc("Tenant", "acme", "{}")
	t.Run("committed before", func(t *testing.T) {
		var d *double
		lose := true
		d = newKeeper(t, func(o *Options) {
			commit := o.Propose
			o.Propose = func(ctx context.Context, cmd *statepb.Command) (*statepb.Outcome, error) {
				out, err := commit(ctx, cmd)
				if lose {
					return nil, fmt.Errorf("leader: %w", store.ErrUnknownOutcome)
				}
				return out, err
			}
		})
		d.do("operator", "POST", "/v1/tenants", acme, yaml, key("k")).want(503, codeUnknownOutcome)
		lose = false
		d.do("operator", "POST", "/v1/tenants", acme, yaml, key("k")).want(201, "")
	})
	t.Run("committed meanwhile", func(t *testing.T) {
		d := newKeeper(t)
		d.mu.Lock()
		d.before = func(d *double, cmd *statepb.Command) { d.apply(cmd) } // the one that was on its way
		d.mu.Unlock()
		a := d.do("operator", "POST", "/v1/tenants", acme, yaml, key("k")).want(201, "")
		r, _ := d.current().Get(policy.KindTenant, "acme")
		if a.header.Get("ETag") != etag(r.Metadata.Revision) || a.header.Get("Location") != "/v1/tenants/acme" {
			t.Errorf("answered %v", a.header)
		}
		if n := len(d.current().Audit(0, 0)); n != 3 { // init, level, create
			t.Errorf("%d audit entries", n)
		}
	})
	t.Run("another request meanwhile", func(t *testing.T) {
		d := newKeeper(t)
		d.mu.Lock()
		d.before = func(d *double, cmd *statepb.Command) {
			d.apply(&statepb.Command{
				Format: 2, Actor: cmd.GetActor(), AtUnixMs: cmd.GetAtUnixMs(), Once: &statepb.Once{Key: "k", RequestSha256: make([]byte, 32)},
				Op: &statepb.Command_Noop{Noop: &statepb.Noop{}},
			})
		}
		d.mu.Unlock()
		d.do("operator", "POST", "/v1/tenants", acme, yaml, key("k")).want(422, codeKeyReused)
	})
}

func TestEveryWriteOfAResourceDocumentsTheKey(t *testing.T) {
	for _, kind := range policy.Kinds() {
		for _, route := range []string{"POST /v1/%s", "PUT /v1/%s/{name}", "PATCH /v1/%s/{name}", "DELETE /v1/%s/{name}"} {
			route = fmt.Sprintf(route, policy.Plural(kind))
			method, path, _ := strings.Cut(route, " ")
			var op struct {
				Parameters []struct {
					Ref string `yaml:"$ref"`
				} `yaml:"parameters"`
			}
			node := contract().Paths[path][strings.ToLower(method)]
			if err := node.Decode(&op); err != nil {
				t.Fatal(err)
			}
			refs := fmt.Sprint(op.Parameters)
			if !strings.Contains(refs, "parameters/idempotencyKey") {
				t.Errorf("%s does not name the key", route)
			}
			if _, ok := operations()[route].Responses["422"]; !ok {
				t.Errorf("%s does not say what becomes of a key used twice", route)
			}
		}
	}
}

func TestAFingerprintIsOfAllThatIsAsked(t *testing.T) {
	of := func(method, url, body string, headers ...string) string {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://x"+url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Set(name, value)
		}
		b, err := json.Marshal(fingerprint(r, []byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	seen := []string{
		of("POST", "/a", "b"), of("PUT", "/a", "b"), of("POST", "/ab", ""), of("POST", "/a", "c"),
		of("POST", "/a?x=1", "b"), of("POST", "/a", "b", "If-Match: 1"), of("POST", "/a", "b", "If-None-Match: 1"),
	}
	slices.Sort(seen)
	if n := len(slices.Compact(slices.Clone(seen))); n != 7 {
		t.Errorf("%d of 7 are different", n)
	}
	if of("POST", "/a?x=1&y=2", "b", "X-Request-Id: 1") != of("POST", "/a?y=2&x=1", "b", "X-Request-Id: 2") {
		t.Error("what does not matter is in it")
	}
}
