package costmodel

import "math"

// Usage counts tokens and answers. Counts below 0 are taken as 0.
type Usage struct {
	// Input tokens, cached ones included; Cached is the part of them that was in a prefix cache.
	Input, Cached, Output int64
	// Succeeded and Failed answers; those that came to nothing by the client's doing, who left, say, are neither.
	// What was used is counted of all.
	Succeeded, Failed int64
	// Bytes of answers that left the region where they were made for another one.
	Bytes int64
}

// Plus adds up. It saturates.
func (u Usage) Plus(o Usage) Usage {
	return Usage{
		Input: add(u.Input, o.Input), Cached: add(u.Cached, o.Cached), Output: add(u.Output, o.Output),
		Succeeded: add(u.Succeeded, o.Succeeded), Failed: add(u.Failed, o.Failed), Bytes: add(u.Bytes, o.Bytes),
	}
}

func (u Usage) sane() Usage {
	u.Input = max(u.Input, 0)
	return Usage{u.Input, min(max(u.Cached, 0), u.Input), max(u.Output, 0), max(u.Succeeded, 0), max(u.Failed, 0), max(u.Bytes, 0)}
}

// Tokens are input and output tokens.
func (u Usage) Tokens() int64 { return add(max(u.Input, 0), max(u.Output, 0)) }

// Answers are those that succeeded and those that failed.
func (u Usage) Answers() int64 { return add(max(u.Succeeded, 0), max(u.Failed, 0)) }

// Work is what GPUs had to do, in thousandths of what an input token takes.
type Work int64

// CachedWeight is the work of a cached input token where another one is 1: what sellers of tokens ask for one,
// see https://docs.claude.com/en/docs/about-claude/pricing.
const CachedWeight = 0.1

// Weights are the work of tokens where an input token is 1.
type Weights struct {
	// Cached input tokens: their keys and values need not be computed anew, but are read.
	Cached float64
	// Output tokens, as the model's output weight.
	Output float64
}

// Work of a usage. It saturates.
func (w Weights) Work(u Usage) Work {
	u = u.sane()
	return add(add(workOf(u.Input-u.Cached, 1), workOf(u.Cached, w.Cached)), workOf(u.Output, w.Output))
}

// workOf tokens of a weight, which is rounded to thousandths and held between 0 and a million.
func workOf(tokens int64, weight float64) Work {
	if !(weight > 0) { // nor a number
		return 0
	}
	return times(Work(tokens), int64(math.Round(1000*min(weight, million))))
}
