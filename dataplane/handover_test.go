package dataplane

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/prefix"
	"anabranch/dataplane/table"
)

// sibling makes another router of a region of a world, which is not running.
func (w *world) sibling(id, region string) *node {
	w.t.Helper()
	n := &node{peer: httptest.NewUnstartedServer(nil)}
	n.peer.EnableHTTP2 = true
	n.peer.StartTLS() // with the certificate that all of these servers have
	var err error
	if n.Router, err = New(Options{
		Router: fleet.RouterID(id), Region: fleet.RegionID(region), Tables: &table.Holder{}, Quotas: admit.Own(w.ledger),
		PeerTLS: w.routers[region].o.PeerTLS, Orders: w.orders.Load, Logger: slog.New(slog.DiscardHandler),
	}); err != nil {
		w.t.Fatal(err)
	}
	n.peer.Config.Handler = n.Peer()
	n.front, n.admin = httptest.NewServer(n.Front()), httptest.NewServer(n.Admin())
	w.t.Cleanup(func() {
		n.front.Close()
		n.admin.Close()
		n.peer.Close()
		n.relay.Close()
	})
	return n
}

// starts puts a table in force at a router and runs it until the test ends.
func (w *world) starts(n *node, pb *routerpb.Table) {
	w.t.Helper()
	built, err := table.Build(pb)
	if err != nil {
		w.t.Fatal(err)
	}
	n.Applied(built)
	n.tables.Store(built)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := n.Run(ctx); err != nil {
			w.t.Errorf("Run: %v", err)
		}
	})
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// tells asks a router for the i-th of some long prompts that have nothing in common, and says which
// endpoint answered.
func (w *world) tells(n *node, i int) string {
	w.t.Helper()
	body := strings.Replace(askStream, "hello", strings.Repeat(fmt.Sprintf("chapter %d of a long story ", i), 1000), 1)
	r := w.get(http.MethodPost, n.front.URL+"/v1/chat/completions", "acme", body)
	if r.status != http.StatusOK || r.err != nil {
		w.t.Fatalf("%d %v %s", r.status, r.err, r.body)
	}
	return r.header.Get("X-Anabranch-Endpoint")
}

// sees says whether a router knows the load of all endpoints.
func (n *node) sees() bool {
	for _, e := range n.places.Cluster("us-a").Endpoints() {
		if e.Signals() == nil {
			return false
		}
	}
	return true
}

func (n *node) asked() bool { return n.prefixes.taken.Load() != nil }

// A router that has never sent anything anywhere finds conversations where a sibling left them.
func TestANewRouterKnowsWhatItsSiblingSent(t *testing.T) {
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers), newStub(t, answers), newStub(t, answers)}}}, nil)
	w.run()
	old := w.routers[us]
	w.eventually("it sees the endpoints", old.sees)
	const prompts = 12
	var where [prompts]string
	spread := map[string]bool{}
	for i := range where {
		where[i] = w.tells(old, i)
		spread[where[i]] = true
	}
	if len(spread) < 2 {
		t.Fatalf("all prompts went to %v", spread)
	}
	w.idle()

	fresh := w.sibling("r-new", us)
	pb := w.describe()
	pb.Regions[0].PeerUrls = []string{fresh.peer.URL, old.peer.URL} // the first leads to itself
	w.starts(fresh, pb)
	w.eventually("it has asked", fresh.asked)
	w.eventually("it sees the endpoints", fresh.sees)
	if got := fresh.prefixes.takenOver(); got.From != "r-us-east-1" || got.Entries < prompts*20 || got.Bytes < 1000 || got.Error != "" {
		t.Fatalf("taken over: %+v", got)
	}
	for i, want := range where {
		if got := w.tells(fresh, i); got != want {
			t.Errorf("prompt %d went to %s, and is at %s", i, got, want)
		}
	}
	if body := w.get(http.MethodGet, fresh.admin.URL+"/status", "", "").body; !strings.Contains(body, `"from": "r-us-east-1"`) {
		t.Errorf("the status page does not tell of it: %s", body)
	}

	// A router that ends hands over too.
	old.Drain()
	third := w.sibling("r-third", us)
	pb.Regions[0].PeerUrls = []string{old.peer.URL}
	w.starts(third, pb)
	w.eventually("it has asked", third.asked)
	if got := third.prefixes.takenOver(); got.Entries == 0 {
		t.Errorf("of one that ends: %+v", got)
	}
}

