package kvevents

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"
)

// Payloads in the forms that engines have had, packed by another library than ours.
func TestReadsWhatEnginesWrite(t *testing.T) {
	bytesFrom := func(from int) uint64 {
		b := make([]byte, 32)
		for i := range b {
			b[i] = byte(from + i)
		}
		return xxhash.Sum64(b)
	}
	h, g := bytesFrom(0), bytesFrom(100)
	tests := []struct {
		file    string
		want    []Event
		unknown int
	}{
		{"vllm-0.9.bin", []Event{
			{Kind: Stored, Hashes: []uint64{1, math.MaxUint64, 3}, BlockSize: 16},
			{Kind: Stored, Hashes: []uint64{4}, Parent: 3, HasParent: true, BlockSize: 16},
			{Kind: Removed, Hashes: []uint64{9, 10}},
			{Kind: Cleared, Hashes: []uint64{}},
		}, 0},
		{"sglang.bin", []Event{
			{Kind: Stored, Hashes: []uint64{0xaaaaaaaaaaaaaaaa}, BlockSize: 4},
			{Kind: Stored, Hashes: []uint64{77}, Parent: 0xaaaaaaaaaaaaaaaa, HasParent: true, BlockSize: 4},
			{Kind: Removed, Hashes: []uint64{77}, Elsewhere: true},
		}, 0},
		{"vllm-0.11.bin", []Event{
			{Kind: Stored, Hashes: []uint64{h, g}, BlockSize: 16},
			{Kind: Stored, Hashes: []uint64{g}, Parent: h, HasParent: true, BlockSize: 16, Elsewhere: true},
			{Kind: Removed, Hashes: []uint64{h}},
		}, 0},
		{"vllm-map.bin", []Event{
			{Kind: Stored, Hashes: []uint64{h}, Parent: g, HasParent: true, BlockSize: 16},
			{Kind: Removed, Hashes: []uint64{g}, Elsewhere: true},
			{Kind: Cleared, Hashes: []uint64{}},
		}, 1},
	}
	var b Batch
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			payload, err := os.ReadFile(filepath.Join("testdata", tt.file))
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Read(payload); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(b.Events, tt.want) || b.Unknown != tt.unknown {
				t.Errorf("read  %+v and %d unknown\nwant %+v and %d", b.Events, b.Unknown, tt.want, tt.unknown)
			}
			for n := range payload {
				if err := b.Read(payload[:n]); !errors.Is(err, ErrBatch) {
					t.Fatalf("cut after %d bytes: %v", n, err)
				}
			}
		})
	}
}

// pack encodes plain values, in the widest forms rather than the shortest.
func pack(to []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(to, 0xc0)
	case bool:
		return append(to, map[bool]byte{false: 0xc2, true: 0xc3}[v])
	case int:
		return binary.BigEndian.AppendUint64(append(to, 0xd3), uint64(v))
	case float64:
		return appendFloat(to, v)
	case float32:
		return binary.BigEndian.AppendUint32(append(to, 0xca), math.Float32bits(v))
	case string:
		return append(binary.BigEndian.AppendUint32(append(to, 0xdb), uint32(len(v))), v...)
	case []byte:
		return append(binary.BigEndian.AppendUint16(append(to, 0xc5), uint16(len(v))), v...)
	case []any:
		to = binary.BigEndian.AppendUint32(append(to, 0xdd), uint32(len(v)))
		for _, x := range v {
			to = pack(to, x)
		}
		return to
	case map[string]any:
		to = binary.BigEndian.AppendUint32(append(to, 0xdf), uint32(len(v)))
		for k, x := range v {
			to = pack(pack(to, k), x)
		}
		return to
	case raw:
		return append(to, v...)
	}
	panic("not packed")
}

// raw is a value as it is encoded.
type raw []byte

type list = []any

