package subscribe

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/subscribe/lastgood"
	"anabranch/dataplane/table"
)

// node is a control plane node that does what a test says.
// next returns the next message that is not a report, unless want says that a report is wanted.
// pushed is a valid table with the number given.
type fixture struct {
	*Client
	holder *table.Holder
	disk   string
}

func client(t *testing.T, disk string, addresses ...string) fixture {
	t.Helper()
	f := fixture{holder: &table.Holder{}, disk: disk}
	dir, err := lastgood.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	f.Client, err = New(Options{
		Addresses: addresses, Router: "r1", Region: "eu-west-1", Version: "test",
		Holder: f.holder, LastGood: dir,
		Report: func(now time.Time) *routerpb.Report {
			return &routerpb.Report{AtUnixMs: now.UnixMilli(), InFlight: 3}
		},
		Period: 5 * time.Millisecond, Silence: 5 * time.Second,
		BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f fixture) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Run did not end with its context")
		}
	})
}

func (f fixture) push(t *testing.T, n *node, p *routerpb.TablePush) *routerpb.Ack {
	t.Helper()
	select {
	case n.push <- p:
	case <-time.After(10 * time.Second):
		t.Fatal("nobody takes the push")
	}
	ack := n.next(t, isAck).GetAck()
	if ack.GetNonce() != p.GetNonce() {
		t.Fatalf("answer to %d, want to %d", ack.GetNonce(), p.GetNonce())
	}
	return ack
}

func (f fixture) revision() uint64 { return f.held().Revision }

func TestARouterGreetsReportsAndFollows(t *testing.T) {
	n := serve(t, &node{})
	f := client(t, t.TempDir(), n.address)
	f.start(t)

	hello := n.next(t, isHello).GetHello()
	if hello.GetRouterId() != "r1" || hello.GetRegion() != "eu-west-1" || hello.GetHolds() != nil {
		t.Errorf("hello %v", hello)
	}
	if first := n.next(t, func(*routerpb.FromRouter) bool { return true }); !isReport(first) {
		t.Errorf("after hello came %v, want a report", first)
	}
	n.next(t, isReport)

	if ack := f.push(t, n, pushed(1, 1, 41)); !ack.GetOk() || ack.GetTable().GetRevision() != 41 {
		t.Errorf("answer %v", ack)
	}
	if f.revision() != 41 {
		t.Errorf("holds %d", f.revision())
	}
	if ack := f.push(t, n, pushed(2, 1, 41)); !ack.GetOk() {
		t.Errorf("the same table again: %v", ack)
	}
	if ack := f.push(t, n, pushed(3, 1, 42)); !ack.GetOk() || f.revision() != 42 {
		t.Errorf("answer %v, holds %d", ack, f.revision())
	}
	if s := f.Status(); !s.Connected || s.Node != "n1" || s.LastContact.IsZero() {
		t.Errorf("status %+v", s)
	}
}

func TestWhatIsRefusedChangesNothing(t *testing.T) {
	n := serve(t, &node{})
	f := client(t, t.TempDir(), n.address)
	f.start(t)
	f.push(t, n, pushed(1, 2, 10))
	held := f.holder.Load()

	foreign := pushed(3, 9, 99)
	foreign.Table.Ref.ClusterId = "c-2"
	empty := &routerpb.TablePush{Nonce: 4, Table: &routerpb.Table{Ref: &routerpb.TableRef{ClusterId: "c-1", Epoch: 2, Revision: 11}}}
	negative := pushed(5, 2, 12)
	negative.Table.Clusters[0].HealthCap = -1
	for name, c := range map[string]struct {
		push *routerpb.TablePush
		code string
	}{
		"older":   {pushed(2, 1, 900), CodeOlder},
		"foreign": {foreign, CodeOtherCluster},
		"empty":   {empty, table.CodeEmpty},
		"wrong":   {negative, table.CodeValue},
	} {
		ack := f.push(t, n, c.push)
		if ack.GetOk() || ack.GetCode() != c.code || ack.GetMessage() == "" {
			t.Errorf("%s: answer %v, want code %s", name, ack, c.code)
		}
		if f.holder.Load() != held {
			t.Errorf("%s: the table in force changed", name)
		}
		if s := f.Status(); s.Refused == nil || s.Refused.Code != c.code {
			t.Errorf("%s: status %+v", name, s)
		}
	}
	if ack := f.push(t, n, pushed(6, 2, 13)); !ack.GetOk() || f.Status().Refused != nil {
		t.Errorf("a good one after the bad: %v, %+v", ack, f.Status())
	}
	saved := client(t, f.disk)
	if err := saved.Restore(); err != nil || saved.revision() != 13 {
		t.Errorf("disk holds %d, %v", saved.revision(), err)
	}
}

func TestAStartWithoutControlPlaneServesTheLastGood(t *testing.T) {
	n := serve(t, &node{})
	disk := t.TempDir()
	first := client(t, disk, n.address)
	first.start(t)
	first.push(t, n, pushed(1, 1, 7))
	first.push(t, n, pushed(2, 1, 8))

	second := client(t, disk, "127.0.0.1:1")
	if err := second.Restore(); err != nil {
		t.Fatal(err)
	}
	second.start(t)
	if second.revision() != 8 {
		t.Errorf("holds %d, want 8", second.revision())
	}
	if second.Status().Connected {
		t.Error("says that it is connected")
	}
}

