// Package order says what emergency orders are: their kinds, what each must say, how long it holds, and which of two
// that conflict holds. It is pure; how orders travel without a quorum is package signed's, and doing what they say is
// for others. See DESIGN.md.
package order

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// Kind of an order.
type Kind string

// The kinds of order.
const (
	Freeze     Kind = "freeze"      // take no new table
	Evacuate   Kind = "evacuate"    // no new requests to a cluster or region
	Restore    Kind = "restore"     // use a cluster or region, whatever other orders say
	Revert     Kind = "revert"      // serve by an earlier table
	Shed       Kind = "shed"        // refuse requests below a priority
	StopDrills Kind = "stop-drills" // end the drill under way, begin none
)

// Kinds lists all kinds.
var Kinds = []Kind{Freeze, Evacuate, Restore, Revert, Shed, StopDrills}

// Doors by which a router gets orders.
const (
	DoorControlPlane = "controlplane" // by quorum
	DoorSigned       = "signed"       // without quorum, under a signature
	DoorSocket       = "socket"       // of the router
	DoorFile         = "file"         // in its data folder
)

// Doors lists all doors.
var Doors = []string{DoorControlPlane, DoorSigned, DoorSocket, DoorFile}

const (
	// DefaultTerm is how long an order holds that does not say.
	DefaultTerm = 4 * time.Hour
	// MaxTerm is how long an order can hold at most. One that is needed for longer is given again.
	MaxTerm = 24 * time.Hour
	// MaxPriority bounds [Order.Priority]: requests of the top tier are not shed by order.
	MaxPriority = 100

	// MaxOrders is how many orders of one door hold at a time.
	MaxOrders = 64
	// MaxText bounds an actor or a reason, in bytes.
	MaxText = 512
	// MaxID bounds [Order.ID], in bytes.
	MaxID = 63
	// MaxSkew is how far ahead of our clock that of who gives an order may be.
	MaxSkew = 5 * time.Minute
)

// Order is one emergency order.
type Order struct {
	// ID names it, to cancel it. The router makes it up where it isn't given.
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	// Target of evacuate and restore: the name of a cluster or a region. Where both have it,
	// "cluster/NAME" or "region/NAME".
	Target string `json:"target,omitempty"`
	// Epoch and Revision of revert name the table. Epoch 0: the newest that has the revision.
	Epoch    uint64 `json:"epoch,omitempty"`
	Revision uint64 `json:"revision,omitempty"`
	// Priority of shed: requests below it are refused; at most [MaxPriority].
	Priority int32 `json:"priority,omitempty"`
	// Actor gave it, and Reason is why. Neither is empty.
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
	// At is when it was given, Expires when it ends.
	At      time.Time `json:"at"`
	Expires time.Time `json:"expires"`
}

// Check names the first thing wrong with an order that is taken at now, and what would be right.
func (o *Order) Check(now time.Time) error {
	if err := o.kind(); err != nil {
		return err
	}
	if err := Text("actor", o.Actor); err != nil {
		return err
	}
	if err := Text("reason", o.Reason); err != nil {
		return err
	}
	switch term := o.Expires.Sub(o.At); {
	case term <= 0:
		return errors.New("it ends before it begins: let it hold for 1s or longer")
	case term > MaxTerm:
		return fmt.Errorf("it would hold for %s: at most %s, give it again when that is over", term, MaxTerm)
	case o.At.Sub(now) > MaxSkew:
		return fmt.Errorf("it was given at %s, which is yet to come: an order holds from when it is given", o.At.Format(time.RFC3339))
	}
	return nil
}

