package pick

// Freshness says how far a candidate's load can be believed.
type Freshness uint8

// The three states of signals.
const (
	Absent Freshness = iota // never seen, or gone
	Stale                   // too old to compare by
	Fresh
)

// AdapterState says what it takes to use the request's adapter at a candidate. Of near-ties the
// lower is taken.
type AdapterState uint8

// The states.
const (
	NoAdapter AdapterState = iota // none is asked for
	Resident                      // loaded
	FreeSlot                      // not loaded, and there is room for it
	Evicts                        // not loaded, and another has to go
)

var adapterStates = [...]string{"none asked for", "resident", "fits in a free slot", "would evict another"}

// String says it for people.
func (s AdapterState) String() string {
	if int(s) < len(adapterStates) {
		return adapterStates[s]
	}
	return "unknown"
}

// Cost is what the adapter adds to the first-token time, in seconds, where loading one takes load
// seconds. An eviction counts as a second load, which the next request for the other adapter waits
// for.
func (s AdapterState) Cost(load float64) float64 {
	switch s {
	case FreeSlot:
		return load
	case Evicts:
		return 2 * load
	case NoAdapter, Resident:
	}
	return 0
}

// Request is what the choice needs to know of the request.
type Request struct {
	// PromptTokens of the whole prompt, estimated.
	PromptTokens int64
	// PrefixKey of PrefixHash is what the request is placed by; see [Key].
	PrefixKey uint64
	// Concurrency of PrefixHash is from how many own requests in flight on a place takes no more
	// while others have fewer, SageMaker's ConcurrencyThreshold. 0: no bound.
	Concurrency int64
}

// Candidate is one endpoint as it stands now, in plain numbers.
type Candidate struct {
	// Hash is of the endpoint's name, spread over 64 bits, and differs from those of others. 0: draws
	// go by the place in the list.
	Hash uint64
	// Waiting and Running are requests queued and in the batch: as last measured, with the
	// router's own dispatches and completions since added.
	Waiting, Running float64
	// InFlight is the router's own requests there.
	InFlight int64
	// Backlog is prompt tokens that the router sent there, less what is believed cached, for which
	// no first token has come; of a pool those that one of its servers has to compute before it takes
	// up another prompt.
	Backlog float64
	// Cached is how many of the request's prompt tokens the endpoint probably holds.
	Cached int64
	// KV is the share 0..1 of the KV cache in use.
	KV float64
	// Prefill is the learned rate in prompt tokens per second; > 0.
	Prefill float64
	// Overhead is the learned part of the first-token time that doesn't depend on the prompt, in
	// seconds.
	Overhead float64
	// Turn is how long a queued request waits for one ahead of it to make room, in seconds: the
	// mean time that a request holds its place, divided by the places.
	Turn float64
	// Adapter is what the request's adapter costs there, in seconds: 0 if it is there or none is
	// wanted; see [AdapterState.Cost].
	Adapter float64
	// Ramp in (0,1) is the share of its usual load that a place may have which has just come back: its
	// predicted time and its requests in flight count as divided by it, but for that share of the
	// requests only what it has to do already. Anything else: 1.
	Ramp float64
	// Freshness of Waiting, Running and KV. InFlight and Backlog are the router's own counts and
	// always hold.
	Freshness Freshness
	// AdapterState is why Adapter is what it is.
	AdapterState AdapterState
}

// ramp is the share of its load that the place may have.
func (c *Candidate) ramp() float64 {
	if c.Ramp > 0 && c.Ramp < 1 {
		return c.Ramp
	}
	return 1
}

// divisors are what is compared divided by, for the request of a random number: of what a place has to
// do already, and of the rest. For its share of the requests one that ramps is as good as any other
// that has as little to do. If it never were it would get nothing while there is little to do at all,
// and be as cold at the end of its ramp.
func (c *Candidate) divisors(i int, rnd uint64) (load, rest float64) {
	r := c.ramp()
	if r < 1 && float64(mix(lot(c, i, rnd))>>11)/(1<<53) < r {
		return r, 1
	}
	return r, r
}

// outstanding is own requests in flight and the one to be placed.
func (c *Candidate) outstanding(i int, rnd uint64) float64 {
	load, rest := c.divisors(i, rnd)
	return float64(c.InFlight)/load + 1/rest
}
