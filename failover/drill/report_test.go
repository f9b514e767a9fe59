package drill

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

// second makes samples of a drill of two clusters: "gone" is drilled, "stays" bears it.
type told struct {
	state   State
	shifted int
	// seconds that it lasts, and of each: requests of the top tier, and those that "gone" did not answer.
	seconds         int
	requests, away  int64
	saturation      float64
	lost, streams   int64
	micros          int64
	ttftMs          float64
	prefix, cached  int64
	routers, obeing int
}

const began = int64(1_800_000_000_000)

func samplesOf(parts ...told) []Sample {
	var out []Sample
	for _, p := range parts {
		for range p.seconds {
			ttft := make([]int64, Buckets)
			ttft[Bucket(p.ttftMs)] = p.requests
			out = append(out, Sample{
				At: began + int64(len(out))*1000, State: p.state, Shifted: p.shifted, Routers: p.routers, Obeying: p.obeing,
				Scoped: p.requests, Away: p.away, StreamsLeft: p.streams, Streams: 2 * p.streams, MicrosPerMinute: p.micros,
				PrefixTokens: p.prefix, CachedTokens: p.cached,
				Tiers: []TierSample{
					{Tier: "batch", Total: 1, Shed: 1},
					{Tier: "top", Total: p.requests, Lost: p.lost, TTFT: ttft},
				},
				Clusters: []ClusterSample{{Cluster: "gone", Drilled: true, Saturation: 0.5}, {Cluster: "stays", Saturation: p.saturation}},
			})
		}
	}
	return out
}

// hard is a drill that went well: detected after 0.4 s, decided after 2.5, away after 3.
func hard() ReportInput {
	return ReportInput{
		ClusterID: "c", PreviousSHA256: strings.Repeat("ab", 32),
		Facts: Facts{
			ID: 12, Plan: "lose-gone", PlanRevision: 3, PlanSHA256: strings.Repeat("cd", 32), Kind: Hard, Spec: json.RawMessage(`{"kind":"hard"}`),
			Creator: "ann", Approvals: []ApprovalReport{{By: "bob", AtUnixMs: began}}, Outcome: Succeeded,
			CreatedUnixMs: began, StartedUnixMs: began, EndedUnixMs: began + 40_000,
		},
		Samples: samplesOf(
			told{state: Measuring, seconds: 10, requests: 100, away: 60, saturation: 0.4, micros: 6_000_000, ttftMs: 100, prefix: 1000, cached: 700, routers: 3},
			told{state: Shifting, shifted: 1e6, seconds: 1, requests: 100, away: 70, saturation: 0.5, micros: 9_000_000, ttftMs: 200, routers: 3, streams: 8},
			told{state: Shifting, shifted: 1e6, seconds: 2, requests: 100, away: 85, saturation: 0.7, micros: 9_000_000, ttftMs: 200, routers: 3, obeing: 2, streams: 5},
			told{state: Hold, shifted: 1e6, seconds: 9, requests: 100, away: 100, saturation: 0.8, micros: 9_000_000, ttftMs: 200, routers: 3, obeing: 3, streams: 1, prefix: 1000, cached: 500},
			told{state: Failback, shifted: 5e5, seconds: 8, requests: 100, away: 80, saturation: 0.6, micros: 9_000_000, ttftMs: 200, routers: 3, obeing: 3},
			told{state: Verify, seconds: 10, requests: 100, away: 60, saturation: 0.4, micros: 6_000_000, ttftMs: 100, routers: 3},
		),
		Events: []Happening{
			{AtUnixMs: began + 9_600, State: Shifting, Kind: OfTransition, Text: "treated as dead"},
			{AtUnixMs: began + 10_000, State: Shifting, Kind: OfRouter, Text: "router r1 ejected gone"},
			{AtUnixMs: began + 12_100, State: Shifting, Kind: OfDecision, Text: "gone is failing over"},
		},
		Forecast: &Forecast{
			Verdict: "PASS", Survivors: []Survivor{{Cluster: "stays", Before: 0.4, With: 0.65}}, TTFTP95Ms: 190, MicrosPerMinuteMore: 3_000_000,
		},
	}
}

func ms(v *int64) int64 {
	if v == nil {
		return -1
	}
	return *v
}

