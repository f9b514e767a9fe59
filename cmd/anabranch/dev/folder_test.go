package dev

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFilesAreReplacedWholeAndPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dev.json")
	for _, content := range []string{"first", "second"} {
		if err := writeFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Errorf("read %q, %v, want %q", got, err, content)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestAWriteThatCanNotBeFinishedLeavesTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "taken")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil { // a folder can't be replaced
		t.Fatal(err)
	}
	if err := writeFile(path, []byte("new")); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("writeFile = %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func newFolder(t *testing.T) Folder {
	t.Helper()
	f := Folder(filepath.Join(t.TempDir(), FolderName))
	if err := f.make(); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAFolderIsHeldByOneUntilItEndsHoweverItEnds(t *testing.T) {
	f := newFolder(t)
	if _, err := f.Holder(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Holder of a new folder = %v", err)
	}
	cmd, out := hereAt(t, "hold "+string(f), "dev")
	if line, err := out.ReadString('\n'); err != nil || line != "held <nil>\n" {
		t.Fatalf("other process: %q, %v", line, err)
	}
	if pid, err := f.Holder(); err != nil || pid != cmd.Process.Pid {
		t.Errorf("Holder = %d, %v, want %d", pid, err, cmd.Process.Pid)
	}
	_, err := f.hold()
	if !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), "anabranch dev stop") {
		t.Errorf("hold of a held folder = %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = cmd.Process.Wait() // killed, as wanted
	if _, err := f.Holder(); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Holder after its death = %v", err)
	}
	release, err := f.hold()
	if err != nil {
		t.Fatalf("hold after its death: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
}

func TestAHolderThatIsAnotherProgramIsNotBelieved(t *testing.T) {
	f := newFolder(t)
	_, out := hereAt(t, "hold "+string(f), "something-else")
	if line, err := out.ReadString('\n'); err != nil || line != "held <nil>\n" {
		t.Fatalf("other process: %q, %v", line, err)
	}
	if _, err := f.Holder(); !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), "another program") {
		t.Errorf("Holder = %v", err)
	}
}

func TestAskingNobodySaysHowToStart(t *testing.T) {
	f := newFolder(t)
	if _, err := f.Status(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("no socket: %v", err)
	}
	l, err := f.listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A killed supervisor leaves its socket, where nobody listens.
	if err := os.Rename(f.socket(), f.path("kept")); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(f.path("kept"), f.socket()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Break(t.Context(), Order{Kind: "redis"}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("dead socket: %v", err)
	}
	if l, err = f.listen(t.Context()); err != nil {
		t.Errorf("listen in place of a dead socket: %v", err)
	} else if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestCertificatesAreMadeAnewFromAKeptAuthority(t *testing.T) {
	f, now := newFolder(t), time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	r := &Record{ControlPlane: []NodeRecord{{ID: "n1"}}, Routers: []RouterRecord{{Region: "us"}}}
	r.fillSecrets()
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(f.pki(name))
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(f.pki(name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
		return string(b)
	}
	write := func(at time.Time) (authority, leaf string) {
		t.Helper()
		if err := f.writeSecrets(r, at); err != nil {
			t.Fatal(err)
		}
		read("us-r1.key")
		return read("ca.crt"), read("n1.crt")
	}
	ca1, leaf1 := write(now)
	ca2, leaf2 := write(now.AddDate(1, 0, 0))
	if ca1 != ca2 || leaf1 == leaf2 {
		t.Errorf("a year later: authority kept %v, leaf renewed %v", ca1 == ca2, leaf1 != leaf2)
	}
	if ca3, _ := write(now.AddDate(5, 0, -10)); ca3 == ca1 {
		t.Error("an authority that ends in days is kept")
	}
	if err := os.WriteFile(f.pki("ca.key"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.writeSecrets(r, now); err == nil {
		t.Error("a damaged authority is taken")
	}
}

func TestKeysAreLongAndNeverTwice(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		k := NewKey()
		if len(k) != len("ab-")+40 || !strings.HasPrefix(k, "ab-") || seen[k] {
			t.Fatalf("key %q", k)
		}
		seen[k] = true
	}
	// FIPS 180-4, example of one block.
	if got := HashKey("abc"); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("HashKey = %s", got)
	}
}
