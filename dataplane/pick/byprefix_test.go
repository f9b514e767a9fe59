package pick

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func named(n int) []Candidate {
	cands := make([]Candidate, n)
	for i := range cands {
		cands[i] = with(func(c *Candidate) { c.Hash = mix(uint64(i) + 1000) })
	}
	return cands
}

func home(t *testing.T, key uint64, cands []Candidate) uint64 {
	t.Helper()
	got, reason := Best(Request{PrefixKey: key, Concurrency: 32}, cands, PrefixHash, 7)
	if reason.Why != Placed && reason.Why != Only {
		t.Fatalf("placed for %s", reason.Why)
	}
	return cands[got].Hash
}

// Adding or removing one of n moves that one's keys, which are about 1/n of all, and no other.
func TestScalingMovesOneShareOfTheKeys(t *testing.T) {
	const keys = 60_000
	for _, n := range []int{2, 3, 4, 5, 8, 12, 16, 24, 32, 48, 64} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			all := named(n)
			gone := n / 2
			fewer := append(append([]Candidate{}, all[:gone]...), all[gone+1:]...)
			moved, stray := 0, 0
			for k := range uint64(keys) {
				before, after := home(t, mix(k), all), home(t, mix(k), fewer)
				if before != after {
					moved++
					if before != all[gone].Hash {
						stray++
					}
				}
			}
			if share := float64(moved) / keys; share > 1.1/float64(n) || share < 0.9/float64(n) {
				t.Errorf("%.4f of the keys moved, 1/%d is %.4f", share, n, 1/float64(n))
			}
			if stray > 0 {
				t.Errorf("%d keys moved that were not at what went", stray)
			}
		})
	}
}

func TestPlacementIsEvenForAnyKeys(t *testing.T) {
	cands := named(7)
	for name, key := range map[string]func(uint64) uint64{
		"hashes": mix, "small numbers": func(k uint64) uint64 { return k }, "multiples": func(k uint64) uint64 { return k << 32 },
	} {
		hits := map[uint64]int{}
		for k := range uint64(70_000) {
			hits[home(t, key(k), cands)]++
		}
		for h, n := range hits {
			if n < 9_500 || n > 10_500 {
				t.Errorf("%s: %x has %d of 70,000 keys, a seventh is 10,000", name, h, n)
			}
		}
	}
}

func TestSpillFollowsTheOrderOfTheKey(t *testing.T) {
	const threshold = 4
	cands := named(5)
	req := Request{PrefixKey: 99, Concurrency: threshold}
	var order []int
	for i := range 5 * threshold {
		got, reason := Best(req, cands, PrefixHash, mix(uint64(i)))
		want := Spilled
		if i < threshold {
			want = Placed
		}
		if reason.Why != want {
			t.Fatalf("request %d: %s, want %s", i, reason.Why, want)
		}
		if len(order) == 0 || order[len(order)-1] != got {
			order = append(order, got)
		}
		cands[got].InFlight++
	}
	if len(order) != 5 {
		t.Fatalf("filled in the order %v, want each once", order)
	}
	// All are full: the least outstanding, wherever the key belongs.
	cands[order[3]].InFlight--
	cands[order[0]].InFlight += 3
	for i := range cands {
		cands[i].InFlight += 10
	}
	if got, reason := Best(req, cands, PrefixHash, 1); got != order[3] || reason.Why != Full {
		t.Errorf("chose %d (%s), want %d, which has the fewest", got, reason.Why, order[3])
	}
	// The first has room again: back home.
	cands[order[0]].InFlight = threshold - 1
	if got, reason := Best(req, cands, PrefixHash, 1); got != order[0] || reason.Why != Placed {
		t.Errorf("chose %d (%s), want %d", got, reason.Why, order[0])
	}
	// The order is the one in which places follow when they go.
	left := append(append([]Candidate{}, named(5)[:order[0]]...), named(5)[order[0]+1:]...)
	if got, _ := Best(req, left, PrefixHash, 1); left[got].Hash != cands[order[1]].Hash {
		t.Error("the next in the order is not where keys of a place go that is gone")
	}
}

