package inference

// Bounds of what a [Tally] keeps: the name of a member, with its quotes and every letter of "usage" as
// an escape, and a usage object, which is some hundred bytes.
const (
	maxTallyName  = 2 + len("usage")*len(`\u0075`)
	maxTallyUsage = 16 << 10
)

// Tally reads from a whole answer, as its pieces pass by and without holding it, what [UsageOf] reads
// from one that is held, and how much text it has. It doesn't check the grammar: only what JSON is can
// be trusted to be counted right. The zero value is ready.
type Tally struct {
	depth   int
	begun   bool // the first byte that isn't white space came
	wrong   bool // it is no object, or something follows it
	inside  bool // of a string
	escape  bool // the byte before was a backslash that counts
	named   bool // the next string of the answer's own members is a name
	collect bool // the name that is passing by
	keep    bool // the value that is passing by is the usage
	name    []byte
	kept    []byte

	text, newest int64 // bytes inside strings; of the last one
	usage        Usage
	counted      bool
}

// Write takes the next piece. It never fails.
func (t *Tally) Write(p []byte) (int, error) {
	for i := 0; i < len(p) && !t.wrong; {
		if t.inside {
			i = t.string(p, i)
			continue
		}
		c := p[i]
		i++
		if c == ' ' || c == '\n' || c == '\r' || c == '\t' {
			continue
		}
		t.structure(c)
	}
	return len(p), nil
}

// string goes on inside a string, at p[i], and returns where it got to.
func (t *Tally) string(p []byte, i int) int {
	from := i
	for t.inside && i < len(p) {
		if t.escape {
			t.escape = false
			i++
			continue
		}
		if i = plain(p, i); i == len(p) {
			break
		}
		t.inside, t.escape = p[i] != '"', p[i] == '\\'
		i++
	}
	t.newest += int64(i - from)
	if t.keep {
		t.hold(p[from:i])
	}
	if t.collect {
		t.name = append(t.name, p[from:min(i, from+maxTallyName+1-len(t.name))]...)
	}
	if !t.inside {
		t.newest-- // the quote
		t.text += t.newest
		t.collect = false
	}
	return i
}

// structure takes a byte between strings.
func (t *Tally) structure(c byte) {
	if !t.begun || t.depth == 0 {
		t.wrong = t.begun || c != '{'
		t.begun, t.named, t.depth = true, true, 1
		return
	}
	switch c {
	case '"':
		t.inside, t.newest = true, 0
		if t.depth == 1 && t.named {
			t.collect, t.name = true, append(t.name[:0], c)
		}
	case '{', '[':
		t.depth++
	case '}', ']':
		t.depth--
		if t.depth == 0 {
			t.settle()
		}
	case ',':
		if t.depth == 1 {
			t.settle()
			t.named = true
		}
	case ':':
		t.text -= t.newest // it was a name
		t.newest = 0
		if t.depth == 1 && t.named {
			t.named, t.keep = false, t.isUsage()
			t.kept = t.kept[:0]
			return
		}
	}
	if t.keep {
		t.hold([]byte{c})
	}
}

// isUsage: the name that has passed by reads as "usage".
func (t *Tally) isUsage() bool {
	end, _ := quoted(t.name, 0)
	return end == len(t.name) && end > 0 && span{0, end}.is(t.name, "usage")
}

// hold keeps a piece of what may be the usage.
func (t *Tally) hold(piece []byte) {
	if len(t.kept)+len(piece) > maxTallyUsage {
		t.keep, t.counted = false, false
		return
	}
	t.kept = append(t.kept, piece...)
}

// settle reads the usage when its member has passed by; of several the last counts.
func (t *Tally) settle() {
	if !t.keep {
		return
	}
	t.keep = false
	w := walk{b: t.kept}
	t.usage, t.counted = usage(&w, 1)
	t.counted = t.counted && w.i == len(t.kept)
}

// Whole says whether the answer is an object that has ended.
func (t *Tally) Whole() bool { return t.begun && t.depth == 0 && !t.wrong }

// Usage is the usage of an answer that has passed by. False: it has none, or isn't whole.
func (t *Tally) Usage() (Usage, bool) {
	if !t.counted || !t.Whole() {
		return Usage{}, false
	}
	return t.usage, true
}

// Text is how many bytes stood inside strings that are no names, as written there: the text of an answer,
// and the few words around it.
func (t *Tally) Text() int64 {
	if t.inside {
		return t.text + t.newest
	}
	return t.text
}
