package inference

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
)

const (
	// opaqueBytes is what an image or other part that isn't text counts for.
	opaqueBytes = 4096
	// tokenBytes is what a token given by number counts for.
	tokenBytes = 4 // the usual length of a token of English text
	// digestBytes is how much of a long string within an image or the like is hashed, at its
	// beginning and again at its end: files differ there, and by their length.
	digestBytes = 16 << 10
	// plainOpaque is the longest string within an image that is hashed as it reads.
	plainOpaque = 64
)

// prompt hashes canonical text: the values in the order in which chat templates use them (tools,
// system, conversation), strings as they read, so that escapes, white space and the order of fields
// don't matter. What is in a field with more values than a tape holds is hashed as it stands.
type prompt struct {
	chain
	bytes int
	body  []byte
	tapes [promptFields]tape // of the fields of the prompt
	// members is a stack: those of the objects being read.
	members []member
	buf     []byte
	opaque  int // how many images and the like are being read, one within the other
}

// prompts are reused for the room that they hold.
var prompts = sync.Pool{New: func() any { return new(prompt) }}

// keepBuffer is the most room, in bytes, that an idle prompt keeps for strings.
const keepBuffer = 64 << 10

// release gives back what newPrompt gave.
func (p *prompt) release() {
	p.body = nil
	if cap(p.buf) > keepBuffer {
		p.buf = nil
	}
	if cap(p.members) > keepNodes {
		p.members = nil
	}
	prompts.Put(p)
}

func newPrompt(body []byte) *prompt {
	p := prompts.Get().(*prompt)
	for i := range p.tapes {
		p.tapes[i].reset()
	}
	p.body, p.bytes, p.n, p.blocks, p.members, p.opaque = body, 0, 0, p.blocks[:0], p.members[:0], 0
	return p
}

// Marks between values. They are control characters, which text seldom holds; a clash costs a
// wrong guess about a cache and nothing else.
const (
	markString = 0x1f
	markValue  = 0x1e
	markOpen   = 0x1d
	markClose  = 0x1c
)

// add takes text that counts.
func (p *prompt) add(s []byte) {
	p.bytes += len(s)
	p.write(s)
}

// member is one member of an object.
type member struct {
	name  []byte
	value int32 // its node
}

// value takes a node of a tape with all that it holds; null adds nothing.
func (p *prompt) value(t *tape, at int32) {
	n := t.nodes[at]
	if t.opaque {
		p.add(p.body[n.from:n.to])
		p.writeByte(markValue)
		return
	}
	switch p.body[n.from] {
	case 'n':
	case '"':
		p.string(n)
		p.writeByte(markString)
	case '{':
		p.object(t, at)
	case '[':
		p.writeByte(markOpen)
		p.list(t, at)
		p.writeByte(markClose)
	default: // number, true, false
		p.add(p.body[n.from:n.to])
		p.writeByte(markValue)
	}
}

func (p *prompt) list(t *tape, at int32) {
	n := t.nodes[at]
	if n.what == numbersNode {
		p.numbers(int(n.from) + 1)
		return
	}
	for e := at + 1; e < n.next; e = t.nodes[e].next {
		from := t.nodes[e].from
		if c := p.body[from]; c == '-' || '0' <= c && c <= '9' {
			p.token(int(from))
			continue
		}
		p.value(t, e)
	}
}

// numbers takes a list of numbers alone, from behind its opening bracket.
func (p *prompt) numbers(i int) {
	b := p.body
	for i = blank(b, i); b[i] != ']'; {
		for i+8 <= len(b) && b[i] != '0' { // as the scanner goes through them
			x := word(b, i)
			n := place(nonDigits(x))
			if n == 0 || n == 8 || b[i+n] != ',' {
				break
			}
			p.bytes += tokenBytes
			p.writeWord(uint32(decimal(x, n)))
			i += n + 1
		}
		i = p.token(blank(b, i))
		if i = blank(b, i); b[i] == ',' {
			i = blank(b, i+1)
		}
	}
}

// token takes the number of a list that starts at i, and returns what follows it. A block of such
// numbers is as many tokens as one of text usually is.
func (p *prompt) token(i int) int {
	end, n := numeral(p.body, i)
	p.bytes += tokenBytes
	if n >= 0 {
		p.writeWord(uint32(n))
		return end
	}
	p.write(p.body[i:end])
	p.writeByte(markValue)
	return end
}

// string takes what a string reads as.
func (p *prompt) string(n node) {
	s := p.body[n.from+1 : n.to-1]
	if p.opaque > 0 && len(s) > plainOpaque {
		p.digest(s, n.what == escapedNode)
		return
	}
	if n.what != escapedNode {
		p.add(s)
		return
	}
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			p.add(s)
			return
		}
		if i > 0 {
			p.add(s[:i])
		}
		var read []byte
		read, i = unescape(p.buf[:0], s, i)
		p.buf = read
		if len(read) == 1 {
			p.bytes++
			p.writeByte(read[0])
		} else {
			p.add(read)
		}
		s = s[i:]
	}
}

