package endpoint

import "sync"

// trust says how far the index of prompts can be believed of a server that doesn't tell of cached
// tokens in its replies but counts them on its page: the share of prompt tokens that it found in its
// cache over the share that was expected to be there. A server without a prefix cache, or one whose
// cache turns over sooner than is believed, then no longer draws prompts that it has to compute.
type trust struct {
	mu             sync.Mutex // guards what follows
	asked, hits    float64    // tokens on its page, fading
	sent, expected float64    // own prompt tokens, and those of them believed cached; fading

	factor atomicFloat // 0: not known
}

const (
	// trustTokens is how many tokens must be seen before the factor says anything, and trustFade
	// what older ones shrink to each time that as many more have come.
	trustTokens = 20_000
	trustFade   = 0.5
	// trustShare of the tokens that a server looked up must be of own requests, or its counters tell
	// of others', and trustExpected of those must have been believed cached.
	trustShare    = 0.5
	trustExpected = 0.05
)

// begin counts a prompt in.
func (t *trust) begin(tokens, cached float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent += tokens
	t.expected += cached
}

// see takes in what a server's counters did between two pages.
func (t *trust) see(old, s *Signals) {
	if old == nil || s.asked <= old.asked || old.asked == 0 || s.hits < old.hits {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked += s.asked - old.asked
	t.hits += s.hits - old.hits
	if t.asked < trustTokens || t.sent < trustTokens {
		return
	}
	if t.sent >= trustShare*t.asked && t.expected >= trustExpected*t.sent {
		t.factor.store(min(max((t.hits/t.asked)/(t.expected/t.sent), 0.01), 1))
	}
	t.asked, t.hits, t.sent, t.expected = t.asked*trustFade, t.hits*trustFade, t.sent*trustFade, t.expected*trustFade
}

// of is how many of the tokens believed cached to count on.
func (t *trust) of(cached int64) int64 {
	if f := t.factor.load(); f > 0 {
		return int64(f * float64(cached))
	}
	return cached
}
