package instance

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/api/identity"
	"anabranch/api/routerpb"
	"anabranch/ratelimit/redisbucket/redistest"
)

const (
	content = `data: {"choices":[{"index":0,"delta":{"content":"tok"}}]}` + "\n\n"
	finish  = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	done    = "data: [DONE]\n\n"
	ask     = `{"model":"llama","stream":true,"messages":[{"role":"user","content":"hello"}]}`
)

// fixture is a control plane node and a model server for one router.
// control pushes one table to whoever connects and takes reports.
// files writes a certificate and gives its names.
// running is an instance under way.
// ended waits for Run to return.
// stream begins a request; its answer has begun when it returns.
func TestARouterFollowsServesAndComesBackFromDisk(t *testing.T) {
	f := newFixture(t)
	f.release <- struct{}{}
	f.release <- struct{}{}
	first := f.start(f.options())
	first.eventually("it is ready", first.ready)
	res := first.stream()
	if body, err := io.ReadAll(res.Body); string(body) != content+content+finish+done || err != nil {
		t.Errorf("body %q, %v", body, err)
	}
	res.Body.Close()
	first.stop()
	if err := first.ended(); err != nil {
		t.Errorf("Run: %v", err)
	}

	f.grpc.Stop() // no control plane at all
	began := time.Now()
	second := f.start(f.options())
	second.eventually("it is ready", second.ready)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("ready after %s", took)
	}
	res = second.stream()
	if body, err := io.ReadAll(res.Body); !strings.HasSuffix(string(body), done) || err != nil {
		t.Errorf("body %q, %v", body, err)
	}
	res.Body.Close()
}

