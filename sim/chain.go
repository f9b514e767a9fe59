package sim

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// BytesPerToken is the length of a token in the deterministic tokenizer of the simulated servers,
// the usual rule of thumb for English text.
const BytesPerToken = 4

// CountTokens is the number of tokens of so many bytes of text, rounded up.
func CountTokens(bytes int) int { return (bytes + BytesPerToken - 1) / BytesPerToken }

// Chain is the hash chain over the full blocks of a text: hash i covers blocks 0 to i, so that
// equal hashes mean equal beginnings. The last token of a text may have fewer bytes than others. The
// salt keeps apart what must not share, e.g. adapters.
func Chain(text string, salt uint64) []uint64 {
	const size = BlockSize * BytesPerToken
	blocks := CountTokens(len(text)) / BlockSize
	if blocks == 0 {
		return nil
	}
	chain := make([]uint64, 0, blocks)
	var buf [8 + size]byte
	for range blocks {
		binary.LittleEndian.PutUint64(buf[:8], salt)
		n := copy(buf[8:], text)
		clear(buf[8+n:])
		text = text[n:]
		salt = xxhash.Sum64(buf[:])
		chain = append(chain, salt)
	}
	return chain
}
