package failover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev"
	"anabranch/cmd/anabranch/dev/child"
	"anabranch/cmd/anabranch/dev/seed"
	"anabranch/cmd/anabranch/pki"
	"anabranch/cmd/e2e/loopback"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/ratelimit/redisbucket/redistest"
)

// system is a whole Anabranch of processes. What runs is ended by the test's cleanup, and by the
// kernel if the test is killed.
type system struct {
	t        *testing.T
	dir      string
	launcher *child.Launcher
	redis    *redistest.Server
	layout   seed.Layout
	away     *apart // where the model servers of farCluster are; nil: this machine has no namespaces
	why      error  // of that

	nodes, clusters, routers []*part
	relays                   []*relay
	keys                     map[string]string
	admin                    *client.Client
}

// part is one process of the system, running or not.
type part struct {
	name, region string
	command      child.Command
	ready        string // URL that says so
	front        string // URL of clients; of routers
	admin        string // URL of operators; of routers and model servers
	rest         string // URL of the API; of nodes

	mu      sync.Mutex // guards process
	process *child.Process
}

// Regions, whose clusters are called as they are with "-a" behind.
const (
	usRegion = "us-east-1"
	euRegion = "eu-west-1"
	apRegion = "ap-northeast-1"
	// farCluster stands in a network of its own where the machine has such.
	farCluster = apRegion + "-a"
)

// Tenants of the traffic: one with room for everything, and one whose requests never leave euRegion's
// zone.
const (
	anywhere = "acme"
	onlyEU   = "initech"
)

// fast are the times of cool-down, recovery and ramp over what is usual. Detection is not scaled.
const fast = 0.002

