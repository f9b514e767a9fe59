package store

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
)

// watch is what is counted of the replication itself.
type watch struct {
	appends       prometheus.Histogram
	proposals     *prometheus.HistogramVec // by how they ended
	snapshots     *prometheus.CounterVec   // by how they ended
	terms, stalls prometheus.Counter

	newest *newestSnapshot
}

// newestSnapshot is the newest one of this node.
type newestSnapshot struct {
	mu    sync.Mutex // guards what follows
	index uint64     // 0: none
	bytes int64
	at    time.Time // zero: not known
}

// Ends of proposals in metrics.
const (
	proposalCommitted = "committed"
	proposalUnknown   = "unknown"
	proposalRefused   = "refused"
)

// newWatch makes metrics for one store; buckets are from 0.1 ms, about a sync of a fast disk, up.
func newWatch() watch {
	const prefix = "anabranch_controlplane_"
	buckets := []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
	w := watch{
		appends: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: prefix + "log_append_seconds", Help: "Time to append entries to the log and to sync it.", Buckets: buckets,
		}),
		proposals: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "commit_seconds", Help: "Time of commands proposed at this node as leader, by how that ended: committed, unknown (leadership lost meanwhile), refused (not proposed).", Buckets: buckets,
		}, []string{"end"}),
		snapshots: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "raft_snapshots_total", Help: "Snapshots written here, own ones and those that leaders sent, by how that ended: written, failed.",
		}, []string{"end"}),
		terms:  prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "terms_led_total", Help: "Terms that this node has begun to lead."}),
		stalls: prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "disk_stalls_total", Help: "Times that an append hung for so long that this node led no more."}),
		newest: &newestSnapshot{},
	}
	for _, end := range []string{proposalCommitted, proposalUnknown, proposalRefused} {
		w.proposals.WithLabelValues(end)
	}
	for _, end := range []string{"written", "failed"} {
		w.snapshots.WithLabelValues(end)
	}
	return w
}

// proposed counts a proposal, unless this node does not lead: others are asked then.
func (w *watch) proposed(err error, took time.Duration) {
	end := proposalCommitted
	var elsewhere ErrNotLeader
	switch {
	case errors.As(err, &elsewhere), errors.Is(err, ErrClosed):
		return
	case errors.Is(err, ErrUnknownOutcome):
		end = proposalUnknown
	case err != nil:
		end = proposalRefused
	}
	w.proposals.WithLabelValues(end).Observe(took.Seconds())
}

// snapshot remembers the newest.
func (w *watch) snapshot(index uint64, bytes int64, at time.Time) {
	w.newest.mu.Lock()
	defer w.newest.mu.Unlock()
	w.newest.index, w.newest.bytes, w.newest.at = index, bytes, at
}

// taken is when hashicorp/raft made a snapshot, which names it TERM-INDEX-MILLISECONDS; zero: it has another
// name.
func taken(id string) time.Time {
	parts := strings.Split(id, "-")
	ms, err := strconv.ParseInt(parts[len(parts)-1], 10, 64)
	if err != nil || len(parts) != 3 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// watchedSnapshots remembers what is written.
type watchedSnapshots struct {
	raft.SnapshotStore
	watch *watch
}

// Create begins one.
func (s *watchedSnapshots) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration, membersIndex uint64, t raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, members, membersIndex, t)
	if err != nil {
		s.watch.snapshots.WithLabelValues("failed").Inc()
		return nil, err
	}
	return &watchedSink{SnapshotSink: sink, watch: s.watch, index: index}, nil
}

// watchedSink is a snapshot being written.
type watchedSink struct {
	raft.SnapshotSink
	watch *watch
	index uint64
	bytes int64
	over  bool
}

// Write adds to it.
func (s *watchedSink) Write(b []byte) (int, error) {
	n, err := s.SnapshotSink.Write(b)
	s.bytes += int64(n)
	return n, err
}

// Close makes it count.
func (s *watchedSink) Close() error {
	err := s.SnapshotSink.Close()
	s.end(err == nil)
	return err
}

// Cancel gives it up.
func (s *watchedSink) Cancel() error {
	s.end(false)
	return s.SnapshotSink.Cancel()
}

func (s *watchedSink) end(good bool) {
	if s.over {
		return
	}
	s.over = true
	if !good {
		s.watch.snapshots.WithLabelValues("failed").Inc()
		return
	}
	s.watch.snapshots.WithLabelValues("written").Inc()
	s.watch.snapshot(s.index, s.bytes, time.Now())
}

func described(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("anabranch_controlplane_"+name, help, nil, nil)
}

var (
	logBytes      = described("log_bytes", "Size of the log file up to its last used page.")
	logFree       = described("log_free_bytes", "Empty pages in the log file, which appends use again.")
	logCompacted  = described("log_compacted_bytes", "By how much the log file was shortened at the start; 0: it was not.")
	logDeleted    = described("log_deleted_entries_total", "Entries deleted from the log.")
	logChunks     = described("log_delete_chunks_total", "Transactions in which they were deleted.")
	snapshotIndex = described("raft_snapshot_index", "Entry with which the newest snapshot ends; 0: there is none.")
	snapshotBytes = described("raft_snapshot_bytes", "Size of the newest snapshot.")
	snapshotTime  = described("raft_snapshot_timestamp_seconds", "When the newest snapshot was written; missing: not known.")
	comparedIndex = described("checkpoint_compared_index", "Newest checkpoint that this node's state was found equal with since it started; 0: none yet.")
	featureLevel  = described("feature_level", "Newest format of commands that all voters apply.")
	inFlight      = described("commands_in_flight", "Commands proposed at this node that wait for their commit.")
)

// Describe names the metrics; a Store is a prometheus.Collector. None of them waits for the disk or for Raft.
func (s *Store) Describe(to chan<- *prometheus.Desc) {
	for _, c := range s.watch.collectors() {
		c.Describe(to)
	}
	for _, d := range []*prometheus.Desc{
		logBytes, logFree, logCompacted, logDeleted, logChunks, snapshotIndex, snapshotBytes, snapshotTime,
		comparedIndex, featureLevel, inFlight,
	} {
		to <- d
	}
}

func (w *watch) collectors() []prometheus.Collector {
	return []prometheus.Collector{w.appends, w.proposals, w.snapshots, w.terms, w.stalls}
}

// Collect takes them.
func (s *Store) Collect(to chan<- prometheus.Metric) {
	for _, c := range s.watch.collectors() {
		c.Collect(to)
	}
	gauge := func(d *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
	counter := func(d *prometheus.Desc, value uint64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value))
	}
	file := s.file.Stats()
	gauge(logBytes, float64(file.Bytes))
	gauge(logFree, float64(file.FreeBytes))
	gauge(logCompacted, float64(file.CompactedBytes))
	counter(logDeleted, file.Deleted)
	counter(logChunks, file.DeleteChunks)
	n := s.watch.newest
	n.mu.Lock()
	index, bytes, at := n.index, n.bytes, n.at
	n.mu.Unlock()
	gauge(snapshotIndex, float64(index))
	gauge(snapshotBytes, float64(bytes))
	if !at.IsZero() {
		gauge(snapshotTime, float64(at.UnixMilli())/1000)
	}
	gauge(comparedIndex, float64(s.machine.marks.compared.Load()))
	gauge(featureLevel, float64(s.views.load().FeatureLevel()))
	gauge(inFlight, float64(len(s.slots)))
}
