package dataplane

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/proxy"
	"anabranch/dataplane/route"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

func TestExplanationsKeepTheNewest(t *testing.T) {
	e := &explanations{}
	if e.find("r-0") != nil {
		t.Error("something came out of nothing")
	}
	for i := range explainKept + 10 {
		e.add(&Record{ID: fmt.Sprintf("r-%d", i)})
	}
	for id, want := range map[string]bool{"r-0": false, "r-9": false, "r-10": true, fmt.Sprintf("r-%d", explainKept+9): true, "r-x": false} {
		if got := e.find(id); (got != nil) != want {
			t.Errorf("%s: %v, want it kept: %v", id, got, want)
		}
	}
	e.add(&Record{ID: "r-11", Status: 7})
	if e.find("r-11").Status != 7 {
		t.Error("of two of the same name the older was found")
	}
}

// mortalFunc is a place that is dead when it says so.
type mortalFunc func() bool

func (f mortalFunc) Ejected() (bool, string) { return f(), "" }

func TestWhatWaitsAtADeadPlaceIsAbandonedOnce(t *testing.T) {
	arrived := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	defer upstream.Close()
	p := &peers{}
	base, err := p.base(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	relay := proxy.New(proxy.Options{})
	defer relay.Close()
	a := &proxy.Attempt{URL: base, FirstByte: time.Minute}
	ended := make(chan proxy.Result, 1)
	go func() { ended <- relay.Do(context.Background(), httptest.NewRecorder(), a) }()
	<-arrived

	w, start := newWaiting(), time.Unix(1_700_000_000, 0)
	dead := false
	waits := pending{attempt: a, place: mortalFunc(func() bool { return dead }), since: start, floor: 5 * time.Second}
	w.add(&waits)
	defer w.drop(&waits)
	w.sweep(start.Add(10 * time.Second)) // the place is well
	dead = true
	w.sweep(start.Add(4 * time.Second)) // it has not waited long
	select {
	case r := <-ended:
		t.Fatalf("abandoned too soon: %+v", r)
	default:
	}
	w.sweep(start.Add(5 * time.Second))
	if r := <-ended; r.Outcome != failover.Silence || !r.Retryable || !r.Exempt {
		t.Errorf("result %+v", r)
	}
}

func TestSweepingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		looks := 0
		w := newWaiting()
		w.add(&pending{attempt: &proxy.Attempt{}, place: mortalFunc(func() bool { looks++; return false }), since: time.Now()})
		if err := w.run(ctx, time.Now); err != nil {
			t.Error(err)
		}
		if looks < 9 || looks > 10 {
			t.Errorf("looked %d times in a second", looks)
		}
	})
}

func TestWhatNoLongerWaitsIsForgotten(t *testing.T) {
	w, start := newWaiting(), time.Unix(1_700_000_000, 0)
	all := make([]pending, 300)
	for i := range all {
		all[i].since = start.Add(time.Duration(i%100) * 16) // some lists have many, others none
		w.add(&all[i])
	}
	left := func() (n int) {
		w.each(func(*pending) { n++ })
		return n
	}
	for i, at := range rand.New(rand.NewPCG(1, 2)).Perm(len(all)) {
		if got := left(); got != len(all)-i {
			t.Fatalf("%d wait, want %d", got, len(all)-i)
		}
		w.drop(&all[at])
	}
	if left() != 0 {
		t.Error("something still waits")
	}
}

