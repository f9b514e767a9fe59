package override

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/api/fleet"
	"anabranch/api/order"
	"anabranch/dataplane/table"
)

// desk is a book with a clock of its own and tables to check against.
type desk struct {
	*Book
	t        *testing.T
	dir      string
	ns       *atomic.Int64
	logs     bytes.Buffer
	registry *prometheus.Registry
}

func open(t *testing.T, dir string, ns *atomic.Int64) *desk {
	t.Helper()
	d := &desk{t: t, dir: dir, ns: ns, registry: prometheus.NewRegistry()}
	held := &table.Table{
		Ref:      table.Ref{ClusterID: "c", Epoch: 2, Revision: 9},
		Clusters: map[fleet.ClusterID]*table.Cluster{"us-a": {}, "us-b": {}, "both": {}},
		Regions:  map[fleet.RegionID]*table.Region{"us": {}, "eu": {}, "both": {}},
	}
	var err error
	d.Book, err = New(Options{
		Dir: dir, Keys: ringIn(t, dir), Registerer: d.registry, Logger: slog.New(slog.NewTextHandler(&d.logs, nil)),
		Now:   func() time.Time { return time.Unix(0, ns.Load()).UTC() },
		Table: func() *table.Table { return held },
		Kept: func() ([]table.Ref, error) {
			return []table.Ref{{ClusterID: "c", Epoch: 2, Revision: 9}, {ClusterID: "c", Epoch: 2, Revision: 7}, {ClusterID: "c", Epoch: 1, Revision: 7}, {ClusterID: "c", Epoch: 1, Revision: 3}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	var ns atomic.Int64
	ns.Store(noon.UnixNano())
	return open(t, t.TempDir(), &ns)
}

// pass lets time go by, second by second.
func (d *desk) pass(by time.Duration) {
	for range int(by / time.Second) {
		d.ns.Add(int64(time.Second))
		d.mu.Lock()
		d.tick()
		d.mu.Unlock()
	}
}

func (d *desk) give(a Ask) Given {
	d.t.Helper()
	a.Actor, a.Reason = "ann", "test"
	given, err := d.Give(a)
	if err != nil {
		d.t.Fatalf("%+v: %v", a, err)
	}
	return given
}

func (d *desk) expect(want string) {
	d.t.Helper()
	if got := tells(d.Current()); got != want {
		d.t.Errorf("says %q, want %q", got, want)
	}
}

func at(priority int32) *int32 { return &priority }

func TestOrdersHoldAtOnceAndEnd(t *testing.T) {
	d := newDesk(t)
	d.expect("")
	d.give(Ask{Kind: Evacuate, Target: "us-a", For: "10s"})
	d.give(Ask{Kind: Shed, Priority: at(0)})
	d.expect("not us-a, shed<0")
	d.pass(10 * time.Second)
	d.expect("shed<0")
	d.pass(order.DefaultTerm - 10*time.Second)
	d.expect("")
	for _, text := range []string{"order given", "order ended", "actor=ann", "reason=test", "target=us-a"} {
		if !strings.Contains(d.logs.String(), text) {
			t.Errorf("the log does not say %s:\n%s", text, d.logs.String())
		}
	}
	if kept, err := loadKept(d.kept, nil, noon); err != nil || len(kept.Orders) != 0 {
		t.Errorf("%v are kept on disk, %v", kept, err)
	}
}

func TestOrdersOfTheSocketSurviveARestart(t *testing.T) {
	d := newDesk(t)
	first := d.give(Ask{Kind: Evacuate, Target: "us-a", For: "10m"})
	d.ns.Add(1)
	d.give(Ask{Kind: Freeze, For: "1h"})
	info, err := os.Stat(filepath.Join(d.dir, keptName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kept as %v, %v", info, err)
	}
	d.ns.Add(int64(5 * time.Minute))
	again := open(t, d.dir, d.ns)
	again.expect("frozen, not us-a")
	if o := again.Status().Orders[0]; o.ID != first.ID || !o.Expires.Equal(first.Expires) || o.Actor != "ann" {
		t.Errorf("%+v, want %+v", o, first)
	}
	d.ns.Add(int64(5 * time.Minute))
	open(t, d.dir, d.ns).expect("frozen")
	entries, err := os.ReadDir(d.dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left in the folder: %v, %v", entries, err)
	}
}

func TestWhatWasKeptAndIsDamagedKeepsNoRouterFromStarting(t *testing.T) {
	for name, text := range map[string]string{
		"no json":         "{",
		"another version": `{"version": 2, "orders": []}`,
		"a wrong order":   `{"version": 1, "orders": [{"kind": "stop"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			if err := os.WriteFile(filepath.Join(d.dir, keptName), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			again := open(t, d.dir, d.ns)
			again.expect("")
			if p := again.Status().Problems; len(p) != 1 || !strings.Contains(p[0], keptName) {
				t.Errorf("problems %q", p)
			}
			again.give(Ask{Kind: Freeze})
			if p := again.Status().Problems; len(p) != 0 {
				t.Errorf("problems %q after it was written anew", p)
			}
		})
	}
}

func TestAnOrderThatCantBeKeptHoldsAllTheSame(t *testing.T) {
	d := newDesk(t)
	if err := os.RemoveAll(d.dir); err != nil {
		t.Fatal(err)
	}
	d.give(Ask{Kind: Freeze})
	d.expect("frozen")
	if p := d.Status().Problems; len(p) != 1 || !strings.Contains(p[0], "keep orders") {
		t.Errorf("problems %q", p)
	}
}

func TestARestoreEndsTheEvacuation(t *testing.T) {
	d := newDesk(t)
	d.give(Ask{Kind: Evacuate, Target: "us-a", For: "2h"})
	d.give(Ask{Kind: Evacuate, Target: "us-b", For: "2h"})
	d.give(Ask{Kind: Restore, Target: "us-a", For: "1m"})
	d.expect("use us-a, not us-b")
	d.pass(time.Minute)
	d.expect("not us-b") // it does not come back when the restore ends
	d.give(Ask{Kind: Restore, Target: "us-b"})
	if late := d.give(Ask{Kind: Evacuate, Target: "us-b"}); late.OverruledBy == "" {
		t.Errorf("who evacuates what was restored is not told: %+v", late)
	}
	d.expect("use us-b")
}

func TestOrdersThatWouldDoNothingAreRefused(t *testing.T) {
	d := newDesk(t)
	for name, c := range map[string]struct {
		ask  Ask
		says string
	}{
		"an unknown place":   {Ask{Kind: Evacuate, Target: "us-c"}, "use both, eu, us, us-a, us-b"},
		"an unknown region":  {Ask{Kind: Restore, Target: "region/us-a"}, "no region"},
		"an unknown cluster": {Ask{Kind: Restore, Target: "cluster/us"}, "no cluster"},
		"an unclear place":   {Ask{Kind: Evacuate, Target: "both"}, "say cluster/both or region/both"},
		"an unknown table":   {Ask{Kind: Revert, Revision: 8}, "use one of 9 (epoch 2), 7 (epoch 2)"},
		"an unknown epoch":   {Ask{Kind: Revert, Revision: 3, Epoch: 2}, "not kept"},
		"an unknown kind":    {Ask{Kind: "stop"}, "kind"},
		"a bad term":         {Ask{Kind: Freeze, For: "1 day"}, "duration"},
		"a long term":        {Ask{Kind: Freeze, For: "48h"}, "at most 24h"},
		"no bound":           {Ask{Kind: Shed}, "priority is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			c.ask.Actor, c.ask.Reason = "ann", "test"
			_, err := d.Give(c.ask)
			if _, ok := errors.AsType[wrong](err); !ok || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v does not say %q", err, c.says)
			}
		})
	}
	if n := len(d.Status().Orders); n != 0 {
		t.Errorf("%d orders are in force", n)
	}
	d.give(Ask{Kind: Evacuate, Target: "region/both"})
}

func TestARevertNamesItsTable(t *testing.T) {
	for name, c := range map[string]struct {
		ask  Ask
		want table.Ref
	}{
		"the one before":    {Ask{Kind: Revert}, table.Ref{Epoch: 2, Revision: 7}},
		"a revision":        {Ask{Kind: Revert, Revision: 3}, table.Ref{Epoch: 1, Revision: 3}},
		"its newest epoch":  {Ask{Kind: Revert, Revision: 7}, table.Ref{Epoch: 2, Revision: 7}},
		"an epoch of two":   {Ask{Kind: Revert, Revision: 7, Epoch: 1}, table.Ref{Epoch: 1, Revision: 7}},
		"the one in force":  {Ask{Kind: Revert, Revision: 9}, table.Ref{Epoch: 2, Revision: 9}},
		"with a bound term": {Ask{Kind: Revert, For: "24h"}, table.Ref{Epoch: 2, Revision: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.give(c.ask)
			if o := d.Current().Revert(); o == nil || o.Epoch != c.want.Epoch || o.Revision != c.want.Revision {
				t.Errorf("reverts to %v; want %v", o, c.want)
			}
		})
	}
	bare, err := New(Options{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bare.Give(Ask{Kind: Revert, Actor: "a", Reason: "b"}); err == nil || !strings.Contains(err.Error(), "nothing to go back to") {
		t.Errorf("error %v", err)
	}
}

func TestOrdersAreCancelled(t *testing.T) {
	d := newDesk(t)
	given := d.give(Ask{Kind: Freeze})
	for id, want := range map[string]error{"none": errUnknown, "": errUnknown} {
		if err := d.Cancel(id, "bob"); !errors.Is(err, want) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if err := d.Cancel(given.ID, ""); err == nil || !strings.Contains(err.Error(), "actor") {
		t.Errorf("by nobody: %v", err)
	}
	if err := d.Cancel(given.ID, "bob"); err != nil {
		t.Fatal(err)
	}
	d.expect("")
	open(t, d.dir, d.ns).expect("")
	if !strings.Contains(d.logs.String(), "actor=bob") {
		t.Errorf("the log does not say who:\n%s", d.logs.String())
	}
}

func TestTheFileIsASecondDoor(t *testing.T) {
	d := newDesk(t)
	path := filepath.Join(d.dir, FileName)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, noon, noon); err != nil {
			t.Fatal(err)
		}
		d.pass(2 * time.Second)
	}
	write("orders:\n- {id: x, kind: evacuate, target: us, actor: bob, reason: y, for: 10m}\n")
	d.expect("not us-a, not us-b, not us")
	d.give(Ask{Kind: Restore, Target: "us-a", For: "1m"})
	d.expect("use us-a, not us-b, not us")
	s := d.Status()
	if len(s.Orders) != 2 || s.Orders[0].Door != "file" || s.Orders[1].Door != "socket" || len(s.Problems) != 0 {
		t.Errorf("status %+v", s)
	}
	if err := d.Cancel("x", "ann"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("cancelled what is in the file: %v", err)
	}
	write("orders:\n- {kind: evacuate, target: us-c, actor: bob, reason: y, for: 10m}\n- {kind: revert, revision: 4, actor: bob, reason: y}\n")
	s = d.Status()
	if len(s.Problems) != 2 || !strings.Contains(s.Problems[0], "file-1 does nothing") || !strings.Contains(s.Problems[1], "file-2 does nothing") {
		t.Errorf("problems %q", s.Problems)
	}
	write("nonsense")
	s = d.Status()
	if len(s.Orders) != 3 || len(s.Problems) != 3 {
		t.Errorf("a bad file: %+v", s)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	d.pass(2 * time.Second)
	d.expect("use us-a")
	d.pass(time.Minute)
	d.expect("")
	if n := strings.Count(d.logs.String(), "file of orders is not taken"); n != 1 {
		t.Errorf("told %d times of a bad file:\n%s", n, d.logs.String())
	}
}

func TestOrdersAreBounded(t *testing.T) {
	d := newDesk(t)
	for range order.MaxOrders {
		d.give(Ask{Kind: Freeze, For: "1m"})
	}
	if _, err := d.Give(Ask{Kind: Freeze, Actor: "a", Reason: "b"}); err == nil || !strings.Contains(err.Error(), "cancel some") {
		t.Errorf("error %v", err)
	}
	d.pass(time.Minute)
	d.give(Ask{Kind: Freeze})
}

func TestMetricsCountByKind(t *testing.T) {
	d := newDesk(t)
	d.give(Ask{Kind: Freeze})
	d.give(Ask{Kind: Shed, Priority: at(50)})
	d.give(Ask{Kind: Shed, Priority: at(10)})
	want := map[order.Kind]int{Freeze: 1, Shed: 2}
	var text strings.Builder
	text.WriteString("# HELP anabranch_emergency_orders Emergency orders that this router has and that have not expired, by kind and the door that they came by.\n# TYPE anabranch_emergency_orders gauge\n")
	for _, kind := range order.Kinds {
		for _, door := range order.Doors {
			n := 0
			if door == order.DoorSocket {
				n = want[kind]
			}
			fmt.Fprintf(&text, "anabranch_emergency_orders{door=%q,kind=%q} %d\n", door, kind, n)
		}
	}
	if err := testutil.GatherAndCompare(d.registry, strings.NewReader(text.String()), "anabranch_emergency_orders"); err != nil {
		t.Error(err)
	}
	if _, err := New(Options{Dir: t.TempDir(), Registerer: d.registry}); err == nil {
		t.Error("two books in one registry")
	}
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "Dir") {
		t.Errorf("without a folder: %v", err)
	}
}

func TestReadersNeverWait(t *testing.T) {
	d := newDesk(t)
	d.mu.Lock() // somebody writes to a disk that hangs
	defer d.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.Current().Frozen()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("it waits")
	}
}

func TestRunFollowsTheClock(t *testing.T) {
	dir := t.TempDir()
	b, err := New(Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	if _, err := b.Give(Ask{Kind: Freeze, Actor: "a", Reason: "b", For: "1ms"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the order ends", func() bool { return !b.Current().Frozen() })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// eventually waits for a condition, for as long as a slow machine may take.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("not within 20 s: %s", what)
		case <-tick.C:
		}
	}
}
