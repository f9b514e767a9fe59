package discover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// tables makes a table of clusters of kind endpoints in region eu.
func tables(specs map[string]*table.Discovery) *table.Table {
	t := &table.Table{Clusters: map[fleet.ClusterID]*table.Cluster{}}
	for id, spec := range specs {
		t.Clusters[fleet.ClusterID(id)] = &table.Cluster{ID: fleet.ClusterID(id), Region: "eu", Kind: table.KindEndpoints, Discovery: spec}
	}
	return t
}

// run runs a discoverer until the test's end.
func run(t *testing.T, d *Discoverer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within 10 s: %s", what)
		case <-tick.C:
		}
	}
}

// puppet is a finder whose watches are led by hand, by the name of the spec.
type puppet struct {
	mu    sync.Mutex // guards all below
	tell  map[string]func([]table.Endpoint, error)
	quit  map[string]chan error
	began []string
	ended []string
	// linger is how long watches still need when they should end.
	linger time.Duration
}

func newPuppet() *puppet {
	return &puppet{tell: map[string]func([]table.Endpoint, error){}, quit: map[string]chan error{}}
}

func (p *puppet) Watch(ctx context.Context, spec table.Discovery, found func([]table.Endpoint, error)) error {
	quit := make(chan error, 1)
	p.mu.Lock()
	p.began = append(p.began, spec.Name)
	p.tell[spec.Name], p.quit[spec.Name] = found, quit
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		linger := p.linger
		p.mu.Unlock()
		<-time.After(linger)
		p.mu.Lock()
		p.ended = append(p.ended, spec.Name)
		p.mu.Unlock()
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-quit:
		return err
	}
}

// show tells a list of names, or an error.
func (p *puppet) show(name string, err error, list ...string) {
	p.mu.Lock()
	found := p.tell[name]
	p.mu.Unlock()
	found(made(list...), err)
}

func made(ids ...string) []table.Endpoint {
	out := make([]table.Endpoint, 0, len(ids))
	for _, id := range ids {
		out = append(out, table.Endpoint{ID: fleet.EndpointID(id), URL: "http://" + id + ":8000"})
	}
	return out
}

// bench is a discoverer with a puppet in a bubble, and what Found was called with.
type bench struct {
	*puppet
	d      *Discoverer
	found  []string
	stop   func()
	region *prometheus.Registry
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{puppet: newPuppet(), region: prometheus.NewRegistry()}
	var err error
	b.d, err = New(Options{
		Region: "eu", Finders: map[string]Finder{"hand": b.puppet}, Registerer: b.region,
		Found: func(c fleet.ClusterID, list []table.Endpoint) {
			var names []string
			for _, e := range list {
				names = append(names, string(e.ID))
			}
			b.found = append(b.found, string(c)+":"+strings.Join(names, ","))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.stop = run(t, b.d)
	return b
}

// sync hands over a table with these clusters, each discovered by hand under its given name.
func (b *bench) sync(specs map[string]string) {
	m := map[string]*table.Discovery{}
	for id, name := range specs {
		m[id] = &table.Discovery{Kind: "hand", Name: name, Class: "H100"}
	}
	b.d.Sync(tables(m))
	synctest.Wait()
}

func (b *bench) showAndWait(name string, err error, list ...string) {
	b.show(name, err, list...)
	synctest.Wait()
}

// news returns what Found was called with since it was last asked.
func (b *bench) news() string {
	slices.Sort(b.found)
	out := strings.Join(b.found, " ")
	b.found = nil
	return out
}

func (b *bench) want(t *testing.T, what, want string) {
	t.Helper()
	if got := b.news(); got != want {
		t.Errorf("%s: Found got %q, want %q", what, got, want)
	}
}

func TestListsAreToldWhenTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.sync(map[string]string{"c1": "x", "c2": "y"})
		b.want(t, "before any look", "")
		b.showAndWait("x", nil, "b", "a")
		b.want(t, "the first list", "c1:a,b")
		b.showAndWait("x", nil, "a", "b")
		b.want(t, "the same in another order", "")
		b.showAndWait("x", nil, "a")
		b.want(t, "one less", "c1:a")
		b.showAndWait("x", nil)
		b.want(t, "none", "c1:")
		b.showAndWait("y", nil)
		b.want(t, "none from the first", "c2:")
		b.show("x", nil, "a")
		b.showAndWait("x", nil, "a", "b")
		if got := b.news(); got != "c1:a c1:a,b" && got != "c1:a,b" {
			t.Errorf("two at once: %q", got)
		}
	})
}

