package report

import (
	"time"

	"anabranch/sim/report/stat"
	"anabranch/sim/world"
)

// quotas sets what each limited tenant was admitted against an exact bucket that sees the same
// requests in order of arrival. A request that was denied would have had as long an answer as the
// tenant's others on average.
func (f *Figures) quotas(requests []Request, limits []world.Quota) {
	f.Rules.QuotaOver, f.Rules.QuotaUnder = stat.Unknown, stat.Unknown
	for _, q := range limits {
		t := Tenant{Name: string(q.Tenant), PerMinute: q.Tokens}
		var asked []arrival
		answers, output := 0, 0
		for i := range requests {
			r := &requests[i]
			if r.Tenant != t.Name || r.End == world.Shed || r.End == world.Failed {
				continue
			}
			if r.End != world.Denied {
				t.Admitted += int64(r.Prompt + r.Output)
				answers, output = answers+1, output+r.Output
			}
			asked = append(asked, arrival{r.At, r.Prompt + r.Output, r.End == world.Denied})
		}
		for i := range asked {
			if asked[i].denied && answers > 0 {
				asked[i].tokens += output / answers
			}
		}
		t.Exact = exact(asked, q)
		f.Tenants = append(f.Tenants, t)
		if t.Exact == 0 {
			continue
		}
		off := stat.Number(float64(t.Admitted)/float64(t.Exact) - 1)
		f.Rules.QuotaOver = higher(f.Rules.QuotaOver, max(off, 0))
		f.Rules.QuotaUnder = higher(f.Rules.QuotaUnder, max(-off, 0))
	}
}

// higher of two figures, as far as they are known.
func higher(a, b stat.Number) stat.Number {
	if !a.Known() && b.Known() || b > a {
		return b
	}
	return a
}

type arrival struct {
	at     time.Duration
	tokens int
	denied bool
}

// exact is how many tokens a bucket that begins full admits of the arrivals, which are in order. A
// request larger than the bucket is admitted by a full one, and leaves a debt.
func exact(arrivals []arrival, q world.Quota) int64 {
	burst := float64(q.Burst)
	if q.Burst == 0 {
		burst = float64(q.Tokens)
	}
	level, last, sum := burst, time.Duration(0), int64(0)
	for _, a := range arrivals {
		level = min(burst, level+(a.at-last).Minutes()*float64(q.Tokens))
		last = a.at
		if level >= min(float64(a.tokens), burst) {
			level -= float64(a.tokens)
			sum += int64(a.tokens)
		}
	}
	return sum
}
