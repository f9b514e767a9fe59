package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"anabranch/controlplane/backup"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/store"
)

func TestSaveInspectAndRestoreABackup(t *testing.T) {
	s := begin(t)
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	out, _ := s.do(0, "", "controlplane", "snapshot", "save", "a.backup")
	if !strings.Contains(out, "saved cluster c-1, epoch 1") {
		t.Errorf("save says %q", out)
	}
	if _, v, err := backup.Load("a.backup"); err != nil || !state.Equal(v, s.node.View()) {
		t.Fatalf("the file: %v", err)
	}

	out, _ = s.do(0, "", "controlplane", "snapshot", "inspect", "a.backup")
	for _, want := range []string{"cluster   c-1, epoch 1", "on n1", "tokens    4", "regions 2", "tenants 1"} {
		if !strings.Contains(out, want) && !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("inspect lacks %q:\n%s", want, out)
		}
	}
	out, _ = s.do(0, "", "controlplane", "snapshot", "inspect", "a.backup", "-o", "json")
	var c contents
	if err := json.Unmarshal([]byte(out), &c); err != nil || c.ClusterID != "c-1" || c.Resources["regions"] != 2 || c.Revision != s.node.View().Index() {
		t.Errorf("%+v, %v", c, err)
	}

	to := []string{"controlplane", "snapshot", "restore", "a.backup", "--data-dir", "n1", "--id", "n1", "--peers", "n1=127.0.0.1:7120"}
	out, _ = s.do(0, "", to...)
	if !strings.Contains(out, "restored cluster c-1") {
		t.Errorf("restore says %q", out)
	}
	r, err := store.Inspect("n1", nil)
	if err != nil || len(r.View.List(policy.KindRegion)) != 2 || r.NodeID != "n1" {
		t.Fatalf("%+v, %v", r, err)
	}
	_, errs := s.do(1, "", to...)
	if !strings.Contains(errs, "--replace") {
		t.Errorf("onto data it says %q", errs)
	}
	s.do(0, "", append(to, "--replace", "--cluster-id", "rehearsal")...)
	if r, err = store.Inspect("n1", nil); err != nil || r.View.ClusterID() != "rehearsal" {
		t.Errorf("%+v, %v", r, err)
	}
	if aside, _ := filepath.Glob("n1/replaced-*/node.json"); len(aside) != 1 {
		t.Errorf("moved aside: %v", aside)
	}
}

func TestABackupThatIsNotGoodIsNoFile(t *testing.T) {
	s := begin(t)
	s.do(0, eu, "apply", "-f", "-")
	s.do(0, "", "controlplane", "snapshot", "save", "a.backup")
	text, err := os.ReadFile("a.backup")
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	s.file("bad.backup", string(text))
	for _, args := range [][]string{
		{"inspect", "bad.backup"},
		{"restore", "bad.backup", "--data-dir", "n1", "--id", "n1", "--peers", "n1=127.0.0.1:7120"},
	} {
		if _, errs := s.do(1, "", append([]string{"controlplane", "snapshot"}, args...)...); !strings.Contains(errs, "damaged") {
			t.Errorf("%s says %q", args[0], errs)
		}
	}
	if _, err := os.Stat("n1"); !os.IsNotExist(err) {
		t.Errorf("a bad backup made a folder: %v", err)
	}
	t.Setenv("ANABRANCH_TOKEN", "operator-token")
	s.do(3, "", "controlplane", "snapshot", "save", "b.backup")
	t.Setenv("ANABRANCH_SERVER", "http://127.0.0.1:1")
	s.do(4, "", "controlplane", "snapshot", "save", "b.backup")
	if left, _ := filepath.Glob("b.backup*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWhatIsMissingIsUsage(t *testing.T) {
	s := begin(t)
	for _, c := range []struct{ line, want string }{
		{"snapshot restore a --id n1 --peers n1=h:1", "--data-dir is missing"},
		{"snapshot restore a --data-dir d --peers n1=h:1", "--id is missing"},
		{"snapshot restore a --data-dir d --id n1", "--peers is missing"},
		{"recover --data-dir d", "--peers is missing"},
		{"snapshot save", "accepts 1 arg"},
	} {
		if _, errs := s.do(2, "", append([]string{"controlplane"}, strings.Fields(c.line)...)...); !strings.Contains(errs, c.want) {
			t.Errorf("%s: %q, want %q in it", c.line, errs, c.want)
		}
	}
}