// peerOf serves as a sibling that does what the test says.
func peerOf(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestWhatASiblingDoesWrongKeepsNoRouterFromStarting(t *testing.T) {
	w, _ := one(t)
	full := prefix.New(0, 0, time.Now())
	full.Confirm(full.NewHolder(1), []uint64{1, 2, 3}, time.Now())
	var snapshot bytes.Buffer
	if err := full.Snapshot(&snapshot, time.Now()); err != nil {
		t.Fatal(err)
	}
	says := func(name, body string) http.HandlerFunc {
		return func(rw http.ResponseWriter, q *http.Request) {
			if q.URL.Path != prefixesPath || q.URL.Query().Get("router") == "" {
				t.Errorf("asked for %s", q.URL)
			}
			rw.Header().Set(headerRouter, name)
			_, _ = io.WriteString(rw, body)
		}
	}
	closed := httptest.NewTLSServer(http.NotFoundHandler())
	closed.Close()
	good := peerOf(t, says("r-good", snapshot.String()))
	empty, err := func() (string, error) {
		var b bytes.Buffer
		err := prefix.New(0, 0, time.Now()).Snapshot(&b, time.Now())
		return b.String(), err
	}()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		peers   []string
		entries int
		problem string // in the error
	}{
		"nobody else":           {[]string{peerOf(t, says("r-x", snapshot.String()))}, 0, ""},
		"dead":                  {[]string{closed.URL}, 0, "refused"},
		"hangs":                 {[]string{peerOf(t, hangs)}, 0, "deadline"},
		"has no such page":      {[]string{peerOf(t, http.NotFound)}, 0, "404"},
		"does not say who":      {[]string{peerOf(t, says("", snapshot.String()))}, 0, "who it is"},
		"cut short":             {[]string{peerOf(t, says("r-bad", snapshot.String()[:1000]))}, 0, "damaged"},
		"one is dead":           {[]string{closed.URL, good, closed.URL}, 3, ""},
		"one has nothing":       {[]string{peerOf(t, says("r-empty", empty)), good}, 3, ""},
		"all have nothing":      {[]string{peerOf(t, says("r-empty", empty))}, 0, ""},
		"handing over to other": {[]string{peerOf(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })}, 0, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := w.sibling("r-x", us)
			pb := w.describe()
			pb.Regions[0].PeerUrls = c.peers
			began := time.Now()
			w.starts(n, pb)
			if ready, why := n.Ready(); !ready {
				t.Errorf("not ready: %s", why)
			}
			if r := w.get(http.MethodPost, n.front.URL+"/v1/chat/completions", "acme", askWhole); r.status != http.StatusOK {
				t.Errorf("%d %s", r.status, r.body)
			}
			w.eventually("it has asked", n.asked)
			if took := time.Since(began); took > 3*handOverWithin {
				t.Errorf("took %s", took)
			}
			got := n.prefixes.takenOver()
			if got.Entries != c.entries || c.problem != "" && !strings.Contains(got.Error, c.problem) || c.problem == "" && c.entries == 0 && got.Error != "" {
				t.Errorf("%+v, want %d entries and an error with %q", got, c.entries, c.problem)
			}
		})
	}
}

func TestPrefixesAreHandedOverToOneAtATime(t *testing.T) {
	w, _ := one(t)
	n := w.routers[us]
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: n.o.PeerTLS()}}
	defer client.CloseIdleConnections()
	get := func(router string) *http.Response {
		t.Helper()
		res, err := client.Get(n.peer.URL + prefixesPath + "?router=" + router)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	if res := get(string(n.o.Router)); res.StatusCode != http.StatusConflict || res.Header.Get(headerRouter) != string(n.o.Router) {
		t.Errorf("to itself: %d", res.StatusCode)
	}
	n.prefixes.lending.Store(true)
	if res := get("r-x"); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("while it hands over: %d", res.StatusCode)
	}
	n.prefixes.lending.Store(false)
	for range 2 {
		res := get("r-x")
		if taken, err := prefix.New(0, 0, time.Now()).Load(res.Body, time.Now()); res.StatusCode != http.StatusOK || err != nil || taken != 0 {
			t.Errorf("%d, %d entries, %v", res.StatusCode, taken, err)
		}
	}
	// Clients' door has no such page.
	if r := w.get(http.MethodGet, n.front.URL+prefixesPath, "acme", ""); r.status != http.StatusNotFound {
		t.Errorf("at the front: %d", r.status)
	}
}

func TestOnlyTheFirstTableIsAskedBy(t *testing.T) {
	p := newPrefixes(time.Now())
	first, second := &table.Table{}, &table.Table{}
	p.applied(first)
	p.applied(second) // must not block
	if got := <-p.first; got != first {
		t.Error("asked by a later table")
	}
	p.applied(second)
	select {
	case <-p.first:
		t.Error("asked again")
	default:
	}
}

func TestEntriesAreCountedNowAndThen(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	p := newPrefixes(now)
	h := p.index.NewHolder(1)
	p.index.Confirm(h, []uint64{1, 2}, now)
	if n, room := p.entries(now); n != 2 || room != 1<<20 {
		t.Errorf("%d of %d", n, room)
	}
	p.index.Confirm(h, []uint64{3}, now)
	if n, _ := p.entries(now.Add(countEvery / 2)); n != 2 {
		t.Errorf("%d at once", n)
	}
	if n, _ := p.entries(now.Add(countEvery)); n != 3 {
		t.Errorf("%d later", n)
	}
	if n, _ := p.entries(now.Add(time.Hour)); n != 0 {
		t.Errorf("%d when all are too old", n)
	}
}
