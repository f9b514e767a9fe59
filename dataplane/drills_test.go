package dataplane

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/drill"
	"anabranch/dataplane/override"
)

// drilling gives a table a drill of clusters by which all that is shifted goes to one place; empty: to where the table
// has it go.
func drilling(kind, to string, clusters ...string) func(*routerpb.Table) {
	return func(pb *routerpb.Table) {
		d := &routerpb.Drill{Id: 12, Kind: kind, Clusters: clusters, BaseSha256: bytes.Repeat([]byte{1}, 32), Models: []string{"llama"}, Protected: []string{"globex"}}
		for _, w := range pb.Weights {
			if to == "" {
				break
			}
			list := &routerpb.Weights{Model: w.Model, Class: w.Class, Source: w.Source}
			for _, c := range w.Clusters {
				share := 0.0
				if c.Cluster == to {
					share = 1
				}
				list.Clusters = append(list.Clusters, &routerpb.ClusterWeight{Cluster: c.Cluster, Weight: share})
			}
			d.Weights = append(d.Weights, list)
		}
		pb.Drill = d
	}
}

// lease lets all routers obey the drill from now on for so long.
func (w *world) lease(sequence uint64, ttl time.Duration, change func(*routerpb.DrillLease)) {
	for _, n := range w.routers {
		m := &routerpb.DrillLease{
			Id: 12, Epoch: 1, Sequence: sequence, BaseSha256: bytes.Repeat([]byte{1}, 32), TtlMs: uint32(ttl.Milliseconds()),
			NotAfterUnixMs: time.Now().Add(time.Hour).UnixMilli(), ShiftedPpm: drill.Whole,
		}
		if change != nil {
			change(m)
		}
		n.TakeDrill(m, time.Now())
	}
}

func dead(m *routerpb.DrillLease) { m.Dead = true }

func twoSites(t *testing.T) []site {
	return []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}}, {id: "us-b", region: us, endpoints: []*stub{newStub(t, answers)}},
	}
}

func servedBy(t *testing.T, r got, cluster string) {
	t.Helper()
	if r.status != http.StatusOK || r.err != nil || r.header.Get("X-Anabranch-Cluster") != cluster {
		t.Errorf("%d by %q, %v; want it from %s", r.status, r.header.Get("X-Anabranch-Cluster"), r.err, cluster)
	}
}

func TestADrillDoesNothingWithoutALease(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*routerpb.DrillLease)
		want   string
	}{
		"of the drill":           {func(*routerpb.DrillLease) {}, "us-b"},
		"of none of its traffic": {func(m *routerpb.DrillLease) { m.ShiftedPpm = 0 }, "us-a"},
		"to be counted only":     {func(m *routerpb.DrillLease) { m.WatchOnly = true }, "us-a"},
		"of another drill":       {func(m *routerpb.DrillLease) { m.Id = 13 }, "us-a"},
		"of another table":       {func(m *routerpb.DrillLease) { m.BaseSha256 = bytes.Repeat([]byte{2}, 32) }, "us-a"},
		"that is over":           {func(m *routerpb.DrillLease) { m.TtlMs = 0 }, "us-a"},
		"from before its end":    {func(m *routerpb.DrillLease) { m.NotAfterUnixMs = 1 }, "us-a"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, twoSites(t), drilling("soft", "us-b", "us-a"))
			servedBy(t, w.ask(us, "acme", askWhole), "us-a")
			w.lease(1, 30*time.Second, c.change)
			servedBy(t, w.ask(us, "acme", askStream), c.want)
			if c.want != "us-b" {
				return
			}
			w.lease(2, 0, nil)
			servedBy(t, w.ask(us, "acme", askStream), "us-a")
			if rec := w.record(us, w.ask(us, "acme", askWhole)); rec.Drill != "drill 12: outside" {
				t.Errorf("says %q", rec.Drill)
			}
		})
	}
}

