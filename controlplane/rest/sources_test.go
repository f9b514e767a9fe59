package rest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/signal"
)

// polledSource is one that answered at the epoch.
func polledSource(cluster, endpoint, region string, active bool) signal.Source {
	return signal.Source{
		Cluster: fleet.ClusterID(cluster), Endpoint: fleet.EndpointID(endpoint), Region: fleet.RegionID(region), Active: active,
		Kind: "pool", URL: "http://gw:9090/metrics", Why: "no router of " + region + " reports",
		Interval: 2 * time.Second, Timeout: time.Second, Polled: epoch, Got: epoch, Took: 2500 * time.Microsecond,
		Polls: 9, Failed: 2, Scraped: true, Total: 4, Ready: 3, Waiting: 7, Saturation: 0.5,
	}
}

func TestSourcesAndHowTheyAre(t *testing.T) {
	d := peopled(t)
	d.signals.PutSources("n1", []signal.Source{
		polledSource("eu-a", "", "eu", true), polledSource("us-b", "e2", "us", false), polledSource("us-b", "e1", "us", false),
	}, epoch)
	failing := polledSource("eu-a", "", "eu", true)
	failing.Got, failing.Failures, failing.Error = time.Time{}, 3, "connection refused"
	d.signals.PutSources("n2", []signal.Source{failing}, epoch)
	d.advance(time.Second)
	var page List[Source]
	a := d.do("viewer", "GET", "/v1/sources", "").want(200, "")
	a.into(&page)
	if len(page.Items) != 4 || page.NextCursor != "" || a.header.Get("X-Staleness-Ms") != "250" {
		t.Fatalf("got %+v", page)
	}
	want := Source{
		Cluster: "eu-a", Region: "eu", Node: "n1", Kind: "pool", URL: "http://gw:9090/metrics", Polled: true, Why: "no router of eu reports",
		IntervalMs: 2000, TimeoutMs: 1000, AgeMs: 1000, AskedMs: 1000, Freshness: "fresh", TookMs: 2.5, Polls: 9, Failed: 2,
	}
	if page.Items[0] != want {
		t.Errorf("got %+v\nwant %+v", page.Items[0], want)
	}
	if got := page.Items[1]; got.Node != "n2" || got.AgeMs != -1 || got.Freshness != "absent" || got.Failures != 3 || got.Error != "connection refused" {
		t.Errorf("what fails: %+v", got)
	}
	for query, names := range map[string][]string{
		"?region=us":              {"us-b e1 n1", "us-b e2 n1"},
		"?cluster=eu-a":           {"eu-a  n1", "eu-a  n2"},
		"?polled=false&region=us": {"us-b e1 n1", "us-b e2 n1"},
		"?polled=true":            {"eu-a  n1", "eu-a  n2"},
		"?cluster=none":           nil,
	} {
		var got []string
		d.do("viewer", "GET", "/v1/sources"+query, "").want(200, "").into(&page)
		for _, s := range page.Items {
			got = append(got, s.name())
		}
		if !slices.Equal(got, names) {
			t.Errorf("%s: %q, want %q", query, got, names)
		}
	}
	for _, query := range []string{"?region=%20", "?cluster=A%2FB", "?polled=perhaps", "?limit=0", "?cursor=x", "?node=n1"} {
		d.do("viewer", "GET", "/v1/sources"+query, "").want(400, "invalid_request")
	}
	d.failing(fmt.Errorf("no leader"))
	d.do("viewer", "GET", "/v1/sources", "").want(200, "") // it is local by nature
	d.do("", "GET", "/v1/sources", "").want(401, "unauthenticated")
}

func TestSourcesComeInPages(t *testing.T) {
	d := newDouble(t)
	var sources []signal.Source
	for i := range 7 {
		sources = append(sources, polledSource([]string{"a", "a-b", "a.c"}[i%3], fmt.Sprint("e", i), "eu", true))
	}
	d.signals.PutSources("n1", sources, epoch)
	var got []string
	next := ""
	for range 4 {
		var page List[Source]
		d.do("viewer", "GET", "/v1/sources?limit=2&cursor="+next, "").want(200, "").into(&page)
		for _, s := range page.Items {
			got = append(got, s.name())
		}
		next = page.NextCursor
	}
	if len(got) != 7 || next != "" || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != 7 {
		t.Errorf("pages %q, and then %q", got, next)
	}
}

// A cluster's status says whose word its signals are, and shows the sources.
func TestTheStatusOfAClusterThatIsPolled(t *testing.T) {
	d := peopled(t)
	d.signals.PutSources("n1", []signal.Source{polledSource("c-eu", "", "eu", true), polledSource("c-us", "e1", "us", false)}, epoch)
	signals := func(cluster string) ClusterSignals {
		var c struct {
			Status ClusterStatus `json:"status"`
		}
		d.do("viewer", "GET", "/v1/clusters/"+cluster, "").want(200, "").into(&c)
		return c.Status.Signals
	}
	if s := signals("c-us"); s.From != "routers" || len(s.Sources) != 0 {
		t.Errorf("where a router reports: %+v", s)
	}
	if s := signals("c-eu"); s.From != "polls" || s.Freshness != "fresh" || s.Endpoints != (Endpoints{4, 3}) || s.Waiting != 7 || len(s.Sources) != 1 || s.Sources[0].Node != "n1" {
		t.Errorf("where none does: %+v", s)
	}
	var f Fleet
	d.do("viewer", "GET", "/v1/fleet", "").want(200, "").into(&f)
	for _, c := range f.Clusters {
		if c.Name == "c-eu" && (c.From != "polls" || len(c.Sources) != 1) {
			t.Errorf("in the fleet: %+v", c)
		}
	}
}
