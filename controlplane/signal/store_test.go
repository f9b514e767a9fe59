package signal

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/forward/nodepb"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// clock is a store under test and its time.
type clock struct {
	*Store
	now time.Time
}

func newClock() *clock {
	c := &clock{now: noon}
	c.Store = New(func() time.Time { return c.now })
	return c
}

func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

func (c *clock) look() Snapshot { return c.Snapshot(c.now) }

// report puts a report of one router of a region that has the region's name.
func (c *clock) report(region string, change func(*routerpb.Report)) {
	r := &routerpb.Report{AtUnixMs: c.now.UnixMilli(), WindowMs: 1000, QuotaStoreOk: true}
	if change != nil {
		change(r)
	}
	c.Put(Observation{
		Node: "n1", Hello: &routerpb.Hello{RouterId: "r-" + region, Region: region}, Report: r, Received: c.now, Connected: true,
	})
}

func TestFreshness(t *testing.T) {
	for age, want := range map[time.Duration]Freshness{
		-1: Absent, 0: Fresh, 5 * time.Second: Fresh, 5*time.Second + 1: Stale, 30 * time.Second: Stale, 30*time.Second + 1: Absent,
	} {
		if got := FreshnessOf(age); got != want {
			t.Errorf("%s old is %s, want %s", age, got, want)
		}
	}
}

func TestRoutersAreSortedAndAge(t *testing.T) {
	c := newClock()
	c.report("us", nil)
	c.pass(3 * time.Second)
	c.report("ap", nil)
	s := c.look()
	if len(s.Routers) != 2 || s.Routers[0].Router() != "r-ap" || s.Routers[1].Region() != "us" {
		t.Fatalf("got %+v", s.Routers)
	}
	if got := s.Routers[1].Age(s.At); got != 3*time.Second {
		t.Errorf("age is %s", got)
	}
	c.pass(3 * time.Second)
	if got := c.look().Routers[1].Freshness(c.now); got != Stale {
		t.Errorf("after six seconds it is %s", got)
	}
	c.pass(forget)
	if got := len(c.look().Routers); got != 0 {
		t.Errorf("%d routers are remembered for ever", got)
	}
}

func TestARouterThatOnlySaidHello(t *testing.T) {
	c := newClock()
	c.Put(Observation{Node: "n1", Hello: &routerpb.Hello{RouterId: "r1", Region: "us"}, Received: c.now, Connected: true})
	s := c.look()
	if o := s.Routers[0]; o.Age(s.At) != -1 || o.Freshness(s.At) != Absent || !o.Connected {
		t.Errorf("got %+v", o)
	}
	if got := s.Region("us"); got.Freshness != Absent {
		t.Errorf("its region is %s", got.Freshness)
	}
}

func TestAReconnectKeepsTheLastReport(t *testing.T) {
	c := newClock()
	c.report("us", func(r *routerpb.Report) { r.InFlight = 7 })
	c.Drop("n1", "r-us")
	if c.look().Routers[0].Connected {
		t.Error("still connected after the stream ended")
	}
	c.pass(2 * time.Second)
	c.Put(Observation{Node: "n2", Hello: &routerpb.Hello{RouterId: "r-us", Region: "us"}, Received: c.now, Connected: true})
	s := c.look()
	if o := s.Routers[0]; o.Report.GetInFlight() != 7 || o.Age(s.At) != 2*time.Second || o.Node != "n2" || !o.Connected {
		t.Errorf("got %+v", o)
	}
	c.Drop("n1", "r-us") // the old node notices late
	if !c.look().Routers[0].Connected {
		t.Error("a late notice of the old node disconnected the router")
	}
}

func TestARouterThatIsLongSilentIsNotConnected(t *testing.T) {
	c := newClock()
	c.Merge([]*nodepb.RouterObservation{{Hello: &routerpb.Hello{RouterId: "r", Region: "us"}, NodeId: "n2"}}, c.now)
	c.pass(StaleFor)
	if !c.look().Routers[0].Connected {
		t.Error("taken for gone while its last word is only stale")
	}
	c.pass(1) // the node that it was connected to has died, or has nothing more to say of it
	if c.look().Routers[0].Connected {
		t.Error("connected for ever")
	}
}

func TestAnAcknowledgementMakesNoReportNewer(t *testing.T) {
	c := newClock()
	c.report("us", nil)
	o := c.look().Routers[0]
	c.pass(4 * time.Second)
	o.Ack = &routerpb.Ack{Nonce: 3, Code: "weights_sum"}
	c.Put(o)
	s := c.look()
	if got := s.Routers[0]; got.Ack.GetCode() != "weights_sum" || got.Age(s.At) != 4*time.Second {
		t.Errorf("got %+v", got)
	}
}

func TestWithoutAName(t *testing.T) {
	c := newClock()
	c.Put(Observation{})
	c.Put(Observation{Hello: &routerpb.Hello{}})
	if got := len(c.look().Routers); got != 0 {
		t.Errorf("%d routers without a name", got)
	}
}

