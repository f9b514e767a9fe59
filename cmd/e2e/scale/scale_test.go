package scale

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/web"
)

// TestScale holds the console, in a real Chromium, and the node to what is wanted of them.
//
// SCALE_MINUTES (10) is for how long memory is looked at in the long form; SCALE_ONLY names parts of web/e2e/scale.test.js, as
// CONSOLE_ONLY does; SCALE_FIGURES is a file that gets what the browser measured. SCALE_ROUTERS is for a machine that can't
// carry 5,000 routers beside a node and a browser. SCALE_STAY has nothing measured: the fleet stays for so many minutes for
// somebody to look at, and its address and token are told.
func TestScale(t *testing.T) {
	if !long {
		t.Skip("it seeds a fleet for a minute and looks at it for twenty: with ANABRANCH_STRESS=1, or make stress LONG=Scale")
	}
	if _, err := fs.Stat(web.Dist(), "index.html"); err != nil {
		t.Fatal("the console is not built into this test: run make build first")
	}
	current(t)
	s := largest
	if r, err := strconv.Atoi(os.Getenv("SCALE_ROUTERS")); err == nil {
		s.routers = r
	}
	n := startNode(t)
	c := s.fill(t, n)
	c.settle()
	stop := keepChanging(t, n)
	if minutes, err := strconv.Atoi(os.Getenv("SCALE_STAY")); err == nil {
		c.every.Store(4)
		t.Logf("%s with token %s", n.url, n.tokens["admin"])
		wait(t.Context(), time.Duration(minutes)*time.Minute)
	} else {
		n.lists(t)
		n.consoles(t)
		// A browser runs on a machine of its own elsewhere. Here it shares two processors with the node and with 5,000 routers,
		// which leave it room by saying all the same less often.
		c.every.Store(4)
		browse(t, n)
	}
	stop()
	t.Logf("%d reports, %d tables taken, %d streams lost", c.reports.Load(), c.tables.Load(), c.lost.Load())
}

// current fails if the console was built before it was last changed: another one would be measured.
func current(t *testing.T) {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "web")
	built, err := os.Stat(filepath.Join(dir, "dist", "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(dir, "src"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".gen.ts") {
			return err
		}
		info, err := d.Info()
		if err == nil && info.ModTime().After(built.ModTime()) {
			t.Fatalf("%s is newer than the console that is built: run make build first", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// settle waits until all routers are there and some clusters are ill, one after the other, as else all would be frozen.
func (c *crowd) settle() {
	c.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); c.up.Load() < int64(c.routers); wait(c.ctx, 100*time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("%d of %d routers have come", c.up.Load(), c.routers)
		}
	}
	for range 3 {
		c.unwell.Add(1)
		wait(c.ctx, 12*time.Second)
	}
}

// keepChanging has something decided ten times a second until it is stopped.
func keepChanging(t *testing.T, n *member) (stop func()) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var done sync.WaitGroup
	start := time.Now()
	done.Go(func() {
		changes, err := change(ctx, n.as("admin"))
		if err != nil {
			t.Error(err)
		}
		rate := float64(changes) / time.Since(start).Seconds()
		t.Logf("%d changes, %.1f a second", changes, rate)
		if rate < 8 {
			t.Errorf("only %.1f changes a second", rate)
		}
	})
	return func() {
		end()
		done.Wait()
	}
}

// browse runs the script, which measures and judges, and logs its figures.
func browse(t *testing.T, n *member) {
	t.Helper()
	figures := filepath.Join(t.TempDir(), "figures.json")
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "--test", "--test-reporter=spec", "e2e/scale.test.js")
	cmd.Dir = filepath.Join("..", "..", "..", "web")
	cmd.Env = append(os.Environ(), "CONSOLE_URL="+n.url, "CONSOLE_TOKEN="+n.tokens["admin"], "CONSOLE_FORM=long", "CONSOLE_FIGURES="+figures)
	for ours, its := range map[string]string{"SCALE_MINUTES": "CONSOLE_MINUTES", "SCALE_ONLY": "CONSOLE_ONLY"} {
		if v := os.Getenv(ours); v != "" {
			cmd.Env = append(cmd.Env, its+"="+v)
		}
	}
	before := n.used()
	text, err := cmd.CombinedOutput()
	now := n.used()
	t.Logf("with the browser the node takes %.2f of a processor and %d MB", now.since(before), now.resident>>20)
	if err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	told, err := os.ReadFile(figures)
	if err != nil {
		t.Fatal(err)
	}
	if to := os.Getenv("SCALE_FIGURES"); to != "" {
		if err := os.WriteFile(to, told, 0o600); err != nil {
			t.Error(err)
		}
	}
	var sections map[string]json.RawMessage
	if err := json.Unmarshal(told, &sections); err != nil {
		t.Fatal(err)
	}
	for name, section := range sections {
		t.Logf("%s: %.3000s", name, section)
	}
}
