package drill

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev"
	"anabranch/failover/drill"
	"anabranch/sim/report/rehearsal"
)

const (
	apRegion = "ap-northeast-1"
	usRegion = "us-east-1"
	// rps is low for what the fleet can do and enough to judge by.
	rps = 20
	// tries is how often a drill may end for want of a leader, on a machine that has other things to do.
	tries = 3
)

// TestDrill rehearses failovers on one fleet, one after the other. They take a quarter of an hour.
func TestDrill(t *testing.T) {
	if !long {
		t.Skip("played by make stress LONG=Drill: a drill takes minutes, and times mean nothing beside other tests")
	}
	f, b := start(t), new(board)
	defer func() { t.Logf("measured:\n\n%s", b) }()
	for _, scene := range []struct {
		name string
		play func(*fleet, *board)
	}{
		{"soft", soft},
		{"hard", hard},
		{"quota store", quotaStore},
		{"plan only", planOnly},
		{"shadow", shadow},
		{"tier1", tier1},
		{"failback only", failbackOnly},
		{"scheduled", scheduled},
		{"control plane kind", controlPlane},
		{"errors", injected},
		{"leader loss", leaderLoss},
		{"quorum loss", quorumLoss},
		{"control plane loss", controlPlaneLoss},
		{"under load", loaded},
		{"overload", overload}, // last: the account remembers its traffic for an hour
	} {
		t.Run(scene.name, func(t *testing.T) {
			f.t = t
			f.well()
			scene.play(f, b)
		})
		f.t = t
		t.Logf("so far:\n\n%s", b)
	}
}

// succeeds plays a drill to its end, under load, and holds it to what one that succeeds has to be.
func (f *fleet) succeeds(b *board, spec map[string]any) (*client.Drill, drill.Report, []byte) {
	f.t.Helper()
	for try := 1; ; try++ {
		stop := f.drive(rps)
		d, resumed := f.reach(f.begin(spec).ID, drill.Done, -1)
		sum := stop()
		r, raw := f.report(d)
		if d.Outcome != drill.Succeeded {
			if try < tries && starved(d) {
				f.t.Logf("again: %s (%s): %s", d.Outcome, d.Cause, d.Reason)
				f.well()
				continue
			}
			f.t.Fatalf("%s (%s): %s\n%s", d.Outcome, d.Cause, d.Reason, told(d))
		}
		b.add("leader changes in a drill that was resumed", 0, float64(resumed), "times")
		b.add("requests lost in a drill, by its report", 0, float64(r.During.All.Lost+r.During.All.Broken), "")
		b.add("requests lost in a drill, by its clients", 0, float64(sum.Total.Failed+sum.Total.Broken), "")
		b.add("fullest survivor, of its capacity", 1, r.During.PeakSaturation, "×")
		if n := r.During.All.Lost + r.During.All.Broken; n > 0 || sum.Total.Failed+sum.Total.Broken > 0 {
			f.t.Errorf("lost: %d by the report, %d failed and %d broken by clients: %+v", n, sum.Total.Failed, sum.Total.Broken, sum.Reasons)
		}
		if r.During.PeakSaturation > 1 || r.During.All.Total == 0 {
			f.t.Errorf("%s was at %v of its capacity, over %d requests", r.During.PeakCluster, r.During.PeakSaturation, r.During.All.Total)
		}
		return d, r, raw
	}
}

func soft(f *fleet, b *board) {
	d, r, raw := f.succeeds(b, plan("soft", apRegion, nil))
	if got := shares(d); !slices.Equal(got, []string{"to 1 %", "again to 1 %", "to 10 %", "to 50 %", "to 100 %"}) {
		f.t.Errorf("shifted %q", got)
	}
	if r.Recovery.NinetyNineMs == nil {
		f.t.Error("traffic never left")
	} else {
		b.add("soft: 99 % away after the last order", 0, float64(*r.Recovery.NinetyNineMs)/1e3, "s")
	}
	f.opens(raw)
}

// shares are the shifts that a drill has told of.
func shares(d *client.Drill) (all []string) {
	for _, e := range d.Events {
		if e.State == drill.Shifting && e.Kind == drill.OfTransition && e.Text != "resumed" {
			all = append(all, strings.TrimPrefix(e.Text, "the rollback works: "))
		}
	}
	return all
}