func TestNodesHandOnWhatTheyKnow(t *testing.T) {
	a, b := newClock(), newClock()
	a.report("us", func(r *routerpb.Report) { r.Requests = 5 })
	a.Put(Observation{Node: "n2", Hello: &routerpb.Hello{RouterId: "other", Region: "us"}, Received: a.now, Connected: true})
	a.pass(1500 * time.Millisecond)
	local := a.Local("n1")
	if len(local) != 1 || local[0].GetAgeMs() != 1500 || local[0].GetNodeId() != "n1" {
		t.Fatalf("n1 hands on %v", local)
	}
	b.Merge(local, b.now)
	s := b.look()
	if o := s.Routers[0]; o.Router() != "r-us" || o.Node != "n1" || o.Age(s.At) != 1500*time.Millisecond || !o.Connected {
		t.Errorf("n2 has %+v", o)
	}
	a.Drop("n1", "r-us")
	if got := a.Local("n1"); len(got) != 0 {
		t.Errorf("n1 hands on a router that has left: %v", got)
	}
}

func TestTheNewestReportWins(t *testing.T) {
	c := newClock()
	c.report("us", func(r *routerpb.Report) { r.Requests = 1 })
	old := c.Local("n1")
	c.pass(time.Second)
	c.report("us", func(r *routerpb.Report) { r.Requests = 2 })
	old[0].AgeMs = 1200
	c.Merge(old, c.now)
	if got := c.look().Routers[0].Report.GetRequests(); got != 2 {
		t.Errorf("an older report of %d requests won", got)
	}
}

func TestAReportHandedOnTwiceCountsOnce(t *testing.T) {
	c := newClock()
	c.report("us", func(r *routerpb.Report) {
		r.Requests = 10
		r.Demand = []*routerpb.DemandSignal{{Model: "m", Class: "interactive", RequestsPerS: 10}}
	})
	again := c.Local("n1")
	before := c.look()
	for range 5 {
		c.Merge(again, c.now.Add(3*time.Millisecond))
	}
	after := c.look()
	if a, b := before.Region("us").RequestsPerS, after.Region("us").RequestsPerS; a != b {
		t.Errorf("%v requests a second became %v", a, b)
	}
	if a, b := before.Demand("m", "interactive", "us"), after.Demand("m", "interactive", "us"); a != b {
		t.Errorf("demand %v became %v", a, b)
	}
}

func TestTheNumberOfRoutersIsBounded(t *testing.T) {
	c := newClock()
	for i := range maxRouters + 10 {
		c.Put(Observation{Node: "n1", Hello: &routerpb.Hello{RouterId: fmt.Sprintf("r%d", i), Region: "us"}, Received: c.now})
	}
	if got := len(c.look().Routers); got != maxRouters {
		t.Errorf("%d routers are kept", got)
	}
}

func TestSnapshotsDoNotChange(t *testing.T) {
	c := newClock()
	c.report("us", func(r *routerpb.Report) {
		r.Clusters = []*routerpb.ClusterSignal{{Cluster: "c", Model: "m", Requests: 3, Scraped: true, CapacityWork: 10}}
	})
	s := c.look()
	before := proto.CloneOf(s.Routers[0].Report)
	c.pass(time.Second)
	c.report("us", func(r *routerpb.Report) { r.InFlight = 99 })
	if len(s.Routers) != 1 || !proto.Equal(s.Routers[0].Report, before) || s.Capacity("c", "m") != 10 || len(s.Sights("c")) != 1 {
		t.Error("a later report changed an earlier snapshot")
	}
	sights := s.Sights("c")
	sights[0].Router = "x"
	if s.Sights("c")[0].Router == "x" {
		t.Error("a caller changed the snapshot")
	}
}

func TestConcurrentUse(t *testing.T) {
	s := New(nil)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			region := fmt.Sprintf("region%d", i)
			for j := range 200 {
				s.Put(Observation{
					Node: "n1", Hello: &routerpb.Hello{RouterId: "r-" + region, Region: region}, Received: time.Now(), Connected: true,
					Report: &routerpb.Report{AtUnixMs: int64(j), Clusters: []*routerpb.ClusterSignal{{Cluster: "c", Model: "m", Requests: 1}}},
				})
				snap := s.Snapshot(time.Now())
				_ = snap.Cluster("c", "m") // readers race with writers under -race
				s.Merge(s.Local("n1"), time.Now())
				s.Drop("n1", fleet.RouterID("r-"+region))
			}
		})
	}
	wg.Wait()
	if got := len(s.Snapshot(time.Now()).Routers); got != 4 {
		t.Errorf("%d routers", got)
	}
}

func TestConnectedCountsTheRoutersOfAllNodes(t *testing.T) {
	c := newClock()
	put := func(node fleet.NodeID, router string) {
		c.Put(Observation{Node: node, Hello: &routerpb.Hello{RouterId: router, Region: "us"}, Received: c.now, Connected: true})
	}
	put("n1", "a")
	put("n2", "b")
	put("n2", "c")
	if got := c.Connected(c.now); got != 3 {
		t.Errorf("%d, want 3", got)
	}
	c.Drop("n2", "c")
	if got := c.Connected(c.now); got != 2 {
		t.Errorf("after one has left %d, want 2", got)
	}
	c.pass(StaleFor + time.Second)
	put("n1", "a")
	if got := c.Connected(c.now); got != 1 {
		t.Errorf("%d while one has been silent for long, want 1", got)
	}
}
