package workload

import (
	"strings"

	"anabranch/sim"
)

// vocabulary is what prompts are made of. With the space behind it each word is one token of
// [sim.BytesPerToken] bytes, safe within JSON.
var vocabulary = strings.Fields(`
act add age aim arc arm art ash ask bad bag ban bar bat bed bee big bit bow box boy bud bug bus but
buy cab can cap car cat cow cry cup cut day den dew dig dog dot dry due ear eat ebb egg elk elm end
eye fan far few fig fin fly fun gap gas gem get god gum`)

// Text is the prompt of a request: [sim.BytesPerToken] bytes for each token. A block's text is made
// of its hash alone, so that two prompts have as much text in common at their beginnings as they have
// blocks, and [sim.Chain] over it finds the same to be shared. What is not shareable is made of the
// request's ID.
func Text(r Request) []byte {
	const size = sim.BlockSize * sim.BytesPerToken
	out := make([]byte, 0, (r.PromptTokens+sim.BlockSize)*sim.BytesPerToken)
	for _, h := range r.Chain(make([]uint64, 0, r.PromptTokens/sim.BlockSize)) {
		out = appendBlock(out, h)
	}
	rest := r.PromptTokens % sim.BlockSize * sim.BytesPerToken
	full := len(out)
	out = appendBlock(out, mix(tagText, r.ID))
	return out[: full+rest : full+size]
}

// appendBlock writes a block of words. The first eleven spell the hash, six bits each, so that
// different hashes are different texts.
func appendBlock(to []byte, hash uint64) []byte {
	bits := hash
	for i := range sim.BlockSize {
		if i == 11 {
			bits = mix(tagText, hash)
		}
		to = append(to, vocabulary[bits&63]...)
		to = append(to, ' ')
		bits >>= 6
	}
	return to
}
