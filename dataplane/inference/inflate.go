package inference

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// What may be wrong with a compressed body.
var (
	// ErrEncoding: the encoding isn't known here.
	ErrEncoding = errors.New("content encoding is not known")
	// ErrTooLarge: the body is larger than the limit once it is decompressed.
	ErrTooLarge = errors.New("body is too large")
	// ErrCorrupt: the body isn't what its encoding says, or has been cut short.
	ErrCorrupt = errors.New("compressed body is corrupt")
)

// maxRatio is about the most that DEFLATE compresses: 258 bytes in two bits.
const maxRatio = 1032

// Inflate undoes a Content-Encoding: gzip (x-gzip), or none ("" or identity), for which it returns
// the body itself. The result has at most limit bytes. The error is or wraps [ErrEncoding],
// [ErrTooLarge] or [ErrCorrupt].
func Inflate(encoding string, body []byte, limit int) ([]byte, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		if len(body) > limit {
			return nil, ErrTooLarge
		}
		return body, nil
	case "gzip", "x-gzip":
	default:
		return nil, ErrEncoding
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	out := bytes.NewBuffer(make([]byte, 0, sizeHint(body, limit)))
	if _, err = out.ReadFrom(io.LimitReader(r, int64(limit)+1)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if out.Len() > limit {
		return nil, ErrTooLarge
	}
	return out.Bytes(), nil
}

// sizeHint is how much to make room for at once: what the last member says of itself, if that can be
// true, and what ReadFrom wants to be free at the end.
func sizeHint(body []byte, limit int) int {
	if len(body) < 8 {
		return 0
	}
	says := int64(binary.LittleEndian.Uint32(body[len(body)-4:]))
	return int(min(says, int64(limit), int64(len(body))*maxRatio)) + bytes.MinRead
}
