package backup

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFolderKeepsOtherFilesToo(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "backups"))
	content := []byte("lines\n")
	if err := d.Put(t.Context(), "audit/anabranch-x.ndjson.gz", bytes.NewReader(content), int64(len(content))); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(string(d), "audit", "anabranch-x.ndjson.gz"))
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%q, %v", got, err)
	}
	if err := d.Put(t.Context(), "audit/anabranch-y.ndjson.gz", bytes.NewReader(content), 99); err == nil || !strings.Contains(err.Error(), "copied 6 bytes of 99") {
		t.Errorf("cut short: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(string(d), "audit", "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("left: %q, %v", left, err)
	}
	names, err := d.Names(t.Context())
	if err != nil || len(names) != 1 || names[0] != "audit" {
		t.Errorf("names %q, %v", names, err)
	}
}
