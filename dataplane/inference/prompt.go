package inference

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
)

const (
	// BlockBytes is how much canonical text one block of the chain stands for: about 256 tokens,
	// several KV blocks of the usual 16.
	BlockBytes = 1024
	// MaxBlocks bounds the chain; of a longer prompt only this beginning, 2 MiB, counts.
	MaxBlocks = 2048
	// opaqueBytes is what an image or other part that isn't text counts for.
	opaqueBytes = 4096
	// tokenBytes is what a token given by number counts for.
	tokenBytes = 4 // the usual length of a token of English text
	// canonicalDepth is how deep objects are put in order; what lies deeper is hashed as it
	// stands, since each level reads what is within it again.
	canonicalDepth = 16
)

// prompt hashes canonical text as it comes: the values in the order in which chat templates use
// them (tools, system, conversation), strings as they read, so that escapes, white space and the
// order of fields don't matter.
type prompt struct {
	chain []uint64
	bytes int
	last  uint64
	block [8 + BlockBytes]byte // the hash so far, then the text of the current block
	n     int                  // text bytes in block
	buf   []byte               // a string being read
	depth int                  // of containers being read
}

// seed is what a chain begins with.
func seed(salt uint64, model string) uint64 {
	var bytes [8]byte
	binary.LittleEndian.PutUint64(bytes[:], salt)
	var h xxhash.Digest
	h.Reset()
	_, _ = h.Write(bytes[:]) // a Digest takes everything
	_, _ = h.WriteString(model)
	return h.Sum64()
}

// add takes text that counts.
func (p *prompt) add(s []byte) {
	p.bytes += len(s)
	p.hash(s)
}

// hash takes text that doesn't count: marks between values, and digests of what counts otherwise.
func (p *prompt) hash(s []byte) {
	for len(s) > 0 && len(p.chain) < MaxBlocks {
		c := copy(p.block[8+p.n:], s)
		p.n += c
		s = s[c:]
		if p.n == BlockBytes {
			binary.LittleEndian.PutUint64(p.block[:8], p.last)
			p.last = xxhash.Sum64(p.block[:])
			p.chain = append(p.chain, p.last)
			p.n = 0
		}
	}
}

// Marks between values. They are control characters, which text seldom holds; a clash costs a
// wrong guess about a cache and nothing else.
var (
	markString = []byte{0x1f}
	markValue  = []byte{0x1e}
	markOpen   = []byte{0x1d}
	markClose  = []byte{0x1c}
)

// value takes any checked value; one that isn't there or is null adds nothing.
func (p *prompt) value(b []byte, at span) {
	if p.depth == canonicalDepth {
		p.add(at.of(b))
		p.hash(markValue)
		return
	}
	p.depth++
	defer func() { p.depth-- }()
	switch at.first(b) {
	case 0, 'n':
	case '"':
		p.buf = text(p.buf[:0], at.of(b))
		p.add(p.buf)
		p.hash(markString)
	case '{':
		p.object(b, at)
	case '[':
		p.hash(markOpen)
		for e := range elements(b, at.from) {
			if first := e.first(b); first == '-' || '0' <= first && first <= '9' {
				p.bytes += tokenBytes
				p.hash(e.of(b))
				p.hash(markValue)
				continue
			}
			p.value(b, e)
		}
		p.hash(markClose)
	default: // number, true, false
		p.add(at.of(b))
		p.hash(markValue)
	}
}

// member is one member of an object.
type member struct {
	name []byte
	val  span
}

func (p *prompt) object(b []byte, at span) {
	var room [8]member
	list := room[:0]
	var kind, parts span // of a part of a message
	for k, v := range members(b, at.from) {
		name := b[k.from+1 : k.to-1]
		if slices.Contains(name, '\\') {
			name = text(nil, k.of(b))
		}
		switch string(name) {
		case "type":
			kind = v
		case "text":
			parts = v
		}
		list = append(list, member{name, v})
	}
	if kind.first(b) == '"' && p.part(b, at, kind, parts) {
		return
	}
	// The role first, since templates put it before what was said; the rest by name. Of a name
	// that is there twice the last counts.
	slices.SortStableFunc(list, func(x, y member) int {
		if r, s := string(x.name) == "role", string(y.name) == "role"; r != s {
			if r {
				return -1
			}
			return 1
		}
		return slices.Compare(x.name, y.name)
	})
	p.hash(markOpen)
	for i, m := range list {
		if i+1 < len(list) && string(list[i+1].name) == string(m.name) {
			continue
		}
		if string(m.name) == "content" && m.val.first(b) == '[' {
			// A list of text parts reads as the same content given as one string.
			for e := range elements(b, m.val.from) {
				p.value(b, e)
			}
			continue
		}
		if string(m.name) != "content" {
			p.add(m.name)
			p.hash(markValue)
		}
		p.value(b, m.val)
	}
	p.hash(markClose)
}

// part takes a typed part of a message: text as it reads, an image, sound or file by its digest,
// since its bytes aren't tokens. False: it is something else, to be taken like any object.
func (p *prompt) part(b []byte, at, kind, words span) bool {
	switch {
	case (kind.is(b, "text") || kind.is(b, "input_text") || kind.is(b, "output_text")) && words.first(b) == '"':
		p.value(b, words)
	case kind.is(b, "image_url"), kind.is(b, "input_image"), kind.is(b, "image"), kind.is(b, "input_audio"),
		kind.is(b, "video_url"), kind.is(b, "audio_url"), kind.is(b, "file"), kind.is(b, "input_file"), kind.is(b, "document"):
		p.bytes += opaqueBytes
		var sum [8]byte
		binary.LittleEndian.PutUint64(sum[:], xxhash.Sum64(at.of(b)))
		p.hash(sum[:])
		p.hash(markValue)
	default:
		return false
	}
	return true
}
