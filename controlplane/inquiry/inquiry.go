// Package inquiry asks routers over the streams that they hold open: what became of a request, how the places
// of a cluster stand, and what is decided from now on. A [Desk] asks the routers connected to its own node, [Desks] those
// of all nodes. What records say is the routers' matter, who may see them the caller's.
package inquiry

import (
	"errors"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// Why there is no answer.
var (
	// ErrUnknownRouter says that no node has heard of the router lately.
	ErrUnknownRouter = errors.New("no such router")
	// ErrNotConnected says that the router is not connected: to any node, or to the one that was asked.
	ErrNotConnected = errors.New("the router is not connected")
	// ErrTooOld says that the router's build answers no such questions.
	ErrTooOld = errors.New("the router's build answers no questions")
	// ErrBusy says that too much waits for the router already.
	ErrBusy = errors.New("the router is asked too much")
)

// Explanation is what a router remembers of a request.
type Explanation struct {
	Node   fleet.NodeID // that the router is connected to
	Router fleet.RouterID
	Region fleet.RegionID
	// Record is JSON as the router's admin page writes it. Empty: it remembers no such request.
	Record []byte
	// Oldest is when the oldest request came that it remembers, zero if there is none, and Most how many
	// it remembers at most.
	Oldest time.Time
	Most   int
}

// Inspection is how a router sees the places of a cluster.
type Inspection struct {
	Node   fleet.NodeID // that the router is connected to
	Router fleet.RouterID
	Region fleet.RegionID
	// Sight is what it said, never nil where there is no error.
	Sight *routerpb.Inspected
}

// News is one piece of what a tail tells: records of a router, or, where Router is empty, how many
// routers are followed.
type News struct {
	Node   fleet.NodeID // that the router is connected to
	Router fleet.RouterID
	Region fleet.RegionID
	// Records are JSON as routers' admin pages write them, the oldest first; Dropped is how many more
	// there were.
	Records [][]byte
	Dropped uint64
	// Standing is set where Router is empty.
	Standing Standing
}

// Standing is who is followed.
type Standing struct {
	Following int
	// Unable are routers that can't be followed, because of their build or because they serve too many
	// tails.
	Unable []fleet.RouterID
	// Missing are nodes whose routers can't be followed now.
	Missing []fleet.NodeID
}
