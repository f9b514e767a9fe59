package endpoint

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// discovering makes cluster a one whose endpoints are to be found.
func discovering(static ...string) func(*routerpb.Table) {
	return func(pb *routerpb.Table) {
		pb.Clusters[0].Endpoints = nil
		for _, name := range static {
			pb.Clusters[0].Endpoints = append(pb.Clusters[0].Endpoints, &routerpb.Endpoint{Id: name, Url: "http://" + name, Class: "h100"})
		}
		pb.Clusters[0].Discovery = &routerpb.Discovery{Kind: table.DiscoverDNS, Name: "pods.example", Port: 8000, Scheme: "http", Class: "h100"}
	}
}

func found(names ...string) []table.Endpoint {
	var list []table.Endpoint
	for _, name := range names {
		list = append(list, table.Endpoint{ID: fleet.EndpointID(name), URL: "http://" + name, Class: "h100"})
	}
	return list
}

func (r *Registry) ids(cluster fleet.ClusterID) string {
	var ids []string
	for _, e := range r.of(cluster) {
		ids = append(ids, string(e.ID))
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func TestDiscoveredEndpoints(t *testing.T) {
	now := time.Unix(1000, 0)
	r := New(Options{Region: "us", Now: func() time.Time { return now }})
	expect := func(when, want string) {
		t.Helper()
		if got := r.ids("a"); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	r.Sync(world(t, discovering()))
	if out, why := r.Cluster("a").Ejected(); !out || why != "no endpoint is known" {
		t.Errorf("with none: ejected %v, %q", out, why)
	}
	if s := signalOf(t, r.Report(now), "a"); s.EndpointsTotal != 0 || s.EndpointsReady != 0 || !s.Ejected {
		t.Errorf("with none: %+v", s)
	}
	if c, _ := r.Cluster("a").Candidates(&Load{Model: "m"}, now, nil, nil, nil); len(c) != 0 {
		t.Errorf("candidates %v of none", c)
	}
	r.Discovered("a", found("x", "y", "x"))
	expect("found", "x y")
	if out, _ := r.Cluster("a").Ejected(); out {
		t.Error("found, and still ejected")
	}
	x := r.of("a")[0]
	r.Discovered("a", found("z", "x"))
	expect("one went, one came", "x z")
	if !slices.Contains(r.of("a"), x) {
		t.Error("one that stayed lost its state")
	}
	r.Sync(world(t, discovering("s", "x")))
	expect("the table has some too", "s x z")
	list := found("s")
	list[0].URL = "http://s-elsewhere"
	r.Discovered("a", list)
	expect("one of both", "s x")
	if i := slices.IndexFunc(r.of("a"), func(e *Endpoint) bool { return e.ID == "s" }); r.of("a")[i].URL != "http://s-elsewhere" {
		t.Error("the table's address counted, and not the one that was found")
	}
	r.Discovered("a", []table.Endpoint{{ID: "p", URL: "http://x", Class: "h100"}, {ID: "q", URL: "http://x", Class: "h100"}})
	expect("the same server under three names", "p s")
	r.Discovered("a", nil)
	expect("none found any more", "s x")
	r.Discovered("a", found("y"))
	r.Sync(world(t))
	expect("a table that looks for none", "a1 a2")
	r.Sync(world(t, discovering()))
	expect("found for an older table", "a1 a2")
	r.Discovered("b", found("x"))
	if r.ids("b") != "b1" {
		t.Errorf("b, whose endpoints are not to be found, has %s", r.ids("b"))
	}
	r.Discovered("nowhere", found("x"))
	r.Discovered("e", found("x"))
	if r.ids("e") != "" || r.Cluster("nowhere") != nil {
		t.Error("found for a cluster that isn't here")
	}
}

// What is found may come before the table that wants it.
func TestFoundBeforeTheTable(t *testing.T) {
	r := New(Options{Region: "us", Now: func() time.Time { return time.Unix(1000, 0) }})
	r.Discovered("a", found("x"))
	r.Sync(world(t, discovering()))
	if got := r.ids("a"); got != "x" {
		t.Errorf("%q", got)
	}
}

// An operator has a cluster's endpoints looked for that were listed before: it is not without any until the
// first are found, however long that takes, and requests go on.
func TestAClusterKeepsItsEndpointsUntilOthersAreFound(t *testing.T) {
	r, now := still(t)
	a1 := r.of("a")[0]
	a1.Begin(Load{Model: "m"}, *now)
	expect := func(when, want string) {
		t.Helper()
		if got := r.ids("a"); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	for range 2 {
		r.Sync(world(t, discovering()))
		expect("none was found yet", "a1 a2")
	}
	if r.of("a")[0] != a1 || a1.InFlight() != 1 {
		t.Error("it lost its state")
	}
	r.Discovered("a", found("x"))
	expect("one was found", "x")
	r.Sync(world(t))
	r.Discovered("a", nil) // as the search ends
	r.Sync(world(t, discovering()))
	expect("looked for anew", "a1 a2")
	r.Discovered("a", nil)
	expect("there are none", "")
	r.Sync(world(t, discovering()))
	expect("there are still none", "")
	r.Sync(world(t))
	r.Sync(world(t, discovering("s")))
	expect("the table lists one", "s")
}

func TestFoundEndpointsAreScraped(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		r.Sync(world(t, discovering()))
		synctest.Wait()
		r.Discovered("a", found("x"))
		soon(t, 2*time.Second, "signals of x", func() bool { return len(r.of("a")) == 1 && r.of("a")[0].Signals() != nil })
		r.Discovered("a", found("y"))
		synctest.Wait()
		n := f.get("x").scrapes
		pass(5 * time.Second)
		if f.get("x").scrapes != n || f.get("y").scrapes == 0 {
			t.Error("x, which is gone, is scraped, or y is not")
		}
	})
}

// Against plain sets: whatever comes, each name is there once, and as it was found last.
func TestDiscoveredAgreesWithSets(t *testing.T) {
	r, _ := still(t)
	r.Sync(world(t, discovering("s1", "s2")))
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"s1", "s2", "x", "y", "z"}), 0, 8).Draw(t, "names")
		r.Discovered("a", found(names...))
		want := append([]string{"s1", "s2"}, names...)
		slices.Sort(want)
		if got := r.ids("a"); got != strings.Join(slices.Compact(want), " ") {
			t.Fatalf("%q after %q", got, names)
		}
	})
	many := make([]string, maxFound+5)
	for i := range many {
		many[i] = fmt.Sprint("x", i)
	}
	r.Discovered("a", found(many...))
	if n := len(r.of("a")); n != maxFound+2 {
		t.Errorf("%d endpoints", n)
	}
}
