package inference

// walk goes through an object that hasn't been checked, checking as it goes:
//
//	for more := w.enter('}'); more && w.name(); more = w.next('}') {
//		// w.key is the name; w.i is where the value starts, and must be moved behind it.
//	}
//
// and through a list in the same way with ']' and without names. When something is wrong w.i is
// negative, as scan returns it.
type walk struct {
	b   []byte
	i   int
	key []byte // the name of the member, as it reads
}

// enter goes from the opening bracket at w.i to the first name or element. False: there's none, and
// w.i is behind the closing one.
func (w *walk) enter(closing byte) bool {
	i := w.i + 1
	if i < len(w.b) && w.b[i] <= ' ' {
		i = blank(w.b, i)
	}
	w.i = i
	if i >= len(w.b) {
		w.i = badSyntax
		return false
	}
	if w.b[i] == closing {
		w.i++
		return false
	}
	return true
}

// name goes from a name to its value.
func (w *walk) name() bool {
	b, i := w.b, w.i
	if i < 0 || i >= len(b) || b[i] != '"' {
		w.i = badSyntax
		return false
	}
	end, escaped := i+1, false
	if end+8 <= len(b) { // most names are short and plain
		end += place(stops(word(b, end)))
	}
	if end < len(b) && b[end] == '"' {
		end++
	} else if end, escaped = quoted(b, i); end < 0 {
		w.i = end
		return false
	}
	if w.key = b[i+1 : end-1]; escaped {
		w.key = unescaped(nil, w.key)
	}
	if end < len(b) && b[end] <= ' ' {
		end = blank(b, end)
	}
	if end >= len(b) || b[end] != ':' {
		w.i = badSyntax
		return false
	}
	end++
	if end < len(b) && b[end] <= ' ' {
		end = blank(b, end)
	}
	if end >= len(b) {
		end = badSyntax
	}
	w.i = end
	return end >= 0
}

// peek is the first byte of the value at w.i, which tells its type; 0 if there's none.
func (w *walk) peek() byte {
	if uint(w.i) >= uint(len(w.b)) {
		return 0
	}
	return w.b[w.i]
}

// skip goes behind the value at w.i, which is within depth containers, and returns where it stands.
func (w *walk) skip(depth int) span {
	from := w.i
	switch {
	case from < 0:
	case w.peek() == '"':
		w.i, _ = quoted(w.b, from)
	case len(w.b)-from > 4 && string(w.b[from:from+4]) == "null":
		w.i = from + 4
	default:
		w.i = scan(w.b, from, depth, nil)
	}
	return span{from, w.i}
}

// next goes from behind a value to the next name or element. False: there's none, and w.i is behind
// the closing bracket.
func (w *walk) next(closing byte) bool {
	b, i := w.b, w.i
	if i < 0 {
		return false
	}
	if i < len(b) && b[i] <= ' ' {
		i = blank(b, i)
	}
	switch {
	case i >= len(b):
	case b[i] == ',':
		i++
		if i < len(b) && b[i] <= ' ' {
			i = blank(b, i)
		}
		w.i = i
		return true
	case b[i] == closing:
		w.i = i + 1
		return false
	}
	w.i = badSyntax
	return false
}
