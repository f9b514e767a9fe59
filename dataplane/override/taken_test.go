package override

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/api/order"
	"anabranch/api/order/signed"
	"anabranch/api/routerpb"
)

// ann signs orders; her line stands in the file of keys that a test may put into the data folder.
var ann = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{3}, ed25519.SeedSize))

func lineOf(private ed25519.PrivateKey, name string) []byte {
	return []byte(signed.Key{Name: name, Public: private.Public().(ed25519.PublicKey)}.String()) //nolint:forcetypeassert // it is
}

// ringIn is the file of keys in a data folder. Nil: there is none.
func ringIn(t *testing.T, dir string) *signed.Ring {
	t.Helper()
	path := filepath.Join(dir, "keys")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ring, err := signed.OpenRing(path)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// trusting is a desk that takes what Ann signs.
func trusting(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t)
	d.know(lineOf(ann, "ann"))
	return d.again()
}

func (d *desk) know(lines []byte) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, "keys"), lines, 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// again is the router after a restart.
func (d *desk) again() *desk { return open(d.t, d.dir, d.ns) }

func (d *desk) order(kind order.Kind, target string, term time.Duration) *routerpb.Order {
	now := d.o.Now()
	o := order.Order{ID: "c1", Kind: kind, Target: target, Actor: "ann", Reason: "test", At: now, Expires: now.Add(term)}
	return o.Proto()
}

func (d *desk) sign(p *routerpb.SignedPayload) *routerpb.SignedOrder {
	d.t.Helper()
	if p.GetClusterId() == "" {
		p.ClusterId = "c"
	}
	m, err := signed.Sign(ann, p)
	if err != nil {
		d.t.Fatal(err)
	}
	return m
}

// evacuated says whether the region us is left.
func (d *desk) evacuated(want bool, when string) {
	d.t.Helper()
	if _, yes := d.Current().Evacuated("us-a", "us"); yes != want {
		d.t.Errorf("%s: evacuated %v, want %v", when, yes, want)
	}
}

func committedTo(list ...*routerpb.Order) *routerpb.Orders {
	return &routerpb.Orders{CommittedKnown: true, Committed: list}
}

func TestCommittedOrdersAreReplacedByThoseOfANodeThatKnows(t *testing.T) {
	d := newDesk(t)
	d.Take(committedTo(d.order(Evacuate, "region/us", time.Hour)))
	d.evacuated(true, "given")
	d.Take(&routerpb.Orders{})
	d.evacuated(true, "a node that can't tell takes nothing back")
	d = d.again()
	d.evacuated(true, "after a restart")
	d.Take(committedTo())
	d.evacuated(false, "taken back")
	d = d.again()
	d.evacuated(false, "taken back, after a restart")
}

func TestCommittedOrdersEndWithoutTheControlPlane(t *testing.T) {
	d := newDesk(t)
	d.Take(committedTo(d.order(Evacuate, "region/us", 5*time.Second)))
	d.pass(4 * time.Second)
	d.evacuated(true, "before its time")
	d.pass(2 * time.Second)
	d.evacuated(false, "after its time")
	if d = d.again(); len(d.Status().Orders) != 0 {
		t.Errorf("after a restart: %+v", d.Status().Orders)
	}
}

func TestAnOrderThatIsNotUnderstoodKeepsNoneOfTheOthersOut(t *testing.T) {
	d := newDesk(t)
	odd := d.order("explode", "", time.Hour)
	odd.Id = "c0"
	d.Take(committedTo(odd, d.order(Evacuate, "region/us", time.Hour)))
	d.evacuated(true, "beside one of a newer build")
	if !strings.Contains(d.logs.String(), "not understood") {
		t.Errorf("the log says\n%s", &d.logs)
	}
}

func TestSignedOrdersAreAddedOnceAndSurviveARestart(t *testing.T) {
	d := trusting(t)
	m := d.sign(&routerpb.SignedPayload{Counter: 1, Order: d.order(Evacuate, "region/us", time.Hour)})
	handed := &routerpb.Orders{Signed: []*routerpb.SignedOrder{m}}
	d.Take(handed)
	d.Take(handed)
	d.evacuated(true, "given")
	if s := d.Status(); len(s.Orders) != 1 || s.Orders[0].Door != order.DoorSigned || s.Orders[0].Actor != "ann" || len(s.Problems) != 0 {
		t.Errorf("status %+v", s)
	}
	d.Take(&routerpb.Orders{})
	d.evacuated(true, "a node without it takes nothing back")
	d = d.again()
	d.evacuated(true, "after a restart")
	withdrawal := d.sign(&routerpb.SignedPayload{Counter: 2, Cancel: signed.ID(signed.KeyID(ann.Public().(ed25519.PublicKey)), 1)}) //nolint:forcetypeassert // it is
	d.Take(&routerpb.Orders{Signed: []*routerpb.SignedOrder{withdrawal}})
	d.evacuated(false, "withdrawn")
	d = d.again()
	d.Take(handed)
	d.evacuated(false, "played again after a restart")
}

