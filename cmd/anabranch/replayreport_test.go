package main

import (
	"strings"
	"testing"
	"time"

	"anabranch/sim/replay"
	"anabranch/sim/report"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

func TestEndsOfRecords(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		record replay.Record
		want   world.End
	}{
		"whole":                     {replay.Record{Status: 200, First: 1}, world.OK},
		"whole and empty":           {replay.Record{Status: 200}, world.OK},
		"over quota":                {replay.Record{Status: 429, Code: "rate_limit_exceeded"}, world.Denied},
		"larger than its quota":     {replay.Record{Status: 429, Code: "request_exceeds_quota"}, world.Denied},
		"nothing left to pay with":  {replay.Record{Status: 429, Code: "insufficient_quota"}, world.Denied},
		"shed for others":           {replay.Record{Status: 429, Code: "shed"}, world.Shed},
		"no place to wait in":       {replay.Record{Status: 429, Code: "queue_full"}, world.Shed},
		"a busy pod":                {replay.Record{Status: 429, Code: "status_429"}, world.Shed},
		"nowhere is room":           {replay.Record{Status: 503, Code: "no_capacity"}, world.Shed},
		"a gateway without words":   {replay.Record{Status: 503, Code: "status_503"}, world.Shed},
		"nowhere allowed":           {replay.Record{Status: 503, Code: "no_legal_target"}, world.Failed},
		"no counters":               {replay.Record{Status: 503, Code: "quota_store_unavailable"}, world.Failed},
		"unknown model":             {replay.Record{Status: 404, Code: "model_not_found"}, world.Failed},
		"no connection":             {replay.Record{Code: replay.CodeConnect}, world.Failed},
		"time over before anything": {replay.Record{Status: 200, Code: replay.CodeTimeout}, world.GaveUp},
		"time over in the middle":   {replay.Record{Status: 200, First: 1, Code: replay.CodeTimeout}, world.Cut},
		"broken in the middle":      {replay.Record{Status: 200, First: 1, Code: replay.CodeBroken}, world.Cut},
		"broken before anything":    {replay.Record{Status: 200, Code: replay.CodeBroken}, world.Failed},
	} {
		if got := endOf(&c.record); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// second is a record of a request that was due at some second and answered in the time.
func second(at int, took time.Duration, code string, status int) replay.Record {
	due := time.Duration(at) * time.Second
	r := replay.Record{
		Request: workload.Request{At: due, Region: "eu", Tenant: "acme", Model: "m", PromptTokens: 100, OutputTokens: 11},
		Due:     due, Sent: due, Ended: due + took, Code: code, Status: status,
		Region: "us", Cluster: "us-a", Endpoint: "e1", Attempts: 2,
	}
	if code == "" {
		r.First, r.Last, r.OutputTokens, r.PromptTokens, r.CachedTokens = due+took/2, due+took, 11, 107, 64
	}
	return r
}

func TestWhatIsReported(t *testing.T) {
	t.Parallel()
	s := sent{
		work:  &replayWork{name: "w", warmup: 2 * time.Second, objectives: map[string]report.Objective{"m": {FirstToken: 600 * time.Millisecond}}},
		flags: &replayFlags{name: "router", price: 3.6},
		records: []replay.Record{
			second(1, 10*time.Second, "", 200), // in the warm-up
			second(2, time.Second, "", 200),
			second(3, 2*time.Second, "", 200), // its first token is late
			second(4, time.Second, "no_capacity", 503),
			second(5, time.Second, "no_capacity", 503),
			second(6, time.Second, "status_500", 500),
			second(7, time.Second, replay.CodeCanceled, 0),
		},
		summary: replay.Summary{Sent: 7, OK: 3, Span: 11 * time.Second},
	}
	s.flags.trace.Seed, s.flags.options.Speedup = 4, 1
	r := s.report()
	for key, want := range map[string]float64{
		"ends.requests": 5, "ends.answered": 2, "ends.shed": 2, "ends.failed": 1, "goodput.share": 0.2, "ttftMs.p99": 1000,
		"latencyMs.p50": 1000, "routing.hitRate": 64. / 107, "routing.crossRegion": 1, "routing.retries": 1,
		"cost.fleetMicroUSD": 5000, // from second 2 to 7, at a tenth of a cent each
	} {
		if got := figure(t, r, key); got < want-1e-6 || got > want+1e-6 {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if r.Runs[0].Seed != 4 || r.Runs[0].Policy != "router" || r.Runs[0].Rules.Violations.Known() {
		t.Errorf("run %+v", r.Runs[0])
	}
	about := strings.Join(r.About, "\n")
	for _, want := range []string{
		"Sent: 7 requests in 11s.", "Of 7 requests 3 were answered whole, 2 × 503 no_capacity, 1 × 500, 1 × canceled.",
		"Not in the figures: requests of the warm-up of 2s, which are 1.", "cut off when sending was stopped, which are 1.",
	} {
		if !strings.Contains(about, want) {
			t.Errorf("the report lacks %q:\n%s", want, about)
		}
	}
	if s.flags.firstToken = 5 * time.Second; figure(t, s.report(), "goodput.share") != 0.4 {
		t.Error("a flag's objective comes before the scenario's")
	}
}

// An answer of nothing was there when it was over.
func TestEmptyAnswers(t *testing.T) {
	t.Parallel()
	s := sent{work: &replayWork{}, flags: &replayFlags{}}
	r := second(3, time.Second, "", 200)
	r.First, r.Last, r.OutputTokens = 0, 0, 0
	if q := s.request(&r); q.First != 4*time.Second || q.Last != 4*time.Second || q.End != world.OK {
		t.Errorf("request %+v", q)
	}
}

func TestTheLoadInWords(t *testing.T) {
	t.Parallel()
	for want, summary := range map[string]replay.Summary{
		"The load was the workload's: requests were sent on average 20µs after they were due, at most 1ms; at most 9 were on their way at once.": {
			Sent: 1000, MostInFlight: 9, MeanLate: 20 * time.Microsecond, MaxLate: time.Millisecond,
		},
		"The load was not the workload's: 7 requests were held back because 16 were on their way (--in-flight)": {
			Sent: 1000, Held: 7, MostInFlight: 16, MaxLate: time.Second, Late: 7,
		},
		"The load was not quite the workload's: 11 of 1000 requests were sent more than 10ms late": {
			Sent: 1000, Late: 11, MaxLate: time.Second,
		},
		"The load was the workload's: ": {Sent: 1000, Late: 10, MaxLate: time.Second},
	} {
		s := sent{flags: &replayFlags{options: replay.Options{InFlight: 16}}, summary: summary}
		if got := s.onTime(); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestCachesThatTellNothing(t *testing.T) {
	t.Parallel()
	s := sent{
		work: &replayWork{stats: workload.Stats{Hit: 0.5}}, summary: replay.Summary{OK: 1},
		records: []replay.Record{{}},
	}
	if got := s.caches(); !strings.HasPrefix(got, "No answer told of cached tokens") {
		t.Errorf("%q", got)
	}
	s.records[0].CachedTokens = 16
	if got := s.caches(); got != "" {
		t.Errorf("%q of caches that found something", got)
	}
	s.records[0].CachedTokens, s.work.stats.Hit = 0, 0
	if got := s.caches(); got != "" {
		t.Errorf("%q of prompts that share nothing", got)
	}
}
