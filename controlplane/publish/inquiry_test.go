package publish

import (
	"context"
	"errors"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/inquiry"
)

// able greets as a router does that answers questions.
func (r *rig) able(id string) *router {
	r.t.Helper()
	x := r.dial()
	m := hello(id, nil)
	m.GetHello().Features = []routerpb.Feature{routerpb.Feature_FEATURE_EXPLAIN, routerpb.Feature_FEATURE_TAIL, routerpb.Feature_FEATURE_INSPECT}
	x.say(m)
	x.hear() // welcome
	return x
}

// asked waits for a question, letting tables and pings pass.
func (x *router) asked() *routerpb.ToRouter {
	x.t.Helper()
	for {
		if m := x.hear(); m.GetExplain() != nil || m.GetInspect() != nil || m.GetTail() != nil || m.GetStopTail() != nil {
			return m
		}
	}
}

func TestQuestionsGoOverTheStream(t *testing.T) {
	desk := inquiry.NewDesk("n1")
	r := newRig(t, func(o *Options) { o.Inquiries = desk })
	r.publish("us") // is not acknowledged, and waits for nothing
	x := r.able("r1")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	type answer struct {
		inquiry.Explanation
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		e, err := desk.Explain(ctx, "r1", "r1-0000000000000007")
		answers <- answer{e, err}
	}()
	ask := x.asked().GetExplain()
	if ask.GetRequestId() != "r1-0000000000000007" {
		t.Errorf("asked %v", ask)
	}
	x.say(&routerpb.FromRouter{Body: &routerpb.FromRouter_Explained{Explained: &routerpb.Explained{Number: ask.GetNumber(), Record: []byte(`{"id":"7"}`)}}})
	if a := <-answers; a.err != nil || string(a.Record) != `{"id":"7"}` || a.Region != "us" {
		t.Errorf("got %+v", a)
	}

	sights := make(chan inquiry.Inspection, 1)
	go func() {
		i, err := desk.Inspect(ctx, "r1", "us-a", 5)
		if err != nil {
			t.Error(err)
		}
		sights <- i
	}()
	look := x.asked().GetInspect()
	if look.GetCluster() != "us-a" || look.GetMost() != 5 {
		t.Errorf("asked %v", look)
	}
	x.say(&routerpb.FromRouter{Body: &routerpb.FromRouter_Inspected{Inspected: &routerpb.Inspected{Number: look.GetNumber(), Known: true, Places: []*routerpb.PlaceSight{{Id: "p"}}}}})
	if i := <-sights; i.Router != "r1" || i.Region != "us" || len(i.Sight.GetPlaces()) != 1 {
		t.Errorf("got %+v", i)
	}

	news := make(chan inquiry.News, 16)
	tail, leave := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- desk.Follow(tail, nil, 0, func(n inquiry.News) error {
			if n.Router != "" {
				news <- n
			}
			return nil
		})
	}()
	number := x.asked().GetTail().GetNumber()
	x.say(&routerpb.FromRouter{Body: &routerpb.FromRouter_Decisions{Decisions: &routerpb.Decisions{Number: number, Records: [][]byte{[]byte(`{}`)}}}})
	if n := <-news; n.Router != "r1" || len(n.Records) != 1 {
		t.Errorf("got %+v", n)
	}
	leave()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for m := x.asked(); m.GetStopTail().GetNumber() != number; m = x.asked() {
		if m.GetTail() == nil { // a renewal that was on its way
			t.Fatalf("at the end it is asked %v", m)
		}
	}
	go func() {
		e, err := desk.Explain(ctx, "r1", "r1-0000000000000008")
		answers <- answer{e, err}
	}()
	x.asked()
	x.end()
	if a := <-answers; !errors.Is(a.err, inquiry.ErrNotConnected) {
		t.Errorf("of a router that has left: %v", a.err)
	}
}

// A router that reads nothing fills what waits for it, and whoever asks is told: nobody waits.
func TestQuestionsToARouterThatDoesNotReadHoldNobodyUp(t *testing.T) {
	desk := inquiry.NewDesk("n1")
	r := newRig(t, func(o *Options) { o.Inquiries = desk })
	r.able("r1")
	short, cancel := context.WithCancel(t.Context())
	cancel() // nobody waits for the answers
	long := string(make([]byte, 64<<10))
	var err error
	for range 20 * maxAsks {
		if _, err = desk.Explain(short, "r1", long); !errors.Is(err, context.Canceled) {
			break
		}
	}
	if !errors.Is(err, inquiry.ErrBusy) {
		t.Errorf("got %v", err)
	}
}

func TestAnswersOfARouterThatNobodyAskedAreIgnored(t *testing.T) {
	for name, desk := range map[string]Inquiries{"a desk": inquiry.NewDesk("n1"), "none": nil} {
		r := newRig(t, func(o *Options) {
			if desk != nil {
				o.Inquiries = desk
			}
		})
		x := r.able("r1")
		x.say(&routerpb.FromRouter{Body: &routerpb.FromRouter_Explained{Explained: &routerpb.Explained{Number: 7}}})
		x.say(&routerpb.FromRouter{Body: &routerpb.FromRouter_Inspected{Inspected: &routerpb.Inspected{Number: 7}}})
		x.say(&routerpb.FromRouter{Body: &routerpb.FromRouter_Decisions{Decisions: &routerpb.Decisions{Number: 7}}})
		x.say(&routerpb.FromRouter{})
		x.say(report(9))
		eventually(t, "the stream of a router at "+name+" goes on", func() bool {
			o, ok := r.observed("r1")
			return ok && o.Report.GetRequests() == 9
		})
	}
}
