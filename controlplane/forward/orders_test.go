package forward

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/order"
	"anabranch/api/order/signed"
	"anabranch/api/routerpb"
	"anabranch/controlplane/emergency"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// night is nodes that reach each other and have no quorum, each with its book of signed orders and a router.
type night struct {
	t       *testing.T
	key     ed25519.PrivateKey
	keys    string // the file of those who may sign
	shift   atomic.Int64
	counter uint64
	books   map[fleet.NodeID]*emergency.Book
	routers map[fleet.NodeID]*signed.Shelf
	relay   relay // what n2 is to others
}

// relay is a node that was taken over: it hands on what its book has, and what else it likes.
type relay struct {
	*emergency.Book
	mu   sync.Mutex // guards more
	more []*routerpb.SignedOrder
}

func (r *relay) Messages() ([]*routerpb.SignedOrder, <-chan struct{}) {
	all, changed := r.Book.Messages()
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(append([]*routerpb.SignedOrder(nil), r.more...), all...), changed
}

func (r *relay) hand(m *routerpb.SignedOrder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.more = append(r.more, m)
}

func (n *night) now() time.Time { return time.Now().Add(time.Duration(n.shift.Load())) }

// newNight starts three nodes of six.
func newNight(t *testing.T) *night {
	t.Helper()
	n := &night{t: t, keys: filepath.Join(t.TempDir(), "keys"), books: map[fleet.NodeID]*emergency.Book{}, routers: map[fleet.NodeID]*signed.Shelf{}}
	n.key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	public := n.key.Public().(ed25519.PublicKey) //nolint:forcetypeassert // it is
	if err := os.WriteFile(n.keys, []byte(signed.Key{Name: "ann", Public: public}.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	newClusterWith(t, 6, 3, func(id fleet.NodeID) Orders {
		n.books[id], n.routers[id] = n.book(), &signed.Shelf{}
		if id == "n2" {
			n.relay.Book = n.books[id]
			return &n.relay
		}
		return n.books[id]
	})
	return n
}

// book is one node's, which knows the table of before the quorum was lost.
func (n *night) book() *emergency.Book {
	n.t.Helper()
	view := state.Empty()
	for _, op := range []*statepb.Command{
		{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c"}}},
		{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: &routerpb.Table{
			Regions: []*routerpb.Region{{Id: "us"}, {Id: "eu"}}, Clusters: []*routerpb.Cluster{{Id: "us-a", Region: "us"}, {Id: "eu-a", Region: "eu"}},
		}}}},
	} {
		op.Format = 1
		next, out, err := state.Apply(view, view.Index()+1, op)
		if err != nil || out.GetCode() != "" {
			n.t.Fatal(out, err)
		}
		view = next
	}
	ring, err := signed.OpenRing(n.keys)
	if err != nil {
		n.t.Fatal(err)
	}
	b, err := emergency.New(emergency.Options{
		Dir: n.t.TempDir(), Keys: ring, View: func() *state.View { return view }, Led: func() bool { return false }, Now: n.now, Logger: slog.New(slog.DiscardHandler),
		Propose: func(context.Context, *statepb.Command) (*statepb.Outcome, error) {
			return nil, errors.New("there is no quorum")
		},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return b
}

func (n *night) sign(p *routerpb.SignedPayload) *routerpb.SignedOrder {
	n.t.Helper()
	n.counter++
	p.ClusterId, p.Counter = "c", n.counter
	m, err := signed.Sign(n.key, p)
	if err != nil {
		n.t.Fatal(err)
	}
	return m
}

func (n *night) evacuation(target string, lasts time.Duration) *routerpb.SignedOrder {
	o := order.Order{Kind: order.Evacuate, Target: target, Actor: "x", Reason: "lost", At: n.now(), Expires: n.now().Add(lasts)}
	return n.sign(&routerpb.SignedPayload{Order: o.Proto()})
}

// give hands a message to one node, as the API does.
func (n *night) give(to fleet.NodeID, m *routerpb.SignedOrder) string {
	n.t.Helper()
	s, fresh, err := n.books[to].Give(m)
	if err != nil || !fresh {
		n.t.Fatalf("given to %s: fresh %v, %v", to, fresh, err)
	}
	if s.Order == nil {
		return s.Cancel
	}
	return s.Order.ID
}

// leaves says whether the router that is connected to a node sends nothing to a region, by what its node hands on and it
// verifies itself.
func (n *night) leaves(node fleet.NodeID, region fleet.RegionID) bool {
	public := n.key.Public().(ed25519.PublicKey) //nolint:forcetypeassert // it is
	keys := []signed.Key{{ID: signed.KeyID(public), Name: "ann", Public: public}}
	book := interface {
		Messages() ([]*routerpb.SignedOrder, <-chan struct{})
	}(n.books[node])
	if node == "n2" {
		book = &n.relay
	}
	messages, _ := book.Messages()
	shelf := n.routers[node]
	for _, raw := range messages {
		if m, err := signed.Open(keys, "c", raw, n.now()); err == nil {
			_, _ = shelf.Take(m, n.now()) // what it refuses is no order
		}
	}
	_, yes := (order.Set{}).With(order.DoorSigned, shelf.Orders()...).At(n.now()).Evacuated("", region)
	return yes
}

// everywhere waits until all routers leave a region, or no longer do.
func (n *night) everywhere(what string, region fleet.RegionID, leave bool) {
	n.t.Helper()
	for id := range n.books {
		eventually(n.t, what+", at "+string(id), func() bool { return n.leaves(id, region) == leave })
	}
}

// nowhere says that no router leaves a region, once what was handed on before has gone around.
func (n *night) nowhere(what string, region fleet.RegionID) {
	n.t.Helper()
	mark := n.evacuation("cluster/us-a", time.Hour)
	id := n.give("n2", mark)
	for node, b := range n.books {
		eventually(n.t, "what n2 hands on comes to "+string(node), func() bool {
			for _, o := range b.Orders() {
				if o.ID == id {
					return true
				}
			}
			return false
		})
		all, _ := n.relay.Messages() // which may have come there by the third node alone
		b.Merge("n2", all)
		if n.leaves(node, region) {
			n.t.Errorf("%s: the router at %s obeys", what, node)
		}
	}
}

// With half of the nodes lost there is no quorum, and an order that is given to one of those that are left is obeyed by
// the routers of the others; what is forged, over or taken back is not, though a node hands it on.
func TestSignedOrdersGoAroundWithoutAQuorum(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	given := n.evacuation("region/us", time.Hour)
	id := n.give("n1", given)
	n.everywhere("routers leave us", "us", true)

	// n2 was taken over. It makes another order of the one that it has, in each way that it can.
	payload := &routerpb.SignedPayload{}
	if err := proto.Unmarshal(given.GetPayload(), payload); err != nil {
		t.Fatal(err)
	}
	payload.Order.Target, payload.Order.Id, payload.Counter = "region/eu", "", 99
	changed, err := proto.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	own := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, ed25519.SeedSize))
	forged, err := signed.Sign(own, payload)
	if err != nil {
		t.Fatal(err)
	}
	payload.ClusterId = "another"
	abroad, err := signed.Sign(n.key, payload)
	if err != nil {
		t.Fatal(err)
	}
	n.relay.hand(&routerpb.SignedOrder{Key: given.GetKey(), Payload: changed, Signature: given.GetSignature()})
	n.relay.hand(forged)
	n.relay.hand(&routerpb.SignedOrder{Key: given.GetKey(), Payload: forged.GetPayload(), Signature: forged.GetSignature()})
	n.relay.hand(abroad)
	n.nowhere("what was tampered with", "eu")

	// It hands on an order again that was taken back, by way of another node.
	n.give("n3", n.sign(&routerpb.SignedPayload{Cancel: id}))
	n.everywhere("us is used again", "us", false)
	n.relay.hand(given)
	n.nowhere("a replay of what was taken back", "us")

	// And one that has ended by itself.
	short := n.evacuation("region/eu", time.Minute)
	n.give("n3", short)
	n.everywhere("routers leave eu", "eu", true)
	n.shift.Store(int64(2 * time.Minute))
	n.everywhere("it ends on each clock", "eu", false)
	n.relay.hand(short)
	n.nowhere("a replay of what is over", "eu")
}
