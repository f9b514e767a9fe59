package e2e

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/identity"
	"anabranch/cmd/anabranch-controlplane/node"
	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev"
	"anabranch/cmd/anabranch/dev/seed"
	"anabranch/cmd/anabranch/pki"
	"anabranch/cmd/e2e/loopback"
	"anabranch/controlplane/oidc"
	"anabranch/controlplane/state"
	"anabranch/controlplane/store"
	"anabranch/ratelimit/redisbucket/redistest"
	"anabranch/web"
)

// System is a whole Anabranch. It is started by start and stopped by the test's cleanup.
type System struct {
	t         *testing.T
	dir       string
	log       *slog.Logger
	authority *pki.Authority

	redis    *redistest.Server
	clusters map[string]*Cluster
	nodes    []*Node
	routers  map[string]*Router
	layout   seed.Layout

	keys   map[string]string // API keys by tenant
	tokens map[string]string // bearer tokens by role
	people *oidc.Options     // nil: nobody signs in
	admin  *client.Client
}

// part is something that runs until it is ended.
type part struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // read after done
}

func begin(run func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = run(ctx)
	}()
	return p
}

// end stops the part and waits; nil parts are gone already.
func (p *part) end() error {
	if p == nil {
		return nil
	}
	p.cancel()
	<-p.done
	return p.err
}

