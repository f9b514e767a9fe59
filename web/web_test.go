package web

import (
	"errors"
	"io/fs"
	"regexp"
	"testing"
)

// TestTheConsoleIsWholeOrAbsent: a build without Node has only the placeholder; one with it has a
// page whose scripts and styles are all there, and that asks nobody else for anything.
func TestTheConsoleIsWholeOrAbsent(t *testing.T) {
	files := Dist()
	if _, err := fs.Stat(files, ".keep"); err != nil {
		t.Errorf("the placeholder: %v", err)
	}
	page, err := fs.ReadFile(files, "index.html")
	if errors.Is(err, fs.ErrNotExist) {
		others, err := fs.Glob(files, "*")
		if err != nil || len(others) != 1 {
			t.Errorf("no index.html, but %v (error %v)", others, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllSubmatch(page, -1)
	if len(links) < 2 {
		t.Errorf("the page links %d files, want a script and a style at least", len(links))
	}
	for _, l := range links {
		name := string(l[1])
		if len(name) < 2 || name[0] != '/' {
			t.Errorf("%q is not a file of the console", name)
			continue
		}
		if _, err := fs.Stat(files, name[1:]); err != nil {
			t.Errorf("linked and not there: %v", err)
		}
	}
}
