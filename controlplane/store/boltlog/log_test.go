package boltlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"anabranch/controlplane/store/boltlog"
)

func open(t testing.TB, path string) *boltlog.Log {
	t.Helper()
	l, err := boltlog.Open(boltlog.Options{Path: path, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func shut(t testing.TB, l *boltlog.Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// entries makes the entries from..to.
func entries(from, to uint64) []*raft.Log {
	var logs []*raft.Log
	for i := from; i <= to; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: i / 10, Type: raft.LogCommand, Data: fmt.Appendf(nil, "entry %d", i)})
	}
	return logs
}

func bounds(t testing.TB, l raft.LogStore) [2]uint64 {
	t.Helper()
	first, err := l.FirstIndex()
	if err != nil {
		t.Fatal(err)
	}
	last, err := l.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	return [2]uint64{first, last}
}

func same(a, b *raft.Log) bool {
	return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && bytes.Equal(a.Data, b.Data) &&
		bytes.Equal(a.Extensions, b.Extensions) && a.AppendedAt.Equal(b.AppendedAt)
}

func TestKeepsEveryFieldOfAnEntryAcrossAReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	l := open(t, path)
	want := []*raft.Log{
		{Index: 7, Term: 3, Type: raft.LogNoop},
		{Index: 8, Term: 3, Type: raft.LogConfiguration, Data: []byte{0, 1, 2}, AppendedAt: time.Unix(1764, 5)},
		{Index: 9, Term: 4, Type: raft.LogCommand, Data: []byte("data"), Extensions: []byte("more")},
		{Index: 10, Term: 4, Type: raft.LogCommand, Extensions: []byte("only")},
	}
	if err := l.StoreLogs(want); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, path)
	defer shut(t, l)
	for _, w := range want {
		var got raft.Log
		if err := l.GetLog(w.Index, &got); err != nil {
			t.Fatal(err)
		}
		if !same(&got, w) {
			t.Errorf("entry %d: got %+v, want %+v", w.Index, got, w)
		}
	}
	if got := bounds(t, l); got != [2]uint64{7, 10} {
		t.Errorf("bounds %v, want 7 and 10", got)
	}
}

func TestMissingEntriesAreNotFound(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "raft.db"))
	defer shut(t, l)
	if got := bounds(t, l); got != [2]uint64{0, 0} {
		t.Errorf("bounds of an empty log %v, want 0 and 0", got)
	}
	if err := l.StoreLogs(entries(5, 6)); err != nil {
		t.Fatal(err)
	}
	for _, i := range []uint64{0, 4, 7} {
		if err := l.GetLog(i, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("entry %d: %v, want not found", i, err)
		}
	}
}

func TestAppendsThatWouldLeaveAHoleAreRefusedWhole(t *testing.T) {
	for _, c := range []struct {
		name string
		logs []*raft.Log
	}{
		{"gap after the last", entries(7, 8)},
		{"again", entries(5, 6)},
		{"gap inside", []*raft.Log{{Index: 6}, {Index: 8}}},
		{"index 0", []*raft.Log{{Index: 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := open(t, filepath.Join(t.TempDir(), "raft.db"))
			defer shut(t, l)
			if err := l.StoreLogs(entries(1, 5)); err != nil {
				t.Fatal(err)
			}
			if err := l.StoreLogs(c.logs); err == nil {
				t.Error("accepted")
			}
			if got := bounds(t, l); got != [2]uint64{1, 5} {
				t.Errorf("bounds %v, want 1 and 5", got)
			}
			if err := l.StoreLog(entries(6, 6)[0]); err != nil {
				t.Errorf("the next append: %v", err)
			}
		})
	}
}

func TestDeletesAtBothEndsButNotInTheMiddle(t *testing.T) {
	const n = 5000 // several chunks
	for _, c := range []struct {
		name      string
		low, high uint64
		want      [2]uint64
		refused   bool
	}{
		{"oldest", 1, 3000, [2]uint64{3001, n}, false},
		{"oldest, from 0", 0, 1024, [2]uint64{1025, n}, false},
		{"newest", 2000, n, [2]uint64{1, 1999}, false},
		{"newest, beyond the end", n, 2 * n, [2]uint64{1, n - 1}, false},
		{"all", 1, n, [2]uint64{0, 0}, false},
		{"far too much", 0, 1 << 60, [2]uint64{0, 0}, false},
		{"nothing there", n + 1, n + 9, [2]uint64{1, n}, false},
		{"upside down", 9, 8, [2]uint64{1, n}, false},
		{"middle", 10, 20, [2]uint64{1, n}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "raft.db")
			l := open(t, path)
			if err := l.StoreLogs(entries(1, n)); err != nil {
				t.Fatal(err)
			}
			if err := l.DeleteRange(c.low, c.high); (err != nil) != c.refused {
				t.Fatalf("delete: %v, refused should be %v", err, c.refused)
			}
			if got := bounds(t, l); got != c.want {
				t.Errorf("bounds %v, want %v", got, c.want)
			}
			gone := uint64(n)
			if c.want[0] != 0 {
				gone -= c.want[1] - c.want[0] + 1
			}
			if got := l.Stats(); got.Deleted != gone || got.DeleteChunks != (gone+1023)/1024 || got.CompactedBytes != 0 || got.Bytes < 100<<10 || gone > 1000 && got.FreeBytes < 20<<10 {
				t.Errorf("%d deleted entries are told as %+v", gone, got)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l = open(t, path) // checks that there is no hole
			defer shut(t, l)
			if got := bounds(t, l); got != c.want {
				t.Errorf("bounds after reopening %v, want %v", got, c.want)
			}
		})
	}
}

