package dataplane

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/drill"
	"anabranch/dataplane/queue"
	"anabranch/dataplane/table"
)

// What is told of a drill: to the control plane, to people, and to whoever asks about one request.

// drillEnded counts a client's request that has ended while its table had a drill, and says in its record what that had
// it do.
func (r *Router) drillEnded(x *trip, rec *Record) {
	if x.table == nil || x.table.Drill() == nil || x.tenant == nil || x.shadow {
		return
	}
	d := x.table.Drill()
	rec.Drill = x.drillWords()
	if x.hop || x.model == nil {
		return
	}
	scoped := d.Scopes(x.tenant.ID, x.model.ID)
	if way := x.drilled.way; x.drilled.lifted {
		r.drills.ways.WithLabelValues(wayLifted).Inc()
	} else if scoped {
		r.drills.ways.WithLabelValues(max(way, drill.Kept).String()).Inc()
	}
	now := r.drills.of(d)
	if now == nil {
		return
	}
	e := drill.Ended{
		Tier: queue.Tier(x.priority), Fate: x.fate(rec), Scoped: scoped, Protected: d.Protects(x.tenant.ID),
		Away: x.served != "" && !d.Drills(x.served), Shifted: x.shifted() || x.drilled.way == drill.Watched,
	}
	if rec.Stream {
		e.TTFTMs = rec.FirstByteMs
	}
	now.counts.Ended(&e)
}

// drillWords is what the drill had a request do, for its record.
func (x *trip) drillWords() string {
	words := fmt.Sprintf("drill %d: %s", x.table.Drill().ID, x.drilled.way)
	if x.drilled.refused > 0 {
		words += fmt.Sprintf(", %d attempts refused", x.drilled.refused)
	}
	if x.drilled.lifted {
		words += ", lifted as no place was left"
	}
	return words
}

// fate is what became of a request, as a drill counts it.
func (x *trip) fate(rec *Record) drill.Fate {
	switch {
	case rec.Quota != nil:
		return drill.Limited
	case x.noRoom:
		return drill.Shed
	case rec.ClientGone || rec.Code == codeQuotaCut:
		return drill.Any
	case rec.Broken:
		return drill.Broken
	case rec.Status >= 500:
		return drill.Lost
	case rec.Status < 400 && x.last != nil && x.last.Committed && x.attempts > 1:
		return drill.Retried
	}
	return drill.Any
}

// drillPrompt counts a prompt of which its model server told what was cached, where it was sent from.
func (r *Router) drillPrompt(x *trip, t *try) {
	d := x.table.Drill()
	if d == nil || t.endpoint == nil || x.shadow {
		return
	}
	if usage, _ := t.result.Own(); usage.Prompt > 0 && (usage.Cached > 0 || t.endpoint.TellsCached()) {
		if now := r.drills.of(d); now != nil {
			now.counts.Prompt(usage.Prompt, usage.Cached)
		}
	}
}

// drillReport adds to a report what is known of the drill of the table. A cluster that is ejected by those who rehearse is
// not reported as ejected: it is well, and only the reason says what is rehearsed.
func (r *Router) drillReport(report *routerpb.Report, t *table.Table, now time.Time) {
	if t == nil || t.Drill() == nil {
		return
	}
	d := t.Drill()
	at := r.drills.of(d)
	if at == nil {
		return
	}
	s := r.drillStands(d, now)
	signal := at.counts.Drain()
	signal.Id, signal.Sequence, signal.ShiftedPpm, signal.Reverted = d.ID, s.Sequence, s.Shifted, s.Lapsed
	signal.EjectedUnixMs = uint64(max(at.ejected.Load(), 0))
	signal.StreamsLeft, signal.Streams = r.open(t)
	report.Drill = signal
	if dead := at.dead.Load(); dead != nil && s.Dead {
		for _, c := range report.GetClusters() {
			if out, why := dead.Ejected(r.places.Cluster(fleet.ClusterID(c.GetCluster()))); out && !c.GetEjected() {
				c.EjectReason = why
			}
		}
	}
}

