package sim

import (
	"slices"
	"strings"
	"testing"
)

func TestChainSharesBeginningsOnly(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("the quick brown fox jumps over the lazy dog ", 20)
	a := Chain(text, 0)
	if want := len(text) / (BlockSize * BytesPerToken); len(a) != want {
		t.Fatalf("%d blocks, want %d", len(a), want)
	}
	if b := Chain(text, 0); !slices.Equal(a, b) {
		t.Error("the same text gives two chains")
	}
	if b := Chain(text+" and more, more, more, more, more, more, more, more, more", 0); !slices.Equal(a, b[:len(a)]) {
		t.Error("a longer text does not share its beginning")
	}
	if b := Chain(text, 7); b[0] == a[0] {
		t.Error("the salt does not keep texts apart")
	}
	// One changed byte in block 2 changes every block from there on.
	changed := []byte(text)
	changed[2*BlockSize*BytesPerToken] ^= 1
	b := Chain(string(changed), 0)
	for i := range a {
		if same := a[i] == b[i]; same != (i < 2) {
			t.Errorf("block %d: same = %v", i, same)
		}
	}
	if Chain("short", 0) != nil {
		t.Error("less than a block has a chain")
	}
}

func TestCountTokens(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int]int{0: 0, 1: 1, 4: 1, 5: 2, 4000: 1000} {
		if got := CountTokens(bytes); got != want {
			t.Errorf("CountTokens(%d) = %d, want %d", bytes, got, want)
		}
	}
}
