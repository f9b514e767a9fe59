package drill

import "time"

// telling is how many bad requests the limit alone must make likely in a stretch of time, so that its share there says
// something; for a percentile, how many first tokens must be beyond it.
const telling = 10

// stretch is a sum over some seconds.
type stretch struct{ bad, all int64 }

func sum(seconds []Sample, count func(Sample) (bad, all int64)) (s stretch) {
	for _, one := range seconds {
		bad, all := count(one)
		s.bad, s.all = s.bad+bad, s.all+all
	}
	return s
}

// rate judges a share of requests over the limit's time: it must exceed the limit over the whole of it, and in each of
// its parts, so that a short burst does not pass for a state. The parts are as short as can tell: seconds when there are
// requests enough, halves at worst. When there are fewer than Few requests, more is looked back for, up to Patience; when
// there are few even so, it takes more than half of them to be bad.
func (j *judge) rate(cause Cause, signal string, l Limit, count func(Sample) (bad, all int64)) {
	window, whole := j.window(l.For)
	if !whole {
		return // it has not lasted long enough to be judged
	}
	s := sum(window, count)
	for d := 2 * l.For; s.all < Few && d/2 < Patience; d *= 2 {
		window, _ = j.window(min(d, Patience))
		s = sum(window, count)
	}
	over := func(s stretch) bool { return float64(s.bad) > (l.Over+tiny)*float64(s.all) }
	switch {
	case s.all < Few:
		if s.bad < FewBad || 2*s.bad <= s.all {
			j.thin(signal)
			return
		}
	case s.bad < FewBad || !over(s):
		return
	default:
		for _, part := range parts(window, int(float64(s.all)*l.Over/telling)) {
			if p := sum(part, count); p.all > 0 && !over(p) {
				return
			}
		}
	}
	j.breach(Breach{Cause: cause, Signal: signal, Value: share(s.bad, s.all), Threshold: l.Over, Since: window[0].At, For: l.For})
}

// window are the seconds of the last time d. Whole is false while there are leases for a shorter time, or when less than
// half of the seconds are there.
func (j *judge) window(d time.Duration) (seconds []Sample, whole bool) {
	end := j.newest().At
	first := len(j.seconds)
	for first > 0 && end-j.seconds[first-1].At < d.Milliseconds() {
		first--
	}
	seconds = j.seconds[first:]
	reaches := end-seconds[0].At+gap.Milliseconds() > d.Milliseconds()
	if d <= gap { // no second of so few may be missing
		reaches = end-seconds[0].At+time.Second.Milliseconds() >= d.Milliseconds()
	}
	if first == 0 { // leases began here: all of the time must be theirs
		reaches = end-seconds[0].At+time.Second.Milliseconds() >= d.Milliseconds()
	}
	return seconds, reaches && 2*len(seconds) >= int(d/time.Second)
}

// parts cuts seconds into n parts of about the same length, at least two and at most one for each second.
func parts(seconds []Sample, n int) [][]Sample {
	n = min(max(n, 2), len(seconds))
	out := make([][]Sample, 0, n)
	for i := range n {
		out = append(out, seconds[i*len(seconds)/n:(i+1)*len(seconds)/n])
	}
	return out
}

// ttft judges the 95th percentile of the top tier's first tokens. The percentile of a second is that of the shortest
// time up to it that has enough first tokens to tell, 200, at most 10 s; when those hold fewer than Few, of up to Patience.
func (j *judge) ttft(objectiveMs float64) {
	l, top := j.plan.Abort.TTFT, j.base.top()
	limit := max(l.Over*top.P95, objectiveMs)
	if limit <= 0 {
		j.thin(signalTTFT) // neither a baseline nor an objective
		return
	}
	value := func(i int) (float64, bool) { return percentile(j.seconds[:i+1], top.Tier) }
	newest, known := value(len(j.seconds) - 1)
	if !known {
		j.thin(signalTTFT)
		return
	}
	from, ok := j.held(l.For, func(i int) (bool, bool) {
		v, known := value(i)
		return v > limit+tiny, known
	})
	if ok {
		j.breach(Breach{Cause: CauseTTFT, Signal: signalTTFT, Where: "tier " + top.Tier, Value: newest, Threshold: limit, Since: from, For: l.For})
	}
}

// percentile is the 95th at the last of some seconds; false: too few first tokens to tell.
func percentile(seconds []Sample, tier string) (float64, bool) {
	const (
		quantile = 0.95
		window   = 10 * time.Second
		enough   = telling / (1 - quantile)
	)
	counts, total := make([]int64, Buckets), int64(0)
	end := seconds[len(seconds)-1].At
	for i := len(seconds) - 1; i >= 0; i-- {
		age := time.Duration(end-seconds[i].At) * time.Millisecond
		if age >= window && total >= Few || age >= Patience {
			break
		}
		for _, t := range seconds[i].Tiers {
			if t.Tier != tier && tier != "" {
				continue
			}
			for b, n := range t.TTFT {
				counts[min(b, Buckets-1)] += n
				total += n
			}
		}
		if float64(total) >= enough-tiny {
			break
		}
	}
	if total < Few {
		return 0, false
	}
	return quantilesOf(counts).P95, true
}

// Gate judges a stretch of seconds as a whole: whether what traffic has come back to, or was left, is as good as the
// baseline. Nil: it is, as far as there were requests enough to tell. No seconds at all let nothing through.
func Gate(p Plan, b *Baseline, seconds []Sample, objectiveMs float64) *Breach {
	if len(seconds) == 0 {
		return &Breach{Cause: CauseSight, Signal: signalSilent, Value: 1, Threshold: p.Abort.Silent.Over}
	}
	if b == nil {
		b = &Baseline{}
	}
	j := judge{plan: p, base: b, seconds: seconds}
	start, last := seconds[0].At, j.newest()
	for _, c := range last.Clusters {
		if j.counted(last, c) && c.Drilled && !fit(c.Health, p.Kind) {
			return &Breach{Cause: CauseFailback, Signal: signalHealth, Where: string(c.Cluster) + " (" + c.Health + ")", Since: last.At}
		}
		if j.counted(last, c) && c.Saturation > p.Abort.SaturationSoft.Over+tiny {
			return &Breach{Cause: CauseSaturation, Signal: signalSaturation, Where: string(c.Cluster), Value: c.Saturation, Threshold: p.Abort.SaturationSoft.Over, Since: last.At}
		}
	}
	limit := b.Errors + p.Abort.ErrorIncrease.Over
	if s := sum(seconds, j.errors); s.bad >= FewBad && (s.all >= Few || 2*s.bad > s.all) && float64(s.bad) > (limit+tiny)*float64(s.all) {
		return &Breach{Cause: CauseErrors, Signal: signalErrors, Value: share(s.bad, s.all), Threshold: limit, Since: start}
	}
	top := b.top()
	limit = max(p.Abort.TTFT.Over*top.P95, objectiveMs)
	if v, known := percentile(seconds, top.Tier); known && limit > 0 && v > limit+tiny {
		return &Breach{Cause: CauseTTFT, Signal: signalTTFT, Where: "tier " + top.Tier, Value: v, Threshold: limit, Since: start}
	}
	return nil
}

// fit says whether traffic may be brought to a cluster in this state of health; empty: nobody told of it.
func fit(health string, kind Kind) bool {
	return health == "" || health == "HEALTHY" || health == "DRAINED" && kind == FailbackOnly
}