func TestRestoreSkipsWhatIsNoValidTable(t *testing.T) {
	disk := t.TempDir()
	dir, err := lastgood.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	bad := pushed(1, 1, 9).GetTable()
	bad.Regions = nil
	for _, pb := range []*routerpb.Table{pushed(1, 1, 8).GetTable(), bad} {
		if err := dir.Save(pb, time.UnixMilli(1)); err != nil {
			t.Fatal(err)
		}
	}
	f := client(t, disk)
	if err := f.Restore(); err != nil || f.revision() != 8 {
		t.Errorf("holds %d, %v; want 8", f.revision(), err)
	}
}

func TestRestoreFromNothing(t *testing.T) {
	f := client(t, t.TempDir())
	if err := f.Restore(); !errors.Is(err, lastgood.ErrNone) {
		t.Errorf("error %v, want ErrNone", err)
	}
	if f.holder.Load() != nil {
		t.Error("a table came out of nothing")
	}
}

func TestAReconnectedRouterSaysWhatItHolds(t *testing.T) {
	n := serve(t, &node{})
	f := client(t, t.TempDir(), n.address)
	f.start(t)
	n.next(t, isHello)
	f.push(t, n, pushed(1, 3, 5))
	n.push <- nil // the node ends the stream
	hello := n.next(t, isHello).GetHello()
	if got := hello.GetHolds(); got.GetClusterId() != "c-1" || got.GetEpoch() != 3 || got.GetRevision() != 5 {
		t.Errorf("holds %v", got)
	}
}

func TestTheNextNodeIsTriedWhenOne(t *testing.T) {
	for name, bad := range map[string]func(*testing.T) string{
		"is not there":             func(*testing.T) string { return "127.0.0.1:1" },
		"speaks another version":   func(t *testing.T) string { return serve(t, &node{protocol: 99}).address },
		"accepts and says nothing": func(t *testing.T) string { return serve(t, &node{mute: true}).address },
	} {
		t.Run(name, func(t *testing.T) {
			good := serve(t, &node{})
			f := client(t, t.TempDir(), bad(t), good.address)
			f.o.Silence = 100 * time.Millisecond
			f.start(t)
			good.next(t, isHello)
		})
	}
}

func TestADiskThatFailsDoesNotStopFollowing(t *testing.T) {
	n := serve(t, &node{})
	disk := filepath.Join(t.TempDir(), "tables")
	f := client(t, disk, n.address)
	f.start(t)
	f.push(t, n, pushed(1, 1, 1))
	if err := os.RemoveAll(disk); err != nil {
		t.Fatal(err)
	}
	if ack := f.push(t, n, pushed(2, 1, 2)); !ack.GetOk() {
		t.Errorf("answer %v", ack)
	}
	if f.revision() != 2 || f.Status().DiskError == nil {
		t.Errorf("holds %d, status %+v", f.revision(), f.Status())
	}
}

func TestAppliedHearsOfEverySwap(t *testing.T) {
	n := serve(t, &node{})
	f := client(t, t.TempDir(), n.address)
	heard := make(chan uint64, 8)
	f.o.Applied = func(built *table.Table) { heard <- built.Ref.Revision }
	f.start(t)
	f.push(t, n, pushed(1, 1, 1))
	f.push(t, n, pushed(2, 1, 1))
	f.push(t, n, pushed(3, 1, 2))
	if a, b := <-heard, <-heard; a != 1 || b != 2 {
		t.Errorf("heard of %d, %d", a, b)
	}
	if len(heard) != 0 {
		t.Errorf("heard of %d more", len(heard))
	}
}

func TestTheLastReportIsSentOnLeaving(t *testing.T) {
	n := serve(t, &node{})
	f := client(t, t.TempDir(), n.address)
	f.o.Period = time.Hour
	reports := 0
	f.o.Report = func(time.Time) *routerpb.Report {
		reports++
		return &routerpb.Report{Requests: uint64(reports)}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	n.next(t, isReport)
	cancel()
	if last := n.next(t, isReport).GetReport(); last.GetRequests() != 2 {
		t.Errorf("last report %v", last)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestOptionsNameWhatIsMissing(t *testing.T) {
	whole := func() Options {
		return Options{
			Router: "r", Region: "eu", Holder: &table.Holder{},
			Report: func(time.Time) *routerpb.Report { return nil },
		}
	}
	for field, unset := range map[string]func(*Options){
		"Router": func(o *Options) { o.Router = "" },
		"Region": func(o *Options) { o.Region = "" },
		"Holder": func(o *Options) { o.Holder = nil },
		"Report": func(o *Options) { o.Report = nil },
	} {
		o := whole()
		unset(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("without %s: %v", field, err)
		}
	}
	if _, err := New(whole()); err != nil {
		t.Errorf("whole: %v", err)
	}
}
