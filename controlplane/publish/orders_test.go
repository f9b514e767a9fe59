package publish

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// post is what a node has of signed orders.
type post struct {
	messages []*routerpb.SignedOrder
	changed  chan struct{}
}

func (p *post) Messages() ([]*routerpb.SignedOrder, <-chan struct{}) { return p.messages, p.changed }

// desk is a session of a router that takes orders, on a node that a test moves through time.
type desk struct {
	*session
	t        *testing.T
	view     *state.View
	now      time.Time
	isolated bool
	post     *post
}

func newDesk(t *testing.T, features ...routerpb.Feature) *desk {
	t.Helper()
	d := &desk{t: t, view: state.Empty(), now: leaseNow, post: &post{changed: make(chan struct{})}}
	s := &Server{o: Options{Now: func() time.Time { return d.now }, Emergencies: d.post, Isolated: func() bool { return d.isolated }}}
	d.session = newSession(s, &routerpb.Hello{RouterId: "r", Region: "us", Features: features}, nil)
	d.apply(&statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c-1"}}})
	d.apply(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 6}}})
	for _, weight := range []float64{1, 2} {
		d.apply(&statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: &routerpb.Table{
			Regions: []*routerpb.Region{{Id: "us"}}, Clusters: []*routerpb.Cluster{{Id: "us-a", Region: "us", HealthCap: weight}},
		}}}})
	}
	return d
}

func (d *desk) apply(cmd *statepb.Command) uint64 {
	d.t.Helper()
	cmd.AtUnixMs, cmd.Format = d.now.UnixMilli(), state.FormatOf(cmd)
	next, out, err := state.Apply(d.view, d.view.Index()+1, cmd)
	if err != nil || out.GetCode() != "" {
		d.t.Fatal(out, err)
	}
	d.view = next
	return out.GetRevision()
}

// give commits an order for an hour.
func (d *desk) give(o *routerpb.Order) {
	d.t.Helper()
	o.Actor, o.Reason, o.AtUnixMs, o.ExpiresUnixMs = "ann", "test", d.now.UnixMilli(), d.now.Add(time.Hour).UnixMilli()
	d.apply(&statepb.Command{Op: &statepb.Command_PutOrder{PutOrder: &statepb.PutOrder{Order: o}}})
}

// tells is what the session tells the router now; nil: nothing. It counts as told.
func (d *desk) tells() *routerpb.Orders {
	m, _ := d.orders(d.view, d.now)
	if m != nil {
		d.commands.told = m
	}
	return m
}

func TestARouterIsToldOfOrdersOnceAndWhenTheyChange(t *testing.T) {
	d := newDesk(t, routerpb.Feature_FEATURE_ORDERS)
	if m := d.tells(); m == nil || !m.GetCommittedKnown() || len(m.GetCommitted()) != 0 {
		t.Fatalf("at first it is told %v: that none holds takes back what it kept", m)
	}
	d.give(&routerpb.Order{Kind: "shed", Priority: 50})
	if m := d.tells(); len(m.GetCommitted()) != 1 || m.GetCommitted()[0].GetPriority() != 50 {
		t.Errorf("told %v", m)
	}
	if m := d.tells(); m != nil {
		t.Errorf("told again: %v", m)
	}
	d.post.messages = []*routerpb.SignedOrder{{Key: "k", Payload: []byte("p")}}
	if m := d.tells(); len(m.GetSigned()) != 1 || len(m.GetCommitted()) != 1 {
		t.Errorf("told %v", m)
	}
	_, changed := d.orders(d.view, d.now)
	close(d.post.changed)
	select {
	case <-changed:
	default:
		t.Error("it does not wake when signed orders change")
	}
	d.now = d.now.Add(time.Hour)
	if m := d.tells(); m == nil || len(m.GetCommitted()) != 0 {
		t.Errorf("when it is over, told %v", m)
	}
}

func TestARouterThatConnectsAnewIsToldAll(t *testing.T) {
	d := newDesk(t, routerpb.Feature_FEATURE_ORDERS)
	d.give(&routerpb.Order{Kind: "freeze"})
	d.post.messages = []*routerpb.SignedOrder{{Key: "k"}}
	first := d.tells()
	again := newSession(d.s, d.seen.Hello, nil)
	if m, _ := again.orders(d.view, d.now); !proto.Equal(m, first) {
		t.Errorf("told %v, the first time %v", m, first)
	}
}

func TestAnOrderThatIsTakenBackIsTakenBackAtRouters(t *testing.T) {
	d := newDesk(t, routerpb.Feature_FEATURE_ORDERS)
	o := &routerpb.Order{Id: "sk-1", Kind: "evacuate", Target: "region/us", Actor: "ann", Reason: "x", AtUnixMs: d.now.UnixMilli(), ExpiresUnixMs: d.now.Add(time.Hour).UnixMilli()}
	d.apply(&statepb.Command{Op: &statepb.Command_PutOrder{PutOrder: &statepb.PutOrder{Order: o, Key: "k", Counter: 1, GivenUnixMs: d.now.UnixMilli()}}})
	if m := d.tells(); len(m.GetCommitted()) != 1 || len(m.GetEnded()) != 0 {
		t.Errorf("told %v", m)
	}
	d.apply(&statepb.Command{Op: &statepb.Command_EndOrder{EndOrder: &statepb.EndOrder{Id: "sk-1"}}})
	if m := d.tells(); len(m.GetCommitted()) != 0 || len(m.GetEnded()) != 1 || m.GetEnded()[0] != "sk-1" {
		t.Errorf("told %v: a signed order must be named that has ended", m)
	}
}

func TestANodeThatIsCutOffTakesNothingBack(t *testing.T) {
	d := newDesk(t, routerpb.Feature_FEATURE_ORDERS)
	d.give(&routerpb.Order{Kind: "freeze"})
	d.isolated = true
	if m := d.tells(); m != nil {
		t.Errorf("told %v", m)
	}
	d.post.messages = []*routerpb.SignedOrder{{Key: "k"}}
	if m := d.tells(); m.GetCommittedKnown() || len(m.GetCommitted()) != 0 || len(m.GetSigned()) != 1 {
		t.Errorf("told %v", m)
	}
	d.isolated = false
	if m := d.tells(); !m.GetCommittedKnown() || len(m.GetCommitted()) != 1 {
		t.Errorf("told %v when it is back", m)
	}
	d.view = state.Empty() // a start without a quorum
	if m := d.tells(); m.GetCommittedKnown() {
		t.Errorf("told %v by a node without a state", m)
	}
}

func TestARevertNamesTheTableThatItMade(t *testing.T) {
	d := newDesk(t, routerpb.Feature_FEATURE_ORDERS)
	now := d.view.Table().GetRef().GetRevision()
	d.give(&routerpb.Order{Kind: "revert", Revision: now - 1})
	made := d.view.Table().GetRef()
	if m := d.tells(); made.GetRevision() <= now || m.GetCommitted()[0].GetRevision() != made.GetRevision() || m.GetCommitted()[0].GetEpoch() != made.GetEpoch() {
		t.Errorf("told %v, the table is %v", m, made)
	}
	if o := d.view.Orders(d.now)[0].GetOrder(); o.GetRevision() != now-1 {
		t.Errorf("what is told changed what is kept: %v", o)
	}
}

func TestAnOlderRouterIsToldNothing(t *testing.T) {
	d := newDesk(t)
	d.give(&routerpb.Order{Kind: "freeze"})
	if m, changed := d.orders(d.view, d.now); m != nil || changed != nil {
		t.Errorf("told %v", m)
	}
}
