package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"anabranch/controlplane/store/linear"
)

// stressed chooses between the form of a test for every change and the long one.
func stressed[T any](short, long T) T {
	if os.Getenv("ANABRANCH_STRESS") != "" {
		return long
	}
	return short
}

// seeded gives a source of random numbers, and prints what repeats its choices.
func seeded(t *testing.T) func(stream uint64) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }
}

// Six clients read and change registers over HTTP, at any node, while nodes are killed, stopped and
// cut off and leadership moves: one order of all calls explains what each of them was told.
func TestWhatClientsSeeIsLinearizable(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	random := seeded(t)
	ctx, cancel := context.WithTimeout(t.Context(), stressed(18*time.Second, 10*time.Minute))
	defer cancel()
	var history linear.History
	var running sync.WaitGroup
	began := time.Now()
	for client := range 6 {
		running.Go(func() {
			r := random(uint64(1 + client))
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprint("r", int(time.Since(began)/(1500*time.Millisecond)))
				short, stop := context.WithTimeout(context.WithoutCancel(ctx), 6*time.Second)
				c.use(short, r, &history, name, fmt.Sprintf("%d.%d", client, i))
				stop()
				wait(ctx, time.Duration(r.IntN(40))*time.Millisecond)
			}
		})
	}
	faults := random(0)
	for ctx.Err() == nil {
		c.fault(ctx, faults)
	}
	running.Wait()
	reads, writes, unknowns := history.Count()
	t.Logf("%d reads, %d writes, %d of unknown outcome", reads, writes, unknowns)
	if reads < 100 || writes < 50 {
		t.Error("too few to tell")
	}
	if err := history.Check(2 * time.Minute); err != nil {
		t.Error(err)
	}
}

// use reads a register, and half of the time changes it if it is still what was read.
func (c *cluster) use(ctx context.Context, random *rand.Rand, history *linear.History, name, value string) {
	op := history.Read(name)
	found, etag, ok := c.get(ctx, c.nodes[random.IntN(len(c.nodes))], name)
	if !ok {
		op.Refused()
		return
	}
	op.Saw(found)
	if random.IntN(2) == 0 {
		return
	}
	op = history.Swap(name, found, value)
	switch _, done, mismatch, never := c.put(ctx, random, name, etag, value); {
	case done:
		op.Done()
	case mismatch:
		op.Mismatch()
	case never:
		op.Refused()
	}
}