// kind checks that an order says what its kind needs, and nothing that another kind does.
func (o *Order) kind() error {
	if o.Target != "" && o.Kind != Evacuate && o.Kind != Restore {
		return fmt.Errorf("target is for evacuate and restore, not for %s: leave it out", o.Kind)
	}
	if (o.Revision != 0 || o.Epoch != 0) && o.Kind != Revert {
		return fmt.Errorf("epoch and revision are for revert, not for %s: leave them out", o.Kind)
	}
	if o.Priority != 0 && o.Kind != Shed {
		return fmt.Errorf("priority is for shed, not for %s: leave it out", o.Kind)
	}
	switch o.Kind {
	case Freeze, StopDrills:
		return nil
	case Evacuate, Restore:
		if _, name := o.Place(); fleet.CheckName(name) != nil {
			return fmt.Errorf("target %q is no name: give a cluster or a region, or cluster/NAME or region/NAME", o.Target)
		}
		return nil
	case Revert:
		if o.Revision == 0 {
			return errors.New("revision is missing: name the table to go back to")
		}
		return nil
	case Shed:
		if o.Priority > MaxPriority {
			return fmt.Errorf("priority is %d: at most %d, the top tier is not shed by order", o.Priority, MaxPriority)
		}
		return nil
	}
	return fmt.Errorf("kind %q is not known: use freeze, evacuate, restore, revert, shed or stop-drills", o.Kind)
}

// Text says what is wrong with a line of text that people read. Nil: nothing is.
func Text(field, value string) error {
	switch {
	case strings.TrimSpace(value) == "":
		return fmt.Errorf("%s is missing: every order has one", field)
	case len(value) > MaxText:
		return fmt.Errorf("%s has %d bytes: at most %d", field, len(value), MaxText)
	case strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%s holds what can't be printed: use one line of text", field)
	}
	return nil
}

// Place is what Target names: clusters ("cluster"), regions ("region") or both ("").
func (o *Order) Place() (what, name string) {
	if what, name, ok := strings.Cut(o.Target, "/"); ok && (what == "cluster" || what == "region") {
		return what, name
	}
	return "", o.Target
}

// CheckID says what is wrong with the name of an order. Nil: nothing is.
func CheckID(id string) error {
	if len(id) > MaxID {
		return fmt.Errorf("id %.16q… has %d bytes: at most %d", id, len(id), MaxID)
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return fmt.Errorf("id %q: use lower-case letters, digits and '-'", id)
		}
	}
	return nil
}

// ParseTerm reads how long an order holds. Empty: [DefaultTerm].
func ParseTerm(s string) (time.Duration, error) {
	if s == "" {
		return DefaultTerm, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("for %q is no duration: write it like 30m or 2h", s)
	}
	return d, nil
}

// String is the order in the words of the command line.
func (o *Order) String() string {
	switch o.Kind {
	case Evacuate, Restore:
		return string(o.Kind) + " " + o.Target
	case Revert:
		if o.Epoch == 0 {
			return fmt.Sprintf("revert %d", o.Revision)
		}
		return fmt.Sprintf("revert %d/%d", o.Epoch, o.Revision)
	case Shed:
		return fmt.Sprintf("shed %d", o.Priority)
	}
	return string(o.Kind)
}

// FromProto reads an order from the wire. It checks nothing.
func FromProto(p *routerpb.Order) Order {
	return Order{
		ID: p.GetId(), Kind: Kind(p.GetKind()), Target: p.GetTarget(), Epoch: p.GetEpoch(), Revision: p.GetRevision(),
		Priority: p.GetPriority(), Actor: p.GetActor(), Reason: p.GetReason(),
		At: time.UnixMilli(p.GetAtUnixMs()).UTC(), Expires: time.UnixMilli(p.GetExpiresUnixMs()).UTC(),
	}
}

// Proto is the order for the wire.
func (o *Order) Proto() *routerpb.Order {
	return &routerpb.Order{
		Id: o.ID, Kind: string(o.Kind), Target: o.Target, Epoch: o.Epoch, Revision: o.Revision, Priority: o.Priority,
		Actor: o.Actor, Reason: o.Reason, AtUnixMs: o.At.UnixMilli(), ExpiresUnixMs: o.Expires.UnixMilli(),
	}
}

// CheckWire checks an order that is for many routers: it must name itself, and its target must say what it is, since
// they may not all know the same names.
func CheckWire(p *routerpb.Order, now time.Time) error {
	o := FromProto(p)
	if err := o.Check(now); err != nil {
		return err
	}
	if what, _ := o.Place(); what == "" && (o.Kind == Evacuate || o.Kind == Restore) {
		return fmt.Errorf("target %q does not say what it is: write cluster/%s or region/%s", o.Target, o.Target, o.Target)
	}
	if o.ID == "" {
		return errors.New("id is missing: an order for several routers has one")
	}
	return CheckID(o.ID)
}
