package exposition

import (
	"bytes"
	"slices"
	"strconv"
)

// label of a series; both parts are pieces of the page, but for values with escapes in them.
type label struct{ name, value []byte }

func find(labels []label, name string) []byte {
	for _, l := range labels {
		if string(l.name) == name {
			return l.value
		}
	}
	return nil
}

func (m match) fits(labels []label) bool {
	return slices.Contains(m.values, string(find(labels, m.label)))
}

// readLabels reads `name="value",…}`, appends the labels, and returns what follows.
func readLabels(b []byte, to []label) (labels []label, rest []byte, ok bool) {
	for {
		b = bytes.TrimLeft(b, " \t,")
		if len(b) == 0 {
			return to, nil, false
		}
		if b[0] == '}' {
			return to, b[1:], true
		}
		eq := bytes.IndexByte(b, '=')
		if eq <= 0 {
			return to, nil, false
		}
		name := bytes.TrimSpace(b[:eq])
		b = bytes.TrimLeft(b[eq+1:], " \t")
		if len(name) == 0 || len(b) == 0 || b[0] != '"' {
			return to, nil, false
		}
		var value []byte
		if value, b, ok = readQuoted(b[1:]); !ok {
			return to, nil, false
		}
		to = append(to, label{name, value})
	}
}

// readQuoted reads up to the closing quote; \\, \" and \n are escapes.
func readQuoted(b []byte) (value, rest []byte, ok bool) {
	i := bytes.IndexAny(b, `"\`)
	if i >= 0 && b[i] == '"' {
		return b[:i], b[i+1:], true
	}
	var plain []byte
	for i := 0; i < len(b); i++ {
		switch c := b[i]; c {
		case '"':
			return plain, b[i+1:], true
		case '\\':
			i++
			if i == len(b) {
				return nil, nil, false
			}
			if c = b[i]; c == 'n' {
				c = '\n'
			}
			plain = append(plain, c)
		default:
			plain = append(plain, c)
		}
	}
	return nil, nil, false
}

// readValue reads a number; a time stamp or an exemplar may follow.
func readValue(b []byte) (float64, bool) {
	b = bytes.Trim(b, " \t\r")
	if i := bytes.IndexAny(b, " \t"); i >= 0 {
		b = b[:i]
	}
	// Most are small whole numbers.
	if n := len(b); n > 0 && n <= 15 {
		v, whole := 0, true
		for _, c := range b {
			if c < '0' || c > '9' {
				whole = false
				break
			}
			v = v*10 + int(c-'0')
		}
		if whole {
			return float64(v), true
		}
	}
	v, err := strconv.ParseFloat(string(b), 64)
	return v, err == nil
}

// The parameters of FNV-1a, 64 bits.
const (
	fnvBasis = 14695981039346656037
	fnvPrime = 1099511628211
)

func fnv(h uint64, b []byte) uint64 {
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}

// identity of a series: a hash of its name and labels, in whatever order these are. A label without
// a value is as good as none.
func identity(name []byte, labels []label) uint64 {
	h := fnv(fnvBasis, name)
	for _, l := range labels {
		if len(l.value) > 0 {
			h += fnv((fnv(fnvBasis, l.name)^'=')*fnvPrime, l.value)
		}
	}
	return h
}
