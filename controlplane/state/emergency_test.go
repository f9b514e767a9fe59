package state

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/order"
	"anabranch/api/routerpb"
	"anabranch/controlplane/state/statepb"
)

// alarmed is a cluster in which orders can be given, at second 1.
func alarmed(t *testing.T) *history {
	t.Helper()
	h := staged(t)
	h.do(raise(6))
	return h
}

var second1 = time.UnixMilli(1000)

// ordered is an order that is given at second 1 and holds for an hour.
func ordered(kind order.Kind, target string) *routerpb.Order {
	return &routerpb.Order{
		Kind: string(kind), Target: target, Actor: "ann", Reason: "test", AtUnixMs: 1000, ExpiresUnixMs: 1000 + time.Hour.Milliseconds(),
	}
}

func put(o *routerpb.Order) *statepb.Command {
	return &statepb.Command{Format: 6, AtUnixMs: 1000, Actor: &statepb.Actor{Name: "ann"}, Op: &statepb.Command_PutOrder{PutOrder: &statepb.PutOrder{Order: o}}}
}

func signedBy(key string, counter uint64, o *routerpb.Order, at int64) *statepb.Command {
	o = proto.CloneOf(o)
	o.Id = "s" + key
	cmd := put(o)
	cmd.AtUnixMs = at
	p := cmd.GetPutOrder()
	p.Key, p.Counter, p.GivenUnixMs = key, counter, 1000
	return cmd
}

func end(id string) *statepb.Command {
	return &statepb.Command{Format: 6, AtUnixMs: 1000, Actor: &statepb.Actor{Name: "bob"}, Op: &statepb.Command_EndOrder{EndOrder: &statepb.EndOrder{Id: id}}}
}

func (h *history) carries(cmd *statepb.Command) *statepb.Outcome {
	h.t.Helper()
	out := h.do(cmd)
	if out.GetCode() != "" {
		h.t.Fatalf("%v: %v", cmd, out)
	}
	return out
}

// told lists what the trail says of orders above an index.
func (h *history) told(after uint64) string {
	var out []string
	for _, e := range h.Audit(after, 0) {
		if e.GetKind() == KindOrder {
			out = append(out, e.GetAction()+" "+e.GetCode())
		}
	}
	return strings.Join(out, ", ")
}

func TestAnOrderHoldsUntilItEnds(t *testing.T) {
	h := alarmed(t)
	from := h.Index()
	h.carries(put(ordered(order.Evacuate, "region/us")))
	id := h.Orders(second1)[0].GetOrder().GetId()
	if _, yes := h.Ordered(second1).Evacuated("a", "us"); !yes {
		t.Error("it does not hold")
	}
	if len(h.Orders(second1.Add(time.Hour))) != 0 {
		t.Error("it holds after its end")
	}
	h.carries(end(id))
	if len(h.Orders(second1)) != 0 || len(h.EndedOrders(second1)) != 0 {
		t.Error("it holds though it was taken back, or is remembered")
	}
	if out := h.do(end(id)); out.GetCode() != CodeNotFound {
		t.Errorf("taken back twice: %v", out)
	}
	if got := h.told(from); got != "create evacuate, delete " {
		t.Errorf("the trail says %q", got)
	}
}

func TestOrdersThatWouldDoNothingAreRefused(t *testing.T) {
	h := alarmed(t)
	late := ordered(order.Freeze, "")
	late.AtUnixMs, late.ExpiresUnixMs = -time.Hour.Milliseconds(), 500
	for name, c := range map[string]struct {
		o    *routerpb.Order
		code string
	}{
		"an unknown region":   {ordered(order.Evacuate, "region/eu-7"), CodeNotFound},
		"an unknown cluster":  {ordered(order.Restore, "cluster/x"), CodeNotFound},
		"no kind of target":   {ordered(order.Evacuate, "us"), CodeInvalid},
		"an unknown kind":     {ordered("stop", ""), CodeInvalid},
		"a table not kept":    {&routerpb.Order{Kind: "revert", Revision: 99, Actor: "a", Reason: "b", AtUnixMs: 1000, ExpiresUnixMs: 2000}, CodeNotFound},
		"what has ended":      {late, CodeExpired},
		"nothing":             {nil, CodeInvalid},
		"nobody":              {&routerpb.Order{Kind: "freeze", Reason: "b", AtUnixMs: 1000, ExpiresUnixMs: 2000}, CodeInvalid},
		"longer than it may":  {&routerpb.Order{Kind: "freeze", Actor: "a", Reason: "b", AtUnixMs: 1000, ExpiresUnixMs: 1001 + order.MaxTerm.Milliseconds()}, CodeInvalid},
		"a priority too high": {&routerpb.Order{Kind: "shed", Priority: 101, Actor: "a", Reason: "b", AtUnixMs: 1000, ExpiresUnixMs: 2000}, CodeInvalid},
	} {
		if out := h.do(put(c.o)); out.GetCode() != c.code {
			t.Errorf("%s: %v, want %s", name, out, c.code)
		}
	}
	for range order.MaxOrders {
		h.carries(put(ordered(order.Freeze, "")))
	}
	if out := h.do(put(ordered(order.Freeze, ""))); out.GetCode() != CodeTooMany {
		t.Errorf("one too many: %v", out)
	}
}

