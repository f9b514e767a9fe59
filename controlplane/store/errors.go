package store

import (
	"errors"
	"fmt"

	"anabranch/api/fleet"
)

// Errors of this package. Of those that [Store.Propose] returns only ErrUnknownOutcome leaves it
// open whether the command is in the log: after it, only a command that is harmless twice may be
// sent again. After any other the command certainly was not proposed.
var (
	// ErrUnknownOutcome says that the command may or may not be committed, now or later.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrReadOnly says that the disk is nearly full and the node takes no more writes.
	ErrReadOnly = errors.New("read-only: disk nearly full")
	// ErrTooLarge says that a command exceeds [MaxEntryBytes].
	ErrTooLarge = errors.New("command too large")
	// ErrTooNew says that not every voter is known to apply the command: upgrade all nodes first.
	ErrTooNew = errors.New("the cluster's feature level is too low")
	// ErrBusy says that the command could not be queued in time; it was not proposed.
	ErrBusy = errors.New("too busy to take the command")
	// ErrClosed says that the store is not running (yet, or any more).
	ErrClosed = errors.New("store is not running")
	// ErrForeignFolder says that the data folder belongs to another node or cluster.
	ErrForeignFolder = errors.New("data folder belongs elsewhere")
	// ErrEmptied says that a voter has lost its data folder and was about to vote as if it had never
	// voted: what it had acknowledged would be lost, or two leaders elected in one term.
	ErrEmptied = errors.New("a voter's data folder was emptied")
	// ErrForeignCluster says that a peer belongs to another cluster.
	ErrForeignCluster = errors.New("peer belongs to another cluster")
	// ErrDiskFull says that there is too little space to start.
	ErrDiskFull = errors.New("too little disk space to start")
	// ErrCorruptSnapshot says that a snapshot cannot be read and that what is left does not hold all
	// that the node had: it needs an empty folder and another id, and joins anew.
	ErrCorruptSnapshot = errors.New("snapshot corrupt")
	// ErrNotEmpty says that a folder which was to be a new node's holds one's data already.
	ErrNotEmpty = errors.New("data folder is not empty")
	// ErrTooFewVoters says that a removal would leave fewer than [MinVoters].
	ErrTooFewVoters = errors.New("too few voters would be left")
	// ErrNotMember says that a node is no member of the cluster.
	ErrNotMember = errors.New("not a member")
	// ErrNotVoter says that a member cannot lead, because it does not vote yet.
	ErrNotVoter = errors.New("not a voter")
	// ErrAddressTaken says that another member is reached at the address.
	ErrAddressTaken = errors.New("address taken")
	// ErrNoSuccessor says that no other node has taken the leadership over: this one still leads.
	ErrNoSuccessor = errors.New("nobody took the leadership over")
)

// ErrNotLeader says that another node leads, or nobody does. The command was not proposed.
type ErrNotLeader struct { //nolint:errname // reads as the sentinel that it would be without fields
	// ID and Address of the leader, empty if none is known.
	ID      fleet.NodeID
	Address string
}

// Error names the leader if there is one.
func (e ErrNotLeader) Error() string {
	if e.ID == "" {
		return "not the leader, and no leader is known"
	}
	return fmt.Sprintf("not the leader: that is %s at %s", e.ID, e.Address)
}
