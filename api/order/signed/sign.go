// Package signed is how an emergency order travels without a quorum: under an Ed25519 signature, with a counter by which
// a replay is told, bound to one control plane. Nodes and routers keep what they took on a [Shelf], and judge alike.
// See DESIGN.md of package order.
package signed

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/order"
	"anabranch/api/routerpb"
)

// domain is signed before each payload, so that a signature of anything else is none of an order.
const domain = "anabranch-order-v1\n"

// MaxPayload bounds what is signed, in bytes.
const MaxPayload = 4 << 10

// Code says in a word why a signed order is not taken.
type Code string

// The codes.
const (
	CodeNoKeys    Code = "no_keys"         // nobody may sign here
	CodeKey       Code = "unknown_key"     // not this one
	CodeSignature Code = "bad_signature"   // it is not of this key and payload
	CodeCluster   Code = "foreign_cluster" // it is for another control plane
	CodeExpired   Code = "expired"
	CodeInvalid   Code = "invalid"
	CodeReplayed  Code = "replayed" // its counter was used for something else, or is over
	CodeFull      Code = "too_many" // orders hold already
)

// Refusal is why a signed order is not taken.
//
//nolint:errname // what it is called on the wire, too
type Refusal struct {
	Code Code
	Text string // for people, and how to put it right
}

// Error makes a Refusal an error.
func (r *Refusal) Error() string { return r.Text }

func refuse(code Code, format string, args ...any) *Refusal {
	return &Refusal{code, fmt.Sprintf(format, args...)}
}

// Message is what a signed message says, once it is known who signed it. Exactly one of Order and Cancel is set.
type Message struct {
	Key     Key
	Counter uint64
	// Order is given; its actor is who holds the key, whatever the message says.
	Order *order.Order
	// Cancel is the ID of an order of the same key that ends now.
	Cancel string
	// Raw is the message, to be handed on.
	Raw *routerpb.SignedOrder
}

// ID is the ID of the order that a key signs with a counter.
func ID(key string, counter uint64) string {
	return "s" + key + "-" + strconv.FormatUint(counter, 36)
}

// Sign signs a payload. It sets the ID of the order.
func Sign(private ed25519.PrivateKey, p *routerpb.SignedPayload) (*routerpb.SignedOrder, error) {
	id := KeyID(private.Public().(ed25519.PublicKey)) //nolint:forcetypeassert // package ed25519 says so
	p = proto.CloneOf(p)
	if p.GetOrder() != nil {
		p.Order.Id = ID(id, p.GetCounter())
	}
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("sign order: %w", err)
	}
	return &routerpb.SignedOrder{Payload: payload, Key: id, Signature: ed25519.Sign(private, append([]byte(domain), payload...))}, nil
}

// Open says what a signed message says, if one of the keys signed it for this cluster and it has not expired at now.
// The error is a *[Refusal]. An empty cluster is not compared. Whether it was met before is the [Window]'s to say.
func Open(keys []Key, cluster string, m *routerpb.SignedOrder, now time.Time) (Message, error) {
	if len(keys) == 0 {
		return Message{}, refuse(CodeNoKeys, "nobody may sign orders here: no keys are configured, see --emergency-keys")
	}
	var key *Key
	for i := range keys {
		if keys[i].ID == m.GetKey() {
			key = &keys[i]
		}
	}
	switch {
	case key == nil:
		return Message{}, refuse(CodeKey, "key %.16q is not known here: add its public half to the file of --emergency-keys", m.GetKey())
	case len(m.GetPayload()) > MaxPayload:
		return Message{}, refuse(CodeInvalid, "payload has %d bytes: at most %d", len(m.GetPayload()), MaxPayload)
	case !ed25519.Verify(key.Public, append([]byte(domain), m.GetPayload()...), m.GetSignature()):
		return Message{}, refuse(CodeSignature, "the signature is not of key %s and this payload: the order was changed, or signed by another", key.ID)
	}
	var p routerpb.SignedPayload
	if err := proto.Unmarshal(m.GetPayload(), &p); err != nil {
		return Message{}, refuse(CodeInvalid, "payload can't be read: %v", err)
	}
	if p.GetClusterId() == "" || cluster != "" && p.GetClusterId() != cluster {
		return Message{}, refuse(CodeCluster, "the order is for control plane %.40q, this is %s: sign it for this one", p.GetClusterId(), cluster)
	}
	s := Message{Key: *key, Counter: p.GetCounter(), Raw: m}
	switch err := s.fill(&p, now); {
	case errors.As(err, new(*Refusal)):
		return Message{}, err
	case err != nil:
		return Message{}, refuse(CodeInvalid, "%v", err)
	}
	return s, nil
}

func (s *Message) fill(p *routerpb.SignedPayload, now time.Time) error {
	switch {
	case s.Counter == 0:
		return errors.New("counter is 0: it begins at 1")
	case (p.GetOrder() == nil) == (p.GetCancel() == ""):
		return errors.New("exactly one of order and cancel must be set")
	case p.GetOrder() == nil:
		if !strings.HasPrefix(p.GetCancel(), "s"+s.Key.ID+"-") {
			return fmt.Errorf("order %.40q is not of key %s: a key takes back its own orders only; restore, or cancel it with a token when there is a quorum", p.GetCancel(), s.Key.ID)
		}
		s.Cancel = p.GetCancel()
		return order.CheckID(s.Cancel)
	}
	if want := ID(s.Key.ID, s.Counter); p.GetOrder().GetId() != want {
		return fmt.Errorf("id is %.40q: of this key and counter it is %s", p.GetOrder().GetId(), want)
	}
	o := order.FromProto(p.GetOrder())
	o.Actor = s.Key.Name
	if err := order.CheckWire(o.Proto(), now); err != nil {
		return err
	}
	if !now.Before(o.Expires) {
		return refuse(CodeExpired, "the order ended at %s: give it again", o.Expires.Format(time.RFC3339))
	}
	s.Order = &o
	return nil
}
