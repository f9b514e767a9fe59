package report

import (
	"fmt"

	"anabranch/sim/report/stat"
)

// Unit is what a figure is counted in.
type Unit string

// The units of figures.
const (
	Count     Unit = ""
	Share     Unit = "%"  // 0..1, shown as per cent
	Millis    Unit = "ms" // milliseconds
	Seconds   Unit = "s"  // seconds
	PerSecond Unit = "/s" // per second
	PerMinute Unit = "/min"
	Micros    Unit = "µ$" // millionths of a US dollar
)

// Metric is one of the figures.
type Metric struct {
	// Key is the path of the figure in JSON, the same in CSV: it does not change.
	Key string
	// Label is for heads of tables.
	Label string
	Unit  Unit
	// Better is 1 when more is better, -1 when less is, and 0 when neither.
	Better int
	get    func(*Figures) stat.Number
}

// Of is the figure of a run.
func (m Metric) Of(f *Figures) stat.Number { return m.get(f) }

// Relative says that changes of it are told as a share of what it was. Those of shares are told as
// their difference.
func (m Metric) Relative() bool { return m.Unit != Share }

var metrics = all()

// Metrics are all figures, in the order of tables.
func Metrics() []Metric { return append([]Metric(nil), metrics...) }

// Lookup finds a metric by its key.
func Lookup(key string) (Metric, error) {
	for _, m := range metrics {
		if m.Key == key {
			return m, nil
		}
	}
	return Metric{}, fmt.Errorf("figure %q: there is none; ttftMs.p95 would be one", key)
}