func TestTroubleLeavesTheLastList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.sync(map[string]string{"c": "x"})
		b.showAndWait("x", errors.New("away"))
		if s := b.d.Status()[0]; s.Error != "away" || !s.Looked.IsZero() || s.Failures != 1 || s.AgeSeconds != 0 {
			t.Errorf("before the first list: %+v", s)
		}
		b.showAndWait("x", nil, "a")
		b.news()
		pass(3 * time.Second)
		b.showAndWait("x", errors.New("away"))
		b.showAndWait("x", nil, "a", "a")
		b.showAndWait("x", nil, "bad id")
		b.showAndWait("x", nil, make([]string, MaxEndpoints+1)...)
		b.want(t, "in trouble", "")
		s := b.d.Status()[0]
		if s.Endpoints != 1 || s.Failures != 5 || s.AgeSeconds != 3 || !strings.Contains(s.Error, "the limit is 10000") || s.Changes != 1 {
			t.Errorf("status %+v", s)
		}
		b.showAndWait("x", nil, "a")
		if s := b.d.Status()[0]; s.Error != "" || s.AgeSeconds != 0 || s.Failures != 5 || s.Changes != 1 || s.Kind != "hand" || s.Name != "x" {
			t.Errorf("afterwards %+v", s)
		}
		b.want(t, "afterwards", "")
	})
}

func TestAClassOfTheSpecStandsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.sync(map[string]string{"c": "x"})
		var got []table.Endpoint
		b.d.opt.Found = func(_ fleet.ClusterID, list []table.Endpoint) { got = list }
		b.mu.Lock()
		tell := b.tell["x"]
		b.mu.Unlock()
		tell([]table.Endpoint{{ID: "a", URL: "http://a/"}, {ID: "b", URL: "http://b", Class: "L40S"}}, nil)
		synctest.Wait()
		if len(got) != 2 || got[0].Class != "h100" || got[1].Class != "l40s" || got[0].URL != "http://a" {
			t.Errorf("found %+v", got)
		}
		got[0].ID = "z" // Found owns the slice
		tell([]table.Endpoint{{ID: "a", URL: "http://a/"}, {ID: "b", URL: "http://b", Class: "L40S"}}, nil)
		synctest.Wait()
		if got[0].ID != "z" {
			t.Error("told again though nothing changed")
		}
	})
}

func TestWatchesFollowTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.sync(map[string]string{"c1": "x", "c2": "y"})
		b.showAndWait("x", nil, "a")
		b.showAndWait("y", nil, "b")
		b.news()

		b.sync(map[string]string{"c1": "x", "c2": "y"})
		if len(b.began) != 2 || len(b.ended) != 0 {
			t.Errorf("the same table again: began %v, ended %v", b.began, b.ended)
		}
		b.sync(map[string]string{"c1": "x"})
		b.want(t, "c2 has left", "c2:")
		if !slices.Equal(b.ended, []string{"y"}) || len(b.d.Status()) != 1 {
			t.Errorf("ended %v, status %+v", b.ended, b.d.Status())
		}
		b.showAndWait("y", nil, "late")
		b.want(t, "a watch that was stopped", "")

		b.sync(map[string]string{"c1": "x2"})
		if !slices.Equal(b.ended, []string{"y", "x"}) || b.began[2] != "x2" {
			t.Errorf("began %v, ended %v", b.began, b.ended)
		}
		b.want(t, "another source that has told nothing", "")
		b.showAndWait("x", nil, "late")
		b.want(t, "the old source", "")
		b.showAndWait("x2", errors.New("no such thing"))
		b.want(t, "another source that fails", "")
		if s := b.d.Status()[0]; s.Endpoints != 1 || s.Name != "x2" || s.Error == "" {
			t.Errorf("status %+v", s)
		}
		b.showAndWait("x2", nil, "a")
		b.want(t, "the new source says the same", "")
		b.showAndWait("x2", nil, "n")
		b.want(t, "the new source", "c1:n")

		b.mu.Lock()
		b.linger = time.Second
		b.mu.Unlock()
		b.stop()
		if len(b.ended) != 3 {
			t.Errorf("Run left watches behind: ended %v", b.ended)
		}
		b.want(t, "at the end", "")
	})
}

func TestAClusterThatComesBackAtOnceIsToldAgain(t *testing.T) {
	d, err := New(Options{Found: func(fleet.ClusterID, []table.Endpoint) {}})
	if err != nil {
		t.Fatal(err)
	}
	with := tables(map[string]*table.Discovery{"c": {Kind: "hand", Name: "x"}})
	settle := func() (n int, out []news) {
		out = d.settle(func(w *watch, u *turn) {
			n++
			u.stop = func() {}
		})
		return n, out
	}
	d.Sync(with)
	if n, _ := settle(); n != 1 {
		t.Fatalf("%d watches began", n)
	}
	w := d.watches["c"]
	d.take(w, w.running, made("a"), nil)
	if _, out := settle(); len(out) != 1 {
		t.Fatalf("told %v", out)
	}
	d.Sync(with)
	if n, out := settle(); n != 0 || len(out) != 0 {
		t.Errorf("the same table: %d began, told %v", n, out)
	}
	d.Sync(tables(nil)) // upon which others forget what they were told
	d.Sync(with)
	if n, out := settle(); n != 0 || len(out) != 1 || len(out[0].endpoints) != 1 {
		t.Errorf("back at once: %d began, told %v", n, out)
	}
}

