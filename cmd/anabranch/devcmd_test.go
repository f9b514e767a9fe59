package main

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/cmd/anabranch/dev"
)

// supervisor answers at the socket of the state folder with what it is given, and remembers the
// orders.
type supervisor struct {
	mu     sync.Mutex // guards orders
	orders map[string]dev.Order
	status dev.Status
	reply  string
	code   int
}

func (s session) supervise(v *supervisor) {
	s.t.Helper()
	if err := os.MkdirAll(dev.FolderName, 0o700); err != nil {
		s.t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dev.FolderName, "dev.sock"))
	if err != nil {
		s.t.Fatal(err)
	}
	v.orders = map[string]dev.Order{}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			if err := json.NewEncoder(w).Encode(v.status); err != nil {
				s.t.Error(err)
			}
			return
		}
		var o dev.Order
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			s.t.Error(err)
		}
		v.mu.Lock()
		v.orders[r.URL.Path] = o
		v.mu.Unlock()
		if v.code != 0 {
			w.WriteHeader(v.code)
		}
		_, _ = w.Write([]byte(v.reply))
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	s.t.Cleanup(func() {
		if err := server.Close(); err != nil {
			s.t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			s.t.Error(err)
		}
	})
}

func TestDevStatusShowsEveryProcessAndFault(t *testing.T) {
	s := begin(t)
	s.supervise(&supervisor{status: dev.Status{
		PID: 77, Phase: "ready", Leader: "n2", Faults: map[string]string{"us-b/e1": "slow", "us-a/e1": "hang,cut"},
		Units: []dev.State{
			{Kind: dev.KindNode, Name: "n2", State: "up", PID: 78, Address: "http://127.0.0.1:7101", Since: time.Now().Add(-90 * time.Second)},
			{Kind: dev.KindCluster, Name: "us-a", State: "broken", Reason: "ended by `anabranch dev break`: signal: killed"},
			{Kind: dev.KindRouter, Name: "us", State: "down", Orders: ".anabranch/data/us-r1/router.sock"},
		},
	}})
	out, _ := s.do(0, "", "dev", "status")
	var got []string
	for line := range strings.Lines(out) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"anabranch dev is ready (pid 77), led by n2", "",
		"KIND NAME STATE SINCE PID ADDRESS",
		"controlplane n2 up 1m30s 78 http://127.0.0.1:7101",
		"cluster us-a broken - - ended by `anabranch dev break`: signal: killed",
		"router us down - -",
		"orders to router us: anabranch-router order --socket .anabranch/data/us-r1/router.sock",
		"fault hang,cut on us-a/e1", "fault slow on us-b/e1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("status\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var status dev.Status
	out, _ = s.do(0, "", "dev", "status", "-o", "json")
	if err := json.Unmarshal([]byte(out), &status); err != nil || status.PID != 77 || len(status.Units) != 3 {
		t.Errorf("json: %v\n%s", err, out)
	}
	if out, _ = s.do(0, "", "dev", "status", "-o", "yaml"); !strings.Contains(out, "phase: ready\n") {
		t.Errorf("yaml:\n%s", out)
	}
}

func TestDevStatusOfAFleetWithoutLeader(t *testing.T) {
	s := begin(t)
	s.supervise(&supervisor{status: dev.Status{PID: 77, Phase: "starting"}})
	if out, _ := s.do(0, "", "dev", "status"); !strings.HasPrefix(out, "anabranch dev is starting (pid 77), led by -\n") {
		t.Errorf("status:\n%s", out)
	}
}

func TestBreakAndHealSendTheirOrder(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		path string
		want dev.Order
	}{
		"region":   {[]string{"break", "region", "us", "--with-router"}, "/break", dev.Order{Kind: "region", Name: "us", WithRouter: true}},
		"endpoint": {[]string{"break", "endpoint", "us-a/e1", "--fault", "slow", "--factor", "3"}, "/break", dev.Order{Kind: "endpoint", Name: "us-a/e1", Fault: "slow", Factor: 3}},
		"cluster":  {[]string{"break", "cluster", "us-a", "--fault", "error500", "--ratio", "0.3"}, "/break", dev.Order{Kind: "cluster", Name: "us-a", Fault: "error500", Ratio: 0.3}},
		"redis":    {[]string{"break", "redis"}, "/break", dev.Order{Kind: "redis"}},
		"leader":   {[]string{"break", "controlplane", "leader"}, "/break", dev.Order{Kind: "controlplane", Name: "leader"}},
		"heal":     {[]string{"heal", "region", "us"}, "/heal", dev.Order{Kind: "region", Name: "us"}},
		"heal all": {[]string{"heal", "all"}, "/heal", dev.Order{Kind: "all"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			v := &supervisor{reply: `{"done":["killed this (pid 3)","killed that (pid 4)"]}`}
			s.supervise(v)
			if out, _ := s.do(0, "", append([]string{"dev"}, c.args...)...); out != "killed this (pid 3)\nkilled that (pid 4)\n" {
				t.Errorf("output %q", out)
			}
			if got := v.orders[c.path]; got != c.want || len(v.orders) != 1 {
				t.Errorf("orders %+v, want %s %+v", v.orders, c.path, c.want)
			}
		})
	}
}

func TestRefusedOrdersAreTold(t *testing.T) {
	s := begin(t)
	s.supervise(&supervisor{code: http.StatusConflict, reply: `{"error":"region \"mars\" is unknown; choose one of us"}`})
	if _, errs := s.do(exitFailed, "", "dev", "break", "region", "mars"); errs != "anabranch: region \"mars\" is unknown; choose one of us\n" {
		t.Errorf("errors %q", errs)
	}
	other := begin(t)
	other.supervise(&supervisor{code: http.StatusBadGateway, reply: "<html>"})
	if _, errs := other.do(exitFailed, "", "dev", "heal", "all"); !strings.Contains(errs, "the supervisor answered 502") {
		t.Errorf("errors %q", errs)
	}
}

func TestDocumentsAreFoundAndBounded(t *testing.T) {
	s := begin(t)
	s.file("dir/one.yaml", acme)
	s.file("dir/two.JSON", `{"apiVersion":"anabranch/v1","kind":"Region","metadata":{"name":"r"},"spec":{}}`)
	s.file("dir/deeper/three.yaml", quota)
	s.file("dir/readme.md", "# not a document")
	a := &app{in: strings.NewReader(eu)}
	rs, err := a.documents([]string{"dir", "-"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rs {
		got = append(got, title(r.Kind, r.Metadata.Name))
	}
	if want := "regions/r regions/eu-west-1 regions/us-east-1 tenants/acme quotas/acme"; strings.Join(got, " ") != want {
		t.Errorf("documents %v, want %s", got, want)
	}
	s.file("large.yaml", strings.Repeat("#", 9<<20))
	if _, err := a.documents([]string{"large.yaml"}); err == nil || !strings.Contains(err.Error(), "split it") {
		t.Errorf("a large file: %v", err)
	}
	if _, err := a.documents([]string{"dir", "dir/one.yaml"}); err == nil || !strings.Contains(err.Error(), "dir/one.yaml: Tenant/acme stands in dir/one.yaml too") {
		t.Errorf("the same twice: %v", err)
	}
	s.file("empty/readme.md", "")
	if _, err := a.documents([]string{"empty"}); err == nil || !strings.Contains(err.Error(), "there is no document in empty: ") {
		t.Errorf("an empty folder: %v", err)
	}
}
