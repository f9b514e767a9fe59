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
// equal hashes mean equal beginnings. The salt keeps apart what must not share, e.g. adapters.
func Chain(text string, salt uint64) []uint64 {
	const size = BlockSize * BytesPerToken
	if len(text) < size {
		return nil
	}
	chain := make([]uint64, 0, len(text)/size)
	var buf [8 + size]byte
	for ; len(text) >= size; text = text[size:] {
		binary.LittleEndian.PutUint64(buf[:8], salt)
		copy(buf[8:], text[:size])
		salt = xxhash.Sum64(buf[:])
		chain = append(chain, salt)
	}
	return chain
}
