package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"syscall"
	"time"
)

// fault breaks something, half of the time at the leader, for a moment, and puts it right again.
func (c *cluster) fault(ctx context.Context, random *rand.Rand) {
	victim := c.nodes[random.IntN(len(c.nodes))]
	if leader := c.leader(); leader != nil && random.IntN(2) == 0 {
		victim = leader
	}
	others := []int{(victim.place + 1) % 3, (victim.place + 2) % 3}
	var lost []way
	for _, o := range others {
		lost = append(lost, way{victim.place, o}, way{o, victim.place})
	}
	switch random.IntN(6) {
	case 0:
		victim.kill()
		wait(ctx, time.Duration(random.IntN(500))*time.Millisecond)
		victim.start()
	case 1:
		victim.signal(syscall.SIGSTOP)
		wait(ctx, time.Duration(300+random.IntN(1500))*time.Millisecond)
		victim.signal(syscall.SIGCONT)
	case 2: // cut off
		c.network.lose(lost...)
		wait(ctx, time.Duration(500+random.IntN(1500))*time.Millisecond)
		c.network.lose()
	case 3: // it speaks and does not hear, or the other way round
		at := random.IntN(2)
		c.network.lose(lost[at], lost[2+at])
		wait(ctx, time.Duration(500+random.IntN(1500))*time.Millisecond)
		c.network.lose()
	case 4: // what two are cut off from each other, the third connects
		c.network.lose(lost[0], lost[1])
		wait(ctx, time.Duration(500+random.IntN(1500))*time.Millisecond)
		c.network.lose()
	case 5:
		// Whatever comes of it: any node takes the order, and may know of no leader.
		c.call(ctx, c.nodes[random.IntN(3)], http.MethodPost, "/v1/controlplane/transfer", `{}`)
	}
	wait(ctx, time.Duration(random.IntN(700))*time.Millisecond)
}

// wait lets a fault last.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
