package inference

import (
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

const (
	// BlockBytes is how much canonical text one block of the chain stands for: about 256 tokens,
	// several KV blocks of the usual 16.
	BlockBytes = 1024
	// MaxBlocks bounds the chain; of a longer prompt only this beginning, 2 MiB, counts.
	MaxBlocks = 2048
)

// chain hashes text block by block as it comes, in whatever pieces.
type chain struct {
	blocks []uint64
	last   uint64
	block  [BlockBytes]byte // the beginning of the current block
	n      int              // bytes in it
}

// mix makes one hash of two that come in order, by folding their product.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xe7037ed1a0b428db)
	return hi ^ lo
}

func (c *chain) write(s []byte) {
	if n := c.n + len(s); n < BlockBytes {
		copy(c.block[c.n:], s)
		c.n = n
		return
	}
	c.cut(s)
}

// cut takes text that ends the current block. Blocks that lie in s as a whole are hashed there.
func (c *chain) cut(s []byte) {
	if c.n > 0 {
		n := copy(c.block[c.n:], s)
		s = s[n:]
		c.sum(c.block[:])
	}
	for ; len(s) >= BlockBytes && len(c.blocks) < MaxBlocks; s = s[BlockBytes:] {
		c.sum(s[:BlockBytes])
	}
	if len(c.blocks) == MaxBlocks {
		s = nil
	}
	c.n = copy(c.block[:], s)
}

func (c *chain) sum(block []byte) {
	if len(c.blocks) < MaxBlocks {
		c.last = mix(c.last, xxhash.Sum64(block))
		c.blocks = append(c.blocks, c.last)
	}
}

func (c *chain) writeByte(b byte) {
	c.block[c.n] = b
	if c.n++; c.n == BlockBytes {
		c.sum(c.block[:])
		c.n = 0
	}
}

// writeWord takes a number as four bytes.
func (c *chain) writeWord(w uint32) {
	if c.n+4 < BlockBytes {
		binary.LittleEndian.PutUint32(c.block[c.n:], w)
		c.n += 4
		return
	}
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], w)
	c.write(b[:])
}
