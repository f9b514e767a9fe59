package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/state/statepb"
)

// deadline bounds every wait of a test for something that will happen.
const deadline = 10 * time.Second

// sse reads an event stream.
type sse struct {
	t     *testing.T
	lines chan string
}

type event struct{ id, name, data string }

func (d *double) watch(path string, headers ...string) *sse {
	d.t.Helper()
	return d.watchAs("viewer", path, headers...)
}

// watchAs is watch with a token of its own.
func (d *double) watchAs(token, path string, headers ...string) *sse {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer secret-"+token)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		d.t.Fatalf("status %d, %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	s := &sse{t: d.t, lines: make(chan string)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.lines)
		sc := bufio.NewScanner(resp.Body)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			select {
			case s.lines <- sc.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	d.t.Cleanup(func() {
		cancel()
		_ = resp.Body.Close()
		<-done
	})
	return s
}

// next gives the next event that is not a bookmark; false: the stream has ended.
func (s *sse) next() (event, bool) {
	s.t.Helper()
	var e event
	for line := range s.lines {
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" && e.name != "" && e.name != eventBookmark:
			return e, true
		case line == "":
			e = event{}
		case name == "id":
			e.id = value
		case name == "event":
			e.name = value
		case name == "data":
			e.data = value
		}
	}
	return event{}, false
}

// expect reads events written as "id event name".
func (s *sse) expect(want ...string) {
	s.t.Helper()
	for _, w := range want {
		e, ok := s.next()
		var body Event
		if ok && e.name != eventSynced && e.name != eventRelist {
			if err := json.Unmarshal([]byte(e.data), &body); err != nil {
				s.t.Fatal(err)
			}
			if (body.Resource == nil) != (e.name == eventDelete) || fmt.Sprint(body.Revision) != e.id {
				s.t.Errorf("%+v", e)
			}
		}
		if got := strings.TrimSpace(e.id + " " + e.name + " " + body.Name); got != w {
			s.t.Fatalf("got %q, want %q", got, w)
		}
	}
}

func TestAWatchStartsWithWhatThereIs(t *testing.T) {
	d := newDouble(t)
	d.seed("Tenant b {}", "Region us {}", "Tenant a {}") // 2, 3, 4
	w := d.watch("/v1/tenants?watch=true")
	w.expect("2 put b", "4 put a", "4 synced")
	d.seed("Region eu {}") // 5: of another kind
	d.do("operator", "PATCH", "/v1/tenants/b", "{spec: {tier: top}}", "If-Match: *").want(200, "")
	d.do("operator", "DELETE", "/v1/tenants/a", "", "If-Match: *").want(204, "")
	w.expect("6 put b", "7 delete a")
}

func TestAWatchOfAllKinds(t *testing.T) {
	d := newDouble(t)
	d.seed("Tenant b {}", "Region us {}")
	w := d.watch("/v1/watch")
	w.expect("2 put b", "3 put us", "3 synced")
	d.seed("Model m {}")
	w.expect("4 put m")
}

func TestAWatchResumesWhereItWasCut(t *testing.T) {
	d := newDouble(t)
	d.seed("Tenant a {}", "Tenant b {}", "Tenant c {}") // 2, 3, 4
	d.do("operator", "DELETE", "/v1/tenants/b", "", "If-Match: *")
	d.do("operator", "PATCH", "/v1/tenants/a", "{spec: {tier: top}}", "If-Match: *") // 6
	d.watch("/v1/watch", "Last-Event-ID: 3").expect("4 put c", "5 delete b", "6 put a")
	d.watch("/v1/watch?after=5").expect("6 put a")
	d.do("viewer", "GET", "/v1/watch", "", "Last-Event-ID: x").want(400, "invalid_request")
}

