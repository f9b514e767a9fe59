package endpoint

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/routerpb"
)

func near(got, want, share float64) bool { return math.Abs(got-want) <= share*math.Abs(want) }

func TestLineFindsBaseAndSlope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Float64Range(0.001, 0.1).Draw(t, "base")
		slope := 1 / rapid.Float64Range(1000, 50_000).Draw(t, "rate")
		l := line{base: believedOverhead, slope: 1 / believedPrefill}
		rnd := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		for range 300 {
			x := 100 + 8000*rnd.Float64()
			l.learn(x, (base+slope*x)*(0.95+0.1*rnd.Float64()))
		}
		for _, x := range []float64{500, 4000, 8000} {
			// The noise is a share of the sample, so the large ones bound how well the small are met.
			want, noise := base+slope*x, 0.05*(base+slope*4000)
			if math.Abs(l.at(x)-want) > 0.05*want+noise {
				t.Fatalf("at %v: %v, want %v (base %v, slope %v)", x, l.at(x), want, base, slope)
			}
		}
	})
}

func TestLineShrugsOffStrays(t *testing.T) {
	l := line{base: 0.02, slope: 1e-4}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		x := 500 + 3000*rnd.Float64()
		y := 0.02 + 1e-4*x
		if i%10 == 9 {
			y *= 50 // a stall
		}
		l.learn(x, y)
	}
	if want := 0.02 + 1e-4*2000; !near(l.at(2000), want, 0.05) {
		t.Errorf("with a tenth of stalls: %v, want %v", l.at(2000), want)
	}
}

func TestLineFollowsAChangedWorld(t *testing.T) {
	l := line{base: 0.02, slope: 1e-4}
	rnd := rand.New(rand.NewPCG(1, 2))
	sample := func(factor float64) {
		x := 500 + 3000*rnd.Float64()
		l.learn(x, factor*(0.02+1e-4*x))
	}
	for range 100 {
		sample(1)
	}
	for range 20 {
		sample(10)
	}
	if want := 10 * (0.02 + 1e-4*2000); !near(l.at(2000), want, 0.1) {
		t.Errorf("twenty samples after all got ten times slower: %v, want %v", l.at(2000), want)
	}
}

func TestLineWithPromptsAllOfOneLength(t *testing.T) {
	l := line{base: believedOverhead, slope: 1 / believedPrefill}
	for range 50 {
		l.learn(2000, 0.1)
	}
	if !near(l.at(2000), 0.1, 0.01) {
		t.Errorf("at the length seen: %v, want 0.1", l.at(2000))
	}
	if l.base < 0 || l.slope < 0 {
		t.Errorf("base %v, slope %v", l.base, l.slope)
	}
}

// Prompts of one length say nothing of how much of the time is for each token: what is believed of the
// rest does. Chance in what is measured must not make prompts look free.
func TestLineTellsSlopeByItsAnchor(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	l := line{base: 0.02, slope: 1 / believedPrefill, anchor: 0.02}
	for range 1000 {
		l.learn(1000+20*rnd.Float64(), 0.044+0.006*rnd.Float64())
		if want := 0.027 / 1010; !near(l.slope, want, 0.25) || !near(l.at(1010), 0.047, 0.1) {
			t.Fatalf("base %v, slope %v, want %v", l.base, l.slope, want)
		}
	}
	for range 300 {
		x := 100 + 8000*rnd.Float64()
		l.learn(x, 0.1+x*5e-5)
	}
	if !near(l.slope, 5e-5, 0.05) || !near(l.base, 0.1, 0.1) {
		t.Errorf("where lengths vary: base %v, slope %v, want 0.1 and 5e-5", l.base, l.slope)
	}
}

func TestLineDropsNonsense(t *testing.T) {
	l := line{base: 0.02, slope: 1e-4}
	for _, s := range [][2]float64{{math.NaN(), 1}, {1, math.NaN()}, {0, 1}, {1, 0}, {-1, 1}, {1, -1}, {math.Inf(1), 1}, {1, math.Inf(1)}} {
		l.learn(s[0], s[1])
	}
	if !near(l.at(1000), 0.12, 1e-9) {
		t.Errorf("at 1000: %v", l.at(1000))
	}
}

func TestRatesLearnFromAnswers(t *testing.T) {
	r := newRates()
	if l := r.Learned(); l.Known || !near(l.Prefill, believedPrefill, 1e-9) {
		t.Errorf("before any answer: %+v", l)
	}
	// An H100 of published figures: 25,000 tokens/s, 7.8 ms a step and 0.11 ms more per request.
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		prompt := 500 + 7000*rnd.Float64()
		cached := prompt * 0.5 * rnd.Float64()
		batch, output := 1+60*rnd.Float64(), 50+200*rnd.Float64()
		ttft := 0.015 + (prompt-cached)/25_000
		decode := (output - 1) * (0.0078 + 0.00011*batch)
		r.learn(finished{
			prompt: prompt, uncached: prompt - cached, output: output, ttft: seconds(ttft), decode: seconds(decode), hold: seconds(decode), batch: batch, room: true,
		})
	}
	l := r.Learned()
	if !l.Known || !near(l.Prefill, 25_000, 0.05) || !near(l.Overhead, 0.015, 0.1) || !near(l.Step, 0.0078, 0.1) || !near(l.StepMore, 0.00011, 0.1) {
		t.Errorf("learned %+v", l)
	}
	if !near(l.Prompt, 4000, 0.15) || !near(l.Uncached, 3000, 0.15) || !near(l.Output, 150, 0.15) {
		t.Errorf("mix %+v", l)
	}
}