func TestPrefixChoiceAmongThoseWithTheAdapter(t *testing.T) {
	cands := named(6)
	for i := range cands {
		cands[i].AdapterState = FreeSlot
	}
	all := map[int]bool{}
	for k := range uint64(600) {
		got, _ := Best(Request{PrefixKey: k}, cands, PrefixHash, 1)
		all[got] = true
	}
	if len(all) != 6 {
		t.Errorf("nobody holds the adapter, and only %d places are used", len(all))
	}
	cands[2].AdapterState, cands[5].AdapterState = Resident, Resident
	for k := range uint64(600) {
		if got, _ := Best(Request{PrefixKey: k, Concurrency: 1}, cands, PrefixHash, 1); got != 2 && got != 5 {
			t.Fatalf("key %d went to %d, which doesn't hold the adapter", k, got)
		}
	}
	cands[2].InFlight, cands[5].InFlight = 9, 8
	if got, reason := Best(Request{Concurrency: 1}, cands, PrefixHash, 1); got != 5 || reason.Why != Full {
		t.Errorf("both holders are full, and %d was chosen (%s)", got, reason.Why)
	}
}

func TestAPlaceThatRampsSpillsEarlier(t *testing.T) {
	cands := named(2)
	first, _ := Best(Request{PrefixKey: 5, Concurrency: 20}, cands, PrefixHash, 1)
	cands[first].Ramp = 0.25
	for _, tt := range []struct {
		inFlight int64
		want     Why
	}{{0, Placed}, {4, Placed}, {5, Spilled}, {19, Spilled}} {
		cands[first].InFlight = tt.inFlight
		if _, reason := Best(Request{PrefixKey: 5, Concurrency: 20}, cands, PrefixHash, 1); reason.Why != tt.want {
			t.Errorf("%d in flight of 20 at a quarter: %s, want %s", tt.inFlight, reason.Why, tt.want)
		}
	}
}

func TestKeySeparatesGroupsWithEqualBeginnings(t *testing.T) {
	if Key(42, "") != 42 {
		t.Error("without an id it is the prefix's own hash")
	}
	rapid.Check(t, func(t *rapid.T) {
		prefix, other := rapid.Uint64().Draw(t, "prefix"), rapid.Uint64().Draw(t, "other")
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		if (Key(prefix, a) == Key(prefix, b)) != (a == b) {
			t.Fatalf("ids %q and %q", a, b)
		}
		if (Key(prefix, a) == Key(other, a)) != (prefix == other) {
			t.Fatalf("prefixes %x and %x", prefix, other)
		}
	})
}

// The slow way: put all in the order of the key, take the first with room, or the one with least.
func TestPrefixHashAgainstTheObviousWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cands, req := drawCandidates(t), drawRequest(t)
		if len(cands) == 1 {
			return
		}
		got, _ := Best(req, cands, PrefixHash, 1)
		resident := false
		for i := range cands {
			resident = resident || cands[i].AdapterState == Resident
		}
		key := mix(req.PrefixKey)
		for i := range cands {
			c := &cands[i]
			if resident && c.AdapterState != Resident {
				continue
			}
			switch open := hasRoom(c, req.Concurrency); {
			case open && !hasRoom(&cands[got], req.Concurrency):
				t.Fatalf("%d is full while %d is not", got, i)
			case open && lot(c, i, key) > lot(&cands[got], got, key):
				t.Fatalf("%d has room and comes before %d", i, got)
			case !hasRoom(&cands[got], req.Concurrency) && c.outstanding(i, mix(req.PrefixKey)) < cands[got].outstanding(got, mix(req.PrefixKey)):
				t.Fatalf("all are full, and %d has fewer than %d", i, got)
			}
		}
		if resident && cands[got].AdapterState != Resident {
			t.Fatal("some hold the adapter, and one that doesn't was chosen")
		}
	})
}
