package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files of testdata")

// sameAsGolden compares with a file of testdata.
func sameAsGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	a, b := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(a), len(b)) {
		if !bytes.Equal(a[i], b[i]) {
			t.Fatalf("%s, line %d:\n%.300s\nwant\n%.300s", name, i+1, a[i], b[i])
		}
	}
	t.Fatalf("%s: %d lines, want %d", name, len(a), len(b))
}

func TestOutputsToTheLetter(t *testing.T) {
	r := golden()
	for name, write := range map[string]func(*bytes.Buffer) error{
		"report.txt": func(b *bytes.Buffer) error { return r.Text(b, Options{}) },
		"narrow.txt": func(b *bytes.Buffer) error {
			return r.Text(b, Options{Width: 60, Columns: []string{"ttftMs.p95", "routing.hitRate"}})
		},
		"report.md":   func(b *bytes.Buffer) error { return r.Markdown(b, Options{}) },
		"report.csv":  func(b *bytes.Buffer) error { return r.CSV(b) },
		"report.json": func(b *bytes.Buffer) error { return small(r).WriteJSON(b) },
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := write(&b); err != nil {
				t.Fatal(err)
			}
			sameAsGolden(t, name, b.Bytes())
		})
	}
}

// small is the report without what makes JSON long.
func small(r *Report) *Report {
	out := New(r.Title, r.Of("ours")[:2])
	for i := range out.Runs {
		out.Runs[i].Curve = out.Runs[i].Curve[:3]
		out.Runs[i].Timeline = nil
	}
	return out
}