// start brings all up and waits until every router answers.
func start(t *testing.T) *system {
	t.Helper()
	s := &system{t: t, launcher: child.NewLauncher(), keys: map[string]string{}}
	var err error
	if s.dir, err = os.MkdirTemp("", "anb"); err != nil { // the path of a socket must be short
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(s.dir) }) // of a test
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.launcher.Run(ctx) }()
	t.Cleanup(func() {
		for _, p := range slices.Concat(s.routers, s.clusters, s.nodes) {
			p.kill(t)
		}
		if s.away != nil {
			if err := s.away.holder.Kill(); err != nil {
				t.Error(err)
			}
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s.redis = redistest.Start(t, "--maxmemory-policy", "noeviction")
	if s.away, s.why = s.newApart(); s.why != nil {
		t.Logf("no black holes: %v", s.why)
	}
	s.lay()
	s.write()
	s.startAll(slices.Concat(s.nodes, s.clusters)) // a node alone is never ready
	s.seed()
	s.startAll(s.routers)
	for _, p := range s.routers {
		for _, tenant := range []string{anywhere, onlyEU} {
			s.await(60*time.Second, p.name+" to answer "+tenant, func() error {
				a := ask(context.Background(), p.front, s.keys[tenant], body("ready?", 4, false))
				if a.status != http.StatusOK {
					return fmt.Errorf("%d %s %w", a.status, a.code, a.err)
				}
				return nil
			})
		}
	}
	return s
}

// lay is the seed's fleet without what these checks don't need, at free ports.
func (s *system) lay() {
	s.layout = seed.New(func(int) string { return loopback.Free(s.t) })
	for i := range s.layout.Regions {
		r := &s.layout.Regions[i]
		r.Clusters = r.Clusters[:1]
		c := &r.Clusters[0]
		c.Endpoints = slices.Clone(c.Endpoints[:2])
		if c.Name == farCluster && s.away != nil {
			for j := range c.Endpoints {
				e := &c.Endpoints[j]
				e.URL = strings.Replace(e.URL, "127.0.0.1", s.away.there, 1)
				e.KVEventsURL = strings.Replace(e.KVEventsURL, "127.0.0.1", s.away.there, 1)
			}
		}
	}
}

// write makes secrets and certificates, and the commands that use them.
func (s *system) write() {
	s.t.Helper()
	authority, err := pki.NewAuthority(time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	file := func(name string, text []byte) string {
		path := filepath.Join(s.dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			s.t.Fatal(err)
		}
		return path
	}
	ca := file("ca.pem", authority.Pair().Cert)
	tls := func(name string, pair pki.Pair, err error) []string {
		if err != nil {
			s.t.Fatal(err)
		}
		return []string{"--tls-cert", file(name+".pem", pair.Cert), "--tls-key", file(name+".key", pair.Key), "--tls-ca", ca}
	}
	tokens := map[string]string{}
	for _, role := range state.Roles() {
		tokens[role] = dev.NewKey()
	}
	text, err := json.Marshal(tokens)
	if err != nil {
		s.t.Fatal(err)
	}
	tokensFile := file("tokens.json", text)
	for _, tenant := range seed.Tenants() {
		s.keys[tenant] = dev.NewKey()
	}
	s.admin = &client.Client{Token: tokens["admin"], Reason: "failover test", HTTP: &http.Client{Timeout: 5 * time.Second}}

	var peers, doors []string
	var rafts []string
	for i := range 3 {
		rafts = append(rafts, loopback.Free(s.t))
		peers = append(peers, fmt.Sprintf("n%d=%s", i+1, rafts[i]))
	}
	for i, raft := range rafts {
		name := fmt.Sprintf("n%d", i+1)
		rest, grpc := loopback.Free(s.t), loopback.Free(s.t)
		pair, err := authority.Node(name, time.Now())
		p := s.part(name, "anabranch-controlplane", append([]string{
			"--id", name, "--data-dir", filepath.Join(s.dir, name), "--http", rest, "--grpc", grpc, "--raft", raft, "--raft-advertise", raft,
			"--peers", strings.Join(peers, ","), "--tokens-file", tokensFile,
		}, tls(name, pair, err)...)...)
		p.rest = "http://" + rest
		p.ready = p.rest + "/readyz"
		s.nodes = append(s.nodes, p)
		s.admin.Servers = append(s.admin.Servers, p.rest)
		s.relays = append(s.relays, newRelay(s.t, loopback.Listen(s.t), grpc))
		doors = append(doors, s.relays[i].addr())
	}
	for i, r := range s.layout.Regions {
		s.clusters = append(s.clusters, s.modelServers(r.Clusters[0]))
		id := r.Name + "-1"
		front, admin := loopback.Free(s.t), loopback.Free(s.t)
		pair, err := authority.Router(r.Name, id, time.Now())
		p := s.part(id, "anabranch-router", append([]string{
			"--router-id", id, "--region", r.Name, "--data-dir", filepath.Join(s.dir, id), "--listen", front, "--admin-listen", admin,
			"--peer-listen", strings.TrimPrefix(r.PeerURL, "https://"), "--redis", s.redis.Addr, "--drain", "20s", "--request-log", "faults",
			"--controlplane", strings.Join(slices.Concat(doors[i:], doors[:i]), ","),
		}, tls(id, pair, err)...)...)
		p.region, p.front, p.admin = r.Name, "http://"+front, "http://"+admin
		p.ready = p.admin + "/readyz"
		s.routers = append(s.routers, p)
	}
}

// modelServers is the process of a cluster.
func (s *system) modelServers(c seed.Cluster) *part {
	admin := loopback.Free(s.t)
	if c.Name == farCluster && s.away != nil {
		admin = strings.Replace(admin, "127.0.0.1", s.away.there, 1)
	}
	args := []string{"modelserver", "--cluster", c.Name, "--admin", admin, "--model", c.Model, "--adapters", strings.Join(c.Adapters(), ",")}
	for _, e := range c.Endpoints {
		args = append(args, "--endpoint", fmt.Sprintf("id=%s,listen=%s,class=%s,events=%s", e.ID, strings.TrimPrefix(e.URL, "http://"),
			e.Class, strings.TrimPrefix(e.KVEventsURL, "tcp://")))
	}
	p := s.part(c.Name, "anabranch", args...)
	p.region, p.admin, p.ready = c.Region, "http://"+admin, "http://"+admin+"/status?recent=0"
	if c.Name == farCluster && s.away != nil {
		p.command = s.away.within(p.command)
	}
	return p
}

func (s *system) part(name, program string, args ...string) *part {
	return &part{name: name, command: child.Command{Name: name, Path: bin + program, Args: args, Log: filepath.Join(s.dir, name+".log")}}
}

// startAll runs processes and waits until all are ready.
func (s *system) startAll(parts []*part) {
	s.t.Helper()
	for _, p := range parts {
		p.launch(s)
	}
	for _, p := range parts {
		s.await(60*time.Second, p.name+" to be ready", p.up)
	}
}

// start runs the process, for the first time or again, and waits until it is ready.
func (p *part) start(s *system) {
	s.t.Helper()
	s.startAll([]*part{p})
}

// launch runs the process and doesn't wait.
func (p *part) launch(s *system) {
	s.t.Helper()
	process, err := s.launcher.Start(p.command)
	if err != nil {
		s.t.Fatal(err)
	}
	p.mu.Lock()
	first := p.process == nil
	p.process = process
	p.mu.Unlock()
	if first {
		s.t.Cleanup(func() {
			if s.t.Failed() {
				s.t.Logf("end of the log of %s:\n%s", p.name, child.Tail(p.command.Log, 25))
			}
		})
	}
}

// up says why the process is not ready; nil: it is.
func (p *part) up() error {
	resp, err := looks.Get(p.ready)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200)) // for people
		return fmt.Errorf("%d %s", resp.StatusCode, text)
	}
	return nil
}