func TestARestoreEndsTheEvacuationForGood(t *testing.T) {
	h := alarmed(t)
	h.carries(put(ordered(order.Evacuate, "region/us")))
	short := ordered(order.Restore, "region/us")
	short.ExpiresUnixMs = 2000
	h.carries(put(short))
	if !h.Ordered(second1).Restored("a", "us") {
		t.Error("it is not restored")
	}
	if _, yes := h.Ordered(time.UnixMilli(2000)).Evacuated("a", "us"); yes {
		t.Error("the evacuation came back when the restore ended")
	}
}

func TestAFreezeByOrderHoldsTablesAndARevertIsItsOwnTable(t *testing.T) {
	h := alarmed(t)
	old := h.Table().GetRef().GetRevision()
	h.must(&statepb.Publish{Table: table(0.9)})
	h.carries(put(ordered(order.Freeze, "")))
	if f := h.FrozenAt(second1); f == nil || !strings.Contains(f.GetReason(), "test") {
		t.Errorf("frozen by %v", f)
	}
	if h.Frozen() != nil || h.FrozenAt(second1.Add(time.Hour)) != nil {
		t.Error("it freezes beyond its time")
	}
	if out := h.do(command(&statepb.Publish{Table: table(0.7)})); out.GetCode() != CodeFrozen {
		t.Errorf("a table under a freeze: %v", out)
	}
	h.must(&statepb.Publish{Health: []*statepb.ClusterHealth{{Cluster: "a", State: "HEALTHY"}}}) // health goes on
	o := ordered(order.Revert, "")
	o.Revision = old
	h.carries(put(o))
	if share(h.Table()) != 0.5 || h.Table().GetRef().GetRevision() != h.Index() || h.RevertedTo(h.Orders(second1)[1].GetOrder().GetId()) != h.Index() {
		t.Errorf("the table is %v", h.Table())
	}
	late := command(&statepb.Publish{Table: table(0.7)})
	late.AtUnixMs = 1000 + time.Hour.Milliseconds()
	h.carries(late)
}

func TestARevertTakesARolloutBack(t *testing.T) {
	h := alarmed(t)
	old := h.Table().GetRef().GetRevision()
	h.do(region("eu", `{}`, 0))
	h.begin(0.9)
	o := ordered(order.Revert, "")
	o.Revision = old
	h.carries(put(o))
	if h.Rollout() != nil || share(h.Table()) != 0.5 || h.FreshTable() != nil {
		t.Errorf("rollout %v, table %v", h.Rollout(), h.Table())
	}
}

