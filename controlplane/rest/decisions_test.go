package rest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/inquiry"
	"anabranch/controlplane/state/statepb"
)

// routersDouble answers as a test says.
type routersDouble struct {
	explanation inquiry.Explanation
	err         error
	news        chan inquiry.News
	sights      map[fleet.RouterID]func(context.Context) (*routerpb.Inspected, error)

	mu     sync.Mutex // guards what is below
	asked  []string
	filter *routerpb.DecisionFilter
	rate   uint32
	open   int
}

func (r *routersDouble) Explain(_ context.Context, router fleet.RouterID, request string) (inquiry.Explanation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, string(router)+" "+request)
	return r.explanation, r.err
}

// Inspect asks whoever a test has set for the router; nobody is not connected.
func (r *routersDouble) Inspect(ctx context.Context, router fleet.RouterID, cluster fleet.ClusterID, most uint32) (inquiry.Inspection, error) {
	r.mu.Lock()
	r.asked = append(r.asked, fmt.Sprintf("%s %s %d", router, cluster, most))
	answer := r.sights[router]
	r.mu.Unlock()
	if answer == nil {
		return inquiry.Inspection{}, inquiry.ErrNotConnected
	}
	sight, err := answer(ctx)
	return inquiry.Inspection{Node: "n3", Router: router, Region: "us", Sight: sight}, err
}

