package signed

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/order"
	"anabranch/api/routerpb"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// signer is somebody with a key.
type signer struct {
	Key
	private ed25519.PrivateKey
}

func newSigner(t testing.TB, name string) signer {
	t.Helper()
	seed := bytes.Repeat([]byte(name[:1]), ed25519.SeedSize)
	private := ed25519.NewKeyFromSeed(seed)
	public := private.Public().(ed25519.PublicKey) //nolint:forcetypeassert // it is
	return signer{Key{ID: KeyID(public), Name: name, Public: public}, private}
}

func (s signer) give(t testing.TB, counter uint64, o order.Order, term time.Duration) *routerpb.SignedOrder {
	t.Helper()
	o.Actor, o.Reason, o.Expires = "whoever", "test", o.At.Add(term)
	return s.sign(t, &routerpb.SignedPayload{ClusterId: "c", Counter: counter, Order: o.Proto()})
}

func (s signer) cancel(t testing.TB, counter, of uint64) *routerpb.SignedOrder {
	t.Helper()
	return s.sign(t, &routerpb.SignedPayload{ClusterId: "c", Counter: counter, Cancel: ID(s.ID, of)})
}

func (s signer) sign(t testing.TB, p *routerpb.SignedPayload) *routerpb.SignedOrder {
	t.Helper()
	m, err := Sign(s.private, p)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func evacuate(target string) order.Order {
	return order.Order{Kind: order.Evacuate, Target: target, At: noon}
}

func codeOf(err error) Code {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Code
	}
	return ""
}

