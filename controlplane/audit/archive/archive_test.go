package archive

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/audit"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// rig is a node with a state, and a place in memory.
type rig struct {
	t *testing.T

	mu      sync.Mutex // guards what follows
	view    *state.View
	leading bool
	fail    error // of the place
	refuse  error // of proposals
	files   map[string][]byte
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, view: state.Empty(), leading: true, files: map[string][]byte{}}
	r.apply(&statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c-1"}}})
	r.apply(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}})
	return r
}

func (r *rig) apply(cmd *statepb.Command) *statepb.Outcome {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if cmd.GetAtUnixMs() == 0 {
		cmd.AtUnixMs = time.Now().UnixMilli()
	}
	next, out, err := state.Apply(r.view, r.view.Index()+1, cmd)
	if err != nil {
		r.t.Error(err)
		return out
	}
	r.view = next
	return out
}

// load makes the state one whose trail has lost some entries and holds others, as a snapshot would.
func (r *rig) load(dropped, kept uint64) {
	r.t.Helper()
	s := &statepb.Snapshot{
		ClusterId: "c-1", Epoch: 1, Index: dropped + kept, FeatureLevel: 3,
		AuditAnchor: &statepb.AuditAnchor{Dropped: dropped, Index: dropped},
	}
	previous := make([]byte, sha256.Size)
	for n := dropped + 1; n <= dropped+kept; n++ {
		e := &statepb.AuditEntry{Version: 2, Sequence: n, Index: n, AtUnixMs: time.Now().UnixMilli(), Action: "refused", PreviousSha256: previous}
		sum := audit.Sum(e)
		e.Sha256, previous = sum[:], sum[:]
		s.Audit = append(s.Audit, e)
	}
	payload, err := proto.Marshal(s)
	if err != nil {
		r.t.Fatal(err)
	}
	text := binary.BigEndian.AppendUint32([]byte("ANABSTAT"), 3)
	text = append(binary.BigEndian.AppendUint64(text, uint64(len(payload))), payload...)
	sum := sha256.Sum256(text)
	if r.view, err = state.Decode(bytes.NewReader(append(text, sum[:]...))); err != nil {
		r.t.Fatal(err)
	}
}

// note adds entries.
func (r *rig) note(n int) {
	r.t.Helper()
	for range n {
		r.apply(&statepb.Command{Op: &statepb.Command_Note{Note: &statepb.Note{Action: "refused"}}})
	}
}

// archiveTwo archives the first two entries.
func (r *rig) archiveTwo() {
	r.t.Helper()
	if err := r.archiver().archive(r.t.Context(), r.view, 1, 2); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) String() string { return "memory" }

func (r *rig) Put(_ context.Context, name string, file io.ReadSeeker, size int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	b, err := io.ReadAll(file)
	if err != nil || int64(len(b)) != size {
		return fmt.Errorf("%d bytes of %d: %w", len(b), size, err)
	}
	r.files[name] = b
	return nil
}

func (r *rig) set(f func()) { r.mu.Lock(); defer r.mu.Unlock(); f() }

func (r *rig) current() *state.View { r.mu.Lock(); defer r.mu.Unlock(); return r.view }

func (r *rig) propose(_ context.Context, cmd *statepb.Command) (*statepb.Outcome, error) {
	r.mu.Lock()
	err := r.refuse
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return r.apply(cmd), nil
}

func (r *rig) archiver(change ...func(*Options)) *Archiver {
	r.t.Helper()
	o := Options{
		Places: []Place{r}, Entries: 100, Leading: func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.leading },
		View: r.current, Propose: r.propose, Node: "n1", Logger: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&o)
	}
	a, err := New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// chain checks the files in the order of their names, and says which entries they hold.
func (r *rig) chain() (names []string, chain *audit.Chain) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.files {
		names = append(names, name)
	}
	slices.Sort(names)
	chain = &audit.Chain{}
	for _, name := range names {
		z, err := gzip.NewReader(bytes.NewReader(r.files[name]))
		if err != nil {
			r.t.Fatal(err)
		}
		if err := audit.Read(z, func(e audit.Entry) error {
			h, err := e.Hashed()
			if err != nil {
				return err
			}
			return chain.Add(h)
		}); err != nil {
			r.t.Fatalf("%s: %v", name, err)
		}
	}
	return names, chain
}

func TestWhenAFileIsDue(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		build    func(*rig)
		after    time.Duration
		from, to uint64
		ok       bool
	}{
		"too few":                            {func(r *rig) { r.note(50) }, time.Minute, 0, 0, false},
		"enough":                             {func(r *rig) { r.note(98) }, time.Minute, 1, 100, true},
		"more than fits":                     {func(r *rig) { r.load(0, maxEntries+50) }, time.Minute, 1, maxEntries, true},
		"few that waited":                    {func(*rig) {}, 2 * time.Hour, 1, 2, true},
		"nothing but an entry of an archive": {func(r *rig) { r.archiveTwo() }, 2 * time.Hour, 0, 0, false},
		"that and another":                   {func(r *rig) { r.archiveTwo(); r.note(1) }, 2 * time.Hour, 3, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			tt.build(r)
			from, to, ok := due(r.current(), 100, time.Hour, now.Add(tt.after))
			if from != tt.from || to != tt.to || ok != tt.ok {
				t.Errorf("%d to %d, %v", from, to, ok)
			}
		})
	}
	old := state.Empty()
	if _, _, ok := due(old, 1, 1, now); ok {
		t.Error("below feature level 3")
	}
}

