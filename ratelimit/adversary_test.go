package ratelimit

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// hoarder is a router without manners: it asks for anything, sits on what it has, and spends it
// at the worst moment. It keeps to the protocol alone.
type hoarder struct {
	name             string
	seq              int64
	have, base, used int64
	untilUs, sentUs  int64
	pending          *In
}

func (h *hoarder) call(random *rand.Rand, a *Account, l Limit, now int64) {
	if h.pending == nil {
		if now >= h.untilUs {
			h.have = 0
		}
		back, want := int64(0), l.Burst
		if random.IntN(4) == 0 {
			back = random.Int64N(h.have + 1)
		}
		if random.IntN(2) == 0 {
			want = random.Int64N(l.Burst + 1)
		}
		h.have -= back
		h.seq++
		h.pending = &In{
			Org: "o", Epoch: 1, Young: true, Router: h.name, Seq: h.seq, TTL: DefaultTTL,
			Path: []Level{{Limit: l, Want: want, Used: h.used, Back: back}},
		}
		h.base, h.used, h.sentUs = h.have, 0, now
	}
	out := a.Lease(h.pending, now)
	if random.IntN(6) == 0 {
		return // the answer is lost, and asked for again under its number
	}
	h.pending = nil
	// Less than nothing: spent under a lease that the authority took for over.
	h.have = max(h.have+out.Path[0].Held-h.base, 0)
	h.untilUs = h.sentUs + out.Valid.Microseconds()
}

// TestNeverMoreThanTheEnvelopeWhateverRoutersDo holds every window to rate × t + burst, whatever
// sound but greedy routers ask for and whenever they spend it.
func TestNeverMoreThanTheEnvelopeWhateverRoutersDo(t *testing.T) {
	runs := 3000
	if testing.Short() {
		runs = 300
	}
	for seed := range uint64(runs) {
		random := rand.New(rand.NewPCG(seed, 5))
		l := rate("x", 60+random.Int64N(600_000), 1+random.Int64N(20_000))
		a, over, now := &Account{}, newEnvelope(l), int64(1_000_000_000)
		over.atUs = now
		routers := []*hoarder{{name: "r0"}, {name: "r1"}, {name: "r2"}}
		for i := range 60 {
			h := routers[random.IntN(3)]
			switch random.IntN(10) {
			case 0, 1:
				now += random.Int64N(2_500_000)
			case 2:
				now += random.Int64N(300_000)
			case 3, 4, 5:
				h.call(random, a, l, now)
			case 6:
				if random.IntN(3) == 0 {
					*h = hoarder{name: "n" + strconv.Itoa(i)} // crashed, and started again
				}
			default:
				if now >= h.untilUs || h.have == 0 {
					continue
				}
				n := h.have
				if random.IntN(3) == 0 {
					n = 1 + random.Int64N(n)
				}
				h.have, h.used = h.have-n, h.used+n
				if excess := over.spend(n, now); excess > 0 {
					t.Fatalf("seed %d step %d: %d more than rate × t + burst were spent", seed, i, excess)
				}
			}
		}
	}
}