func TestRatesLearnUnderSteadyLoad(t *testing.T) {
	r := newRates()
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		own, ahead := 500+3000*rnd.Float64(), 8000*rnd.Float64()
		r.learn(finished{prompt: own, uncached: own, ahead: ahead, output: 10, ttft: seconds(0.02 + (own+ahead)/20_000), room: true})
	}
	if l := r.Learned(); !near(l.Prefill, 20_000, 0.05) {
		t.Errorf("with prompts ahead of each: %v tokens/s, want 20,000", l.Prefill)
	}
}

// A server computes one prompt after the other; requests come while it is at one, whose end nobody
// foresees. What is measured since it began with that shows the rate whatever is believed of it.
func TestRatesLearnWhileAPromptIsUnderWay(t *testing.T) {
	r := newRates()
	rnd := rand.New(rand.NewPCG(7, 8))
	const rate = 20_000.0
	for range 300 {
		own, head := 500+1000*rnd.Float64(), 500+1000*rnd.Float64()
		gone := rnd.Float64() * head / rate // s of the head's prefill
		r.learn(finished{
			prompt: own, uncached: own, ahead: head, since: seconds(gone), output: 10,
			ttft: seconds(0.02 + (head+own)/rate - gone), room: true,
		})
	}
	if l := r.Learned(); !near(l.Prefill, rate, 0.05) || !near(l.Overhead, 0.02, 0.2) {
		t.Errorf("%v tokens/s and %v s, want 20,000 and 0.02", l.Prefill, l.Overhead)
	}
}

func TestRatesDontTakeQueueingForSlowness(t *testing.T) {
	r := newRates()
	for range 100 {
		r.learn(finished{prompt: 2000, uncached: 2000, output: 10, ttft: 9 * time.Second})
	}
	if l := r.Learned(); !near(l.Prefill, believedPrefill, 1e-9) {
		t.Errorf("waits in line changed the prefill rate to %v", l.Prefill)
	}
}

func TestRatesDontLearnPrefillFromCachedPrompts(t *testing.T) {
	r := newRates()
	for range 100 {
		r.learn(finished{prompt: 8000, uncached: 16, output: 10, ttft: 30 * time.Millisecond, room: true})
	}
	if l := r.Learned(); !near(l.Prefill, believedPrefill, 1e-9) {
		t.Errorf("hits in the cache changed the prefill rate to %v", l.Prefill)
	}
}

func TestCapacity(t *testing.T) {
	l := Learned{Prefill: 10_000, Step: 0.01, StepMore: 0.0001, Prompt: 1000, Uncached: 500, Output: 100}
	// One request at a batch of 100: 0.05 s of prefill, 100 steps of 20 ms shared by 100.
	want := (1000 + 4*100) / (0.05 + 100*0.02/100)
	if got := l.Capacity(100, 4); !near(got, want, 1e-9) {
		t.Errorf("%v work/s, want %v", got, want)
	}
	if small := l.Capacity(1, 4); small >= want {
		t.Errorf("a batch of one does %v work/s, one of a hundred %v", small, want)
	}
	l.StepPrompt = 0.04 / 500 // less than 0.05 s
	if got, want := l.Capacity(100, 4), (1000+4*100)/(0.04+0.02); !near(got, want, 1e-9) {
		t.Errorf("%v work/s where prompts cost others less, want %v", got, want)
	}
	if got := l.Capacity(0, 4); math.IsNaN(got) || math.IsInf(got, 0) {
		t.Errorf("a batch of none: %v", got)
	}
}

func TestLibrarySharesByKind(t *testing.T) {
	var l library
	a := l.of(kind{"h100", "m"})
	if l.of(kind{"h100", "m"}) != a || l.of(kind{"a100", "m"}) == a || l.of(kind{"h100", "n"}) == a {
		t.Error("rates are shared by class and model, and by nothing else")
	}
}

