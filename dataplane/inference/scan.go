package inference

import "errors"

// maxDepth bounds how deep a body may nest. Real requests nest about ten deep; tool schemas some
// tens.
const maxDepth = 1000

var (
	errSyntax = errors.New("is not valid JSON")
	errDepth  = errors.New("nests deeper than 1,000 levels")
)

// Scanning functions return a position, or one of these.
const (
	badSyntax = -1
	badDepth  = -2
)

// problemAt is the error that a scanning function's result stands for; nil if it is a position.
func problemAt(i int) error {
	switch {
	case i >= 0:
		return nil
	case i == badDepth:
		return errDepth
	}
	return errSyntax
}

// check says whether b is one JSON value and nothing else, by the grammar of RFC 8259 and as
// encoding/json sees it (bytes that aren't UTF-8 are accepted inside strings). What passed check
// may be walked with members, elements and text, which trust it.
func check(b []byte) error {
	i := scan(b, blank(b, 0), 0, nil)
	if i >= 0 && blank(b, i) != len(b) {
		return errSyntax
	}
	return problemAt(i)
}

// kinds has one bit for each open container, 1 for an object.
type kinds [(maxDepth + 63) / 64]uint64

func (k *kinds) set(depth int, object bool) {
	bit := uint64(1) << (depth % 64)
	k[depth/64] &^= bit
	if object {
		k[depth/64] |= bit
	}
}

func (k *kinds) object(depth int) bool { return k[depth/64]>>(depth%64)&1 == 1 }

// scan checks the value that starts at i, within depth containers, and returns what follows it. It
// doesn't recurse. If t isn't nil the value and all within it is noted there.
func scan(b []byte, i, depth int, t *tape) int {
	if i >= len(b) {
		return badSyntax
	}
	if c := b[i]; c != '{' && c != '[' {
		return scalar(b, i, t)
	}
	var open kinds
	base := depth
	for {
		// A value starts at i.
		if i >= len(b) {
			return badSyntax
		}
		switch c := b[i]; c {
		case '"':
			end, escaped := quoted(b, i)
			if end < 0 {
				return end
			}
			if t != nil && !t.leaf(i, end, escaped) {
				t = nil
			}
			i = end
		case '{', '[':
			if depth == maxDepth {
				return badDepth
			}
			open.set(depth, c == '{')
			depth++
			if t != nil && !t.open(i) {
				t = nil
			}
			next := enter(b, i, t)
			if next < 0 {
				return next
			}
			if b[next-1] != c+2 { // '}' and ']' come two after their openers
				i = next
				continue
			}
			i = next
			depth--
			if t != nil {
				t.close(i)
			}
		default:
			if i = scalar(b, i, t); i < 0 {
				return i
			}
		}
		// A value has ended before i: close what it closes.
		for depth > base {
			if i = blank(b, i); i >= len(b) {
				return badSyntax
			}
			object := open.object(depth - 1)
			if b[i] == ',' {
				i = blank(b, i+1)
				if object {
					i = key(b, i, t)
				}
				break
			}
			if object && b[i] != '}' || !object && b[i] != ']' {
				return badSyntax
			}
			depth--
			i++
			if t != nil {
				t.close(i)
			}
		}
		if depth == base || i < 0 {
			return i
		}
	}
}

// enter goes into the container that opens at i: to what follows it if it is empty or a list of
// numbers, else to its first value. The two are told apart by the byte before.
func enter(b []byte, i int, t *tape) int {
	c := b[i]
	i = blank(b, i+1)
	switch {
	case i >= len(b):
		return badSyntax
	case b[i] == c+2:
		return i + 1
	case c == '{':
		return key(b, i, t)
	case '0' <= b[i] && b[i] <= '9' || b[i] == '-':
		if end := numbers(b, i); end > 0 {
			if t != nil {
				t.numbers()
			}
			return end
		}
	}
	return i
}

// scalar checks a value that isn't a container.
func scalar(b []byte, i int, t *tape) int {
	from := i
	escaped := false
	switch b[i] {
	case '"':
		i, escaped = quoted(b, i)
	case 't':
		i = literal(b, i, "true")
	case 'f':
		i = literal(b, i, "false")
	case 'n':
		i = literal(b, i, "null")
	default:
		i, _ = numeral(b, i)
	}
	if t != nil && i >= 0 {
		t.leaf(from, i, escaped)
	}
	return i
}

// key checks `"…" :` at i and returns where the member's value starts.
func key(b []byte, i int, t *tape) int {
	if i >= len(b) || b[i] != '"' {
		return badSyntax
	}
	from := i
	i, escaped := quoted(b, i)
	if i < 0 {
		return badSyntax
	}
	if t != nil {
		t.leaf(from, i, escaped)
	}
	if i < len(b) && b[i] <= ' ' {
		i = blank(b, i)
	}
	if i >= len(b) || b[i] != ':' {
		return badSyntax
	}
	return blank(b, i+1)
}

func blank(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

func literal(b []byte, i int, want string) int {
	if len(b)-i < len(want) || string(b[i:i+len(want)]) != want {
		return badSyntax
	}
	return i + len(want)
}

// quoted checks the string that opens at i and returns what follows it, and whether it holds
// escapes.
func quoted(b []byte, i int) (end int, escaped bool) {
	i++
	for n := 0; n < 3 && i+8 <= len(b); n++ { // most strings are short and plain
		if m := stops(word(b, i)); m != 0 {
			if i += place(m); b[i] == '"' {
				return i + 1, false
			}
			break
		}
		i += 8
	}
	return longQuoted(b, i)
}

// longQuoted is quoted from a place within the string on, with no escape before.
func longQuoted(b []byte, i int) (end int, escaped bool) {
	for ; ; escaped = true {
		i = plain(b, i)
		if i >= len(b) || b[i] < ' ' {
			return badSyntax, false
		}
		if b[i] == '"' {
			return i + 1, escaped
		}
		if i+1 >= len(b) {
			return badSyntax, false
		}
		switch b[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			if hex4(b, i+2) < 0 {
				return badSyntax, false
			}
			i += 6
		default:
			return badSyntax, false
		}
	}
}

// numbers returns what follows the list of which the first number starts at i, if it holds numbers
// and nothing else; 0 if not, or if it is malformed.
func numbers(b []byte, i int) int {
	for {
		// Tokens are short whole numbers, mostly with nothing between.
		for i+8 <= len(b) && b[i] != '0' {
			n := place(nonDigits(word(b, i)))
			if n == 0 || n == 8 || b[i+n] != ',' {
				break
			}
			i += n + 1
		}
		if i < len(b) && b[i] <= ' ' {
			i = blank(b, i)
		}
		if i, _ = numeral(b, i); i < 0 {
			return 0
		}
		if i < len(b) && b[i] <= ' ' {
			i = blank(b, i)
		}
		if i >= len(b) {
			return 0
		}
		if b[i] == ']' {
			return i + 1
		}
		if b[i] != ',' {
			return 0
		}
		i++
	}
}
