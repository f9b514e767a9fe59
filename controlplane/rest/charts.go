package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/controlplane/series"
	"anabranch/controlplane/signal"
)

// Series is what this node keeps of some numbers, for charts.
type Series struct {
	// Node keeps it: others have their own memory. Since is when it began to, at its start; absent: it has not.
	Node  fleet.NodeID `json:"node"`
	Since time.Time    `json:"since,omitzero"`
	// From is the start of the first point, To the end of the last, StepMs how long one is.
	From   time.Time     `json:"from"`
	To     time.Time     `json:"to"`
	StepMs int64         `json:"stepMs"`
	Series []SeriesLine  `json:"series"`
	Units  []SeriesUnits `json:"units"`
}

// SeriesLine is one line of a chart.
type SeriesLine struct {
	Metric string `json:"metric"`
	Name   string `json:"name"` // of the region or cluster; empty: of the fleet
	// Points in their order; null: not known.
	Points Points `json:"points"`
}

// SeriesUnits says in what a metric is.
type SeriesUnits struct {
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
}

// Points are values of which some are not known: NaN, which JSON has no word for, is null.
type Points []float64

// MarshalJSON writes them with four digits.
func (p Points) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 6*len(p)+2)
	out = append(out, '[')
	for i, v := range p {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendFloat(out, v, 'g', 4, 64)
		}
	}
	return append(out, ']'), nil
}

// UnmarshalJSON reads them again.
func (p *Points) UnmarshalJSON(b []byte) error {
	var all []*float64
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	*p = make(Points, len(all))
	for i, v := range all {
		(*p)[i] = math.NaN()
		if v != nil {
			(*p)[i] = *v
		}
	}
	return nil
}

// chartMetrics are what is kept, and in what.
var chartMetrics = []SeriesUnits{
	{"requestsPerSecond", "1/s"},
	{"failuresPerSecond", "1/s"},
	{"tokensPerSecond", "tokens/s"},
	{"inFlight", "requests"},
	{"waiting", "requests"},
	{"running", "requests"},
	{"saturation", "share"},
	{"kvUsage", "share"},
	{"ttftP95Ms", "ms"},
	{"loadWork", "work units/s"},
	{"capacityWork", "work units/s"},
	{"endpointsReady", "endpoints"},
	{"wanted", "share"},
	{"observed", "share"},
	{"routersConnected", "routers"},
	{"routersBehind", "routers"},
}

// worstOfSeries are told by their largest value where several are one point.
var worstOfSeries = []string{"saturation", "ttftP95Ms", "routersBehind"}

const (
	// maxSeriesNames and maxSeriesPoints bound an answer.
	maxSeriesNames  = 200
	maxSeriesPoints = 200_000
)

