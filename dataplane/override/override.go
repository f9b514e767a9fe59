// Package override keeps the emergency orders that are given to this router alone, where no control
// plane can be asked: take no new table, go back to an earlier one, send nothing to a cluster or
// region or use it again, refuse what matters less. They come from a file in the data folder or
// through a socket beside it, each with who gave it and why, and each ends by itself. Which of them
// hold at a moment is decided here; doing what they say is the router's.
package override

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// Kind of an order.
type Kind string

// The kinds of order.
const (
	Freeze   Kind = "freeze"   // take no new table
	Evacuate Kind = "evacuate" // no new requests to a cluster or region
	Restore  Kind = "restore"  // use a cluster or region, whatever other orders say
	Revert   Kind = "revert"   // serve by an earlier table
	Shed     Kind = "shed"     // refuse requests below a priority
)

// Kinds lists all kinds.
var Kinds = []Kind{Freeze, Evacuate, Restore, Revert, Shed}

const (
	// DefaultTerm is how long an order holds that does not say.
	DefaultTerm = 30 * time.Minute
	// MaxTerm is how long an order can hold at most. One that is needed for longer is given again.
	MaxTerm = 24 * time.Hour
	// MaxPriority bounds [Order.Priority]: requests of the top tier are not shed by order.
	MaxPriority = 100

	maxOrders = 64  // of one door
	maxText   = 512 // of an actor or a reason, in bytes
	maxSkew   = 5 * time.Minute
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

// check names the first thing wrong with an order that is taken at now, and what would be right.
func (o *Order) check(now time.Time) error {
	if err := o.kind(); err != nil {
		return err
	}
	if err := text("actor", o.Actor); err != nil {
		return err
	}
	if err := text("reason", o.Reason); err != nil {
		return err
	}
	switch term := o.Expires.Sub(o.At); {
	case term <= 0:
		return errors.New("it ends before it begins: let it hold for 1s or longer")
	case term > MaxTerm:
		return fmt.Errorf("it would hold for %s: at most %s, give it again when that is over", term, MaxTerm)
	case o.At.Sub(now) > maxSkew:
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
	case Freeze:
		return nil
	case Evacuate, Restore:
		if _, name := o.place(); fleet.CheckName(name) != nil {
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
	return fmt.Errorf("kind %q is not known: use freeze, evacuate, restore, revert or shed", o.Kind)
}

func text(field, value string) error {
	switch {
	case strings.TrimSpace(value) == "":
		return fmt.Errorf("%s is missing: every order has one", field)
	case len(value) > maxText:
		return fmt.Errorf("%s has %d bytes: at most %d", field, len(value), maxText)
	case strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%s holds what can't be printed: use one line of text", field)
	}
	return nil
}

// place is what Target names: clusters ("cluster"), regions ("region") or both ("").
func (o *Order) place() (what, name string) {
	if what, name, ok := strings.Cut(o.Target, "/"); ok && (what == "cluster" || what == "region") {
		return what, name
	}
	return "", o.Target
}

// ref is the table that a revert names.
func (o *Order) ref() table.Ref { return table.Ref{Epoch: o.Epoch, Revision: o.Revision} }
