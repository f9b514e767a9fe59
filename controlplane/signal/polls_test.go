package signal

import (
	"fmt"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// What one node polls the others know a moment later, with its age, whatever their clocks say.
func TestSourcesTravelBetweenNodes(t *testing.T) {
	one, other := New(func() time.Time { return pollNow }), New(nil)
	sources := []Source{
		failing("b", 4*time.Second, 3).with(func(s *Source) {
			s.Kind, s.URL, s.Why, s.Timeout, s.Took = "model server", "http://b:8000/metrics", "no router", time.Second, 1500*time.Microsecond
			s.Polls, s.Failed = 12, 5
		}),
		source("a", time.Second),
		{Cluster: "eu-b", Region: "eu", Why: "routers report", Interval: 5 * time.Second},
	}
	one.PutSources("n1", sources, pollNow)
	theirs := pollNow.Add(-42 * time.Hour)
	other.MergeSources("n1", one.LocalSources("n1"), theirs)
	got := other.Snapshot(theirs).Sources
	want := one.Snapshot(pollNow).Sources
	if len(got) != 3 || len(want) != 3 {
		t.Fatalf("%d and %d sources", len(got), len(want))
	}
	for i := range want {
		shift := func(at time.Time) time.Time {
			if at.IsZero() {
				return at
			}
			return at.Add(theirs.Sub(pollNow))
		}
		want[i].Polled, want[i].Got = shift(want[i].Polled), shift(want[i].Got)
		if got[i] != want[i] {
			t.Errorf("arrived as %+v\nwant       %+v", got[i], want[i])
		}
	}
	if len(one.LocalSources("n2")) != 0 || len(other.LocalSources("n2")) != 0 {
		t.Error("a node tells of sources that it does not poll")
	}
}

func TestANodesSourcesAreReplacedAsAWhole(t *testing.T) {
	s := New(nil)
	s.PutSources("n1", []Source{source("a", 0), source("b", 0)}, pollNow)
	s.PutSources("n2", []Source{source("a", 0)}, pollNow)
	s.PutSources("n1", []Source{source("b", 0)}, pollNow)
	var got []string
	for _, x := range s.Snapshot(pollNow).SourcesOf("eu-a") {
		got = append(got, string(x.Endpoint)+" by "+string(x.Node))
	}
	if fmt.Sprint(got) != "[a by n2 b by n1]" {
		t.Errorf("got %v", got)
	}
	if n := len(s.Snapshot(pollNow).SourcesOf("eu-b")); n != 0 {
		t.Errorf("%d sources of another cluster", n)
	}
	if n := len(s.Snapshot(pollNow.Add(StaleFor + time.Second)).Sources); n != 0 {
		t.Errorf("%d sources of nodes that have been silent", n)
	}
}

// Each node has a word, and the newest answer of any speaks.
func TestPollsOfSeveralNodes(t *testing.T) {
	s := New(nil)
	s.PutSources("n3", []Source{source("", 3*time.Second).with(func(x *Source) { x.Waiting = 30 })}, pollNow)
	s.PutSources("n1", []Source{failing("", time.Minute, 5)}, pollNow)
	s.PutSources("n2", []Source{source("", 2*time.Second).with(func(x *Source) { x.Waiting = 20 })}, pollNow)
	now := s.Snapshot(pollNow)
	polls := now.Polls("eu-a")
	if len(polls) != 3 || polls[0].Node != "n1" || !polls[0].Silent || polls[1].Silent || polls[2].Node != "n3" {
		t.Errorf("polls %+v", polls)
	}
	if l := now.Cluster("eu-a", ""); l.Waiting != 20 || l.Age != 2*time.Second {
		t.Errorf("load %+v", l)
	}
}

func TestWhatANodeSaysIsBounded(t *testing.T) {
	many := make([]Source, maxSources+5)
	for i := range many {
		many[i] = source(fmt.Sprint(i), 0)
	}
	s := New(nil)
	s.PutSources("n1", many, pollNow)
	if n := len(s.Snapshot(pollNow).Sources); n != maxSources {
		t.Errorf("%d sources kept", n)
	}
	told := s.LocalSources("n1")
	told[0].Waiting, told[0].PolledMs, told[0].IntervalMs = -3, 1<<62, -5
	s.MergeSources("n2", told[:1], pollNow)
	for _, x := range s.Snapshot(pollNow).SourcesOf("eu-a") {
		if x.Node == fleet.NodeID("n2") && (x.Waiting != 0 || x.Interval != 0 || pollNow.Sub(x.Polled) > keepBelief) {
			t.Errorf("taken in as %+v", x)
		}
	}
}

func TestWhenEachRegionWasHeard(t *testing.T) {
	s := New(nil)
	if got := s.Heard(pollNow); len(got) != 0 {
		t.Errorf("of nobody: %v", got)
	}
	put := func(router, region string, age time.Duration, report *routerpb.Report) {
		s.Put(Observation{Node: "n1", Hello: &routerpb.Hello{RouterId: router, Region: region}, Report: report, Received: pollNow.Add(-age)})
	}
	put("r1", "eu", 9*time.Second, &routerpb.Report{})
	put("r2", "eu", 2*time.Second, &routerpb.Report{})
	put("r3", "us", time.Minute, &routerpb.Report{})
	put("r4", "ap", 0, nil)
	got := s.Heard(pollNow)
	if len(got) != 2 || got["eu"] != 2*time.Second || got["us"] != time.Minute {
		t.Errorf("heard %v", got)
	}
}
