package drill

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"anabranch/api/fleet"
)

func TestTheTimelineIsInColumnsBySecond(t *testing.T) {
	in := hard()
	in.Samples = append(in.Samples[:20:20], in.Samples[23:]...) // three seconds nobody measured
	line := NewReport(in).Timeline
	if line.StepSeconds != 1 || line.Rows != 40 || line.FromUnixMs != began {
		t.Fatalf("%d rows of %d s from %d", line.Rows, line.StepSeconds, line.FromUnixMs)
	}
	if want := [][2]int{{20, 22}}; !reflect.DeepEqual(line.Missing, want) {
		t.Errorf("missing %v", line.Missing)
	}
	want := []TimelineStage{{Row: 0, State: Measuring}, {Row: 10, State: Shifting, Shifted: 1e6}, {Row: 13, State: Hold, Shifted: 1e6}, {Row: 23, State: Failback, Shifted: 5e5}, {Row: 30, State: Verify}}
	if !reflect.DeepEqual(line.Stages, want) {
		t.Errorf("stages %+v", line.Stages)
	}
	if line.Scoped[5] != 100 || line.Scoped[21] != 0 || line.Away[14] != 100 || line.Obeying[11] != 2 || line.StreamsLeft[10] != 8 {
		t.Error("columns are shifted")
	}
	if line.Silent != nil || line.Tiers[1].Total == nil || line.Tiers[0].Tier != "top" || line.Tiers[0].Shed != nil {
		t.Error("columns of zeros are kept, or others are not")
	}
	if c := line.Clusters; len(c) != 2 || !c[0].Drilled || c[1].Saturation[14] != 80 {
		t.Errorf("%+v", c)
	}
}

func TestTicksNeedNotBePunctual(t *testing.T) {
	in := hard()
	for i := range in.Samples {
		in.Samples[i].At += int64([]int{0, 300, -300}[i%3])
	}
	if line := NewReport(in).Timeline; line.Rows != 40 || line.Missing != nil {
		t.Errorf("%d rows, missing %v", line.Rows, line.Missing)
	}
}

func TestAClockThatJumpsMakesNoHugeTimeline(t *testing.T) {
	in := hard()
	in.Samples[30].At += 1000 * int64(time.Hour/time.Millisecond)
	in.Samples[31].At = 0
	if line := NewReport(in).Timeline; line.Rows != 40 {
		t.Errorf("%d rows", line.Rows)
	}
}

func TestStepsAddCountsUpAndKeepPeaks(t *testing.T) {
	line := timelineOf(hard().Samples, 5)
	if line.Rows != 8 || line.Scoped[0] != 500 || line.Tiers[1].Shed[0] != 5 || line.Clusters[1].Saturation[2] != 80 {
		t.Errorf("%d rows, %v, %v", line.Rows, line.Scoped, line.Clusters)
	}
}

// long is a drill of noise: four hours, four tiers.
func long(clusters int) []Sample {
	random := rand.New(rand.NewPCG(1, 2))
	var out []Sample
	for i := range 4 * 60 * 60 {
		s := Sample{At: began + int64(i)*1000, State: Hold, Shifted: 1e6, Routers: 12, Obeying: 12, Scoped: 800 + random.Int64N(200), StreamsLeft: random.Int64N(50), Streams: 900 + random.Int64N(80), MicrosPerMinute: 9_000_000}
		s.Away = s.Scoped - random.Int64N(3)
		for _, tier := range tierOrder {
			sample := TierSample{Tier: tier, Total: 200 + random.Int64N(60), Retried: random.Int64N(3), TTFT: make([]int64, Buckets)}
			sample.TTFT[20+random.IntN(8)] = sample.Total
			s.Tiers = append(s.Tiers, sample)
		}
		for k := range clusters {
			s.Clusters = append(s.Clusters, ClusterSample{Cluster: fleet.ClusterID("cluster-" + string(rune('a'+k/26)) + string(rune('a'+k%26))), Drilled: k == 0, Saturation: 0.6 + random.Float64()/10})
		}
		out = append(out, s)
	}
	return out
}

func TestFourHoursFit(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, c := range []struct{ clusters, step int }{{6, 1}, {60, 0}} {
		in := hard()
		in.Samples = long(c.clusters)
		r := NewReport(in)
		size := packedSize(r)
		t.Logf("%d clusters: %d bytes by %d s", c.clusters, size, r.Timeline.StepSeconds)
		if size > MaxReportBytes || c.step > 0 && r.Timeline.StepSeconds != c.step || r.Timeline.Rows == 0 {
			t.Errorf("%d clusters: %d bytes by %d s", c.clusters, size, r.Timeline.StepSeconds)
		}
		if len(r.Timeline.Clusters) > MaxReportClusters {
			t.Errorf("%d clusters have columns", len(r.Timeline.Clusters))
		}
	}
}
