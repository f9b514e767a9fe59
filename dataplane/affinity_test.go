package dataplane

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
	a := newAffinity(now)
	for range 1000 { // other traffic
		a.key(chain(rnd, nil, 4), rnd.Uint64(), now)
	}
	first := chain(rnd, nil, 3)
	key := a.key(first, rnd.Uint64(), now)
	for n := 4; n < 40; n++ {
		if got := a.key(chain(rnd, first, n), rnd.Uint64(), now); got != key {
			t.Fatalf("turn of %d blocks: another key", n)
		}
	}
}

func TestABeginningThatAllShareDoesNotDrawAllToOnePlace(t *testing.T) {
	rnd, now := rand.New(rand.NewPCG(1, 2)), time.Unix(1_700_000_000, 0)
	shared := chain(rnd, nil, 3) // a system prompt of three blocks
	a := newAffinity(now)
	keys := map[uint64]int{}
	for range 4000 {
		keys[a.key(chain(rnd, shared, 8), rnd.Uint64(), now)]++
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
	a := newAffinity(now)
	keys := map[uint64]int{}
	for range 4000 {
		keys[a.key(same, rnd.Uint64(), now)]++
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
	a := newAffinity(time.Unix(1_700_000_000, 0))
	for _, rnd := range []uint64{1, 2, 1 << 60} {
		if got := a.key(nil, rnd, time.Unix(1_700_000_000, 0)); got != rnd {
			t.Errorf("key %d for random %d", got, rnd)
		}
	}
}

func TestSharesAreForgotten(t *testing.T) {
	rnd, now := rand.New(rand.NewPCG(1, 2)), time.Unix(1_700_000_000, 0)
	shared := chain(rnd, nil, 3)
	a := newAffinity(now)
	for range 1000 {
		a.key(chain(rnd, shared, 8), rnd.Uint64(), now)
	}
	if got := a.key(chain(rnd, shared, 8), 0, now); got == shared[0] {
		t.Error("a crowded beginning is a key")
	}
	for range 3 { // two spans later nothing of it is left
		now = now.Add(bucketSpan)
		for range bucketFloor {
			a.key(chain(rnd, nil, 2), rnd.Uint64(), now)
		}
	}
	if got := a.key(chain(rnd, shared, 8), 0, now); got != shared[0] {
		t.Error("a beginning that is rare by now is no key")
	}
}

func TestNamedKeysDifferByTenantModelAndName(t *testing.T) {
	seen := map[uint64]bool{}
	for _, k := range [][3]string{{"a", "m", "x"}, {"b", "m", "x"}, {"a", "n", "x"}, {"a", "m", "y"}, {"am", "", "x"}, {"a", "", "mx"}} {
		key := named(fleet.TenantID(k[0]), k[1], k[2])
		if seen[key] {
			t.Errorf("%v has the key of another", k)
		}
		seen[key] = true
	}
	if salt("a") == salt("b") {
		t.Error("salts of different tenants agree")
	}
}
