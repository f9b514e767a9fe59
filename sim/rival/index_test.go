package rival

import (
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"anabranch/sim/world"
)

func chainOf(topic uint64, n int) []uint64 {
	chain := make([]uint64, n)
	for i := range chain {
		chain[i] = world.Mix(topic*1000 + uint64(i))
	}
	return chain
}

func depths(x *index, n int, chain []uint64) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = -1 // to be overwritten
	}
	x.match(chain, out)
	return out
}

func TestIndexKnowsWhatWasSentWhere(t *testing.T) {
	var x index
	a, b := chainOf(1, 10), chainOf(2, 10)
	mixed := slices.Concat(a[:4], b[:6])
	x.add(0, a, 100)
	x.add(70, a[:6], 100) // in the second group of 64
	x.add(1, b, 100)
	got := depths(&x, 80, mixed)
	if got[0] != 4 || got[70] != 4 || got[1] != 0 || got[2] != 0 {
		t.Errorf("depths of a chain that parts after four blocks: %v", got)
	}
	if got := depths(&x, 80, a); got[0] != 10 || got[70] != 6 {
		t.Errorf("depths of the whole chain: %d and %d, want 10 and 6", got[0], got[70])
	}
	x.forget(0)
	x.forget(99)
	if got := depths(&x, 80, a); got[0] != 0 || got[70] != 6 {
		t.Errorf("after pod 0 has gone: %d and %d, want 0 and 6", got[0], got[70])
	}
}

func TestIndexForgetsTheLeastRecentlyUsed(t *testing.T) {
	var x index
	a, b, c := chainOf(1, 10), chainOf(2, 10), chainOf(3, 10)
	x.add(0, a, 25)
	x.add(0, b, 25)
	x.add(0, a, 25) // used again
	x.add(0, c, 25)
	for i, want := range []int{10, 5, 10} {
		if got := depths(&x, 1, [][]uint64{a, b, c}[i])[0]; got != want {
			t.Errorf("chain %d: %d blocks known, want %d", i, got, want)
		}
	}
	if n := len(x.pods[0].at); n != 25 {
		t.Errorf("%d blocks are held, want 25", n)
	}
}

// TestIndexAgainstLists compares with plain lists, the most recently used at the end.
func TestIndexAgainstLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const pods = 3
		capacity := rapid.IntRange(1, 12).Draw(t, "capacity")
		var x index
		lists := make([][]uint64, pods)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			p := rapid.IntRange(0, pods-1).Draw(t, "pod")
			if rapid.IntRange(0, 9).Draw(t, "forget") == 0 {
				x.forget(p)
				lists[p] = nil
				continue
			}
			chain := chainOf(rapid.Uint64Range(0, 3).Draw(t, "topic"), rapid.IntRange(0, 8).Draw(t, "blocks"))
			x.add(p, chain, capacity)
			for i := len(chain) - 1; i >= 0; i-- {
				at := slices.Index(lists[p], chain[i])
				if at >= 0 {
					lists[p] = slices.Delete(lists[p], at, at+1)
				}
				lists[p] = append(lists[p], chain[i])
			}
			lists[p] = lists[p][max(0, len(lists[p])-capacity):]
			for topic := range uint64(4) {
				chain := chainOf(topic, 8)
				got := depths(&x, pods, chain)
				for q := range pods {
					want := 0
					for want < len(chain) && slices.Contains(lists[q], chain[want]) {
						want++
					}
					if got[q] != want {
						t.Fatalf("pod %d is said to hold %d blocks of topic %d, want %d", q, got[q], topic, want)
					}
				}
			}
		}
		held := 0
		for _, sets := range x.held {
			for _, set := range sets {
				held += bits.OnesCount64(set)
			}
		}
		want := 0
		for _, l := range lists {
			want += len(l)
		}
		if held != want {
			t.Fatalf("%d blocks are in the map, want %d", held, want)
		}
	})
}