func TestEndpointsThatAreFoundInAFileServe(t *testing.T) {
	f := newFixture(t)
	f.release <- struct{}{}
	o := f.options()
	o.DiscoveryDir = t.TempDir()
	file := filepath.Join(o.DiscoveryDir, "eu-a.yaml")
	if err := os.WriteFile(file, []byte("- {id: gone, url: 'http://127.0.0.1:1'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.change = func(tb *routerpb.Table) {
		tb.Clusters[0].Endpoints = nil
		tb.Clusters[0].Discovery = &routerpb.Discovery{Kind: "file", Name: file, Class: "h100"}
	}
	n := f.start(o)
	n.eventually("it is ready", n.ready)
	if err := os.WriteFile(file, []byte("- {id: found, url: '"+f.model.URL+"'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.eventually("the endpoint is found", func() bool {
		q, err := http.NewRequest(http.MethodPost, "http://"+n.Addresses().Front+"/v1/chat/completions", strings.NewReader(ask))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer acme-key")
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return false
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || !strings.HasSuffix(string(body), done) || res.Header.Get("X-Anabranch-Endpoint") != "found" {
			t.Errorf("body %q, %v, headers %v", body, err, res.Header)
		}
		return true
	})
}

func TestWithoutTableOrControlPlaneItIsAliveAndNotReady(t *testing.T) {
	f := newFixture(t)
	f.grpc.Stop()
	n := f.start(f.options())
	n.eventually("it is alive", func() bool {
		res, err := http.Get("http://" + n.Addresses().Admin + "/healthz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	if n.ready() {
		t.Error("it says that it is ready")
	}
}

func TestDrainingLetsAStreamEndAndReportsIt(t *testing.T) {
	f := newFixture(t)
	n := f.start(f.options())
	n.eventually("it is ready", n.ready)
	res := n.stream()
	defer res.Body.Close()
	n.stop()
	n.eventually("it takes no new connections", func() bool {
		c, err := net.Dial("tcp", n.Addresses().Front)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	if n.ready() {
		t.Error("it says that it is ready")
	}
	f.release <- struct{}{}
	if body, err := io.ReadAll(res.Body); string(body) != content+content+finish+done || err != nil {
		t.Errorf("body %q, %v", body, err)
	}
	if err := n.ended(); err != nil {
		t.Errorf("Run: %v", err)
	}
	close(f.reports)
	total := uint64(0)
	for r := range f.reports {
		total += r.GetRequests()
	}
	if total != 1 {
		t.Errorf("%d requests were reported", total)
	}
}

// For the delay load balancers see that it is not ready, and what they still send is served.
func TestWhatComesInTheDrainDelayIsServed(t *testing.T) {
	f := newFixture(t)
	o := f.options()
	o.DrainDelay = 5 * time.Second
	made, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	asked, over := make(chan time.Duration, 1), make(chan time.Time)
	made.after = func(d time.Duration) <-chan time.Time {
		asked <- d
		return over
	}
	n := f.run(made)
	n.eventually("it is ready", n.ready)
	n.stop()
	n.eventually("it is not ready", func() bool { return !n.ready() })
	if d := <-asked; d != o.DrainDelay {
		t.Errorf("the delay is %s", d)
	}
	http.DefaultClient.CloseIdleConnections() // so that a new one is needed
	res := n.stream()
	defer res.Body.Close()
	close(over)
	n.eventually("it takes no new connections", func() bool {
		c, err := net.Dial("tcp", n.Addresses().Front)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	f.release <- struct{}{}
	if body, err := io.ReadAll(res.Body); string(body) != content+content+finish+done || err != nil {
		t.Errorf("body %q, %v", body, err)
	}
	if err := n.ended(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestWhatOutlivesTheBudgetIsCutAndSaid(t *testing.T) {
	f := newFixture(t)
	o := f.options()
	o.DrainWithin = 50 * time.Millisecond
	n := f.start(o)
	n.eventually("it is ready", n.ready)
	res := n.stream()
	defer res.Body.Close()
	n.stop()
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the stream ended as if it were whole")
	}
	if err := n.ended(); err == nil || !strings.Contains(err.Error(), "1 requests were still open") {
		t.Errorf("Run: %v", err)
	}
}

func TestOnlyRoutersEnterAtThePeersDoor(t *testing.T) {
	f := newFixture(t)
	n := f.start(f.options())
	n.eventually("it is ready", n.ready)
	url := "https://" + n.Addresses().Peer + "/peer/probe?cluster=eu-a"
	try := func(cfg *tls.Config) (int, error) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true}}
		defer client.CloseIdleConnections()
		res, err := client.Get(url)
		if err != nil {
			return 0, err
		}
		res.Body.Close()
		return res.StatusCode, nil
	}
	pair, err := f.authority.Router("us-east-1", "r9", time.Now())
	router, err2 := identity.Open(f.files("r9", pair, err))
	if err2 != nil {
		t.Fatal(err2)
	}
	if status, err := try(router.Config(identity.KindRouter)); status != http.StatusOK || err != nil {
		t.Errorf("a router: %d, %v", status, err)
	}
	pair, err = f.authority.Node("n9", time.Now())
	node, err2 := identity.Open(f.files("n9", pair, err))
	if err2 != nil {
		t.Fatal(err2)
	}
	if _, err := try(node.Config(identity.KindRouter)); err == nil {
		t.Error("a control plane node came in")
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(f.authority.Pair().Cert)
	if _, err := try(&tls.Config{RootCAs: pool}); err == nil {
		t.Error("somebody without a certificate came in")
	}
}

func TestNewFreesWhatItTookWhenItFails(t *testing.T) {
	f := newFixture(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := f.options()
	o.AdminListen, o.Listen = free.Addr().String(), taken.Addr().String()
	free.Close()
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("error %v, want it to name --listen", err)
	}
	again, err := net.Listen("tcp", o.AdminListen)
	if err != nil {
		t.Fatalf("the admin's port is still taken: %v", err)
	}
	again.Close()

	o = f.options()
	o.Redis = Redis{PasswordFile: filepath.Join(f.dir, "none"), Addresses: "127.0.0.1:1"}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "--redis-password-file") {
		t.Errorf("error %v", err)
	}
}

func TestARedisThatForgetsQuotasIsRefused(t *testing.T) {
	f := newFixture(t)
	o := f.options()
	o.Redis.Addresses = redistest.Start(t, "--maxmemory-policy", "allkeys-lru").Addr
	_, err := New(o)
	if err == nil {
		t.Fatal("a Redis that evicts keys was taken")
	}
	for _, want := range []string{"--redis", "noeviction"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}

	o.Redis.Addresses = redistest.Place(t).Addr // which is down
	n := f.start(o)
	n.eventually("it is ready", n.ready)
}

func TestClientsCanBeServedOverTLS(t *testing.T) {
	f := newFixture(t)
	f.release <- struct{}{}
	o := f.options()
	o.FrontCert, o.FrontKey = o.TLS.Cert, o.TLS.Key
	n := f.start(o)
	n.eventually("it is ready", n.ready)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(f.authority.Pair().Cert)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	q, err := http.NewRequest(http.MethodPost, "https://"+n.Addresses().Front+"/v1/chat/completions", strings.NewReader(ask))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer acme-key")
	res, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); res.ProtoMajor != 2 || !strings.HasSuffix(string(body), done) || err != nil {
		t.Errorf("HTTP/%d %q, %v", res.ProtoMajor, body, err)
	}
}
