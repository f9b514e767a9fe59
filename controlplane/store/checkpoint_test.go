package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

func checkpoint(c *statepb.Checkpoint) *statepb.Command {
	return &statepb.Command{Format: 2, Ignorable: true, Op: &statepb.Command_Checkpoint{Checkpoint: c}}
}

func level(n uint32) *statepb.Command {
	return &statepb.Command{Format: 2, AtUnixMs: 1, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: n}}}
}

// marked is a machine with something in it that has kept its state at index 3, and the hashes of that.
func marked(t *testing.T) (*lone, *statepb.Checkpoint) {
	t.Helper()
	l := newLone()
	l.apply(t, initCommand("c1"))
	l.apply(t, register("a", "1"))
	l.apply(t, checkpoint(&statepb.Checkpoint{}))
	sums := state.Sums(l.views.load())
	l.apply(t, register("a", "2")) // what comes between is not in it
	return l, &statepb.Checkpoint{Index: 3, Schema: state.Schema(), Sums: sums}
}

func TestANodeWithTheSameStateGoesOn(t *testing.T) {
	l, c := marked(t)
	if r := l.apply(t, checkpoint(c)); r.err != nil || l.reason != nil {
		t.Fatalf("got %v, halted with %v", r.err, l.reason)
	}
	if got := l.marks.compared.Load(); got != 3 {
		t.Errorf("compared up to %d", got)
	}
	if l.marks.last.Load() != 5 || l.views.load().Index() != 5 {
		t.Errorf("last %d, applied %d", l.marks.last.Load(), l.views.load().Index())
	}
}

func TestANodeWithAnotherStateHaltsAndSaysWhatDiffers(t *testing.T) {
	l, c := marked(t)
	for _, s := range c.GetSums() {
		if s.GetPart() == "nodes" || s.GetPart() == "Tenant" {
			s.Sha256 = make([]byte, 32)
		}
	}
	if r := l.apply(t, checkpoint(c)); !errors.Is(r.err, errHalted) || !errors.Is(l.reason, ErrDiverged) {
		t.Fatalf("got %v, halted with %v", r.err, l.reason)
	}
	for _, says := range []string{"index 3", "nodes", "Tenant"} {
		if !strings.Contains(l.reason.Error(), says) {
			t.Errorf("%q does not say %q", l.reason, says)
		}
	}
	if l.views.load().Index() != 4 || l.marks.compared.Load() != 0 {
		t.Errorf("it went on to %d", l.views.load().Index())
	}
}

func TestWhatCannotBeComparedIsPassedOver(t *testing.T) {
	for name, change := range map[string]func(l *lone, c *statepb.Checkpoint){
		"nothing was kept":        func(l *lone, _ *statepb.Checkpoint) { l.marks.kept.Store(nil) },
		"another state was kept":  func(_ *lone, c *statepb.Checkpoint) { c.Index = 2 },
		"a build of other schema": func(_ *lone, c *statepb.Checkpoint) { c.Schema = "other" },
	} {
		l, c := marked(t)
		c.Sums[0].Sha256 = make([]byte, 32)
		change(l, c)
		if r := l.apply(t, checkpoint(c)); r.err != nil || l.reason != nil || l.marks.compared.Load() != 0 {
			t.Errorf("%s: %v, halted with %v", name, r.err, l.reason)
		}
	}
}

func TestCheckpointsAreDueByEntriesOrByTime(t *testing.T) {
	for _, tt := range []struct {
		applied uint64
		age     time.Duration
		want    bool
	}{
		{0, time.Hour, false},
		{1, 59 * time.Second, false},
		{1, time.Minute, true},
		{999, 0, false},
		{1000, 0, true},
	} {
		if got := due(tt.applied, tt.age, time.Minute); got != tt.want {
			t.Errorf("%d entries, %s: %v", tt.applied, tt.age, got)
		}
	}
}

