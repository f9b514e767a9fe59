package pick

// KV pressure: above kvFull of the cache, a newcomer may push others out, whose prompts are then
// computed again. The penalty grows with the square of the excess up to kvPenalty seconds.
const (
	kvFull    = 0.85
	kvPenalty = 2.0
)

// defaultPrefill stands in for a rate that isn't known, in tokens per second.
const defaultPrefill = 5000

// Times is what a predicted first-token time consists of, in seconds.
type Times struct {
	// Wait until the prompt's turn: own prompts still being computed there / prefill rate, or, if
	// requests queue for room in the batch, the time until as many as queue have left it, whichever
	// is longer.
	Wait float64
	// Prefill is overhead + uncached prompt tokens / prefill rate.
	Prefill float64
	// Adapter is the time to load it.
	Adapter float64
	// KV is a penalty for a KV cache that is nearly full.
	KV float64
}

// Total is the predicted time to the first token.
func (t Times) Total() float64 { return t.Wait + t.Prefill + t.Adapter + t.KV }

// Expect predicts the time to the first token at a candidate.
func Expect(req Request, c *Candidate) (t Times) {
	perToken := 1 / c.rate()
	t.Wait = max(c.Backlog, 0) * perToken
	if c.Waiting > 0 {
		t.Wait = max(t.Wait, c.Waiting*c.Turn)
	}
	t.Prefill = c.Overhead + float64(max(req.PromptTokens-c.Cached, 0))*perToken
	t.Adapter = c.Adapter
	if c.KV > kvFull {
		t.KV = pressure(c.KV)
	}
	return t
}

func (c *Candidate) rate() float64 {
	if c.Prefill > 0 {
		return c.Prefill
	}
	return defaultPrefill
}

func pressure(kv float64) float64 {
	over := min((kv-kvFull)/(1-kvFull), 1)
	return kvPenalty * over * over
}

// Predict is the expected time to the first token at a candidate, in seconds.
func Predict(req Request, c *Candidate) float64 { return Expect(req, c).Total() }

// score is what predictions are compared by.
func score(req Request, c *Candidate, i int, rnd uint64) float64 {
	t := Expect(req, c)
	if c.ramp() == 1 {
		return t.Total()
	}
	load, rest := c.divisors(i, rnd)
	return t.Wait/load + (t.Prefill+t.Adapter+t.KV)/rest
}
