package cloudwatch

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	dto "github.com/prometheus/client_model/go"
)

// What one datum may have, see
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_MetricDatum.html
const (
	maxDimensions = 30
	maxValues     = 150
	maxText       = 255
)

// largest is the greatest value that CloudWatch takes, either sign.
var largest = math.Ldexp(1, 360)

// sums are what counters and histograms stood at when they were last published, by series.
type sums map[string][]float64

// point is a datum, and the series that it is of.
type point struct {
	types.MetricDatum
	series string
}

// data turns metrics of Prometheus into data of CloudWatch, by name and labels in order: of gauges what they
// stand at, of counters what came on top since before, of histograms how often each bucket was hit since
// then, as values at the buckets' upper ends. What was never seen before begins at this moment, and one that
// went down, since its process was started anew, at 0. Series without anything to tell are left out.
// After is before for the next time.
func data(families []*dto.MetricFamily, wanted func(string) bool, before sums, now time.Time) (out []point, after sums) {
	after = sums{}
	families = slices.Clone(families)
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for _, f := range families {
		if !wanted(f.GetName()) {
			continue
		}
		for _, m := range f.GetMetric() {
			datum := types.MetricDatum{
				MetricName: aws.String(f.GetName()), Timestamp: aws.Time(now), Dimensions: dimensions(m.GetLabel()), Unit: unit(f.GetName()),
			}
			if !fill(&datum, f, m, before, after) || len(datum.Dimensions) > maxDimensions || len(f.GetName()) > maxText {
				continue
			}
			out = append(out, point{datum, series(f, m)})
		}
	}
	return out, after
}

// fill gives a datum its value or values, and says whether there are any.
func fill(d *types.MetricDatum, f *dto.MetricFamily, m *dto.Metric, before, after sums) bool {
	switch f.GetType() {
	case dto.MetricType_GAUGE:
		d.Value = aws.Float64(m.GetGauge().GetValue())
	case dto.MetricType_UNTYPED:
		d.Value = aws.Float64(m.GetUntyped().GetValue())
	case dto.MetricType_COUNTER:
		grown, known := growth(series(f, m), []float64{m.GetCounter().GetValue()}, before, after)
		if !known {
			return false
		}
		d.Value = aws.Float64(grown[0])
	case dto.MetricType_HISTOGRAM, dto.MetricType_GAUGE_HISTOGRAM:
		return spread(d, f, m, before, after)
	default: // a summary's quantiles can't be put together with others
		return false
	}
	return fits(*d.Value)
}

// spread gives a datum the upper ends of a histogram's buckets, and how often each was hit. What is above all
// of them counts at the last one.
func spread(d *types.MetricDatum, f *dto.MetricFamily, m *dto.Metric, before, after sums) bool {
	var ends, counts []float64
	for _, b := range m.GetHistogram().GetBucket() {
		if end := b.GetUpperBound(); fits(end) {
			ends, counts = append(ends, end), append(counts, float64(b.GetCumulativeCount()))
		}
	}
	if len(ends) == 0 || len(ends) > maxValues {
		return false
	}
	counts[len(counts)-1] = float64(m.GetHistogram().GetSampleCount())
	grown, known := growth(series(f, m), counts, before, after)
	if !known {
		return false
	}
	below := 0.0
	for i, end := range ends {
		if hits := grown[i] - below; hits > 0 {
			d.Values, d.Counts = append(d.Values, end), append(d.Counts, hits)
		}
		below = grown[i]
	}
	return len(d.Values) > 0
}

// growth is what came on top of sums since before, and whether they were known then.
func growth(series string, now []float64, before, after sums) ([]float64, bool) {
	after[series] = now
	was, known := before[series]
	if !known || len(was) != len(now) {
		return nil, false
	}
	grown := make([]float64, len(now))
	for i := range now {
		if now[len(now)-1] < was[len(was)-1] { // begun anew
			grown[i] = now[i]
		} else {
			grown[i] = now[i] - was[i]
		}
	}
	return grown, true
}

func fits(value float64) bool { return math.Abs(value) <= largest } // NaN does not

// series names one series of a metric.
func series(f *dto.MetricFamily, m *dto.Metric) string {
	var name strings.Builder
	name.WriteString(f.GetName())
	for _, l := range m.GetLabel() {
		name.WriteString("\x00" + l.GetName() + "\x00" + l.GetValue())
	}
	return name.String()
}

// dimensions are labels, without those that say nothing: CloudWatch takes no empty values.
func dimensions(labels []*dto.LabelPair) []types.Dimension {
	var out []types.Dimension
	for _, l := range labels {
		if value := printable(l.GetValue()); value != "" {
			out = append(out, types.Dimension{Name: aws.String(l.GetName()), Value: aws.String(value)})
		}
	}
	return out
}

// printable keeps what a dimension's value may hold: printable ASCII.
func printable(value string) string {
	value = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, value)
	return strings.TrimSpace(value[:min(len(value), maxText)])
}

// unit is told by a metric's name, as Prometheus has it.
func unit(name string) types.StandardUnit {
	switch name, total := strings.CutSuffix(name, "_total"); {
	case strings.HasSuffix(name, "_seconds"):
		return types.StandardUnitSeconds
	case strings.HasSuffix(name, "_bytes"):
		return types.StandardUnitBytes
	case total && !strings.HasSuffix(name, "_dollars"):
		return types.StandardUnitCount
	default:
		return types.StandardUnitNone
	}
}
