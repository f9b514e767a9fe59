package quota

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/dataplane/endpoint"
)

// model is a model server for all regions, which remembers what reached it.
type model struct {
	*httptest.Server

	mu     sync.Mutex // guards the rest
	served map[string][]charge
	now    map[string]int // requests under way
	most   map[string]int // at the same time
}

// told is what a request's message tells the server to do; its text is "tenant prompt completion ms".
type told struct {
	tenant             string
	prompt, completion int
	takes              time.Duration
}

func newModel(t *testing.T) *model {
	m := &model{served: map[string][]charge{}, now: map[string]int{}, most: map[string]int{}}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

func (m *model) serve(w http.ResponseWriter, q *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(q.Body)
	switch {
	case q.URL.Path == "/metrics":
		_, _ = io.WriteString(w, "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n")
		return
	case err != nil || q.Header.Get(endpoint.CanaryHeader) != "":
		answer(w, told{completion: 1})
		return
	}
	var asked struct {
		Messages []struct{ Content string }
	}
	var want told
	if err := json.Unmarshal(body, &asked); err == nil && len(asked.Messages) > 0 {
		var ms int
		words, _, _ := strings.Cut(asked.Messages[0].Content, ";")
		if _, err := fmt.Sscan(words, &want.tenant, &want.prompt, &want.completion, &ms); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		want.takes = time.Duration(ms) * time.Millisecond
	}
	m.mu.Lock()
	m.served[want.tenant] = append(m.served[want.tenant], charge{at, 1})
	m.now[want.tenant]++
	m.most[want.tenant] = max(m.most[want.tenant], m.now[want.tenant])
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.now[want.tenant]--
		m.mu.Unlock()
	}()
	if want.takes > 0 {
		select {
		case <-time.After(want.takes):
		case <-q.Context().Done():
			return
		}
	}
	answer(w, want)
}

func answer(w http.ResponseWriter, want told) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, want.prompt, want.completion, want.prompt+want.completion)
}

// of is what was served of a tenant since a time, in the order of arrival.
func (m *model) of(tenant string, since time.Time) []charge {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []charge
	for _, c := range m.served[tenant] {
		if !c.at.Before(since) {
			out = append(out, c)
		}
	}
	return out
}

// together is the most requests of a tenant that were under way at the same time.
func (m *model) together(tenant string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most[tenant]
}