func TestAnEmptiedLogTakesAnyIndex(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "raft.db"))
	defer shut(t, l)
	if err := l.StoreLogs(entries(1, 9)); err != nil {
		t.Fatal(err)
	}
	if err := l.DeleteRange(1, 9); err != nil {
		t.Fatal(err)
	}
	if err := l.StoreLogs(entries(100, 101)); err != nil {
		t.Fatal(err)
	}
	if got := bounds(t, l); got != [2]uint64{100, 101} {
		t.Errorf("bounds %v, want 100 and 101", got)
	}
}

func TestSaysThatItIsMonotonic(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "raft.db"))
	defer shut(t, l)
	cache, err := raft.NewLogCache(4, l)
	if err != nil {
		t.Fatal(err)
	}
	if !cache.IsMonotonic() {
		t.Error("not monotonic through raft's cache: Raft would leave holes after a snapshot")
	}
}

func TestASecondProcessIsTurnedAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	l := open(t, path)
	defer shut(t, l)
	if _, err := boltlog.Open(boltlog.Options{Path: path}); err == nil || errors.Is(err, boltlog.ErrCorrupt) {
		t.Errorf("second open: %v, want a time-out", err)
	}
}

func TestStableValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	l := open(t, path)
	if _, err := l.Get([]byte("vote")); err == nil || err.Error() != "not found" {
		t.Errorf("unset value: %v, hashicorp/raft expects the text %q", err, "not found")
	}
	if n, err := l.GetUint64([]byte("term")); n != 0 || err != nil {
		t.Errorf("unset integer: %d, %v, want 0", n, err)
	}
	for _, term := range []uint64{1, 1 << 63, 42} {
		if err := l.SetUint64([]byte("term"), term); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Set([]byte("vote"), []byte("n1")); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, path)
	defer shut(t, l)
	if n, err := l.GetUint64([]byte("term")); n != 42 || err != nil {
		t.Errorf("term %d, %v, want 42", n, err)
	}
	if v, err := l.Get([]byte("vote")); string(v) != "n1" || err != nil {
		t.Errorf("vote %q, %v, want n1", v, err)
	}
	if _, err := l.GetUint64([]byte("vote")); !errors.Is(err, boltlog.ErrCorrupt) {
		t.Errorf("integer of 2 bytes: %v, want corrupt", err)
	}
}

// Against a map and two numbers, with reopening in between.
func TestBehavesLikeASliceOfEntries(t *testing.T) {
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		path := filepath.Join(dir, fmt.Sprintf("%d.db", run))
		l := open(t2tb(t), path)
		defer func() { _ = l.Close() }()
		model := map[uint64]*raft.Log{}
		var first, last uint64
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				next := last + 1
				if last == 0 {
					next = rapid.Uint64Range(1, 1000).Draw(t, "first")
				}
				var logs []*raft.Log
				for range rapid.IntRange(1, 40).Draw(t, "n") {
					e := &raft.Log{
						Index: next, Term: rapid.Uint64().Draw(t, "term"),
						Type: raft.LogType(rapid.Byte().Draw(t, "type")),
						Data: rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "data"),
					}
					logs, next = append(logs, e), next+1
					model[e.Index] = e
				}
				if err := l.StoreLogs(logs); err != nil {
					t.Fatal(err)
				}
				if first == 0 {
					first = logs[0].Index
				}
				last = next - 1
			},
			"delete": func(t *rapid.T) {
				if last == 0 {
					t.Skip("empty")
				}
				cut := rapid.Uint64Range(first, last).Draw(t, "cut")
				low, high := uint64(0), cut
				if rapid.Bool().Draw(t, "newest") {
					low, high = cut, last
				}
				if err := l.DeleteRange(low, high); err != nil {
					t.Fatal(err)
				}
				for i := max(low, first); i <= high; i++ {
					delete(model, i)
				}
				switch {
				case len(model) == 0:
					first, last = 0, 0
				case low <= first:
					first = high + 1
				default:
					last = low - 1
				}
			},
			"reopen": func(t *rapid.T) {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				l = open(t2tb(t), path)
			},
			"": func(t *rapid.T) {
				if got := bounds(t2tb(t), l); got != [2]uint64{first, last} {
					t.Fatalf("bounds %v, want %d and %d", got, first, last)
				}
				for i := first; i <= last && i > 0; i++ {
					var got raft.Log
					if err := l.GetLog(i, &got); err != nil || !same(&got, model[i]) {
						t.Fatalf("entry %d: %+v, %v, want %+v", i, got, err, model[i])
					}
				}
			},
		})
	})
}

// t2tb lets helpers that take a testing.TB fail a rapid check.
func t2tb(t *rapid.T) testing.TB { return checkTB{TB: nil, t: t} }

type checkTB struct {
	testing.TB
	t *rapid.T
}

func (c checkTB) Helper()           { c.t.Helper() }
func (c checkTB) Fatal(args ...any) { c.t.Fatal(args...) }
