package inquiry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

var able = []routerpb.Feature{routerpb.Feature_FEATURE_EXPLAIN, routerpb.Feature_FEATURE_TAIL, routerpb.Feature_FEATURE_INSPECT}

// router is the other end of a stream.
type router struct {
	asks  chan *routerpb.ToRouter
	heard func(*routerpb.FromRouter)
	leave func()
}

func join(d *Desk, id, region string, features ...routerpb.Feature) *router {
	r := &router{asks: make(chan *routerpb.ToRouter, 8)}
	r.heard, r.leave = d.Join(&routerpb.Hello{RouterId: id, Region: region, Features: features}, r.asks)
	return r
}

// answers plays a router that knows some requests, until the test ends its channel.
func (r *router) answers(known ...string) {
	for m := range r.asks {
		if ask := m.GetInspect(); ask != nil {
			seen := &routerpb.Inspected{Number: ask.GetNumber(), Reason: fmt.Sprintf("%s of %d", ask.GetCluster(), ask.GetMost())}
			r.heard(&routerpb.FromRouter{Body: &routerpb.FromRouter_Inspected{Inspected: seen}})
		}
		ask := m.GetExplain()
		if ask == nil {
			continue
		}
		a := &routerpb.Explained{Number: ask.GetNumber(), OldestUnixMs: 7000, RememberedMost: 4096}
		if slices.Contains(known, ask.GetRequestId()) {
			a.Record = []byte(`{"id":"` + ask.GetRequestId() + `"}`)
		}
		r.heard(&routerpb.FromRouter{Body: &routerpb.FromRouter_Explained{Explained: a}})
	}
}

func (r *router) decides(number, dropped uint64, records ...string) {
	m := &routerpb.Decisions{Number: number, Dropped: dropped}
	for _, text := range records {
		m.Records = append(m.Records, []byte(text))
	}
	r.heard(&routerpb.FromRouter{Body: &routerpb.FromRouter_Decisions{Decisions: m}})
}

// tail is what the router was asked last, which must be a tail.
func (r *router) tail(t *testing.T) *routerpb.Tail {
	t.Helper()
	synctest.Wait()
	var last *routerpb.ToRouter
	for len(r.asks) > 0 {
		last = <-r.asks
	}
	if last.GetTail() == nil {
		t.Fatalf("the router was asked %v, want a tail", last)
	}
	return last.GetTail()
}

func TestARouterIsAskedOverItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDesk("n1")
		r := join(d, "r1", "us", able...)
		go r.answers("r1-7")
		e, err := d.Explain(t.Context(), "r1", "r1-7")
		if err != nil || string(e.Record) != `{"id":"r1-7"}` || e.Node != "n1" || e.Router != "r1" || e.Region != "us" || e.Most != 4096 || !e.Oldest.Equal(time.UnixMilli(7000)) {
			t.Errorf("got %+v, %v", e, err)
		}
		if i, err := d.Inspect(t.Context(), "r1", "us-a", 3); err != nil || i.Sight.GetReason() != "us-a of 3" || i.Node != "n1" || i.Region != "us" {
			t.Errorf("of a cluster: %+v, %v", i, err)
		}
		if e, err = d.Explain(t.Context(), "r1", "r1-8"); err != nil || e.Record != nil || e.Most != 4096 {
			t.Errorf("of a request that it doesn't know: %+v, %v", e, err)
		}
		close(r.asks)
		if len(d.questions) != 0 {
			t.Errorf("%d questions are left", len(d.questions))
		}
	})
}

func TestARouterThatCantAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDesk("n1")
		ask := func(router string) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := d.Explain(ctx, fleet.RouterID(router), "r-1")
			return err
		}
		if err := ask("r1"); !errors.Is(err, ErrNotConnected) {
			t.Errorf("of a router that never came: %v", err)
		}
		join(d, "old", "us")
		if err := ask("old"); !errors.Is(err, ErrTooOld) {
			t.Errorf("of an old one: %v", err)
		}
		silent := join(d, "silent", "us", able...)
		if err := ask("silent"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("of a silent one: %v", err)
		}
		for len(silent.asks) < cap(silent.asks) {
			silent.asks <- nil
		}
		if err := ask("silent"); !errors.Is(err, ErrBusy) {
			t.Errorf("of one that reads nothing: %v", err)
		}
		leaving := join(d, "leaving", "us", able...)
		failed := make(chan error)
		go func() { failed <- ask("leaving") }()
		synctest.Wait()
		leaving.leave()
		if err := <-failed; !errors.Is(err, ErrNotConnected) {
			t.Errorf("of one that left meanwhile: %v", err)
		}
		if len(d.questions) != 0 {
			t.Errorf("%d questions are left", len(d.questions))
		}
	})
}

func TestOnlyTheRouterThatWasAskedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDesk("n1")
		asked, other := join(d, "r1", "us", able...), join(d, "r2", "us", able...)
		got := make(chan Explanation, 1)
		go func() {
			e, _ := d.Explain(t.Context(), "r1", "r1-7")
			got <- e
		}()
		number := (<-asked.asks).GetExplain().GetNumber()
		answer := func(of *router, record string) {
			of.heard(&routerpb.FromRouter{Body: &routerpb.FromRouter_Explained{Explained: &routerpb.Explained{Number: number, Record: []byte(record)}}})
		}
		answer(other, "forged")
		answer(asked, "true")
		answer(asked, "twice")
		if e := <-got; string(e.Record) != "true" {
			t.Errorf("got %s", e.Record)
		}
	})
}

func TestTheNewestStreamOfARouterCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDesk("n1")
		old := join(d, "r1", "us", able...)
		fresh := join(d, "r1", "us", able...)
		old.leave()
		go fresh.answers("r1-7")
		if e, err := d.Explain(t.Context(), "r1", "r1-7"); err != nil || e.Record == nil {
			t.Errorf("%+v, %v", e, err)
		}
		close(fresh.asks)
	})
}

// listener writes down what a tail tells.
type listener struct {
	news  chan News
	ended chan error
	leave context.CancelFunc
}

type following func(context.Context, *routerpb.DecisionFilter, uint32, func(News) error) error

func listen(t *testing.T, follow following, filter *routerpb.DecisionFilter, rate uint32) *listener {
	ctx, cancel := context.WithCancel(t.Context())
	l := &listener{news: make(chan News, 1024), ended: make(chan error, 1), leave: cancel}
	go func() {
		l.ended <- follow(ctx, filter, rate, func(n News) error { l.news <- n; return nil })
	}()
	synctest.Wait()
	return l
}

func (n News) String() string {
	if n.Router == "" {
		return fmt.Sprintf("%d followed, unable %v, missing %v", n.Standing.Following, n.Standing.Unable, n.Standing.Missing)
	}
	var records []string
	for _, r := range n.Records {
		records = append(records, string(r))
	}
	return fmt.Sprintf("%s of %s at %s: %s, %d dropped", n.Router, n.Region, n.Node, strings.Join(records, " "), n.Dropped)
}

// heard is what has been told since, a line each, without standings that say the same again.
func (l *listener) heard() string {
	synctest.Wait()
	var out []string
	for len(l.news) > 0 {
		if line := (<-l.news).String(); len(out) == 0 || out[len(out)-1] != line {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

func (l *listener) want(t *testing.T, what string) {
	t.Helper()
	if got := l.heard(); got != what {
		t.Errorf("told\n%s\nwant\n%s", got, what)
	}
}

func (l *listener) end(t *testing.T) {
	t.Helper()
	l.leave()
	if err := <-l.ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestATailFollowsTheRoutersThatItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDesk("n1")
		us, eu := join(d, "r-us", "us", able...), join(d, "r-eu", "eu", able...)
		join(d, "r-old", "us")
		l := listen(t, d.Follow, &routerpb.DecisionFilter{Regions: []string{"us"}, Tenants: []string{"acme"}}, 9)
		l.want(t, "1 followed, unable [r-old], missing []")
		asked := us.tail(t)
		if asked.GetRatePerS() != 9 || asked.GetLeaseMs() != 10000 || !slices.Equal(asked.GetFilter().GetTenants(), []string{"acme"}) {
			t.Errorf("asked %v", asked)
		}
		if len(eu.asks) != 0 {
			t.Error("a router of a region that nobody wants was asked")
		}
		number := asked.GetNumber()
		us.decides(number, 0) // it has begun
		us.decides(number, 2, `{"id":"1"}`, `{"id":"2"}`)
		us.decides(number+1, 0, `{"id":"3"}`) // of another tail
		l.want(t, `r-us of us at n1: {"id":"1"} {"id":"2"}, 2 dropped`)

		time.Sleep(renewEvery) //nolint:forbidigo // virtual time of synctest
		if again := us.tail(t); again.GetNumber() != number {
			t.Errorf("renewed as %v", again)
		}
		late := join(d, "r-late", "us", able...)
		if late.tail(t).GetNumber() != number {
			t.Error("a router that comes later is not asked at once")
		}
		us.leave()
		time.Sleep(renewEvery) //nolint:forbidigo // virtual time of synctest
		l.want(t, "1 followed, unable [r-old], missing []")
		late.tail(t)

		l.end(t)
		if got := <-late.asks; got.GetStopTail().GetNumber() != number {
			t.Errorf("at the end it was told %v", got)
		}
		late.decides(number, 0, `{"id":"4"}`) // too late to matter
		if len(d.tails) != 0 {
			t.Errorf("%d tails are left", len(d.tails))
		}
	})
}

func TestARouterThatRefusesATailIsNamedUntilItTakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDesk("n1")
		r := join(d, "r1", "us", able...)
		l := listen(t, d.Follow, nil, 0)
		number := r.tail(t).GetNumber()
		r.heard(&routerpb.FromRouter{Body: &routerpb.FromRouter_Decisions{Decisions: &routerpb.Decisions{Number: number, Refused: true}}})
		time.Sleep(renewEvery) //nolint:forbidigo // virtual time of synctest
		l.want(t, "1 followed, unable [], missing []\n0 followed, unable [r1], missing []")
		r.tail(t)
		r.decides(number, 0)
		time.Sleep(renewEvery) //nolint:forbidigo // virtual time of synctest
		l.want(t, "1 followed, unable [], missing []")
		l.end(t)
	})
}

