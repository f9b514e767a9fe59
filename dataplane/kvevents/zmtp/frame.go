package zmtp

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// Flags of a frame.
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

// frame is one frame of a message, or a command.
type frame struct {
	flags byte
	body  []byte
}

// frame reads the next one, whose body may have so many bytes.
func (c *Conn) frame(most int) (frame, error) {
	flags, err := c.in.ReadByte()
	if err != nil {
		return frame{}, err
	}
	if flags&^(flagMore|flagLong|flagCommand) != 0 || flags&flagMore != 0 && flags&flagCommand != 0 {
		return frame{}, fmt.Errorf("%w: flags %#x", ErrFrame, flags)
	}
	var size uint64
	if flags&flagLong != 0 {
		var b [8]byte
		if err := c.full(b[:]); err != nil {
			return frame{}, err
		}
		size = binary.BigEndian.Uint64(b[:])
	} else {
		b, err := c.in.ReadByte()
		if err != nil {
			return frame{}, cut(err)
		}
		size = uint64(b)
	}
	if flags&flagCommand != 0 {
		most = min(most, maxCommand)
	}
	if size > uint64(most) {
		return frame{}, ErrTooLarge
	}
	f := frame{flags: flags, body: make([]byte, size)}
	return f, c.full(f.body)
}

// full fills b.
func (c *Conn) full(b []byte) error {
	_, err := io.ReadFull(c.in, b)
	return cut(err)
}

// cut: an end of the connection within something is no regular one.
func cut(err error) error {
	if err == io.EOF { //nolint:errorlint // readers return it as it is
		return io.ErrUnexpectedEOF
	}
	return err
}

func appendFrame(to []byte, flags byte, body []byte) []byte {
	if len(body) <= 0xff {
		to = append(to, flags, byte(len(body)))
	} else {
		to = append(to, flags|flagLong)
		to = binary.BigEndian.AppendUint64(to, uint64(len(body)))
	}
	return append(to, body...)
}

// command is a whole frame with one: its name and what belongs to it.
func command(name string, body []byte) []byte {
	b := append([]byte{byte(len(name))}, name...)
	return appendFrame(nil, flagCommand, append(b, body...))
}

// command reads a frame as one.
func (f *frame) command() (name string, body []byte, ok bool) {
	if f.flags&flagCommand == 0 {
		return "", nil, false
	}
	b, rest, ok := short(f.body)
	return string(b), rest, ok
}

// short reads bytes whose number stands before them in one byte.
func short(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || len(b)-1 < int(b[0]) {
		return nil, nil, false
	}
	n := 1 + int(b[0])
	return b[1:n], b[n:], true
}

// property is one of a READY command's.
func property(name, value string) []byte {
	b := append([]byte{byte(len(name))}, name...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// find looks for a property. Their names are in any case.
func find(b []byte, name string) (value string, ok bool) {
	const size = 4
	for len(b) > 0 {
		n, rest, ok := short(b)
		if !ok || len(rest) < size {
			return "", false
		}
		length := binary.BigEndian.Uint32(rest)
		rest = rest[size:]
		if uint64(length) > uint64(len(rest)) {
			return "", false
		}
		if strings.EqualFold(string(n), name) {
			return string(rest[:length]), true
		}
		b = rest[length:]
	}
	return "", false
}