// The lease runs out: the next request goes by the table, though nothing was heard and nobody looked.
func TestALeaseThatRunsOutTakesNoMessage(t *testing.T) {
	w := newWorld(t, twoSites(t), drilling("soft", "us-b", "us-a"))
	w.lease(1, time.Minute, nil) // no lease is longer than 30 s
	n := w.routers[us]
	servedBy(t, w.ask(us, "acme", askWhole), "us-b")
	n.clock(t, func() time.Time { return time.Now().Add(30 * time.Second) })
	servedBy(t, w.ask(us, "acme", askWhole), "us-a")
	s := n.Report(n.now()).GetDrill()
	if s.GetSequence() != 0 || !s.GetReverted() || s.GetShiftedPpm() != 0 || s.GetScoped() != 2 || s.GetShifted() != 1 {
		t.Errorf("tells %v", s)
	}
}

// Places that a drill has dead are found dead by the real ejector, apart from all other requests, and are alive again
// when the lease ends.
func TestDeadPlacesAreFoundOut(t *testing.T) {
	sites := twoSites(t)
	w := newWorld(t, sites, func(pb *routerpb.Table) {
		drilling("hard", "", "us-a")(pb)
		pb.Drill.Tenants = []string{"acme"}
	})
	w.lease(1, 30*time.Second, dead)
	n := w.routers[us]
	before := sites[0].endpoints[0].requests.Load()
	for i := range 3 {
		r := w.ask(us, "acme", askWhole)
		servedBy(t, r, "us-b")
		rec := w.record(us, r)
		if len(rec.Attempts) != 2 || rec.Attempts[0].Code != "connect_failed" || rec.Attempts[1].Kind != "exempt" || rec.Drill != "drill 12: shifted, 1 attempts refused" {
			t.Errorf("request %d: %q, attempts %+v", i, rec.Drill, rec.Attempts)
		}
	}
	r := w.ask(us, "acme", askWhole)
	servedBy(t, r, "us-b")
	if rec := w.record(us, r); len(rec.Attempts) != 1 || len(rec.Removed) != 1 || rec.Removed[0].Reason != "ejected: drill: 3 connect failures in a row" {
		t.Errorf("after three: %+v, removed %+v", rec.Attempts, rec.Removed)
	}
	if got := sites[0].endpoints[0].requests.Load(); got != before {
		t.Errorf("%d requests were sent there", got-before)
	}
	// Others are served there, and nothing real is said of it.
	servedBy(t, w.ask(us, "globex", askWhole), "us-a")
	report := n.Report(time.Now())
	for _, c := range report.GetClusters() {
		if c.GetEjected() || (c.GetCluster() == "us-a") != strings.HasPrefix(c.GetEjectReason(), "drill: ") || c.GetFailures() != 0 {
			t.Errorf("reports %v", c)
		}
	}
	if s := report.GetDrill(); s.GetEjectedUnixMs() == 0 || s.GetScoped() != 4 || s.GetAway() != 4 || s.GetShifted() != 4 || s.GetProtectedRequests() != 1 || tierOf(s, "top").GetRetried() != 3 {
		t.Errorf("tells %v", s)
	}
	// The end clears what was rehearsed, and a real ejection stays.
	b := n.places.Cluster("us-b")
	w.lease(2, 0, nil)
	servedBy(t, w.ask(us, "acme", askWhole), "us-a")
	if out, _ := b.Ejected(); out || n.Report(time.Now()).GetClusters()[0].GetEjectReason() != "" {
		t.Error("an ejection is left")
	}
}

func tierOf(s *routerpb.DrillSignal, tier string) *routerpb.TierSignal {
	for _, x := range s.GetTiers() {
		if x.GetTier() == tier {
			return x
		}
	}
	return nil
}

// One request is enough: canaries find out the rest, within a second.
func TestCanariesFindOutDeadPlaces(t *testing.T) {
	w := newWorld(t, twoSites(t), drilling("hard", "", "us-a"))
	n := w.routers[us]
	w.lease(1, 30*time.Second, dead)
	servedBy(t, w.ask(us, "acme", askWhole), "us-b")
	began := time.Now()
	for i := range 3 {
		n.stepDrills(began.Add(time.Duration(i) * 100 * time.Millisecond))
	}
	s := n.Report(began).GetDrill()
	if at := int64(s.GetEjectedUnixMs()) - began.UnixMilli(); at < 0 || at > 300 {
		t.Errorf("ejected after %d ms, %v", at, s)
	}
	// The place itself is well.
	if out, _ := n.places.Cluster("us-a").Ejected(); out {
		t.Error("it is ejected")
	}
	n.clock(t, func() time.Time { return began.Add(time.Minute) })
	n.stepDrills(n.now())
	if n.drills.now.Load().dead.Load() != nil {
		t.Error("what was rehearsed is kept")
	}
}

