// Package backup keeps copies of the control plane's state: what an archive looks like, how one is
// written and proved good, and taking them at regular times. How a state gets into a data folder
// again is for package store.
package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/state"
)

// An archive is: the magic, the format as 4 bytes, the length of the meta data as 4 bytes
// (big-endian), the meta data as JSON, a snapshot of package state, and the SHA-256 of all before.
const (
	magic = "ANABBACK"
	// Format is the newest format of archives that this build reads, and the one that it writes.
	// Changes: 1, 2026-11-30: first.
	Format  = 1
	maxMeta = 64 << 10
)

// ErrDamaged is wrapped when an archive is cut, altered, or contradicts itself.
var ErrDamaged = errors.New("the archive is damaged")

// Origin says who took an archive, and when.
type Origin struct {
	At time.Time `json:"takenAt"`
	// Node that it was taken from, and the version of its build; either may be empty.
	Node    fleet.NodeID `json:"node"`
	Version string       `json:"version"`
}

// Meta is what an archive says of itself.
type Meta struct {
	Format    uint32 `json:"format"`
	ClusterID string `json:"clusterId"`
	Epoch     uint64 `json:"epoch"`
	// Revision is the index of the last command that is in the state.
	Revision uint64 `json:"revision"`
	// StateSHA256 is the hash of the snapshot in the archive, in hexadecimal. It is of the bytes, so that
	// builds which would write the same state otherwise still read it.
	StateSHA256 string `json:"stateSha256"`
	Origin
}

// describe is the meta data of a view.
func describe(v *state.View, o Origin) (Meta, error) {
	h := sha256.New()
	if err := state.Encode(v, h); err != nil {
		return Meta{}, err
	}
	o.At = o.At.UTC().Truncate(time.Millisecond)
	return Meta{
		Format: Format, ClusterID: v.ClusterID(), Epoch: v.Epoch(), Revision: v.Index(),
		StateSHA256: hex.EncodeToString(h.Sum(nil)), Origin: o,
	}, nil
}

// Write writes an archive of v. A state that has not been initialised is refused: there is nothing
// in it.
func Write(w io.Writer, v *state.View, o Origin) (Meta, error) {
	if v.ClusterID() == "" {
		return Meta{}, errors.New("write archive: the cluster has not been initialised, there is nothing to keep")
	}
	m, err := describe(v, o)
	if err != nil {
		return Meta{}, fmt.Errorf("write archive: %w", err)
	}
	text, err := json.Marshal(m)
	if err != nil {
		return Meta{}, fmt.Errorf("write archive: %w", err)
	}
	head := append([]byte(magic), make([]byte, 0, 8+len(text))...)
	head = binary.BigEndian.AppendUint32(head, Format)
	head = binary.BigEndian.AppendUint32(head, uint32(len(text))) // far below 4 GiB
	head = append(head, text...)
	h := sha256.New()
	both := io.MultiWriter(w, h)
	if _, err := both.Write(head); err != nil {
		return Meta{}, fmt.Errorf("write archive: %w", err)
	}
	if err := state.Encode(v, both); err != nil {
		return Meta{}, fmt.Errorf("write archive: %w", err)
	}
	if _, err := w.Write(h.Sum(nil)); err != nil {
		return Meta{}, fmt.Errorf("write archive: %w", err)
	}
	return m, nil
}

// Read reads an archive to its end and loads its state, which proves that it is good: the checksum
// is right, the state can be decoded, and it is the one that the meta data speaks of. Errors wrap
// [ErrDamaged], or say that the archive is of a newer build, or are of r.
func Read(r io.Reader) (Meta, *state.View, error) {
	h := sha256.New()
	hashed := io.TeeReader(r, h)
	m, err := readMeta(hashed)
	if err != nil {
		return Meta{}, nil, fmt.Errorf("read archive: %w", err)
	}
	inner := sha256.New()
	v, err := state.Decode(io.TeeReader(hashed, inner))
	if err != nil {
		return m, nil, fmt.Errorf("read archive: %w: %w", ErrDamaged, err)
	}
	want := make([]byte, sha256.Size)
	if _, err := io.ReadFull(r, want); err != nil {
		return m, nil, fmt.Errorf("read archive: %w: no checksum at its end: %w", ErrDamaged, err)
	}
	if !bytes.Equal(h.Sum(nil), want) {
		return m, nil, fmt.Errorf("read archive: %w: the checksum does not match", ErrDamaged)
	}
	if n, err := r.Read(want[:1]); n > 0 || err != nil && !errors.Is(err, io.EOF) {
		return m, nil, fmt.Errorf("read archive: %w: there is something after its end", errors.Join(ErrDamaged, err))
	}
	if v.ClusterID() != m.ClusterID || v.Epoch() != m.Epoch || v.Index() != m.Revision {
		return m, nil, fmt.Errorf("read archive: %w: it holds revision %d of cluster %s, epoch %d, and claims revision %d of %s, epoch %d",
			ErrDamaged, v.Index(), v.ClusterID(), v.Epoch(), m.Revision, m.ClusterID, m.Epoch)
	}
	if hex.EncodeToString(inner.Sum(nil)) != m.StateSHA256 {
		return m, nil, fmt.Errorf("read archive: %w: the state is not the one that it claims to hold", ErrDamaged)
	}
	return m, v, nil
}

func readMeta(r io.Reader) (Meta, error) {
	head := make([]byte, len(magic)+8)
	if _, err := io.ReadFull(r, head); err != nil {
		return Meta{}, fmt.Errorf("%w: it has no header: %w", ErrDamaged, err)
	}
	format, size := binary.BigEndian.Uint32(head[len(magic):]), binary.BigEndian.Uint32(head[len(magic)+4:])
	switch {
	case string(head[:len(magic)]) != magic:
		return Meta{}, fmt.Errorf("%w: this is no archive of the control plane", ErrDamaged)
	case format != Format:
		return Meta{}, fmt.Errorf("format %d is not known to this build, which reads %d", format, Format)
	case size > maxMeta:
		return Meta{}, fmt.Errorf("%w: meta data of %d bytes, the limit is %d", ErrDamaged, size, maxMeta)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return Meta{}, fmt.Errorf("%w: meta data: %w", ErrDamaged, err)
	}
	var m Meta
	if err := json.Unmarshal(text, &m); err != nil {
		return Meta{}, fmt.Errorf("%w: meta data: %w", ErrDamaged, err)
	}
	return m, nil
}
