package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/cmd/anabranch/pki"
	"anabranch/controlplane/audit"
	"anabranch/controlplane/store"
)

var client = &http.Client{Timeout: 15 * time.Second}

const admin = "admin-token-of-this-test"

// member is a node that runs in a test.
type member struct {
	*Node
	options Options
	end     context.CancelFunc
	done    chan error
}

func run(t *testing.T, o Options) *member {
	t.Helper()
	n, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{Node: n, options: o, end: cancel, done: make(chan error, 1)}
	go func() { m.done <- n.Run(ctx) }()
	t.Cleanup(m.stop)
	return m
}

func (m *member) stop() {
	m.end()
	if err, ok := <-m.done; ok {
		close(m.done)
		if err != nil {
			panic(fmt.Sprintf("%s: %v", m.ID(), err))
		}
	}
}

func options(dir string, id fleet.NodeID) Options {
	return Options{
		ID: id, DataDir: filepath.Join(dir, string(id)),
		HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Raft: "127.0.0.1:0",
		Tokens: map[string]string{"admin": admin},
		Logger: slog.New(slog.DiscardHandler), Version: "test",
	}
}

func cluster(t *testing.T, size int, change ...func(*Options)) []*member {
	t.Helper()
	dir := t.TempDir()
	listeners := make([]net.Listener, size)
	var peers []store.Peer
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[i] = l
		peers = append(peers, store.Peer{ID: fleet.NodeID(fmt.Sprintf("n%d", i+1)), Address: l.Addr().String()})
	}
	members := make([]*member, size)
	for i, l := range listeners {
		o := options(dir, peers[i].ID)
		o.RaftListener, o.Peers = l, peers
		for _, f := range change {
			f(&o)
		}
		members[i] = run(t, o)
	}
	for _, m := range members {
		m.await(t, "ready", func() bool {
			status, _ := m.call(t, http.MethodGet, "/readyz", "", nil)
			return status == http.StatusOK
		})
	}
	return members
}

func (m *member) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline, tick := time.After(30*time.Second), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("%s: not %s in time", m.ID(), what)
		case <-tick.C:
		}
	}
}

func (m *member) call(t *testing.T, method, path, body string, header map[string]string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+m.Addresses().HTTP+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+admin)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return resp.StatusCode, doc
}

func region(name string) string {
	return fmt.Sprintf(`{"apiVersion":"anabranch/v1","kind":"Region","metadata":{"name":%q},"spec":{"zone":"eu"}}`, name)
}

func TestAnyNodeTakesWritesAndAllShowThem(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	for i, m := range members {
		name := fmt.Sprintf("region-%d", i)
		if status, doc := m.call(t, http.MethodPost, "/v1/regions", region(name), nil); status != http.StatusCreated {
			t.Fatalf("create on %s: %d %v", m.ID(), status, doc)
		}
	}
	for _, m := range members {
		status, doc := m.call(t, http.MethodGet, "/v1/regions", "", nil)
		if items, _ := doc["items"].([]any); status != http.StatusOK || len(items) != 3 {
			t.Errorf("%s lists %d regions, status %d", m.ID(), len(items), status)
		}
	}
	rehearsed(t, members[1])
	status, doc := members[0].call(t, http.MethodGet, "/v1/controlplane/members", "", nil)
	items, _ := doc["items"].([]any)
	if status != http.StatusOK || len(items) != 3 {
		t.Fatalf("members: %d %v", status, doc)
	}
	tokensHoldEverywhere(t, members)
	twoPeopleChangeWhatIsProtected(t, members)
	sameTrail(t, members)
	t.Run("and asks all routers", func(t *testing.T) { askRouters(t, members) })
}

// rehearsed makes a fleet by way of a node, and asks it for a dry run: it plans and has a simulator.
func rehearsed(t *testing.T, m *member) {
	t.Helper()
	const clusterDoc = `{"apiVersion":"anabranch/v1","kind":"Cluster","metadata":{"name":"c"},"spec":{"region":"region-0","models":["m"],"endpoints":[{"id":"a","url":"http://127.0.0.1:1","class":"h100"}]}}`
	if status, doc := m.call(t, http.MethodPost, "/v1/models", `{"apiVersion":"anabranch/v1","kind":"Model","metadata":{"name":"m"},"spec":{}}`, nil); status != http.StatusCreated {
		t.Fatalf("create a model: %d %v", status, doc)
	}
	status, doc := m.call(t, http.MethodPost, "/v1/clusters?dry_run=true", clusterDoc, nil)
	forecast, _ := doc["simulation"].(map[string]any)
	note, _ := forecast["note"].(string)
	moved, _ := forecast["clusters"].([]any)
	if status != http.StatusOK || !strings.Contains(note, "report no demand") || len(moved) != 1 {
		t.Errorf("dry run: %d %v", status, doc)
	}
}