// Under an order that holds tables off nothing is published but residency that is tighter, of the table in force and of the
// one on trial, and all else of these stays as it was.
func TestResidencyIsTightenedUnderAnOrder(t *testing.T) {
	by := func(h *history, places ...string) *routerpb.Table {
		return &routerpb.Table{
			Ref: h.Table().GetRef(), Regions: []*routerpb.Region{{Id: "us", Zone: "america"}, {Id: "eu", Zone: "europe"}},
			Tenants: []*routerpb.Tenant{{Id: "acme", Tier: "batch", Residency: places}, {Id: "new"}},
			Rules:   []*routerpb.Rule{{Id: "p", Class: "c", Clusters: []string{"us-b"}, Residency: places}},
		}
	}
	publish := func(p *statepb.Publish) *statepb.Command {
		return &statepb.Command{Format: 6, AtUnixMs: 2000, Actor: &statepb.Actor{Name: "system/leader"}, Op: &statepb.Command_Publish{Publish: p}}
	}
	start := func(t *testing.T) *history {
		h := alarmed(t)
		first := table(0.5)
		first.Regions[0].Zone = "america"
		first.Regions = append(first.Regions, &routerpb.Region{Id: "eu", Zone: "europe"})
		first.Tenants, first.Rules = []*routerpb.Tenant{{Id: "acme", Tier: "top"}}, []*routerpb.Rule{{Id: "p", Class: "c"}}
		h.must(&statepb.Publish{Table: first})
		return h
	}
	h := start(t)
	h.carries(put(ordered(order.Freeze, "")))
	before := h.Table()
	if out := h.do(publish(&statepb.Publish{Table: by(h, "america")})); out.GetCode() != CodeFrozen {
		t.Errorf("a table under a freeze: %v", out)
	}
	h.carries(publish(&statepb.Publish{Tighten: true, Table: by(h, "america")}))
	now := h.Table()
	want := proto.CloneOf(before)
	want.Ref, want.CreatedUnixMs = now.GetRef(), 2000
	want.Tenants[0].Residency, want.Rules = []string{"america"}, now.GetRules()
	if now.GetRef().GetRevision() != h.Index() || !proto.Equal(now, want) || len(now.GetRules()) == 0 || !slices.Equal(now.GetRules()[0].GetResidency(), []string{"america"}) || now.GetRules()[0].GetClusters() != nil {
		t.Errorf("in force is %v, want %v", now, want)
	}
	last := h.Audit(0, 0)[len(h.Audit(0, 0))-1]
	if last.GetAction() != "publish" || !strings.Contains(last.GetReason(), "residency is tighter") {
		t.Errorf("the trail ends with %v", last)
	}
	// Once more it changes nothing, and neither does what is wider again; a leader that was deposed changes nothing either.
	h.carries(publish(&statepb.Publish{Tighten: true, Table: by(h, "america")}))
	h.carries(publish(&statepb.Publish{Tighten: true, Table: by(h)}))
	stale := by(h, "europe")
	stale.Ref = before.GetRef()
	if out := h.do(publish(&statepb.Publish{Tighten: true, Table: stale})); out.GetCode() != CodePrecondition {
		t.Errorf("of a table that is over: %v", out)
	}
	if out := h.do(publish(&statepb.Publish{Tighten: true, Trial: by(h, "europe")})); out.GetCode() != CodePrecondition {
		t.Errorf("of a rollout that there is not: %v", out)
	}
	if out := h.do(publish(&statepb.Publish{Tighten: true})); out.GetCode() != CodePrecondition {
		t.Errorf("by nothing: %v", out)
	}
	if h.Table() != now {
		t.Errorf("in force is %v", h.Table())
	}

	h = start(t)
	h.do(region("eu", `{}`, 0))
	h.begin(0.9)
	h.carries(put(ordered(order.Freeze, "")))
	for _, trial := range []bool{true, false} {
		tighter := by(h, "europe")
		p := &statepb.Publish{Tighten: true, Table: tighter}
		if trial {
			tighter.Ref = h.FreshTable().GetRef()
			p = &statepb.Publish{Tighten: true, Trial: tighter}
		}
		h.carries(publish(p))
	}
	for name, t2 := range map[string]*routerpb.Table{"in force": h.Table(), "on trial": h.FreshTable()} {
		if len(t2.GetRules()) == 0 || !slices.Equal(t2.GetRules()[0].GetResidency(), []string{"europe"}) {
			t.Errorf("%s: %v", name, t2.GetRules())
		}
	}
	if share(h.Table()) != 0.5 || share(h.FreshTable()) != 0.9 {
		t.Errorf("shares %v and %v", share(h.Table()), share(h.FreshTable()))
	}
}