func TestAWatchFromBeyondTheHistoryIsGone(t *testing.T) {
	d := newDouble(t)
	d.seed("Tenant a {}")
	for _, path := range []string{"/v1/watch", "/v1/tenants?watch=true"} {
		d.do("viewer", "GET", path, "", "Last-Event-ID: 99").want(410, "gone") // this cluster was restored to an earlier state
	}
	// Without a leader a node can't know whether it is only behind the one that the client was on.
	d.failing(errNoLeaderForTest)
	d.do("viewer", "GET", "/v1/watch", "", "Last-Event-ID: 99").want(503, "no_leader")
	d.watch("/v1/watch?after=1").expect("2 put a")
}

func TestAWatchThatFallsBehindTheHistoryIsToldToListAnew(t *testing.T) {
	d := newUnserved(t)
	out := httptest.NewRecorder()
	w := watcher{Server: d.server, st: &stream{w: out, rc: http.NewResponseController(out)}, at: 99}
	if err := w.changes(d.current()); err != nil {
		t.Fatal(err)
	}
	if got := out.Body.String(); got != "id: 1\nevent: relist\ndata: {\"revision\":1}\n\n" || w.at != 1 {
		t.Errorf("told %q, and goes on after %d", got, w.at)
	}
}

func TestAListTellsWhereAWatchGoesOn(t *testing.T) {
	d := newDouble(t)
	d.seed("Tenant a {}")
	revision := d.do("viewer", "GET", "/v1/tenants", "").header.Get("X-Anabranch-Revision")
	d.seed("Tenant b {}")
	d.watch("/v1/tenants?watch=true&after=" + revision).expect("3 put b")
}

func TestBookmarksMoveTheIDOn(t *testing.T) {
	d := newDouble(t)
	w := d.watch("/v1/tenants?watch=true")
	w.expect("1 synced")
	d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Noop{Noop: &statepb.Noop{}}})
	var id, name string
	for line := range w.lines {
		switch {
		case strings.HasPrefix(line, "id: "):
			id = line
		case strings.HasPrefix(line, "event: "):
			name = line
		case line == `data: {"revision":2}` && id == "id: 2" && name == "event: bookmark":
			return
		}
	}
	t.Error("no bookmark with the new revision")
}

func TestAWatchIsOpenBeforeItHasNews(t *testing.T) {
	d := newDouble(t, func(o *Options) { o.Heartbeat = time.Hour })
	d.seed("Region us {}")
	w := d.watch("/v1/regions?watch=true&after=" + fmt.Sprint(d.current().Index())) // comes back when it is open
	d.seed("Region eu {}")
	w.expect("3 put eu")
}

func TestDrainEndsWatches(t *testing.T) {
	d := newDouble(t)
	one, two := d.watch("/v1/watch"), d.watch("/v1/fleet/watch")
	one.expect("1 synced")
	d.server.Drain()
	d.server.Drain()
	for _, w := range []*sse{one, two} {
		for {
			if _, ok := w.next(); !ok {
				break
			}
		}
	}
	d.do("", "GET", "/readyz", "").want(503, "")
}

func TestWatchesAreBounded(t *testing.T) {
	d := newDouble(t)
	d.server.watches.Store(MaxWatches)
	a := d.do("viewer", "GET", "/v1/watch", "").want(503, "busy")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if got := d.server.watches.Load(); got != MaxWatches {
		t.Errorf("%d watches counted", got)
	}
}

func TestWatchesOutliveTheServersDeadlines(t *testing.T) {
	d := newDouble(t)
	h := d.server.HTTPServer()
	if h.ReadHeaderTimeout == 0 || h.ReadTimeout == 0 || h.WriteTimeout == 0 || h.IdleTimeout == 0 || h.MaxHeaderBytes == 0 {
		t.Error("a limit is missing")
	}
	h.ReadTimeout, h.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
	d.serve(h)
	w := d.watch("/v1/watch")
	w.expect("1 synced")
	beats := 0
	for line := range w.lines {
		if line == "event: bookmark" {
			beats++
		}
		if beats == 10 { // 200 ms
			return
		}
	}
	t.Errorf("the watch ended after %d bookmarks", beats)
}
