package workload

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/sim"
)

// common is how many values two lists begin with alike.
func common[T comparable](a, b []T) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func TestTextSharesWhatBlocksShare(t *testing.T) {
	for _, c := range []struct {
		name string
		spec Spec
	}{
		{"shared prefix", SharedPrefix{Traffic: Traffic{Seed: 1}, Prefixes: 3, Prefix: Lengths{Fixed: 330}, Suffix: Lengths{Min: 1, Max: 100}}},
		{"sessions", Sessions{Traffic: Traffic{Seed: 1, Arrivals: Arrivals{Clients: 3}}, Systems: 2, System: Lengths{Fixed: 100}}},
		{"uniform", Uniform{Traffic: Traffic{Seed: 1}, Prompt: Lengths{Min: 1, Max: 200}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := take(t, c.spec, 40, time.Second)
			shared := 0
			for i := range list {
				a := string(Text(list[i]))
				if sim.CountTokens(len(a)) != list[i].PromptTokens {
					t.Fatalf("%d tokens of text for %d", sim.CountTokens(len(a)), list[i].PromptTokens)
				}
				for j := range i {
					b := string(Text(list[j]))
					// The server's own chain, as for completions and, behind a template, for chats.
					for _, before := range []string{"", "<|user|>\n"} {
						got := common(sim.Chain(before+a, 7), sim.Chain(before+b, 7))
						want := common(list[i].Blocks, list[j].Blocks)
						if got != want {
							t.Fatalf("requests %d and %d share %d blocks, their texts behind %q %d", i, j, want, before, got)
						}
						shared += want
					}
				}
			}
			if (shared > 0) != (c.name != "uniform") {
				t.Errorf("%d blocks are shared", shared)
			}
		})
	}
}

func TestTextIsSafeAndStays(t *testing.T) {
	r := Request{ID: 5, PromptTokens: 100, Blocks: []uint64{1, 2, 3}}
	text := Text(r)
	if !bytes.Equal(text, Text(r)) {
		t.Error("the same request reads differently")
	}
	for _, b := range text {
		if b != ' ' && (b < 'a' || b > 'z') {
			t.Fatalf("byte %q in a text", b)
		}
	}
	other := r
	other.ID = 6
	if n := common(text, Text(other)); n < 3*64 || n >= 3*64+16 {
		t.Errorf("two requests with 3 blocks in common share %d bytes", n)
	}
	if len(text) != 400 || cap(text) > 600 {
		t.Errorf("length %d, capacity %d", len(text), cap(text))
	}
}

func TestDifferentHashesAreDifferentTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		if a != b && bytes.Equal(appendBlock(nil, a), appendBlock(nil, b)) {
			t.Errorf("%x and %x read the same", a, b)
		}
		if n := len(appendBlock(nil, a)); n != sim.BlockSize*sim.BytesPerToken {
			t.Errorf("a block has %d bytes", n)
		}
	})
}

func TestNeighbouringHashesAreDifferentTexts(t *testing.T) {
	seen := map[string]uint64{}
	for bit := range 64 {
		h := uint64(1) << bit
		text := string(appendBlock(nil, h))
		if was, ok := seen[text]; ok {
			t.Errorf("%x and %x read the same", was, h)
		}
		seen[text] = h
	}
}

func TestVocabularyIsOfTokens(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range vocabulary {
		if len(w)+1 != sim.BytesPerToken || seen[w] {
			t.Errorf("%q is no token of its own", w)
		}
		seen[w] = true
	}
	if len(vocabulary) != 64 {
		t.Errorf("%d words, want 64: six bits each", len(vocabulary))
	}
}

func TestChainIsWhole(t *testing.T) {
	r := Request{ID: 9, PromptTokens: 100, Blocks: []uint64{1, 2}}
	chain := r.Chain(nil)
	if len(chain) != 6 || chain[0] != 1 || chain[1] != 2 {
		t.Fatalf("chain %x, want both blocks and four more", chain)
	}
	other := Request{ID: 10, PromptTokens: 100, Blocks: []uint64{1, 2}}
	if n := common(chain, other.Chain(nil)); n != 2 {
		t.Errorf("two requests share %d blocks, want 2", n)
	}
	long := Request{ID: 9, PromptTokens: 33, Blocks: []uint64{1, 2, 3, 4}}
	if n := len(long.Chain(nil)); n != 2 {
		t.Errorf("%d blocks of 33 tokens", n)
	}
	none := Request{ID: 1, PromptTokens: 64}
	if a, b := none.Chain(nil), (&Request{ID: 2, PromptTokens: 64}).Chain(nil); len(a) != 4 || common(a, b) != 0 {
		t.Errorf("chains %x and %x without blocks", a, b)
	}
}