func (r *routersDouble) Follow(ctx context.Context, filter *routerpb.DecisionFilter, perSecond uint32, tell func(inquiry.News) error) error {
	r.count(1)
	defer r.count(-1)
	r.mu.Lock()
	r.filter, r.rate = filter, perSecond
	r.mu.Unlock()
	for {
		select {
		case n := <-r.news:
			if err := tell(n); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *routersDouble) count(more int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open += more
}

// opened waits until so many tails are followed.
func (r *routersDouble) opened(t *testing.T, want int) {
	t.Helper()
	end := time.Now().Add(deadline)
	for {
		r.mu.Lock()
		open := r.open
		r.mu.Unlock()
		if open == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d tails are followed, want %d", open, want)
		}
		<-time.After(time.Millisecond)
	}
}

func newAsked(t *testing.T) (*double, *routersDouble) {
	t.Helper()
	r := &routersDouble{news: make(chan inquiry.News, 64)}
	return newDouble(t, func(o *Options) { o.Inquiries = r }), r
}

const aRequest = "us-r1-00000000000000a7"

func TestARequestIsExplainedByItsRouter(t *testing.T) {
	d, r := newAsked(t)
	r.explanation = inquiry.Explanation{Node: "n3", Router: "us-r1", Region: "us", Record: []byte("{\n \"id\": \"" + aRequest + "\",\n \"tenant\": \"acme\"\n}"), Most: 4096}
	a := d.do("viewer", "GET", "/v1/explain/"+aRequest, "").want(200, "")
	if want := `{"id":"` + aRequest + `","tenant":"acme","from":{"router":"us-r1","region":"us","node":"n3"}}`; string(a.body) != want {
		t.Errorf("got %s", a.body)
	}
	r.explanation.Record = []byte(`{}`)
	if a = d.do("viewer", "GET", "/v1/explain/"+aRequest+"?router=eu-r1", "").want(200, ""); string(a.body) != `{"from":{"router":"us-r1","region":"us","node":"n3"}}` {
		t.Errorf("got %s", a.body)
	}
	if got := strings.Join(r.asked, ", "); got != "us-r1 "+aRequest+", eu-r1 "+aRequest {
		t.Errorf("asked %s", got)
	}
	for _, broken := range []string{"[]", "{", "7"} {
		r.explanation.Record = []byte(broken)
		d.do("viewer", "GET", "/v1/explain/"+aRequest, "").want(500, "internal")
	}
}

func TestWhyARequestIsNotExplained(t *testing.T) {
	for name, c := range map[string]struct {
		path   string
		e      inquiry.Explanation
		err    error
		status int
		code   string
		says   string
	}{
		"no router makes such names": {path: "mine-1", status: 404, code: "unknown_request", says: "16 hex digits"},
		"no name of a router":        {path: aRequest + "?router=U%20S", status: 400, code: "invalid_request", says: "router"},
		"too long":                   {path: strings.Repeat("a", 200) + "?router=us-r1", status: 404, code: "unknown_request"},
		"forgotten": {
			path: aRequest, e: inquiry.Explanation{Router: "us-r1", Most: 4096, Oldest: epoch.Add(-3 * time.Minute)},
			status: 404, code: "unknown_request", says: "newest 4096, the oldest of which came at 2026-11-29T11:57:00Z, 3m0s ago",
		},
		"nothing remembered": {path: aRequest, e: inquiry.Explanation{Router: "us-r1", Most: 4096}, status: 404, code: "unknown_request", says: "none now"},
		"unknown router":     {path: aRequest, err: inquiry.ErrUnknownRouter, status: 404, code: "unknown_router", says: "us-r1"},
		"away":               {path: aRequest, err: fmt.Errorf("%w: %w", inquiry.ErrNotConnected, errors.New("n3 is down")), status: 503, code: "router_not_connected", says: "us-r1"},
		"too old":            {path: aRequest, err: inquiry.ErrTooOld, status: 503, code: "router_too_old", says: "/explain/{id}"},
		"busy":               {path: aRequest, err: inquiry.ErrBusy, status: 503, code: "busy", says: "us-r1"},
		"silent":             {path: aRequest, err: context.DeadlineExceeded, status: 504, code: "router_silent", says: "3s"},
	} {
		t.Run(name, func(t *testing.T) {
			d, r := newAsked(t)
			r.explanation, r.err = c.e, c.err
			p := d.do("viewer", "GET", "/v1/explain/"+c.path, "").want(c.status, c.code).problem()
			if !strings.Contains(p.Detail, c.says) {
				t.Errorf("it says %q", p.Detail)
			}
		})
	}
	newDouble(t).do("viewer", "GET", "/v1/explain/"+aRequest, "").want(503, "router_not_connected")
}

func TestDecisionsAreStreamed(t *testing.T) {
	d, r := newAsked(t)
	r.news <- inquiry.News{Standing: inquiry.Standing{Following: 2, Unable: []fleet.RouterID{"old"}}}
	r.news <- inquiry.News{Node: "n3", Router: "us-r1", Region: "us", Dropped: 5, Records: [][]byte{[]byte(`{"id":"1"}`), []byte(`garbage`), []byte("{\"id\":\n\"2\"}")}}
	r.news <- inquiry.News{Node: "n1", Router: "eu-r1", Region: "eu", Dropped: 2}
	s := d.watch("/v1/decisions?tenant=acme&tenant=globex&model=llama&cluster=us-a&region=us&class=interactive&outcome=failed&outcome=refused&minAttempts=2&rate=7")
	for i, want := range []event{
		{"1", "routers", `{"following":2,"unable":["old"],"missing":[]}`},
		{"2", "decision", `{"id":"1","from":{"router":"us-r1","region":"us","node":"n3"}}`},
		{"3", "decision", `{"id":"2","from":{"router":"us-r1","region":"us","node":"n3"}}`},
		{"4", "dropped", `{"dropped":7,"total":7}`},
	} {
		if got, ok := s.next(); !ok || got != want {
			t.Errorf("event %d is %+v", i+1, got)
		}
	}
	f := r.filter
	if got := fmt.Sprint(f.GetTenants(), f.GetModels(), f.GetClusters(), f.GetRegions(), f.GetClasses(), f.GetOutcomes(), f.GetMinAttempts(), r.rate); got != "[acme globex] [llama] [us-a] [us] [interactive] [failed refused] 2 7" {
		t.Errorf("asked for %s", got)
	}
	r.news <- inquiry.News{Node: "n1", Router: "eu-r1", Region: "eu", Dropped: 1}
	if got, ok := s.next(); !ok || got.data != `{"dropped":1,"total":8}` {
		t.Errorf("later %+v", got)
	}
	d.server.Drain()
	if _, ok := s.next(); ok {
		t.Error("it goes on although the node stops")
	}
	r.opened(t, 0)
}

func TestATailWantsSensibleFilters(t *testing.T) {
	d, _ := newAsked(t)
	for query, says := range map[string]string{
		"tenant=A%20B": "tenant", "model=a%20b": "model", "cluster=": "cluster", "region=../x": "region", "class=X": "class",
		"outcome=good": "answered, refused, failed, gone", "minAttempts=0": "minAttempts", "minAttempts=x": "from 1 to 100", "rate=0": "rate",
		"rate=1001": "from 1 to 1000", "rate=-1": "rate", "tennant=acme": "tennant",
		strings.Repeat("&tenant=acme", maxFilterValues+1)[1:]: "17 times",
	} {
		if p := d.do("viewer", "GET", "/v1/decisions?"+query, "").want(400, "invalid_request").problem(); !strings.Contains(p.Detail, says) {
			t.Errorf("%s: %s", query, p.Detail)
		}
	}
	newDouble(t).do("viewer", "GET", "/v1/decisions", "").want(503, "router_not_connected")
}

func TestTailsAreBoundedByTokenAndByNode(t *testing.T) {
	d, r := newAsked(t)
	for range MaxTokenTails {
		d.watch("/v1/decisions")
	}
	r.opened(t, MaxTokenTails)
	p := d.do("viewer", "GET", "/v1/decisions", "").want(503, "busy").problem()
	if !strings.Contains(p.Detail, "Token viewer follows decisions 4 times") {
		t.Errorf("it says %s", p.Detail)
	}
	var places places
	var leave []func()
	for i := range MaxTails {
		l, err := places.enter(fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, l)
	}
	if _, err := places.enter("another"); err == nil || !strings.Contains(err.Error(), "16 tails") {
		t.Errorf("got %v", err)
	}
	for _, l := range leave {
		l()
	}
	if places.all != 0 || len(places.byToken) != 0 {
		t.Errorf("%d are left, %v", places.all, places.byToken)
	}
}

func TestATailEndsWhenItsClientLeaves(t *testing.T) {
	d, r := newAsked(t)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+"/v1/decisions", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer secret-viewer")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	r.opened(t, 1)
	cancel()
	r.opened(t, 0)
}

func TestAScopeShowsOnlyItsTenantsRequests(t *testing.T) {
	r := &routersDouble{news: make(chan inquiry.News, 64)}
	d := bare(t, func(o *Options) { o.Inquiries = r })
	init := &statepb.Init{ClusterId: "c-1"}
	for name, scope := range map[string]*statepb.TokenScope{"acme": {Tenants: []string{"acme", "globex"}}, "us": {Regions: []string{"us"}}} {
		sum := sha256.Sum256([]byte("secret-" + name))
		init.Tokens = append(init.Tokens, &statepb.Token{Name: name, Role: "viewer", Sha256: sum[:], Scope: scope})
	}
	d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Init{Init: init}})

	for record, seen := range map[string]bool{`{"tenant":"acme"}`: true, `{"tenant":"initech"}`: false, `{}`: false} {
		r.explanation = inquiry.Explanation{Router: "us-r1", Most: 4096, Record: []byte(record)}
		if seen {
			d.do("acme", "GET", "/v1/explain/"+aRequest, "").want(200, "")
		} else {
			d.do("acme", "GET", "/v1/explain/"+aRequest, "").want(404, "unknown_request")
		}
		d.do("us", "GET", "/v1/explain/"+aRequest, "").want(200, "")
	}

	d.do("acme", "GET", "/v1/decisions?tenant=acme&tenant=initech", "").want(403, "out_of_scope")
	r.news <- inquiry.News{Router: "us-r1", Records: [][]byte{[]byte(`{"tenant":"initech"}`), []byte(`{"tenant":"globex"}`)}} // a router that takes no notice of filters
	s := d.watchAs("acme", "/v1/decisions")
	if got, ok := s.next(); !ok || !strings.HasPrefix(got.data, `{"tenant":"globex"`) {
		t.Errorf("got %+v", got)
	}
	if got := strings.Join(r.filter.GetTenants(), " "); got != "acme globex" {
		t.Errorf("asked for the tenants %q", got)
	}
}
