package sim

// sequence is one request on its way through.
type sequence struct {
	req       Request
	target    int // tokens to generate
	blocks    []int32
	published int // leading blocks whose content is in the index, or was there before
	cached    int
	admitted  bool // once at least
	running   bool
	gone      bool // finished or aborted; skipped when the step in flight ends

	// Progress, up to date unless the sequence decodes.
	total     int // prompt and generated tokens
	computed  int // tokens whose KV is in blocks
	generated int

	// Of a sequence that decodes; see decoders.
	decoding bool
	last     uint64 // the tick that brings its last token
	order    uint64 // among those that decode
	heap     int    // where it is in decoders.ends
}

// cacheable are the blocks that a sequence can take from the prefix cache. At least one token is
// always computed, for there is no output without one.
func (s *sequence) cacheable() []uint64 {
	return s.req.Blocks[:min(len(s.req.Blocks), (s.total-1)/BlockSize)]
}

// share is the part of a step that one sequence gets which does not decode.
type share struct {
	seq    *sequence
	tokens int
}

// blocksFor is the number of blocks that hold so many tokens.
func blocksFor(tokens int) int { return (tokens + BlockSize - 1) / BlockSize }