func TestReadToleratesAndRefuses(t *testing.T) {
	removed := func(h ...any) []any { return list{"BlockRemoved", append(list{}, h...)} }
	deep := any(1)
	for range 1000 {
		deep = list{deep}
	}
	tests := []struct {
		name    string
		payload any
		events  int // -1: refused
		unknown int
	}{
		{"nothing happened", list{1.5, list{}}, 0, 0},
		{"a whole number of seconds", list{1, list{}}, 0, 0},
		{"a short float", list{float32(1), list{}}, 0, 0},
		{"more fields of the batch", list{1.5, list{removed(1)}, 0, deep, map[string]any{"x": 1}}, 1, 0},
		{"more fields of an event", list{1.5, list{append(removed(1), nil, 0, deep)}}, 1, 0},
		{"fewer fields of an event", list{1.5, list{list{"BlockStored", list{1}}}}, 1, 0},
		{"an event of a new kind", list{1.5, list{list{"BlockMoved", 1, deep}, removed(1)}}, 1, 1},
		{"an event whose tag is a number", list{1.5, list{list{1, 2, 3}}}, 0, 1},
		{"an event whose tag is a list", list{1.5, list{list{list{1, 2}, 3}, removed(1)}}, 1, 1},
		{"a map without a tag", list{1.5, list{map[string]any{"block_hashes": list{1}}}}, 0, 1},
		{"a medium that is no string", list{1.5, list{list{"BlockRemoved", list{1}, list{"CPU"}}}}, 1, 0},
		{"values of all kinds passed over", list{1.5, list{list{
			"AllBlocksCleared", true, false, nil, []byte("x"),
			raw{0xd4, 1, 2},
			raw{0xd8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
			raw{0xc7, 2, 9, 1, 1},
			raw{0xcc, 200},
			raw{0xcd, 1, 0},
			raw{0xce, 1, 0, 0, 0},
			raw{0xd0, 0xff},
			raw{0xd1, 0xff, 0},
			raw{0xd2, 0xff, 0, 0, 0},
			raw{0xe0},
			raw{0xa1, 'x'},
			raw{0xd9, 1, 'x'},
			raw{0xda, 0, 1, 'x'},
			raw{0xc4, 1, 0},
			raw{0xdc, 0, 1, 0},
			raw{0xde, 0, 1, 0, 0},
			raw{0x81, 0, 0},
		}}}, 1, 0},

		{"no batch", 7, -1, 0},
		{"a batch that is a map", map[string]any{"events": list{}}, -1, 0},
		{"no events", list{1.5}, -1, 0},
		{"a time that is a string", list{"now", list{}}, -1, 0},
		{"events that are no list", list{1.5, 2}, -1, 0},
		{"an event that is a number", list{1.5, list{1}}, -1, 0},
		{"an empty event", list{1.5, list{list{}}}, -1, 0},
		{"hashes that are no list", list{1.5, list{list{"BlockRemoved", 1}}}, -1, 0},
		{"a hash that is a list", list{1.5, list{removed(list{1})}}, -1, 0},
		{"a hash of no bytes", list{1.5, list{removed("")}}, -1, 0},
		{"a hash that is a float", list{1.5, list{removed(1.5)}}, -1, 0},
		{"a parent that is true", list{1.5, list{list{"BlockStored", list{1}, true}}}, -1, 0},
		{"a field whose name is a number", list{1.5, list{raw{0x81, 1, 1}}}, -1, 0},
		{"a tag in a map that is a number", list{1.5, list{map[string]any{"type": 1}}}, -1, 0},
		{"a byte that means nothing", list{1.5, list{}, raw{0xc1}}, -1, 0},
		{"two batches", raw{0x92, 0, 0x90, 0x92, 0, 0x90}, -1, 0},
		{"a list that says it is longer than all there is", raw{0x92, 0, 0xdd, 0xff, 0xff, 0xff, 0xff}, -1, 0},
		{"a map of that kind", raw{0x93, 0, 0x90, 0xdf, 0x80, 0, 0, 1, 0, 0}, -1, 0},
		{"a string of that kind", raw{0x93, 0, 0x90, 0xdb, 0xff, 0xff, 0xff, 0xff}, -1, 0},
		{"too many events", list{1.5, slices.Repeat(list{removed()}, maxEvents+1)}, -1, 0},
		{"too many hashes", list{1.5, slices.Repeat(list{removed(slices.Repeat(list{1}, 1<<10)...)}, maxHashes>>10+1)}, -1, 0},
	}
	var b Batch
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := b.Read(pack(nil, tt.payload))
			switch {
			case tt.events < 0 && !errors.Is(err, ErrBatch):
				t.Errorf("%v; %+v", err, b.Events)
			case tt.events >= 0 && (err != nil || len(b.Events) != tt.events || b.Unknown != tt.unknown):
				t.Errorf("%v; %+v and %d unknown, want %d and %d", err, b.Events, b.Unknown, tt.events, tt.unknown)
			}
		})
	}
}

