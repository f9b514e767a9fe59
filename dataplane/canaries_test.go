package dataplane

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/endpoint"
)

// noted are the canaries that came to a stub.
type noted struct {
	mu     sync.Mutex // guards what follows
	models map[string]int
	wrong  []string
}

func (n *noted) all() (sum int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range n.models {
		sum += k
	}
	return sum
}

// note takes one in, and tells what about it would pass for a tenant's.
func (n *noted) note(r *http.Request, body []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var asked struct {
		Model     string `json:"model"`
		MaxTokens int    `json:"max_tokens"`
	}
	if err := json.Unmarshal(body, &asked); err != nil || asked.MaxTokens != 1 {
		n.wrong = append(n.wrong, string(body))
	}
	n.models[asked.Model]++
	for name := range r.Header {
		if name != endpoint.CanaryHeader && (strings.HasPrefix(name, "X-Gateway-") || strings.HasPrefix(name, "X-Anabranch-") || name == "Authorization") {
			n.wrong = append(n.wrong, name)
		}
	}
}

// Canaries are asked in nobody's name: they are marked, go to each model that the place serves, and neither quotas nor
// usage, demand, reports or the counts of requests know of them.
func TestCanariesAreNobodysRequests(t *testing.T) {
	n := noted{models: map[string]int{}}
	s := newStub(t, answers)
	canary := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.note(r, *s.canary.Load())
		w.WriteHeader(http.StatusInternalServerError)
	})
	s.canaries.Store(&canary)
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, func(pb *routerpb.Table) {
		pb.Clusters[0].Models = []string{"llama", "lonely"}
		pb.Weights = append(pb.Weights, &routerpb.Weights{Model: "lonely", Class: "interactive", Source: us, Clusters: []*routerpb.ClusterWeight{{Cluster: "us-a", Weight: 1}}})
	})
	stop := w.run()
	r := w.routers[us]
	r.places.Report(r.now())
	if got := w.ask(us, "globex", askWhole, endpoint.CanaryHeader, "1"); got.status != http.StatusOK { // it must not pass for one
		t.Fatalf("%d %s", got.status, got.body)
	}
	if s.requests.Load() != 1 {
		t.Fatalf("a client's request passed for a canary")
	}
	s.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	if got := w.ask(us, "globex", askWhole); got.status < 500 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	w.eventually("canaries have left it, and look whether it is back", func() bool { return n.all() >= 12 })

	report := r.places.Report(r.now())
	requests, demand := uint64(0), 0.0
	for _, c := range report.GetClusters() {
		requests += c.GetRequests()
	}
	for _, d := range report.GetDemand() {
		demand += d.GetRequestsPerS() * float64(report.GetWindowMs()) / 1000
	}
	if sent := uint64(s.requests.Load()); requests != sent || demand < 1.9 || demand > 2.1 {
		t.Errorf("%d requests and a demand of %.2f are reported; clients asked twice, and %d were sent", requests, demand, sent)
	}
	if out, _ := r.places.Cluster("us-a").Ejected(); !out {
		t.Error("it is not ejected, though all canaries fail")
	}
	if used := w.settled(stop, "q-requests"); used != 2 {
		t.Errorf("%d requests are charged to the tenant, want 2", used)
	}
	lines := w.used(us)
	if own := lines[[2]string{"us-a", "globex"}]; len(lines) != 1 || own.GetSucceeded() != 1 || own.GetFailed() != 1 {
		t.Errorf("the account has %v", lines)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.wrong) > 0 {
		t.Errorf("canaries had %v", n.wrong)
	}
	for _, m := range []fleet.ModelID{"llama", "lonely"} {
		if n.models[string(m)] < 3 {
			t.Errorf("canaries by model: %v", n.models)
		}
	}
}
