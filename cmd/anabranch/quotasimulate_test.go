package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
)

// simulated plays and gives the result.
func (s session) simulated(args ...string) quotaRun {
	s.t.Helper()
	out, _ := s.do(0, "", append([]string{"quota", "simulate", "-o", "json"}, args...)...)
	var r quotaRun
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return r
}

func TestQuotaSimulateAnEvenLoad(t *testing.T) {
	s := begin(t)
	s.do(0, "", "quota", "list") // which makes sure that the next needs no server
	t.Setenv("ANABRANCH_SERVER", "http://127.0.0.1:1")
	// 1,200 a minute for ten minutes against 600 a minute and a burst of 1,000: 7,000 of 12,000.
	r := s.simulated("--requests", "600:1k", "--requests-per-minute", "1200", "--burstiness", "0", "--duration", "10m")
	if r.Requests < 11_999 || r.Requests > 12_000 || math.Abs(float64(r.Admitted-7000)) > 2 || r.Denied != r.Requests-r.Admitted || r.FirstBy != "requests" {
		t.Errorf("got %+v", r)
	}
	if math.Abs(r.DeniedPerMinute-500) > 1 || math.Abs(float64(r.FirstDenialMs)-100_000) > 200 || r.LongestWaitMs > 100 || r.Before != nil {
		t.Errorf("got %+v", r)
	}
	if l := r.Limits[0]; !l.Short || l.PerMinute != 600 || l.Burst != 1000 || math.Abs(l.DemandPerMinute-1200) > 1 {
		t.Errorf("limit %+v", l)
	}
	if again := s.simulated("--requests", "600:1k", "--requests-per-minute", "1200", "--burstiness", "0", "--duration", "10m"); again.Admitted != r.Admitted {
		t.Error("the same seed has another result")
	}
}

func TestQuotaSimulateRecommendsABurst(t *testing.T) {
	s := begin(t)
	load := []string{"--requests-per-minute", "300", "--input-per-request", "1000", "--output-per-request", "100", "--burstiness", "4", "--duration", "30m"}
	r := s.simulated(append([]string{"--total-tokens", "500k:20k"}, load...)...)
	enough := r.Limits[0].Enough
	if r.Denied == 0 || enough <= 20_000 || r.Limits[0].Short {
		t.Fatalf("got %+v", r)
	}
	text := amount(rounded(enough))
	if r = s.simulated(append([]string{"--total-tokens", "500k:" + text}, load...)...); r.Denied != 0 || r.FirstDenialMs != -1 {
		t.Errorf("with %s: %+v", text, r)
	}
	out, _ := s.do(0, "", append([]string{"quota", "simulate", "--total-tokens", "500k:20k"}, load...)...)
	if !strings.Contains(out, "a burst of "+text+" is enough") || !strings.Contains(out, "burstiness 4") || !strings.Contains(out, "quota simulate --help") {
		t.Errorf("text:\n%s", out)
	}
	wantLines(t, "text", out, "load 300 requests a minute for 30m0s, 1k + 100 tokens each", "outcome ", "refused total-tokens ", "first after ", "waits told at most ", "recovers all limits are full again ", "LIMIT ASKED/MIN DENIED FOR THIS LOAD")
}

