package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// playSupervisor behaves like `anabranch dev` in a folder whose name says how it goes: it becomes
// ready, fails, or never gets anywhere; told to end, it does.
func playSupervisor(f Folder) {
	release, err := f.hold()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("starting things")
	if strings.HasSuffix(string(f), "fails") {
		fmt.Println("anabranch: no luck")
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	l, err := f.listen(ctx)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	s := newSupervisor(f, &Record{}, nil, printer(os.Stdout))
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, l, os.Getpid()) }()
	if strings.HasSuffix(string(f), "ready") {
		s.becomeReady()
	}
	err = errors.Join(<-ended, release())
	fmt.Println("ended", err)
}

// install makes a folder with the programs that a start looks for; this test's binary plays the
// supervisor.
func install(t *testing.T, state string) (Options, *bytes.Buffer) {
	t.Helper()
	bin := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "anabranch")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"anabranch-controlplane", "anabranch-router"} {
		if err := os.WriteFile(filepath.Join(bin, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	out := &bytes.Buffer{}
	o := Options{
		Folder: Folder(filepath.Join(t.TempDir(), state)), Program: "bin/anabranch",
		Self: filepath.Join(bin, "anabranch"), Out: out,
	}
	t.Setenv(roleVariable, "supervisor "+string(o.Folder))
	return o, out
}

func TestDetachReturnsWhenReadyAndStopEndsIt(t *testing.T) {
	o, out := install(t, "ready")
	if err := Detach(t.Context(), o); err != nil {
		t.Fatalf("Detach = %v\n%s", err, out)
	}
	if got := out.String(); got != "starting things\nready\n" {
		t.Errorf("progress %q", got)
	}
	pid, err := o.Folder.Holder()
	if err != nil {
		t.Fatal(err)
	}
	if session, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(pid), 0, 0); errno != 0 || int(session) != pid {
		t.Errorf("supervisor %d is in session %d: %v", pid, session, errno)
	}
	if err := Detach(t.Context(), o); !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), fmt.Sprint(pid)) {
		t.Errorf("second Detach = %v", err)
	}
	if stopped, err := Stop(t.Context(), o.Folder); err != nil || stopped != pid {
		t.Errorf("Stop = %d, %v, want %d", stopped, err, pid)
	}
	if _, err := Stop(t.Context(), o.Folder); !errors.Is(err, ErrNotRunning) {
		t.Errorf("second Stop = %v", err)
	}
}

func TestDetachTellsWhyItFailed(t *testing.T) {
	o, out := install(t, "fails")
	err := Detach(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "did not become ready: exit status 1") {
		t.Errorf("Detach = %v", err)
	}
	if got := out.String(); got != "starting things\nanabranch: no luck\n" {
		t.Errorf("progress %q", got)
	}
}

func TestDetachEndsWhatItStartedWhenToldTo(t *testing.T) {
	o, out := install(t, "never")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := Detach(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Detach = %v", err)
	}
	if !strings.Contains(out.String(), "ended <nil>") {
		t.Errorf("progress %q", out)
	}
	if _, err := o.Folder.Holder(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Holder = %v", err)
	}
}

func TestAStartThatIsRefusedLetsGoOfTheFolder(t *testing.T) {
	o, out := install(t, "refused")
	if err := o.Folder.make(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.Folder.RecordPath(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Run = %v", err)
	}
	if out.Len() > 0 {
		t.Errorf("progress %q", out)
	}
	cmd, said := hereAt(t, "hold "+string(o.Folder), "dev")
	if line, err := said.ReadString('\n'); err != nil || line != "held <nil>\n" {
		t.Fatalf("process %d: %q, %v", cmd.Process.Pid, line, err)
	}
	if err := Run(t.Context(), o); !errors.Is(err, ErrRunning) {
		t.Errorf("Run in a held folder = %v", err)
	}
}

func TestDetachWithoutProgramsMakesNoFolder(t *testing.T) {
	o, _ := install(t, "ready")
	o.Self = filepath.Join(t.TempDir(), "anabranch")
	if err := Detach(t.Context(), o); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("Detach = %v", err)
	}
	if _, err := os.Stat(string(o.Folder)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("state folder: %v", err)
	}
}