// Run keeps series until the context ends.
func (s *Server) Run(ctx context.Context) error {
	tick := time.NewTicker(series.Step)
	defer tick.Stop()
	for {
		if err := s.Record(); err != nil {
			s.o.Logger.Warn("series not recorded", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Record takes the numbers of now into the series.
func (s *Server) Record() error {
	f, signals, err := s.live.picture(s)
	if err != nil {
		return err
	}
	s.kept.Add(s.o.Now(), chartValues(f, demandShares(s, signals)))
	return nil
}

// share of all work that a cluster should do by the weights, and does.
type share struct{ wanted, observed float64 }

// demandShares adds up the weights of clusters by what is asked for in each region; empty: nothing is.
func demandShares(s *Server, signals signal.Snapshot) map[string]share {
	out, total := map[string]share{}, 0.0
	for _, w := range s.o.View().Table().GetWeights() {
		model, source := fleet.ModelID(w.GetModel()), fleet.RegionID(w.GetSource())
		work := signals.Demand(model, fleet.ClassID(w.GetClass()), source).WorkPerS
		total += work
		for _, c := range w.GetClusters() {
			is := out[c.GetCluster()]
			is.wanted += work * c.GetWeight()
			is.observed += work * signals.Share(model, source, fleet.ClusterID(c.GetCluster()))
			out[c.GetCluster()] = is
		}
	}
	if total <= 0 {
		return nil
	}
	for name, is := range out {
		out[name] = share{is.wanted / total, is.observed / total}
	}
	return out
}

// chartValues are the values of one moment: of clusters, and of regions and the fleet what their clusters come to.
// What nobody has been heard of lately is left out, which is a gap.
func chartValues(f *LiveFleet, shares map[string]share) map[series.Key]float64 {
	out := map[series.Key]float64{}
	put := func(by, name, metric string, v float64) { out[series.Key{Metric: metric, By: by, Name: name}] = v }
	add := func(metric string, v float64, region string) {
		out[series.Key{Metric: metric, By: "region", Name: region}] += v
		out[series.Key{Metric: metric, By: "fleet"}] += v
	}
	worst := func(metric string, v float64, region string) {
		for _, key := range []series.Key{{Metric: metric, By: "region", Name: region}, {Metric: metric, By: "fleet"}} {
			out[key] = max(out[key], v)
		}
	}
	for name, c := range f.Clusters {
		if is, known := shares[name]; known {
			put("cluster", name, "wanted", is.wanted)
			put("cluster", name, "observed", is.observed)
			add("wanted", is.wanted, c.Region)
			add("observed", is.observed, c.Region)
		}
		if c.Freshness != string(signal.Fresh) {
			continue
		}
		for metric, v := range map[string]float64{
			"waiting": c.Waiting, "running": c.Running, "tokensPerSecond": c.TokensPerSecond, "loadWork": c.LoadWork, "capacityWork": c.CapacityWork, "endpointsReady": float64(c.EndpointsReady),
		} {
			put("cluster", name, metric, v)
			add(metric, v, c.Region)
		}
		for metric, v := range map[string]float64{"saturation": c.Saturation, "kvUsage": c.KVUsage, "ttftP95Ms": c.TTFTP95Ms} {
			if metric == "ttftP95Ms" && v == 0 {
				continue // nobody was answered
			}
			put("cluster", name, metric, v)
			worst(metric, v, c.Region)
		}
		put("cluster", name, "requestsPerSecond", c.RequestsPerSecond)
		put("cluster", name, "failuresPerSecond", c.FailuresPerSecond)
	}
	for name, r := range f.Regions {
		add("routersConnected", float64(r.Routers.Connected), name)
		add("routersBehind", float64(r.Routers.Behind), name)
		if r.Freshness != string(signal.Fresh) {
			continue
		}
		add("requestsPerSecond", r.RequestsPerSecond, name)
		add("failuresPerSecond", r.FailuresPerSecond, name)
		add("inFlight", r.InFlight, name)
	}
	return out
}

// series answers what this node keeps of some metrics.
func (s *Server) series(c echo.Context) error {
	q, err := seriesQueryOf(c, s.o.Now())
	if err != nil {
		return err
	}
	a, points, ok := s.kept.Read(q, maxSeriesPoints)
	if !ok {
		return newProblem(codeInvalidRequest, fmt.Sprintf("There would be %d points, the limit is %d: ask for fewer metrics or names, a shorter time, or a larger step.", points, maxSeriesPoints))
	}
	out := Series{Node: s.o.Node, Since: a.Since, From: a.From, To: a.To, StepMs: q.Each.Milliseconds(), Series: []SeriesLine{}, Units: []SeriesUnits{}}
	for _, l := range a.Lines {
		out.Series = append(out.Series, SeriesLine{l.Metric, l.Name, l.Points})
	}
	for _, m := range chartMetrics {
		if slices.Contains(q.Metrics, m.Metric) {
			out.Units = append(out.Units, m)
		}
	}
	return c.JSON(http.StatusOK, out)
}

// seriesQueryOf reads metric, by, name, from, to and step.
func seriesQueryOf(c echo.Context, now time.Time) (series.Query, error) {
	q := series.Query{By: "region", Names: c.QueryParams()["name"], From: now.Add(-series.Span), To: now, Worst: worstOfSeries}
	var known []string
	for _, m := range chartMetrics {
		known = append(known, m.Metric)
	}
	for name := range strings.SplitSeq(c.QueryParam("metric"), ",") {
		if !slices.Contains(known, name) {
			return q, newProblem(codeInvalidRequest, fmt.Sprintf("metric has %.40q; use some of %s, with commas between.", name, strings.Join(known, ", ")))
		}
		q.Metrics = append(q.Metrics, name)
	}
	sorts := []string{"fleet", "region", "cluster"}
	if by := c.QueryParam("by"); by != "" {
		if err := wordOf(c, "by", sorts); err != nil {
			return q, err
		}
		q.By = by
	}
	if len(q.Names) > maxSeriesNames {
		return q, newProblem(codeInvalidRequest, fmt.Sprintf("name is given %d times, the limit is %d.", len(q.Names), maxSeriesNames))
	}
	for name, to := range map[string]*time.Time{"from": &q.From, "to": &q.To} {
		text := c.QueryParam(name)
		if text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil || at.Year() < 1971 || at.Year() > 9998 {
			return q, newProblem(codeInvalidRequest, fmt.Sprintf("%s is %.40q; give a time such as 2026-11-30T08:00:00Z.", name, text))
		}
		*to = at
	}
	if q.To.Before(q.From) {
		return q, newProblem(codeInvalidRequest, "from is after to.")
	}
	step, err := intOf(c, "step", int(series.Step/time.Second), int(series.Span/time.Second), int(series.Step/time.Second))
	if err != nil {
		return q, err
	}
	if q.Each = time.Duration(step) * time.Second; q.Each%series.Step != 0 {
		return q, newProblem(codeInvalidRequest, fmt.Sprintf("step is %d; give a multiple of %d seconds.", step, series.Step/time.Second))
	}
	return q, nil
}
