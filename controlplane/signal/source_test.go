package signal

import (
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// The fresher one speaks, and of equally fresh ones the routers, which are nearer.
func TestWhoSpeaksForACluster(t *testing.T) {
	for _, tt := range []struct {
		poll, routers Freshness
		want          bool
	}{
		{Fresh, Fresh, false},
		{Fresh, Stale, true},
		{Fresh, Absent, true},
		{Stale, Fresh, false},
		{Stale, Stale, false},
		{Stale, Absent, true},
		{Absent, Fresh, false},
		{Absent, Stale, false},
		{Absent, Absent, false},
	} {
		if got := Outranks(tt.poll, tt.routers); got != tt.want {
			t.Errorf("a %s poll outranks %s routers: %v, want %v", tt.poll, tt.routers, got, tt.want)
		}
	}
}

var pollNow = time.Unix(1_000_000, 0)

// source is one that answered so long ago, is polled every two seconds, and is half full.
func source(endpoint string, ago time.Duration) Source {
	at := pollNow.Add(-ago)
	return Source{
		Cluster: "eu-a", Region: "eu", Endpoint: fleet.EndpointID(endpoint), Active: true, Interval: 2 * time.Second,
		Polled: at, Got: at, Scraped: true, Total: 1, Ready: 1, Waiting: 3, Running: 8, KVUsage: 0.5, Saturation: 0.6,
	}
}

// failing is one that answered so long ago, and has failed since.
func failing(endpoint string, ago time.Duration, failures int) Source {
	s := source(endpoint, ago)
	s.Polled, s.Failures, s.Error = pollNow, failures, "refused"
	return s
}

func (s Source) with(change func(*Source)) Source {
	change(&s)
	return s
}

func TestWhatANodeFoundOfACluster(t *testing.T) {
	for _, tt := range []struct {
		name    string
		sources []Source
		want    Poll // without node and region; the zero Poll: nothing is said
	}{
		{
			"a gateway",
			[]Source{source("", time.Second).with(func(s *Source) { s.Total, s.Ready = 4, 3 })},
			Poll{Age: time.Second, Freshness: Fresh, Scraped: true, Total: 4, Ready: 3, Waiting: 3, Running: 8, KVUsage: 0.5, Saturation: 0.6},
		},
		{
			"endpoints are summed, shares averaged",
			[]Source{source("a", time.Second), source("b", 3*time.Second).with(func(s *Source) { s.KVUsage, s.Saturation = 0.1, 0 })},
			Poll{Age: time.Second, Freshness: Fresh, Scraped: true, Total: 2, Ready: 2, Waiting: 6, Running: 16, KVUsage: 0.3, Saturation: 0.3},
		},
		{
			"one of two that does not answer is not ready",
			[]Source{source("a", time.Second), failing("b", time.Minute, 3)},
			Poll{Age: time.Second, Freshness: Fresh, Scraped: true, Total: 2, Ready: 1, Waiting: 3, Running: 8, KVUsage: 0.5, Saturation: 0.6},
		},
		{
			"one that failed twice still counts by what it said",
			[]Source{failing("", 4*time.Second, 2)},
			Poll{Age: 4 * time.Second, Overdue: 2 * time.Second, Freshness: Fresh, Scraped: true, Total: 1, Ready: 1, Waiting: 3, Running: 8, KVUsage: 0.5, Saturation: 0.6},
		},
		{
			"failed three times: silent, though it answered lately",
			[]Source{failing("", 4*time.Second, 3)},
			Poll{Silent: true, Reason: "refused", Age: -1, Freshness: Fresh},
		},
		{
			"all of several are silent",
			[]Source{failing("a", time.Minute, 9), failing("b", time.Minute, 3)},
			Poll{Silent: true, Reason: "refused", Age: -1, Freshness: Fresh},
		},
		{
			"silent, but not asked for long: nothing is known",
			[]Source{failing("", time.Minute, 9).with(func(s *Source) { s.Polled = pollNow.Add(-time.Minute) })},
			Poll{},
		},
		{
			"one silent and one not asked yet: nothing is known",
			[]Source{failing("a", time.Minute, 9), {Active: true, Interval: time.Second}},
			Poll{},
		},
		{
			"what is polled each minute is fresh within it",
			[]Source{source("", 50*time.Second).with(func(s *Source) { s.Interval = time.Minute })},
			Poll{Age: 50 * time.Second, Freshness: Fresh, Scraped: true, Total: 1, Ready: 1, Waiting: 3, Running: 8, KVUsage: 0.5, Saturation: 0.6},
		},
		{
			"and stale soon after",
			[]Source{source("", 70*time.Second).with(func(s *Source) { s.Interval = time.Minute })},
			Poll{Age: 70 * time.Second, Overdue: 10 * time.Second, Freshness: Stale, Scraped: true, Total: 1, Ready: 1, Waiting: 3, Running: 8, KVUsage: 0.5, Saturation: 0.6},
		},
		{"too old", []Source{source("", time.Minute)}, Poll{}},
		{"not polled any more", []Source{source("", time.Second).with(func(s *Source) { s.Active = false })}, Poll{}},
		{"never asked", []Source{{Active: true, Interval: time.Second}}, Poll{}},
		{
			"it answers, which is all that is known",
			[]Source{{Active: true, Interval: time.Second, Polled: pollNow, Got: pollNow, Total: 1, Ready: 1}},
			Poll{Freshness: Fresh, Total: 1, Ready: 1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := pollOf(tt.sources, pollNow)
			got.Region = ""
			if ok != (tt.want != Poll{}) || got != tt.want {
				t.Errorf("got %+v, %v\nwant %+v", got, ok, tt.want)
			}
		})
	}
}

// homeRouter reports the cluster as scraped so long ago, in a report that old.
func homeRouter(s *Store, report, scrape time.Duration) {
	s.Put(Observation{
		Node: "n1", Hello: &routerpb.Hello{RouterId: "r", Region: "eu"}, Received: pollNow.Add(-report),
		Report: &routerpb.Report{AtUnixMs: 1, WindowMs: 1000, Clusters: []*routerpb.ClusterSignal{{
			Cluster: "eu-a", Model: "m", Scraped: true, AgeMs: scrape.Milliseconds(),
			EndpointsTotal: 9, EndpointsReady: 9, Waiting: 70, Saturation: 0.9, CapacityWork: 1234,
		}}},
	})
}

// Both ways meet in the load of a cluster.
func TestTheLoadOfAClusterIsByWhomOutranks(t *testing.T) {
	for _, tt := range []struct {
		name           string
		report, scrape time.Duration // of the router; report < 0: there is none
		polled         time.Duration // < 0: it is not
		want           Load
	}{
		{"nobody", -1, 0, -1, Load{Freshness: Absent, Age: -1}},
		{"a router alone", time.Second, 0, -1, Load{By: ByRouters, Freshness: Fresh, Age: time.Second, Ready: 9}},
		{"a poll alone", -1, 0, time.Second, Load{By: ByPolls, Freshness: Fresh, Age: time.Second, Ready: 1}},
		{"both fresh: the router", time.Second, 3 * time.Second, 0, Load{By: ByRouters, Freshness: Fresh, Age: 4 * time.Second, Ready: 9}},
		{"the router's is stale: the poll", 8 * time.Second, 0, time.Second, Load{By: ByPolls, Freshness: Fresh, Age: time.Second, Ready: 1}},
		{"the router can't scrape it any more", time.Second, 20 * time.Second, time.Second, Load{By: ByPolls, Freshness: Fresh, Age: time.Second, Ready: 1}},
		{"both stale: the router", 8 * time.Second, 0, 9 * time.Second, Load{By: ByRouters, Freshness: Stale, Age: 8 * time.Second, Ready: 9}},
		{"the router is long gone, the poll stale", 40 * time.Second, 0, 9 * time.Second, Load{By: ByPolls, Freshness: Stale, Age: 9 * time.Second, Ready: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := New(func() time.Time { return pollNow })
			if tt.report >= 0 {
				homeRouter(s, tt.report, tt.scrape)
			}
			if tt.polled >= 0 {
				s.PutSources("n1", []Source{source("", tt.polled)}, pollNow)
			}
			got := s.Snapshot(pollNow).Cluster("eu-a", "m")
			if got.By != tt.want.By || got.Freshness != tt.want.Freshness || got.Age != tt.want.Age || got.Ready != tt.want.Ready {
				t.Errorf("by %q, %s, %s old, %d ready; want %+v", got.By, got.Freshness, got.Age, got.Ready, tt.want)
			}
			if tt.report >= 0 && got.CapacityWork != 1234 {
				t.Errorf("capacity %v, and a router has measured it", got.CapacityWork)
			}
		})
	}
}
