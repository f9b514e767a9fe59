// Package kvevents follows what model servers publish of their KV caches, as vLLM and SGLang do over
// ZeroMQ: which blocks of tokens they store and drop. The router has no tokenizer, so that it can't
// hash a prompt as an engine does; the package finds out which of the engine's blocks stand for which
// blocks of a prompt's text by when they appear and how many they are, and where that is beyond doubt
// it tells dataplane/prefix what is there and what no longer is. See DESIGN.md.
package kvevents

// Kind says what an event is about.
type Kind uint8

// The kinds.
const (
	// Stored: blocks were computed, one after the other, behind Parent.
	Stored Kind = iota + 1
	// Removed: blocks are gone.
	Removed
	// Cleared: all blocks are gone.
	Cleared
)

// String is the name in metrics.
func (k Kind) String() string {
	switch k {
	case Stored:
		return "stored"
	case Removed:
		return "removed"
	case Cleared:
		return "cleared"
	default:
		return "other"
	}
}

// Event is one change of an engine's cache.
type Event struct {
	Kind Kind
	// Hashes of blocks, as the engine calls them; those that it writes as bytes are hashed to 64 bits.
	Hashes []uint64
	// Parent is the block before the first of Stored, where HasParent; else that is a prompt's first.
	Parent    uint64
	HasParent bool
	// BlockSize of Stored in tokens; 0 if it says none.
	BlockSize int
	// Elsewhere: in memory other than a GPU's, from which the engine has to fetch it first.
	Elsewhere bool
	// Tokens of Stored, which [Append] writes. [Batch.Read] passes over them: the router has no
	// business with prompts.
	Tokens []uint32
}

// Batch is what one message says, in the order in which it happened.
type Batch struct {
	Events []Event
	// Unknown counts events of kinds that this package doesn't know.
	Unknown int

	hashes []uint64 // of all events
}

// Topic is what the events of one base model at one endpoint are published under, in the way that
// llm-d has its engines configured: kv@endpoint@model.
func Topic(endpoint, model string) string { return "kv@" + endpoint + "@" + model }
