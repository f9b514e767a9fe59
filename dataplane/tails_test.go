package dataplane

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

func newTestTails(t testing.TB) *tails {
	t.Helper()
	x, err := newTails(time.Now, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// ids are the names of the records that a tail hands over.
func ids(t testing.TB, records [][]byte) string {
	t.Helper()
	var out []string
	for _, raw := range records {
		var r Record
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r.ID)
	}
	return strings.Join(out, " ")
}

func TestATailGetsWhatItsFilterWants(t *testing.T) {
	records := []*Record{
		{ID: "1", Tenant: "acme", Model: "llama", Asked: "best", Class: "interactive", Region: us, Status: 200, Attempts: []Tried{{Cluster: "us-a"}}},
		{ID: "2", Tenant: "globex", Model: "llama", Class: "bulk", Region: us, Status: 503},
		{ID: "3", Tenant: "acme", Model: "qwen", Adapter: "legal", Region: eu, Status: 200, Attempts: []Tried{{Cluster: "us-b"}, {Cluster: "us-a"}}},
		{ID: "4", Tenant: "acme", Region: us, Status: 429},
		{ID: "5", Tenant: "acme", Region: us, Status: 200, Broken: true, Attempts: []Tried{{Cluster: "us-b"}}},
		{ID: "6", Tenant: "acme", Region: us, Status: 499, ClientGone: true},
	}
	for name, c := range map[string]struct {
		filter *routerpb.DecisionFilter
		want   string
	}{
		"nothing said":       {nil, "1 2 3 4 5 6"},
		"a tenant":           {&routerpb.DecisionFilter{Tenants: []string{"globex"}}, "2"},
		"one of two tenants": {&routerpb.DecisionFilter{Tenants: []string{"globex", "acme"}}, "1 2 3 4 5 6"},
		"a base model":       {&routerpb.DecisionFilter{Models: []string{"llama"}}, "1 2"},
		"an alias":           {&routerpb.DecisionFilter{Models: []string{"best"}}, "1"},
		"an adapter":         {&routerpb.DecisionFilter{Models: []string{"legal"}}, "3"},
		"a cluster":          {&routerpb.DecisionFilter{Clusters: []string{"us-a"}}, "1 3"},
		"a region":           {&routerpb.DecisionFilter{Regions: []string{eu}}, "3"},
		"a class":            {&routerpb.DecisionFilter{Classes: []string{"bulk"}}, "2"},
		"attempts":           {&routerpb.DecisionFilter{MinAttempts: 2}, "3"},
		"answered":           {&routerpb.DecisionFilter{Outcomes: []string{"answered"}}, "1 3"},
		"errors":             {&routerpb.DecisionFilter{Outcomes: []string{"refused", "failed"}}, "2 4 5"},
		"gone":               {&routerpb.DecisionFilter{Outcomes: []string{"gone"}}, "6"},
		"all of several":     {&routerpb.DecisionFilter{Tenants: []string{"acme"}, Clusters: []string{"us-b"}, Outcomes: []string{"failed"}}, "5"},
		"nobody":             {&routerpb.DecisionFilter{Tenants: []string{"acm"}}, ""},
	} {
		x := newTestTails(t)
		tail := x.add(c.filter, 0)
		for _, r := range records {
			x.offer(r)
		}
		got, dropped := tail.Take()
		if ids(t, got) != c.want || dropped != 0 {
			t.Errorf("%s: %q and %d dropped, want %q", name, ids(t, got), dropped, c.want)
		}
	}
}

func TestATailKeepsToItsRateAndCountsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTestTails(t)
		tail := x.add(nil, 10)
		take := func() (int, uint64) {
			records, dropped := tail.Take()
			return len(records), dropped
		}
		for range 25 {
			x.offer(&Record{ID: "1"})
		}
		if told, dropped := take(); told != 10 || dropped != 15 {
			t.Errorf("at once: %d told, %d dropped", told, dropped)
		}
		time.Sleep(300 * time.Millisecond) //nolint:forbidigo // virtual time of synctest
		for range 25 {
			x.offer(&Record{ID: "1"})
		}
		if told, dropped := take(); told != 3 || dropped != 22 {
			t.Errorf("after 0.3 s: %d told, %d dropped", told, dropped)
		}
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time of synctest
		for range 25 {
			x.offer(&Record{ID: "1"})
		}
		if told, dropped := take(); told != 10 || dropped != 15 {
			t.Errorf("after an hour: %d told, %d dropped", told, dropped)
		}
	})
}

func TestATailThatNobodyTakesFromFillsUpAndDrops(t *testing.T) {
	x := newTestTails(t)
	tail := x.add(nil, tailRateMost)
	for range tailHeld + 5 {
		x.offer(&Record{ID: "1"})
	}
	if records, dropped := tail.Take(); len(records) != tailHeld || dropped != 5 {
		t.Errorf("%d records, %d dropped", len(records), dropped)
	}
}

