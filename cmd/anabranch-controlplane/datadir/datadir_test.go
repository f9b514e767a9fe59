package datadir_test

import (
	"bytes"
	"context"
	"errors"
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

	"github.com/spf13/cobra"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/cmd/anabranch-controlplane/datadir"
	"anabranch/cmd/anabranch-controlplane/node"
	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/backup"
	"anabranch/controlplane/store"
	"anabranch/dataplane/subscribe"
	"anabranch/dataplane/table"
)

const (
	admin    = "admin-token-of-this-test"
	patience = 60 * time.Second
)

// member is one control plane node of a test, which may be stopped and started at the same addresses.
type member struct {
	t   *testing.T
	o   node.Options
	at  node.Addresses
	end context.CancelFunc
	ran chan error
}

func (m *member) start() {
	m.t.Helper()
	n, err := node.New(m.o)
	if err != nil {
		m.t.Fatal(err)
	}
	m.at = n.Addresses()
	m.o.HTTP, m.o.GRPC, m.o.Raft, m.o.RaftListener = m.at.HTTP, m.at.GRPC, m.at.Raft, nil
	ctx, cancel := context.WithCancel(context.Background())
	m.end, m.ran = cancel, make(chan error, 1)
	go func() { m.ran <- n.Run(ctx) }()
}

func (m *member) stop() {
	m.t.Helper()
	if m.end == nil {
		return
	}
	m.end()
	m.end = nil
	if err := <-m.ran; err != nil {
		m.t.Errorf("%s: %v", m.o.ID, err)
	}
}

// wipe takes the node's data away for ever.
func (m *member) wipe() {
	m.t.Helper()
	if err := os.RemoveAll(m.o.DataDir); err != nil {
		m.t.Fatal(err)
	}
}

func newMember(t *testing.T, dir string, id fleet.NodeID) *member {
	m := &member{t: t, o: node.Options{
		ID: id, DataDir: filepath.Join(dir, string(id)), HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Raft: "127.0.0.1:0",
		Tokens: map[string]string{"admin": admin}, Logger: slog.New(slog.DiscardHandler), Version: "test",
	}}
	t.Cleanup(m.stop)
	return m
}

// cluster starts a new control plane of so many nodes, and gives it a small fleet.
func cluster(t *testing.T, size int) []*member {
	t.Helper()
	dir := t.TempDir()
	members := make([]*member, size)
	var peers []store.Peer
	for i := range members {
		members[i] = newMember(t, dir, fleet.NodeID(fmt.Sprintf("n%d", i+1)))
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		members[i].o.RaftListener = l
		peers = append(peers, store.Peer{ID: members[i].o.ID, Address: l.Addr().String()})
	}
	for _, m := range members {
		m.o.Peers = peers
		m.start()
	}
	for _, r := range []string{
		`regions {"kind":"Region","metadata":{"name":"us"},"spec":{"zone":"us"}}`,
		`models {"kind":"Model","metadata":{"name":"m"},"spec":{}}`,
		`clusters {"kind":"Cluster","metadata":{"name":"us-a"},"spec":{"region":"us","models":["m"],"endpoints":[{"id":"e","url":"http://127.0.0.1:1","class":"h100"}]}}`,
	} {
		plural, body, _ := strings.Cut(r, " ")
		members[0].create(plural, body)
	}
	return members
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within %s", what, patience)
		case <-tick.C:
		}
	}
}

func (m *member) client() *client.Client {
	return &client.Client{Servers: []string{"http://" + m.at.HTTP}, Token: admin}
}

// create posts a resource, until there is a leader.
func (m *member) create(plural, body string) {
	m.t.Helper()
	body = strings.Replace(body, "{", `{"apiVersion":"anabranch/v1",`, 1)
	eventually(m.t, "create in "+plural, func() bool {
		_, err := m.client().Do(m.t.Context(), client.Call{Method: http.MethodPost, Path: "/v1/" + plural, Body: []byte(body)})
		if err == nil || client.IsStatus(err, http.StatusConflict) {
			return true
		}
		if !client.IsStatus(err, http.StatusServiceUnavailable) {
			m.t.Fatalf("create in %s: %v", plural, err)
		}
		return false
	})
}

func (m *member) tenant(name string) {
	m.t.Helper()
	m.create("tenants", fmt.Sprintf(`{"kind":"Tenant","metadata":{"name":%q},"spec":{}}`, name))
}

// has says whether a node shows a tenant, by a strong read.
func (m *member) has(name string) bool {
	_, err := m.client().Do(m.t.Context(), client.Call{Method: http.MethodGet, Path: "/v1/tenants/" + name})
	return err == nil
}

// router follows the control plane as the data plane does.
type router struct {
	t      *testing.T
	holder table.Holder
}