// sameTrail checks the chain of every node's audit trail, and that they hold the same as far as all go.
func sameTrail(t *testing.T, members []*member) {
	t.Helper()
	var trails [][]audit.Entry
	shortest := -1
	for _, m := range members {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+m.Addresses().HTTP+"/v1/audit/export", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+admin)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var (
			chain   audit.Chain
			entries []audit.Entry
		)
		err = audit.Read(resp.Body, func(e audit.Entry) error {
			entries = append(entries, e)
			h, err := e.Hashed()
			if err != nil {
				return err
			}
			return chain.Add(h)
		})
		if err != nil || !chain.Whole() {
			t.Errorf("%s: %v", m.ID(), err)
		}
		trails = append(trails, entries)
		if shortest < 0 || len(entries) < shortest {
			shortest = len(entries)
		}
	}
	for i, entries := range trails {
		if shortest < 3 || entries[shortest-1].SHA256 != trails[0][shortest-1].SHA256 {
			t.Errorf("%s holds another entry %d", members[i].ID(), shortest)
		}
	}
}

// tokensHoldEverywhere: a token made through one node is good at all, until it is revoked through another.
func tokensHoldEverywhere(t *testing.T, members []*member) {
	t.Helper()
	var header map[string]string
	members[0].await(t, "ready for tokens", func() bool { // until all voters have told that they know them
		status, doc := members[0].call(t, http.MethodPost, "/v1/tokens", `{"name":"ci","role":"viewer"}`, nil)
		header = map[string]string{"Authorization": fmt.Sprint("Bearer ", doc["secret"])}
		return status == http.StatusCreated
	})
	holds := func(want int) {
		for _, m := range members {
			m.await(t, fmt.Sprint("answering ", want), func() bool {
				status, _ := m.call(t, http.MethodGet, "/v1/whoami", "", header)
				return status == want
			})
		}
	}
	holds(http.StatusOK)
	if status, doc := members[2].call(t, http.MethodDelete, "/v1/tokens/ci", "", nil); status != http.StatusNoContent {
		t.Fatalf("revoke: %d %v", status, doc)
	}
	holds(http.StatusUnauthorized)
}

// led are who leads and who does not.
func led(t *testing.T, members []*member) (leader *member, rest []*member) {
	t.Helper()
	members[0].await(t, "led", func() bool {
		leader, rest = nil, nil
		for _, m := range members {
			if m.store.IsLeader() {
				leader = m
			} else {
				rest = append(rest, m)
			}
		}
		return leader != nil && len(rest) == len(members)-1
	})
	return leader, rest
}

func TestWritesGoOnWithoutTheLeaderAndSurviveARestart(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	if status, _ := members[0].call(t, http.MethodPost, "/v1/regions", region("before"), nil); status != http.StatusCreated {
		t.Fatal(status)
	}
	_, rest := led(t, members)
	for _, m := range members { // keys are in force once all nodes are known to keep them
		m.await(t, "at a level with keys", func() bool { return m.store.View().FeatureLevel() >= 2 })
	}
	key := map[string]string{"Idempotency-Key": "of-this-test"}
	first, made := rest[0].call(t, http.MethodPost, "/v1/regions", region("keyed"), key)
	if first != http.StatusCreated {
		t.Fatalf("create with a key on a follower: %d %v", first, made)
	}
	drilled := drillOf(t, rest[0])
	gone, rest := led(t, members) // a slow machine may have changed its leader meanwhile
	at := gone.Addresses()
	drilled.killed = time.Now()
	gone.stop()
	// The bound is 3 s for a kill; a failing test means 9 s.
	limit := time.Now().Add(9 * time.Second)
	rest[0].await(t, "writable", func() bool {
		status, _ := rest[0].call(t, http.MethodPut, "/v1/regions/after", region("after"), map[string]string{"If-None-Match": "*"})
		return status == http.StatusCreated || status == http.StatusPreconditionFailed
	})
	if time.Now().After(limit) {
		t.Error("no write for 9 s after the leader had gone")
	}
	// The successor, and either node, knows the key: the same answer, done once; another body is refused.
	for _, m := range rest {
		again, doc := m.call(t, http.MethodPost, "/v1/regions", region("keyed"), key)
		if again != http.StatusCreated || fmt.Sprint(doc["metadata"]) != fmt.Sprint(made["metadata"]) {
			t.Errorf("the same key on %s: %d %v, the first answer was %v", m.ID(), again, doc, made)
		}
		if other, doc := m.call(t, http.MethodPost, "/v1/regions", region("other"), key); other != http.StatusUnprocessableEntity || doc["code"] != "idempotency_key_reused" {
			t.Errorf("the same key with another body on %s: %d %v", m.ID(), other, doc)
		}
	}

	drilled.survives(t, rest[1])

	o := gone.options
	o.RaftListener, o.Raft = nil, at.Raft
	back := run(t, o)
	back.await(t, "caught up", func() bool {
		status, _ := back.call(t, http.MethodGet, "/v1/regions/after", "", nil)
		return status == http.StatusOK
	})
}