func TestASignedOrderSaysWhoGaveItWhateverItSaysItself(t *testing.T) {
	ann := newSigner(t, "ann")
	m, err := Open([]Key{newSigner(t, "bob").Key, ann.Key}, "c", ann.give(t, 7, evacuate("region/us"), time.Hour), noon)
	if err != nil {
		t.Fatal(err)
	}
	if m.Order.Actor != "ann" || m.Order.ID != ID(ann.ID, 7) || m.Counter != 7 || m.Order.Target != "region/us" {
		t.Errorf("%+v of %+v", m.Order, m)
	}
	if err := order.CheckID(m.Order.ID); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotGoodIsRefused(t *testing.T) {
	ann, eve := newSigner(t, "ann"), newSigner(t, "eve")
	good := func() *routerpb.SignedOrder { return ann.give(t, 7, evacuate("region/us"), time.Hour) }
	payload := func(change func(*routerpb.SignedPayload)) *routerpb.SignedOrder {
		o := evacuate("region/us")
		o.Actor, o.Reason, o.Expires = "x", "y", noon.Add(time.Hour)
		p := &routerpb.SignedPayload{ClusterId: "c", Counter: 7, Order: o.Proto()}
		change(p)
		return ann.sign(t, p)
	}
	raw := func(p *routerpb.SignedPayload) *routerpb.SignedOrder { // Sign would set the ID
		text, err := proto.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return &routerpb.SignedOrder{Payload: text, Key: ann.ID, Signature: ed25519.Sign(ann.private, append([]byte(domain), text...))}
	}
	for name, c := range map[string]struct {
		m    *routerpb.SignedOrder
		keys []Key
		at   time.Time
		want Code
	}{
		"no keys are configured": {good(), nil, noon, CodeNoKeys},
		"by a stranger":          {eve.give(t, 7, evacuate("region/us"), time.Hour), []Key{ann.Key}, noon, CodeKey},
		"by a stranger in her name": {func() *routerpb.SignedOrder {
			m := eve.give(t, 7, evacuate("region/us"), time.Hour)
			m.Key = ann.ID
			return m
		}(), []Key{ann.Key}, noon, CodeSignature},
		"one bit was turned":         {func() *routerpb.SignedOrder { m := good(); m.Payload[len(m.Payload)/2] ^= 1; return m }(), []Key{ann.Key}, noon, CodeSignature},
		"without a signature":        {&routerpb.SignedOrder{Payload: good().GetPayload(), Key: ann.ID}, []Key{ann.Key}, noon, CodeSignature},
		"signed for something else":  {&routerpb.SignedOrder{Payload: good().GetPayload(), Key: ann.ID, Signature: ed25519.Sign(ann.private, good().GetPayload())}, []Key{ann.Key}, noon, CodeSignature},
		"too long":                   {&routerpb.SignedOrder{Payload: make([]byte, MaxPayload+1), Key: ann.ID}, []Key{ann.Key}, noon, CodeInvalid},
		"for another cluster":        {payload(func(p *routerpb.SignedPayload) { p.ClusterId = "d" }), []Key{ann.Key}, noon, CodeCluster},
		"for no cluster":             {payload(func(p *routerpb.SignedPayload) { p.ClusterId = "" }), []Key{ann.Key}, noon, CodeCluster},
		"expired":                    {good(), []Key{ann.Key}, noon.Add(time.Hour), CodeExpired},
		"for longer than a day":      {payload(func(p *routerpb.SignedPayload) { p.Order.ExpiresUnixMs += order.MaxTerm.Milliseconds() }), []Key{ann.Key}, noon, CodeInvalid},
		"from the future":            {good(), []Key{ann.Key}, noon.Add(-time.Hour), CodeInvalid},
		"without a counter":          {payload(func(p *routerpb.SignedPayload) { p.Counter = 0 }), []Key{ann.Key}, noon, CodeInvalid},
		"both things":                {payload(func(p *routerpb.SignedPayload) { p.Cancel = ID(ann.ID, 1) }), []Key{ann.Key}, noon, CodeInvalid},
		"neither":                    {payload(func(p *routerpb.SignedPayload) { p.Order = nil }), []Key{ann.Key}, noon, CodeInvalid},
		"of a target without a kind": {payload(func(p *routerpb.SignedPayload) { p.Order.Target = "us" }), []Key{ann.Key}, noon, CodeInvalid},
		"under another ID": {raw(&routerpb.SignedPayload{ClusterId: "c", Counter: 7, Order: &routerpb.Order{
			Id: "x", Kind: "freeze", Actor: "x", Reason: "y", AtUnixMs: noon.UnixMilli(), ExpiresUnixMs: noon.Add(time.Hour).UnixMilli(),
		}}), []Key{ann.Key}, noon, CodeInvalid},
		"a withdrawal of another's": {ann.sign(t, &routerpb.SignedPayload{ClusterId: "c", Counter: 8, Cancel: ID(eve.ID, 7)}), []Key{ann.Key}, noon, CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Open(c.keys, "c", c.m, c.at); codeOf(err) != c.want {
				t.Errorf("%v (%q), want %q", err, codeOf(err), c.want)
			}
		})
	}
}

// shelved is a shelf and who may put something on it.
type shelved struct {
	*Shelf
	t    testing.TB
	keys []Key
}

func (s *shelved) take(m *routerpb.SignedOrder, now time.Time) (bool, error) {
	s.t.Helper()
	signed, err := Open(s.keys, "c", m, now)
	if err != nil {
		return false, err
	}
	return s.Take(signed, now)
}

func (s *shelved) must(m *routerpb.SignedOrder, now time.Time) {
	s.t.Helper()
	if taken, err := s.take(m, now); err != nil || !taken {
		s.t.Fatalf("taken %v, %v", taken, err)
	}
}

func (s *shelved) again(now time.Time) {
	s.t.Helper()
	text, err := s.MarshalJSON()
	if err != nil {
		s.t.Fatal(err)
	}
	if s.Shelf, err = ReadShelf(text, s.keys, now); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shelved) holds() string {
	var out []string
	for _, o := range s.Orders() {
		out = append(out, o.String())
	}
	return strings.Join(out, ", ")
}

