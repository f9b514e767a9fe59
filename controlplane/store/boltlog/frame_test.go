package boltlog

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestAFrameReadsBackWhatWasWritten(t *testing.T) {
	want := raft.Log{Index: 300, Term: 7, Type: raft.LogCommand, Data: []byte("d"), Extensions: []byte("xx"), AppendedAt: time.Unix(1, 2)}
	var got raft.Log
	if err := readFrame(appendFrame(nil, &want), 300, &got); err != nil {
		t.Fatal(err)
	}
	if got.Index != want.Index || got.Term != want.Term || got.Type != want.Type || !got.AppendedAt.Equal(want.AppendedAt) ||
		!bytes.Equal(got.Data, want.Data) || !bytes.Equal(got.Extensions, want.Extensions) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestEveryFlippedBitAndEveryCutIsNoticed(t *testing.T) {
	frame := appendFrame(nil, &raft.Log{Index: 300, Term: 7, Data: []byte("some data"), Extensions: []byte("x")})
	for i := range frame {
		for bit := range 8 {
			bad := bytes.Clone(frame)
			bad[i] ^= 1 << bit
			if err := readFrame(bad, 300, new(raft.Log)); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d bit %d flipped: %v", i, bit, err)
			}
		}
		if err := readFrame(frame[:i], 300, new(raft.Log)); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", i, err)
		}
	}
	if err := readFrame(frame, 301, new(raft.Log)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("under another key: %v", err)
	}
}

func TestAReadEntryOutlivesItsFrame(t *testing.T) {
	frame := appendFrame(nil, &raft.Log{Index: 1, Data: []byte("data"), Extensions: []byte("more")})
	var got raft.Log
	if err := readFrame(frame, 1, &got); err != nil {
		t.Fatal(err)
	}
	clear(frame)
	if string(got.Data) != "data" || string(got.Extensions) != "more" {
		t.Errorf("changed to %q and %q with the mapped bytes", got.Data, got.Extensions)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add(appendFrame(nil, &raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: []byte("a")}), uint64(1))
	f.Add(appendFrame(nil, &raft.Log{Index: 9, Extensions: []byte("b"), AppendedAt: time.Unix(0, -5)}), uint64(9))
	f.Add([]byte{frameFormat}, uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, index uint64) {
		var l raft.Log
		if err := readFrame(b, index, &l); err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v does not say that it is corrupt", err)
			}
			return
		}
		if again := appendFrame(nil, &l); !bytes.Equal(again, b) {
			t.Fatalf("%x was read, %x would be written", b, again)
		}
	})
}
