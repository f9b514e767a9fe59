package subscribe

import (
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// requests are a router's that answers as a test says.
type requests struct {
	mu    sync.Mutex // guards what is below
	full  bool
	tails []*tailDouble
}

type tailDouble struct {
	filter  *routerpb.DecisionFilter
	rate    uint32
	mu      sync.Mutex // guards what is below
	records [][]byte
	dropped uint64
	stopped int
}

func (r *requests) Explain(id string) *routerpb.Explained {
	return &routerpb.Explained{Record: []byte(`{"id":"` + id + `"}`), OldestUnixMs: 7, RememberedMost: 4096}
}

func (r *requests) Inspect(cluster fleet.ClusterID, most uint32) *routerpb.Inspected {
	return &routerpb.Inspected{Known: true, Kind: string(cluster), Left: most}
}

func (r *requests) Tail(filter *routerpb.DecisionFilter, perSecond uint32) Tail {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full {
		return nil
	}
	t := &tailDouble{filter: filter, rate: perSecond}
	r.tails = append(r.tails, t)
	return t
}

func (t *tailDouble) Take() ([][]byte, uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	records, dropped := t.records, t.dropped
	t.records, t.dropped = nil, 0
	return records, dropped
}

func (t *tailDouble) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped++
}

func (t *tailDouble) put(dropped uint64, records ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range records {
		t.records = append(t.records, []byte(r))
	}
	t.dropped += dropped
}

func (t *tailDouble) hasStopped() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stopped
}

func startTail(number uint64, lease time.Duration) *routerpb.Tail {
	return &routerpb.Tail{
		Number: number, Filter: &routerpb.DecisionFilter{Tenants: []string{"acme"}}, RatePerS: 9, LeaseMs: uint32(lease.Milliseconds()),
	}
}

func TestATailEndsWhenItsLeaseIsOver(t *testing.T) {
	start := time.Unix(1000, 0)
	r := &requests{}
	q := inquiries{to: r}
	if got := q.follow(startTail(1, 5*time.Second), start); got.GetDecisions().GetRefused() || got.GetDecisions().GetNumber() != 1 {
		t.Errorf("begun as %v", got)
	}
	tail := r.tails[0]
	if tail.rate != 9 || !slices.Equal(tail.filter.GetTenants(), []string{"acme"}) || q.due() == nil {
		t.Errorf("asked for %+v", tail)
	}
	if got := q.tell(start.Add(time.Second)); got != nil {
		t.Errorf("told %v of nothing", got)
	}
	tail.put(3, `{"id":"1"}`)
	got := q.tell(start.Add(2 * time.Second))
	if len(got) != 1 || got[0].GetDecisions().GetNumber() != 1 || got[0].GetDecisions().GetDropped() != 3 || string(got[0].GetDecisions().GetRecords()[0]) != `{"id":"1"}` {
		t.Errorf("told %v", got)
	}
	if got := q.follow(startTail(1, 5*time.Second), start.Add(4*time.Second)); got != nil || len(r.tails) != 1 {
		t.Errorf("renewed as %v, %d tails", got, len(r.tails))
	}
	if q.tell(start.Add(8 * time.Second)); tail.hasStopped() != 0 {
		t.Error("it has stopped although it was renewed")
	}
	if q.tell(start.Add(9 * time.Second)); tail.hasStopped() != 1 || q.due() != nil {
		t.Errorf("stopped %d times at the end of its lease", tail.hasStopped())
	}
	q.stop(1)
	q.end()
	if tail.hasStopped() != 1 {
		t.Error("it was stopped again")
	}
}

func TestALeaseHasABoundAndADefault(t *testing.T) {
	start := time.Unix(1000, 0)
	for lease, want := range map[time.Duration]time.Duration{0: defaultLease, time.Second: time.Second, time.Hour: maxLease} {
		r := &requests{}
		q := inquiries{to: r}
		q.follow(startTail(1, lease), start)
		q.tell(start.Add(want - time.Millisecond))
		before := r.tails[0].hasStopped()
		q.tell(start.Add(want))
		if before != 0 || r.tails[0].hasStopped() != 1 {
			t.Errorf("of %s: not over after %s", lease, want)
		}
	}
}

func TestTooManyTailsAreRefused(t *testing.T) {
	r := &requests{}
	q := inquiries{to: r}
	for i := range maxTails {
		q.follow(startTail(uint64(i), 0), time.Now())
	}
	if got := q.follow(startTail(1000, 0), time.Now()); !got.GetDecisions().GetRefused() || len(r.tails) != maxTails {
		t.Errorf("%v with %d tails", got, len(r.tails))
	}
	q.stop(3)
	r.full = true
	if got := q.follow(startTail(1000, 0), time.Now()); !got.GetDecisions().GetRefused() {
		t.Errorf("of a router that is full: %v", got)
	}
	q.end()
	for i, tail := range r.tails {
		if tail.hasStopped() != 1 {
			t.Errorf("tail %d was stopped %d times", i, tail.hasStopped())
		}
	}
}

