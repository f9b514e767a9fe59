package report

import (
	"cmp"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/sim/report/stat"
	"anabranch/sim/world"
)

func everySecond(n int) []time.Duration {
	var out []time.Duration
	for i := range n {
		out = append(out, time.Duration(i)*time.Second)
	}
	return out
}

func TestReversals(t *testing.T) {
	for _, c := range []struct {
		name string
		row  []float32
		want int
	}{
		{"nothing", nil, 0},
		{"steady", []float32{0.5, 0.5, 0.5}, 0},
		{"up only", []float32{0.1, 0.2, 0.3, 0.4}, 0},
		{"up and down", []float32{0.1, 0.3, 0.1}, 1},
		{"down and up", []float32{0.3, 0.1, 0.3}, 1},
		{"trembling within the dead-band", []float32{0.5, 0.51, 0.5, 0.51, 0.5}, 0},
		{"there and back in small steps", []float32{0.5, 0.51, 0.52, 0.53, 0.52, 0.51, 0.5}, 1},
		{"to and fro", []float32{0.5, 0.6, 0.5, 0.6, 0.5}, 3},
	} {
		if got := reversals(c.row); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// However a weight goes, it turns no more often than its steps change their sign, and a mirrored walk
// turns as often.
func TestReversalsAreFewerThanTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.SliceOfN(rapid.Float32Range(0, 1), 2, 60).Draw(t, "row")
		turns, last := 0, 0
		mirror := make([]float32, len(row))
		for i := range row {
			mirror[i] = 1 - row[i]
			if i == 0 || row[i] == row[i-1] {
				continue
			}
			step := cmp.Compare(row[i], row[i-1])
			if step == -last {
				turns++
			}
			last = step
		}
		if got := reversals(row); got > turns {
			t.Fatalf("%d reversals in %d turns of %v", got, turns, row)
		}
	})
}

func TestChurn(t *testing.T) {
	// Two regions over two clusters, 61 points: one minute. The first region moves all once.
	still := func(v float32) []float32 {
		row := make([]float32, 61)
		for i := range row {
			row[i] = v
		}
		return row
	}
	gone, come := still(1), still(0)
	for i := 30; i < 61; i++ {
		gone[i], come[i] = 0, 1
	}
	c := churn([][]float32{gone, come, still(0.5), still(0.5)}, 2, everySecond(61))
	near(t, "churn", c.PerMinute, 1) // 2 of one region, 0 of the other
	near(t, "reversals", c.Reversals, 0)
	if none := churn(nil, 2, everySecond(61)); none.PerMinute.Known() {
		t.Error("a policy without weights has a churn")
	}
	if none := churn([][]float32{{1}}, 1, everySecond(1)); none.PerMinute.Known() {
		t.Error("one point has a churn")
	}
}

