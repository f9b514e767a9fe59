package discover

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// said is what a finder has told.
type said struct {
	mu   sync.Mutex // guards last
	last telling
}

// telling is the last list, how the last look went, and how many looks there were.
type telling struct {
	list  []table.Endpoint
	err   error
	times int
}

func (s *said) take(list []table.Endpoint, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.times++
	s.last.err = err
	if err == nil {
		s.last.list = list
	}
}

func (s *said) now() telling {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

func (s *said) ids() string {
	var out []string
	for _, e := range s.now().list {
		out = append(out, string(e.ID))
	}
	return strings.Join(out, " ")
}

// watched runs a finder in a bubble until the test's end and returns what it tells.
func watched(t *testing.T, f Finder, spec table.Discovery) *said {
	t.Helper()
	s := &said{}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Watch(ctx, spec, s.take) // ends with ctx
	}()
	t.Cleanup(func() { stop(); <-done })
	synctest.Wait()
	return s
}

// pass lets time pass until the finder has had its turn.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // of the bubble
	synctest.Wait()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func file(ids ...string) string {
	text := ""
	for i, id := range ids {
		text += fmt.Sprintf("- {id: %s, url: 'http://10.0.0.%d:8000'}\n", id, i+1)
	}
	if text == "" {
		return "[]"
	}
	return text
}

// fileWatch watches a file in a bubble with a look each second.
func fileWatch(t *testing.T, dir, name string) *said {
	t.Helper()
	return watched(t, &files{dir: dir, period: time.Second}, table.Discovery{Kind: table.DiscoverFile, Name: name})
}

func TestAFileIsReadAgainHoweverItIsReplaced(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, path, text string){
		"in place": write,
		"by rename": func(t *testing.T, path, text string) {
			write(t, path+".new", text)
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		},
		"by removing it first": func(t *testing.T, path, text string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			write(t, path, text)
		},
		"with the same size and time": func(t *testing.T, path, text string) {
			before, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, text)
			if err := os.Chtimes(path, before.ModTime(), before.ModTime()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "endpoints.yaml")
			write(t, path, file("a"))
			synctest.Test(t, func(t *testing.T) {
				s := fileWatch(t, "", path)
				pass(200 * time.Millisecond)
				if s.ids() != "a" || s.now().err != nil {
					t.Fatalf("at first %q, %v", s.ids(), s.now().err)
				}
				replace(t, path, file("b"))
				pass(1200 * time.Millisecond)
				if s.ids() != "b" || s.now().err != nil {
					t.Errorf("then %q, %v", s.ids(), s.now().err)
				}
			})
		})
	}
}

// TestAFileOfAConfigMapFollowsItsLinks does what the kubelet does: the file is a link into ..data,
// which is a link to a folder of this version, and is swapped by rename.
func TestAFileOfAConfigMapFollowsItsLinks(t *testing.T) {
	for _, within := range []bool{false, true} {
		t.Run(fmt.Sprintf("within=%v", within), func(t *testing.T) {
			dir := t.TempDir()
			version := func(name, text string) {
				if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(dir, name, "endpoints.yaml"), text)
				if err := os.Symlink(name, filepath.Join(dir, "..data_tmp")); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
					t.Fatal(err)
				}
			}
			version("..2026_11_30_01", file("a"))
			path := filepath.Join(dir, "endpoints.yaml")
			if err := os.Symlink("..data/endpoints.yaml", path); err != nil {
				t.Fatal(err)
			}
			only := ""
			if within {
				only = dir
			}
			synctest.Test(t, func(t *testing.T) {
				s := fileWatch(t, only, path)
				pass(200 * time.Millisecond)
				if s.ids() != "a" || s.now().err != nil {
					t.Fatalf("at first %q, %v", s.ids(), s.now().err)
				}
				version("..2026_11_30_02", file("a", "b"))
				if err := os.RemoveAll(filepath.Join(dir, "..2026_11_30_01")); err != nil {
					t.Fatal(err)
				}
				pass(1200 * time.Millisecond)
				if s.ids() != "a b" || s.now().err != nil {
					t.Errorf("then %q, %v", s.ids(), s.now().err)
				}
			})
		})
	}
}

func TestABadFileKeepsTheListAndSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "endpoints.yaml")
	write(t, path, file("a"))
	synctest.Test(t, func(t *testing.T) {
		s := fileWatch(t, "", path)
		pass(200 * time.Millisecond)
		for _, c := range []struct {
			name string
			do   func() error
			says string
		}{
			{"bad YAML", func() error { return os.WriteFile(path, []byte("- {id: "), 0o600) }, "yaml"},
			{"cut to nothing", func() error { return os.Truncate(path, 0) }, "is empty"},
			{"too large", func() error { return os.Truncate(path, MaxFile+1) }, "larger than 1048576"},
			{"gone", func() error { return os.Remove(path) }, "no such file"},
			{"a folder", func() error { return os.Mkdir(path, 0o700) }, "not a regular file"},
			{"a pipe", func() error {
				if err := os.Remove(path); err != nil {
					return err
				}
				return syscall.Mkfifo(path, 0o600)
			}, "not a regular file"},
		} {
			if err := c.do(); err != nil {
				t.Fatal(err)
			}
			pass(1500 * time.Millisecond)
			if s.ids() != "a" || s.now().err == nil || !strings.Contains(s.now().err.Error(), c.says) || !strings.Contains(s.now().err.Error(), path) {
				t.Errorf("%s: %q, %v", c.name, s.ids(), s.now().err)
			}
			if s.now().err != nil && strings.Count(s.now().err.Error(), path) > 1 {
				t.Errorf("%s: %v names the file twice", c.name, s.now().err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		write(t, path, file("a"))
		before := s.now().times
		pass(1500 * time.Millisecond)
		if s.now().err != nil || s.ids() != "a" || s.now().times == before {
			t.Errorf("mended: %q, %v", s.ids(), s.now().err)
		}
		write(t, path, file())
		pass(1500 * time.Millisecond)
		if s.now().err != nil || s.ids() != "" {
			t.Errorf("an empty list is what somebody wanted: %q, %v", s.ids(), s.now().err)
		}
	})
}

func TestAFileThatIsBeingWrittenIsNotTakenByHalf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "endpoints.yaml")
	whole := file("a", "b", "c")
	write(t, path, whole)
	synctest.Test(t, func(t *testing.T) {
		s := fileWatch(t, "", path)
		pass(200 * time.Millisecond)
		next := strings.ReplaceAll(whole, "10.0.0", "10.0.1")
		for i := range 40 { // a slow writer who has one whole line ready, then another, then none again
			write(t, path, strings.Join(strings.SplitAfter(next, "\n")[:i%3], ""))
			pass(50 * time.Millisecond)
			if s.ids() != "a b c" || s.now().list[0].URL != "http://10.0.0.1:8000" {
				t.Fatalf("with %d lines written the list is %+v", i%3, s.now().list)
			}
		}
		write(t, path, next)
		pass(1500 * time.Millisecond)
		if s.ids() != "a b c" || s.now().list[0].URL != "http://10.0.1.1:8000" {
			t.Errorf("in the end %+v", s.now().list)
		}
	})
}

func TestFilesStayInTheirFolder(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "x.yaml"), file("secret"))
	write(t, filepath.Join(dir, "in.yaml"), file("a"))
	if err := os.Symlink(filepath.Join(outside, "x.yaml"), filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir, name string
		ok        bool
	}{
		{dir, "in.yaml", false},
		{dir, filepath.Join(dir, "in.yaml"), true},
		{dir + "/", dir + "/./in.yaml", true},
		{"", filepath.Join(dir, "in.yaml"), true},
		{"", filepath.Join(dir, "link.yaml"), true},
		{"", "in.yaml", false},
		{dir, dir + "/../" + filepath.Base(outside) + "/x.yaml", false},
		{dir, filepath.Join(outside, "x.yaml"), false},
		{dir, dir + "-other/x.yaml", false},
		{dir, dir + "/link.yaml", false},
		{dir, dir + "/sub/x.yaml", false},
		{dir, dir, false},
		{dir, "", false},
		{dir + "/none", dir + "/none/in.yaml", false},
	} {
		d, err := New(Options{Dir: c.dir, Found: func(fleet.ClusterID, []table.Endpoint) {}})
		if err != nil {
			t.Fatal(err)
		}
		text, err := d.finders[table.DiscoverFile].(*files).read(c.name)
		if (err == nil) != c.ok {
			t.Errorf("%q in %q: %q, %v", c.name, c.dir, text, err)
		}
	}
}

func TestAFolderMayBeRelative(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(filepath.Dir(dir))
	write(t, filepath.Join(dir, "in.yaml"), "[]")
	d, err := New(Options{Dir: filepath.Base(dir), Found: func(fleet.ClusterID, []table.Endpoint) {}})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := d.finders[table.DiscoverFile].(*files).read(filepath.Join(dir, "in.yaml")); string(text) != "[]" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
}
