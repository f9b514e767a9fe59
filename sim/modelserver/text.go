package modelserver

import (
	"encoding/binary"
	"strings"

	"anabranch/sim"

	"github.com/cespare/xxhash/v2"
)

// words are what the model says. With the space behind it each is one token of four bytes, so
// that an answer counts the same when it comes back as part of a prompt.
var words = strings.Fields(`
the sea ran out and low mud lay far off one old man saw two red cod dry his net was cut ice sat
not yet ten big oak did nod air hot sun sky dim fog wet bay tin cup tea for you can see her boy
dig pit put log fit jar lid hen egg fox den elm ash fir kit cap pen ink map key cab bus van jet`)

// tokenText is token i of the answer with this seed: four ASCII bytes, safe within JSON.
func tokenText(seed uint64, i int) string {
	x := seed + uint64(i)*0x9e3779b97f4a7c15
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 32
	return words[x%uint64(len(words))] + " "
}

// answerText is the first n tokens.
func answerText(seed uint64, n int) string {
	var b strings.Builder
	b.Grow(n * sim.BytesPerToken)
	for i := range n {
		b.WriteString(tokenText(seed, i))
	}
	return b.String()
}

// appendTokens appends the token ids of a block of a prompt: each token is its bytes.
func appendTokens(to []uint32, text string, block int) []uint32 {
	const size = sim.BlockSize * sim.BytesPerToken
	from := block * size
	for at := from; at < from+size; at += sim.BytesPerToken {
		var token [sim.BytesPerToken]byte
		copy(token[:], text[min(at, len(text)):])
		to = append(to, binary.LittleEndian.Uint32(token[:]))
	}
	return to
}

// naturalLength is how long the answer to a prompt is if nothing cuts it: 32 to 256 tokens.
func naturalLength(seed uint64) int { return 32 + int(seed%225) }

// seedOf makes the seed of an answer from model and prompt: the same question, the same answer.
func seedOf(model, prompt string) uint64 {
	d := xxhash.New()
	_, _ = d.WriteString(model) // a hash never fails
	_, _ = d.WriteString("\x00")
	_, _ = d.WriteString(prompt)
	return d.Sum64()
}