// digest takes a string within an image or the like, whose bytes aren't tokens.
func (p *prompt) digest(s []byte, escaped bool) {
	if escaped {
		p.buf = unescaped(p.buf[:0], s)
		s = p.buf
	}
	var sum [16]byte
	binary.LittleEndian.PutUint64(sum[8:], uint64(len(s)))
	hash := xxhash.Sum64(s[:min(len(s), digestBytes)])
	if len(s) > digestBytes {
		hash = mix(hash, xxhash.Sum64(s[max(digestBytes, len(s)-digestBytes):]))
	}
	binary.LittleEndian.PutUint64(sum[:], hash)
	p.write(sum[:])
}

// name is what the name of a member, or another short string, reads as.
func (p *prompt) name(n node) []byte {
	s := p.body[n.from+1 : n.to-1]
	if n.what == escapedNode {
		return unescaped(nil, s)
	}
	return s
}

func (p *prompt) object(t *tape, at int32) {
	base := len(p.members)
	var kind, words, source int32 // of a part of a message; 0: not there
	for k := at + 1; k < t.nodes[at].next; k = t.nodes[k+1].next {
		name := p.name(t.nodes[k])
		switch string(name) {
		case "type":
			kind = k + 1
		case "text":
			words = k + 1
		case "source":
			source = k + 1
		}
		p.members = append(p.members, member{name, k + 1})
	}
	switch p.part(t, kind, words, source) {
	case partText:
		p.members = p.members[:base]
		p.value(t, words)
	case partOpaque:
		p.opaque++
		count := p.bytes
		p.inOrder(t, base)
		p.opaque--
		p.bytes = count + opaqueBytes
	default:
		p.inOrder(t, base)
	}
}

// inOrder takes the members from base on of the stack: the role first, since templates put it before
// what was said; the rest by name. Of a name that is there twice the last counts.
func (p *prompt) inOrder(t *tape, base int) {
	end := len(p.members)
	if list := p.members[base:end]; !inOrder(list) {
		slices.SortFunc(list, byName)
	}
	p.writeByte(markOpen)
	for i := base; i < end; i++ {
		m := p.members[i]
		if i+1 < end && string(p.members[i+1].name) == string(m.name) {
			continue
		}
		if string(m.name) == "content" {
			if n := t.nodes[m.value]; p.body[n.from] == '[' {
				p.list(t, m.value) // text parts read as the same content given as one string
				continue
			}
		} else {
			p.add(m.name)
			p.writeByte(markValue)
		}
		p.value(t, m.value)
	}
	p.writeByte(markClose)
	p.members = p.members[:base]
}

func inOrder(list []member) bool {
	for i := 1; i < len(list); i++ {
		if byName(list[i-1], list[i]) > 0 {
			return false
		}
	}
	return true
}

func byName(x, y member) int {
	if r, s := string(x.name) == "role", string(y.name) == "role"; r != s {
		if r {
			return -1
		}
		return 1
	}
	if c := bytes.Compare(x.name, y.name); c != 0 {
		return c
	}
	return cmp.Compare(x.value, y.value)
}

// part is what kind of part of a message an object is.
type part uint8

const (
	partOther  part = iota // taken like any object
	partText               // text, which is taken as it reads
	partOpaque             // image, sound, file
)

// part tells the kind from the members that matter. Kinds as in the APIs of OpenAI and Anthropic and
// in vLLM's multimodal inputs.
func (p *prompt) part(t *tape, kind, words, source int32) part {
	switch string(p.word(t, kind)) {
	case "text", "input_text", "output_text":
		if words > 0 && p.body[t.nodes[words].from] == '"' {
			return partText
		}
	case "image_url", "input_image", "image", "image_embeds", "input_audio", "audio_url", "audio_embeds", "video_url",
		"file", "input_file":
		return partOpaque
	case "document":
		if source == 0 || p.body[t.nodes[source].from] != '{' {
			return partOpaque
		}
		// One of Anthropic's: its source may be text.
		var kind int32
		for k := source + 1; k < t.nodes[source].next; k = t.nodes[k+1].next {
			if string(p.name(t.nodes[k])) == "type" {
				kind = k + 1
			}
		}
		if w := p.word(t, kind); string(w) != "text" && string(w) != "content" {
			return partOpaque
		}
	}
	return partOther
}

// word is what the string at a node reads as; nil if it isn't a string.
func (p *prompt) word(t *tape, at int32) []byte {
	if at == 0 || p.body[t.nodes[at].from] != '"' {
		return nil
	}
	return p.name(t.nodes[at])
}
