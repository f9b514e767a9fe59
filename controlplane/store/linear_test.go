package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"anabranch/controlplane/store/linear"
)

// crowd is clients that read and write registers while a scene breaks things. A register is used for
// a second and a half, so that the checker has many short histories instead of a long one.
type crowd struct {
	r       *rehearsal
	history *linear.History
	began   time.Time
	random  *rand.Rand
	mu      sync.Mutex // guards random
}

func (c *crowd) intN(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

// act makes clients call until ctx ends, and waits for them.
func (c *crowd) act(ctx context.Context, clients int) {
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprint("k", int(time.Since(c.began)/(1500*time.Millisecond)))
				short, cancel := context.WithTimeout(ctx, time.Second)
				if c.intN(2) == 0 {
					c.write(short, key, fmt.Sprint(client, ".", i))
				} else {
					c.read(short, key)
				}
				cancel()
				<-time.After(time.Duration(1+c.intN(40)) * time.Millisecond) // virtual
			}
		})
	}
	all.Wait()
}

// ask chooses a node: one that says it leads, if any does.
func (c *crowd) ask() *Store {
	nodes := c.r.all()
	first := c.intN(len(nodes))
	for i := range nodes {
		if s := nodes[(first+i)%len(nodes)]; s.IsLeader() {
			return s
		}
	}
	return nodes[first]
}

func (c *crowd) write(ctx context.Context, key, value string) {
	op := c.history.Write(key, value)
	switch _, err := c.ask().Propose(ctx, register(key, value)); {
	case err == nil:
		op.Done()
	case !errors.Is(err, ErrUnknownOutcome):
		op.Refused()
	}
}

// read asks for the index at a leader, and half of the time answers at another node.
func (c *crowd) read(ctx context.Context, key string) {
	op := c.history.Read(key)
	at := c.ask()
	index, err := at.ReadIndex(ctx)
	if err == nil && c.intN(2) == 0 {
		nodes := c.r.all()
		at = nodes[c.intN(len(nodes))]
		err = at.WaitApplied(ctx, index)
	}
	if err != nil {
		op.Refused()
		return
	}
	found, _ := at.View().Node(key)
	op.Saw(found.GetVersion())
}

// hiddenCommit is the trouble in which a new leader cannot commit yet: it may not answer by what it
// knows to be committed, as its predecessor acknowledged more.
const hiddenCommit = 4

// trouble does one thing that goes wrong, half of the time to the leader, and puts it right again.
func (c *crowd) trouble(kind int) {
	r := c.r
	nodes := r.all()
	victim := nodes[c.intN(len(nodes))]
	if c.intN(2) == 0 {
		victim = r.leader()
	}
	awhile := func() { <-time.After(time.Duration(500+c.intN(2000)) * time.Millisecond) } // virtual
	switch kind {
	case 0:
		r.links.set(victim.Address(), true)
	case 1:
		for _, other := range r.others(victim) {
			r.links.drop(victim, other, true)
		}
	case 2:
		for _, other := range r.others(victim) {
			r.links.drop(other, victim, true)
		}
	case 3:
		r.links.pause(victim)
	case hiddenCommit:
		r.links.onlyHeartbeats(true)
		r.links.set(r.leader().Address(), true)
	case 5:
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
		// Whatever comes of it.
		_ = r.leader().TransferLeadership(ctx, nodes[c.intN(len(nodes))].ID())
		cancel()
	case 6:
		r.crash(victim)
		awhile()
		r.begin(r.place(victim))
	}
	awhile()
	r.links.heal()
	<-time.After(time.Duration(c.intN(1000)) * time.Millisecond) // virtual
}

// ordeal has six clients for some virtual time, and returns what they saw. Hasty nodes read without a
// barrier per term, and meet only the trouble in which that matters.
func ordeal(t *testing.T, seed uint64, hasty bool, long time.Duration) *linear.History {
	t.Helper()
	h := &linear.History{}
	rehearse(t, func(o *Options) { o.hasty = hasty }, func(t *testing.T, r *rehearsal) {
		c := &crowd{r: r, history: h, began: time.Now(), random: rand.New(rand.NewPCG(seed, 1))}
		ctx, cancel := context.WithTimeout(t.Context(), long)
		defer cancel()
		var clients sync.WaitGroup
		clients.Go(func() { c.act(ctx, 6) })
		for ctx.Err() == nil {
			if hasty {
				c.trouble(hiddenCommit)
			} else {
				c.trouble(c.intN(7))
			}
		}
		clients.Wait()
	})
	return h
}

func TestReadsAndWritesAreLinearizableWhateverBreaks(t *testing.T) {
	t.Parallel()
	seeds := uint64(2)
	if os.Getenv("ANABRANCH_STRESS") != "" {
		seeds = 300
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			h := ordeal(t, seed, false, 30*time.Second)
			if err := h.Check(time.Minute); err != nil {
				t.Error(err)
			}
			reads, writes, unknowns := h.Count()
			t.Logf("%d reads, %d writes, %d of unknown outcome", reads, writes, unknowns)
			if reads < 300 || writes < 300 {
				t.Error("too few to tell")
			}
		})
	}
}

// A read that asks for leadership alone, without the barrier of the term, must be found out.
func TestReadsWithoutABarrierPerTermAreFoundOut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		err := ordeal(t, seed, true, 15*time.Second).Check(time.Minute)
		if errors.Is(err, linear.ErrViolated) {
			t.Logf("found with seed %d: %v", seed, err)
			return
		}
		t.Logf("seed %d: %v", seed, err)
	}
	t.Error("20 histories without barriers, and not one is wrong: they prove nothing of the others")
}