func TestClientsNamesAreRepeatedOnlyIfFit(t *testing.T) {
	for id, want := range map[string]string{
		"req-1": "req-1", "": "", "with space": "", "bad\x00byte": "", "ünicode": "",
		strings.Repeat("x", 128): strings.Repeat("x", 128), strings.Repeat("x", 129): "",
	} {
		if got := clientID(http.Header{"X-Request-Id": {id}}); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
}

func TestRequestIDsBeginWithTheRouter(t *testing.T) {
	n := uint64(0)
	r := &Router{o: Options{Router: "r1"}, random: func() uint64 { n++; return n }}
	if a, b := r.requestID(), r.requestID(); a != "r1-0000000000000001" || b != "r1-0000000000000002" {
		t.Errorf("%q, %q", a, b)
	}
	if got := r.hopID(http.Header{"X-Anabranch-Request-Id": {"r2-1"}}); got != "r2-1" {
		t.Errorf("a peer's: %q", got)
	}
	if got := r.hopID(http.Header{}); got != "r1-0000000000000003" {
		t.Errorf("a peer's without a name: %q", got)
	}
}

func TestTheLastFailureIsWordedForTheClient(t *testing.T) {
	for name, c := range map[string]struct {
		last   *proxy.Error
		dead   bool
		status int
		code   string
		retry  time.Duration
	}{
		"none":      {nil, false, 503, "no_capacity", time.Second},
		"busy":      {&proxy.Error{Code: "endpoint_busy", RetryAfter: 7 * time.Second}, false, 503, "no_capacity", 7 * time.Second},
		"full":      {&proxy.Error{Code: "no_capacity"}, false, 503, "no_capacity", time.Second},
		"not there": {&proxy.Error{Code: "no_legal_target"}, false, 503, "no_capacity", time.Second},
		"broken":    {&proxy.Error{Status: 502, Code: "upstream_error"}, false, 502, "upstream_error", 0},
		"a reset":   {&proxy.Error{Status: 502, Code: "upstream_reset"}, false, 502, "upstream_reset", 0},
		"silence":   {&proxy.Error{Status: 504, Code: "first_byte_timeout"}, false, 504, "first_byte_timeout", 0},
		"no room":   {&proxy.Error{Status: 503, Code: "upstream_error", RetryAfter: 7 * time.Second}, false, 503, "upstream_error", 7 * time.Second},
		"dead":      {&proxy.Error{Status: 502, Code: "connect_failed"}, false, 503, "connect_failed", time.Second},
		"left":      {&proxy.Error{Status: 504, Code: "place_ejected"}, false, 503, "place_ejected", time.Second},
		"dead afar": {&proxy.Error{Status: 503, Code: "cluster_ejected"}, false, 503, "cluster_ejected", time.Second},
		"hung":      {&proxy.Error{Status: 504, Code: "first_byte_timeout"}, true, 503, "first_byte_timeout", time.Second},
		"broke":     {&proxy.Error{Status: 502, Code: "upstream_reset"}, true, 503, "upstream_reset", time.Second},
	} {
		if got := exhausted(c.last, c.dead); got.Status != c.status || got.Code != c.code || got.RetryAfter != c.retry {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if e := problemOf(errors.New("odd")); e.Status != 400 {
		t.Errorf("%+v", e)
	}
	if e := problemOf(&inference.Problem{Param: "n", Message: "m"}); e.Param != "n" || e.Message != "m" {
		t.Errorf("%+v", e)
	}
}

func TestSilenceIsBoundedByWhatWasExpected(t *testing.T) {
	w, _ := one(t)
	n, now := w.routers[us], time.Now()
	tab := n.tables.Load()
	model, _, _ := tab.Model("llama")
	c := n.places.Cluster("us-a")
	local := place{target: &route.Target{Cluster: tab.Clusters["us-a"], Region: us}, cluster: c, endpoint: c.Endpoints()[0]}
	trip := func(stream bool, tokens int64) *trip {
		return &trip{
			table: tab, model: model, class: &table.Class{FirstByteFloor: 5 * time.Second},
			request: inference.Request{Stream: stream, MaxTokens: tokens}, load: endpoint.Load{Model: "llama"},
		}
	}
	if got := n.bound(trip(true, 0), &local, now); got != 5*time.Second {
		t.Errorf("a stream: %s", got)
	}
	slow := local
	slow.reason.Seconds = 3
	if got := n.bound(trip(true, 0), &slow, now); got != 12*time.Second {
		t.Errorf("a stream expected in 3 s: %s", got)
	}
	short, long, unsaid := n.bound(trip(false, 10), &local, now), n.bound(trip(false, 1000), &local, now), n.bound(trip(false, 0), &local, now)
	if short <= 5*time.Second || long < 30*time.Second || unsaid <= long {
		t.Errorf("whole answers: %s, %s, %s", short, long, unsaid)
	}
	far := place{target: &route.Target{Cluster: tab.Clusters["us-a"], Region: us, Remote: true}, cluster: c}
	if got := n.bound(trip(true, 0), &far, now); got < 10*time.Second {
		t.Errorf("in another region: %s", got)
	}
}

func TestPathsAreKeptBehindTheBase(t *testing.T) {
	p := &peers{}
	for _, c := range [][3]string{
		{"http://h:1", "/v1/chat/completions", "http://h:1/v1/chat/completions"},
		{"http://h:1/base", "/v1/x?y=1", "http://h:1/base/v1/x?y=1"},
		{"http://h:1", "/v1/a%2Fb", "http://h:1/v1/a%2Fb"},
	} {
		base, err := p.base(c[0])
		if err != nil {
			t.Fatal(err)
		}
		q := httptest.NewRequest(http.MethodPost, c[1], http.NoBody)
		if got := at(base, q.URL).String(); got != c[2] {
			t.Errorf("%s and %s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
	again, err := p.base("http://h:1")
	if first, _ := p.base("http://h:1"); err != nil || first != again {
		t.Error("an address is parsed twice")
	}
}