// opens shows the page of a report in Chromium, which must not complain, in both colour schemes. REPORT_SHOTS names a
// folder that keeps the pictures.
func (f *fleet) opens(report []byte) {
	f.t.Helper()
	page, err := rehearsal.HTML(report)
	if err != nil {
		f.t.Fatal(err)
	}
	shots := os.Getenv("REPORT_SHOTS")
	if shots == "" {
		shots = f.t.TempDir()
	}
	file := filepath.Join(shots, "live.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		f.t.Fatal(err)
	}
	var pictures [][]byte
	for _, scheme := range []string{"light", "dark"} {
		shot := filepath.Join(shots, scheme+".png")
		ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
		args := []string{
			"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--user-data-dir=" + f.t.TempDir(),
			"--enable-logging=stderr", "--window-size=1380,3600", "--screenshot=" + shot, "file://" + file,
		}
		if scheme == "dark" {
			args = slices.Insert(args, 0, "--blink-settings=preferredColorScheme=0")
		}
		told, err := exec.CommandContext(ctx, "chromium", args...).CombinedOutput()
		cancel()
		if err != nil {
			f.t.Fatalf("%s: %v\n%s", scheme, err, told)
		}
		if bytes.Contains(told, []byte("CONSOLE")) {
			f.t.Errorf("%s: the browser complains:\n%s", scheme, told)
		}
		picture, err := os.ReadFile(shot)
		if err != nil || len(picture) < 50_000 {
			f.t.Errorf("%s: no picture, or an empty one: %v", scheme, err)
		}
		pictures = append(pictures, picture)
	}
	if bytes.Equal(pictures[0], pictures[1]) {
		f.t.Error("the page looks the same in both colour schemes")
	}
}

func hard(f *fleet, b *board) {
	_, r, _ := f.succeeds(b, plan("hard", apRegion, nil))
	for name, ms := range map[string]*int64{"detect": r.Recovery.DetectMs, "decide": r.Recovery.DecideMs} {
		if ms == nil {
			f.t.Errorf("the report tells no time to %s: %+v", name, r.Recovery)
			continue
		}
		b.add("hard: "+name, map[string]float64{"detect": 1, "decide": 15}[name], float64(*ms)/1e3, "s")
	}
	if r.During.All.Retried == 0 {
		f.t.Error("nobody met what is treated as dead")
	}
}

func quotaStore(f *fleet, b *board) {
	seen := make(chan bool, 1)
	ctx, end := context.WithCancel(f.t.Context())
	defer end()
	go func() { // all routers at once must have done without the store
		for ctx.Err() == nil {
			lost := 0
			for _, r := range f.record.Routers {
				if l, err := f.lease(r); err == nil && l.QuotaStoreLost {
					lost++
				}
			}
			if lost == len(f.record.Routers) {
				seen <- true
				return
			}
			<-time.After(200 * time.Millisecond)
		}
		seen <- false
	}()
	f.succeeds(b, plan("quota-store", "", nil))
	end()
	if !<-seen {
		f.t.Error("routers did not do without the quota store")
	}
}

// overload: one of three regions is drained, and without usRegion the last one would be too full at the traffic that there
// is, by what the control plane has measured. Nothing is moved.
func overload(f *fleet, _ *board) {
	for _, cluster := range []string{"eu-west-1-a", "eu-west-1-b"} {
		f.drain(cluster, true)
	}
	defer f.burden(40)()
	spec := plan("soft", usRegion, nil)
	f.await(5*time.Minute, "a dry run that finds too little room", func() error {
		found, err := f.ann.RehearseDrill(f.t.Context(), client.NewDrill{Spec: written(spec)})
		if err == nil && found.Refused != string(drill.CapacityFailed) {
			<-time.After(5 * time.Second) // the account has minutes
			err = fmt.Errorf("%s %s", found.Forecast.Worst(), found.Reason)
		}
		return err
	})
	d := f.begin(spec)
	f.t.Logf("%s: %s", d.Outcome, d.Reason)
	if d.Outcome != drill.CapacityFailed || !strings.HasPrefix(d.Reason, "the dry run does not let it: BLOCK") || !d.NotAfter.IsZero() || f.obeying() != nil {
		f.t.Errorf("%s; leases until %v, obeyed by %v", d.Reason, d.NotAfter, f.obeying())
	}
}

// injected: a survivor fails requests while all is shifted. The drill ends itself, and all is back within 5 s of that.
func injected(f *fleet, b *board) {
	stop := f.drive(rps)
	defer stop()
	d, _ := f.reach(f.begin(plan("soft", apRegion, map[string]any{"holdSeconds": 14400})).ID, drill.Hold, 0)
	if d.State != drill.Hold {
		f.t.Fatalf("%s (%s): %s\n%s", d.Outcome, d.Cause, d.Reason, told(d))
	}
	for _, cluster := range []string{"us-east-1-a", "eu-west-1-a"} {
		f.do(f.folder.Break, dev.Order{Kind: "cluster", Name: cluster, Fault: "error500", Ratio: 0.3})
	}
	broke := time.Now()
	d, _ = f.reach(d.ID, drill.RollingBack, 0)
	back := f.reverted(at(d, drill.RollingBack))
	b.add("abort: from 30 % errors to the decision", 0, at(d, drill.RollingBack).Sub(broke).Seconds(), "s")
	b.add("abort: from the decision until every router is restored", 5, back.Seconds(), "s")
	f.do(f.folder.Heal, dev.Order{Kind: "all"})
	d, _ = f.reach(d.ID, drill.Done, -1)
	if d.Outcome != drill.Failed && d.Outcome != drill.Interrupted || d.Outcome == drill.Failed && d.Cause != string(drill.CauseErrors) {
		f.t.Errorf("%s (%s): %s\n%s", d.Outcome, d.Cause, d.Reason, told(d))
	}
	if back > 5*time.Second {
		f.t.Errorf("restored after %v", back)
	}
}

