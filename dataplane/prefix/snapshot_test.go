package prefix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cespare/xxhash/v2"
)

// saved is a snapshot of an index with a few prompts at two endpoints, taken a minute after start.
func saved(t testing.TB, entries int) (snapshot []byte, at time.Time) {
	t.Helper()
	x := New(entries, 0, start.Add(-3*time.Hour))
	a, b := x.NewHolder(Name("c", "a")), x.NewHolder(Name("c", "b"))
	x.Confirm(a, chain(1, 30), start.Add(-8*time.Minute))
	x.Confirm(b, chain(1, 10), start)
	x.Confirm(b, chain(2, 30), start.Add(-20*time.Minute)) // too old
	x.Reserve(a, chain(3, 10), start)
	x.Confirm(b, chain(4, 20), start.Add(-5*time.Minute))
	x.Confirm(b, chain(5, 10), start)
	var out bytes.Buffer
	if err := x.Snapshot(&out, start.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), start.Add(time.Minute)
}

func TestHandOver(t *testing.T) {
	for name, sizes := range map[string][2]int{
		"tables of one size": {1 << 12, 1 << 12}, "from a larger table": {1 << 14, 1 << 12},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot, _ := saved(t, sizes[0])
			// The other router began just now, and its clock is an hour ahead.
			now := start.Add(time.Hour)
			x := New(sizes[1], 0, now)
			early := x.NewHolder(Name("c", "a")) // known before the snapshot came
			n, err := x.Load(bytes.NewReader(snapshot), now)
			if err != nil || n != 70 {
				t.Fatalf("%d entries, %v; want 70", n, err)
			}
			late := x.NewHolder(Name("c", "b"))
			tests := []struct {
				name   string
				h      *Holder
				prompt uint64
				after  time.Duration
				want   int
			}{
				{"what was confirmed", early, 1, 0, 30},
				{"as old as it was", early, 1, time.Minute - time.Second, 30},
				{"and no younger", early, 1, time.Minute + time.Second, 0},
				{"at the other endpoint", late, 1, 0, 10},
				{"another prompt there", late, 4, 0, 20},
				{"what a server said", late, 5, 0, 10},
				{"which ages here", late, 5, 9*time.Minute + time.Second, 0},
				{"not what was too old", late, 2, 0, 0},
				{"not what was on its way", early, 3, 0, 0},
				{"not what others have", early, 4, 0, 0},
			}
			for _, tt := range tests {
				t.Run(tt.name, func(t *testing.T) {
					if got := x.Match(tt.h, chain(tt.prompt, 30), now.Add(tt.after)).Blocks; got != tt.want {
						t.Errorf("%d blocks, want %d", got, tt.want)
					}
				})
			}
		})
	}
}

// What a holder lost is not in the entries but in its horizon, which goes with them.
func TestHandOverOfHorizons(t *testing.T) {
	x := New(1<<12, 0, start)
	a, b := x.NewHolder(1), x.NewHolder(2)
	for _, h := range []*Holder{a, b} {
		x.Confirm(h, chain(1, 20), start)
	}
	x.Cleared(a, start.Add(time.Minute))
	x.Cleared(b, start.Add(time.Minute))
	now := start.Add(2 * time.Minute)
	x.Confirm(a, chain(2, 20), now)
	var out bytes.Buffer
	if err := x.Snapshot(&out, now); err != nil {
		t.Fatal(err)
	}
	y := New(1<<12, 0, now)
	early := y.NewHolder(1)
	y.Confirm(early, chain(3, 20), now)
	if _, err := y.Load(&out, now); err != nil {
		t.Fatal(err)
	}
	late := y.NewHolder(2)
	if n, m := y.Match(early, chain(1, 20), now).Blocks, y.Match(late, chain(1, 20), now).Blocks; n != 0 || m != 0 {
		t.Errorf("%d and %d blocks that were cleared before the hand-over", n, m)
	}
	if n, m := y.Match(early, chain(2, 20), now).Blocks, y.Match(early, chain(3, 20), now).Blocks; n != 20 || m != 20 {
		t.Errorf("%d and %d blocks that came since, want 20 of both", n, m)
	}
}