func TestAnOrderThatWasTakenBackIsNotPlayedAgain(t *testing.T) {
	ann := newSigner(t, "ann")
	s := &shelved{&Shelf{}, t, []Key{ann.Key}}
	given := ann.give(t, 5, evacuate("region/us"), time.Hour)
	s.must(given, noon)
	if taken, err := s.take(given, noon); taken || err != nil {
		t.Errorf("by another way: taken %v, %v", taken, err)
	}
	if s.holds() != "evacuate region/us" {
		t.Fatalf("holds %q", s.holds())
	}
	s.must(ann.cancel(t, 6, 5), noon)
	for _, restart := range []bool{false, true} {
		if restart {
			s.again(noon)
		}
		if taken, _ := s.take(given, noon); taken || s.holds() != "" {
			t.Errorf("after a restart %v it was played again: %q", restart, s.holds())
		}
	}
	if n := len(s.Messages()); n != 1 {
		t.Errorf("%d messages are handed on, want the withdrawal", n)
	}
}

func TestAWithdrawalThatComesFirstCounts(t *testing.T) {
	ann := newSigner(t, "ann")
	s := &shelved{&Shelf{}, t, []Key{ann.Key}}
	s.must(ann.cancel(t, 6, 5), noon)
	s.must(ann.give(t, 5, evacuate("region/us"), time.Hour), noon)
	if s.holds() != "" {
		t.Errorf("holds %q", s.holds())
	}
}

func TestACounterIsForOneOrder(t *testing.T) {
	ann := newSigner(t, "ann")
	s := &shelved{&Shelf{}, t, []Key{ann.Key}}
	s.must(ann.give(t, 5, evacuate("region/us"), time.Hour), noon)
	if _, err := s.take(ann.give(t, 5, evacuate("region/eu"), time.Hour), noon); codeOf(err) != CodeReplayed || s.holds() != "evacuate region/us" {
		t.Errorf("%v, holds %q", err, s.holds())
	}
	s.must(ann.give(t, 4, evacuate("region/eu"), time.Hour), noon) // an earlier one came by a slower way
}

func TestBeyondItsSizeTheWindowShutsOutTheLowest(t *testing.T) {
	ann := newSigner(t, "ann")
	var w Window
	for c := uint64(2); c < MaxMet+12; c++ {
		m, err := Open([]Key{ann.Key}, "c", ann.give(t, c, evacuate("region/us"), time.Hour), noon)
		if err != nil {
			t.Fatal(err)
		}
		if fresh, err := w.Meet(m, noon); !fresh || err != nil {
			t.Fatalf("counter %d: %v, %v", c, fresh, err)
		}
	}
	if len(w.Met) != MaxMet || w.Floor != 11 {
		t.Errorf("remembers %d, floor %d", len(w.Met), w.Floor)
	}
	m, err := Open([]Key{ann.Key}, "c", ann.give(t, 3, evacuate("region/us"), time.Hour), noon)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Meet(m, noon); codeOf(err) != CodeReplayed {
		t.Errorf("counter 3: %v", err)
	}
}

func TestARestoreEndsEarlierEvacuationsInAnyOrderOfComing(t *testing.T) {
	ann, bob := newSigner(t, "ann"), newSigner(t, "bob")
	restore := order.Order{Kind: order.Restore, Target: "region/us", At: noon.Add(time.Minute)}
	late := evacuate("region/us")
	late.At = noon.Add(2 * time.Minute)
	messages := []*routerpb.SignedOrder{
		ann.give(t, 1, evacuate("region/us"), time.Hour), bob.give(t, 1, restore, time.Hour), ann.give(t, 2, late, time.Hour),
		ann.give(t, 3, evacuate("region/eu"), time.Hour),
	}
	const want = "evacuate region/eu, evacuate region/us, restore region/us" // overruled, but not for good
	for _, at := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 0, 3, 2}, {2, 0, 1, 3}} {
		s := &shelved{&Shelf{}, t, []Key{ann.Key, bob.Key}}
		for _, i := range at {
			s.must(messages[i], noon.Add(2*time.Minute))
		}
		got := strings.Split(s.holds(), ", ")
		slices.Sort(got)
		if strings.Join(got, ", ") != want {
			t.Errorf("in order %v: %q", at, got)
		}
	}
}