// Nobody is turned away for a rehearsal.
func TestWhoHasNoOtherPlaceIsServedAsWithoutTheDrill(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*routerpb.Table)
		lease  func(*routerpb.DrillLease)
		words  string
	}{
		"its weights leave none": {drilling("soft", "us-b", "us-a"), nil, "drill 12: shifted, lifted as no place was left"},
		"all are dead":           {drilling("hard", "", "us-a"), dead, "drill 12: shifted, 1 attempts refused, lifted as no place was left"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, twoSites(t), func(pb *routerpb.Table) {
				c.change(pb)
				pb.Clusters[1].Drained = true
			})
			w.lease(1, 30*time.Second, c.lease)
			r := w.ask(us, "acme", askStream)
			servedBy(t, r, "us-a")
			if rec := w.record(us, r); rec.Drill != c.words {
				t.Errorf("says %q", rec.Drill)
			}
			if s := w.routers[us].Report(time.Now()).GetDrill(); s.GetScoped() != 1 || s.GetAway() != 0 || s.GetShifted() != 0 || tierOf(s, "top").GetLost() != 0 {
				t.Errorf("tells %v", s)
			}
		})
	}
}

// Residency holds whatever a drill says.
func TestADrillWidensNothing(t *testing.T) {
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}}, {id: "eu-a", region: eu, weight: 1, endpoints: []*stub{newStub(t, answers)}},
	}, drilling("soft", "us-a", "eu-a"))
	w.lease(1, 30*time.Second, nil)
	servedBy(t, w.ask(us, "acme", askWhole), "us-a")
	servedBy(t, w.ask(us, "initech", askWhole), "eu-a") // which may be served in eu only
	servedBy(t, w.ask(eu, "initech", askWhole), "eu-a")
}

// What is shifted abroad is shifted there too, by what the first router says, and what is not isn't.
func TestAPeerGoesByTheRouterThatAsks(t *testing.T) {
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}},
		{id: "eu-a", region: eu, endpoints: []*stub{newStub(t, answers)}},
		{id: "eu-b", region: eu, endpoints: []*stub{newStub(t, says(503))}},
	}, drilling("soft", "eu-b", "us-a", "eu-a"))
	// A peer with a lease that shifts all serves what comes unshifted for a drilled cluster.
	m := &routerpb.DrillLease{Id: 12, Epoch: 1, Sequence: 1, BaseSha256: bytes.Repeat([]byte{1}, 32), TtlMs: 30_000, NotAfterUnixMs: time.Now().Add(time.Hour).UnixMilli(), ShiftedPpm: drill.Whole}
	w.routers[eu].TakeDrill(m, time.Now())
	w.table.Weights[0].Clusters, w.table.Weights[1].Clusters = []*routerpb.ClusterWeight{{Cluster: "us-a"}, {Cluster: "eu-a", Weight: 1}, {Cluster: "eu-b"}}, []*routerpb.ClusterWeight{{Cluster: "us-a"}, {Cluster: "eu-a", Weight: 1}, {Cluster: "eu-b"}}
	w.apply()
	servedBy(t, w.ask(us, "acme", askWhole), "eu-a")
	// Of what is shifted it makes no use of the drilled one, though its own is broken: it says so, and the first router
	// has the last word.
	w.routers[us].TakeDrill(m, time.Now())
	r := w.ask(us, "acme", askWhole)
	if rec := w.record(us, r); len(rec.Attempts) < 2 || rec.Attempts[0].Cluster != "eu-b" || rec.Attempts[0].Code == "" || !strings.Contains(rec.Drill, "lifted") {
		t.Errorf("attempts %+v, %q", rec.Attempts, rec.Drill)
	}
	servedBy(t, r, "eu-a")
}