func TestRecoveryIsSplitIntoItsParts(t *testing.T) {
	r := NewReport(hard()).Recovery
	got := []int64{r.FromUnixMs - began, ms(r.DetectMs), ms(r.DecideMs), ms(r.PropagateMs), ms(r.HalfMs), ms(r.NinetyNineMs)}
	// 40 % were there; at 11 s 15 % are left, at 13 s none. All obey from 13 s on.
	if want := []int64{9_600, 400, 2_500, 3_400, 1_400, 3_400}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRecoveryTellsNothingThatDidNotHappen(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*ReportInput)
		want   []int64 // detect, decide, propagate, half, 99 %
	}{
		"nobody ejected or decided": {func(in *ReportInput) { in.Events = in.Events[:1] }, []int64{-1, -1, 3_400, 1_400, 3_400}},
		"nothing was ordered away": {func(in *ReportInput) {
			for i := range in.Samples {
				in.Samples[i].Shifted = 0
			}
		}, []int64{-1, -1, -1, -1, -1}},
		"no samples": {func(in *ReportInput) { in.Samples = nil }, []int64{-1, -1, -1, -1, -1}},
		"a fifth stays, so 99 % never left": {func(in *ReportInput) {
			for i, s := range in.Samples {
				if s.State == Hold {
					in.Samples[i].Away = 92
				}
			}
		}, []int64{400, 2_500, 3_400, 1_400, -1}},
		"it left for one second and came again": {func(in *ReportInput) {
			for i := range in.Samples[10:22] {
				in.Samples[10+i].Away = map[bool]int64{true: 100, false: 60}[i%4 == 3]
			}
		}, []int64{400, 2_500, 3_400, -1, -1}},
		"no baseline":                {func(in *ReportInput) { in.Samples = in.Samples[10:] }, []int64{400, 2_500, 3_400, -1, -1}},
		"traffic comes back instead": {func(in *ReportInput) { in.Facts.Kind = FailbackOnly }, []int64{400, 2_500, 3_400, -1, -1}},
		"one router in three never obeys": {func(in *ReportInput) {
			for i := range in.Samples {
				in.Samples[i].Obeying = min(in.Samples[i].Obeying, 2)
			}
		}, []int64{400, 2_500, -1, 1_400, 3_400}},
	} {
		in := hard()
		c.change(&in)
		r := NewReport(in).Recovery
		if got := []int64{ms(r.DetectMs), ms(r.DecideMs), ms(r.PropagateMs), ms(r.HalfMs), ms(r.NinetyNineMs)}; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestStagedDrillsAreTimedFromTheLastStep(t *testing.T) {
	in := hard()
	in.Facts.Kind, in.Events = Soft, nil
	in.Samples = samplesOf(
		told{state: Measuring, seconds: 5, requests: 100, away: 50},
		told{state: Dwell, shifted: 5e5, seconds: 10, requests: 100, away: 75},
		told{state: Shifting, shifted: 1e6, seconds: 2, requests: 100, away: 75},
		told{state: Hold, shifted: 1e6, seconds: 9, requests: 100, away: 100},
	)
	if r := NewReport(in).Recovery; r.FromUnixMs != began+15_000 || ms(r.NinetyNineMs) != 2_000 || ms(r.HalfMs) != 2_000 {
		t.Errorf("from %d, 50 %% %d, 99 %% %d", r.FromUnixMs-began, ms(r.HalfMs), ms(r.NinetyNineMs))
	}
}

func TestRequestsAreToldByTierAndPhase(t *testing.T) {
	in := hard()
	in.Samples[12].Tiers[1].Lost = 2
	in.Samples[13].Tiers[1].Broken = 1
	in.Samples[13].Protected, in.Samples[13].ProtectedDenied = 50, 3
	r := NewReport(in)
	if got := []int{r.Before.Seconds, r.During.Seconds, r.After.Seconds}; !reflect.DeepEqual(got, []int{10, 20, 10}) {
		t.Errorf("seconds %v", got)
	}
	top, batch := r.During.Tiers[0], r.During.Tiers[1]
	if top.Tier != "top" || top.Total != 2000 || top.Lost != 2 || top.Broken != 1 || batch.Tier != "batch" || batch.Shed != 20 || batch.TTFT != nil {
		t.Errorf("%+v %+v", top, batch)
	}
	if r.During.All.Total != 2020 || r.During.All.Lost != 2 || r.During.All.Tier != "" {
		t.Errorf("all: %+v", r.During.All)
	}
	if r.During.Protected != 50 || r.During.ProtectedDenied != 3 {
		t.Errorf("protected: %+v", r.During)
	}
	if *r.Before.PrefixHit != 0.7 || *r.During.PrefixHit != 0.5 || r.After.PrefixHit != nil {
		t.Errorf("prefix hits %v %v %v", r.Before.PrefixHit, r.During.PrefixHit, r.After.PrefixHit)
	}
	if r.During.PeakSaturation != 0.8 || r.During.PeakCluster != "stays" {
		t.Errorf("peak %v of %s: the drilled cluster is no survivor", r.During.PeakSaturation, r.During.PeakCluster)
	}
	if r.Streams != (StreamsReport{AtShift: 8, Left: 1}) {
		t.Errorf("streams %+v", r.Streams)
	}
}

func TestQuantilesAreWithinABucketOfTheTruth(t *testing.T) {
	counts := make([]int64, Buckets)
	for i := 1; i <= 1000; i++ {
		counts[Bucket(float64(i))]++ // 1..1000 ms, evenly
	}
	q := quantilesOf(counts)
	for want, got := range map[float64]float64{500: q.P50, 950: q.P95, 990: q.P99} {
		if got < want/1.19 || got > want*1.19 {
			t.Errorf("%v instead of %v", got, want)
		}
	}
	last := make([]int64, Buckets)
	last[Buckets-1] = 4
	if q := quantilesOf(last); math.IsInf(q.P99, 0) || q.P99 < 50_000 {
		t.Errorf("beyond the last edge: %+v", q)
	}
	if quantilesOf(nil) != nil || quantilesOf(make([]int64, Buckets)) != nil {
		t.Error("quantiles of nothing")
	}
}

func TestMoneyIsTheDifferenceToTheBaseline(t *testing.T) {
	in := hard()
	m := NewReport(in).Money
	if *m.BeforePerMinute != 6_000_000 || *m.DuringPerMinute != 9_000_000 || *m.AfterPerMinute != 6_000_000 || *m.Extra != 1_000_000 {
		t.Errorf("%d %d %d: %d", *m.BeforePerMinute, *m.DuringPerMinute, *m.AfterPerMinute, *m.Extra) // 3 a minute, for 20 s
	}
	in.Samples = in.Samples[10:]
	if m := NewReport(in).Money; m.BeforePerMinute != nil || m.Extra != nil || m.DuringPerMinute == nil {
		t.Errorf("without a baseline: %+v", m)
	}
}

func TestWhatTheSimulationGotWrongIsSaid(t *testing.T) {
	in := hard()
	r := NewReport(in)
	if len(r.Wrong) != 1 || r.Wrong[0].Of != "stays" || r.Wrong[0].Text != "stays peaked at 80 % of its capacity; 65 % was simulated." {
		t.Errorf("%+v", r.Wrong)
	}
	if s := r.Survivors; len(s) != 1 || s[0].Before != 0.4 || s[0].Peak != 0.8 || *s[0].Simulated != 0.65 {
		t.Errorf("%+v", s)
	}
	in.Forecast.TTFTP95Ms, in.Forecast.MicrosPerMinuteMore = 100, 0
	in.Forecast.Survivors[0].With = 0.79
	in.Forecast.Survivors = append(in.Forecast.Survivors, Survivor{Cluster: "silent", With: 0.5})
	var got []string
	for _, w := range NewReport(in).Wrong {
		got = append(got, w.What+" "+string(w.Of))
	}
	if want := []string{"saturation silent", "ttft ", "cost "}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q: the worst first", got, want)
	}
	in.Forecast = nil
	if r := NewReport(in); r.Wrong != nil || r.Survivors[0].Simulated != nil {
		t.Errorf("nothing was simulated: %+v", r.Wrong)
	}
}

