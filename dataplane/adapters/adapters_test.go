package adapters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/dataplane/table"
)

// servers are model servers by URL, and those who ask.
type servers struct {
	mu     sync.Mutex // guards what follows
	lists  map[string]string
	has    map[string][]string // answers for these
	asked  map[string]int      // by URL and model
	marked bool                // all came as canaries
	hang   bool
}

func newServers() *servers {
	return &servers{lists: map[string]string{}, has: map[string][]string{}, asked: map[string]int{}, marked: true}
}

// send is a round trip.
func (f *servers) send(_ *table.Cluster, r *http.Request, body []byte) (*http.Response, error) {
	f.mu.Lock()
	hang := f.hang
	f.mu.Unlock()
	if hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.marked = f.marked && r.Header.Get("X-Canary") == "1"
	host := r.URL.Host
	answer := func(status int, text string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text))}, nil
	}
	if r.URL.Path == "/v1/models" {
		if f.lists[host] == "" {
			return answer(http.StatusNotFound, "no such page")
		}
		return answer(http.StatusOK, f.lists[host])
	}
	var in struct {
		Model     string
		MaxTokens int `json:"max_tokens"`
	}
	if err := json.Unmarshal(body, &in); err != nil || in.MaxTokens != 1 {
		return nil, fmt.Errorf("asked for %s: %w", body, err)
	}
	f.asked[host+" "+in.Model]++
	if slices.Contains(f.has[host], in.Model) {
		return answer(http.StatusOK, `{"choices":[]}`)
	}
	return answer(http.StatusNotFound, `{"error":{"message":"the model does not exist"}}`)
}

func listing(models ...string) string {
	type entry struct {
		ID string `json:"id"`
	}
	var out struct {
		Data []entry `json:"data"`
	}
	for _, m := range models {
		out.Data = append(out.Data, entry{m})
	}
	text, _ := json.Marshal(out) // strings
	return string(text)
}

// desk is a looker with a clock that stands.
type desk struct {
	*Looker
	fleet  *servers
	places []Place
	now    time.Time
}

func newDesk(t *testing.T, places ...Place) *desk {
	t.Helper()
	d := &desk{fleet: newServers(), places: places, now: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}
	l, err := New(Options{
		Places: func() []Place { return d.places }, Send: d.fleet.send, Canary: "X-Canary",
		Now: func() time.Time { return d.now }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Looker = l
	return d
}

// looks looks so many times, three seconds apart.
func (d *desk) looks(t *testing.T, n int) {
	t.Helper()
	for range n {
		d.look(t.Context())
		d.now = d.now.Add(DefaultEvery)
	}
}

func place(urls ...string) Place {
	return Place{Cluster: &table.Cluster{ID: "us-a"}, Model: "m", Adapters: []string{"legal", "support"}, URLs: urls}
}

func TestWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		urls []string
		play func(*servers)
		want []string
	}{
		"all is listed":                {[]string{"http://a"}, func(f *servers) { f.lists["a"] = listing("m", "legal", "support") }, nil},
		"one is not listed":            {[]string{"http://a"}, func(f *servers) { f.lists["a"] = listing("m", "legal") }, []string{"support"}},
		"not listed, and answered for": {[]string{"http://a"}, func(f *servers) { f.lists["a"], f.has["a"] = listing("m"), []string{"legal", "support"} }, nil},
		"nothing is ever listed":       {[]string{"http://a"}, func(f *servers) { f.has["a"] = []string{"legal"} }, []string{"support"}},
		"one server of two lacks one": {[]string{"http://a", "http://b"}, func(f *servers) {
			f.lists["a"], f.lists["b"] = listing("legal", "support"), listing("support")
		}, []string{"legal"}},
		"the list is no list":   {[]string{"http://a"}, func(f *servers) { f.lists["a"], f.has["a"] = "<html>", []string{"legal", "support"} }, nil},
		"nobody is to be asked": {nil, func(*servers) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, place(c.urls...))
			c.play(d.fleet)
			d.looks(t, 1)
			if got := d.Missing("us-a", "m"); !slices.Equal(got, c.want) {
				t.Errorf("%v is missing, want %v", got, c.want)
			}
			if !d.fleet.marked {
				t.Error("something went out that is no canary")
			}
			if d.Missing("us-a", "n") != nil || d.Missing("eu-a", "m") != nil {
				t.Error("something is missing where nobody looked")
			}
		})
	}
}

