package report

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/sim/report/stat"
	"anabranch/sim/world"
)

// anyRequests in order of arrival, of all ends and shapes.
func anyRequests(t *rapid.T) []Request {
	at := time.Duration(0)
	places := []string{"", "us", "eu"}
	var out []Request
	for range rapid.IntRange(0, 40).Draw(t, "requests") {
		at += time.Duration(rapid.IntRange(0, 5000).Draw(t, "gap")) * time.Millisecond
		r := Request{
			At: at, Prompt: rapid.IntRange(1, 5000).Draw(t, "prompt"), Attempts: rapid.IntRange(0, 4).Draw(t, "attempts"),
			End: world.End(rapid.IntRange(0, int(world.GaveUp)).Draw(t, "end")), Region: rapid.SampledFrom(places).Draw(t, "region"),
			Queued: time.Duration(rapid.IntRange(0, 100).Draw(t, "queued")) * time.Millisecond,
			Model:  rapid.SampledFrom([]string{"fast", "other"}).Draw(t, "model"), Abroad: rapid.Bool().Draw(t, "abroad"),
		}
		if r.End == world.OK || r.End == world.Cut {
			r.Served = rapid.SampledFrom(places).Draw(t, "served")
			r.Cluster, r.Endpoint = "c-"+r.Served, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "endpoint")
			r.Cached = rapid.IntRange(0, r.Prompt).Draw(t, "cached")
			r.Output = rapid.IntRange(1, 300).Draw(t, "output")
			r.First = at + time.Duration(rapid.IntRange(1, 4000).Draw(t, "ttft"))*time.Millisecond
			r.Last = r.First + time.Duration(rapid.IntRange(0, 30_000).Draw(t, "rest"))*time.Millisecond
		}
		out = append(out, r)
	}
	return out
}

// share of the requests for which both hold; unknown if none are asked about.
func share(requests []Request, of, is func(Request) bool) stat.Number {
	n, k := 0.0, 0.0
	for _, r := range requests {
		if of(r) {
			n++
			if is(r) {
				k++
			}
		}
	}
	return stat.Ratio(k, n)
}

// nearest is the percentile by trying each value in turn.
func nearest(values []float64, p float64) stat.Number {
	best := math.Inf(1)
	for _, v := range values {
		below := 0.0
		for _, w := range values {
			if w <= v {
				below++
			}
		}
		if below*100 >= p*float64(len(values)) {
			best = min(best, v)
		}
	}
	if len(values) == 0 {
		return stat.Unknown
	}
	return stat.Number(best)
}

func same(a, b stat.Number) bool {
	return !a.Known() && !b.Known() || math.Abs(float64(a-b)) <= 1e-9*max(1, math.Abs(float64(b)))
}

// The figures once more, each by itself and as slowly as it is said.
func TestFiguresAgainstTheirDefinitions(t *testing.T) {
	objective := map[string]Objective{"fast": {FirstToken: time.Second, InterToken: 20 * time.Millisecond}}
	rapid.Check(t, func(t *rapid.T) {
		requests := anyRequests(t)
		f := FromReplay(requests, Replay{Objectives: objective})
		whole := func(r Request) bool { return r.End == world.OK }
		asked := func(r Request) bool { return r.End != world.Denied }
		everything := func(Request) bool { return true }
		good := func(r Request) bool {
			o, ok := objective[r.Model]
			if !ok {
				o = Objective{FirstToken: 2 * time.Second, InterToken: 100 * time.Millisecond}
			}
			slow := r.Output > 1 && (r.Last-r.First)/time.Duration(r.Output-1) > o.InterToken
			return whole(r) && r.First-r.At <= o.FirstToken && !slow
		}
		var first, latency, between []float64
		var prompt, cached, retries, violations float64
		for _, r := range requests {
			if r.First > 0 {
				first = append(first, float64(r.First-r.At)/1e6)
				prompt, cached = prompt+float64(r.Prompt), cached+float64(r.Cached)
			}
			if whole(r) {
				latency = append(latency, float64(r.Last-r.At)/1e6)
				if r.Output > 1 {
					between = append(between, float64((r.Last-r.First)/time.Duration(r.Output-1))/1e6)
				}
			}
			if r.Attempts > 1 {
				retries += float64(r.Attempts - 1)
			}
			if r.Abroad {
				violations++
			}
		}
		told := func(r Request) bool { return r.First > 0 && r.Region != "" && r.Served != "" }
		for name, c := range map[string][2]stat.Number{
			"TTFT P50":        {f.TTFT.P50, nearest(first, 50)},
			"TTFT P95":        {f.TTFT.P95, nearest(first, 95)},
			"TTFT P99":        {f.TTFT.P99, nearest(first, 99)},
			"latency P90":     {f.Latency.P90, nearest(latency, 90)},
			"inter-token P95": {f.InterToken.P95, nearest(between, 95)},
			"goodput":         {f.Goodput.Share, share(requests, asked, good)},
			"lost":            {f.Ends.Lost, share(requests, asked, func(r Request) bool { return !whole(r) })},
			"cross-region":    {f.Routing.CrossRegion, share(requests, told, func(r Request) bool { return r.Served != r.Region })},
			"hits":            {f.Routing.HitRate, stat.Ratio(cached, prompt)},
			"retries":         {f.Routing.Retries, stat.Ratio(retries, float64(len(requests)))},
			"violations":      {f.Rules.Violations, stat.Number(violations)},
			"answered":        {f.Ends.Answered, stat.Number(len(latency))},
			"answered/s":      {f.Throughput.Requests * f.Seconds, f.Ends.Answered + 0*stat.Ratio(1, float64(f.Seconds))},
			"goodput by time": {f.Goodput.PerSecond * f.Seconds, share(requests, everything, good)*stat.Number(len(requests)) + 0*stat.Ratio(1, float64(f.Seconds))},
		} {
			if !same(c[0], c[1]) {
				t.Fatalf("%s: %v, want %v", name, c[0], c[1])
			}
		}
		sum := f.Ends.Answered + f.Ends.Shed + f.Ends.Denied + f.Ends.Failed + f.Ends.Cut + f.Ends.GaveUp
		if sum != f.Ends.Requests || int(sum) != len(requests) {
			t.Fatalf("%v ends of %d requests", sum, len(requests))
		}
	})
}