func TestEarlierRunsAreComparedTheLastFirst(t *testing.T) {
	in := hard()
	for id := uint64(1); id <= 12; id++ {
		in.Earlier = append(in.Earlier, Head{ID: id, Outcome: Succeeded})
	}
	r := NewReport(in)
	if len(r.Earlier) != MaxEarlier || r.Earlier[0].ID != 11 || r.Earlier[9].ID != 2 {
		t.Errorf("%+v", r.Earlier)
	}
	h := r.Head()
	_, sum := Encode(r)
	if h.ID != 12 || h.SHA256 != hex.EncodeToString(sum[:]) || h.Total != 2020 || h.PeakSaturation != 0.8 || ms(h.NinetyNineMs) != 3_400 || h.TopTTFTP95Ms < 168 || h.TopTTFTP95Ms > 238 {
		t.Errorf("%+v", h)
	}
}

func TestAbortsAreTheSignals(t *testing.T) {
	in := hard()
	in.Events = append(in.Events, Happening{AtUnixMs: began + 15_000, State: RollingBack, Kind: OfSignal, Text: "errors of survivors"})
	if r := NewReport(in); len(r.Aborts) != 1 || r.Aborts[0].Text != "errors of survivors" || len(r.Events) != 4 {
		t.Errorf("%+v", r.Aborts)
	}
}

func TestAReportIsTheSameBytesEachTime(t *testing.T) {
	a, sumA := Encode(NewReport(hard()))
	b, sumB := Encode(NewReport(hard()))
	if !bytes.Equal(a, b) || sumA != sumB {
		t.Error("two reports of one input differ")
	}
	back, err := Decode(a)
	if err != nil {
		t.Fatal(err)
	}
	if again, sum := Encode(back); !bytes.Equal(a, again) || sum != sumA {
		t.Errorf("read and written again it differs:\n%s\n%s", a, again)
	}
	unpacked, err := Unpack(Pack(a))
	if err != nil || !bytes.Equal(unpacked, a) {
		t.Errorf("packed and unpacked: %v", err)
	}
	for _, bad := range [][]byte{nil, []byte("no gzip")} {
		if _, err := Unpack(bad); err == nil {
			t.Errorf("unpacked %q", bad)
		}
	}
}

func TestFiguresThatAreNoNumbersDoNotEndTheReport(t *testing.T) {
	in := hard()
	in.Samples[12].Clusters[1].Saturation = math.NaN()
	in.Samples[13].Clusters[1].Saturation = math.Inf(1)
	in.Forecast.ColdFactor = math.NaN()
	in.Facts.Spec = json.RawMessage(`{`)
	r := NewReport(in)
	b, _ := Encode(r)
	if _, err := Decode(b); err != nil || r.Forecast != nil || r.Spec != nil {
		t.Errorf("%v: %.200s", err, b)
	}
}
