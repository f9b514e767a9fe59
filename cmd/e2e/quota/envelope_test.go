package quota

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/api/routerpb"
)

// The limit of all rows: units a second, and at once.
const (
	perSecond = 60
	burst     = 60
)

// fault is one row of the table: what happens while a tenant asks for twice its limit, and by how much the
// envelope may be exceeded then.
type fault struct {
	name string
	// old: the organisations have been there for long, so that a store which knows nothing of them has lost it.
	old bool
	// bound above rate × t + burst in units, by degraded policy; a policy that is not there is not played.
	bound map[string]float64
	// used is the least part of rate × t + burst that is let through, by degraded policy.
	used map[string]float64
	// happens takes about the time that it is given.
	happens func(f *fleet, d time.Duration)
}

// share is a region's part.
const share = 1.0 / 3

var faults = []fault{
	{
		name:    "none",
		bound:   map[string]float64{"share": 0},
		used:    map[string]float64{"share": 0.95},
		happens: func(_ *fleet, d time.Duration) { pass(d) },
	},
	{
		name: "every seventh reply is lost",
		// To a router that loses two in a row Redis is away for a moment.
		bound: map[string]float64{"share": 0.2 * burst},
		used:  map[string]float64{"share": 0.6},
		happens: func(f *fleet, d time.Duration) {
			f.each(func(r *router) { r.link.losing.Store(7) })
			pass(d)
			f.each(func(r *router) { r.link.losing.Store(0) })
		},
	},
	{
		name:  "a router is killed and starts again",
		bound: map[string]float64{"share": 0},
		used:  map[string]float64{"share": 0.7},
		happens: func(f *fleet, d time.Duration) {
			f.routers[1].kill()
			pass(d / 2)
			f.routers[1].launch()
		},
	},
	{
		name: "Redis stands still",
		// Cold buckets of all parts; with closed, what is leased.
		bound: map[string]float64{"share": 0.2 * burst, "closed": 0},
		used:  map[string]float64{"share": 0.6},
		happens: func(f *fleet, d time.Duration) {
			f.redis.Freeze()
			pass(d)
			f.redis.Thaw()
		},
	},
	{
		name: "Redis dies and comes back empty",
		old:  true,
		// A fifth of the burst while it is away, and another when it has forgotten everything.
		bound: map[string]float64{"share": 0.4 * burst, "closed": 0.2 * burst},
		used:  map[string]float64{"share": 0.5},
		happens: func(f *fleet, d time.Duration) {
			f.redis.Kill()
			pass(d)
			f.redis.Restart()
		},
	},
	{
		name: "a region is cut off from Redis",
		// Its cold bucket, and what flows in for it until the others are given less.
		bound: map[string]float64{"share": share*0.2*burst + share*perSecond*1.5, "closed": 0},
		used:  map[string]float64{"share": 0.7},
		happens: func(f *fleet, d time.Duration) {
			f.routers[2].link.interrupt()
			pass(d)
			f.routers[2].link.mend()
		},
	},
}

// pass lets load go on for a time.
func pass(d time.Duration) { <-time.After(d) }

func (f *fleet) each(do func(*router)) {
	for _, r := range f.routers {
		do(r)
	}
}

// A request that has waited for so long has done without Redis, which the machine was too busy to run: it was
// away for a moment, as in the rows in which it stands still.
const (
	budget    = 50 * time.Millisecond
	coldParts = 0.2 * burst
)

// measuring is how exactly arrivals at the model server tell when the router let requests through, at best.
// A request can't arrive later than it was answered.
const measuring = 50 * time.Millisecond

// policies are what the rows are played with, each if it has a bound.
var policies = []string{"share", "closed"}

// TestTheEnvelopeHolds: whatever happens, tenants get no more than rate × t + burst and what is owed to the
// fault, and what they may have they get. Each half of the rows has a fleet, since most of it is waiting.
func TestTheEnvelopeHolds(t *testing.T) {
	calm, trouble := 700*time.Millisecond, 2500*time.Millisecond
	if os.Getenv("ANABRANCH_STRESS") != "" {
		calm, trouble = 5*time.Second, 20*time.Second
	}
	half := len(faults) / 2
	told := make([]strings.Builder, 2)
	t.Run("rows", func(t *testing.T) {
		for i, rows := range [][]fault{faults[:half], faults[half:]} {
			t.Run(fmt.Sprint("from ", i*half), func(t *testing.T) {
				t.Parallel()
				endure(t, rows, calm, trouble, &told[i])
			})
		}
	})
	t.Logf("\n| fault | degraded | bound | excess | used | longest wait |\n|---|---|---|---|---|---|\n%s%s", &told[0], &told[1])
}

// endure plays rows one after the other on one fleet, each between two times of calm, and tells what came of
// them as rows of a table.
func endure(t *testing.T, rows []fault, calm, trouble time.Duration, table io.Writer) {
	tenant := func(i int, policy string) string { return fmt.Sprintf("row-%d-%s", i, policy) }
	var quotas []*routerpb.Quota
	old := map[string]bool{}
	for i, row := range rows {
		for _, policy := range policies {
			if _, played := row.bound[policy]; played {
				old[tenant(i, policy)] = row.old
				quotas = append(quotas, rate(tenant(i, policy), "requests", perSecond*60, burst, policy))
			}
		}
	}
	f := newFleet(t, quotas, func(o *routerpb.Organisation) { o.Young = !old[o.GetId()] })
	for i, row := range rows {
		loads := map[string]*load{}
		var mu sync.Mutex // guards loads
		var running sync.WaitGroup
		for policy := range row.bound {
			running.Go(func() {
				l := f.offer(t, told{tenant: tenant(i, policy), prompt: 1, completion: 1}, 2*perSecond, 2*calm+trouble)
				mu.Lock()
				loads[policy] = l
				mu.Unlock()
			})
		}
		pass(calm)
		row.happens(f, trouble)
		running.Wait()
		for _, policy := range policies {
			l := loads[policy]
			if l == nil {
				continue
			}
			served := f.model.of(tenant(i, policy), l.began)
			over := excess(served, perSecond, burst)
			took := (2*calm + trouble).Seconds()
			used := float64(len(served)) / (perSecond*took + burst)
			bound := row.bound[policy]
			if policy == "share" && l.longest >= budget {
				bound = max(bound, coldParts)
			}
			fmt.Fprintf(table, "| %s | %s | %.0f | %.0f | %.2f | %v |\n", row.name, policy, bound, over, used, l.longest.Round(time.Millisecond))
			if most := bound + perSecond*max(measuring, l.longest).Seconds(); over > most {
				t.Errorf("%s, %s: %.1f above rate × t + burst, at most %.1f may be", row.name, policy, over, most)
			}
			if used < row.used[policy] {
				t.Errorf("%s, %s: %.2f of the limit was let through, want %.2f", row.name, policy, used, row.used[policy])
			}
			if l.longest > time.Second { // of 50 ms that a request may wait for Redis, on a machine that does other things too
				t.Errorf("%s, %s: a request took %v", row.name, policy, l.longest)
			}
			if l.admitted+l.denied == 0 {
				t.Errorf("%s, %s: nothing was answered: %v", row.name, policy, l.others)
			}
		}
	}
}
