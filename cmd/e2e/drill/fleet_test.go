package drill

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev"
	"anabranch/cmd/anabranch/dev/child"
	"anabranch/cmd/anabranch/dev/load"
	"anabranch/controlplane/policy"
)

// fleet is a running `anabranch dev`.
type fleet struct {
	t      *testing.T
	folder dev.Folder
	record *dev.Record
	// ann makes and runs drills, bob approves them.
	ann, bob, admin *client.Client
}

// page takes what `anabranch dev` says.
type page struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// start brings everything up; it ends with the test.
func start(t *testing.T) *fleet {
	t.Helper()
	dir, err := os.MkdirTemp("", "anb") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, folder: dev.Folder(dir)}
	said, ended := new(page), make(chan error, 1)
	ctx, end := context.WithCancel(context.Background())
	go func() {
		ended <- dev.Run(ctx, dev.Options{Folder: f.folder, Program: "anabranch", Self: bin + "anabranch", Out: said})
	}()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Errorf("anabranch dev: %v\n%s", err, said)
		}
		if t.Failed() {
			f.logs()
		}
		_ = os.RemoveAll(dir) // of a test
	})
	f.await(dev.StartWithin+10*time.Second, "anabranch dev to be ready", func() error {
		select {
		case err := <-ended:
			ended <- nil
			t.Fatalf("anabranch dev has ended: %v\n%s", err, said)
		default:
		}
		s, err := f.folder.Status(t.Context())
		if err == nil && s.Phase != "ready" {
			err = fmt.Errorf("it is %s", s.Phase)
		}
		return err
	})
	if f.record, err = f.folder.Load(); err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, n := range f.record.ControlPlane {
		nodes = append(nodes, n.HTTP)
	}
	as := func(token string) *client.Client {
		return &client.Client{Servers: nodes, Token: token, Reason: "rehearsal", HTTP: &http.Client{Timeout: 30 * time.Second}}
	}
	f.ann, f.bob, f.admin = as(f.record.Tokens.Operator), as(f.record.Tokens.Approver), as(f.record.Tokens.Admin)
	f.rule()
	return f
}

// rule lets drills follow each other, which rules allow once a day, and take out as much as they like, so that the
// dry run alone is in the way of one that would overload the rest.
func (f *fleet) rule() {
	f.t.Helper()
	r, wrong := policy.Parse([]byte(`{"apiVersion":"anabranch/v1","kind":"SafetyRule","metadata":{"name":"rehearsals"},` +
		`"spec":{"drills":{"intervalHours":0.0001,"maxCapacityRemoved":1}}}`))
	if wrong != nil {
		f.t.Fatal(wrong)
	}
	f.await(30*time.Second, "a rule", func() error {
		_, err := f.admin.Create(f.t.Context(), r)
		return err
	})
}

// drain has no traffic go to a cluster any more, or takes that back.
func (f *fleet) drain(cluster string, drained bool) {
	f.t.Helper()
	f.await(time.Minute, fmt.Sprintf("drained %v of %s", drained, cluster), func() error {
		_, etag, err := f.admin.Get(f.t.Context(), policy.KindCluster, cluster)
		if err != nil {
			return err
		}
		_, err = f.admin.Do(f.t.Context(), client.Call{
			Method: http.MethodPatch, Path: "/v1/clusters/" + cluster, IfMatch: etag, Body: fmt.Appendf(nil, `{"spec":{"drained":%v}}`, drained),
		})
		return err
	})
}

// logs tells the ends of what the control plane and the routers have written.
func (f *fleet) logs() {
	files, _ := filepath.Glob(f.folder.Log("*")) // of this test's making
	for _, file := range files {
		if name := filepath.Base(file); strings.HasPrefix(name, "controlplane") || strings.HasPrefix(name, "router") {
			f.t.Logf("end of %s:\n%s", name, child.Tail(file, 15))
		}
	}
}

// drive sends traffic until stop is called, which gives what became of it.
func (f *fleet) drive(rps float64) (stop func() load.Summary) {
	o := load.Options{RPS: rps, Duration: time.Hour, StreamRatio: load.DefaultStreamRatio, Seed: 1, Keys: map[string]string{}, Shares: map[string]float64{"acme": 49, "globex": 1}}
	for _, r := range f.record.Routers {
		o.Routers = append(o.Routers, load.Router{Region: r.Region, URL: r.HTTP})
	}
	for tenant := range o.Shares {
		o.Keys[tenant] = f.record.Tenants[tenant].Key
	}
	ctx, cancel := context.WithCancel(context.Background())
	var sum load.Summary
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		sum, err = load.Run(ctx, o)
	}()
	once := sync.OnceFunc(func() {
		cancel()
		<-done
	})
	f.t.Cleanup(once)
	return func() load.Summary {
		f.t.Helper()
		once()
		if err != nil {
			f.t.Fatal(err)
		}
		return sum
	}
}

