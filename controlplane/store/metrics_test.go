package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// told is what a registry has of a store: values of gauges and counters, and counts of histograms, by
// name and label.
func told(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()[len("anabranch_controlplane_"):]
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func TestMetricsTellOfLogSnapshotsAndCommits(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 1, func(o *Options) { o.TrailingLogs = 4 })
	c.propose(initCommand("c1"))
	c.propose(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: state.Format}}})
	for i := range 20 {
		c.propose(register("a", fmt.Sprint(i)))
	}
	n := c.leader()
	before := told(t, n.Store)
	if before["raft_snapshot_index"] != 0 || before["log_deleted_entries_total"] != 0 {
		t.Errorf("before a snapshot: %v", before)
	}
	if _, ok := before["raft_snapshot_timestamp_seconds"]; ok {
		t.Error("a snapshot has a time before there is one")
	}
	if err := n.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "log cut", func() bool { return n.Stats().LogFirst > 1 })
	noise := make([]byte, MaxEntryBytes)
	_, _ = rand.Read(noise) // it never fails
	if _, err := n.Propose(t.Context(), register("a", hex.EncodeToString(noise))); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	got := told(t, n.Store)
	for name, atLeast := range map[string]float64{
		"commit_seconds committed": 22, "commit_seconds refused": 1, "log_append_seconds": 22, "terms_led_total": 1,
		"raft_snapshots_total written": 1, "raft_snapshot_index": 22, "raft_snapshot_bytes": 50, "raft_snapshot_timestamp_seconds": 1e9,
		"log_bytes": 16 << 10, "log_deleted_entries_total": 10, "log_delete_chunks_total": 1, "feature_level": float64(state.Format),
	} {
		if got[name] < atLeast {
			t.Errorf("%s is %v, want %v or more", name, got[name], atLeast)
		}
	}
	for _, name := range []string{"commit_seconds unknown", "raft_snapshots_total failed", "commands_in_flight", "log_compacted_bytes"} {
		if value, ok := got[name]; !ok || value != 0 {
			t.Errorf("%s is %v, %v, want 0", name, value, ok)
		}
	}
	// What was there before a start is known after it.
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	n.restart()
	again := told(t, n.Store)
	for _, name := range []string{"raft_snapshot_index", "raft_snapshot_bytes"} {
		if again[name] != got[name] {
			t.Errorf("%s is %v after a start, it was %v", name, again[name], got[name])
		}
	}
	if since := again["raft_snapshot_timestamp_seconds"] - got["raft_snapshot_timestamp_seconds"]; since < -5 || since > 5 {
		t.Errorf("the snapshot is %v s younger after a start", since)
	}
	if again["raft_snapshots_total written"] != 0 {
		t.Error("a start counts as a snapshot")
	}
}

func TestProposalsAreCountedByTheirEnds(t *testing.T) {
	w := newWatch()
	for _, err := range []error{nil, ErrBusy, ErrReadOnly, ErrNotLeader{}, ErrNotLeader{ID: "n2"}, ErrClosed, fmt.Errorf("%w: lost", ErrUnknownOutcome)} {
		w.proposed(err, time.Millisecond)
	}
	got := told(t, w.proposals)
	if got["commit_seconds committed"] != 1 || got["commit_seconds refused"] != 2 || got["commit_seconds unknown"] != 1 {
		t.Errorf("got %v", got)
	}
}

func TestTimesOfSnapshotsAreInTheirNames(t *testing.T) {
	for id, want := range map[string]time.Time{"2-17-1790000000123": time.UnixMilli(1790000000123), "restored": {}, "1-2": {}, "1-2-x": {}} {
		if got := taken(id); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}

// brokenSnapshots fail in every way.
type brokenSnapshots struct {
	raft.SnapshotStore
	sink raft.SnapshotSink // nil: Create fails
}

func (b brokenSnapshots) Create(raft.SnapshotVersion, uint64, uint64, raft.Configuration, uint64, raft.Transport) (raft.SnapshotSink, error) {
	if b.sink == nil {
		return nil, errors.New("disk full")
	}
	return b.sink, nil
}

type brokenSink struct{ raft.SnapshotSink }

func (brokenSink) Write(b []byte) (int, error) { return len(b) / 2, errors.New("disk full") }
func (brokenSink) Close() error                { return errors.New("disk full") }
func (brokenSink) Cancel() error               { return nil }

func TestSnapshotsThatFailAreCountedOnceAndNotTheNewest(t *testing.T) {
	for name, end := range map[string][]func(raft.SnapshotSink) error{
		"cancelled":               {raft.SnapshotSink.Cancel},
		"not closed":              {raft.SnapshotSink.Close},
		"not closed and given up": {raft.SnapshotSink.Close, raft.SnapshotSink.Cancel},
		"not begun":               nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatch()
			store := brokenSnapshots{}
			if len(end) > 0 {
				store.sink = brokenSink{}
			}
			watched := &watchedSnapshots{SnapshotStore: store, watch: &w}
			sink, err := watched.Create(1, 7, 1, raft.Configuration{}, 1, nil)
			if (err == nil) != (len(end) > 0) {
				t.Fatalf("create: %v", err)
			}
			if err == nil {
				if _, err := sink.Write([]byte("four")); err == nil {
					t.Error("a failed write is hidden")
				}
			}
			for _, f := range end {
				_ = f(sink) // it fails, or gives up what has failed
			}
			got := told(t, w.snapshots)
			if got["raft_snapshots_total failed"] != 1 || got["raft_snapshots_total written"] != 0 || w.newest.index != 0 {
				t.Errorf("%v, newest %d", got, w.newest.index)
			}
		})
	}
}