// What operators make and delete leaves nothing behind; what is there keeps what was learned.
func TestLibraryForgetsWhatHasLeftTheTable(t *testing.T) {
	r, _ := still(t)
	h100, e := r.of("a")[0].Rates("m"), r.Cluster("e").rates.of("m")
	was := len(r.rates.kinds)
	for i := range 50 {
		r.Sync(world(t, func(pb *routerpb.Table) {
			name := fmt.Sprint("x", i)
			pb.Models = append(pb.Models, &routerpb.Model{Id: name, OutputWeight: 1})
			pb.Clusters = append(pb.Clusters, &routerpb.Cluster{
				Id: name, Region: "us", Kind: "gateway", Models: []string{name, "m"}, HealthCap: 1, GatewayUrl: "http://" + name,
			})
		}))
		if n := len(r.rates.kinds); n != was+2 {
			t.Fatalf("%d kinds after %d changes, %d at first and two more of the new cluster wanted", n, i+1, was)
		}
	}
	r.Sync(world(t, func(pb *routerpb.Table) { pb.Clusters = pb.Clusters[3:] })) // no endpoint is known of any class
	r.Sync(world(t))
	if r.of("a")[0].Rates("m") != h100 || r.Cluster("e").rates.of("m") != e || len(r.rates.kinds) != was {
		t.Error("what was learned is gone")
	}
}

func TestHistogramQuantiles(t *testing.T) {
	var h histogram
	now := time.Unix(1000, 0)
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i)*time.Millisecond, now)
	}
	q := h.quantiles(now, 0.5, 0.95, 0, 1)
	for i, want := range []float64{500, 950, 1, 1000} {
		if got := ms(q[i]); !near(got, want, 0.1) {
			t.Errorf("quantile %d = %v ms, want %v", i, got, want)
		}
	}
}

func TestHistogramForgets(t *testing.T) {
	var h histogram
	now := time.Unix(1000, 0)
	if q := h.quantiles(now, 0.5)[0]; q != 0 {
		t.Errorf("of nothing: %v", q)
	}
	h.add(time.Second, now)
	for _, tt := range []struct {
		after time.Duration
		there bool
	}{{10 * time.Second, true}, {16 * time.Second, true}, {29 * time.Second, true}, {61 * time.Second, false}} {
		if got := h.quantiles(now.Add(tt.after), 0.5)[0] > 0; got != tt.there {
			t.Errorf("after %v there = %v", tt.after, got)
		}
	}
}

func TestHistogramTakesAnything(t *testing.T) {
	var h histogram
	now := time.Unix(1000, 0)
	for _, d := range []time.Duration{-time.Second, 0, 1, time.Nanosecond, time.Hour, 1 << 62} {
		h.add(d, now)
	}
	if q := h.quantiles(now, 0.01, 1); q[0] > 2*time.Millisecond || q[1] < 10*time.Minute {
		t.Errorf("quantiles %v", q)
	}
}

func TestSlotsLearnTheBatch(t *testing.T) {
	feed := func(scrapes ...[3]float64) float64 {
		var s slots
		var limit float64
		for i, x := range scrapes {
			limit = s.learn(&Signals{At: time.Unix(int64(1000+i), 0), Waiting: x[0], Running: x[1], KV: x[2], tokens: -1}, 1, Learned{})
		}
		return limit
	}
	repeat := func(n int, x [3]float64) (out [][3]float64) {
		for range n {
			out = append(out, x)
		}
		return out
	}
	if got := feed([3]float64{0, 10, 0.1}); got != believedSlots {
		t.Errorf("without a queue: %v", got)
	}
	if got := feed(repeat(2, [3]float64{5, 32, 0.1})...); got != believedSlots {
		t.Errorf("a queue seen twice may be requests on their way in: %v", got)
	}
	if got := feed(repeat(20, [3]float64{5, 32, 0.1})...); !near(got, 32, 0.01) {
		t.Errorf("a queue beside 32 running: %v", got)
	}
	if got := feed(append(repeat(20, [3]float64{5, 32, 0.1}), [3]float64{0, 48, 0.1})...); got != 48 {
		t.Errorf("more run than was believed possible: %v", got)
	}
	if got := feed([3]float64{0, 20, 0.5}); got != 40 {
		t.Errorf("half the KV cache holds 20: %v", got)
	}
}

// What a server says of itself counts before anything was seen of it.
func TestSlotsByWhatIsTold(t *testing.T) {
	mix := Learned{Known: true, Uncached: 1500, Output: 500}
	for _, tt := range []struct {
		name    string
		x       Signals
		servers float64
		mix     Learned
		want    float64
	}{
		{"nothing", Signals{}, 1, mix, believedSlots},
		{"its batch", Signals{MaxBatch: 32}, 1, mix, 32},
		{"its KV cache, by the mean request", Signals{KVTokens: 100_000}, 1, mix, 50},
		{"which isn't known yet", Signals{KVTokens: 100_000}, 1, Learned{}, believedSlots},
		{"the smaller of both", Signals{MaxBatch: 32, KVTokens: 100_000}, 1, mix, 32},
		{"what runs says more than the mean", Signals{KVTokens: 100_000, KV: 0.5, Running: 40}, 1, mix, 80},
		{"a cache for less than one request", Signals{KVTokens: 100}, 1, mix, 1},
		{"a pool, by server", Signals{KV: 0.5, Running: 80}, 4, mix, 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s slots
			if got := s.learn(&tt.x, tt.servers, tt.mix); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}
