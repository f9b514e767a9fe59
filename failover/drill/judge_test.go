package drill

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// seconds makes n seconds of HOLD that end at exploredAt; each is filled in by its age, 0 the newest.
func seconds(n int, fill func(age int, s *Sample)) []Sample {
	var out []Sample
	for age := n - 1; age >= 0; age-- {
		s := Sample{At: exploredAt.Add(-time.Duration(age) * time.Second).UnixMilli(), State: Hold, Routers: 100, Streams: 1000}
		fill(age, &s)
		out = append(out, s)
	}
	return out
}

func failing(bad, all int64) func(int, *Sample) {
	return func(_ int, s *Sample) {
		s.Clusters = []ClusterSample{{Cluster: "eu", Requests: all, Failures: bad}}
	}
}

func judged(samples []Sample) Judgement {
	b := Baseline{Routers: 100, Tiers: []TierBaseline{{Tier: "top", First: 1000, P95: 400}, {Tier: "batch", First: 1000, P95: 9000}}}
	return Judge(Plan{Kind: Soft, Abort: DefaultThresholds()}, &b, samples, 300, exploredAt)
}

func TestFewRequestsNeitherAbortNorHide(t *testing.T) {
	tests := map[string]struct {
		samples []Sample
		cause   Cause
		thin    bool
	}{
		"two bad ones of thousands in a second":   {seconds(30, func(age int, s *Sample) { failing(map[bool]int64{true: 2}[age == 1], 20)(age, s) }), "", false},
		"no requests":                             {seconds(90, failing(0, 0)), "", true},
		"one in three seconds, all well":          {seconds(90, func(age int, s *Sample) { failing(0, int64(1-min(age%3, 1)))(age, s) }), "", false}, // 20 within a minute
		"one in six seconds, all well":            {seconds(90, func(age int, s *Sample) { failing(0, int64(1-min(age%6, 1)))(age, s) }), "", true},
		"one in six seconds, all failing":         {seconds(90, func(age int, s *Sample) { n := int64(1 - min(age%6, 1)); failing(n, n)(age, s) }), CauseErrors, false},
		"one in six seconds, some failing":        {seconds(90, func(age int, s *Sample) { n := int64(1 - min(age%6, 1)); failing(n*int64(min(age%12, 1)), n)(age, s) }), "", true},
		"one in two seconds, a fifth of them bad": {seconds(90, func(age int, s *Sample) { failing(int64(1-min(age%10, 1)), int64(1-min(age%2, 1)))(age, s) }), CauseErrors, false},
		"ten a second, 3 %":                       {seconds(90, func(age int, s *Sample) { failing(int64(1-min(age%3, 1)), 10)(age, s) }), CauseErrors, false},
		"ten a second, 3 %, over long ago":        {seconds(90, func(age int, s *Sample) { failing(map[bool]int64{true: 2}[age > 20 && age%6 == 0], 10)(age, s) }), "", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			j := judged(tt.samples)
			got := Cause("")
			if j.Breach != nil {
				got = j.Breach.Cause
			}
			thin := len(j.Thin) > 0 && j.Thin[0] == signalErrors
			if got != tt.cause || thin != tt.thin {
				t.Errorf("got %+v", j)
			}
		})
	}
}

func TestABreachTellsWhatSinceWhenAndWhere(t *testing.T) {
	j := judged(seconds(40, func(age int, s *Sample) {
		s.Clusters = []ClusterSample{{Cluster: "ap", Saturation: 0.5}, {Cluster: "eu", Saturation: 0.95}, {Cluster: "us", Saturation: 2, Drilled: true}}
		if age > 20 {
			s.Clusters[1].Saturation = 0.9
		}
	}))
	b := j.Breach
	if b == nil || b.Cause != CauseSaturation || b.Where != "eu" || b.Value != 0.95 || b.Threshold != 0.9 || b.For != 15*time.Second || exploredAt.UnixMilli()-b.Since != 14_000 {
		t.Fatalf("%+v", b)
	}
	if text := b.String(); text != "saturation of eu is 95 %, over 90 % since 11:59:46" {
		t.Error(text)
	}
	j = judged(seconds(40, func(_ int, s *Sample) {
		s.Tiers = []TierSample{{Tier: "batch", TTFT: hist(90_000, 100)}, {Tier: "top", TTFT: hist(700, 300)}}
	}))
	if b = j.Breach; b == nil || b.Cause != CauseTTFT || b.Where != "tier top" || b.Threshold != 600 || b.Value < 600 || b.Value > 800 || !strings.Contains(b.String(), " ms, over 600 ms") {
		t.Errorf("%+v", b)
	}
}

func hist(ms float64, n int64) []int64 {
	h := make([]int64, Buckets)
	h[Bucket(ms)] = n
	return h
}

func TestWhatIsOldOrMissingIsNotJudged(t *testing.T) {
	bad := func(n int) []Sample { return seconds(n, failing(500, 1000)) }
	if j := judged(bad(2)); j.Breach != nil {
		t.Errorf("two seconds of a lease: %+v", j.Breach)
	}
	if j := judged(bad(3)); j.Breach == nil {
		t.Error("three seconds of a lease")
	}
	stale := bad(30)
	if j := judged(stale[:26]); j.Breach != nil {
		t.Errorf("the newest is 4 s old: %+v", j.Breach)
	}
	before := bad(30)
	for i := range before {
		before[i].State = Measuring
	}
	if j := judged(before); j.Breach != nil {
		t.Errorf("before any lease: %+v", j.Breach)
	}
	if j := judged(nil); j.Breach != nil || j.Thin != nil {
		t.Errorf("nothing: %+v", j)
	}
	// A gap of 5 s in the middle: saturation has not been seen to last.
	gappy := seconds(30, func(_ int, s *Sample) { s.Clusters = []ClusterSample{{Cluster: "eu", Saturation: 0.95}} })
	gappy = append(gappy[:18:18], gappy[22:]...)
	if j := judged(gappy); j.Breach != nil {
		t.Errorf("a gap: %+v", j.Breach)
	}
}