func events(t *rapid.T) []Event {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Event {
		e := Event{Kind: rapid.SampledFrom([]Kind{Stored, Removed, Cleared}).Draw(t, "kind")}
		if e.Kind != Cleared {
			e.Hashes = rapid.SliceOfN(rapid.Uint64(), 0, 40).Draw(t, "hashes")
			e.Elsewhere = rapid.Bool().Draw(t, "elsewhere")
		}
		if e.Kind == Stored {
			e.BlockSize = rapid.IntRange(1, 1<<20).Draw(t, "size")
			e.Tokens = rapid.SliceOfN(rapid.Uint32(), 0, 40).Draw(t, "tokens")
			if e.HasParent = rapid.Bool().Draw(t, "behind"); e.HasParent {
				e.Parent = rapid.Uint64().Draw(t, "parent")
			}
		}
		return e
	}), 0, 20).Draw(t, "events")
}

func TestReadUndoesAppend(t *testing.T) {
	var b Batch
	rapid.Check(t, func(t *rapid.T) {
		want := events(t)
		if err := b.Read(Append(nil, 1_764_400_000.5, want)); err != nil {
			t.Fatal(err)
		}
		if len(b.Events) != len(want) {
			t.Fatalf("%d events became %d", len(want), len(b.Events))
		}
		for i, e := range b.Events {
			w := want[i]
			w.Tokens = nil // nobody reads them
			if len(w.Hashes) == 0 {
				w.Hashes, e.Hashes = nil, nil
			}
			if !reflect.DeepEqual(e, w) {
				t.Fatalf("%+v became %+v", w, e)
			}
		}
	})
}

// Whatever comes, a batch is refused or small, and what was read says the same when written.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.bin")
	if err != nil || len(files) < 4 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0x92, 0, 0x91, 0x92, 0xac, 'B', 'l', 'o', 'c', 'k', 'R', 'e', 'm', 'o', 'v', 'e', 'd', 0x92, 1, 0xc4, 1, 7})
	f.Fuzz(func(t *testing.T, payload []byte) {
		var b, again Batch
		if err := b.Read(payload); err != nil {
			if !errors.Is(err, ErrBatch) {
				t.Fatal(err)
			}
			return
		}
		if len(b.hashes)+len(b.Events) > len(payload) {
			t.Fatalf("%d bytes made %d events with %d hashes", len(payload), len(b.Events), len(b.hashes))
		}
		if err := again.Read(Append(nil, 1, b.Events)); err != nil || len(again.Events) != len(b.Events) {
			t.Fatalf("%+v became %+v, %v", b.Events, again.Events, err)
		}
		for i := range b.Events {
			x, y := &b.Events[i], &again.Events[i]
			// A removal has no parent, and so on: only what its kind has is written.
			if x.Kind != y.Kind || x.Kind != Cleared && (!slices.Equal(x.Hashes, y.Hashes) || x.Elsewhere != y.Elsewhere) ||
				x.Kind == Stored && (x.HasParent != y.HasParent || x.Parent != y.Parent || x.BlockSize != y.BlockSize) {
				t.Fatalf("%+v became %+v", *x, *y)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	// A step of 2,048 new tokens, and as many dropped.
	hashes := make([]uint64, 128)
	for i := range hashes {
		hashes[i] = xxhash.Sum64([]byte{byte(i)})
	}
	payload := Append(nil, 1, []Event{{Kind: Removed, Hashes: hashes}, {Kind: Stored, Hashes: hashes, BlockSize: 16, Tokens: make([]uint32, 2048)}})
	var batch Batch
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		if err := batch.Read(payload); err != nil {
			b.Fatal(err)
		}
	}
}