// open is how many requests are at drilled clusters, and at all. Those of another region are for the routers there to
// tell, which have them too.
func (r *Router) open(t *table.Table) (drilled, all int64) {
	for id := range t.Clusters {
		c := r.places.Cluster(id)
		if c == nil || c.Remote && c.Spec().Kind != table.KindRouter {
			continue
		}
		n := c.InFlight()
		if all += n; t.Drill().Drills(id) {
			drilled += n
		}
	}
	return drilled, all
}

// DrillStatus is how the router stands with the drill of its table.
type DrillStatus struct {
	ID       uint64            `json:"id"`
	Kind     string            `json:"kind"`
	Clusters []fleet.ClusterID `json:"clusters"`
	// Sequence is the number of the lease that is obeyed, which ends in RemainingS unless it is renewed; 0: none is, and
	// requests go as without the drill.
	Sequence   uint64  `json:"sequence"`
	RemainingS float64 `json:"remainingSeconds"`
	// Shifted is the part of the requests within the scope, 0 to 1, that is shifted.
	Shifted float64 `json:"shifted"`
	// Dead: drilled clusters are dead to them. QuotaStoreLost: the quota store is taken not to answer. WatchOnly: they
	// are only counted.
	Dead           bool `json:"dead,omitempty"`
	QuotaStoreLost bool `json:"quotaStoreLost,omitempty"`
	WatchOnly      bool `json:"watchOnly,omitempty"`
	// Lapsed: the last lease ran out without a word.
	Lapsed bool `json:"lapsed,omitempty"`
}

// drillStatus is nil where the table has no drill.
func (r *Router) drillStatus(t *table.Table, now time.Time) *DrillStatus {
	d := t.Drill()
	if d == nil {
		return nil
	}
	s := r.drillStands(d, now)
	out := &DrillStatus{
		ID: d.ID, Kind: string(d.Kind), Clusters: []fleet.ClusterID{}, Sequence: s.Sequence, RemainingS: s.Remaining.Seconds(),
		Shifted: float64(s.Shifted) / drill.Whole, Dead: s.Dead, QuotaStoreLost: s.QuotaStoreLost, WatchOnly: s.WatchOnly, Lapsed: s.Lapsed,
	}
	for _, c := range d.Clusters {
		out.Clusters = append(out.Clusters, c.ID)
	}
	return out
}

// drillCollector tells of leases when it is asked.
type drillCollector struct{ r *Router }

var (
	drillLease   = gauge("anabranch_router_drill_lease_seconds", "Time for which the lease of the table's drill holds yet; 0: none is obeyed.")
	drillShifted = gauge("anabranch_router_drill_shifted_ratio", "Part 0 to 1 of the requests within the scope of the table's drill that is shifted now.")
	drillLeases  = gauge("anabranch_router_drill_leases_total", "Leases of drills that came, by verdict: taken, finished (the drill is over), again (it was heard before), outdated or malformed.", "verdict")
	drillLapses  = gauge("anabranch_router_drill_lapses_total", "Leases of drills that ran out without a word.")
)

// Describe implements [prometheus.Collector].
func (c *drillCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{drillLease, drillShifted, drillLeases, drillLapses} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *drillCollector) Collect(to chan<- prometheus.Metric) {
	holder := c.r.drills.holder
	var s drill.Status
	if t := c.r.tables.Load(); t != nil && t.Drill() != nil {
		s = c.r.drillStands(t.Drill(), c.r.now())
	}
	to <- prometheus.MustNewConstMetric(drillLease, prometheus.GaugeValue, s.Remaining.Seconds())
	to <- prometheus.MustNewConstMetric(drillShifted, prometheus.GaugeValue, float64(s.Shifted)/drill.Whole)
	to <- prometheus.MustNewConstMetric(drillLapses, prometheus.CounterValue, float64(holder.Lapses()))
	holder.Verdicts(func(v drill.Verdict, n uint64) {
		to <- prometheus.MustNewConstMetric(drillLeases, prometheus.CounterValue, float64(n), string(v))
	})
}