// Shares add up, and what is most is no less than what is fair.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := FromReplay(anyRequests(t), Replay{})
		total := stat.Number(0)
		for _, c := range f.Clusters {
			total += c.Share
			pods := stat.Number(0)
			for _, p := range c.Pods {
				pods += p.Share
			}
			if !same(pods, 1) && pods.Known() {
				t.Fatalf("the pods of %s have %v together", c.Name, pods)
			}
		}
		if len(f.Clusters) > 0 && !same(total, 1) {
			t.Fatalf("clusters have %v together", total)
		}
		b := f.Balance
		if b.CV.Known() && (b.Min > b.Max || b.OverFair < 1-1e-9 || b.CV < 0) {
			t.Fatalf("%+v", b)
		}
	})
}

// An exact bucket never admits more than its burst and what flows in, and all
// that is asked for within its burst.
func TestExactBucketKeepsItsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := world.Quota{Tokens: int64(rapid.IntRange(60, 6000).Draw(t, "tokens")), Burst: int64(rapid.IntRange(50, 500).Draw(t, "burst"))}
		at := time.Duration(0)
		var arrivals []arrival
		for range rapid.IntRange(1, 60).Draw(t, "arrivals") {
			at += time.Duration(rapid.IntRange(0, 3000).Draw(t, "gap")) * time.Millisecond
			arrivals = append(arrivals, arrival{at: at, tokens: rapid.IntRange(1, 50).Draw(t, "tokens")})
		}
		got := float64(exact(arrivals, q))
		if most := float64(q.Burst) + at.Minutes()*float64(q.Tokens); got > most+1e-6 {
			t.Fatalf("%v admitted, and %v could be", got, most)
		}
		asked := 0.0
		for _, a := range arrivals {
			asked += float64(a.tokens)
		}
		if asked <= float64(q.Burst) && got != asked {
			t.Fatalf("%v of %v admitted, within the burst of %d", got, asked, q.Burst)
		}
	})
}

// A weight that is told twice as often moves as much.
func TestChurnDependsOnTheMovesAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.SliceOfN(rapid.Float32Range(0, 1), 2, 40).Draw(t, "row")
		var twice []float32
		for _, v := range row {
			twice = append(twice, v, v)
		}
		minutes := func(n int) []time.Duration { return []time.Duration{0, time.Duration(n) * time.Minute} }
		once, again := churn([][]float32{row}, 1, minutes(1)), churn([][]float32{twice}, 1, minutes(1))
		if !same(once.PerMinute, again.PerMinute) || !same(once.Reversals, again.Reversals) {
			t.Fatalf("%+v, and told twice %+v", once, again)
		}
		if slow := churn([][]float32{row}, 1, minutes(2)); !same(slow.PerMinute*2, once.PerMinute) {
			t.Fatalf("%v a minute, in twice the time %v", once.PerMinute, slow.PerMinute)
		}
	})
}