// leaderLoss: the leader is killed while all is shifted. Another one pauses the drill, somebody resumes it, and it succeeds.
func leaderLoss(f *fleet, b *board) {
	for try := 1; ; try++ {
		stop := f.drive(rps)
		d, before := f.reach(f.begin(plan("soft", apRegion, map[string]any{"holdSeconds": 1000})).ID, drill.Hold, 0)
		was := f.leader()
		killed := time.Now()
		f.do(f.folder.Break, dev.Order{Kind: "controlplane", Name: was})
		d, resumed := f.reach(d.ID, drill.Done, -1)
		sum := stop()
		if try < tries && d.Outcome != drill.Succeeded && starved(d) {
			f.t.Logf("again: %s (%s): %s", d.Outcome, d.Cause, d.Reason)
			f.well()
			continue
		}
		if d.Outcome != drill.Succeeded || resumed == 0 {
			f.t.Errorf("%s (%s) after %d and %d pauses: %s\n%s", d.Outcome, d.Cause, before, resumed, d.Reason, told(d))
		}
		for _, e := range d.Events {
			if e.State == drill.Paused && e.At.After(killed) {
				b.add("leader killed: paused by another", 10, e.At.Sub(killed).Seconds(), "s")
				break
			}
		}
		if n := sum.Total.Failed + sum.Total.Broken; n > 0 {
			f.t.Errorf("%d requests were lost: %+v", n, sum.Reasons)
		}
		return
	}
}

// controlPlane: the leader is cut off from its peers; another takes over and the drill goes on under it.
func controlPlane(f *fleet, b *board) {
	was := f.leader()
	d, r, _ := f.succeeds(b, plan("control-plane", "", map[string]any{"holdSeconds": 700}))
	took := at(d, drill.Hold).Sub(at(d, drill.Shifting))
	b.add("leader isolated: another one leads and goes on", 10, took.Seconds(), "s")
	if now := f.leader(); now == was {
		f.t.Errorf("%s leads again, or still: %s", now, told(d))
	}
	if r.During.All.Total == 0 {
		f.t.Error("no traffic while the leader was isolated")
	}
	f.await(time.Minute, "the old leader to be back", func() error { return f.healthy(was) })
}

// quorumLoss: two of three nodes are lost, and the third answers on. Nobody renews, and routers revert by themselves.
func quorumLoss(f *fleet, b *board) {
	lost := f.lose(b, "quorum lost: every router has reverted", func() []string { return append(f.followers()[:1], f.leader()) })
	if lost != 2 {
		f.t.Errorf("%d nodes were lost", lost)
	}
}

// controlPlaneLoss: the same with all nodes.
func controlPlaneLoss(f *fleet, b *board) {
	f.lose(b, "control plane lost: every router has reverted", func() []string { return []string{"all"} })
}

// lose kills nodes while all is shifted, and waits until routers have taken it back on their own clocks. When the nodes
// are there again the drill is over.
func (f *fleet) lose(b *board, goal string, nodes func() []string) int {
	f.t.Helper()
	stop := f.drive(rps)
	d, _ := f.reach(f.begin(plan("soft", apRegion, map[string]any{"holdSeconds": 14400})).ID, drill.Hold, 0)
	if n := len(f.obeying()); d.State != drill.Hold || n != len(f.record.Routers) {
		f.t.Fatalf("%s, obeyed by %d routers\n%s", d.State, n, told(d))
	}
	gone := nodes()
	killed := time.Now()
	for _, name := range gone {
		f.do(f.folder.Break, dev.Order{Kind: "controlplane", Name: name})
	}
	took := f.reverted(killed)
	b.add(goal, 35, took.Seconds(), "s")
	if took > 35*time.Second {
		f.t.Errorf("reverted after %v", took)
	}
	for _, r := range f.record.Routers {
		if l, err := f.lease(r); err != nil || !l.Lapsed {
			f.t.Errorf("%s: %+v, %v; want a lease that has run out", r.Region, l, err)
		}
	}
	sum := stop()
	if n := sum.Total.Failed + sum.Total.Broken; n > 0 {
		f.t.Errorf("%d requests were lost: %+v", n, sum.Reasons)
	}
	f.do(f.folder.Heal, dev.Order{Kind: "all"})
	if d, _ = f.reach(d.ID, drill.Done, -1); d.Outcome != drill.Failed {
		f.t.Errorf("with nodes again: %s (%s): %s\n%s", d.Outcome, d.Cause, d.Reason, told(d))
	}
	return len(gone)
}
