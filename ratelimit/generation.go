package ratelimit

// generation numbers stretches of an authority's time, each as long as the longest lease, so that a
// lease given in one is over when the next one is. The number never falls, whatever the clock does.
type generation struct {
	n        int64
	startUs  int64
	lengthUs int64
	// sinceUs is when startUs and lengthUs last changed other than by counting on: starts of
	// generations before that can't be told, but none was later.
	sinceUs int64
}

// firstGeneration is that of an authority without a memory.
func firstGeneration(nowUs, lengthUs int64) generation {
	n := nowUs / lengthUs
	return generation{n: n, startUs: n * lengthUs, lengthUs: lengthUs, sinceUs: n * lengthUs}
}

// at counts on to nowUs. A clock that was set back makes the present generation longer; a longer
// lease makes all of them longer, for as long as the authority remembers.
func (g generation) at(nowUs, lengthUs int64) generation {
	if lengthUs > g.lengthUs {
		g.lengthUs, g.sinceUs = lengthUs, nowUs
	}
	if nowUs < g.startUs {
		g.startUs, g.sinceUs = nowUs, nowUs
	}
	passed := (nowUs - g.startUs) / g.lengthUs
	g.n += passed
	g.startUs += passed * g.lengthUs
	return g
}

// start is when generation n began, or later where that can't be told. n is at most g.n.
func (g generation) start(n int64) int64 {
	return max(g.startUs-(g.n-n)*g.lengthUs, min(g.sinceUs, g.startUs))
}

// lives says whether what was leased in generation n may still be spent.
func (g generation) lives(n int64) bool { return n <= g.n && n >= g.n-1 }
