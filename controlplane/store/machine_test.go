package store

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// lone is a state machine without Raft.
type lone struct {
	machine
	reason error // of halt
	index  uint64
}

func newLone() *lone {
	l := &lone{}
	l.machine = machine{views: newViews(), halt: func(err error) { l.reason = err }}
	return l
}

func (l *lone) apply(t *testing.T, cmd *statepb.Command) applied {
	t.Helper()
	b, err := proto.Marshal(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return l.raw(t, b)
}

func (l *lone) raw(t *testing.T, b []byte) applied {
	t.Helper()
	l.index++
	result, ok := l.Apply(&raft.Log{Index: l.index, Data: b}).(applied)
	if !ok {
		t.Fatal("not an applied")
	}
	return result
}

// memorySink is a snapshot in memory.
type memorySink struct {
	bytes.Buffer
	fail              error
	closed, cancelled bool
}

func (m *memorySink) Write(b []byte) (int, error) {
	if m.fail != nil {
		return 0, m.fail
	}
	return m.Buffer.Write(b)
}
func (m *memorySink) Close() error  { m.closed = true; return nil }
func (m *memorySink) ID() string    { return "memory" }
func (m *memorySink) Cancel() error { m.cancelled = true; return nil }

func TestASnapshotIsTheStateAtTheTimeItWasTaken(t *testing.T) {
	l := newLone()
	l.apply(t, initCommand("c1"))
	l.apply(t, register("a", "1"))
	want := state.Hash(l.views.load())
	snapshot, err := l.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Release()
	l.apply(t, register("a", "2")) // while it is being written
	var sink memorySink
	if err := snapshot.Persist(&sink); err != nil || !sink.closed || sink.cancelled {
		t.Fatalf("persist: %v, closed %v, cancelled %v", err, sink.closed, sink.cancelled)
	}
	other := newLone()
	if err := other.Restore(io.NopCloser(&sink)); err != nil {
		t.Fatal(err)
	}
	if got := other.views.load(); state.Hash(got) != want || got.Index() != 2 {
		t.Errorf("restored state at %d differs", got.Index())
	}
}

func TestASnapshotThatCannotBeWrittenIsCancelled(t *testing.T) {
	l := newLone()
	l.apply(t, initCommand("c1"))
	snapshot, err := l.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	sink := memorySink{fail: errors.New("no space")}
	if err := snapshot.Persist(&sink); !errors.Is(err, sink.fail) || !sink.cancelled || sink.closed {
		t.Errorf("persist: %v, closed %v, cancelled %v", err, sink.closed, sink.cancelled)
	}
}

func TestTheStateNeverGoesBackToAnOlderSnapshot(t *testing.T) {
	old := newLone()
	old.apply(t, initCommand("c1"))
	var sink memorySink
	if err := (frozen{old.views.load()}).Persist(&sink); err != nil {
		t.Fatal(err)
	}
	l := newLone()
	l.apply(t, initCommand("c1"))
	l.apply(t, register("a", "1"))
	if err := l.Restore(io.NopCloser(&sink)); err == nil {
		t.Error("restored")
	}
	if got := l.views.load().Index(); got != 2 {
		t.Errorf("state at %d, was at 2", got)
	}
}

func TestASnapshotOfGarbageIsRefused(t *testing.T) {
	l := newLone()
	if err := l.Restore(io.NopCloser(bytes.NewReader([]byte("garbage")))); err == nil {
		t.Error("restored")
	}
	if l.views.load().Index() != 0 {
		t.Error("the state has changed")
	}
}

func TestNothingIsAppliedAfterAnEntryThatCannotBe(t *testing.T) {
	for name, bad := range map[string][]byte{
		"no command": {0xff},
		"newer":      {0x08, 99},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLone()
			l.apply(t, initCommand("c1"))
			if r := l.raw(t, bad); !errors.Is(r.err, errHalted) || l.reason == nil {
				t.Fatalf("%v, halted with %v", r.err, l.reason)
			}
			if r := l.apply(t, register("a", "1")); !errors.Is(r.err, errHalted) {
				t.Errorf("the next entry: %+v", r)
			}
			if got := l.views.load().Index(); got != 1 {
				t.Errorf("state at %d, want 1", got)
			}
			if _, err := l.Snapshot(); !errors.Is(err, errHalted) {
				t.Errorf("snapshot of a halted node: %v", err)
			}
		})
	}
}

func TestChangedIsClosedByTheNextStateAndAtOnceForThePast(t *testing.T) {
	l := newLone()
	before := l.views.changed(0)
	select {
	case <-before:
		t.Fatal("closed before anything has changed")
	default:
	}
	l.apply(t, initCommand("c1"))
	for name, c := range map[string]<-chan struct{}{"waiting": before, "late": l.views.changed(0)} {
		select {
		case <-c:
		default:
			t.Errorf("%s: not closed", name)
		}
	}
	select {
	case <-l.views.changed(1):
		t.Error("closed for the present state")
	default:
	}
}
