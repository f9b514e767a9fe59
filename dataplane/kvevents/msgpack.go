package kvevents

import (
	"encoding/binary"
	"math"
)

// class is a class of MessagePack values (github.com/msgpack/msgpack, spec.md).
type class uint8

const (
	nothing class = iota // nil
	boolean
	integer // of 64 bits, with or without a sign
	float
	text // str and bin
	array
	table
	extension
)

// value is one value, or the head of an array or map.
type value struct {
	class class
	bits  uint64 // integer in two's complement, float, or boolean
	n     int    // elements of an array, pairs of a map
	text  []byte // a piece of the input
}

// cursor walks over values. After an error it is done.
type cursor struct {
	rest []byte
	bad  bool
}

// heads tells of the types from 0xc0 to 0xdf what they are, how many bytes tell their size or make
// their value, and how many bytes come besides.
var heads = [32]struct {
	class        class
	size, beside uint8
	bad, counted bool
}{
	0x00: {class: nothing}, 0x01: {bad: true}, 0x02: {class: boolean}, 0x03: {class: boolean},
	0x04: {class: text, size: 1, counted: true}, 0x05: {class: text, size: 2, counted: true}, 0x06: {class: text, size: 4, counted: true},
	0x07: {class: extension, size: 1, beside: 1, counted: true}, 0x08: {class: extension, size: 2, beside: 1, counted: true},
	0x09: {class: extension, size: 4, beside: 1, counted: true},
	0x0a: {class: float, size: 4}, 0x0b: {class: float, size: 8},
	0x0c: {class: integer, size: 1}, 0x0d: {class: integer, size: 2}, 0x0e: {class: integer, size: 4}, 0x0f: {class: integer, size: 8},
	0x10: {class: integer, size: 1}, 0x11: {class: integer, size: 2}, 0x12: {class: integer, size: 4}, 0x13: {class: integer, size: 8},
	0x14: {class: extension, beside: 2}, 0x15: {class: extension, beside: 3}, 0x16: {class: extension, beside: 5},
	0x17: {class: extension, beside: 9}, 0x18: {class: extension, beside: 17},
	0x19: {class: text, size: 1, counted: true}, 0x1a: {class: text, size: 2, counted: true}, 0x1b: {class: text, size: 4, counted: true},
	0x1c: {class: array, size: 2}, 0x1d: {class: array, size: 4}, 0x1e: {class: table, size: 2}, 0x1f: {class: table, size: 4},
}

// next reads a value; of arrays and maps only the head, and their elements come next.
func (c *cursor) next() value {
	if c.bad || len(c.rest) == 0 {
		return c.fail()
	}
	b := c.rest[0]
	c.rest = c.rest[1:]
	switch {
	case b < 0x80:
		return value{class: integer, bits: uint64(b)}
	case b < 0x90:
		return c.counted(value{class: table, n: int(b & 0xf)})
	case b < 0xa0:
		return c.counted(value{class: array, n: int(b & 0xf)})
	case b < 0xc0:
		return c.take(value{class: text}, int(b&0x1f))
	case b >= 0xe0:
		return value{class: integer, bits: uint64(int64(int8(b)))}
	}
	h := &heads[b&0x1f]
	if h.bad || len(c.rest) < int(h.size) {
		return c.fail()
	}
	v := value{class: h.class, bits: number(c.rest[:h.size])}
	c.rest = c.rest[h.size:]
	switch {
	case h.counted:
		if v.bits > uint64(len(c.rest)) {
			return c.fail()
		}
		return c.take(v, int(v.bits)+int(h.beside))
	case h.beside > 0:
		return c.take(v, int(h.beside))
	case h.class == array || h.class == table:
		if v.bits > uint64(len(c.rest)) { // each element has a byte at least
			return c.fail()
		}
		v.n = int(v.bits)
		return c.counted(v)
	}
	switch b {
	case 0xc3:
		v.bits = 1
	case 0xca:
		v.bits = math.Float64bits(float64(math.Float32frombits(uint32(v.bits))))
	case 0xd0:
		v.bits = uint64(int64(int8(v.bits)))
	case 0xd1:
		v.bits = uint64(int64(int16(v.bits)))
	case 0xd2:
		v.bits = uint64(int64(int32(v.bits)))
	}
	return v
}

func number(b []byte) uint64 {
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(b))
	case 4:
		return uint64(binary.BigEndian.Uint32(b))
	case 8:
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) fail() value {
	c.bad, c.rest = true, nil
	return value{}
}

// take gives a value the next n bytes.
func (c *cursor) take(v value, n int) value {
	if n > len(c.rest) {
		return c.fail()
	}
	v.text, c.rest = c.rest[:n], c.rest[n:]
	return v
}

// counted checks that as many elements as announced can still come.
func (c *cursor) counted(v value) value {
	if v.elements() > len(c.rest) {
		return c.fail()
	}
	return v
}

// elements are the values that come after a head and belong to it.
func (v *value) elements() int {
	if v.class == table {
		return 2 * v.n
	}
	return v.n
}

// within passes over what belongs to a value whose head was read, however deep.
func (c *cursor) within(v value) {
	for left := v.elements(); left > 0 && !c.bad; left-- {
		inner := c.next()
		left += inner.elements()
	}
}

// skip passes over n values.
func (c *cursor) skip(n int) {
	for range n {
		if c.bad {
			return
		}
		c.within(c.next())
	}
}

// Encoding, in the shortest forms.

func appendArray(b []byte, n int) []byte {
	switch {
	case n < 0x10:
		return append(b, 0x90|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xdc), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}

func appendUint(b []byte, u uint64) []byte {
	switch {
	case u < 0x80:
		return append(b, byte(u))
	case u <= math.MaxUint8:
		return append(b, 0xcc, byte(u))
	case u <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(u))
	case u <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(u))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), u)
}

func appendFloat(b []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(f))
}

// appendText writes a string of less than 256 bytes.
func appendText(b []byte, s string) []byte {
	if len(s) < 0x20 {
		return append(append(b, 0xa0|byte(len(s))), s...)
	}
	return append(append(b, 0xd9, byte(len(s))), s...)
}

func appendNil(b []byte) []byte { return append(b, 0xc0) }