// A snapshot adds to what a router knows itself, and takes nothing away.
func TestLoadKeepsWhatIsNewer(t *testing.T) {
	snapshot, now := saved(t, 1<<12)
	x := New(1<<12, 0, start.Add(-time.Hour))
	a := x.NewHolder(Name("c", "a"))
	x.Confirm(a, chain(1, 30), now)
	x.Reserve(a, chain(9, 5), now)
	n, err := x.Load(bytes.NewReader(snapshot), now)
	if err != nil || n != 40 {
		t.Errorf("%d entries, %v; want the 40 that are not its own", n, err)
	}
	if got := x.Match(a, chain(1, 30), now.Add(9*time.Minute)).Blocks; got != 30 {
		t.Errorf("%d blocks that it had confirmed itself, want 30: they were made older", got)
	}
	if again, err := x.Load(bytes.NewReader(snapshot), now); err != nil || again != 0 {
		t.Errorf("the same again: %d entries, %v", again, err)
	}
}

// A router that believes less long takes less.
func TestLoadTakesNothingThatIsTooOldHere(t *testing.T) {
	snapshot, now := saved(t, 1<<12)
	x := New(1<<12, 2*time.Minute, now)
	if n, err := x.Load(bytes.NewReader(snapshot), now); err != nil || n != 20 {
		t.Errorf("%d entries, %v; want the 20 of the last two minutes", n, err)
	}
}

// A full table does not give up what it knows for what is older.
func TestLoadDisplacesNothingNewer(t *testing.T) {
	snapshot, now := saved(t, 64)
	x := New(64, 0, now)
	h := x.NewHolder(1)
	for i := range 50 {
		x.Confirm(h, chain(uint64(i+100), 20), now)
	}
	var before [8][ways]uint64
	for i := range x.buckets {
		for j := range x.buckets[i] {
			if before[i][j] = x.buckets[i][j].Load(); before[i][j] == 0 {
				t.Fatal("the table is not full")
			}
		}
	}
	if n, err := x.Load(bytes.NewReader(snapshot), now); err != nil || n != 0 {
		t.Errorf("%d entries, %v; want none", n, err)
	}
	for i := range x.buckets {
		for j := range x.buckets[i] {
			if x.buckets[i][j].Load() != before[i][j] {
				t.Fatal("something newer has gone for something older")
			}
		}
	}
}

// Folding a crowded larger table keeps the newest.
func TestFoldingKeepsTheNewest(t *testing.T) {
	x := New(1<<13, 0, start)
	h := x.NewHolder(1)
	for i := range 80 {
		x.Confirm(h, chain(uint64(i), 100), start.Add(time.Duration(i)*time.Second))
	}
	now := start.Add(80 * time.Second)
	var out bytes.Buffer
	if err := x.Snapshot(&out, now); err != nil {
		t.Fatal(err)
	}
	y := New(1<<11, 0, now)
	if _, err := y.Load(&out, now); err != nil {
		t.Fatal(err)
	}
	g := y.NewHolder(1)
	newest, oldest := 0, 0
	for i := range 5 {
		newest += y.Match(g, chain(uint64(79-i), 100), now).Blocks
		oldest += y.Match(g, chain(uint64(i), 100), now).Blocks
	}
	if newest < 450 || oldest > 50 {
		t.Errorf("%d of the 500 newest blocks, %d of the 500 oldest", newest, oldest)
	}
}

func signed(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(bytes.Clone(b), xxhash.Sum64(b))
}