// burden asks for so many answers a second, of 1,500 tokens each: much work by few requests. They begin to be sent until
// stop is called, which drops those that are under way.
func (f *fleet) burden(rps int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	ask := func(router dev.RouterRecord, model string) {
		body := fmt.Sprintf(`{"model":%q,"max_tokens":1500,"ignore_eos":true,"messages":[{"role":"user","content":"tell me all"}]}`, model)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, router.HTTP+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			return
		}
		req.Header.Set("Authorization", "Bearer "+f.record.Tenants["acme"].Key)
		req.Header.Set("Content-Type", "application/json")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // what becomes of one is not judged here
			_ = resp.Body.Close()
		}
	}
	loops.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(rps))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			loops.Go(func() {
				ask(f.record.Routers[i%len(f.record.Routers)], f.record.Models[i/len(f.record.Routers)%len(f.record.Models)])
			})
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		loops.Wait()
	})
}

// do breaks or heals something.
func (f *fleet) do(act func(context.Context, dev.Order) ([]string, error), o dev.Order) {
	f.t.Helper()
	if done, err := act(f.t.Context(), o); err != nil {
		f.t.Fatalf("%+v: %v, done %q", o, err, done)
	}
}

// lease is what a router says of the drill of its table.
type lease struct {
	ID                         uint64
	Sequence                   uint64
	Shifted                    float64
	Dead, QuotaStoreLost       bool
	WatchOnly, Lapsed, Nothing bool
}

// lease asks a router's own page: no word of the control plane is in it. Nothing: its table has no drill.
func (f *fleet) lease(r dev.RouterRecord) (lease, error) {
	var s struct{ Drill *lease }
	if err := f.page(r, &s); err != nil {
		return lease{}, err
	}
	if s.Drill == nil {
		return lease{Nothing: true}, nil
	}
	return *s.Drill, nil
}

// page reads what a router says of itself.
func (f *fleet) page(r dev.RouterRecord, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Admin+"/status", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(into)
}

// obeying lists the routers that obey a lease now; nil: none does. A router that does not answer obeys.
func (f *fleet) obeying() (names []string) {
	for _, r := range f.record.Routers {
		if l, err := f.lease(r); err != nil || l.Sequence != 0 {
			names = append(names, r.Region)
		}
	}
	return names
}

// reverted waits until no router obeys a lease, and says how long that took since a moment.
func (f *fleet) reverted(since time.Time) time.Duration {
	f.t.Helper()
	f.await(3*time.Minute, "all routers to revert", func() error {
		if left := f.obeying(); left != nil {
			return fmt.Errorf("%v obey a lease", left)
		}
		return nil
	})
	return time.Since(since)
}

// well waits until nothing is broken any more: all nodes and routers are there, every cluster is healthy and no table
// is on its way out in stages.
func (f *fleet) well() {
	f.t.Helper()
	f.do(f.folder.Heal, dev.Order{Kind: "all"})
	f.await(4*time.Minute, "all to be well", func() error {
		var v struct {
			Clusters []struct{ Name, Health, Reason string }
		}
		var s struct {
			Routers []struct{ Connected bool }
			Drill   *struct{ ID, State string }
			Rollout *struct{}
		}
		if err := f.admin.JSON(f.t.Context(), "/v1/fleet", nil, &v); err != nil {
			return err
		}
		if err := f.admin.JSON(f.t.Context(), "/v1/status", nil, &s); err != nil {
			return err
		}
		if len(s.Routers) < len(f.record.Routers) || s.Drill != nil || s.Rollout != nil {
			return fmt.Errorf("%d routers, drill %+v, rollout %v", len(s.Routers), s.Drill, s.Rollout != nil)
		}
		for _, c := range v.Clusters {
			if c.Health != "HEALTHY" {
				return fmt.Errorf("%s is %s: %s", c.Name, c.Health, c.Reason)
			}
		}
		return nil
	})
}

// leader names who leads, as the node with the highest word says.
func (f *fleet) leader() string {
	f.t.Helper()
	var name string
	f.await(time.Minute, "a leader", func() error {
		var s struct{ Leader string }
		if err := f.admin.JSON(f.t.Context(), "/v1/status", nil, &s); err != nil {
			return err
		}
		if name = s.Leader; name == "" {
			return fmt.Errorf("nobody leads")
		}
		return nil
	})
	return name
}

// await polls until ok says nil. After the time it ends the test with the last reason.
func (f *fleet) await(within time.Duration, what string, ok func() error) {
	f.t.Helper()
	deadline, tick := time.Now().Add(within), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("waited %v for %s: %v", within, what, err)
		}
		<-tick.C
	}
}

// member is a node as the control plane tells of it.
type member struct {
	ID              string
	Leader, Healthy bool
	AppliedIndex    uint64
}

func (f *fleet) members() ([]member, error) {
	var list struct{ Items []member }
	err := f.admin.JSON(f.t.Context(), "/v1/controlplane/members", nil, &list)
	return list.Items, err
}

// followers are the nodes that do not lead.
func (f *fleet) followers() (names []string) {
	f.t.Helper()
	leader := f.leader()
	for _, n := range f.record.ControlPlane {
		if n.ID != leader {
			names = append(names, n.ID)
		}
	}
	return names
}

// healthy says whether a node is, and has all that the others have; nil: it is.
func (f *fleet) healthy(name string) error {
	all, err := f.members()
	if err != nil {
		return err
	}
	var most uint64
	for _, m := range all {
		most = max(most, m.AppliedIndex)
	}
	for _, m := range all {
		if m.ID == name && m.Healthy && m.AppliedIndex+100 >= most {
			return nil
		}
	}
	return fmt.Errorf("%s is not among those that are well: %+v", name, all)
}