func TestTailsAreBoundedAndLeaveNothingBehind(t *testing.T) {
	x := newTestTails(t)
	var all []*tail
	for range maxTails {
		all = append(all, x.add(nil, 0))
	}
	if x.add(nil, 0) != nil {
		t.Error("one too many was taken")
	}
	for i, tail := range all {
		tail.Stop()
		if got := len(x.all()); got != maxTails-i-1 {
			t.Fatalf("%d are left after %d have stopped", got, i+1)
		}
	}
	if x.list.Load() != nil {
		t.Error("requests still look at a list of none")
	}
	if x.add(nil, 0) == nil {
		t.Error("none is taken after all have stopped")
	}
}

func TestTailsComeAndGoWhileRequestsEnd(t *testing.T) {
	x := newTestTails(t)
	stop := make(chan struct{})
	var requests, others sync.WaitGroup
	for range 2 {
		requests.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					x.offer(&Record{ID: "1", Tenant: "acme"})
				}
			}
		})
	}
	for range 4 {
		others.Go(func() {
			for range 200 {
				tail := x.add(&routerpb.DecisionFilter{Tenants: []string{"acme"}}, tailRateMost)
				tail.Take()
				tail.Stop()
			}
		})
	}
	others.Wait()
	close(stop)
	requests.Wait()
	if len(x.all()) != 0 {
		t.Errorf("%d are left", len(x.all()))
	}
}

func TestARecordThatIsTooLongLosesMostOfItsClusters(t *testing.T) {
	long := &Record{ID: "1"}
	for i := range 4000 {
		id := fleet.ClusterID(fmt.Sprintf("%s-%d", strings.Repeat("c", 90), i))
		long.Candidates = append(long.Candidates, Candidate{Cluster: id, Reason: "rank"})
		long.Removed = append(long.Removed, Removal{Cluster: id, Reason: "model"})
	}
	var r Record
	if err := json.Unmarshal(encodeRecord(long), &r); err != nil || len(r.Candidates) != recordPlaces || len(r.Removed) != recordPlaces {
		t.Errorf("%v, %d candidates and %d removed", err, len(r.Candidates), len(r.Removed))
	}
	if len(long.Candidates) != 4000 {
		t.Error("the record itself was cut")
	}
	long.Code = strings.Repeat("x", recordBytes)
	if encodeRecord(long) != nil {
		t.Error("it is told although it is too long")
	}
}

func TestARouterExplainsAndTellsWhatItDecides(t *testing.T) {
	w, _ := one(t)
	n := w.routers[us]
	if e := n.Explain("r-us-east-1-0000000000000000"); e.GetRecord() != nil || e.GetOldestUnixMs() != 0 || e.GetRememberedMost() != explainKept {
		t.Errorf("of a router without requests: %v", e)
	}
	tail := n.Tail(&routerpb.DecisionFilter{Tenants: []string{"acme"}}, 0)
	began := time.Now()
	id := w.ask(us, "acme", askWhole).header.Get("x-anabranch-request-id")
	w.ask(us, "globex", askWhole)
	w.idle()
	records, dropped := tail.Take()
	tail.Stop()
	if ids(t, records) != id || dropped != 0 {
		t.Errorf("told of %q and %d dropped, want %q", ids(t, records), dropped, id)
	}
	e := n.Explain(id)
	if string(e.GetRecord()) != string(records[0]) || e.GetOldestUnixMs() < began.UnixMilli()-1 || e.GetOldestUnixMs() > time.Now().UnixMilli() {
		t.Errorf("explained as %s, oldest %d", e.GetRecord(), e.GetOldestUnixMs())
	}
	resp, err := http.Get(n.admin.URL + "/explain/" + id)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	page, err := io.ReadAll(resp.Body)
	var shown bytes.Buffer
	if err := errors.Join(err, json.Compact(&shown, page)); err != nil || shown.String() != string(e.GetRecord()) {
		t.Errorf("%v: the page says %s, the stream %s", err, &shown, e.GetRecord())
	}
	for _, secret := range []string{"acme-key", "hello"} {
		if strings.Contains(string(e.GetRecord()), secret) {
			t.Errorf("the record holds %q", secret)
		}
	}
}

func TestTheOldestRecordIsFoundWhenTheRingHasComeRound(t *testing.T) {
	e := &explanations{}
	if e.oldest() != nil {
		t.Error("there is one of nothing")
	}
	for i := range explainKept + 3 {
		e.add(&Record{ID: fmt.Sprint(i)})
		if want := fmt.Sprint(max(0, i+1-explainKept)); e.oldest().ID != want {
			t.Fatalf("after %d it is %s, want %s", i+1, e.oldest().ID, want)
		}
	}
}

// BenchmarkTails is what the end of a request pays for tails: none, or one that wants the record, or others.
func BenchmarkTails(b *testing.B) {
	record := &Record{ID: "1", Tenant: "acme", Model: "llama", Region: us, Status: 200, Attempts: []Tried{{Cluster: "us-a"}}}
	for _, c := range []struct {
		name   string
		tails  int
		filter *routerpb.DecisionFilter
	}{{"none", 0, nil}, {"one", 1, nil}, {"8-others", 8, &routerpb.DecisionFilter{Tenants: []string{"globex"}}}} {
		b.Run(c.name, func(b *testing.B) {
			x := newTestTails(b)
			for range c.tails {
				x.add(c.filter, 0)
			}
			b.ReportAllocs()
			for b.Loop() {
				x.offer(record)
			}
		})
	}
}
