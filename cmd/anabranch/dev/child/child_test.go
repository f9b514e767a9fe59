package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asParent is set in the environment of the test binary when it plays a parent that gets killed.
const asParent = "ANABRANCH_TEST_AS_PARENT"

func TestMain(m *testing.M) {
	if log := os.Getenv(asParent); log != "" {
		playParent(log)
		return
	}
	os.Exit(m.Run())
}

// playParent starts a long sleep, prints its pid and waits to be killed.
func playParent(log string) {
	l := NewLauncher()
	go func() { _ = l.Run(context.Background()) }() // ends with the process
	p, err := l.Start(Command{Name: "sleep", Path: "/bin/sleep", Args: []string{"600"}, Log: log})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.Status().PID)
	<-p.Done()
}

// launcher runs one for the test and checks that it ends.
func launcher(t *testing.T) *Launcher {
	t.Helper()
	l := NewLauncher()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("launcher did not end: a child was left")
		}
	})
	return l
}

func start(t *testing.T, l *Launcher, script string) *Process {
	t.Helper()
	p, err := l.Start(Command{
		Name: "script", Path: "/bin/sh", Args: []string{"-c", script},
		Env: append(os.Environ(), "GREETING=hello"), Log: filepath.Join(t.TempDir(), "script.log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// line returns what follows the prefix in the child's log, and whether a line starts with it. The
// first line is the launcher's own, and repeats the script.
func line(p *Process, prefix string) (string, bool) {
	for l := range strings.Lines(Tail(p.Command().Log, 100)) {
		if rest, ok := strings.CutPrefix(l, prefix); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// eventually waits until ok says yes, which it asks every few milliseconds.
func eventually(t *testing.T, ok func() bool, format string, args ...any) {
	t.Helper()
	tick, deadline := time.NewTicker(5*time.Millisecond), time.After(20*time.Second)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf(format, args...)
		}
	}
}

// waitLog waits until the child has written a line with the prefix, and returns the rest of it.
func waitLog(t *testing.T, p *Process, prefix string) string {
	t.Helper()
	eventually(t, func() bool { _, ok := line(p, prefix); return ok }, "%s never said %q", p.Command().Name, prefix)
	rest, _ := line(p, prefix)
	return rest
}

func waitDone(t *testing.T, p *Process) Status {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		t.Fatalf("%+v still runs", p.Status())
	}
	return p.Status()
}

func alive(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(after, "Z")
}

func TestChildWritesToItsLogAndEndsByItself(t *testing.T) {
	p := start(t, launcher(t), `echo "$GREETING"; exit 3`)
	s := waitDone(t, p)
	if s.Running || s.How != "exit status 3" || s.Expected || s.Ended.Before(s.Started) {
		t.Errorf("status %+v", s)
	}
	log := Tail(p.Command().Log, 10)
	if !strings.Contains(log, "hello") || !strings.Contains(log, "--- script started") {
		t.Errorf("log:\n%s", log)
	}
}

func TestStopLetsAChildEndInOrder(t *testing.T) {
	p := start(t, launcher(t), `trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done`)
	waitLog(t, p, "up")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if s := p.Status(); s.Running || s.How != "exit status 0" || !s.Expected {
		t.Errorf("status %+v", s)
	}
	waitLog(t, p, "bye")
}

func TestStopKillsAChildThatWillNotEnd(t *testing.T) {
	p := start(t, launcher(t), `trap '' TERM; echo up; while :; do sleep 0.01; done`)
	waitLog(t, p, "up")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := p.Stop(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop = %v", err)
	}
	if s := p.Status(); s.Running || s.How != "signal: killed" {
		t.Errorf("status %+v", s)
	}
}

func TestKillReachesTheWholeGroup(t *testing.T) {
	p := start(t, launcher(t), `sleep 600 & echo "grandchild $!"; wait`)
	pid, err := strconv.Atoi(waitLog(t, p, "grandchild "))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return !alive(pid) }, "grandchild %d still runs", pid)
	if err := p.Kill(); err != nil {
		t.Errorf("second Kill = %v, want nil", err)
	}
}

func TestChildHasNoInputAndNoInheritedDescriptors(t *testing.T) {
	// One without close-on-exec, as a parent's parent may have left it to us.
	fd, err := syscall.Dup(1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	p := start(t, launcher(t), `cat; readlink /proc/$$/fd/0; exec ls /proc/self/fd`)
	waitDone(t, p)
	// ls has one of its own: the folder that it lists.
	_, got, _ := strings.Cut(Tail(p.Command().Log, 10), "\n")
	if want := os.DevNull + "\n0\n1\n2\n3"; got != want {
		t.Errorf("input and descriptors:\n%s\nwant\n%s", got, want)
	}
}

func TestChildDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), asParent+"="+filepath.Join(t.TempDir(), "sleep.log"))
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("parent said %q", line)
	}
	if !alive(pid) {
		t.Fatalf("child %d does not run", pid)
	}
	if err := parent.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed, as wanted
	t.Cleanup(func() {
		if t.Failed() && alive(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // leave nothing behind
		}
	})
	eventually(t, func() bool { return !alive(pid) }, "child %d outlived its parent", pid)
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	l := launcher(t)
	for name, c := range map[string]Command{
		"no such program": {Name: "x", Path: "/nowhere/x", Log: filepath.Join(t.TempDir(), "x.log")},
		"no log folder":   {Name: "x", Path: "/bin/true", Log: filepath.Join(t.TempDir(), "none", "x.log")},
	} {
		if _, err := l.Start(c); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: Start = %v", name, err)
		}
	}
}

func TestStartAfterTheEndIsRefused(t *testing.T) {
	l := NewLauncher()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Run(ctx); err != nil {
		t.Fatal(err)
	}
	_, err := l.Start(Command{Name: "late", Path: "/bin/true", Log: filepath.Join(t.TempDir(), "late.log")})
	if !errors.Is(err, errEnded) {
		t.Errorf("Start = %v, want %v", err, errEnded)
	}
}

func TestTailIsBounded(t *testing.T) {
	log := filepath.Join(t.TempDir(), "long.log")
	var b strings.Builder
	for i := range 20_000 {
		_, _ = io.WriteString(&b, fmt.Sprintf("line %d\n", i)) // a builder never fails
	}
	if err := os.WriteFile(log, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		n    int
		want string
	}{{1, "line 19999"}, {2, "line 19998\nline 19999"}} {
		if got := Tail(log, c.n); got != c.want {
			t.Errorf("Tail(%d) = %q, want %q", c.n, got, c.want)
		}
	}
	if got := Tail(log, 1_000_000); len(got) > 64<<10 {
		t.Errorf("tail of %d bytes", len(got))
	}
	if got := Tail(log+".none", 5); got != "" {
		t.Errorf("tail of no file = %q", got)
	}
}
