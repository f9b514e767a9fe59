package route

import (
	"math/rand/v2"
	"testing"
	"time"

	"anabranch/api/fleet"
)

func chain(rnd *rand.Rand, shared []uint64, n int) []uint64 {
	blocks := append([]uint64{}, shared...)
	for len(blocks) < n {
		blocks = append(blocks, rnd.Uint64())
	}
	return blocks
}

func TestAConversationKeepsItsKey(t *testing.T) {
	rnd, now := rand.New(rand.NewPCG(1, 2)), time.Unix(1_700_000_000, 0)
	a := NewAffinity(now)
	for range 1000 { // other traffic
		a.Key(chain(rnd, nil, 4), rnd.Uint64(), now)
	}
	first := chain(rnd, nil, 3)
	key := a.Key(first, rnd.Uint64(), now)
	for n := 4; n < 40; n++ {
		if got := a.Key(chain(rnd, first, n), rnd.Uint64(), now); got != key {
			t.Fatalf("turn of %d blocks: another key", n)
		}
	}
}

func TestABeginningThatAllShareDoesNotDrawAllToOnePlace(t *testing.T) {
	rnd, now := rand.New(rand.NewPCG(1, 2)), time.Unix(1_700_000_000, 0)
	shared := chain(rnd, nil, 3) // a system prompt of three blocks
	a := NewAffinity(now)
	keys := map[uint64]int{}
	for range 4000 {
		keys[a.Key(chain(rnd, shared, 8), rnd.Uint64(), now)]++
	}
	for key, n := range keys {
		if n > 4000/4 {
			t.Errorf("key %x draws %d of 4000 requests", key, n)
		}
	}
	if len(keys) < 100 {
		t.Errorf("only %d keys", len(keys))
	}
}

func TestThePromptThatAllSendIsSpread(t *testing.T) {
	rnd, now := rand.New(rand.NewPCG(1, 2)), time.Unix(1_700_000_000, 0)
	same := chain(rnd, nil, 5)
	a := NewAffinity(now)
	keys := map[uint64]int{}
	for range 4000 {
		keys[a.Key(same, rnd.Uint64(), now)]++
	}
	most := 0
	for _, n := range keys {
		most = max(most, n)
	}
	if len(keys) < 8 || len(keys) > 16 || most > 4000/4 {
		t.Errorf("%d keys, the largest of %d requests; want about eight of a bounded share", len(keys), most)
	}
}

func TestShortPromptsGoByWeightAlone(t *testing.T) {
	a := NewAffinity(time.Unix(1_700_000_000, 0))
	for _, rnd := range []uint64{1, 2, 1 << 60} {
		if got := a.Key(nil, rnd, time.Unix(1_700_000_000, 0)); got != rnd {
			t.Errorf("key %d for random %d", got, rnd)
		}
	}
}

func TestSharesAreForgotten(t *testing.T) {
	rnd, now := rand.New(rand.NewPCG(1, 2)), time.Unix(1_700_000_000, 0)
	shared := chain(rnd, nil, 3)
	a := NewAffinity(now)
	for range 1000 {
		a.Key(chain(rnd, shared, 8), rnd.Uint64(), now)
	}
	if got := a.Key(chain(rnd, shared, 8), 0, now); got == shared[0] {
		t.Error("a crowded beginning is a key")
	}
	for range 3 { // two spans later nothing of it is left
		now = now.Add(bucketSpan)
		for range bucketFloor {
			a.Key(chain(rnd, nil, 2), rnd.Uint64(), now)
		}
	}
	if got := a.Key(chain(rnd, shared, 8), 0, now); got != shared[0] {
		t.Error("a beginning that is rare by now is no key")
	}
}

// Requests as in a published trace of a chat service: all begin with the same 512 tokens, the prompts of
// a few applications follow, then conversations, which come back longer after a while.
type talks struct {
	rnd    *rand.Rand
	apps   [][]uint64
	going  [][]uint64
	turns  []int
	shared []uint64
}

func newTalks() *talks {
	t := &talks{rnd: rand.New(rand.NewPCG(3, 4))}
	t.shared = chain(t.rnd, nil, 2)
	for range 6 {
		t.apps = append(t.apps, chain(t.rnd, t.shared, 4+t.rnd.IntN(6)))
	}
	return t
}

// next is the prompt of the next request, and which conversation it belongs to.
func (t *talks) next() ([]uint64, int) {
	i := len(t.going)
	if i > 400 && t.rnd.IntN(5) > 0 { // an old one goes on, a recent one more likely
		i -= 1 + int(400*t.rnd.Float64()*t.rnd.Float64())
	} else {
		app := t.apps[min(t.rnd.IntN(6), t.rnd.IntN(6))] // some applications have more traffic
		t.going, t.turns = append(t.going, app), append(t.turns, 0)
	}
	t.going[i] = chain(t.rnd, t.going[i], len(t.going[i])+2+t.rnd.IntN(3))
	t.turns[i]++
	return t.going[i], i
}

