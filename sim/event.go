package sim

import "time"

// Request is one prompt as the engine sees it.
type Request struct {
	// ID tells requests apart; it must not be in use.
	ID uint64
	// PromptTokens is the length of the prompt, at least 1.
	PromptTokens int
	// Blocks is the hash chain over the prompt's full blocks of [BlockSize] tokens: two prompts
	// share a cached block if and only if they share its hash. Shorter than
	// PromptTokens/BlockSize: the rest is not shareable. The engine keeps the slice.
	Blocks []uint64
	// OutputTokens is how many tokens the model would say by itself, at least 1.
	OutputTokens int
	// MaxTokens caps the output. 0: no cap.
	MaxTokens int
	// Adapter is the LoRA adapter. Empty: the base model.
	Adapter string
}

// EventKind says what happened to a sequence.
type EventKind uint8

// The kinds of event.
const (
	// Admitted: it left the waiting queue for a batch slot, for the first time or again.
	Admitted EventKind = iota + 1
	// Token: one more token was generated. Only with [Options].Tokens.
	Token
	// First: the first token was generated.
	First
	// Preempted: its KV blocks were taken, and it waits again from the start.
	Preempted
	// Finished: its last token was generated, and it is gone.
	Finished
)

// String is the lower-case name.
func (k EventKind) String() string {
	switch k {
	case Admitted:
		return "admitted"
	case Token:
		return "token"
	case First:
		return "first"
	case Preempted:
		return "preempted"
	case Finished:
		return "finished"
	default:
		return "unknown"
	}
}

// Reason says why a sequence ended, in the words of the OpenAI API.
type Reason string

// The reasons.
const (
	Stop   Reason = "stop"   // the model had said all
	Length Reason = "length" // MaxTokens cut it
)

// Event is something that happened to one sequence.
type Event struct {
	At   time.Duration
	ID   uint64
	Kind EventKind
	// Generated counts the tokens generated so far.
	Generated int
	// Cached counts the prompt tokens that came from the prefix cache at the first admission.
	Cached int
	// Reason is set with Finished.
	Reason Reason
}

// CacheEvent is a change of the prefix cache.
type CacheEvent struct {
	// Hash of the block, as in [Request].Blocks.
	Hash uint64
	// Stored: it was computed and later prompts find it, else it was dropped. As in vLLM, a block that
	// two sequences compute side by side is told of twice, though it is dropped once.
	Stored bool
	// ID and Block of what was stored: which request computed it, and which of its blocks it is, from 0.
	ID    uint64
	Block int
}

// Stats is a snapshot of gauges and counters.
type Stats struct {
	// Waiting and Running count sequences.
	Waiting, Running int
	// BlocksUsed of BlocksTotal are held by running sequences; what is merely cached is free.
	BlocksUsed, BlocksTotal int
	// Counters since the start. Tokens of the prefix cache are of first admissions.
	Submitted, Finished, Aborted uint64
	Preemptions, AdapterLoads    uint64
	Steps                        uint64
	PromptTokens                 uint64
	GenerationTokens             uint64
	PrefixQueries, PrefixHits    uint64
}

// KVUsage is the used share of the KV cache, 0 to 1.
func (s Stats) KVUsage() float64 {
	if s.BlocksTotal == 0 {
		return 0
	}
	return float64(s.BlocksUsed) / float64(s.BlocksTotal)
}
