package inference

import (
	"bytes"
	"compress/gzip"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

func zipped(t testing.TB, texts ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, text := range texts {
		w := gzip.NewWriter(&b)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestInflate(t *testing.T) {
	long := words("w", 100_000)
	tests := []struct {
		name, encoding string
		body           []byte
		limit          int
		want           string
		err            error
	}{
		{"no encoding", "", []byte("abc"), 3, "abc", nil},
		{"identity", "Identity", []byte("abc"), 3, "abc", nil},
		{"gzip", "gzip", zipped(t, "abc"), 100, "abc", nil},
		{"gzip of old", "x-gzip", zipped(t, "abc"), 100, "abc", nil},
		{"in capitals, with blanks", " GZIP ", zipped(t, "abc"), 100, "abc", nil},
		{"nothing compressed", "gzip", zipped(t, ""), 100, "", nil},
		{"a long one", "gzip", zipped(t, long), len(long), long, nil},
		{"several members", "gzip", zipped(t, "ab", "", "c"), 3, "abc", nil},
		{"of just the limit", "gzip", zipped(t, strings.Repeat("a", 1000)), 1000, strings.Repeat("a", 1000), nil},
		{"above the limit by one", "gzip", zipped(t, strings.Repeat("a", 1001)), 1000, "", ErrTooLarge},
		{"above the limit with its second member", "gzip", zipped(t, "abc", "d"), 3, "", ErrTooLarge},
		{"plain and above the limit", "", []byte("abcd"), 3, "", ErrTooLarge},
		{"a bomb", "gzip", zipped(t, strings.Repeat("\x00", 8<<20)), 1 << 20, "", ErrTooLarge},
		{"not gzip", "gzip", []byte(`{"model":"m"}`), 100, "", ErrCorrupt},
		{"nothing at all", "gzip", nil, 100, "", ErrCorrupt},
		{"rubbish after the member", "gzip", append(zipped(t, "abc"), "rubbish of no use"...), 100, "", ErrCorrupt},
		{"another encoding", "br", []byte("abc"), 100, "", ErrEncoding},
		{"two encodings", "gzip, gzip", zipped(t, "abc"), 100, "", ErrEncoding},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Inflate(tt.encoding, tt.body, tt.limit)
			if !errors.Is(err, tt.err) || string(got) != tt.want {
				t.Errorf("%d bytes, %v; want %d, %v", len(got), err, len(tt.want), tt.err)
			}
		})
	}
}

func TestInflateFindsEveryCutAndFlip(t *testing.T) {
	text := words("x", 3000)
	whole := zipped(t, text)
	for n := range whole {
		if got, err := Inflate("gzip", whole[:n], 1<<20); !errors.Is(err, ErrCorrupt) || got != nil {
			t.Fatalf("cut after %d bytes: %d bytes, %v", n, len(got), err)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		bad := bytes.Clone(whole)
		bad[10+rnd.IntN(len(bad)-10)] ^= 1 << rnd.IntN(8) // behind the header, of which some is free
		if got, err := Inflate("gzip", bad, 1<<20); err == nil && string(got) != text {
			t.Fatal("a body that isn't what it was is taken")
		}
	}
}

// A bomb must not take up more than the limit, whatever it says of its size.
func TestInflateMakesRoomForNoMoreThanTheLimit(t *testing.T) {
	for _, size := range []uint32{0, 1 << 10, 1<<32 - 1} {
		body := append(bytes.Repeat([]byte{7}, 1<<20), byte(size), byte(size>>8), byte(size>>16), byte(size>>24))
		if got := sizeHint(body, 5000); got > 5000+bytes.MinRead {
			t.Errorf("%d bytes for a body that says %d", got, size)
		}
	}
	if got := sizeHint(append(make([]byte, 20), 0xff, 0xff, 0xff, 0xff), 1<<30); got > 24*maxRatio+bytes.MinRead {
		t.Errorf("%d bytes for 24 that say 4 GiB", got)
	}
}

// FuzzInflate compares with reading on and on, and with what was compressed.
func FuzzInflate(f *testing.F) {
	f.Add(zipped(f, "abc"), uint16(100))
	f.Add(zipped(f, "abc", "def"), uint16(5))
	f.Add([]byte("{}"), uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, limit uint16) {
		got, err := Inflate("gzip", b, int(limit))
		if len(got) > int(limit) || err != nil && got != nil {
			t.Fatalf("%d bytes, %v with a limit of %d", len(got), err, limit)
		}
		if err != nil && !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("an error of no name: %v", err)
		}
		if _, fault := gzip.NewReader(bytes.NewReader(b)); fault != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%v, but gzip says %v", err, fault)
		}
		back, err := Inflate("gzip", zipped(t, string(b)), len(b))
		if err != nil || !bytes.Equal(back, b) {
			t.Fatalf("compressed and back: %d bytes of %d, %v", len(back), len(b), err)
		}
		if len(b) > 0 {
			if _, err := Inflate("gzip", zipped(t, string(b)), len(b)-1); !errors.Is(err, ErrTooLarge) {
				t.Fatalf("one above the limit: %v", err)
			}
		}
	})
}

func BenchmarkInflate(b *testing.B) {
	text := words("w", 100<<10)
	body := zipped(b, text)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Inflate("gzip", body, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}
