package kvevents

import (
	"slices"
	"sync"
	"testing"
)

func TestGlossary(t *testing.T) {
	g := NewGlossary(8)
	for _, text := range []uint64{10, 11, 10} {
		g.learn(1, text)
	}
	g.learn(2, 20)
	before := g.texts(1)
	g.learn(1, 12)
	g.unlearn(2, 20)
	g.unlearn(2, 21)
	g.unlearn(3, 30)
	if !slices.Equal(before, []uint64{10, 11}) || !slices.Equal(g.texts(1), []uint64{10, 11, 12}) || len(g.texts(2)) > 0 || len(g.texts(3)) > 0 {
		t.Errorf("%v, then %v, %v, %v", before, g.texts(1), g.texts(2), g.texts(3))
	}
	g.drop(1)
	if len(g.texts(1)) > 0 {
		t.Errorf("%v after it was dropped", g.texts(1))
	}
	for text := range uint64(2 * maxTexts) {
		g.learn(1, text)
	}
	if got := g.texts(1); len(got) != maxTexts || got[maxTexts-1] != 2*maxTexts-1 {
		t.Errorf("%v of many", got)
	}
}

// What is asked for stays, of the rest the latest.
func TestGlossaryForgets(t *testing.T) {
	g := NewGlossary(100)
	for key := range uint64(10_000) {
		g.learn(key, key)
		if len(g.texts(7)) == 0 && key >= 7 {
			t.Fatalf("a block that is asked for is forgotten after %d", key)
		}
		if n := len(g.young) + len(g.old); n > 100 {
			t.Fatalf("%d blocks", n)
		}
	}
	if len(g.texts(9_999)) == 0 || len(g.texts(9_960)) == 0 || len(g.texts(9_000)) > 0 {
		t.Errorf("of the latest %v and %v, of an old one %v", g.texts(9_999), g.texts(9_960), g.texts(9_000))
	}
}

func TestGlossaryIsShared(t *testing.T) {
	g := NewGlossary(0)
	var all sync.WaitGroup
	for from := range uint64(4) {
		all.Go(func() {
			for key := range uint64(1000) {
				g.learn(key, from)
				if !slices.Contains(g.texts(key), from) {
					t.Errorf("key %d lost %d", key, from)
				}
			}
		})
	}
	all.Wait()
	if got := g.texts(5); len(got) != 4 {
		t.Errorf("%v", got)
	}
}