func TestARevertWidensNoResidency(t *testing.T) {
	resident := func(of string, places ...string) *routerpb.Table {
		t := table(0.5)
		t.Regions[0].Zone = "america"
		t.Tenants = []*routerpb.Tenant{{Id: of, Residency: places}}
		return t
	}
	for name, signed := range map[string]bool{"by quorum": false, "entered late": true} {
		t.Run(name, func(t *testing.T) {
			h := alarmed(t)
			h.must(&statepb.Publish{Table: resident("acme")})
			old := h.Table().GetRef().GetRevision()
			h.must(&statepb.Publish{Table: resident("acme", "america")})
			o := ordered(order.Revert, "")
			o.Revision = old
			cmd := put(o)
			if signed {
				cmd = signedBy("k1", 7, o, 1000)
			}
			h.carries(cmd)
			now := h.Table()
			if now.GetRef().GetRevision() != h.Index() || !slices.Equal(now.GetTenants()[0].GetResidency(), []string{"america"}) {
				t.Errorf("table %d: acme may be served in %v", now.GetRef().GetRevision(), now.GetTenants()[0].GetResidency())
			}
		})
	}
	t.Run("nor what a rollout under way tightens", func(t *testing.T) {
		h := alarmed(t)
		h.must(&statepb.Publish{Table: resident("acme")})
		old := h.Table().GetRef().GetRevision()
		h.do(region("eu", `{}`, 0))
		h.begin(0.9)
		h.View = func() *View { // what the rollout brings
			v := *h.View
			v.roll.fresh = proto.CloneOf(v.roll.fresh)
			v.roll.fresh.Tenants = resident("acme", "europe").GetTenants()
			return &v
		}()
		o := ordered(order.Revert, "")
		o.Revision = old
		h.carries(put(o))
		if got := h.Table().GetTenants()[0].GetResidency(); !slices.Equal(got, []string{"europe"}) {
			t.Errorf("acme may be served in %v", got)
		}
	})
	t.Run("what can't be combined is refused", func(t *testing.T) {
		h := alarmed(t)
		many := func(header string) *routerpb.Table {
			t := table(0.5)
			t.Regions = append(t.Regions, &routerpb.Region{Id: "eu"})
			for i := range 60 {
				t.Rules = append(t.Rules, &routerpb.Rule{
					Id: strconv.Itoa(i), Class: "c", Residency: []string{"us"},
					Match: []*routerpb.Match{{Headers: []*routerpb.HeaderMatch{{Name: header, Value: strconv.Itoa(i)}}}},
				})
			}
			return t
		}
		h.must(&statepb.Publish{Table: many("A")})
		o := ordered(order.Revert, "")
		o.Revision = h.Table().GetRef().GetRevision()
		h.must(&statepb.Publish{Table: many("B")})
		if out := h.do(put(o)); out.GetCode() != CodeInvalid || !strings.Contains(out.GetMessage(), "at most") {
			t.Errorf("outcome %v", out)
		}
		late := signedBy("k1", 7, o, 1000)
		before := h.Table()
		if h.carries(late); h.Table() != before {
			t.Error("a signed one changes the table")
		}
	})
}

func TestASignedOrderIsEnteredOnce(t *testing.T) {
	h := alarmed(t)
	from := h.Index()
	cmd := signedBy("k1", 7, ordered(order.Evacuate, "region/us"), 5000)
	h.carries(cmd)
	h.carries(proto.CloneOf(cmd)) // by another node
	if got := h.told(from); got != "create evacuate" || len(h.Orders(second1)) != 1 || !h.OrderEntered("k1", 7) || h.OrderEntered("k1", 6) {
		t.Errorf("the trail says %q", got)
	}
	reason := h.Audit(from, 1)[0].GetReason()
	for _, part := range []string{"region/us", "key k1", "counter 7", "without quorum at 1970-01-01T00:00:01Z"} {
		if !strings.Contains(reason, part) {
			t.Errorf("the trail's reason %q does not say %q", reason, part)
		}
	}
	h.carries(end("sk1"))
	if ended := h.EndedOrders(second1); len(ended) != 1 || ended[0] != "sk1" {
		t.Errorf("ended are %v", ended)
	}
	h.carries(proto.CloneOf(cmd))
	if len(h.Orders(second1)) != 0 {
		t.Error("a node that had not heard of its end gave it again")
	}
}

func TestASignedOrderThatIsOverIsEnteredAllTheSame(t *testing.T) {
	h := alarmed(t)
	from := h.Index()
	late := 1000 + 30*time.Hour.Milliseconds()
	h.carries(signedBy("k1", 7, ordered(order.Evacuate, "region/gone"), late))
	if h.told(from) != "create evacuate" || len(h.Orders(time.UnixMilli(late))) != 0 {
		t.Errorf("the trail says %q, %d hold", h.told(from), len(h.Orders(time.UnixMilli(late))))
	}
	cancel := end("sk1")
	cancel.GetEndOrder().Key, cancel.GetEndOrder().Counter = "k1", 8
	h.carries(cancel)
	h.carries(proto.CloneOf(cancel))
	if got := h.told(from); got != "create evacuate, withdraw " {
		t.Errorf("the trail says %q", got)
	}
}