// virtualRun runs three nodes in virtual time, gives the body the leader's cluster at feature level 2,
// and collects what each node ended with.
func virtualRun(t *testing.T, body func(t *testing.T, nodes []*Store)) map[string]error {
	t.Helper()
	dir, ends := t.TempDir(), map[string]error{}
	synctest.Test(t, func(t *testing.T) {
		_, nodes := virtualCluster(t, dir, func(*Options) {})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var mu sync.Mutex // guards ends
		for _, s := range nodes {
			running.Go(func() {
				err := s.Run(ctx)
				mu.Lock()
				defer mu.Unlock()
				ends[string(s.ID())] = err
			})
		}
		mustPropose(t, nodes, "init")
		body(t, nodes)
		cancel()
		running.Wait()
	})
	return ends
}

func raised(t *testing.T, nodes []*Store) {
	t.Helper()
	out, err := waitForLeader(nodes).Propose(t.Context(), level(2))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range nodes {
		if err := s.WaitApplied(t.Context(), out.GetRevision()); err != nil {
			t.Fatal(err)
		}
	}
}

func virtually(d time.Duration) { <-time.After(d) }

func TestEveryNodeIsComparedAndAnIdleClusterWritesNothing(t *testing.T) {
	ends := virtualRun(t, func(t *testing.T, nodes []*Store) {
		virtually(5 * time.Minute)
		if got := nodes[0].View().Index(); got != mustPropose(t, nodes, "before")-1 {
			t.Errorf("there were checkpoints before the level allowed them, up to %d", got)
		}
		raised(t, nodes)
		virtually(90 * time.Second)
		for _, s := range nodes {
			if s.Stats().ComparedIndex == 0 {
				t.Errorf("%s was not compared", s.ID())
			}
		}
		quiet := nodes[0].View().Index()
		virtually(10 * time.Minute)
		if got := nodes[0].View().Index(); got != quiet {
			t.Errorf("an idle cluster wrote %d entries", got-quiet)
		}
		before := nodes[0].Stats().ComparedIndex
		for i := range checkpointEntries {
			mustPropose(t, nodes, fmt.Sprint(i))
		}
		virtually(3 * time.Second)
		if got := nodes[0].Stats().ComparedIndex; got <= before {
			t.Errorf("no checkpoint after %d entries", checkpointEntries)
		}
	})
	for id, err := range ends {
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestOneFollowerThatHasDivergedHaltsAndTheOthersGoOn(t *testing.T) {
	var sick string
	ends := virtualRun(t, func(t *testing.T, nodes []*Store) {
		raised(t, nodes)
		leader := waitForLeader(nodes)
		for _, s := range nodes {
			if s != leader && sick == "" {
				sick = string(s.ID())
				s.views.set(s.View().Reborn(state.Rebirth{Lineage: "another"})) // a defect
			}
		}
		mustPropose(t, nodes, "after")
		virtually(90 * time.Second)
		mustPropose(t, nodes, "later")
	})
	for id, err := range ends {
		if id != sick && err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if id == sick && (!errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), "cluster")) {
			t.Errorf("%s, which differs, ended with %v", id, err)
		}
	}
}

func TestCommandsGetTheFormatThatTheyNeed(t *testing.T) {
	keyed := register("a", "1")
	keyed.Once = &statepb.Once{Key: "k"}
	for name, tt := range map[string]struct {
		cmd   *statepb.Command
		level uint32
		want  uint32 // 0: refused
	}{
		"old, at the first level":       {register("a", "1"), 1, 1},
		"old, at a newer level":         {register("a", "1"), 2, 1},
		"new, too early":                {keyed, 1, 0},
		"new":                           {keyed, 2, 2},
		"new and ignorable, too early":  {checkpoint(&statepb.Checkpoint{}), 1, 2},
		"the one that raises the level": {level(2), 1, 2},
	} {
		tt.cmd.Format = 77
		got, err := formatted(tt.cmd, tt.level)
		if tt.want == 0 && !errors.Is(err, ErrTooNew) || tt.want != 0 && (err != nil || got.GetFormat() != tt.want) {
			t.Errorf("%s: format %d, %v", name, got.GetFormat(), err)
		}
		if tt.cmd.GetFormat() != 77 {
			t.Errorf("%s: the caller's command was changed", name)
		}
	}
}
