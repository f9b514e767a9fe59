package cloudwatch

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func everything(string) bool { return true }

// told writes data as "name{label=value} value unit", or the hits of each value.
func told(points []point) []string {
	var out []string
	for _, p := range points {
		text := *p.MetricName
		for _, d := range p.Dimensions {
			text += fmt.Sprintf(" %s=%s", *d.Name, *d.Value)
		}
		if p.Value != nil {
			text += fmt.Sprintf(": %g", *p.Value)
		}
		for i, v := range p.Values {
			text += fmt.Sprintf(": %g×%g", p.Counts[i], v)
		}
		out = append(out, text+" "+string(p.Unit))
	}
	return out
}

// same compares what was published with what should have been.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: published\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// gathered are the metrics of a registry.
func gathered(t *testing.T, r *prometheus.Registry) []*dto.MetricFamily {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func TestWhatIsPublishedOfEachKindOfMetric(t *testing.T) {
	r := prometheus.NewRegistry()
	level := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "anabranch_level_seconds"}, []string{"cluster", "model"})
	count := prometheus.NewCounter(prometheus.CounterOpts{Name: "anabranch_answers_total"})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "anabranch_took_seconds", Buckets: []float64{0.1, 1, 10}})
	r.MustRegister(level, count, took)
	level.WithLabelValues("eu-1", "llama").Set(1.5)
	level.WithLabelValues("us-1", "").Set(-2)
	count.Add(40)
	took.Observe(0.5)

	first, sums := data(gathered(t, r), everything, nil, noon)
	gauges := []string{"anabranch_level_seconds cluster=eu-1 model=llama: 1.5 Seconds", "anabranch_level_seconds cluster=us-1: -2 Seconds"}
	same(t, "first, when nobody knows since when counters count", told(first), gauges)

	count.Add(2)
	took.Observe(0.05)
	took.Observe(5)
	took.Observe(5)
	took.Observe(500)
	second, sums := data(gathered(t, r), everything, sums, noon)
	want := append([]string{"anabranch_answers_total: 2 Count"}, gauges...)
	want = append(want, "anabranch_took_seconds: 1×0.1: 3×10 Seconds")
	same(t, "then", told(second), want)

	third, _ := data(gathered(t, r), everything, sums, noon)
	same(t, "with nothing new", told(third), append([]string{"anabranch_answers_total: 0 Count"}, gauges...))
}

func TestACounterThatWentDownHasBegunAnew(t *testing.T) {
	count := func(n float64) []*dto.MetricFamily {
		return []*dto.MetricFamily{{
			Name: aws.String("anabranch_answers_total"), Type: dto.MetricType_COUNTER.Enum(),
			Metric: []*dto.Metric{{Counter: &dto.Counter{Value: aws.Float64(n)}}},
		}}
	}
	_, sums := data(count(100), everything, nil, noon)
	got, _ := data(count(7), everything, sums, noon)
	same(t, "anew", told(got), []string{"anabranch_answers_total: 7 Count"})
}

func TestWhatCloudWatchDoesNotTakeIsLeftOut(t *testing.T) {
	gauge := func(value float64, labels ...*dto.LabelPair) []*dto.MetricFamily {
		return []*dto.MetricFamily{{
			Name: aws.String("anabranch_level"), Type: dto.MetricType_GAUGE.Enum(),
			Metric: []*dto.Metric{{Gauge: &dto.Gauge{Value: aws.Float64(value)}, Label: labels}},
		}}
	}
	var many []*dto.LabelPair
	for i := range maxDimensions + 1 {
		many = append(many, &dto.LabelPair{Name: aws.String(fmt.Sprint("l", i)), Value: aws.String("x")})
	}
	for name, families := range map[string][]*dto.MetricFamily{
		"not a number":    gauge(math.NaN()),
		"infinite":        gauge(math.Inf(-1)),
		"too large":       gauge(math.Ldexp(1, 361)),
		"too many labels": gauge(1, many...),
		"a summary": {{
			Name: aws.String("anabranch_took"), Type: dto.MetricType_SUMMARY.Enum(), Metric: []*dto.Metric{{Summary: &dto.Summary{}}},
		}},
		"not wanted": gauge(1),
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := data(families, func(string) bool { return name != "not wanted" }, nil, noon); len(got) != 0 {
				t.Errorf("published: %v", told(got))
			}
		})
	}
	odd := gauge(1, &dto.LabelPair{Name: aws.String("name"), Value: aws.String(" zoë\n ")}, &dto.LabelPair{Name: aws.String("none"), Value: aws.String("")})
	got, _ := data(odd, everything, nil, noon)
	same(t, "odd labels", told(got), []string{"anabranch_level name=zo??: 1 None"})
}

func TestUnitsFollowNames(t *testing.T) {
	for name, want := range map[string]types.StandardUnit{
		"anabranch_age_seconds":        types.StandardUnitSeconds,
		"anabranch_wait_seconds_total": types.StandardUnitSeconds,
		"anabranch_sent_bytes_total":   types.StandardUnitBytes,
		"anabranch_requests_total":     types.StandardUnitCount,
		"anabranch_cost_dollars_total": types.StandardUnitNone,
		"anabranch_wanted_capacity":    types.StandardUnitNone,
	} {
		if got := unit(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
