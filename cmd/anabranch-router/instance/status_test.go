package instance

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane"
)

func (r *running) status() (s dataplane.Status) {
	r.t.Helper()
	res, err := http.Get("http://" + r.Addresses().Admin + "/status")
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&s); err != nil {
		r.t.Fatal(err)
	}
	return s
}

func TestTheStatusPageTellsOfOrdersAndSight(t *testing.T) {
	f := newFixture(t)
	o := f.options()
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	n := f.start(o)
	n.eventually("the control plane is heard", func() bool { s := n.status(); return s.Control.Connected && s.Sight == "current" && s.Ready })
	order := "orders:\n- {kind: freeze, actor: sre, reason: a test}\n"
	if err := os.WriteFile(filepath.Join(o.DataDir, "override.yaml"), []byte(order), 0o600); err != nil {
		t.Fatal(err)
	}
	n.eventually("the order is shown", func() bool {
		s := n.status()
		return s.Orders != nil && len(s.Orders.Orders) == 1 && s.Orders.Orders[0].Door == "file" && s.Orders.Orders[0].Reason == "a test"
	})

	// One that has never heard of anything trusts nobody but itself.
	f.grpc.Stop()
	alone := f.options()
	alone.DataDir = filepath.Join(f.dir, "other")
	second := f.start(alone)
	if s := second.status(); s.Sight != "alone" || s.Ready || s.Control.Connected || s.Orders == nil {
		t.Errorf("%+v", s)
	}
}

// A second router of a region takes over what the first knows, through the door for routers.
func TestASiblingHandsOverItsPrefixes(t *testing.T) {
	f := newFixture(t)
	var doors [2]net.Listener
	var urls []string
	for i := range doors {
		var err error
		if doors[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		urls = append(urls, "https://"+doors[i].Addr().String())
	}
	f.change = func(pb *routerpb.Table) { pb.Regions[0].PeerUrls = urls }
	o := f.options()
	o.PeerListener = doors[0]
	first := f.start(o)
	first.eventually("it is ready", first.ready)
	f.release <- struct{}{}
	q, err := http.NewRequest(http.MethodPost, "http://"+first.Addresses().Front+"/v1/chat/completions",
		strings.NewReader(strings.Replace(ask, "hello", strings.Repeat("a long story ", 1000), 1)))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer acme-key")
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); err != nil || !strings.HasSuffix(string(body), done) {
		t.Fatalf("%q, %v", body, err)
	}
	res.Body.Close()

	pair, err := f.authority.Router("eu-west-1", "r2", time.Now())
	o = f.options()
	o.Router, o.DataDir, o.TLS, o.PeerListener = "r2", filepath.Join(f.dir, "data2"), f.files("r2", pair, err), doors[1]
	second := f.start(o)
	second.eventually("the first has handed over", func() bool { return second.status().Prefixes.TakenOver.From != "" })
	if got := second.status().Prefixes; got.TakenOver.From != "r1" || got.TakenOver.Entries < 12 || got.TakenOver.Error != "" {
		t.Errorf("%+v", got)
	}
	if got := first.status().Prefixes.TakenOver; got.From != "" {
		t.Errorf("the first took over from %s", got.From)
	}
}