func TestAClusterIsAskedByItsOwnNames(t *testing.T) {
	p := place("http://a")
	p.Cluster.Names = map[string]string{"legal": "lora-7", "support": "lora-8"}
	d := newDesk(t, p)
	d.fleet.lists["a"], d.fleet.has["a"] = listing("lora-7"), []string{"lora-8"}
	d.looks(t, 1)
	if got := d.Missing("us-a", "m"); got != nil || d.fleet.asked["a lora-8"] != 1 || len(d.fleet.asked) != 1 {
		t.Errorf("%v is missing; asked %v", got, d.fleet.asked)
	}
}

// What is loaded later is found, what is lost again too, and what a server answered for is not asked each time.
func TestWordsGrowOld(t *testing.T) {
	d := newDesk(t, place("http://a"))
	d.fleet.has["a"] = []string{"legal"}
	d.looks(t, 3)
	if got := d.Missing("us-a", "m"); !slices.Equal(got, []string{"support"}) || d.fleet.asked["a legal"] != 1 || d.fleet.asked["a support"] != 3 {
		t.Errorf("%v is missing; asked %v", got, d.fleet.asked)
	}
	d.fleet.has["a"] = []string{"support"} // another process, with another adapter
	d.looks(t, 1)
	if got := d.Missing("us-a", "m"); got != nil {
		t.Errorf("%v is missing though it was there seconds ago", got)
	}
	d.looks(t, 8) // half a minute after its word
	if got := d.Missing("us-a", "m"); !slices.Equal(got, []string{"legal"}) {
		t.Errorf("%v is missing, want the one that was lost", got)
	}
	// One that is used again is looked at no more, and begins anew when it is left the next time.
	left := d.places
	d.places = nil
	d.looks(t, 1)
	if got := d.Missing("us-a", "m"); got != nil || len(d.words) != 0 {
		t.Errorf("%v is missing where nobody looks; %v is remembered", got, d.words)
	}
	d.places, d.fleet.has["a"] = left, []string{"legal", "support"}
	d.looks(t, 1)
	if got := d.Missing("us-a", "m"); got != nil {
		t.Errorf("%v is missing", got)
	}
	d.now = d.now.Add(time.Minute) // nobody has looked for long
	d.fleet.has["a"] = nil
	if got := d.Missing("us-a", "m"); got != nil {
		t.Errorf("%v is missing by a word of a minute ago", got)
	}
}

// Of many adapters each has its turn, few at a time; the worst of them are told.
func TestManyAdaptersTakeTurns(t *testing.T) {
	p := place("http://a")
	p.Adapters = nil
	for i := range 30 {
		p.Adapters = append(p.Adapters, fmt.Sprintf("l%02d", i))
	}
	d := newDesk(t, p)
	d.looks(t, 1)
	if got := d.Missing("us-a", "m"); len(got) != asks || len(d.fleet.asked) != asks {
		t.Errorf("after one look %d are missing, and %d were asked for", len(got), len(d.fleet.asked))
	}
	d.looks(t, 3)
	if got := d.Missing("us-a", "m"); len(got) != MaxNamed || !slices.IsSorted(got) || len(d.fleet.asked) != 30 {
		t.Errorf("after four looks %v are missing, and %d were asked for", got, len(d.fleet.asked))
	}
	d.fleet.has["a"] = p.Adapters
	d.looks(t, 4)
	if got := d.Missing("us-a", "m"); got != nil {
		t.Errorf("all is there, and %v is missing", got)
	}
}

// A server that hangs holds up neither the end nor the next look for longer than its time.
func TestRunEndsAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newServers()
		l, err := New(Options{Places: func() []Place { return []Place{place("http://a")} }, Send: f.send, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		f.hang = true
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		time.Sleep(3*within + time.Second) //nolint:forbidigo // virtual time of synctest
		if got := l.Missing("us-a", "m"); !slices.Equal(got, []string{"legal", "support"}) {
			t.Errorf("of a server that hangs %v is missing", got)
		}
		f.mu.Lock()
		f.hang = false
		f.has["a"] = []string{"legal", "support"}
		f.mu.Unlock()
		time.Sleep(3 * DefaultEvery) //nolint:forbidigo // virtual time of synctest
		if got := l.Missing("us-a", "m"); got != nil {
			t.Errorf("of one that answers %v is missing", got)
		}
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestOptionsThatAreMissing(t *testing.T) {
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "Places and Send") {
		t.Errorf("got %v", err)
	}
}