func TestKeysOfATraceAreBoundedAndKeepConversations(t *testing.T) {
	const requests, rate = 40_000, 50 // a second
	now := time.Unix(1_700_000_000, 0)
	a, from := NewAffinity(now), newTalks()
	keys, last := map[uint64]int{}, map[int]uint64{}
	again, kept := 0, 0
	for i := range requests {
		now = now.Add(time.Second / rate)
		blocks, talk := from.next()
		key := a.Key(blocks, from.rnd.Uint64(), now)
		if i < requests/4 {
			continue // until shares are known
		}
		keys[key]++
		if before, ok := last[talk]; ok {
			again++
			if before == key {
				kept++
			}
		}
		last[talk] = key
	}
	most := 0
	for _, n := range keys {
		most = max(most, n)
	}
	if share := float64(most) / (requests * 3 / 4); share > 1.5*bucketShare {
		t.Errorf("one key draws %.3f of the requests, want at most about %.3f", share, bucketShare)
	}
	if share := float64(kept) / float64(again); share < 0.96 {
		t.Errorf("%.3f of the turns kept their conversation's key", share)
	}
	// By rendezvous over five places the load is even enough.
	var load [5]int
	for key, n := range keys {
		best, largest := 0, uint64(0)
		for c := range load {
			if h := fold(key, uint64(c)); h > largest {
				best, largest = c, h
			}
		}
		load[best] += n
	}
	for c, n := range load {
		if share := float64(n) / (requests * 3 / 4); share < 0.1 || share > 0.32 {
			t.Errorf("place %d of five has %.3f of the requests: %v", c, share, load)
		}
	}
}

// A beginning whose share goes up and down about the bound keeps the depth that it was given.
func TestDepthsDoNotChangeBackAndForth(t *testing.T) {
	rnd, now := rand.New(rand.NewPCG(1, 2)), time.Unix(1_700_000_000, 0)
	a := NewAffinity(now)
	shared := chain(rnd, nil, 1)
	talk := chain(rnd, shared, 6)
	var before uint64
	changes, crowded := 0, 0
	for i := range 40_000 {
		now = now.Add(20 * time.Millisecond)
		every := 7 + i/500%2*2 // a seventh, a ninth, by turns of ten seconds
		switch {
		case i%every != 0:
			a.Key(chain(rnd, nil, 3), rnd.Uint64(), now)
		case i%40 < every: // now and then it is the one conversation
			key := a.Key(talk, rnd.Uint64(), now)
			if key != before {
				changes++
			}
			if before = key; key != shared[0] {
				crowded++
			}
		default:
			a.Key(chain(rnd, shared, 6), rnd.Uint64(), now)
		}
	}
	if crowded == 0 {
		t.Error("a seventh of all requests is no crowd")
	}
	if changes > 3 {
		t.Errorf("the key of one conversation changed %d times", changes)
	}
}

// When traffic is low for a while nothing is learned, and nothing forgotten.
func TestFewRequestsChangeNothing(t *testing.T) {
	rnd, now := rand.New(rand.NewPCG(1, 2)), time.Unix(1_700_000_000, 0)
	shared := chain(rnd, nil, 1)
	a := NewAffinity(now)
	for range 1000 {
		a.Key(chain(rnd, shared, 8), rnd.Uint64(), now)
	}
	talk := chain(rnd, shared, 8)
	want := a.Key(talk, 0, now)
	for range 100 {
		now = now.Add(bucketSpan / 2)
		if got := a.Key(talk, 0, now); got != want {
			t.Fatal("the key changed when hardly anyone else came")
		}
	}
}

func TestPromptsAreKeptUnderTheModelsOwnName(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	read := chain(rnd, nil, 5)
	as := func(model string) []uint64 {
		blocks := append([]uint64{}, read...)
		Under(model, blocks)
		return blocks
	}
	base, adapter := as("llama"), as("support-lora")
	for i := range read {
		if base[i] != as("llama")[i] {
			t.Fatal("the same name gives another chain")
		}
		if base[i] == adapter[i] || base[i] == read[i] {
			t.Fatal("a base model and its adapter share blocks")
		}
	}
}

func TestNamedKeysDifferByTenantModelAndName(t *testing.T) {
	seen := map[uint64]bool{}
	for _, k := range [][3]string{{"a", "m", "x"}, {"b", "m", "x"}, {"a", "n", "x"}, {"a", "m", "y"}, {"am", "", "x"}, {"a", "", "mx"}} {
		key := Named(fleet.TenantID(k[0]), k[1], k[2])
		if seen[key] {
			t.Errorf("%v has the key of another", k)
		}
		seen[key] = true
	}
	if Salt("a") == Salt("b") {
		t.Error("salts of different tenants agree")
	}
}