func TestTheTrailIsArchivedWhileTheNodeLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a := r.archiver()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		pass := func(d time.Duration) {
			time.Sleep(d) //nolint:forbidigo // virtual time of synctest
			synctest.Wait()
		}
		pass(time.Minute)
		if len(r.files) != 0 {
			t.Fatalf("%d files of two entries", len(r.files))
		}
		r.note(150)
		pass(look)
		through, _ := r.current().AuditArchived()
		if through != 152 {
			t.Fatalf("archived through %d", through)
		}
		r.set(func() { r.fail = errors.New("away") })
		r.note(150)
		pass(time.Minute)
		r.set(func() { r.fail, r.refuse = nil, errors.New("no leader") })
		pass(look)
		r.set(func() { r.refuse, r.leading = nil, false })
		r.set(func() { delete(r.files, Name(r.view, 153, 303)) }) // it was never confirmed
		pass(time.Hour)
		if through, _ := r.current().AuditArchived(); through != 152 || len(r.files) != 1 {
			t.Errorf("archived through %d, %d files, while another leads", through, len(r.files))
		}
		r.set(func() { r.leading = true })
		pass(look)
		r.note(1)
		pass(2 * time.Hour)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		names, chain := r.chain()
		if len(names) != 3 || chain.Last().GetSequence() != 305 || !chain.Whole() {
			t.Errorf("%q up to %d", names, chain.Last().GetSequence())
		}
		if err := testutil.CollectAndCompare(a, strings.NewReader(`
			# HELP anabranch_controlplane_audit_archived_entries_total Entries of the audit trail that this node has archived.
			# TYPE anabranch_controlplane_audit_archived_entries_total counter
			anabranch_controlplane_audit_archived_entries_total 305
			# HELP anabranch_controlplane_audit_unarchived_entries Entries of the audit trail that are kept and not archived.
			# TYPE anabranch_controlplane_audit_unarchived_entries gauge
			anabranch_controlplane_audit_unarchived_entries 1
			# HELP anabranch_controlplane_audit_lost_entries_total Entries that fell out of the audit trail before they were archived, as this node has found while it led.
			# TYPE anabranch_controlplane_audit_lost_entries_total counter
			anabranch_controlplane_audit_lost_entries_total 0
		`), "anabranch_controlplane_audit_archived_entries_total", "anabranch_controlplane_audit_unarchived_entries", "anabranch_controlplane_audit_lost_entries_total"); err != nil {
			t.Error(err)
		}
		if a.failures.Load() < 2 {
			t.Errorf("%d failures", a.failures.Load())
		}
	})
}

func TestWhatFellOutBeforeItWasArchivedIsCounted(t *testing.T) {
	r := newRig(t)
	r.load(102, 250)
	a := r.archiver()
	for a.step(t.Context()) {
	}
	names, chain := r.chain()
	if a.lost.Load() != 102 || chain.First().GetSequence() != 103 || len(names) != 1 {
		t.Errorf("%d lost, the files begin with %d: %q", a.lost.Load(), chain.First().GetSequence(), names)
	}
	if err := prometheus.NewPedanticRegistry().Register(a); err != nil {
		t.Error(err)
	}
}

func TestHistoriesHaveFilesOfTheirOwn(t *testing.T) {
	v := newRig(t).current()
	if got := Name(v, 1, 20); got != "audit/anabranch-c-1-0-000000000001-000000000020.ndjson.gz" {
		t.Error(got)
	}
	if got := Name(v.Reborn(state.Rebirth{Lineage: "l9"}), 1, 2); !strings.Contains(got, "-l9-") {
		t.Error(got)
	}
}

func TestAFileThatIsNotWhatItShouldBeIsFound(t *testing.T) {
	v := newRig(t).current()
	file, err := pack(v, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := prove(file, 1, 3); err == nil {
		t.Error("of other entries")
	}
	if err := prove(file[:len(file)/2], 1, 2); err == nil {
		t.Error("cut")
	}
	if err := prove(nil, 1, 2); err == nil {
		t.Error("empty")
	}
}

func TestOptionsAreNamed(t *testing.T) {
	r := newRig(t)
	for want, f := range map[string]func(*Options){
		"Places": func(o *Options) { o.Places = nil }, "Entries": func(o *Options) { o.Entries = maxEntries + 1 },
		"Interval": func(o *Options) { o.Interval = -1 }, "Leading": func(o *Options) { o.Leading = nil },
	} {
		o := Options{Places: []Place{r}, Leading: func() bool { return true }, View: r.current, Propose: r.propose}
		f(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