func TestWhoeverDoesNotListenHoldsNoRouterUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDesk("n1")
		r := join(d, "r1", "us", able...)
		ctx, cancel := context.WithCancel(t.Context())
		busy, told := make(chan struct{}), make(chan News, 2*heldNews)
		ended := make(chan error, 1)
		go func() {
			ended <- d.Follow(ctx, nil, 0, func(n News) error {
				<-busy
				told <- n
				return nil
			})
		}()
		number := r.tail(t).GetNumber()
		for range heldNews + 10 {
			r.decides(number, 1, `{"id":"1"}`) // returns, whatever the follower does
		}
		close(busy)
		synctest.Wait()
		r.decides(number, 0, `{"id":"2"}`)
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		close(told)
		records, dropped := 0, uint64(0)
		for n := range told {
			records, dropped = records+len(n.Records), dropped+n.Dropped
		}
		if want := heldNews + 11; records != heldNews+1 || records+int(dropped) != want+heldNews+10 {
			t.Errorf("%d records told and %d dropped", records, dropped)
		}
	})
}

// TestWhatWaitsForAFollowerIsBoundedInBytes: records of many clusters are long, and followers many.
func TestWhatWaitsForAFollowerIsBoundedInBytes(t *testing.T) {
	d := NewDesk("n1")
	tl := &tail{filter: &routerpb.DecisionFilter{}, news: make(chan News, heldNews)}
	record := make([]byte, heldBytes/4)
	for range 6 {
		tl.take(News{Node: d.node, Router: "r1", Records: [][]byte{record}})
	}
	if len(tl.news) != 4 || tl.dropped.Load() != 2 {
		t.Fatalf("%d wait, %d dropped", len(tl.news), tl.dropped.Load())
	}
	tl.taken(<-tl.news)
	tl.take(News{Node: d.node, Router: "r1", Records: [][]byte{record}})
	tl.take(News{Node: d.node, Router: "r1", Dropped: 3}) // counts hold nothing up
	if n := len(tl.news); n != 5 || tl.dropped.Load() != 0 {
		t.Errorf("%d wait, %d dropped", n, tl.dropped.Load())
	}
	// One that is longer than all that may wait goes through alone.
	alone := &tail{filter: &routerpb.DecisionFilter{}, news: make(chan News, heldNews)}
	alone.take(News{Router: "r1", Records: [][]byte{make([]byte, 2*heldBytes)}})
	if len(alone.news) != 1 {
		t.Error("it never comes")
	}
}

func TestATailEndsWithTheErrorOfWhoeverItTells(t *testing.T) {
	broken := errors.New("broken pipe")
	d := NewDesk("n1")
	if err := d.Follow(t.Context(), nil, 0, func(News) error { return broken }); !errors.Is(err, broken) || len(d.tails) != 0 {
		t.Errorf("%v, %d tails left", err, len(d.tails))
	}
}