func (p *part) running() *child.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process
}

// kill ends the process as kill -9 does.
func (p *part) kill(t *testing.T) {
	t.Helper()
	if process := p.running(); process != nil {
		if err := process.Kill(); err != nil {
			t.Error(err)
		}
	}
}

// looks is the client of operators' eyes, tenants of applications.
var looks = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: 5 * time.Second}}

// seed writes the demonstration's resources, at the addresses of this system.
func (s *system) seed() {
	s.t.Helper()
	hashes := map[string]string{}
	for tenant, key := range s.keys {
		hashes[tenant] = dev.HashKey(key)
	}
	resources, err := seed.Resources(s.layout, hashes)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range resources {
		s.await(30*time.Second, "seed "+string(r.Kind)+" "+r.Metadata.Name, func() error {
			_, err := s.admin.Create(s.t.Context(), r)
			return err
		})
	}
	// What a quota refuses is no loss, but can't be told from one that an ill system refuses by mistake.
	s.patch(policy.KindQuota, onlyEU, `{"spec":{"limits":[{"kind":"requests","perMinute":60000}]}}`)
	s.patch(policy.KindQuota, onlyEU+"-group", `{"spec":{"limits":[{"kind":"concurrent-requests","max":5000}]}}`)
	s.patch(policy.KindTrafficPolicy, seed.Policy, fmt.Sprintf(`{"spec":{"failover":{"timeScale":%v}}}`, fast))
}

// patch changes a resource as it stands now.
func (s *system) patch(kind policy.Kind, name, change string) {
	s.t.Helper()
	s.await(20*time.Second, "a change of "+name, func() error {
		_, etag, err := s.admin.Get(s.t.Context(), kind, name)
		if err != nil {
			return err
		}
		_, err = s.admin.Do(s.t.Context(), client.Call{
			Method: http.MethodPatch, Path: "/v1/" + policy.Plural(kind) + "/" + name, IfMatch: etag, Body: []byte(change),
		})
		return err
	})
}

// fault makes all model servers of a cluster ill; "" heals them.
func (s *system) fault(cluster *part, fault string) {
	s.t.Helper()
	method, path := http.MethodPost, "/faults"
	if fault == "" {
		method = http.MethodDelete
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, cluster.admin+path, bytes.NewReader([]byte(fault)))
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := looks.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode >= http.StatusMultipleChoices {
		s.t.Fatalf("fault %s of %s: %d %s %v", fault, cluster.name, resp.StatusCode, text, err)
	}
}

func (s *system) router(region string) *part  { return find(s.routers, region) }
func (s *system) cluster(region string) *part { return find(s.clusters, region) }

func find(parts []*part, region string) *part {
	return parts[slices.IndexFunc(parts, func(p *part) bool { return p.region == region })]
}

// await polls until ok says nil. After the time it ends the test with the last reason.
func (s *system) await(within time.Duration, what string, ok func() error) {
	s.t.Helper()
	if err := poll(within, 50*time.Millisecond, ok); err != nil {
		s.t.Fatalf("waited %v for %s: %v", within, what, err)
	}
}

// pass lets traffic flow for so long.
func pass(d time.Duration) { <-time.After(d) }

// poll asks until ok says nil, or the time is over: then it gives the last reason.
func poll(within, pause time.Duration, ok func() error) error {
	deadline, tick := time.Now().Add(within), time.NewTicker(pause)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-tick.C
	}
}

var errNotYet = errors.New("not yet")