func TestAQuorumAndAKeyThatIsGoneEndOrders(t *testing.T) {
	ann, bob := newSigner(t, "ann"), newSigner(t, "bob")
	s := &shelved{&Shelf{}, t, []Key{ann.Key, bob.Key}}
	given := ann.give(t, 1, evacuate("region/us"), time.Hour)
	s.must(given, noon)
	s.must(bob.give(t, 1, evacuate("region/eu"), time.Hour), noon)
	s.must(bob.give(t, 2, evacuate("region/ap"), time.Minute), noon)
	if changed := s.End(noon, ID(ann.ID, 1)); !changed || s.Has(ID(ann.ID, 1)) {
		t.Error("it holds though a quorum has ended it")
	}
	if changed, ended := s.Prune(s.keys, "c", noon.Add(time.Minute)); !changed || len(ended) != 0 || s.holds() != "evacuate region/eu" {
		t.Errorf("after its time: %v, %q", ended, s.holds())
	}
	if _, ended := s.Prune([]Key{ann.Key}, "c", noon.Add(time.Minute)); len(ended) != 1 || s.holds() != "" {
		t.Errorf("without the key: %v, %q", ended, s.holds())
	}
	s.must(ann.give(t, 9, evacuate("region/us"), time.Hour), noon)
	if _, ended := s.Prune(s.keys, "d", noon); len(ended) != 1 {
		t.Error("the order of another cluster holds")
	}
}

func TestAShelfIsBounded(t *testing.T) {
	ann := newSigner(t, "ann")
	s := &shelved{&Shelf{}, t, []Key{ann.Key}}
	for c := range uint64(order.MaxOrders) {
		s.must(ann.give(t, c+1, evacuate("region/us"), time.Minute), noon)
	}
	if _, err := s.take(ann.give(t, 1000, evacuate("region/us"), time.Minute), noon); codeOf(err) != CodeFull {
		t.Errorf("error %v", err)
	}
	s.Prune(s.keys, "c", noon.Add(time.Minute))
	late := evacuate("region/us")
	late.At = noon.Add(time.Minute)
	s.must(ann.give(t, 1000, late, time.Minute), noon.Add(time.Minute)) // what was refused was not met
	for c := range uint64(maxCancels + 5) {
		s.must(ann.cancel(t, 2000+c, 1), noon.Add(time.Minute))
	}
	if n := len(s.Messages()); n > maxCancels+1 {
		t.Errorf("%d messages are handed on", n)
	}
}

