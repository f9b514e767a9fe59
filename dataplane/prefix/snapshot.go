package prefix

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"

	"github.com/cespare/xxhash/v2"
)

// A snapshot, all numbers little-endian:
//
//	magic "ABPI", version 1 (1 byte), log2 of the number of buckets (1), tick in ms (2)
//	number of holders (4), then for each its name (8) and how long ago its horizon is, in ticks (4)
//	for each bucket a byte with a bit for each entry that follows: its tag (4), its age in ticks (4)
//	xxHash64 of all before (8)
//
// Ages, not stamps, since clocks and beginnings differ. Reservations aren't in it: what is on its way
// from one router is confirmed to that one.
const (
	magic       = "ABPI"
	version     = 1
	headBytes   = 12
	holderBytes = 12
	entryBytes  = 8
	sumBytes    = 8
	// maxHolders of a snapshot, more than any region has.
	maxHolders = 1 << 16
	// larger is how much larger than the reader's the table of a snapshot may be, in powers of two.
	larger = 2
)

// Errors of [Index.Load].
var (
	ErrFormat  = errors.New("not a snapshot of prefixes, or a damaged one")
	ErrVersion = errors.New("snapshot of another version")
	ErrSize    = errors.New("snapshot of a table whose size does not fit this one")
)

// Snapshot writes what is confirmed, for another router of the region: about as many bytes
// as the table has. Entries that change meanwhile are in it as before or after.
func (x *Index) Snapshot(w io.Writer, now time.Time) error {
	var sum xxhash.Digest
	sum.Reset()
	out := bufio.NewWriterSize(io.MultiWriter(w, &sum), 1<<16)
	stamp := x.stamp(now)
	_, _ = out.Write(x.head(stamp)) // a bufio.Writer keeps its error
	var buf [1 + ways*entryBytes]byte
	for i := range x.buckets {
		b := buf[:1]
		b[0] = 0
		for j := range x.buckets[i] {
			e := x.buckets[i][j].Load()
			at := entry(e).stamp()
			if entry(e) == 0 || entry(e).kind() == reserved || stamp-min(at, stamp) > x.age {
				continue
			}
			b[0] |= 1 << j
			b = binary.LittleEndian.AppendUint32(b, uint32(e>>32))
			b = binary.LittleEndian.AppendUint32(b, stamp-min(at, stamp))
		}
		_, _ = out.Write(b)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write snapshot of prefixes: %w", err)
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, sum.Sum64())); err != nil {
		return fmt.Errorf("write snapshot of prefixes: %w", err)
	}
	return nil
}

// head is the beginning of a snapshot, up to the buckets.
func (x *Index) head(stamp uint32) []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	b := append([]byte(magic), version, byte(bits.Len(uint(len(x.buckets)))-1))
	b = binary.LittleEndian.AppendUint16(b, uint16(tick/time.Millisecond))
	counted := len(b)
	b = binary.LittleEndian.AppendUint32(b, 0)
	n := uint32(0)
	for name, p := range x.holders {
		h := p.Value()
		if h == nil || h.horizon.Load() == 0 || n == maxHolders {
			continue
		}
		n++
		b = binary.LittleEndian.AppendUint64(b, name)
		b = binary.LittleEndian.AppendUint32(b, stamp-min(h.horizon.Load(), stamp))
	}
	binary.LittleEndian.PutUint32(b[counted:], n)
	return b
}

// Load takes in a snapshot, beside what the index knows already, and says how many entries it took.
// It reads to the snapshot's end, at most as much as one of a table four times as large has, and
// changes nothing unless all of it is right. A larger table is folded into this one; the
// places of a smaller one don't tell enough. The error is one of the reader, or wraps [ErrFormat],
// [ErrVersion] or [ErrSize].
func (x *Index) Load(r io.Reader, now time.Time) (int, error) {
	limit := headBytes + maxHolders*holderBytes + len(x.buckets)<<larger*(1+ways*entryBytes) + sumBytes
	b, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return 0, fmt.Errorf("read snapshot of prefixes: %w", err)
	}
	s, err := parse(b, bits.Len(uint(len(x.buckets)))-1)
	if err != nil {
		return 0, fmt.Errorf("read snapshot of prefixes: %w", err)
	}
	stamp := x.stamp(now)
	x.hand(s.holders, stamp)
	taken := 0
	for i := range s.buckets {
		var occupied byte
		occupied, s.entries = s.entries[0], s.entries[1:]
		bucket := &x.buckets[i&(len(x.buckets)-1)]
		for ; occupied != 0; occupied &= occupied - 1 {
			tag, age := binary.LittleEndian.Uint32(s.entries), binary.LittleEndian.Uint32(s.entries[4:])
			s.entries = s.entries[entryBytes:]
			if age <= x.age && update(bucket, uint64(tag), older(stamp-age)) {
				taken++
			}
		}
	}
	return taken, nil
}

// older makes an entry of a snapshot that is put where there is none, or an older one.
func older(at uint32) func(entry) entry {
	return func(old entry) entry {
		if old != 0 && old.kind() != reserved && old.stamp() >= at {
			return old
		}
		return stamped(at, confirmed)
	}
}

// hand raises the horizons of holders, now or when they are made.
func (x *Index) hand(holders []byte, stamp uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.handed = make(map[uint64]uint32, len(holders)/holderBytes)
	for ; len(holders) > 0; holders = holders[holderBytes:] {
		name, age := binary.LittleEndian.Uint64(holders), binary.LittleEndian.Uint32(holders[8:])
		horizon := stamp - min(age, stamp-1)
		x.handed[name] = horizon
		if p, ok := x.holders[name]; ok {
			if h := p.Value(); h != nil {
				h.raise(horizon)
			}
		}
	}
}

// snapshot is one that has been checked.
type snapshot struct {
	holders []byte // whole records
	entries []byte // buckets, each whole
	buckets int
}

// parse checks all of a snapshot, for a table of 2^size buckets.
func parse(b []byte, size int) (s snapshot, err error) {
	if len(b) < headBytes+sumBytes || string(b[:4]) != magic {
		return s, ErrFormat
	}
	if b[4] != version || binary.LittleEndian.Uint16(b[6:]) != uint16(tick/time.Millisecond) {
		return s, ErrVersion
	}
	theirs := int(b[5])
	if theirs < size || theirs > size+larger {
		return s, ErrSize
	}
	body, sum := b[:len(b)-sumBytes], binary.LittleEndian.Uint64(b[len(b)-sumBytes:])
	holders := binary.LittleEndian.Uint32(b[8:])
	if xxhash.Sum64(body) != sum || holders > maxHolders || len(body) < headBytes+int(holders)*holderBytes {
		return s, ErrFormat
	}
	s.holders, s.entries = body[headBytes:][:holders*holderBytes], body[headBytes:][holders*holderBytes:]
	s.buckets = 1 << theirs
	rest := s.entries
	for range s.buckets {
		if len(rest) == 0 {
			return s, ErrFormat
		}
		n := 1 + bits.OnesCount8(rest[0])*entryBytes
		if len(rest) < n {
			return s, ErrFormat
		}
		rest = rest[n:]
	}
	if len(rest) > 0 {
		return s, ErrFormat
	}
	return s, nil
}