func TestWhatIsDrilledCountsOnItsWayBack(t *testing.T) {
	for state, want := range map[State]bool{Hold: false, Failback: true} {
		j := judged(seconds(30, func(_ int, s *Sample) {
			s.State, s.Clusters = state, []ClusterSample{{Cluster: "eu", Requests: 1000}, {Cluster: "us", Drilled: true, Requests: 1000, Failures: 900, Saturation: 1.5}}
		}))
		if (j.Breach != nil) != want {
			t.Errorf("%s: %+v", state, j.Breach)
		}
	}
}

// TestRatesAreFoundAndNoiseIsNot draws requests that fail with a probability: twice the limit is found within two
// minutes however few there are, and what is at the baseline is not taken for more in a quarter of an hour.
func TestRatesAreFoundAndNoiseIsNot(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, perSecond := range []int{20, 100, 1000, 5000} {
		run := func(p float64, n int) (at int, found bool) {
			base := Baseline{Errors: 0.01, Routers: 100}
			var all []Sample
			for i := range n {
				now := exploredAt.Add(time.Duration(i) * time.Second)
				bad := int64(0)
				for range perSecond {
					if r.Float64() < p {
						bad++
					}
				}
				s := Sample{At: now.UnixMilli(), State: Hold, Routers: 100}
				failing(bad, int64(perSecond))(0, &s)
				all = append(all, s)
				if j := Judge(Plan{Kind: Soft, Abort: DefaultThresholds()}, &base, all, 0, now); j.Breach != nil {
					return i, true
				}
			}
			return n, false
		}
		if at, found := run(0.04, 120); !found {
			t.Errorf("%d a second: 4 %% is not found", perSecond)
		} else {
			t.Logf("%d a second: 4 %% is found after %d s", perSecond, at+1)
		}
		if perSecond < 1000 {
			continue // 1 % of few requests is more than 2 % now and then, and aborting is what is safe then
		}
		if at, found := run(0.01, 900); found {
			t.Errorf("%d a second: 1 %% is taken for more after %d s", perSecond, at)
		}
	}
}

func TestMeasureSumsUp(t *testing.T) {
	b := Measure([]Sample{
		{At: 1000, Routers: 3, Streams: 10, MicrosPerMinute: 100, PrefixTokens: 100, CachedTokens: 80, Clusters: []ClusterSample{{Cluster: "a", Requests: 10, Failures: 1, Saturation: 0.2, Queue: 2, KV: 0.5}, {Cluster: "d", Drilled: true, Requests: 5, Failures: 5}}, Tiers: []TierSample{{Tier: "batch", Total: 5, TTFT: hist(1000, 5)}, {Tier: "top", Total: 10, Lost: 1, Broken: 1, TTFT: hist(200, 100)}}},
		{At: 2000, Routers: 4, Streams: 30, MicrosPerMinute: 301, PrefixTokens: 100, CachedTokens: 0, Clusters: []ClusterSample{{Cluster: "a", Requests: 30, Failures: 1, Saturation: 0.4, Queue: 4, KV: 0.7}}},
	})
	if b.From != 1000 || b.Until != 2000 || b.Seconds != 2 || b.Routers != 4 || b.Requests != 40 || b.Errors != 0.05 || b.DrilledFailures != 5 || b.Streams != 20 || b.PrefixHits != 0.4 || b.MicrosPerMinute != 201 {
		t.Errorf("%+v", b)
	}
	if len(b.Tiers) != 2 || b.Tiers[0].Tier != "top" || b.Tiers[0].Errors != 0.2 || b.Tiers[0].First != 100 || b.Tiers[0].P95 < 160 || b.Tiers[0].P95 > 240 {
		t.Errorf("%+v", b.Tiers)
	}
	if c := b.Clusters[0]; c.Peak != 0.4 || c.Queue != 3 || c.KV < 0.599 || c.KV > 0.601 || c.Saturation < 0.299 || c.Saturation > 0.301 {
		t.Errorf("%+v", b.Clusters)
	}
	if b.top().Tier != "top" || (&Baseline{Tiers: []TierBaseline{{Tier: "top", First: 19}, {Tier: "standard", First: 20}}}).top().Tier != "standard" {
		t.Error("the top tier is the highest that can be spoken of")
	}
	if zero := Measure(nil); zero.Seconds != 0 || zero.top().Tier != "" {
		t.Errorf("%+v", zero)
	}
}

func TestGateLetsNothingThroughUnseen(t *testing.T) {
	p := Plan{Kind: Soft, Abort: DefaultThresholds()}
	if b := Gate(p, nil, nil, 0); b == nil || b.Cause != CauseSight {
		t.Errorf("%+v", b)
	}
	if b := Gate(p, nil, seconds(5, failing(0, 100)), 0); b != nil {
		t.Errorf("%+v", b)
	}
	if b := Gate(p, nil, seconds(5, failing(2, 100)), 0); b == nil || b.Cause != CauseErrors {
		t.Errorf("%+v", b)
	}
	if b := Gate(p, nil, seconds(1, failing(2, 2)), 0); b != nil {
		t.Errorf("two accidents: %+v", b)
	}
}
