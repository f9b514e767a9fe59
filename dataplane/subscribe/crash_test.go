package subscribe

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"anabranch/dataplane/subscribe/lastgood"
	"anabranch/dataplane/table"
)

// begin is one start of a router on a folder, which ends without a word when the test goes on.
func begin(t *testing.T, disk string) fixture {
	t.Helper()
	f := client(t, disk)
	if err := f.Restore(); err != nil && !errors.Is(err, lastgood.ErrNone) {
		t.Fatal(err)
	}
	return f
}

// answer is what the control plane hears of a push: a code, or "".
func (f fixture) answer(epoch, revision uint64) string {
	return f.consider(pushed(1, epoch, revision), time.Now()).GetCode()
}

func TestATableThatEndsARouterTwiceIsLeft(t *testing.T) {
	disk := t.TempDir()
	f := begin(t, disk)
	f.answer(1, 1)
	f.obey(time.Now().Add(2 * proof)) // it proves itself
	f.answer(1, 2)                    // and this one ends the router
	if f = begin(t, disk); f.revision() != 2 {
		t.Fatalf("after one end it holds %d, want 2: it may have been somebody's kill", f.revision())
	}
	for range 2 { // a third start finds the same
		if f = begin(t, disk); f.revision() != 1 {
			t.Fatalf("after two ends it holds %d, want 1", f.revision())
		}
		if code := f.answer(1, 2); code != CodeCrashLoop || f.Status().Refused.Code != CodeCrashLoop {
			t.Errorf("the same again is answered %q", code)
		}
	}
	if code := f.answer(1, 3); code != "" || f.revision() != 3 {
		t.Errorf("a newer one is answered %q, holds %d", code, f.revision())
	}
	if f = begin(t, disk); f.revision() != 3 {
		t.Errorf("after one end of the newer it holds %d, want 3", f.revision())
	}
	if f = begin(t, disk); f.revision() != 1 {
		t.Errorf("after two ends of the newer it holds %d, want 1", f.revision())
	}
}

// Tables may come each few seconds, so that several are young when a router ends.
func TestAllYoungTablesAreSuspects(t *testing.T) {
	disk := t.TempDir()
	f := begin(t, disk)
	f.answer(1, 1)
	f.obey(time.Now().Add(2 * proof))
	for revision := uint64(2); revision < 30; revision++ { // more than are kept
		f.answer(1, revision)
	}
	if begin(t, disk).revision() != 29 {
		t.Fatal("one end is blamed on a table")
	}
	f = begin(t, disk)
	if f.revision() != 1 {
		t.Fatalf("holds %d, want 1, the last that proved itself", f.revision())
	}
	for revision, want := range map[uint64]string{2: CodeCrashLoop, 28: CodeCrashLoop, 29: CodeCrashLoop, 1: ""} {
		if code := f.answer(1, revision); code != want {
			t.Errorf("%d is answered %q, want %q", revision, code, want)
		}
	}
	if code := f.answer(2, 1); code != "" {
		t.Errorf("a later epoch is answered %q", code)
	}
}

func TestTheOnlyTableIsUsedAllTheSame(t *testing.T) {
	disk := t.TempDir()
	begin(t, disk).answer(1, 1)
	for range 5 {
		f := begin(t, disk)
		if f.revision() != 1 || f.answer(1, 1) != "" {
			t.Fatalf("holds %d", f.revision())
		}
	}
}

func TestARouterThatEndsInGoodOrderBlamesNoTable(t *testing.T) {
	disk := t.TempDir()
	f := begin(t, disk)
	f.answer(1, 1)
	f.obey(time.Now().Add(2 * proof))
	for revision := uint64(2); revision < 6; revision++ {
		f = begin(t, disk)
		f.answer(1, revision)
		f.run(t)()
	}
	if f = begin(t, disk); f.revision() != 5 {
		t.Errorf("holds %d, want 5", f.revision())
	}
}

func TestAStartThatLivesAcquitsTheTable(t *testing.T) {
	disk := t.TempDir()
	f := begin(t, disk)
	f.answer(1, 1)
	f.obey(time.Now().Add(2 * proof))
	f.answer(1, 2)
	for range 5 {
		f = begin(t, disk)
		if f.revision() != 2 {
			t.Fatalf("holds %d, want 2", f.revision())
		}
		f.obey(time.Now().Add(2 * proof))
	}
}

func TestMetricsTellOfTables(t *testing.T) {
	registry := prometheus.NewRegistry()
	o := client(t, t.TempDir()).o
	o.Registerer = registry
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{Client: c, holder: o.Holder}
	f.answer(1, 2)
	f.answer(1, 1)
	f.answer(1, 3)
	if got := testutil.ToFloat64(c.metrics.taken); got != 2 {
		t.Errorf("taken %v", got)
	}
	if got := testutil.ToFloat64(c.metrics.refused.WithLabelValues(CodeOlder)); got != 1 {
		t.Errorf("refused as older %v", got)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, m := range families {
		if g := m.GetMetric()[0].GetGauge(); g != nil {
			values[m.GetName()] = g.GetValue()
		}
	}
	if values["anabranch_router_control_contact_age_seconds"] != -1 || values["anabranch_router_control_connected"] != 0 {
		t.Errorf("gauges %v", values)
	}
	c.heard(time.Now().Add(-time.Hour))
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 5+8 { // refusals by eight codes
		t.Errorf("%d series, %v", n, err)
	}
	if _, err := New(o); err == nil {
		t.Error("two clients in one registry")
	}
}

// A folder that no longer takes anything keeps no router from following.
func TestAMarkThatCantBeMadeIsTold(t *testing.T) {
	f := client(t, t.TempDir())
	f.take(build(t, 1, 1), time.Now())
	f.Client.disk(io.ErrShortWrite)
	if f.Status().DiskError == nil {
		t.Error("the status does not say so")
	}
	f.take(build(t, 1, 2), time.Now())
	if f.Status().DiskError != nil {
		t.Errorf("status %+v after it works again", f.Status())
	}
}

// The message that a table was built from is what is kept, byte for byte.
func TestWhatIsTakenIsKept(t *testing.T) {
	f := client(t, t.TempDir())
	p := pushed(1, 1, 7)
	if ack := f.consider(p, time.Now()); !ack.GetOk() {
		t.Fatal(ack)
	}
	saved, err := f.o.LastGood.Find(1, 7)
	if err != nil || !proto.Equal(saved.Table, p.GetTable()) {
		t.Errorf("kept %v, %v", saved.Table, err)
	}
	refs, err := f.o.LastGood.Refs()
	if err != nil || len(refs) != 1 || refs[0] != (table.Ref{ClusterID: "c-1", Epoch: 1, Revision: 7}) {
		t.Errorf("refs %v, %v", refs, err)
	}
}