func TestLoadRefuses(t *testing.T) {
	whole, now := saved(t, 1<<10)
	body := whole[:len(whole)-sumBytes]
	change := func(at int, to byte) []byte {
		b := bytes.Clone(body)
		b[at] = to
		return b
	}
	tests := []struct {
		name     string
		snapshot []byte
		want     error
	}{
		{"nothing", nil, ErrFormat},
		{"something else", []byte("<html>404 page not found, and more of it</html>"), ErrFormat},
		{"one cut short", whole[:len(whole)/2], ErrFormat},
		{"one without its end", body, ErrFormat},
		{"one with more behind it", append(bytes.Clone(whole), 0), ErrFormat},
		{"a bit that fell over", append(change(600, body[600]^1), whole[len(body):]...), ErrFormat},
		{"another version", signed(change(4, 2)), ErrVersion},
		{"another tick", signed(change(6, 50)), ErrVersion},
		{"a smaller table", signed(change(5, 3)), ErrSize},
		{"one far too large", signed(change(5, 63)), ErrSize},
		{"another number of buckets", signed(change(5, body[5]+1)), ErrFormat},
		{"more holders than there are", signed(change(8, 200)), ErrFormat},
		{"more holders than there may be", signed(change(11, 200)), ErrFormat},
		{"an entry too many", signed(append(bytes.Clone(body), 1, 2, 3, 4, 5, 6, 7, 8, 9)), ErrFormat},
		{"more than its table can have", make([]byte, 64<<20), ErrFormat},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := New(1<<10, 0, now)
			n, err := x.Load(bytes.NewReader(tt.snapshot), now)
			if !errors.Is(err, tt.want) || n != 0 {
				t.Errorf("%d entries, %v; want %v", n, err, tt.want)
			}
			for i := range x.buckets {
				for j := range x.buckets[i] {
					if x.buckets[i][j].Load() != 0 {
						t.Fatal("a part of it was taken")
					}
				}
			}
		})
	}
	x := New(1<<10, 0, now)
	if _, err := x.Load(iotest.ErrReader(io.ErrUnexpectedEOF), now); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrFormat) {
		t.Errorf("a reader that fails: %v", err)
	}
	if _, err := x.Load(iotest.OneByteReader(bytes.NewReader(whole)), now); err != nil {
		t.Errorf("in small pieces: %v", err)
	}
}

// full takes so many bytes and no more.
type full int

func (f *full) Write(p []byte) (int, error) {
	if len(p) > int(*f) {
		return 0, io.ErrShortWrite
	}
	*f -= full(len(p))
	return len(p), nil
}

func TestSnapshotTellsOfAWriterThatFails(t *testing.T) {
	x := New(1<<12, 0, start)
	var whole bytes.Buffer
	if err := x.Snapshot(&whole, start); err != nil {
		t.Fatal(err)
	}
	for _, room := range []int{0, 100, whole.Len() - 1} {
		w := full(room)
		if err := x.Snapshot(&w, start); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
	}
}

// A snapshot that is taken while requests go on is whole.
func TestSnapshotUnderLoad(t *testing.T) {
	x := New(1<<12, 0, start)
	h := x.NewHolder(1)
	done, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := uint64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
				x.Confirm(h, chain(i%50, 60), start)
				x.Cleared(h, start)
				x.NewHolder(i % 100)
			}
		}
	}()
	for range 20 {
		var out bytes.Buffer
		if err := x.Snapshot(&out, start); err != nil {
			t.Fatal(err)
		}
		if _, err := New(1<<12, 0, start).Load(&out, start); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-done
}

// Whatever is loaded: no panic, and either an error and nothing taken, or a snapshot of it that loads
// as well.
func FuzzLoad(f *testing.F) {
	small, _ := saved(f, 64)
	f.Add(small[:len(small)-sumBytes], true)
	f.Add(small, false)
	f.Add([]byte("ABPI\x01\x03\x64\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), true)
	f.Add([]byte("ABPI\x01\x03\x64\x00\x01\x00\x00\x00abcdefghijkl\x01tag4age4\x00\x00\x00\x00\x00\x00\x00"), true)
	f.Fuzz(func(t *testing.T, b []byte, sign bool) {
		if sign { // or hardly any would get past the sum
			b = signed(b)
		}
		x := New(64, 0, start)
		n, err := x.Load(bytes.NewReader(b), start)
		if err != nil {
			if n != 0 {
				t.Fatalf("%d entries of a snapshot that is wrong: %v", n, err)
			}
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrSize) {
				t.Fatal(err)
			}
			return
		}
		var out bytes.Buffer
		if err := x.Snapshot(&out, start); err != nil {
			t.Fatal(err)
		}
		if _, err := New(64, 0, start).Load(&out, start); err != nil {
			t.Fatalf("its own snapshot: %v", err)
		}
	})
}

func BenchmarkSnapshot(b *testing.B) {
	x := crowded(100)
	var out bytes.Buffer
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			out.Reset()
			if err := x.Snapshot(&out, start); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(out.Len()))
	})
	b.Run("load", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := New(0, 0, start).Load(bytes.NewReader(out.Bytes()), start); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(out.Len()))
	})
}
