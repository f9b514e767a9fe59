package endpoint

import (
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/failover"
)

// A rehearsal judges places by the numbers of the real breakers, and says nothing to those.
func TestARehearsalIsApart(t *testing.T) {
	r, now := still(t)
	c := r.Cluster("a")
	ends := c.Endpoints()
	if len(ends) < 2 {
		t.Fatalf("%d endpoints", len(ends))
	}
	x := NewRehearsal([]fleet.ClusterID{"a", "gone"}, *now)
	if out, _ := x.Ejected(c); out || x.EndpointEjected(ends[0]) || !x.First().IsZero() {
		t.Error("ejected from the start")
	}
	// Without a request and a look nobody knows.
	if got := x.Step(r, *now); got != nil {
		t.Errorf("%v are found dead by nobody", got)
	}
	for range 3 {
		if x.Refused(c, ends[0], *now) {
			t.Error("the cluster is ejected while others of it are in use")
		}
	}
	if !x.EndpointEjected(ends[0]) || x.EndpointEjected(ends[1]) {
		t.Error("three refusals")
	}
	// A look at metrics that was taken since would have failed: canaries go, and fail.
	*now = now.Add(50 * time.Millisecond)
	for _, e := range ends {
		e.Observe(&Observation{At: *now, InFlight: -1, Generated: -1, PrefixAsked: -1}, *now)
	}
	var got []fleet.ClusterID
	for range 3 {
		*now = now.Add(RehearsalPause)
		got = append(got, x.Step(r, *now)...)
	}
	if out, why := x.Ejected(c); !out || why != "drill: 3 connect failures in a row" || len(got) != 1 || !x.First().Equal(*now) {
		t.Errorf("ejected %t for %q at %v, told %v", out, why, x.First(), got)
	}
	for _, e := range ends {
		if out, why := e.Ejected(); out {
			t.Errorf("%s is really ejected: %s", e.ID, why)
		}
	}
	if c.Ejections() != 0 {
		t.Error("it is counted")
	}
	var none *Rehearsal
	if out, _ := none.Ejected(c); out || none.EndpointEjected(ends[0]) || !none.First().IsZero() {
		t.Error("nothing is rehearsed, and ejects")
	}
}

// Of a cluster of another region requests find out alone, until one has.
func TestARehearsalAbroad(t *testing.T) {
	r, now := still(t)
	c := r.Cluster("e")
	x := NewRehearsal([]fleet.ClusterID{"e"}, *now)
	if got := x.Step(r, *now); got != nil || x.Refused(c, nil, *now) {
		t.Error("ejected too soon")
	}
	if x.Step(r, *now) != nil || len(x.Step(r, *now)) != 1 {
		t.Error("canaries don't find out")
	}
	if out, _ := c.Ejected(); out {
		t.Error("it is really ejected")
	}
	// A real ejection is another matter, and stays.
	for range 3 {
		c.Hop(Load{}, *now).Done(Result{Outcome: failover.ConnectFailure}, *now)
	}
	if out, why := c.Ejected(); !out || strings.HasPrefix(why, "drill:") {
		t.Errorf("ejected %t for %q", out, why)
	}
}
