package node

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"anabranch/api/fleet"
	"anabranch/controlplane/account"
	"anabranch/controlplane/usage"
	"anabranch/costmodel"
	"anabranch/dataplane/endpoint"
)

// counting is a model server that says with each piece of an answer what it has done for it, and adds it up.
// Each third answer breaks off in the middle.
type counting struct {
	mu   sync.Mutex // guards what follows
	n    int64
	done costmodel.Usage
}

// ServeHTTP implements [http.Handler].
func (c *counting) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.Method != http.MethodPost {
		return
	}
	_, _ = io.Copy(io.Discard, q.Body) // it is not looked at
	w.Header().Set("Content-Type", "text/event-stream")
	if q.Header.Get(endpoint.CanaryHeader) != "" { // the router's own, which nobody pays for
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"tok"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		return
	}
	c.mu.Lock()
	c.n++
	n, breaks := c.n, c.n%3 == 0
	used := costmodel.Usage{Input: 100 + n, Cached: n}
	c.mu.Unlock()
	for range 2 + n%5 {
		used.Output++
		fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{"content":"tok"}}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`+"\n\n",
			used.Input, used.Output, used.Cached)
		w.(http.Flusher).Flush()
	}
	c.mu.Lock()
	if breaks {
		used.Failed = 1
	} else {
		used.Succeeded = 1
	}
	c.done = c.done.Plus(used)
	c.mu.Unlock()
	if breaks {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}

func (c *counting) used() costmodel.Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// A real router answers streams, tells the control plane, and goes; the account then has what model servers say
// that they did, weighed as the model says.
func TestTheAccountIsWhatModelServersSayTheyDid(t *testing.T) {
	t.Parallel()
	m := cluster(t, 1)[0]
	servers := map[string]*counting{"us-a": {}, "us-b": {}}
	create := func(plural, kind, name, spec string) {
		t.Helper()
		doc := fmt.Sprintf(`{"apiVersion":"anabranch/v1","kind":%q,"metadata":{"name":%q},"spec":%s}`, kind, name, spec)
		if status, answer := m.call(t, http.MethodPost, "/v1/"+plural, doc, nil); status != http.StatusCreated {
			t.Fatalf("%s %s: %d %v", kind, name, status, answer)
		}
	}
	m.await(t, "of the level that knows the account", func() bool { return m.store.View().FeatureLevel() >= usage.FirstLevel })
	create("regions", "Region", "us", `{"zone":"us"}`)
	create("models", "Model", "llama", `{"outputWeight":4}`)
	create("tenants", "Tenant", "acme", fmt.Sprintf(`{"apiKeys":[{"id":"k","sha256":"%x"}]}`, sha256.Sum256([]byte("key-of-acme"))))
	for name, s := range servers {
		at := httptest.NewServer(s)
		t.Cleanup(at.Close)
		create("clusters", "Cluster", name, fmt.Sprintf(`{"region":"us","models":["llama"],"endpoints":[{"id":"e1","url":%q,"class":"h100"}]}`, at.URL))
	}
	m.begins(t)
	router := serve(t, "us", m)
	ask := func() (status int) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, router.url+"/v1/chat/completions",
			strings.NewReader(`{"model":"llama","stream":true,"messages":[{"role":"user","content":"hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer key-of-acme")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body) // some break off
		return resp.StatusCode
	}
	m.await(t, "served", func() bool { return ask() == http.StatusOK })
	for range 40 {
		ask()
	}
	router.leave()
	var all costmodel.Usage
	for name, s := range servers {
		want := s.used()
		all = all.Plus(want)
		got := sumOf(t, m, account.Query{Clusters: []fleet.ClusterID{fleet.ClusterID(name)}, Tenants: []fleet.TenantID{"acme"}})
		if got.Usage != want {
			t.Errorf("%s did %+v, and the account says %+v", name, want, got.Usage)
		}
		if want := (costmodel.Weights{Cached: costmodel.CachedWeight, Output: 4}).Work(want); got.Work != want {
			t.Errorf("%s did work of %d, and the account says %d", name, want, got.Work)
		}
	}
	if got := used(t, m); got != all || all.Failed == 0 || all.Succeeded < 20 {
		t.Errorf("all is %+v, and the account says %+v", all, got)
	}
}