func TestNodesMayEnterWhatTheyTookInAnyOrder(t *testing.T) {
	withdrawal := func() *statepb.Command {
		cancel := end("sk1")
		cancel.GetEndOrder().Key, cancel.GetEndOrder().Counter, cancel.GetEndOrder().GivenUnixMs = "k1", 8, 2000
		return cancel
	}
	restore := ordered(order.Restore, "region/us")
	restore.AtUnixMs = 2000
	for name, c := range map[string]struct {
		first  *statepb.Command
		trail  string
		ended  int // by quorum, for routers and nodes to hear of
		orders int // that hold after both
	}{
		"a withdrawal before its order":          {withdrawal(), "withdraw , create evacuate", 1, 0},
		"a restore before the evacuation":        {signedBy("k2", 1, restore, 5000), "create restore, create evacuate", 0, 1},
		"a restore of something else before it":  {signedBy("k2", 1, ordered(order.Restore, "region/eu"), 5000), "create restore, create evacuate", 0, 2},
		"an earlier restore before it":           {signedBy("k2", 1, before(restore), 5000), "create restore, create evacuate", 0, 2},
		"another key's withdrawal of another id": {func() *statepb.Command { c := withdrawal(); c.GetEndOrder().Id = "sk3"; return c }(), "withdraw , create evacuate", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := alarmed(t)
			from := h.Index()
			h.carries(c.first)
			h.carries(signedBy("k1", 7, ordered(order.Evacuate, "region/us"), 6000))
			if got := h.told(from); got != c.trail {
				t.Errorf("the trail says %q, want %q", got, c.trail)
			}
			at := time.UnixMilli(6000)
			if n := len(h.Orders(at)); n != c.orders {
				t.Errorf("%d orders hold, want %d: %v", n, c.orders, h.Orders(at))
			}
			if n := len(h.EndedOrders(at)); n != c.ended {
				t.Errorf("%d orders are told to be over, want %d", n, c.ended)
			}
		})
	}
}

func before(o *routerpb.Order) *routerpb.Order {
	o = proto.CloneOf(o)
	o.AtUnixMs = 500
	return o
}

func TestAnOrderThatWasEndedBeforeAQuorumIsOnlyToldOf(t *testing.T) {
	h := alarmed(t)
	from := h.Index()
	cmd := signedBy("k1", 7, ordered(order.Evacuate, "region/us"), 5000)
	cmd.GetPutOrder().EndedUnixMs = 4000
	h.carries(cmd)
	if h.told(from) != "create evacuate" || len(h.Orders(time.UnixMilli(5000))) != 0 || !h.OrderEntered("k1", 7) {
		t.Errorf("the trail says %q, %v hold", h.told(from), h.Orders(time.UnixMilli(5000)))
	}
	if reason := h.Audit(from, 1)[0].GetReason(); !strings.HasSuffix(reason, "; ended before it was entered") {
		t.Errorf("the trail's reason is %q", reason)
	}
	plain := put(ordered(order.Shed, "")) // who has a quorum can't give what is over
	plain.GetPutOrder().EndedUnixMs = 1
	if h.carries(plain); len(h.Orders(second1)) != 1 {
		t.Error("an order by quorum does not hold")
	}
}

func TestCountersOfAKeyAreBounded(t *testing.T) {
	h := alarmed(t)
	for c := uint64(1); c <= MaxCounters+3; c++ {
		h.View = func() *View { v := *h.View; v.enter("k", c); return &v }()
	}
	if got := h.emergency.keys[0]; len(got.GetCounters()) != MaxCounters || got.GetFloor() != 3 || !h.OrderEntered("k", 2) {
		t.Errorf("%d counters, floor %d", len(got.GetCounters()), got.GetFloor())
	}
}

func TestOrdersAreInSnapshotsAndSums(t *testing.T) {
	h := alarmed(t)
	before := Sums(h.View)
	h.carries(signedBy("k1", 7, ordered(order.Evacuate, "region/us"), 1000))
	h.carries(put(ordered(order.Shed, "")))
	if d := Differing(before, Sums(h.View)); !strings.Contains(strings.Join(d, " "), "emergency") {
		t.Errorf("what differs is %v", d)
	}
	var b bytes.Buffer
	if err := Encode(h.View, &b); err != nil {
		t.Fatal(err)
	}
	again, err := Decode(&b)
	if err != nil || !Equal(again, h.View) || len(again.Orders(second1)) != 2 || !again.OrderEntered("k1", 7) {
		t.Errorf("restored %v, %v", again.Orders(second1), err)
	}
	for name, bad := range map[string]*statepb.Orders{
		"without a name": {Orders: []*statepb.PutOrder{{}}},
		"out of order":   {Keys: []*statepb.SignedCounters{{Key: "b"}, {Key: "a"}}},
	} {
		if err := new(emergency).read(bad); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
}
