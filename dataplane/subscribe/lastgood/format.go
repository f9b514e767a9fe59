package lastgood

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
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
	// maxClusterID bounds the id of a control plane cluster in bytes.
	maxClusterID = 255
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
	if len(ref.GetClusterId()) > maxClusterID {
		return nil, fmt.Errorf("the cluster id is longer than %d bytes", maxClusterID)
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

// readRef reads which table a file holds, from its beginning. The file may be damaged behind it.
func readRef(path string) (table.Ref, error) {
	f, err := os.Open(path)
	if err != nil {
		return table.Ref{}, err
	}
	defer f.Close()
	head := make([]byte, len(magic)+4+2+maxClusterID+8+8)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return table.Ref{}, err
	}
	ref, _, err := header(head[:n])
	return ref, err
}

// header reads the beginning of a file, and returns what follows it.
func header(data []byte) (ref table.Ref, rest []byte, err error) {
	if !bytes.HasPrefix(data, []byte(magic)) {
		return ref, nil, errors.New("not a table file")
	}
	rest = data[len(magic):]
	if len(rest) < 4+2 {
		return ref, nil, errShort
	}
	if v := binary.BigEndian.Uint32(rest); v != format {
		return ref, nil, fmt.Errorf("format %d, this build reads %d", v, format)
	}
	n := int(binary.BigEndian.Uint16(rest[4:]))
	rest = rest[6:]
	if n > maxClusterID || len(rest) < n+8+8 {
		return ref, nil, errShort
	}
	ref.ClusterID = string(rest[:n])
	ref.Epoch = binary.BigEndian.Uint64(rest[n:])
	ref.Revision = binary.BigEndian.Uint64(rest[n+8:])
	return ref, rest[n+16:], nil
}

// decode checks everything: the magic, the format, the lengths, the checksum, and that the header
// speaks of the table that follows.
func decode(data []byte) (*routerpb.Table, time.Time, error) {
	none := time.Time{}
	ref, rest, err := header(data)
	if err != nil {
		return nil, none, err
	}
	if len(rest) < 2*8+sha256.Size {
		return nil, none, errShort
	}
	body, sum := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return nil, none, errChecksum
	}
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(rest)))
	payload := rest[16 : len(rest)-sha256.Size]
	if binary.BigEndian.Uint64(rest[8:]) != uint64(len(payload)) {
		return nil, none, errShort
	}
	t := &routerpb.Table{}
	if err := proto.Unmarshal(payload, t); err != nil {
		return nil, none, fmt.Errorf("decode table: %w", err)
	}
	if table.RefOf(t.GetRef()) != ref {
		return nil, none, errors.New("header and table name different tables")
	}
	return t, at, nil
}
