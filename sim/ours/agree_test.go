package ours

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/dataplane"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
	"anabranch/sim"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// What a pod does with requests.
const (
	answersIt int32 = iota
	resetsIt
	refusesIt
)

// server is a model server that can be told what to do.
type server struct {
	*http.Server
	url  string
	does atomic.Int32
}

func newServer(t *testing.T) *server {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{url: "http://" + l.Addr().String()}
	s.Server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if s.does.Load() == resetsIt {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, data := range []string{
			`{"choices":[{"index":0,"delta":{"content":"tok"}}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, "[DONE]",
		} {
			_, _ = io.WriteString(w, "data: "+data+"\n\n") // a client that left is no matter
		}
	}), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // until it is closed
	}()
	t.Cleanup(func() {
		_ = s.Close() // twice is no matter
		<-done
	})
	return s
}

func (s *server) set(t *testing.T, does int32) {
	t.Helper()
	if s.does.Swap(does) != does && does == refusesIt {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// unseen is the truth where nobody asks for it.
type unseen struct{}

func (unseen) Engine(int, int) *sim.Engine { return nil }
func (unseen) Pods(int) int                { return 0 }
func (unseen) Slow(int, int) float64       { return 1 }
func (unseen) Hangs(int) bool              { return false }
func (unseen) Reachable(int, int) bool     { return true }

// rig is a router of each region as package dataplane has it, and as this package has it, over the same
// table, with the same clock and the same chance.
type rig struct {
	t       *testing.T
	servers [][]*server // by cluster and pod
	ours    *ours
	views   []*world.View // by region
	now     time.Duration
	draws   int         // of the present request, by the real router that it comes to
	chances []*rand.PCG // by region
	front   *httptest.Server
}

// newRig has clusters us-a and us-b, or with far us-a and eu-a.
func newRig(t *testing.T, mode string, far bool) *rig {
	t.Helper()
	spec := fleetOf(3)
	if far {
		spec = fleetOf(3, 2)
	} else {
		spec.Clusters = append(spec.Clusters, world.Cluster{ID: "us-b", Region: "us", Model: model, Pods: []world.Pods{{Class: "h100", Count: 2}}})
	}
	spec.Tenants = []world.Tenant{{ID: "acme"}, {ID: "globex"}, {ID: "initech", Residency: []string{"elsewhere"}}}
	quota := written(policy.KindQuota, "globex", 1, &policy.QuotaSpec{Tenant: "globex", Limits: []policy.LimitSpec{{Kind: "requests", PerMinute: 20}}})
	class := written(policy.KindTrafficPolicy, "class", 1, &policy.TrafficPolicySpec{PickMode: mode})
	r := &rig{t: t, ours: newOurs(Options{
		Resources: []*policy.Resource{quota, class}, Fixed: map[fleet.ClusterID]float64{"us-a": 2, "us-b": 1, "eu-a": 1},
	})}
	r.ours.Start(spec.WithDefaults())
	if r.ours.err != nil {
		t.Fatal(r.ours.err)
	}
	for i := range spec.Regions {
		v := &world.View{
			Router: i, Region: i, Clusters: make([]world.ClusterView, 2), RTT: []time.Duration{world.LocalRTT, world.DefaultRTT},
			Leader: true, QuotaStore: true, Truth: unseen{}, Rand: rand.New(rand.NewPCG(1, 1)),
		}
		r.ours.at(v) // which takes its own chance from that
		r.views = append(r.views, v)
	}
	pb := proto.CloneOf(r.ours.control.tables[0].table.Proto())
	// The planner lists clusters by name, the spec by region.
	r.servers = make([][]*server, len(spec.Clusters))
	for _, c := range pb.GetClusters() {
		i := r.ours.places.clusters[fleet.ClusterID(c.GetId())]
		for _, e := range c.GetEndpoints() {
			s := newServer(t)
			r.servers[i], e.Url = append(r.servers[i], s), s.url
		}
	}
	for _, k := range pb.GetTenants() {
		sum := sha256.Sum256([]byte(k.GetId()))
		k.KeySha256 = append(k.KeySha256, sum[:])
	}
	r.real(pb)
	return r
}

// real starts the real routers.
func (r *rig) real(pb *routerpb.Table) {
	r.t.Helper()
	clock := func() time.Time { return epoch.Add(r.now) }
	quotas := admit.Own(ratelimit.NewLending(clock))
	pool := x509.NewCertPool()
	var peers []*httptest.Server
	for _, region := range pb.GetRegions() {
		p := httptest.NewUnstartedServer(nil)
		p.EnableHTTP2 = true
		p.StartTLS()
		r.t.Cleanup(p.Close)
		pool.AddCert(p.Certificate())
		region.PeerUrls = []string{p.URL}
		peers = append(peers, p)
	}
	tab, err := table.Build(pb)
	if err != nil {
		r.t.Fatal(err)
	}
	r.chances = make([]*rand.PCG, len(peers))
	for i, p := range peers {
		id := fleet.RegionID(pb.GetRegions()[i].GetId())
		at := r.ours.places.regions[id]
		var tables table.Holder
		hub, err := dataplane.New(dataplane.Options{
			Router: "r-" + fleet.RouterID(id), Region: id, Tables: &tables, Quotas: quotas, Inline: true, Now: clock,
			PeerTLS: func() *tls.Config {
				return &tls.Config{RootCAs: pool, ServerName: "example.com", MinVersion: tls.VersionTLS13}
			},
			Random: func() uint64 {
				if at == 0 {
					if r.draws++; r.draws == 1 {
						return 0 // the first names the request
					}
				}
				return r.chances[at].Uint64()
			},
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			r.t.Fatal(err)
		}
		tables.Store(tab)
		hub.Applied(tab)
		p.Config.Handler = hub.Peer()
		if at == 0 {
			r.front = httptest.NewServer(hub.Front())
			r.t.Cleanup(r.front.Close)
		}
	}
}

// fate is what became of a request.
type fate struct {
	place    string // empty: none answered
	code     string // empty: it was answered
	attempts int
}

// ask puts a request to the real router.
func (r *rig) ask(tenant string, n uint64) (f fate) {
	r.t.Helper()
	r.draws = 0
	for i := range r.chances {
		r.chances[i] = rand.NewPCG(n, uint64(i))
	}
	q, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.front.URL+path,
		strings.NewReader(`{"model":"`+model+`","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+tenant)
	q.Header.Set("X-Anabranch-Priority", "50")
	a, err := r.front.Client().Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	body, err := io.ReadAll(a.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := a.Body.Close(); err != nil {
		r.t.Fatal(err)
	}
	if _, err := fmt.Sscan(a.Header.Get("X-Anabranch-Attempts"), &f.attempts); err != nil {
		f.attempts = 0
	}
	if a.StatusCode == http.StatusOK {
		f.place = a.Header.Get("X-Anabranch-Cluster") + "/" + a.Header.Get("X-Anabranch-Endpoint")
		return f
	}
	var answer struct {
		Error struct{ Code string }
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		r.t.Fatalf("%d %q: %v", a.StatusCode, body, err)
	}
	f.code = answer.Error.Code
	return f
}

// simulate puts the same request to this package's router, as package world does.
func (r *rig) simulate(tenant fleet.TenantID, n uint64) (f fate) {
	for i, v := range r.views {
		v.Now, v.Rand = r.now, rand.New(rand.NewPCG(n, uint64(i)))
	}
	v := r.views[0]
	v.Attempt = 1
	q := &workload.Request{ID: n, At: r.now, Region: "us", Tenant: tenant, Model: model, Priority: 50, PromptTokens: 1, OutputTokens: 1}
	for ; ; v.Attempt++ {
		to := r.ours.Route(q, v)
		if to.Cluster < 0 {
			f.code = to.Code
			return f
		}
		f.attempts++
		home := &world.Attempt{Request: q, Number: v.Attempt, Cluster: to.Cluster, Pod: -1, Sent: v.Now}
		if r.ours.places.region[to.Cluster] == 0 {
			home.Pod = r.ours.Pick(q, to.Cluster, -1, v).Pod
			r.ours.Sent(home, v)
			if r.attempt(home, v) {
				f.place = r.name(home)
				return f
			}
			continue
		}
		home.Away = true
		r.ours.Sent(home, v)
		if how := r.over(home, q, &f); how != world.Answered {
			r.ours.Ended(home, how, v)
			continue
		}
		home.First, home.Output = v.Now, 1
		r.ours.First(home, v)
		r.ours.Ended(home, world.Answered, v)
		f.place = r.name(home)
		return f
	}
}

func (r *rig) name(a *world.Attempt) string {
	return fmt.Sprintf("%s/%s", r.ours.spec.Clusters[a.Cluster].ID, podID(a.Pod))
}

// over is what a router of another region makes of a request.
func (r *rig) over(home *world.Attempt, q *workload.Request, f *fate) world.Outcome {
	v := r.views[r.ours.places.region[home.Cluster]]
	v.Attempt = home.Number
	how := world.Full
	for picks := 0; ; picks++ {
		p := r.ours.Pick(q, home.Cluster, 0, v)
		if p.Pod < 0 {
			return how
		}
		if home.Pod = p.Pod; picks > 0 {
			f.attempts++
		}
		a := &world.Attempt{Request: q, Number: home.Number, Router: v.Router, Cluster: home.Cluster, Pod: p.Pod, Sent: v.Now}
		r.ours.Sent(a, v)
		if r.attempt(a, v) {
			return world.Answered
		}
		how = world.Refused
	}
}

// attempt is what a pod makes of one.
func (r *rig) attempt(a *world.Attempt, v *world.View) (answered bool) {
	switch r.servers[a.Cluster][a.Pod].does.Load() {
	case answersIt:
		v.Now += 2 * time.Millisecond
		a.First, a.Output = v.Now, 1
		r.ours.First(a, v)
		r.ours.Ended(a, world.Answered, v)
		return true
	case resetsIt:
		v.Now += 5 * time.Millisecond
	}
	r.ours.Ended(a, world.Refused, v)
	return false
}

// The router that serves and the one that is simulated decide alike, request by request, also where
// places die. This holds together what this package has after the model of package dataplane.
func TestTheSimulatedRouterDecidesAsTheRealOne(t *testing.T) {
	for _, far := range []bool{false, true} {
		for _, mode := range []string{"predicted-ttft", "round-robin", "random", "least-outstanding"} {
			t.Run(fmt.Sprintf("%s, far %t", mode, far), func(t *testing.T) {
				t.Parallel()
				newRig(t, mode, far).compare()
			})
		}
	}
}

func (r *rig) compare() {
	t := r.t
	seen := map[fate]int{}
	failing := 0
	for i := range uint64(300) {
		switch i {
		case 60:
			r.servers[0][0].set(t, resetsIt)
			r.servers[1][0].set(t, resetsIt)
		case 120:
			r.servers[0][1].set(t, refusesIt)
			r.servers[1][0].set(t, refusesIt)
		case 180:
			r.servers[0][0].set(t, refusesIt)
			r.servers[0][2].set(t, refusesIt)
		case 240:
			r.servers[1][1].set(t, refusesIt)
		}
		r.now += 20 * time.Millisecond
		tenant := []string{"acme", "acme", "acme", "globex", "initech"}[i%5]
		served, simulated := r.ask(tenant, i+1), r.simulate(fleet.TenantID(tenant), i+1)
		switch served.code {
		case "connect_failed", "upstream_reset", "no_capacity", "cluster_ejected":
			// All of these are that nothing is left; the simulated ones are told apart no further.
			served.code, failing = "dead", failing+1
		}
		switch simulated.code {
		case "upstream_failed", "no_living_target", world.CodeNoCapacity:
			simulated.code = "dead"
		}
		if served != simulated {
			t.Fatalf("request %d of %s: served %+v, simulated %+v", i, tenant, served, simulated)
		}
		seen[served]++
	}
	if len(seen) < 8 || failing < 20 || seen[fate{code: "rate_limit_exceeded"}] < 10 || seen[fate{code: "no_legal_target"}] < 50 {
		t.Errorf("too little has happened: %v", seen)
	}
}
