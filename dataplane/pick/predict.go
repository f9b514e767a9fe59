package pick

// KV pressure: above kvFull of the cache, a newcomer may push others out, whose prompts are then
// computed again. The penalty grows with the square of the excess up to kvPenalty seconds.
const (
	kvFull    = 0.85
	kvPenalty = 2.0
)

// defaultPrefill stands in for a rate that isn't known, in tokens per second.
const defaultPrefill = 5000

// Predict is the expected time to the first token at a candidate, in seconds:
//
//	wait     own prompts still being computed there / prefill rate, or, if requests queue for room
//	         in the batch, the time until as many as queue have left it, whichever is longer
//	prefill  overhead + uncached prompt tokens / prefill rate
//	adapter  time to load it
//	kv       penalty for a KV cache that is nearly full
func Predict(req Request, c *Candidate) float64 {
	rate := c.Prefill
	if !(rate > 0) {
		rate = defaultPrefill
	}
	wait := max(c.Backlog, 0) / rate
	if c.Waiting > 0 {
		wait = max(wait, c.Waiting*c.Turn)
	}
	uncached := float64(max(req.PromptTokens-c.Cached, 0))
	s := wait + c.Overhead + uncached/rate + c.Adapter
	if over := c.KV - kvFull; over > 0 {
		over = min(over/(1-kvFull), 1)
		s += kvPenalty * over * over
	}
	return s
}
