package lastgood

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
)

// The layout of a file, integers big-endian:
//
//	magic "ANBTABLE" | format u32 | length of cluster id u16 | cluster id | epoch u64 | revision u64
//	| unix ms i64 | length of payload u64 | payload: routerpb.Table | SHA-256 of all before it
//
// History
//
//	2026-11-29  format 1.
const (
	magic  = "ANBTABLE"
	format = 1
	// maxFile bounds what is read: a table of 10,000 endpoints and as many tenants is 4 MB.
	maxFile = 64 << 20
)

var (
	errChecksum = errors.New("checksum does not match")
	errShort    = errors.New("file is cut short")
)

// encode lays out one file.
func encode(t *routerpb.Table, now time.Time) ([]byte, error) {
	ref := t.GetRef()
	if ref == nil {
		return nil, errors.New("the table has no number")
	}
	if len(ref.GetClusterId()) > 255 {
		return nil, errors.New("the cluster id is longer than 255 bytes")
	}
	payload, err := proto.Marshal(t)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(payload)+len(ref.GetClusterId())+128)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, format)
	b = binary.BigEndian.AppendUint16(b, uint16(len(ref.GetClusterId())))
	b = append(b, ref.GetClusterId()...)
	b = binary.BigEndian.AppendUint64(b, ref.GetEpoch())
	b = binary.BigEndian.AppendUint64(b, ref.GetRevision())
	b = binary.BigEndian.AppendUint64(b, uint64(now.UnixMilli()))
	b = binary.BigEndian.AppendUint64(b, uint64(len(payload)))
	b = append(b, payload...)
	sum := sha256.Sum256(b)
	b = append(b, sum[:]...)
	if len(b) > maxFile {
		return nil, fmt.Errorf("the table takes %d bytes, the limit is %d", len(b), maxFile)
	}
	return b, nil
}

func read(path string) (*routerpb.Table, time.Time, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	if info.Size() > maxFile {
		return nil, time.Time{}, fmt.Errorf("file has %d bytes, the limit is %d", info.Size(), maxFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	return decode(data)
}

// decode checks everything: the magic, the format, the lengths, the checksum, and that the header
// speaks of the table that follows.
func decode(data []byte) (*routerpb.Table, time.Time, error) {
	none := time.Time{}
	if !bytes.HasPrefix(data, []byte(magic)) {
		return nil, none, errors.New("not a table file")
	}
	if len(data) < len(magic)+4+2+sha256.Size {
		return nil, none, errShort
	}
	if v := binary.BigEndian.Uint32(data[len(magic):]); v != format {
		return nil, none, fmt.Errorf("format %d, this build reads %d", v, format)
	}
	body, sum := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return nil, none, errChecksum
	}
	rest := body[len(magic)+4:]
	n := int(binary.BigEndian.Uint16(rest))
	rest = rest[2:]
	if len(rest) < n+4*8 {
		return nil, none, errShort
	}
	cluster := string(rest[:n])
	rest = rest[n:]
	epoch := binary.BigEndian.Uint64(rest)
	revision := binary.BigEndian.Uint64(rest[8:])
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(rest[16:])))
	length := binary.BigEndian.Uint64(rest[24:])
	payload := rest[32:]
	if length != uint64(len(payload)) {
		return nil, none, errShort
	}
	t := &routerpb.Table{}
	if err := proto.Unmarshal(payload, t); err != nil {
		return nil, none, fmt.Errorf("decode table: %w", err)
	}
	ref := t.GetRef()
	if ref.GetClusterId() != cluster || ref.GetEpoch() != epoch || ref.GetRevision() != revision {
		return nil, none, errors.New("header and table name different tables")
	}
	return t, at, nil
}