func all() []Metric {
	out := spread("ttftMs", "TTFT", func(f *Figures) *stat.Spread { return &f.TTFT })
	out = append(out, spread("interTokenMs", "inter-token", func(f *Figures) *stat.Spread { return &f.InterToken })...)
	out = append(out, spread("latencyMs", "latency", func(f *Figures) *stat.Spread { return &f.Latency })...)
	return append(out, []Metric{
		{"goodput.share", "goodput", Share, 1, func(f *Figures) stat.Number { return f.Goodput.Share }},
		{"goodput.perSecond", "goodput/s", PerSecond, 1, func(f *Figures) stat.Number { return f.Goodput.PerSecond }},
		{"throughput.requestsPerS", "answers/s", PerSecond, 1, func(f *Figures) stat.Number { return f.Throughput.Requests }},
		{"throughput.outputTokensPerS", "output tokens/s", PerSecond, 1, func(f *Figures) stat.Number { return f.Throughput.Output }},
		{"routing.hitRate", "prefix hits", Share, 1, func(f *Figures) stat.Number { return f.Routing.HitRate }},
		{"routing.crossRegion", "cross-region", Share, 0, func(f *Figures) stat.Number { return f.Routing.CrossRegion }},
		{"routing.retries", "retries/request", Count, -1, func(f *Figures) stat.Number { return f.Routing.Retries }},
		{"balance.minShare", "pod share min", Share, 0, func(f *Figures) stat.Number { return f.Balance.Min }},
		{"balance.maxShare", "pod share max", Share, 0, func(f *Figures) stat.Number { return f.Balance.Max }},
		{"balance.cv", "pod share CV", Count, -1, func(f *Figures) stat.Number { return f.Balance.CV }},
		{"balance.overFair", "busiest pod × fair", Count, -1, func(f *Figures) stat.Number { return f.Balance.OverFair }},
		{"ends.requests", "requests", Count, 0, func(f *Figures) stat.Number { return f.Ends.Requests }},
		{"ends.answered", "answered", Count, 1, func(f *Figures) stat.Number { return f.Ends.Answered }},
		{"ends.shed", "shed", Count, -1, func(f *Figures) stat.Number { return f.Ends.Shed }},
		{"ends.denied", "denied", Count, 0, func(f *Figures) stat.Number { return f.Ends.Denied }},
		{"ends.failed", "failed", Count, -1, func(f *Figures) stat.Number { return f.Ends.Failed }},
		{"ends.cut", "cut", Count, -1, func(f *Figures) stat.Number { return f.Ends.Cut }},
		{"ends.gaveUp", "gave up", Count, -1, func(f *Figures) stat.Number { return f.Ends.GaveUp }},
		{"ends.lost", "not answered", Share, -1, func(f *Figures) stat.Number { return f.Ends.Lost }},
		{"queue.p50Ms", "router queue P50", Millis, -1, func(f *Figures) stat.Number { return f.Queue.P50 }},
		{"queue.p99Ms", "router queue P99", Millis, -1, func(f *Figures) stat.Number { return f.Queue.P99 }},
		{"queue.routers", "waiting in routers", Count, -1, func(f *Figures) stat.Number { return f.Queue.Routers }},
		{"queue.pods", "waiting in pods", Count, -1, func(f *Figures) stat.Number { return f.Queue.Pods }},
		{"queue.running", "running", Count, 0, func(f *Figures) stat.Number { return f.Queue.Running }},
		{"preemptions", "preemptions", Count, -1, func(f *Figures) stat.Number { return f.Preemptions }},
		{"weights.churnPerMinute", "weights moved", PerMinute, -1, func(f *Figures) stat.Number { return f.Weights.PerMinute }},
		{"weights.reversalsPerMinute", "weight reversals", PerMinute, -1, func(f *Figures) stat.Number { return f.Weights.Reversals }},
		{"rules.residencyViolations", "residency violations", Count, -1, func(f *Figures) stat.Number { return f.Rules.Violations }},
		{"rules.quotaOver", "over quota", Share, -1, func(f *Figures) stat.Number { return f.Rules.QuotaOver }},
		{"rules.quotaUnder", "under quota", Share, -1, func(f *Figures) stat.Number { return f.Rules.QuotaUnder }},
		{"cost.fleetMicroUSD", "fleet cost", Micros, -1, func(f *Figures) stat.Number { return f.Cost.Fleet }},
		{"cost.workMicroUSD", "cost of work", Micros, -1, func(f *Figures) stat.Number { return f.Cost.Work }},
		{"cost.perAnswerMicroUSD", "cost/answer", Micros, -1, func(f *Figures) stat.Number { return f.Cost.PerAnswer }},
		{"cost.workPerAnswerMicroUSD", "work/answer", Micros, -1, func(f *Figures) stat.Number { return f.Cost.WorkPerAnswer }},
		{"cost.perMillionTokensMicroUSD", "cost/M tokens", Micros, -1, func(f *Figures) stat.Number { return f.Cost.PerMillion }},
		{"cost.overBound", "cost/bound", Count, -1, func(f *Figures) stat.Number { return f.Cost.OverBound }},
		{"recovery.seconds", "recovery", Seconds, -1, func(f *Figures) stat.Number { return f.Recovery.Seconds }},
		{"recovery.lostRequests", "lost in event", Count, -1, func(f *Figures) stat.Number { return f.Recovery.Lost }},
		{"recovery.peakWaitingPerPod", "peak waiting/pod", Count, -1, func(f *Figures) stat.Number { return f.Recovery.Peak }},
		{"seconds", "time", Seconds, 0, func(f *Figures) stat.Number { return f.Seconds }},
	}...)
}

func spread(key, label string, of func(*Figures) *stat.Spread) []Metric {
	return []Metric{
		{key + ".p50", label + " P50", Millis, -1, func(f *Figures) stat.Number { return of(f).P50 }},
		{key + ".p90", label + " P90", Millis, -1, func(f *Figures) stat.Number { return of(f).P90 }},
		{key + ".p95", label + " P95", Millis, -1, func(f *Figures) stat.Number { return of(f).P95 }},
		{key + ".p99", label + " P99", Millis, -1, func(f *Figures) stat.Number { return of(f).P99 }},
		{key + ".mean", label + " mean", Millis, -1, func(f *Figures) stat.Number { return of(f).Mean }},
	}
}