// start brings everything up, seeds it, and waits until every router answers for every model.
func start(t *testing.T, change ...func(*System)) *System {
	t.Helper()
	s := &System{
		t: t, dir: t.TempDir(), clusters: map[string]*Cluster{}, routers: map[string]*Router{},
		keys: map[string]string{}, tokens: map[string]string{},
	}
	s.log = s.logger()
	for _, f := range change {
		f(s)
	}
	var err error
	if s.authority, err = pki.NewAuthority(time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, role := range state.Roles() {
		s.tokens[role] = dev.NewKey()
	}
	for _, tenant := range seed.Tenants() {
		s.keys[tenant] = dev.NewKey()
	}
	s.redis = redistest.Start(t, "--maxmemory-policy", "noeviction")
	s.startFleet()
	s.startNodes()
	s.startRouters()
	s.seed()
	s.awaitAnswers()
	return s
}

// logger writes to a file that is shown when the test fails.
func (s *System) logger() *slog.Logger {
	path := filepath.Join(s.dir, "system.log")
	file, err := os.Create(path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		file.Close()
		if s.t.Failed() {
			s.t.Logf("end of the system's log:\n%s", tail(path, 12<<10))
		}
	})
	return slog.New(slog.NewTextHandler(file, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

func tail(path string, most int64) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if size, err := file.Seek(0, io.SeekEnd); err == nil {
		if _, err := file.Seek(max(0, size-most), io.SeekStart); err != nil {
			return err.Error()
		}
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// certificate writes a certificate for who and gives its files.
func (s *System) certificate(name string, pair pki.Pair, err error) identity.Files {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	write := func(file string, text []byte) string {
		path := filepath.Join(s.dir, file)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			s.t.Fatal(err)
		}
		return path
	}
	return identity.Files{
		Cert: write(name+".pem", pair.Cert),
		Key:  write(name+".key", pair.Key),
		CA:   write(name+"-ca.pem", s.authority.Pair().Cert),
	}
}

// Node is one control plane node, running or not.
type Node struct {
	options node.Options
	at      node.Addresses
	part    *part
}

func (s *System) startNodes() {
	s.t.Helper()
	var peers []store.Peer
	var listeners []net.Listener
	for i := range 3 {
		l := loopback.Listen(s.t)
		listeners = append(listeners, l)
		peers = append(peers, store.Peer{ID: fleet.NodeID(fmt.Sprintf("n%d", i+1)), Address: l.Addr().String()})
	}
	for i, peer := range peers {
		name := string(peer.ID)
		pair, err := s.authority.Node(name, time.Now())
		n := &Node{options: node.Options{
			ID: peer.ID, DataDir: filepath.Join(s.dir, name),
			HTTP: loopback.Free(s.t), GRPC: loopback.Free(s.t), RaftListener: listeners[i], Peers: peers,
			TLS: s.certificate(name, pair, err), Tokens: s.tokens, OIDC: s.people, Console: web.Dist(),
			Logger: s.log.With("process", name), Version: "e2e",
		}}
		s.nodes = append(s.nodes, n)
		s.startNode(n)
	}
	s.admin = s.as("admin")
}

// startNode starts a node for the first time or again, then at the addresses that it had.
func (s *System) startNode(n *Node) {
	s.t.Helper()
	if n.at != (node.Addresses{}) {
		n.options.RaftListener = nil
		n.options.HTTP, n.options.GRPC, n.options.Raft = n.at.HTTP, n.at.GRPC, n.at.Raft
	}
	running, err := node.New(n.options)
	if err != nil {
		s.t.Fatal(err)
	}
	n.at = running.Addresses()
	n.part = begin(running.Run)
	s.t.Cleanup(func() {
		if err := n.part.end(); err != nil {
			s.t.Errorf("%s: %v", n.options.ID, err)
		}
	})
}

// stop takes a node away.
func (n *Node) stop(t *testing.T) {
	t.Helper()
	if err := n.part.end(); err != nil {
		t.Errorf("%s: %v", n.options.ID, err)
	}
}

// as gives a client of the REST API with the token of a role; "" sends none.
func (s *System) as(role string) *client.Client {
	c := &client.Client{Token: s.tokens[role], Reason: "end-to-end test"}
	for _, n := range s.nodes {
		c.Servers = append(c.Servers, "http://"+n.at.HTTP)
	}
	return c
}

// leader is the node that leads now; nil: nobody knows of one.
func (s *System) leader() *Node {
	var status struct{ Leader string }
	if err := s.admin.JSON(s.t.Context(), "/v1/status", nil, &status); err != nil {
		return nil
	}
	for _, n := range s.nodes {
		if string(n.options.ID) == status.Leader {
			return n
		}
	}
	return nil
}

// seed writes the demonstration's resources, at the addresses of this system.
func (s *System) seed() {
	s.t.Helper()
	hashes := map[string]string{}
	for tenant, key := range s.keys {
		hashes[tenant] = dev.HashKey(key)
	}
	resources, err := seed.Resources(s.layout, hashes)
	if err != nil {
		s.t.Fatal(err)
	}
	s.await(30*time.Second, "a leader", func() error {
		if s.leader() == nil {
			return fmt.Errorf("none is known")
		}
		return nil
	})
	for _, r := range resources {
		s.taken("seed "+string(r.Kind)+" "+r.Metadata.Name, func() error {
			_, err := s.admin.Create(s.t.Context(), r)
			return err
		})
	}
}

// awaitAnswers waits until every router answers for every model.
func (s *System) awaitAnswers() {
	s.t.Helper()
	var all sync.WaitGroup
	for region := range s.routers {
		for _, model := range seed.Models() {
			all.Go(func() {
				s.await(60*time.Second, region+" to answer for "+model, func() error {
					a := s.ask(region, "acme", chat(model, false))
					if a.status != 200 {
						return fmt.Errorf("%d %s", a.status, a.body)
					}
					return nil
				})
			})
		}
	}
	// The last documents of the seed have arrived when the quota of the last tenant holds.
	for region := range s.routers {
		all.Go(func() {
			s.await(60*time.Second, region+" to know all tenants", func() error {
				a := s.ask(region, "initech", chat(seed.SmallModel, false))
				if a.status != 200 || a.header.Get("x-ratelimit-limit-requests") == "" {
					return fmt.Errorf("%d %s", a.status, a.body)
				}
				return nil
			})
		})
	}
	all.Wait()
	if s.t.Failed() {
		s.t.FailNow()
	}
}

// await polls until ok says nil. After the time it fails the test with the last reason.
func (s *System) await(within time.Duration, what string, ok func() error) bool {
	s.t.Helper()
	deadline, tick := time.After(within), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil {
			return true
		}
		select {
		case <-deadline:
			s.t.Errorf("waited %v for %s: %v", within, what, err)
			return false
		case <-tick.C:
		}
	}
}