func TestAQuorumEndsSignedOrdersAndAKeyThatIsGoneDoes(t *testing.T) {
	for name, end := range map[string]func(*desk, string){
		"a quorum": func(d *desk, id string) { d.Take(&routerpb.Orders{CommittedKnown: true, Ended: []string{id}}) },
		"no key": func(d *desk, _ string) {
			d.know(lineOf(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{4}, ed25519.SeedSize)), "somebody-else"))
			d.pass(2 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := trusting(t)
			d.Take(&routerpb.Orders{Signed: []*routerpb.SignedOrder{d.sign(&routerpb.SignedPayload{Counter: 1, Order: d.order(Evacuate, "region/us", time.Hour)})}})
			d.evacuated(true, "given")
			end(d, d.Status().Orders[0].ID)
			d.evacuated(false, "ended")
		})
	}
	d := trusting(t) // one that can't know does not end it
	d.Take(&routerpb.Orders{Signed: []*routerpb.SignedOrder{d.sign(&routerpb.SignedPayload{Counter: 1, Order: d.order(Evacuate, "region/us", time.Hour)})}})
	d.Take(&routerpb.Orders{Ended: []string{d.Status().Orders[0].ID}})
	d.evacuated(true, "by a node that is cut off")
}

// TestWhatIsNoGoodSignedOrderIsToldAndEndsNothing: a node that was taken over can hand on no order of its own.
func TestWhatIsNoGoodSignedOrderIsToldAndEndsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		make func(*desk) *routerpb.SignedOrder
		says string
	}{
		"forged": {func(d *desk) *routerpb.SignedOrder {
			m := d.sign(&routerpb.SignedPayload{Counter: 1, Order: d.order(Evacuate, "region/us", time.Hour)})
			m.Signature[0] ^= 1
			return m
		}, "the order was changed, or signed by another"},
		"of a stranger": {func(*desk) *routerpb.SignedOrder { return &routerpb.SignedOrder{Key: "x"} }, "is not known here"},
		"of another control plane": {func(d *desk) *routerpb.SignedOrder {
			return d.sign(&routerpb.SignedPayload{ClusterId: "else", Counter: 1, Order: d.order(Evacuate, "region/us", time.Hour)})
		}, "sign it for this one"},
		"too far in the future": {func(d *desk) *routerpb.SignedOrder {
			o := d.order(Evacuate, "region/us", time.Hour)
			o.AtUnixMs, o.ExpiresUnixMs = o.GetAtUnixMs()+time.Hour.Milliseconds(), o.GetExpiresUnixMs()+time.Hour.Milliseconds()
			return d.sign(&routerpb.SignedPayload{Counter: 1, Order: o})
		}, "yet to come"},
		"over": {func(d *desk) *routerpb.SignedOrder {
			o := d.order(Evacuate, "region/us", time.Hour)
			o.AtUnixMs, o.ExpiresUnixMs = o.GetAtUnixMs()-2*time.Hour.Milliseconds(), o.GetExpiresUnixMs()-2*time.Hour.Milliseconds()
			return d.sign(&routerpb.SignedPayload{Counter: 1, Order: o})
		}, "the order ended at"},
	} {
		t.Run(name, func(t *testing.T) {
			d := trusting(t)
			freeze := d.sign(&routerpb.SignedPayload{Counter: 9, Order: d.order(Freeze, "", time.Hour)})
			d.Take(&routerpb.Orders{Signed: []*routerpb.SignedOrder{c.make(d), freeze}})
			d.evacuated(false, "a bad order")
			if !d.Current().Frozen() {
				t.Error("a good one beside it is not taken")
			}
			if p := strings.Join(d.Status().Problems, "; "); !strings.Contains(p, c.says) {
				t.Errorf("the status says %q, want %q", p, c.says)
			}
			d.Take(&routerpb.Orders{Signed: []*routerpb.SignedOrder{freeze}})
			if p := d.Status().Problems; len(p) != 0 {
				t.Errorf("the status still says %q", p)
			}
		})
	}
	bare := newDesk(t)
	bare.Take(&routerpb.Orders{Signed: []*routerpb.SignedOrder{bare.sign(&routerpb.SignedPayload{Counter: 1, Order: bare.order(Freeze, "", time.Hour)})}})
	if p := strings.Join(bare.Status().Problems, "; "); bare.Current().Frozen() || !strings.Contains(p, "--emergency-keys") {
		t.Errorf("without keys: %q", p)
	}
}

func TestAnOrderThatCameByTwoDoorsIsOne(t *testing.T) {
	d := trusting(t)
	m := d.sign(&routerpb.SignedPayload{Counter: 1, Order: d.order(Evacuate, "region/us", time.Hour)})
	d.Take(&routerpb.Orders{Signed: []*routerpb.SignedOrder{m}})
	entered := d.Status().Orders[0].Order
	d.Take(committedTo(entered.Proto()))
	if s := d.Status(); len(s.Orders) != 1 || s.Orders[0].Door != order.DoorControlPlane {
		t.Errorf("status %+v", s.Orders)
	}
	if held := Signal(d.Current()).GetHeld(); len(held) != 1 || held[0].GetId() != entered.ID || held[0].GetTarget() != "region/us" {
		t.Errorf("reports %v", held)
	}
	if Signal(newDesk(t).Current()) != nil {
		t.Error("a router without orders reports some")
	}
}