func follow(t *testing.T, addresses ...string) *router {
	t.Helper()
	r := &router{t: t}
	c, err := subscribe.New(subscribe.Options{
		Addresses: addresses, Router: "us-1", Region: "us", Version: "test", Holder: &r.holder,
		BackoffMax: 200 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Report: func(now time.Time) *routerpb.Report {
			report := &routerpb.Report{AtUnixMs: now.UnixMilli(), WindowMs: 1000, QuotaStoreOk: true}
			if held := r.holder.Load(); held != nil {
				report.Applied = held.Ref.Proto()
			}
			return report
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// takes waits for a table that knows the tenants, and returns its number.
func (r *router) takes(tenants ...string) table.Ref {
	r.t.Helper()
	var ref table.Ref
	eventually(r.t, "a table with "+strings.Join(tenants, ","), func() bool {
		held := r.holder.Load()
		if held == nil || len(held.Proto().GetTenants()) != len(tenants) {
			return false
		}
		for i, tenant := range held.Proto().GetTenants() {
			if tenant.GetId() != tenants[i] {
				return false
			}
		}
		ref = held.Ref
		return true
	})
	return ref
}

// command runs one of the commands under test.
func command(t *testing.T, cmd *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// Backup, wipe, restore: the router keeps its table meanwhile, which is later than the backup, and then
// takes those of the new cluster.
func TestRoutersFollowARestoredCluster(t *testing.T) {
	t.Parallel()
	n1 := cluster(t, 1)[0]
	n1.tenant("kept")
	r := follow(t, n1.at.GRPC)
	r.takes("kept")

	file := filepath.Join(t.TempDir(), "a.backup")
	saved, err := backup.Save(file, func(w io.Writer) error {
		return n1.client().Download(t.Context(), "/v1/controlplane/snapshot", nil, w)
	})
	if err != nil {
		t.Fatal(err)
	}
	n1.tenant("lost")
	n1.tenant("lost-too")
	later := r.takes("kept", "lost", "lost-too")
	if later.Epoch != 1 || later.Revision <= saved.Revision {
		t.Fatalf("the router holds %v, not later than the backup at %d: the test shows nothing", later, saved.Revision)
	}
	n1.stop()
	n1.wipe()
	for i := range 2 { // the second time onto what the first has made
		args := []string{file, "--data-dir", n1.o.DataDir, "--id", "n1", "--peers", "n1=" + n1.at.Raft}
		if i > 0 {
			if _, err := command(t, datadir.Restore(), args...); !errors.Is(err, store.ErrNotEmpty) {
				t.Errorf("onto data: %v", err)
			}
			args = append(args, "--replace")
		}
		if out, err := command(t, datadir.Restore(), args...); err != nil || !strings.Contains(out, saved.ClusterID) {
			t.Fatalf("%q, %v", out, err)
		}
	}
	if r.holder.Load() == nil {
		t.Fatal("the router has no table without a control plane")
	}
	n1.start()
	restored := r.takes("kept")
	if restored.Epoch != 2 || restored.ClusterID != later.ClusterID || !restored.Newer(later) {
		t.Errorf("the router took %v after %v", restored, later)
	}
	n1.tenant("new")
	if last := r.takes("kept", "new"); last.Epoch != 2 || !last.Newer(restored) {
		t.Errorf("and then %v", last)
	}
}

// The runbook for a lost majority, step by step.
func TestRoutersFollowARecoveredCluster(t *testing.T) {
	t.Parallel()
	members := cluster(t, 3)
	members[0].tenant("acme")
	n3 := members[2]
	r := follow(t, members[0].at.GRPC, members[1].at.GRPC, n3.at.GRPC)
	before := r.takes("acme")
	eventually(t, "the third node to have it", func() bool { return n3.has("acme") })

	for _, m := range members[:2] { // two are lost for ever
		m.stop()
		m.wipe()
	}
	n3.stop()
	at := []string{"--data-dir", n3.o.DataDir, "--peers", "n3=" + n3.at.Raft}
	out, err := command(t, datadir.Recover(), append(at, "--dry-run")...)
	if err != nil || !strings.Contains(out, "node        n3") || strings.Contains(out, "recovered") {
		t.Fatalf("%q, %v", out, err)
	}
	if out, err = command(t, datadir.Recover(), at...); err != nil || !strings.Contains(out, "--join "+n3.at.Raft) {
		t.Fatalf("%q, %v", out, err)
	}
	n3.o.Peers = nil
	n3.start()
	for _, id := range []fleet.NodeID{"n4", "n5"} {
		m := newMember(t, filepath.Dir(n3.o.DataDir), id)
		m.o.Join = []string{n3.at.Raft}
		m.start()
		eventually(t, string(id)+" to have the data", func() bool { return m.has("acme") })
		members = append(members, m)
	}
	members[3].tenant("globex") // by way of a node that has joined
	after := r.takes("acme", "globex")
	if after.Epoch != before.Epoch+1 || after.ClusterID != before.ClusterID || !after.Newer(before) {
		t.Errorf("the router took %v after %v", after, before)
	}
}

func TestCommandsRefuseWhatIsWrong(t *testing.T) {
	n1 := cluster(t, 1)[0]
	n1.stop()
	dir := n1.o.DataDir
	for _, c := range []struct {
		name, want string
		cmd        *cobra.Command
		args       []string
	}{
		{"several nodes left", "list this one alone", datadir.Recover(), []string{"--data-dir", dir, "--peers", "n1=h:1,n2=h:2"}},
		{"the folder of another", "the folder of node n1", datadir.Recover(), []string{"--data-dir", dir, "--peers", "n2=h:1"}},
		{"no folder", "no such file", datadir.Recover(), []string{"--data-dir", filepath.Join(dir, "none"), "--peers", "n1=h:1"}},
		{"no address", "not of the form", datadir.Recover(), []string{"--data-dir", dir, "--peers", "n1"}},
		{"no host", "not host:port", datadir.Recover(), []string{"--data-dir", dir, "--peers", "n1=:7120"}},
		{"no folder named", "--data-dir is missing", datadir.Recover(), []string{"--peers", "n1=h:1"}},
		{"no file", "no such file", datadir.Restore(), []string{"none", "--data-dir", t.TempDir(), "--id", "n1", "--peers", "n1=h:1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := command(t, c.cmd, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}
