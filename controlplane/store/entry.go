package store

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state/statepb"
)

const (
	// packAbove is the size in bytes from which on a command is compressed in the log. Routing tables
	// of large fleets are megabytes that say much the same again and again, and shrink to a fiftieth.
	packAbove = 64 << 10
	// maxPlain bounds a command before compression.
	maxPlain = 32 << 20
)

// gzipMagic begins a compressed command (RFC 1952, section 2.3.1). No message begins so: it would be
// a field of a wire type that there is not.
var gzipMagic = []byte{0x1f, 0x8b}

// pack is a command as it stands in the log.
func pack(cmd *statepb.Command) ([]byte, error) {
	data, plain, err := squeeze(cmd)
	if err != nil {
		return nil, err
	}
	if len(data) > MaxEntryBytes {
		return nil, fmt.Errorf("command of %d bytes, %d compressed, the limit is %d: %w", plain, len(data), MaxEntryBytes, ErrTooLarge)
	}
	return data, nil
}

// EntryBytes is the size of a command in the log, which may be above [MaxEntryBytes].
func EntryBytes(cmd *statepb.Command) (int, error) {
	data, _, err := squeeze(cmd)
	return len(data), err
}

// squeeze encodes a command and compresses it if it is large, and tells its size before that.
func squeeze(cmd *statepb.Command) (data []byte, plain int, err error) {
	data, err = proto.MarshalOptions{Deterministic: true}.Marshal(cmd)
	if err != nil {
		return nil, 0, fmt.Errorf("encode command: %w", err)
	}
	plain = len(data)
	if plain > packAbove && plain <= maxPlain {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := w.Write(data)
		if err := errors.Join(err, w.Close()); err != nil {
			return nil, 0, fmt.Errorf("compress command: %w", err)
		}
		data = packed.Bytes()
	}
	return data, plain, nil
}

// unpack reads a command of the log.
func unpack(data []byte) (*statepb.Command, error) {
	if bytes.HasPrefix(data, gzipMagic) {
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("decompress command: %w", err)
		}
		data, err = io.ReadAll(io.LimitReader(r, maxPlain+1))
		switch {
		case err != nil:
			return nil, fmt.Errorf("decompress command: %w", err)
		case len(data) > maxPlain:
			return nil, fmt.Errorf("decompress command: it has more than %d bytes", maxPlain)
		}
	}
	var cmd statepb.Command
	if err := proto.Unmarshal(data, &cmd); err != nil {
		return nil, fmt.Errorf("decode command: %w", err)
	}
	return &cmd, nil
}