func TestOnlyEndpointsOfTheOwnRegionAreLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		spec := &table.Discovery{Kind: "hand", Name: "x"}
		tb := tables(map[string]*table.Discovery{"gateway": spec, "abroad": spec, "static": nil})
		tb.Clusters["gateway"].Kind = table.KindGateway
		tb.Clusters["abroad"].Region = "us"
		b.d.Sync(tb)
		synctest.Wait()
		if len(b.began) != 0 || len(b.d.Status()) != 0 {
			t.Errorf("began %v", b.began)
		}
		b.d.opt.Region = ""
		b.d.Sync(tb)
		synctest.Wait()
		if s := b.d.Status(); len(s) != 1 || s[0].Cluster != "abroad" {
			t.Errorf("without a region: %+v", s)
		}
	})
}

func TestAWatchThatEndsBeginsAgainAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.sync(map[string]string{"c": "x"})
		b.showAndWait("x", nil, "a")
		b.news()
		count := func() int { b.mu.Lock(); defer b.mu.Unlock(); return len(b.began) }
		end := func(err error) {
			b.mu.Lock()
			quit := b.quit["x"]
			b.mu.Unlock()
			quit <- err
			synctest.Wait()
		}
		for i, seconds := range []int{1, 2, 4, 8, 16, 30, 30} {
			end(fmt.Errorf("broken %d", i))
			if s := b.d.Status()[0]; s.Error != fmt.Sprintf("broken %d", i) {
				t.Errorf("status %+v", s)
			}
			pass(time.Duration(seconds)*time.Second - time.Millisecond)
			if count() != i+1 {
				t.Fatalf("end %d: began again too soon", i)
			}
			pass(time.Millisecond)
			if count() != i+2 {
				t.Fatalf("end %d: not again after %d s", i, seconds)
			}
		}
		pass(time.Minute) // it works now
		end(nil)
		if s := b.d.Status()[0]; s.Error != "the watch has ended" {
			t.Errorf("status %+v", s)
		}
		pass(time.Second)
		if count() != 9 {
			t.Error("the pause is still long after a watch that lasted")
		}
		b.want(t, "all the time", "")
	})
}

func TestKindsThatThisRouterLacksAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.d.Sync(tables(map[string]*table.Discovery{
			"a": {Kind: table.DiscoverInferencePool, Name: "p", Namespace: "ml"},
			"b": {Kind: "consul", Name: "p"},
		}))
		synctest.Wait()
		s := b.d.Status()
		if len(s) != 2 || !strings.Contains(s[0].Error, "tag kubernetes") || !strings.Contains(s[1].Error, `"consul"`) || s[0].Namespace != "ml" {
			t.Errorf("status %+v", s)
		}
	})
}

func TestATableBeforeRunIsTakenUpByIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuppet()
		d, err := New(Options{Finders: map[string]Finder{"hand": p}, Found: func(fleet.ClusterID, []table.Endpoint) {}})
		if err != nil {
			t.Fatal(err)
		}
		d.Sync(tables(map[string]*table.Discovery{"c": {Kind: "hand", Name: "x"}}))
		synctest.Wait()
		if len(p.began) != 0 || len(d.Status()) != 1 {
			t.Errorf("began %v before Run", p.began)
		}
		run(t, d)
		synctest.Wait()
		if len(p.began) != 1 {
			t.Error("not taken up")
		}
	})
}

func TestALongErrorIsShownInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.sync(map[string]string{"c": "x"})
		b.showAndWait("x", errors.New(strings.Repeat("ü", 1000)))
		if s := b.d.Status()[0].Error; len(s) > maxError+len("…") || !strings.HasSuffix(s, "ü…") {
			t.Errorf("%d bytes: %q", len(s), s)
		}
	})
}

func TestMetricsFollowTheClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.sync(map[string]string{"c1": "x", "c2": "y"})
		b.showAndWait("x", nil, "a", "b")
		b.showAndWait("x", errors.New("away"))
		pass(2 * time.Second)
		gathered := func() map[string]float64 {
			families, err := b.region.Gather()
			if err != nil {
				t.Fatal(err)
			}
			out := map[string]float64{}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					if m.GetLabel()[1].GetName() != "kind" || m.GetLabel()[1].GetValue() != "hand" {
						t.Errorf("labels %v", m.GetLabel())
					}
					key := strings.TrimPrefix(f.GetName(), "anabranch_discovery_") + " " + m.GetLabel()[0].GetValue()
					out[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
			return out
		}
		got := gathered()
		for key, want := range map[string]float64{
			"endpoints c1": 2, "age_seconds c1": 2, "failures_total c1": 1, "changes_total c1": 1,
			"endpoints c2": 0, "failures_total c2": 0, "changes_total c2": 0,
		} {
			if v, ok := got[key]; !ok || v != want {
				t.Errorf("%s is %v, %v, want %v", key, v, ok, want)
			}
		}
		if _, ok := got["age_seconds c2"]; ok || len(got) != 7 {
			t.Errorf("metrics %v", got)
		}
		b.sync(map[string]string{"c2": "y"})
		if got := gathered(); len(got) != 3 {
			t.Errorf("after c1 has left: %v", got)
		}
	})
}

func TestOptionsNameWhatIsWrong(t *testing.T) {
	found := func(fleet.ClusterID, []table.Endpoint) {}
	for says, o := range map[string]Options{
		"Found":  {},
		"period": {Found: found, DNSPeriod: -1},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %s", err, says)
		}
	}
	r := prometheus.NewRegistry()
	if _, err := New(Options{Found: found, Registerer: r}); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Found: found, Registerer: r}); err == nil {
		t.Error("the metrics were registered twice")
	}
}

// TestWhatIsToldIsWhatTheModelSays plays tables and looks in any order against a model: what Found
// was told last is the last good list of the source that a cluster has, or of the one it had before.
func TestWhatIsToldIsWhatTheModelSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, err := New(Options{Found: func(fleet.ClusterID, []table.Endpoint) {}})
		if err != nil {
			t.Fatal(err)
		}
		type running struct {
			w *watch
			t *turn
		}
		var turns []running          // all that were ever started
		wants := map[string]string{} // cluster → name of its source
		lists := map[string]string{} // cluster → list in force
		told := map[string]string{}  // what Found got
		settle := func() {
			for _, n := range d.settle(func(w *watch, u *turn) {
				u.stop = func() {}
				turns = append(turns, running{w, u})
			}) {
				told[string(n.cluster)] = ids(n.endpoints)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"sync": func(t *rapid.T) {
				next := map[string]string{}
				specs := map[string]*table.Discovery{}
				for _, c := range []string{"c1", "c2"} {
					if name := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, c); name != "" {
						next[c] = name
						specs[c] = &table.Discovery{Kind: "hand", Name: name}
					}
				}
				d.Sync(tables(specs))
				settle()
				for c := range wants {
					if next[c] == "" {
						delete(lists, c)
					}
				}
				wants = next
			},
			"look": func(t *rapid.T) {
				if len(turns) == 0 {
					return
				}
				r := turns[rapid.IntRange(0, len(turns)-1).Draw(t, "turn")]
				list := made(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID[string]).Draw(t, "list")...)
				var err error
				if rapid.Bool().Draw(t, "fails") {
					err = errors.New("away")
				}
				d.take(r.w, r.t, list, err)
				settle()
				sorted, _ := check(list, "")
				for c := range wants {
					if d.watches[fleet.ClusterID(c)] == r.w && r.w.running == r.t && err == nil {
						if r.t.spec.Name != wants[c] {
							t.Fatalf("cluster %s listens to %s, wants %s", c, r.t.spec.Name, wants[c])
						}
						lists[c] = ids(sorted)
					}
				}
			},
			"": func(t *rapid.T) {
				for _, c := range []string{"c1", "c2"} {
					if told[c] != lists[c] {
						t.Fatalf("cluster %s: told %q, in force %q", c, told[c], lists[c])
					}
				}
				if len(d.Status()) != len(wants) {
					t.Fatalf("%d sources, want %d", len(d.Status()), len(wants))
				}
			},
		})
	})
}

func BenchmarkLookOfTenThousand(b *testing.B) {
	list, err := Parse(lines(MaxEndpoints))
	if err != nil {
		b.Fatal(err)
	}
	d, err := New(Options{Found: func(fleet.ClusterID, []table.Endpoint) {}})
	if err != nil {
		b.Fatal(err)
	}
	turn := &turn{}
	w := &watch{running: turn}
	b.ReportAllocs()
	for b.Loop() {
		d.take(w, turn, list, nil)
	}
	if !w.known || w.changes != 1 {
		b.Errorf("%d changes", w.changes)
	}
}