func TestANodeJoinsARunningCluster(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	if status, _ := members[0].call(t, http.MethodPost, "/v1/regions", region("before"), nil); status != http.StatusCreated {
		t.Fatal(status)
	}
	o := options(t.TempDir(), "n4")
	o.Join = []string{members[1].Addresses().Raft}
	joined := run(t, o)
	joined.await(t, "a member with the state", func() bool {
		status, _ := joined.call(t, http.MethodGet, "/v1/regions/before", "", nil)
		return status == http.StatusOK && len(joined.store.Members()) == 4
	})
}

func TestANodeWithoutTokensFoundsNoCluster(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := options(t.TempDir(), "n1")
	o.RaftListener, o.Peers, o.Tokens = l, []store.Peer{{ID: "n1", Address: l.Addr().String()}}, nil
	m := run(t, o)
	m.await(t, "leading", m.store.Ready)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := m.found(ctx); err != nil || m.store.View().ClusterID() != "" {
		t.Errorf("founded %q, to which nobody has a token (%v)", m.store.View().ClusterID(), err)
	}
}

func TestOptionsNameTheFlag(t *testing.T) {
	good := options("dir", "n1")
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		change     func(*Options)
	}{
		{"no folder", "--data-dir", func(o *Options) { o.DataDir = "" }},
		{"both", "--peers and --join", func(o *Options) { o.Peers, o.Join = []store.Peer{{}}, []string{"a"} }},
		{"address", "--http", func(o *Options) { o.HTTP = "7100" }},
		{"half of HTTP's TLS", "--http-cert", func(o *Options) { o.HTTPKey = "a" }},
		{"half of TLS", "--tls-key", func(o *Options) { o.TLS.Cert, o.TLS.CA = "a", "b" }},
		{"open to the network", "--raft", func(o *Options) { o.Raft = ":7120" }},
		{"role", `role "root"`, func(o *Options) { o.Tokens = map[string]string{"root": admin} }},
		{"one token for two", `"admin" and "viewer" have the same token`, func(o *Options) { o.Tokens = map[string]string{"admin": admin, "viewer": admin} }},
		{"backups all the time", "--backup-interval", func(o *Options) { o.BackupInterval = time.Millisecond }},
		{"backups below none", "--backup-keep", func(o *Options) { o.BackupKeep = -1 }},
		{"short token", "shorter than", func(o *Options) { o.Tokens = map[string]string{"admin": "x"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := good
			c.change(&o)
			if err := o.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestRESTOverTLS(t *testing.T) {
	authority, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Node("n1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	o := options(t.TempDir(), "n1")
	dir := t.TempDir()
	o.HTTPCert, o.HTTPKey = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	for path, text := range map[string][]byte{o.HTTPCert: pair.Cert, o.HTTPKey: pair.Key} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := run(t, o)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Pair().Cert)
	secure := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer secure.CloseIdleConnections()
	resp, err := secure.Get("https://" + n.Addresses().HTTP + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestPortsInUseAreNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := options(t.TempDir(), "n1")
	o.GRPC = l.Addr().String()
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "--grpc") {
		t.Errorf("got %v", err)
	}
}
