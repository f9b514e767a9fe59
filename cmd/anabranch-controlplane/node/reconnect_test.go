//go:build !race

// Timers of one synctest bubble that end at the same moment can crash Go 1.26's race detector, as they share the bubble's one
// race context; here each of many streams has some. make test plays this in a plain build.

package node

import (
	"testing"
	"testing/synctest"
	"time"
)

// In virtual time: all routers of a node lose it at once and find it again, after a moment or after
// long. The work that this makes, connecting included, is above twice the steady work for seconds only.
func TestAllRoutersThatReconnectAtOnceAreNoStorm(t *testing.T) {
	for name, away := range map[string]time.Duration{"a restart": 0, "an outage": 15 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newVirtualNode(t)
				n.up()
				routers := crowdSize()
				ready := make(chan struct{})
				var c *crowd
				c = gather(t, 0, routers, []string{"passthrough:///node"}, n.dial(func() *crowd { <-ready; return c }))
				close(ready)
				c.await(n.view.Table().GetRef().GetRevision())
				c.seconds(3)
				work, _ := c.seconds(5)
				var steady int64
				for _, w := range work {
					steady += w / int64(len(work))
				}
				n.down()
				var during []int64
				if away > 0 {
					during, _ = c.seconds(int(away / time.Second))
				}
				n.up()
				after, bytes := c.seconds(15)
				t.Logf("steady %d a second; while it was away %v; after that %v, bytes %v", steady, during, after, bytes)
				if steady < int64(routers) {
					t.Errorf("%d routers do %d a second", routers, steady)
				}
				if s := longest(append(during, after...), 2*steady); s > 10 {
					t.Errorf("above twice the steady load for %d s", s)
				}
				if last := after[len(after)-1]; last > steady*5/4 || last < steady*3/4 {
					t.Errorf("%d a second in the end: not all are back", last)
				}
				sum := int64(0)
				for _, b := range bytes {
					sum += b
				}
				if sum > 200*int64(routers) { // nobody is sent the table that it holds
					t.Errorf("%d bytes for %d routers", sum, routers)
				}
				c.leave()
				n.down()
			})
		})
	}
}