func TestExactBucket(t *testing.T) {
	at := func(s, tokens int) arrival { return arrival{at: time.Duration(s) * time.Second, tokens: tokens} }
	q := world.Quota{Tokens: 600, Burst: 100} // 10 a second
	for _, c := range []struct {
		name     string
		arrivals []arrival
		want     int64
	}{
		{"within the burst", []arrival{at(0, 60), at(0, 40)}, 100},
		{"beyond it", []arrival{at(0, 60), at(0, 60)}, 60},
		{"filled again", []arrival{at(0, 100), at(5, 60), at(6, 60)}, 160},
		{"never fuller than the burst", []arrival{at(1000, 100), at(1000, 1)}, 100},
		{"larger than the bucket, and a debt", []arrival{at(0, 150), at(5, 1), at(10, 50)}, 200},
	} {
		if got := exact(c.arrivals, q); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if got := exact([]arrival{at(0, 600), at(0, 1)}, world.Quota{Tokens: 600}); got != 600 {
		t.Errorf("without a burst it is a minute's: %d", got)
	}
}

func TestQuotaAccuracy(t *testing.T) {
	request := func(s, tokens int, end world.End) Request {
		return Request{At: time.Duration(s) * time.Second, Prompt: tokens / 2, Output: tokens - tokens/2, End: end, Tenant: "acme"}
	}
	limits := []world.Quota{{Tenant: "acme", Tokens: 600, Burst: 100}}
	for _, c := range []struct {
		name        string
		requests    []Request
		over, under float64
	}{
		{"to the token", []Request{request(0, 100, world.OK), {At: 1, Prompt: 50, End: world.Denied, Tenant: "acme"}}, 0, 0},
		{"too much", []Request{request(0, 100, world.OK), request(0, 50, world.OK)}, 0.5, 0},
		{"too little", []Request{request(0, 50, world.OK), {At: 1, Prompt: 25, End: world.Denied, Tenant: "acme"}}, 0, 0.5},
		{"what was shed was not asked", []Request{request(0, 100, world.OK), request(0, 50, world.Shed)}, 0, 0},
		{"others don't count", []Request{request(0, 100, world.OK), {At: 1, Prompt: 500, Tenant: "globex"}}, 0, 0},
	} {
		var f Figures
		f.quotas(c.requests, limits)
		near(t, c.name+", over", f.Rules.QuotaOver, c.over)
		near(t, c.name+", under", f.Rules.QuotaUnder, c.under)
		if len(f.Tenants) != 1 || f.Tenants[0].PerMinute != 600 {
			t.Errorf("%s: %+v", c.name, f.Tenants)
		}
	}
	var f Figures
	f.quotas(nil, limits)
	unknown(t, "a tenant that asked for nothing", f.Rules.QuotaOver)
}

// lossy is a request each 100 ms for three minutes; those that arrive from..to are too late.
func lossy(from, to time.Duration) []Request {
	var out []Request
	for at := time.Duration(0); at < 3*time.Minute; at += 100 * time.Millisecond {
		r := Request{At: at, First: at + 500*time.Millisecond, Last: at + time.Second, Output: 10}
		if at >= from && at < to {
			r.First, r.Last = at+5*time.Second, at+6*time.Second
		}
		out = append(out, r)
	}
	return out
}

func TestRecovery(t *testing.T) {
	event := func(at time.Duration) *world.Result {
		return &world.Result{
			Spec: &world.Spec{Events: []world.Event{{At: 500 * time.Second}, {At: at, Kind: world.Lost}}},
			Points: []time.Duration{
				30 * time.Second, 70 * time.Second, 100 * time.Second,
			},
			Series: world.Series{
				Waiting: [][]float32{{90, 8, 2}, {0, 3, 4}}, Ready: [][]float32{{1, 4, 4}, {2, 0, 1}},
			},
		}
	}
	same := func(string) Objective { return defaultObjective }
	got := recovery(event(60*time.Second), lossy(60*time.Second, 83*time.Second), 0, same)
	near(t, "seconds", got.Seconds, 25) // the fifth bucket of 5 s is still bad
	near(t, "peak", got.Peak, 4)        // 4 in one ready pod; the 90 were before
	near(t, "lost", got.Lost, 0)
	near(t, "no dip", recovery(event(60*time.Second), lossy(0, 0), 0, same).Seconds, 0)
	end := recovery(event(60*time.Second), lossy(60*time.Second, time.Hour), 0, same).Seconds
	if end < 119 || end > 120 {
		t.Errorf("never back: %v s, want the rest of the run", end)
	}
	requests := lossy(0, 0)
	requests[610].End, requests[100].End, requests[620].End = world.Cut, world.OK, world.Denied
	requests[5].End = world.Failed // at 500 ms: a minute before the event is 0 s
	near(t, "lost", recovery(event(60*time.Second), requests, 0, same).Lost, 2)
	unknown(t, "an event in the warm-up", recovery(event(60*time.Second), requests, 600*time.Second, same).Seconds)
	unknown(t, "an event after the last request", recovery(event(300*time.Second), requests, 200*time.Second, same).Lost)
}

func TestTimelineIsThinned(t *testing.T) {
	r := made(shapes[2], 1)
	r.Points, r.Series = nil, world.Series{}
	const n = 1000
	for i := range n {
		r.Points = append(r.Points, time.Duration(i+1)*time.Second)
	}
	row := make([]float32, n)
	for i := range row {
		row[i] = float32(i % 2)
	}
	r.Series.Waiting, r.Series.Weights = [][]float32{row, row}, [][]float32{row, row, row, row}
	l := timeline(r, requestsOf(r))
	if len(l.Seconds) != maxPoints || l.Seconds[maxPoints-1] != n {
		t.Fatalf("%d points until %v", len(l.Seconds), l.Seconds[len(l.Seconds)-1])
	}
	sum := stat.Number(0)
	for i, v := range l.Waiting {
		sum += v
		if v < 0.7 || v > 1.3 {
			t.Errorf("stretch %d: %v, want about 1 of two rows of halves", i, v)
		}
	}
	near(t, "mean", sum/maxPoints, 1)
	if len(l.Weights) != 4 || l.Weights[1].From != "us-east-1" || l.Weights[1].To != "eu-a" || l.Weights[2].From != "eu-west-1" {
		t.Errorf("weights %+v", l.Weights)
	}
	if l.Running != nil || l.Queue != nil {
		t.Error("series that were not taken are there")
	}
}

func TestTimelineOfArrivals(t *testing.T) {
	l := &Timeline{}
	s := func(n int) time.Duration { return time.Duration(n) * time.Second }
	l.arrivals([]Request{
		{At: s(1), First: s(2), Prompt: 10, Cached: 5},
		{At: s(10), First: s(12), Prompt: 10, Cached: 10}, // at the edge: it belongs to what ends there
		{At: s(15), Prompt: 10},                           // no token
		{At: s(99), First: s(100), Prompt: 10},            // after the last edge
	}, []time.Duration{s(10), s(20), s(30)})
	near(t, "hits of the first stretch", l.HitRate[0], 0.75)
	near(t, "TTFT of the first stretch", l.TTFT[0], 2000)
	unknown(t, "a stretch without tokens", l.HitRate[1])
	near(t, "the last takes the rest", l.TTFT[2], 1000)
}

func TestHigher(t *testing.T) {
	if higher(1, 2) != 2 || higher(2, 1) != 2 || higher(stat.Unknown, 1) != 1 || higher(1, stat.Unknown) != 1 {
		t.Error("the higher of two known figures")
	}
	if higher(stat.Unknown, stat.Unknown).Known() {
		t.Error("of nothing")
	}
}

func TestSumOfMeans(t *testing.T) {
	near(t, "two rows", sumOfMeans([][]float32{{1, 3}, {5, 7}}), 8)
	unknown(t, "no rows", sumOfMeans(nil))
}

func TestCurveAtRisesToTheEnd(t *testing.T) {
	at := CurveAt()
	for i := 1; i < len(at); i++ {
		if at[i] <= at[i-1] {
			t.Fatalf("%v after %v", at[i], at[i-1])
		}
	}
	if at[49] != 50 || math.Abs(at[len(at)-1]-100) > 0 {
		t.Errorf("the median is %v, the end %v", at[49], at[len(at)-1])
	}
}