// Streams that run where a drill begins go on.
func TestRunningStreamsAreLeftAlone(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	sites := twoSites(t)
	sites[0].endpoints[0].does(func(rw http.ResponseWriter, _ *http.Request) {
		send(rw, role, content)
		close(began)
		<-goOn
		send(rw, content, finish, counted, done)
	})
	w := newWorld(t, sites, drilling("hard", "", "us-a"))
	answer := make(chan got, 1)
	go func() { answer <- w.ask(us, "acme", askStream) }()
	<-began
	w.lease(1, 30*time.Second, dead)
	for range 4 {
		servedBy(t, w.ask(us, "acme", askWhole), "us-b")
	}
	s := w.routers[us].Report(time.Now()).GetDrill()
	if s.GetStreamsLeft() != 1 || s.GetStreams() != 1 {
		t.Errorf("%d of %d streams are left", s.GetStreamsLeft(), s.GetStreams())
	}
	close(goOn)
	if r := <-answer; r.err != nil || !strings.HasSuffix(r.body, done) {
		t.Errorf("the stream ended with %q, %v", r.body, r.err)
	}
}

// The loss of the quota store is rehearsed by the policies for its absence, and the store is not called away by it.
func TestARehearsedLossOfTheQuotaStore(t *testing.T) {
	w := newWorld(t, twoSites(t), drilling("quota-store", ""))
	n := w.routers[us]
	if n.quotaStoreLost() {
		t.Error("it is lost without a lease")
	}
	w.lease(1, 30*time.Second, func(m *routerpb.DrillLease) { m.QuotaStoreLost, m.ShiftedPpm = true, 0 })
	if !n.quotaStoreLost() {
		t.Error("it is not lost")
	}
	servedBy(t, w.ask(us, "globex", askWhole), "us-a")
	if !n.Report(time.Now()).GetQuotaStoreOk() {
		t.Error("it is reported away")
	}
	w.lease(2, 0, nil)
	if n.quotaStoreLost() {
		t.Error("it is lost for good")
	}
}

// A failback brings traffic to what an operator has drained, and takes it away again.
func TestAFailbackUsesWhatIsDrained(t *testing.T) {
	sites := twoSites(t)
	sites[1].drained = true
	w := newWorld(t, sites, func(pb *routerpb.Table) {
		drilling("failback-only", "us-b", "us-b")(pb)
		pb.Clusters[1].Health, pb.Clusters[1].HealthCap = "DRAINED", 0
	})
	servedBy(t, w.ask(us, "acme", askWhole), "us-a")
	w.lease(1, 30*time.Second, nil)
	servedBy(t, w.ask(us, "acme", askWhole), "us-b")
	w.table.Clusters[1].Health = "EVACUATED" // it is not for a drill to say that it is well
	w.apply()
	servedBy(t, w.ask(us, "acme", askWhole), "us-a")
}

func TestStatusTellsOfTheLease(t *testing.T) {
	w := newWorld(t, twoSites(t), drilling("soft", "us-b", "us-a"))
	w.lease(7, 30*time.Second, func(m *routerpb.DrillLease) { m.ShiftedPpm = 500_000 })
	res, err := http.Get(w.routers[us].admin.URL + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var s Status
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	if d := s.Drill; d == nil || d.ID != 12 || d.Kind != "soft" || fmt.Sprint(d.Clusters) != "[us-a]" || d.Sequence != 7 || d.RemainingS <= 20 || d.RemainingS > 30 || d.Shifted != 0.5 {
		t.Errorf("tells %+v", d)
	}
	w.table.Drill = nil
	w.apply()
	if n := w.routers[us]; n.status().Drill != nil || n.Report(time.Now()).GetDrill() != nil {
		t.Error("tells of a drill that is gone")
	}
}

// An order that stops drills beats every lease, and what it leaves of one goes on when the order ends.
func TestAnOrderStopsDrills(t *testing.T) {
	w := newWorld(t, twoSites(t), drilling("soft", "us-b", "us-a"))
	w.lease(1, 30*time.Second, func(m *routerpb.DrillLease) { m.QuotaStoreLost = true })
	n := w.routers[us]
	servedBy(t, w.ask(us, "acme", askWhole), "us-b")
	w.ordered(override.Order{Kind: override.StopDrills})
	servedBy(t, w.ask(us, "acme", askWhole), "us-a")
	if s := n.Report(time.Now()).GetDrill(); s.GetSequence() != 0 || n.status().Drill.Sequence != 0 || n.quotaStoreLost() {
		t.Errorf("tells %v", s)
	}
	w.orders.Store(nil)
	servedBy(t, w.ask(us, "acme", askWhole), "us-b")
}
