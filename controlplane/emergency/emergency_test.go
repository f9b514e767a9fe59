package emergency

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/api/order"
	"anabranch/api/order/signed"
	"anabranch/api/routerpb"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// post is a node's book with a clock, a state and a quorum of its own.
type post struct {
	*Book
	t        *testing.T
	dir      string
	now      time.Time
	view     *state.View
	led      bool
	private  ed25519.PrivateKey
	counter  uint64
	registry *prometheus.Registry
}

func newPost(t *testing.T) *post {
	t.Helper()
	p := &post{t: t, dir: t.TempDir(), now: noon, view: state.Empty(), registry: prometheus.NewRegistry()}
	p.private = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	public := p.private.Public().(ed25519.PublicKey) //nolint:forcetypeassert // it is
	line := signed.Key{Name: "ann", Public: public}.String()
	if err := os.WriteFile(p.keys(), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	p.apply(&statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c"}}})
	p.apply(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 6}}})
	p.apply(&statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: &routerpb.Table{
		Regions: []*routerpb.Region{{Id: "us"}}, Clusters: []*routerpb.Cluster{{Id: "us-a", Region: "us"}},
	}}}})
	p.open()
	return p
}

func (p *post) keys() string { return filepath.Join(p.dir, "keys") }

// open is a start of the node.
func (p *post) open() {
	p.t.Helper()
	ring, err := signed.OpenRing(p.keys())
	if err != nil {
		p.t.Fatal(err)
	}
	p.registry = prometheus.NewRegistry()
	p.Book, err = New(Options{
		Dir: p.dir, Keys: ring, View: func() *state.View { return p.view }, Led: func() bool { return p.led },
		Propose: func(_ context.Context, cmd *statepb.Command) (*statepb.Outcome, error) {
			return p.apply(cmd), nil
		},
		Now: func() time.Time { return p.now }, Registerer: p.registry, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *post) apply(cmd *statepb.Command) *statepb.Outcome {
	p.t.Helper()
	if cmd.GetAtUnixMs() == 0 {
		cmd.AtUnixMs = p.now.UnixMilli()
	}
	cmd.Format = state.FormatOf(cmd)
	next, out, err := state.Apply(p.view, p.view.Index()+1, cmd)
	if err != nil {
		p.t.Fatal(err)
	}
	p.view = next
	return out
}

func (p *post) sign(payload *routerpb.SignedPayload) *routerpb.SignedOrder {
	p.t.Helper()
	p.counter++
	payload.ClusterId, payload.Counter = "c", p.counter
	m, err := signed.Sign(p.private, payload)
	if err != nil {
		p.t.Fatal(err)
	}
	return m
}

func (p *post) evacuation(target string) *routerpb.SignedOrder {
	o := order.Order{Kind: order.Evacuate, Target: target, Actor: "x", Reason: "lost", At: p.now, Expires: p.now.Add(time.Hour)}
	return p.sign(&routerpb.SignedPayload{Order: o.Proto()})
}

func (p *post) give(m *routerpb.SignedOrder) string {
	p.t.Helper()
	s, fresh, err := p.Give(m)
	if err != nil || !fresh {
		p.t.Fatalf("fresh %v, %v", fresh, err)
	}
	if s.Order == nil {
		return s.Cancel
	}
	return s.Order.ID
}

// look is what Run does at each look.
func (p *post) look() {
	p.prune()
	p.enter(p.t.Context())
}

func (p *post) trail() (out []string) {
	for _, e := range p.view.Audit(0, 0) {
		if e.GetKind() == state.KindOrder {
			out = append(out, e.GetActor()+" "+e.GetAction()+" "+e.GetName())
		}
	}
	return out
}

func TestAnOrderIsHandedOnAndEnteredOnceWhenThereIsAQuorum(t *testing.T) {
	p := newPost(t)
	_, changed := p.Messages()
	id := p.give(p.evacuation("region/us"))
	select {
	case <-changed:
	default:
		t.Error("who hands orders on is not told")
	}
	if messages, _ := p.Messages(); len(messages) != 1 {
		t.Errorf("%d messages are handed on", len(messages))
	}
	if _, yes := p.Ordered(p.view, p.now).Evacuated("us-a", "us"); !yes {
		t.Error("the node does not count it")
	}
	p.look()
	if len(p.trail()) != 0 {
		t.Errorf("entered without a quorum: %v", p.trail())
	}
	p.open() // it restarts before there is one
	p.led = true
	p.now = p.now.Add(10 * time.Minute)
	for range 3 {
		p.look()
	}
	if got := p.trail(); len(got) != 1 || got[0] != "ann create "+id {
		t.Errorf("the trail says %v", got)
	}
	if reason := p.view.Audit(0, 0)[len(p.view.Audit(0, 0))-1].GetReason(); !strings.Contains(reason, "at 2026-11-30T12:00:00Z") {
		t.Errorf("the trail does not say when the node took it: %s", reason)
	}
}

func TestWhatAQuorumEndsIsHandedOnNoMore(t *testing.T) {
	p := newPost(t)
	id := p.give(p.evacuation("region/us"))
	p.led = true
	p.look()
	p.apply(&statepb.Command{Op: &statepb.Command_EndOrder{EndOrder: &statepb.EndOrder{Id: id}}})
	p.look()
	if messages, _ := p.Messages(); len(messages) != 0 || len(p.Orders()) != 0 {
		t.Errorf("%d messages, %d orders", len(messages), len(p.Orders()))
	}
	p.look()
	if got := p.trail(); len(got) != 2 {
		t.Errorf("the trail says %v", got)
	}
}

func TestAWithdrawalIsEnteredToo(t *testing.T) {
	p := newPost(t)
	id := p.give(p.evacuation("region/us"))
	p.give(p.sign(&routerpb.SignedPayload{Cancel: id}))
	p.led = true
	p.look()
	p.look()
	if got := p.trail(); len(got) != 2 || got[0] != "ann create "+id || got[1] != "ann withdraw "+id || len(p.Orders()) != 0 {
		t.Errorf("the trail says %v, %d hold", got, len(p.Orders()))
	}
	if n := len(p.view.Orders(p.now)); n != 0 {
		t.Errorf("%d orders hold by quorum: what was taken back is only told of", n)
	}
}

func TestWhatIsOverBeforeThereIsAQuorumStandsInTheTrail(t *testing.T) {
	p := newPost(t)
	evacuation := p.give(p.evacuation("region/us"))
	p.now = p.now.Add(time.Minute)
	o := order.Order{Kind: order.Restore, Target: "region/us", Actor: "x", Reason: "back", At: p.now, Expires: p.now.Add(4 * time.Hour)}
	restore := p.give(p.sign(&routerpb.SignedPayload{Order: o.Proto()}))
	o = order.Order{Kind: order.Shed, Priority: 50, Actor: "x", Reason: "full", At: p.now, Expires: p.now.Add(time.Second)}
	shed := p.give(p.sign(&routerpb.SignedPayload{Order: o.Proto()}))
	p.now = p.now.Add(2 * time.Hour) // all but the restore are over
	p.look()
	p.open()
	p.led = true
	p.look()
	p.look()
	want := []string{"ann create " + evacuation, "ann create " + restore, "ann create " + shed}
	if got := p.trail(); !slices.Equal(got, want) {
		t.Errorf("the trail says %v, want %v", got, want)
	}
	if held := p.view.Orders(p.now); len(held) != 1 || held[0].GetOrder().GetId() != restore {
		t.Errorf("by quorum hold %v", held)
	}
	if p.look(); len(p.due) != 1 {
		t.Errorf("%d are still due: all but what holds are done with", len(p.due))
	}
}

func TestWhatWaitsForAQuorumIsBounded(t *testing.T) {
	p := newPost(t)
	for range maxDue + 5 {
		p.owe(signed.Message{Key: signed.Key{ID: "k"}, Counter: p.counter + 1, Cancel: "sk-1"}, p.now)
		p.counter++
	}
	if len(p.due) != maxDue || p.due[0].Counter != 6 {
		t.Errorf("%d wait, from counter %d", len(p.due), p.due[0].Counter)
	}
}

func TestANodeThatStartsWithoutAQuorumTakesOrders(t *testing.T) {
	p := newPost(t)
	p.look() // it has been in contact
	known := p.view
	p.view = state.Empty() // its log is not applied before there is a quorum
	p.open()
	if p.ClusterID() != "c" {
		t.Fatalf("it knows itself to be of %q", p.ClusterID())
	}
	foreign, err := signed.Sign(p.private, &routerpb.SignedPayload{ClusterId: "d", Counter: 900, Cancel: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Give(foreign); !errors.As(err, new(*signed.Refusal)) || !strings.Contains(err.Error(), "this is c") {
		t.Errorf("an order for another control plane: %v", err)
	}
	id := p.give(p.evacuation("region/us"))
	p.look()
	if orders := p.Orders(); len(orders) != 1 || orders[0].ID != id {
		t.Errorf("%v hold", orders)
	}
	p.view, p.led = known, true
	p.look()
	if got := p.trail(); len(got) != 1 {
		t.Errorf("the trail says %v", got)
	}
	young, err := New(Options{Dir: t.TempDir(), View: state.Empty, Propose: p.o.Propose, Led: p.o.Led})
	if err != nil || young.ClusterID() != "" {
		t.Errorf("a node that was never in contact is of %q, %v", young.ClusterID(), err)
	}
}

func TestForgeriesReplaysAndVainOrdersAreRefused(t *testing.T) {
	p := newPost(t)
	forged := p.evacuation("region/us")
	forged.Signature[3] ^= 1
	given := p.evacuation("region/us")
	id := p.give(given)
	p.give(p.sign(&routerpb.SignedPayload{Cancel: id}))
	for name, c := range map[string]struct {
		m    *routerpb.SignedOrder
		code signed.Code
	}{
		"forged":         {forged, signed.CodeSignature},
		"a replay":       {given, signed.CodeReplayed},
		"of nothing":     {p.evacuation("region/eu"), signed.CodeInvalid},
		"of no cluster":  {p.evacuation("cluster/us"), signed.CodeInvalid},
		"with a bad key": {&routerpb.SignedOrder{Key: "x"}, signed.CodeKey},
	} {
		_, _, err := p.Give(c.m)
		if r, ok := errors.AsType[*signed.Refusal](err); !ok || r.Code != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	p.Merge("n2", []*routerpb.SignedOrder{forged, given, p.evacuation("region/eu")}) // that one a newer table may have
	if n := len(p.Orders()); n != 1 {
		t.Errorf("%d orders hold", n)
	}
	bare, err := New(Options{Dir: t.TempDir(), View: p.o.View, Propose: p.o.Propose, Led: p.o.Led})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := bare.Give(given); err == nil || !strings.Contains(err.Error(), "--emergency-keys") {
		t.Errorf("without keys: %v", err)
	}
}

func TestAKeyThatIsTakenOutEndsItsOrders(t *testing.T) {
	p := newPost(t)
	p.give(p.evacuation("region/us"))
	other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, ed25519.SeedSize)).Public().(ed25519.PublicKey) //nolint:forcetypeassert // it is
	if err := os.WriteFile(p.keys(), []byte(signed.Key{Name: "bobby", Public: other}.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	p.look()
	if n := len(p.Orders()); n != 0 {
		t.Errorf("%d orders hold", n)
	}
}

func TestABadFileKeepsNoNodeFromStarting(t *testing.T) {
	p := newPost(t)
	if err := os.WriteFile(p.path(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.open()
	p.give(p.evacuation("region/us"))
	p.open()
	if n := len(p.Orders()); n != 1 {
		t.Errorf("%d orders after it was written anew", n)
	}
}

func TestOrdersAreCountedByKindAndDoor(t *testing.T) {
	p := newPost(t)
	p.give(p.evacuation("region/us"))
	if n := testutil.CollectAndCount(&gauges{p.Book}, "anabranch_emergency_orders"); n != 2*len(order.Kinds) {
		t.Errorf("%d series", n)
	}
	text := `# HELP anabranch_emergency_orders Emergency orders that this node knows and that have not expired, by kind and the door that they came by.
# TYPE anabranch_emergency_orders gauge
anabranch_emergency_orders{door="controlplane",kind="evacuate"} 1
`
	p.led = true
	p.look()
	families, err := p.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, m := range families[0].GetMetric() {
		found = found || m.GetLabel()[0].GetValue() == "controlplane" && m.GetLabel()[1].GetValue() == "evacuate" && m.GetGauge().GetValue() == 1
	}
	if !found {
		t.Errorf("want %s", text)
	}
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "Dir") {
		t.Errorf("without a folder: %v", err)
	}
	if _, err := New(Options{Dir: p.dir}); err == nil || !strings.Contains(err.Error(), "Propose") {
		t.Errorf("without a store: %v", err)
	}
}