func TestQuotaSimulateATrace(t *testing.T) {
	trace, err := filepath.Abs("../../sim/workload/testdata/mooncake.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t)
	free := s.simulated("--input-tokens", "1G", "--trace", trace)
	if free.Requests == 0 || free.Denied != 0 || !strings.Contains(free.Load, "mooncake") {
		t.Errorf("without a bound: %+v", free)
	}
	if tight := s.simulated("--input-tokens", "1k", "--trace", trace, "--speedup", "2"); tight.Requests != free.Requests || tight.Denied == 0 || tight.Limits[0].TooLarge == 0 {
		t.Errorf("within a tight one: %+v", tight)
	}
	if _, errs := s.do(exitFailed, "", "quota", "simulate", "--requests", "1", "--trace", "none.jsonl"); !strings.Contains(errs, "none.jsonl") {
		t.Errorf("errors: %s", errs)
	}
}

func TestQuotaSimulateWhatALiveLoadWouldMeet(t *testing.T) {
	s := withLimits(t)
	s.node.Signals.Put(signal.Observation{
		Node: "n1", Connected: true, Received: time.Now(), Hello: &routerpb.Hello{RouterId: "r-ap", Region: "ap"},
		Report: &routerpb.Report{AtUnixMs: 1, WindowMs: 1000, Quotas: []*routerpb.QuotaSignal{
			{Organisation: "works", Limit: "works-all/requests", LevelAgeMs: -1, Used: 20, Admitted: 20},
		}},
	})
	// 8 admitted and 2 denied a second, of 10 tokens each.
	r := s.simulated("acme-tokens", "--total-tokens", "3000", "--duration", "10m")
	if r.Before == nil || r.Before.Limits[0].PerMinute != 6000 || r.Limits[0].PerMinute != 3000 || r.Limits[0].Burst != 3000 {
		t.Fatalf("got %+v", r)
	}
	if math.Abs(r.Limits[0].DemandPerMinute-6000) > 400 || r.Denied <= r.Before.Denied || math.Abs(r.DeniedPerMinute-270) > 40 {
		t.Errorf("got %+v", r)
	}
	if r = s.simulated("acme-tokens", "--duration", "1m"); r.Before != nil || r.Limits[0].PerMinute != 6000 {
		t.Errorf("unchanged: %+v", r)
	}
	if r = s.simulated("acme-tokens", "--requests", "60", "--duration", "10m"); len(r.Limits) != 2 || r.DeniedBy["requests"] == 0 {
		t.Errorf("with a limit that it does not have: %+v", r)
	}
	out, _ := s.do(0, "", "quota", "simulate", "acme-tokens", "--total-tokens", "3000", "--duration", "10m")
	wantLines(t, "text", out, "load what quota acme-tokens has now: 600 requests a minute, 10 + 0 tokens each", "now ", "changed ")
	for args, says := range map[string]string{
		"acme-tokens --output-tokens 5": "has no limit of output-tokens",
		"acme-spend":                    "no requests of quota acme-spend came",
		"works-all --input-tokens 1k":   "has no limit of input-tokens",
		"works-all --duration 744h":     "are played: shorten --duration",
	} {
		if _, errs := s.do(exitFailed, "", append([]string{"quota", "simulate"}, strings.Fields(args)...)...); !strings.Contains(errs, says) {
			t.Errorf("%s: %q, want %q", args, errs, says)
		}
	}
	s.do(exitRefused, "", "quota", "simulate", "nothing", "--requests", "1")
}

func TestQuotaSimulateTellsWhatIsWrong(t *testing.T) {
	s := begin(t)
	for args, says := range map[string]string{
		"":                          "--requests-per-minute: is 0",
		"--requests-per-minute 6":   "give at least one limit",
		"--requests 6":              "say how many come",
		"q --requests-per-minute 6": "with a quota's name the load is what its requests are now",
		"q --trace x":               "--trace: with a quota's name",
		"--trace x --input-per-request 5 --requests 1":                 "the trace says it",
		"--requests 6 --requests-per-minute 5 --speedup 2":             "--speedup: is for a trace",
		"--requests 6 --requests-per-minute 5 --burstiness 0.01":       "--burstiness: is 0.01",
		"--requests 6 --requests-per-minute 5 --duration 1ms":          "--duration: is 1ms",
		"--requests 6 --requests-per-minute 5 --tokens-per-second 0":   "--tokens-per-second: is 0",
		"--requests 6 --requests-per-minute 5 --output-per-request -1": "--output-per-request",
		"--requests x --requests-per-minute 5":                         `--requests: "x" is no amount`,
		"--requests 6:7:8 --requests-per-minute 5":                     "--requests: ",
	} {
		if _, errs := s.do(exitUsage, "", append([]string{"quota", "simulate"}, strings.Fields(args)...)...); !strings.Contains(errs, says) {
			t.Errorf("%s: %q, want %q", args, errs, says)
		}
	}
	if _, errs := s.do(exitFailed, "", "quota", "simulate", "--requests", "1000000G", "--requests-per-minute", "5"); !strings.Contains(errs, "too large") {
		t.Errorf("too large: %s", errs)
	}
}

func TestTheLoadOfAQuota(t *testing.T) {
	tally := func(admitted, used float64) limitTally {
		return limitTally{AdmittedPerMinute: admitted, UsedPerMinute: used, DeniedPerMinute: 20}
	}
	slots := limitUse{Kind: policy.LimitConcurrent, Limit: 20, limitTally: tally(120, 0)}
	slots.InUse = 6
	for name, tt := range map[string]struct {
		all           []limitUse
		input, output int64
		takes         time.Duration
		knows         string
		not           string
	}{
		"both apart":     {[]limitUse{{Kind: "input-tokens", limitTally: tally(100, 50_000)}, {Kind: "output-tokens", limitTally: tally(100, 10_000)}}, 500, 100, 0, "total-tokens", "concurrent-requests"},
		"together":       {[]limitUse{{Kind: "total-tokens", limitTally: tally(100, 60_000)}}, 600, 0, 0, "total-tokens", "input-tokens"},
		"one and all":    {[]limitUse{{Kind: "total-tokens", limitTally: tally(100, 60_000)}, {Kind: "output-tokens", limitTally: tally(100, 10_000)}}, 500, 100, 0, "output-tokens", "input-tokens"},
		"slots":          {[]limitUse{slots}, 0, 0, 3 * time.Second, "requests", "total-tokens"},
		"in shadow":      {[]limitUse{{Kind: "requests", Shadow: true, limitTally: limitTally{AdmittedPerMinute: 60, WouldDenyPerMin: 20, DeniedPerMinute: 7}}}, 0, 0, 0, "requests", "total-tokens"},
		"nobody allowed": {[]limitUse{{Kind: "input-tokens", limitTally: tally(0, 0)}}, 0, 0, 0, "input-tokens", "output-tokens"},
	} {
		got := loadOf(tt.all)
		if got.input != tt.input || got.output != tt.output || got.takes != tt.takes || !got.knows(tt.knows) || got.knows(tt.not) {
			t.Errorf("%s: %+v", name, got)
		}
		if want := tt.all[0].AdmittedPerMinute + 20; got.perMinute != want {
			t.Errorf("%s: %v a minute, want %v", name, got.perMinute, want)
		}
	}
}

func TestRounded(t *testing.T) {
	for n, want := range map[int64]int64{0: 0, 7: 7, 999: 999, 1000: 1000, 1001: 1010, 12_345: 12_400, 999_001: 1_000_000} {
		if got := rounded(n); got != want {
			t.Errorf("%d is rounded to %d, want %d", n, got, want)
		}
	}
}
