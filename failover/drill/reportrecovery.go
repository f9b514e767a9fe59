package drill

// staysAway is for how many samples a share must have left to have left.
const staysAway = 3

// recoveryOf splits the time from when everything was ordered away.
func recoveryOf(kind Kind, samples []Sample, events []Happening) Recovery {
	var r Recovery
	at := ordered(samples)
	if at < 0 {
		return r
	}
	r.FromUnixMs = orderedAt(samples, events, at)
	first := func(of string) *int64 {
		for _, e := range events {
			if e.Kind == of && e.AtUnixMs >= r.FromUnixMs {
				return since(r.FromUnixMs, e.AtUnixMs)
			}
		}
		return nil
	}
	r.DetectMs, r.DecideMs = first(OfRouter), first(OfDecision)
	from := r.FromUnixMs
	if r.DecideMs != nil {
		from += *r.DecideMs
	}
	for _, s := range samples[at:] {
		if s.At >= from && s.Routers > 0 && s.Obeying*100 >= s.Routers*99 {
			r.PropagateMs = since(r.FromUnixMs, s.At)
			break
		}
	}
	if kind != FailbackOnly && kind != Shadow { // nothing leaves
		r.HalfMs = left(samples, at, r.FromUnixMs, 0.5)
		r.NinetyNineMs = left(samples, at, r.FromUnixMs, 0.99)
	}
	return r
}

func since(from, at int64) *int64 {
	ms := max(0, at-from)
	return &ms
}

// ordered is the first sample of the most that was ever ordered away; -1: nothing was.
func ordered(samples []Sample) int {
	most, at := 0, -1
	for i, s := range samples {
		if s.Shifted > most {
			most, at = s.Shifted, i
		}
	}
	return at
}

// orderedAt is when the sample's step began: by the event that says so, which is finer than a sample, if
// there is one of the second before it.
func orderedAt(samples []Sample, events []Happening, at int) int64 {
	s := samples[at]
	for _, e := range events {
		if e.Kind == OfTransition && e.State == Shifting && e.Step == s.Step && e.AtUnixMs <= s.At && s.At-e.AtUnixMs <= 2000 {
			return e.AtUnixMs
		}
	}
	return s.At
}

// left is the time until a share of what was to leave drilled clusters had left, and stayed away for
// [staysAway] samples.
func left(samples []Sample, at int, from int64, share float64) *int64 {
	before := 0
	base, n := 0.0, 0
	for i := at - 1; i >= 0 && n < 30; i-- {
		if v, ok := drilledShare(samples[i]); ok {
			if n == 0 {
				before = samples[i].Shifted
			}
			if samples[i].Shifted != before {
				break
			}
			base, n = base+v, n+1
		}
	}
	if n == 0 || base == 0 {
		return nil // it isn't known what was there, or nothing was
	}
	base /= float64(n)
	const all = 1e6
	goal := base * (all - float64(samples[at].Shifted)) / (all - float64(before))
	run := -1
	for i := at; i < len(samples) && samples[i].Shifted == samples[at].Shifted; i++ {
		v, ok := drilledShare(samples[i])
		switch {
		case !ok:
			continue
		case base-v < share*(base-goal):
			run = -1
			continue
		case run < 0:
			run = i
		}
		if i-run+1 >= staysAway {
			return since(from, samples[run].At)
		}
	}
	return nil
}

// drilledShare is the share of the scope's requests that drilled clusters answered; false: there were none.
func drilledShare(s Sample) (float64, bool) {
	if s.Scoped <= 0 {
		return 0, false
	}
	return float64(s.Scoped-s.Away) / float64(s.Scoped), true
}
