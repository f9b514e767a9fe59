package boltlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
)

// ErrCorrupt is wrapped by every error about bytes on disk that are not what was written: a torn
// write, a flipped bit, an entry under the wrong key, a hole in the log. Nothing is repaired: a
// node that sees it must not go on, and comes back by joining anew with an empty folder.
var ErrCorrupt = errors.New("log is corrupt")

// A frame is one log entry on disk, integers big-endian:
//
//	format   uint8   1
//	crc      uint32  CRC-32C of everything after it
//	index    uint64  the same as the key
//	term     uint64
//	type     uint8   raft.LogType
//	appended int64   Unix nanoseconds, 0: not known
//	size     uint32  length of data
//	data     size bytes
//	extensions       the rest
const (
	frameFormat = 1
	crcEnd      = 5
	headerSize  = crcEnd + 8 + 8 + 1 + 8 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends the frame of l to b.
func appendFrame(b []byte, l *raft.Log) []byte {
	start := len(b)
	var appended int64
	if !l.AppendedAt.IsZero() {
		appended = l.AppendedAt.UnixNano()
	}
	b = append(b, frameFormat, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, l.Index)
	b = binary.BigEndian.AppendUint64(b, l.Term)
	b = append(b, byte(l.Type))
	b = binary.BigEndian.AppendUint64(b, uint64(appended))
	b = binary.BigEndian.AppendUint32(b, uint32(len(l.Data)))
	b = append(b, l.Data...)
	b = append(b, l.Extensions...)
	binary.BigEndian.PutUint32(b[start+1:], crc32.Checksum(b[start+crcEnd:], castagnoli))
	return b
}

// readFrame fills l from the frame b that was found under index. It copies: b may be unmapped as
// soon as it returns.
func readFrame(b []byte, index uint64, l *raft.Log) error {
	if len(b) < headerSize {
		return fmt.Errorf("entry %d: %d bytes, a frame has at least %d: %w", index, len(b), headerSize, ErrCorrupt)
	}
	if b[0] != frameFormat {
		return fmt.Errorf("entry %d: frame format %d, this version reads %d: %w", index, b[0], frameFormat, ErrCorrupt)
	}
	if want, got := binary.BigEndian.Uint32(b[1:]), crc32.Checksum(b[crcEnd:], castagnoli); want != got {
		return fmt.Errorf("entry %d: checksum %08x, its bytes give %08x: %w", index, want, got, ErrCorrupt)
	}
	f := b[crcEnd:]
	if got := binary.BigEndian.Uint64(f); got != index {
		return fmt.Errorf("entry %d: holds entry %d: %w", index, got, ErrCorrupt)
	}
	size, body := binary.BigEndian.Uint32(f[25:]), f[29:]
	if uint64(size) > uint64(len(body)) {
		return fmt.Errorf("entry %d: says %d bytes of data, has %d: %w", index, size, len(body), ErrCorrupt)
	}
	*l = raft.Log{
		Index:      index,
		Term:       binary.BigEndian.Uint64(f[8:]),
		Type:       raft.LogType(f[16]),
		Data:       clone(body[:size]),
		Extensions: clone(body[size:]),
	}
	if appended := int64(binary.BigEndian.Uint64(f[17:])); appended != 0 {
		l.AppendedAt = time.Unix(0, appended)
	}
	return nil
}

// clone copies b; nothing becomes nil.
func clone(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return append([]byte(nil), b...)
}