// asking is a node that asks each router that comes, one question after the other.
type asking struct {
	routerpb.UnimplementedRouterControlServer
	asks  chan *routerpb.ToRouter
	heard chan *routerpb.FromRouter
}

func (a *asking) Connect(stream grpc.BidiStreamingServer[routerpb.FromRouter, routerpb.ToRouter]) error {
	done := make(chan struct{})
	go func() { // ends with the stream, which ends when this call returns
		defer close(done)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			if m.GetReport() == nil {
				a.heard <- m
			}
		}
	}()
	for {
		select {
		case m := <-a.asks:
			if m == nil {
				return errors.New("the node is going down")
			}
			if err := stream.Send(m); err != nil {
				return err
			}
		case <-done:
			return nil
		}
	}
}

// serve gives the address that it listens on.
func (a *asking) serve(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	routerpb.RegisterRouterControlServer(s, a)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // ends with Stop
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return l.Addr().String()
}

func (a *asking) next(t *testing.T) *routerpb.FromRouter {
	t.Helper()
	select {
	case m := <-a.heard:
		return m
	case <-time.After(10 * time.Second):
		t.Fatal("the router says nothing")
		return nil
	}
}

func (a *asking) tail(m *routerpb.Tail) {
	a.asks <- &routerpb.ToRouter{Body: &routerpb.ToRouter_Tail{Tail: m}}
}

func TestARouterAnswersOverItsStream(t *testing.T) {
	a := &asking{asks: make(chan *routerpb.ToRouter), heard: make(chan *routerpb.FromRouter, 64)}
	r := &requests{}
	f := client(t, t.TempDir(), a.serve(t))
	f.o.Requests = r
	f.start(t)
	hello := a.next(t).GetHello()
	for _, f := range []routerpb.Feature{routerpb.Feature_FEATURE_EXPLAIN, routerpb.Feature_FEATURE_TAIL, routerpb.Feature_FEATURE_INSPECT} {
		if !slices.Contains(hello.GetFeatures(), f) {
			t.Errorf("hello lacks %s: %v", f, hello)
		}
	}
	a.asks <- &routerpb.ToRouter{Body: &routerpb.ToRouter_Inspect{Inspect: &routerpb.Inspect{Number: 6, Cluster: "us-a", Most: 9}}}
	if got := a.next(t).GetInspected(); got.GetNumber() != 6 || !got.GetKnown() || got.GetKind() != "us-a" || got.GetLeft() != 9 {
		t.Errorf("of a cluster it answers %v", got)
	}
	a.asks <- &routerpb.ToRouter{Body: &routerpb.ToRouter_Explain{Explain: &routerpb.Explain{Number: 5, RequestId: "r-1"}}}
	if got := a.next(t).GetExplained(); got.GetNumber() != 5 || string(got.GetRecord()) != `{"id":"r-1"}` || got.GetRememberedMost() != 4096 {
		t.Errorf("explained as %v", got)
	}
	a.tail(startTail(6, 0))
	if got := a.next(t).GetDecisions(); got.GetNumber() != 6 || got.GetRefused() {
		t.Errorf("begun as %v", got)
	}
	r.mu.Lock()
	tail := r.tails[0]
	r.mu.Unlock()
	tail.put(2, `{"id":"1"}`, `{"id":"2"}`)
	if got := a.next(t).GetDecisions(); got.GetNumber() != 6 || len(got.GetRecords()) != 2 || got.GetDropped() != 2 {
		t.Errorf("told %v", got)
	}
	a.asks <- &routerpb.ToRouter{Body: &routerpb.ToRouter_StopTail{StopTail: &routerpb.StopTail{Number: 6}}}
	a.tail(startTail(7, 0)) // is read after the stop has been done
	a.next(t)
	if tail.hasStopped() != 1 {
		t.Errorf("stopped %d times", tail.hasStopped())
	}
	a.asks <- nil // the stream ends, and with it the other
	deadline := time.Now().Add(10 * time.Second)
	for r.tails[1].hasStopped() != 1 {
		if time.Now().After(deadline) {
			t.Fatal("it goes on without its stream")
		}
		<-time.After(time.Millisecond)
	}
}

func TestARouterWithoutAnswersSaysSoAndTakesNoNotice(t *testing.T) {
	q := inquiries{}
	if q.features() != nil || q.explain(&routerpb.Explain{Number: 1}) != nil || q.inspect(&routerpb.Inspect{Number: 1}) != nil || q.follow(startTail(1, 0), time.Now()) != nil || q.due() != nil {
		t.Error("it answers")
	}
}
