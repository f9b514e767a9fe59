package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// writer is one client that alone writes its registers, one after the other, each some times.
type writer struct {
	c      *cluster
	random *rand.Rand
	name   string
	etag   string
	n      int
	acked  int
	// holds is, for each register, what it may hold: the last value that was acknowledged, and those
	// after it of which the outcome is not known.
	holds map[string]map[string]bool
}

// write sends the next value. If it is not known what came of it, or somebody else seems to have
// written, a strong read tells.
func (w *writer) write(ctx context.Context, prefix string) error {
	if w.n%25 == 0 {
		w.name, w.etag = fmt.Sprintf("%s-%d", prefix, w.n/25), ""
		w.holds[w.name] = map[string]bool{"": true}
	}
	w.n++
	value := fmt.Sprint(w.n)
	w.holds[w.name][value] = true
	etag, done, _, never := w.c.put(ctx, w.random, w.name, w.etag, value)
	switch {
	case done:
		w.acked++
		w.etag, w.holds[w.name] = etag, map[string]bool{value: true}
		return nil
	case never:
		delete(w.holds[w.name], value)
		return nil
	}
	for ctx.Err() == nil {
		found, etag, ok := w.c.get(ctx, w.c.nodes[w.random.IntN(len(w.c.nodes))], w.name)
		if !ok {
			wait(ctx, 100*time.Millisecond)
			continue
		}
		if !w.holds[w.name][found] {
			return fmt.Errorf("register %s holds %q, want one of %v", w.name, found, w.holds[w.name])
		}
		if w.etag = etag; found != "" {
			delete(w.holds[w.name], "") // it is there for good
		}
		return nil
	}
	return nil
}

// Nodes die at any moment, sometimes two at once and in the end all of them. Whatever was
// acknowledged is on the disk of each of them afterwards.
func TestKillsLoseNothingAcknowledged(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	random := seeded(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	var writers []*writer
	for i := range 4 {
		w := &writer{c: c, random: random(uint64(1 + i)), holds: map[string]map[string]bool{}}
		writers = append(writers, w)
		running.Go(func() {
			for ctx.Err() == nil {
				if err := w.write(ctx, fmt.Sprint("w", i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	r := random(0)
	for kills := stressed(30, 1000); kills > 0 && !t.Failed(); {
		first := c.nodes[r.IntN(len(c.nodes))]
		victims := []*process{first}
		if r.IntN(8) == 0 {
			victims = append(victims, c.nodes[(first.place+1)%len(c.nodes)])
		}
		for _, v := range victims {
			v.kill()
			kills--
		}
		wait(ctx, time.Duration(r.IntN(200))*time.Millisecond)
		for _, v := range victims {
			v.start()
		}
		wait(ctx, time.Duration(r.IntN(500))*time.Millisecond)
	}
	cancel()
	running.Wait()
	for _, p := range c.nodes {
		p.kill()
	}
	for _, p := range c.nodes {
		p.start()
	}
	acked, registers := 0, 0
	for _, w := range writers {
		acked += w.acked
		registers += len(w.holds)
		for name, holds := range w.holds {
			for _, p := range c.nodes {
				c.await("a strong read at "+p.id, func() error {
					found, _, ok := c.get(t.Context(), p, name)
					if !ok {
						return fmt.Errorf("no answer")
					}
					if !holds[found] {
						t.Errorf("%s holds %q in register %s, want one of %v", p.id, found, name, holds)
					}
					return nil
				})
			}
		}
	}
	t.Logf("%d writes acknowledged, in %d registers, each looked up at %d nodes", acked, registers, len(c.nodes))
	if acked < 200 {
		t.Error("too few writes to tell")
	}
}