// Whatever the order in which messages come, how often, and with which restarts between, the same orders hold.
func TestShelvesAgreeWhateverTheOrderOfComing(t *testing.T) {
	ann, bob := newSigner(t, "ann"), newSigner(t, "bob")
	keys := []Key{ann.Key, bob.Key}
	rapid.Check(t, func(rt *rapid.T) {
		var all []*routerpb.SignedOrder
		for i := range rapid.IntRange(1, 10).Draw(rt, "messages") {
			by := rapid.SampledFrom([]signer{ann, bob}).Draw(rt, "by")
			counter := uint64(i + 1)
			if rapid.IntRange(0, 3).Draw(rt, "what") == 0 {
				all = append(all, by.cancel(t, counter, rapid.Uint64Range(1, 10).Draw(rt, "of")))
				continue
			}
			o := order.Order{
				Kind: rapid.SampledFrom([]order.Kind{order.Evacuate, order.Restore}).Draw(rt, "kind"), Target: rapid.SampledFrom([]string{"region/us", "region/eu"}).Draw(rt, "target"),
				At: noon.Add(time.Duration(rapid.IntRange(-3, 0).Draw(rt, "at")) * time.Minute),
			}
			all = append(all, by.give(t, counter, o, time.Hour))
		}
		hold := func(name string) []string {
			s := &shelved{&Shelf{}, t, keys}
			for _, m := range rapid.Permutation(all).Draw(rt, name) {
				for range rapid.IntRange(1, 2).Draw(rt, "times") {
					if _, err := s.take(m, noon); err != nil {
						rt.Fatal(err)
					}
				}
				if rapid.Bool().Draw(rt, "restart") {
					s.again(noon)
				}
			}
			var ids []string
			view := (order.Set{}).With(order.DoorSigned, s.Orders()...).At(noon)
			for _, o := range view.Given() {
				if o.OverruledBy == "" {
					ids = append(ids, o.ID)
				}
			}
			slices.Sort(ids)
			return ids
		}
		if a, b := hold("one way"), hold("another"); !slices.Equal(a, b) {
			rt.Fatalf("%v here, %v there", a, b)
		}
	})
}

func TestKeysAreReadFromLines(t *testing.T) {
	ann := newSigner(t, "ann").Key
	ann.Who = "Ann, SRE on call"
	keys, err := ParseKeys([]byte("# who may sign\n\n" + ann.String() + "\n" + newSigner(t, "bob").String() + "\n"))
	if err != nil || len(keys) != 2 || keys[0].Who != ann.Who || keys[0].ID != ann.ID || keys[1].Name != "bob" {
		t.Errorf("%+v, %v", keys, err)
	}
	for name, c := range map[string]struct{ text, says string }{
		"another algorithm": {"rsa AAAA ann", "line 1: write a key as"},
		"no name":           {"ed25519 AAAA", "write a key as"},
		"no base64":         {"ed25519 !! ann", "no base64"},
		"a short key":       {"ed25519 AAAA ann", "3 bytes"},
		"a bad name":        {strings.Replace(ann.String(), " ann ", " Ann! ", 1), "name"},
		"a key twice":       {ann.String() + "\n" + ann.String(), "line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseKeys([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v does not say %q", err, c.says)
			}
		})
	}
}

func TestAPrivateKeyIsItsOwners(t *testing.T) {
	private, err := Generate()
	if err != nil {
		t.Fatal(err)
	}
	text, err := EncodePrivate(private)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if read, err := ReadPrivate(path); err != nil || !read.Equal(private) {
		t.Errorf("read %v, %v", read, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPrivate(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others can read: %v", err)
	}
	for name, text := range map[string]string{"nothing": "", "another PEM": "-----BEGIN X-----\nAA==\n-----END X-----\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadPrivate(path); err == nil || !strings.Contains(err.Error(), "keygen") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARingFollowsItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write := func(text string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenRing(path); err == nil {
		t.Error("a file that is not there")
	}
	write("# none\n", noon)
	if _, err := OpenRing(path); err == nil || !strings.Contains(err.Error(), "holds no key") {
		t.Errorf("a file without a key: %v", err)
	}
	write(newSigner(t, "ann").String(), noon.Add(time.Second))
	r, err := OpenRing(path)
	if err != nil {
		t.Fatal(err)
	}
	write(newSigner(t, "bob").String(), noon.Add(2*time.Second))
	if keys, err := r.Keys(); err != nil || len(keys) != 1 || keys[0].Name != "bob" {
		t.Errorf("%v, %v", keys, err)
	}
	write("nonsense", noon.Add(3*time.Second))
	for range 2 {
		if keys, err := r.Keys(); err == nil || len(keys) != 1 {
			t.Errorf("a bad file: %v, %v", keys, err)
		}
	}
	if keys, err := (*Ring)(nil).Keys(); keys != nil || err != nil {
		t.Errorf("no ring has %v, %v", keys, err)
	}
}
