package inference

import (
	"encoding/binary"
	"math/bits"
)

// Eight bytes at a time: constants with the same byte in each place of a word.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// stops marks the bytes of a word at which the inside of a JSON string stops being plain: a quote,
// a backslash, or a control character, which must not be there. A mark is a byte's high bit. Marks
// above the lowest may be wrong, since a difference borrows; the lowest is right, and there is one
// if there should be one.
//
// Turning bit 1 round swaps the quote (0x22) with the space (0x20), so that what is looked for is
// below 0x21.
func stops(x uint64) uint64 {
	return (((x ^ ones*0x02) - ones*0x21) | ((x ^ ones*'\\') - ones)) &^ x & highs
}

// breaks marks, like stops, the bytes of a word that may end a line: those below 0x0e.
func breaks(x uint64) uint64 { return (x - ones*0x0e) &^ x & highs }

func word(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// place is the place in its word of the lowest mark.
func place(marks uint64) int { return bits.TrailingZeros64(marks) >> 3 }

// plain returns where the plain run of a string's inside that starts at i ends.
func plain(b []byte, i int) int {
	for n := 0; n < 4 && i+8 <= len(b); n++ { // between escapes there's often little
		if m := stops(word(b, i)); m != 0 {
			return i + place(m)
		}
		i += 8
	}
	for ; i+32 <= len(b); i += 32 {
		w := b[i : i+32 : i+32]
		if stops(word(w, 0))|stops(word(w, 8))|stops(word(w, 16))|stops(word(w, 24)) != 0 {
			break
		}
	}
	for ; i+8 <= len(b); i += 8 {
		if m := stops(word(b, i)); m != 0 {
			return i + place(m)
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// lineEnd returns where the first CR or LF at or after i stands; len(b) if there is none.
func lineEnd(b []byte, i int) int {
	for i+8 <= len(b) {
		m := breaks(word(b, i))
		if m == 0 {
			i += 8
			continue
		}
		i += place(m)
		if b[i] == '\n' || b[i] == '\r' {
			return i
		}
		i++ // a tab or the like
	}
	for i < len(b) && b[i] != '\n' && b[i] != '\r' {
		i++
	}
	return i
}

// nonDigits marks the bytes of a word that aren't decimal digits; exact.
func nonDigits(x uint64) uint64 {
	x ^= ones * '0'
	// A digit is 0 to 9 now: adding 0x76 to seven bits carries into the high bit from 10 on.
	return ((x &^ highs) + ones*0x76 | x) & highs
}

// decimal reads the first n bytes of a word, 1 to 7 digits, as a number.
func decimal(x uint64, n int) uint64 {
	x = (x ^ ones*'0') << ((8 - n) * 8) // zeros in front
	x = (x*10 + x>>8) & 0x00ff00ff00ff00ff
	x = (x*100 + x>>16) & 0x0000ffff0000ffff
	return (x*10000 + x>>32) & 0xffffffff
}

// numeral returns what follows the JSON number that starts at i, or -1, and its value if it is a
// whole one of at most seven digits, else -1.
func numeral(b []byte, i int) (end int, value int64) {
	if i+16 <= len(b) && b[i] != '0' {
		x := word(b, i)
		n := 8
		if m := nonDigits(x); m != 0 {
			n = place(m)
		} else if m = nonDigits(word(b, i+8)); m != 0 {
			n += place(m)
		} else {
			return slowNumeral(b, i)
		}
		if c := b[i+n]; n > 0 && c != '.' && c|0x20 != 'e' {
			if n > 7 {
				return i + n, -1
			}
			return i + n, int64(decimal(x, n))
		}
	}
	return slowNumeral(b, i)
}

// slowNumeral is numeral for any number, by the grammar of RFC 8259, section 6.
func slowNumeral(b []byte, i int) (end int, value int64) {
	from := i
	digits := func() bool {
		from := i
		for i < len(b) && '0' <= b[i] && b[i] <= '9' {
			value = min(value*10+int64(b[i]-'0'), 1<<40)
			i++
		}
		return i > from
	}
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return -1, -1
	}
	if i-from > 7 || b[from] == '-' {
		value = -1
	}
	if i < len(b) && b[i] == '.' {
		i++
		if !digits() {
			return -1, -1
		}
		value = -1
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return -1, -1
		}
		value = -1
	}
	return i, value
}
