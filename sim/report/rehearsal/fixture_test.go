package rehearsal

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"

	"anabranch/api/fleet"
	"anabranch/failover/drill"
)

const began = int64(1_800_000_000_000)

// stage of the drill that tests show.
type stage struct {
	state   drill.State
	step    int
	shifted int
	seconds int
}

var stages = []stage{
	{drill.Precheck, 0, 0, 3},
	{drill.Measuring, 0, 0, 60},
	{drill.Shifting, 0, 10_000, 3},
	{drill.Dwell, 0, 10_000, 30},
	{drill.Shifting, 2, 500_000, 3},
	{drill.Dwell, 2, 500_000, 60},
	{drill.Shifting, 3, 1_000_000, 4},
	{drill.Dwell, 3, 1_000_000, 90},
	{drill.Hold, 0, 1_000_000, 120},
	{drill.Failback, 0, 900_000, 30},
	{drill.Failback, 1, 500_000, 30},
	{drill.Failback, 2, 0, 30},
	{drill.Verify, 0, 0, 60},
}

// drilled is a soft drill of a region that bears 40 % of traffic, with noise, as its samples would tell it.
func drilled(change ...func(*drill.ReportInput)) drill.Report {
	random := rand.New(rand.NewPCG(3, 4))
	in := drill.ReportInput{
		ClusterID: "c-7f3a", PreviousSHA256: strings.Repeat("5e", 32),
		Facts: drill.Facts{
			ID: 4711, Plan: "lose-eu-west-1", PlanRevision: 3912, PlanSHA256: strings.Repeat("a7", 32), Kind: drill.Soft, Spec: json.RawMessage(`{"kind":"soft"}`),
			Resolved: drill.Resolved{Clusters: []fleet.ClusterID{"eu-west-1a", "eu-west-1b"}, Regions: []fleet.RegionID{"eu-west-1"}},
			Creator:  "ann", Approvals: []drill.ApprovalReport{{By: "bob", AtUnixMs: began - 600_000, Reason: "quarterly exercise"}},
			Outcome: drill.Succeeded, CreatedUnixMs: began - 900_000, StartedUnixMs: began,
		},
		Forecast: &drill.Forecast{
			Verdict: "PASS", ColdFactor: 1.5, TTFTP95Ms: 520, MicrosPerMinuteMore: 400_000,
			Survivors: []drill.Survivor{{Cluster: "us-east-1a", Before: 0.44, With: 0.7}, {Cluster: "ap-northeast-1a", Before: 0.38, With: 0.62}},
		},
	}
	away, second := 0.6, int64(0)
	for _, s := range stages {
		in.Events = append(in.Events, drill.Happening{AtUnixMs: began + second*1000, State: s.state, Step: s.step, Kind: drill.OfTransition, Text: "as planned"})
		for range s.seconds {
			goal := 0.6 + 0.4*float64(s.shifted)/1e6
			away += (goal - away) * 0.7
			scoped := 400 + random.Int64N(60)
			sample := drill.Sample{
				At: began + second*1000, State: s.state, Step: s.step, Shifted: s.shifted, Routers: 3, Obeying: 3, Scoped: scoped,
				Away: int64(math.Round(away * float64(scoped))), StreamsLeft: int64(math.Max(0, 300*(1-away))), Streams: 700 + random.Int64N(40),
				PrefixTokens: 10_000, CachedTokens: int64(7000 - 2500*(away-0.6)/0.4), MicrosPerMinute: 42_000_000 + int64(6e6*(away-0.6)),
				Protected: 50,
			}
			for i, tier := range []string{"top", "standard", "batch"} {
				t := drill.TierSample{Tier: tier, Total: scoped / 3, Retried: random.Int64N(2), TTFT: make([]int64, drill.Buckets)}
				for range 40 {
					t.TTFT[drill.Bucket((120+80*float64(i))*math.Exp(random.NormFloat64()/2)*(1+0.8*(away-0.6)))]++
				}
				if tier == "batch" && s.shifted == 1_000_000 {
					t.Shed = random.Int64N(6)
				}
				sample.Tiers = append(sample.Tiers, t)
			}
			load := (away - 0.6) / 0.4
			sample.Clusters = []drill.ClusterSample{
				{Cluster: "eu-west-1a", Drilled: true, Saturation: 0.5 * (1 - load)},
				{Cluster: "eu-west-1b", Drilled: true, Saturation: 0.45 * (1 - load)},
				{Cluster: "us-east-1a", Saturation: 0.44 + 0.34*load + 0.02*random.NormFloat64()},
				{Cluster: "ap-northeast-1a", Saturation: 0.38 + 0.22*load + 0.02*random.NormFloat64()},
			}
			in.Samples = append(in.Samples, sample)
			second++
		}
	}
	in.Facts.EndedUnixMs = began + second*1000
	ms, micros := int64(2_400), int64(910_000)
	in.Earlier = []drill.Head{
		{ID: 3120, EndedUnixMs: began - 7*86_400_000, Outcome: drill.Succeeded, NinetyNineMs: &ms, Total: 201_400, PeakSaturation: 0.74, TopTTFTP95Ms: 410, Extra: &micros},
		{ID: 2877, EndedUnixMs: began - 14*86_400_000, Outcome: drill.Failed, Cause: "ttft", Total: 88_100, Lost: 12, PeakSaturation: 0.96, TopTTFTP95Ms: 1_340},
	}
	for _, f := range change {
		f(&in)
	}
	return drill.NewReport(in)
}
