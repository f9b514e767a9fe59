package boltlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

func fill(t *testing.T, path string, from, to uint64, size int) {
	t.Helper()
	l, err := Open(Options{Path: path, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i <= to; i += 100 {
		var logs []*raft.Log
		for j := i; j < i+100 && j <= to; j++ {
			logs = append(logs, &raft.Log{Index: j, Term: 1, Data: make([]byte, size)})
		}
		if err := l.StoreLogs(logs); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// tamper changes the buckets behind the log's back.
func tamper(t *testing.T, path string, change func(logs, stable *bbolt.Bucket) error) {
	t.Helper()
	db, err := openFile(path, true, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		return change(tx.Bucket(logsBucket), tx.Bucket(stableBucket))
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestACorruptLogIsRefusedAtStartWithTheReason(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(logs, stable *bbolt.Bucket) error
		says   string
	}{
		{"torn frame", func(logs, _ *bbolt.Bucket) error {
			return logs.Put(key(5), append([]byte(nil), logs.Get(key(5))[:40]...))
		}, "entry 5: checksum"},
		{"hole", func(logs, _ *bbolt.Bucket) error { return logs.Delete(key(5)) }, "entry 6 follows 4"},
		{"entry under another key", func(logs, _ *bbolt.Bucket) error {
			return logs.Put(key(5), append([]byte(nil), logs.Get(key(4))...))
		}, "entry 5: holds entry 4"},
		{"short key", func(logs, _ *bbolt.Bucket) error { return logs.Put([]byte{1}, nil) }, "key of 1 bytes"},
		{"flipped vote", func(_, stable *bbolt.Bucket) error { return stable.Put([]byte("vote"), []byte("1234n2")) }, "vote"},
		{"short vote", func(_, stable *bbolt.Bucket) error { return stable.Put([]byte("vote"), []byte("12")) }, "vote"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "raft.db")
			fill(t, path, 1, 9, 50)
			tamper(t, path, c.change)
			_, err := Open(Options{Path: path})
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("open: %v, want corrupt and %q", err, c.says)
			}
			// The file is closed again: the same answer, not a lock.
			if _, again := Open(Options{Path: path}); !errors.Is(again, ErrCorrupt) {
				t.Errorf("open again: %v", again)
			}
		})
	}
}

func TestAFileOfSomethingElseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Path: path}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("open: %v, want corrupt", err)
	}
}

func TestATruncatedFileIsRefusedAndDoesNotCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	fill(t, path, 1, 2000, 200)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []int64{2, 4, 16} {
		t.Run(fmt.Sprintf("1/%d", part), func(t *testing.T) {
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			cut := filepath.Join(t.TempDir(), "raft.db")
			if err := os.WriteFile(cut, whole[:info.Size()/part], 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(Options{Path: cut}); !errors.Is(err, ErrCorrupt) {
				t.Errorf("open: %v, want corrupt", err)
			}
		})
	}
}

func TestAMostlyEmptyFileIsRewrittenAtStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raft.db")
	fill(t, path, 1, 20_000, 500)
	l, err := Open(Options{Path: path, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.DeleteRange(1, 19_900), l.SetUint64([]byte("CurrentTerm"), 12), l.Close()); err != nil {
		t.Fatal(err)
	}
	before := size(t, path)
	if err := os.WriteFile(compactPath(path), []byte("left by a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err = Open(Options{Path: path, NoSync: true}); err != nil {
		t.Fatal(err)
	}
	defer shut(t, l)
	after := size(t, path)
	if after*compactFactor > before {
		t.Errorf("%d bytes before, %d after", before, after)
	}
	if got := l.Stats(); got.CompactedBytes != before-got.Bytes || got.Bytes > after || got.Bytes*2 < after || got.Deleted != 0 {
		t.Errorf("%d bytes before and %d after are told as %+v", before, after, got)
	}
	if first, last := l.bounds(); first != 19_901 || last != 20_000 {
		t.Errorf("entries %d to %d, want 19901 to 20000", first, last)
	}
	var e raft.Log
	if err := l.GetLog(19_950, &e); err != nil || len(e.Data) != 500 {
		t.Errorf("entry 19950: %d bytes, %v", len(e.Data), err)
	}
	if term, err := l.GetUint64([]byte("CurrentTerm")); term != 12 || err != nil {
		t.Errorf("term %d, %v, want 12", term, err)
	}
	if err := l.StoreLog(&raft.Log{Index: 20_001}); err != nil {
		t.Errorf("append after the rewrite: %v", err)
	}
	if _, err := os.Stat(compactPath(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary file is still there: %v", err)
	}
}

func TestOnlyLargeAndMostlyEmptyFilesAreWasteful(t *testing.T) {
	for _, c := range []struct {
		size, live int64
		want       bool
	}{
		{32 << 10, 0, false},
		{compactFloor, 0, false},
		{compactFloor + 1, 0, true},
		{40 << 20, 10 << 20, false},
		{40<<20 + 1, 10 << 20, true},
	} {
		if got := wasteful(c.size, c.live); got != c.want {
			t.Errorf("%d bytes with %d of content: %v, want %v", c.size, c.live, got, c.want)
		}
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func shut(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkStoreLogs(b *testing.B) {
	l, err := Open(Options{Path: filepath.Join(b.TempDir(), "raft.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer shut(b, l)
	data := make([]byte, 256)
	next := uint64(1)
	for b.Loop() {
		logs := make([]*raft.Log, 64)
		for i := range logs {
			logs[i] = &raft.Log{Index: next, Term: 1, Data: data}
			next++
		}
		if err := l.StoreLogs(logs); err != nil {
			b.Fatal(err)
		}
	}
}
