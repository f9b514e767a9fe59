package quota

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/subscribe/lastgood"
	"anabranch/ratelimit/redisbucket/redistest"
)

// regions of the fleet; each has one router.
var regions = []string{"us-east-1", "eu-west-1", "ap-south-1"}

// fleet is routers that share quotas.
type fleet struct {
	t       *testing.T
	redis   *redistest.Server
	model   *model
	routers []*router
}

// newFleet starts routers whose tenants have the quotas. An organisation is a tenant, by the tenant's name.
func newFleet(t *testing.T, quotas []*routerpb.Quota, change ...func(*routerpb.Organisation)) *fleet {
	t.Helper()
	f := &fleet{t: t, redis: redistest.Start(t, "--maxmemory-policy", "noeviction"), model: newModel(t)}
	table := f.table(quotas)
	for _, o := range table.GetOrganisations() {
		for _, f := range change {
			f(o)
		}
	}
	for _, region := range regions {
		dir := t.TempDir()
		saved, err := lastgood.Open(filepath.Join(dir, "tables"))
		if err == nil {
			err = saved.Save(table, time.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
		r := &router{t: t, region: region, dir: dir, link: newLink(t, f.redis.Addr)}
		r.launch()
		f.routers = append(f.routers, r)
	}
	return f
}

func (f *fleet) table(quotas []*routerpb.Quota) *routerpb.Table {
	pb := &routerpb.Table{
		Ref:           &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: 5},
		CreatedUnixMs: time.Now().UnixMilli(),
		Models:        []*routerpb.Model{{Id: "llama", OutputWeight: 3, InputMicrosPerMtok: 1_000_000, OutputMicrosPerMtok: 2_000_000}},
		Classes:       []*routerpb.Class{{Id: "interactive", Policy: "p", RequestTimeoutMs: 20_000, PickMode: "round-robin"}},
		Quotas:        quotas,
	}
	for _, region := range regions {
		pb.Regions = append(pb.Regions, &routerpb.Region{Id: region, Zone: region})
		pb.Clusters = append(pb.Clusters, &routerpb.Cluster{
			Id: region + "-a", Region: region, Kind: "endpoints", Models: []string{"llama"}, Health: "HEALTHY", HealthCap: 1,
			Endpoints: []*routerpb.Endpoint{{Id: "e", Url: f.model.URL, Class: "h100"}},
		})
		pb.Weights = append(pb.Weights, &routerpb.Weights{
			Model: "llama", Class: "interactive", Source: region,
			Clusters: []*routerpb.ClusterWeight{{Cluster: region + "-a", Weight: 1}},
		})
	}
	known := map[string]bool{}
	for _, q := range quotas {
		if known[q.GetTenant()] {
			continue
		}
		known[q.GetTenant()] = true
		sum := sha256.Sum256([]byte(q.GetTenant() + "-key"))
		pb.Tenants = append(pb.Tenants, &routerpb.Tenant{Id: q.GetTenant(), Tier: "standard", Priority: 50, KeySha256: [][]byte{sum[:]}})
		org := &routerpb.Organisation{Id: q.GetTenant(), Epoch: 1, Version: 1, Young: true, ColdPercent: 20}
		for _, region := range regions {
			org.Shares = append(org.Shares, &routerpb.Share{Region: region, Parts: uint32(1_000_000 / len(regions))})
		}
		pb.Organisations = append(pb.Organisations, org)
	}
	return pb
}

// rate is a quota of a tenant for what flows in by the minute.
func rate(tenant, kind string, perMinute, burst int64, degraded string) *routerpb.Quota {
	return &routerpb.Quota{
		Id: tenant + "/" + kind, Organisation: tenant, Tenant: tenant, Kind: kind, Limit: perMinute, PeriodMs: 60_000, Burst: burst,
		Degraded: degraded, Share: 1 / float64(len(regions)),
	}
}

// router is a process and where it keeps its tables.
type router struct {
	t           *testing.T
	region, dir string
	link        *link

	down         atomic.Bool // and not to be asked
	cmd          *exec.Cmd
	exited       chan struct{}
	err          error // read after exited
	front, admin string
	log          bytes.Buffer // read after exited
}

// launch starts the process and waits until it is ready.
func (r *router) launch() {
	r.t.Helper()
	r.cmd = exec.CommandContext(context.WithoutCancel(r.t.Context()), binary,
		"--router-id", r.region+"-1", "--region", r.region, "--data-dir", r.dir, "--listen", "127.0.0.1:0", "--peer-listen", "",
		"--admin-listen", "127.0.0.1:0", "--redis", r.link.addr(), "--log-format", "json", "--request-log", "none", "--drain", "5s")
	logs, err := r.cmd.StderrPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.exited = make(chan struct{})
	started := make(chan struct{ Listen, Admin string }, 1)
	go func(exited chan struct{}) {
		defer close(exited)
		lines := bufio.NewScanner(logs)
		for lines.Scan() {
			r.log.WriteString(lines.Text() + "\n")
			var line struct{ Msg, Listen, Admin string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "starting" {
				started <- struct{ Listen, Admin string }{line.Listen, line.Admin}
			}
		}
		r.err = errors.Join(lines.Err(), r.cmd.Wait())
	}(r.exited)
	cmd, exited := r.cmd, r.exited
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-exited
		if r.t.Failed() && cmd == r.cmd {
			text := r.log.String()
			r.t.Logf("end of the log of the router in %s:\n%s", r.region, text[max(0, len(text)-4000):])
		}
	})
	select {
	case at := <-started:
		r.front, r.admin = "http://"+at.Listen, "http://"+at.Admin
	case <-r.exited:
		r.t.Fatalf("the router ended: %v\n%s", r.err, &r.log)
	case <-time.After(30 * time.Second):
		r.t.Fatal("the router did not start within 30 s")
	}
	eventually(r.t, 20*time.Second, "the router in "+r.region+" to be ready", func() error {
		resp, err := clients.Get(r.admin + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	})
	r.down.Store(false)
}

// kill ends the process as SIGKILL does.
func (r *router) kill() {
	r.t.Helper()
	r.down.Store(true)
	if err := r.cmd.Process.Kill(); err != nil {
		r.t.Fatal(err)
	}
	<-r.exited
}

// stop ends the process as an operator does, and waits.
func (r *router) stop() {
	r.t.Helper()
	r.down.Store(true)
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	select {
	case <-r.exited:
	case <-time.After(15 * time.Second):
		r.t.Fatalf("the router in %s goes on 15 s after SIGTERM", r.region)
	}
}

// clients is the HTTP client of all tenants.
var clients = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 512}}

// ask sends one request. Prompt is the bytes of its text, besides what it tells the model server.
func (r *router) ask(ctx context.Context, tell told, promptBytes, maxTokens int) (status int, code string, err error) {
	words := fmt.Sprintf("%s %d %d %d;", tell.tenant, tell.prompt, tell.completion, tell.takes.Milliseconds())
	body := fmt.Sprintf(`{"model":"llama","messages":[{"role":"user","content":"%s"}],"max_tokens":%d}`, words+strings.Repeat("a", max(0, promptBytes-len(words))), maxTokens)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.front+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+tell.tenant+"-key")
	resp, err := clients.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return 0, "", err
	}
	var failure struct {
		Error struct{ Code string }
	}
	if err := json.Unmarshal(text, &failure); err != nil {
		return 0, "", fmt.Errorf("status %d, %s: %w", resp.StatusCode, text, err)
	}
	return resp.StatusCode, failure.Error.Code, nil
}

// eventually waits until a condition holds.
func eventually(t *testing.T, within time.Duration, what string, holds func() error) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(within); ; <-look.C {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s: %v", within, what, err)
		}
	}
}
