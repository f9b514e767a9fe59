package archive

import "github.com/prometheus/client_golang/prometheus"

var (
	waiting = prometheus.NewDesc("anabranch_controlplane_audit_unarchived_entries",
		"Entries of the audit trail that are kept and not archived.", nil, nil)
	archivedTotal = prometheus.NewDesc("anabranch_controlplane_audit_archived_entries_total",
		"Entries of the audit trail that this node has archived.", nil, nil)
	lostTotal = prometheus.NewDesc("anabranch_controlplane_audit_lost_entries_total",
		"Entries that fell out of the audit trail before they were archived, as this node has found while it led.", nil, nil)
	failuresTotal = prometheus.NewDesc("anabranch_controlplane_audit_archive_failures_total",
		"Archives of the audit trail that failed on this node.", nil, nil)
)

// Describe names the metrics; an Archiver is a prometheus.Collector.
func (a *Archiver) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{waiting, archivedTotal, lostTotal, failuresTotal} {
		out <- d
	}
}

// Collect tells how the archive stands.
func (a *Archiver) Collect(out chan<- prometheus.Metric) {
	v := a.o.View()
	archived, _ := v.AuditArchived()
	last := v.AuditDropped() + uint64(v.AuditKept())
	out <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, float64(last-min(last, max(archived, v.AuditDropped()))))
	for d, n := range map[*prometheus.Desc]uint64{archivedTotal: a.archived.Load(), lostTotal: a.lost.Load(), failuresTotal: a.failures.Load()} {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n))
	}
}
