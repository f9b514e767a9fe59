package usage

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

func key(tenant string) Key {
	return Key{Tenant: fleet.TenantID(tenant), Model: "llama", Class: "interactive", Cluster: "us-a"}
}

func counter(t *testing.T) *Counter {
	t.Helper()
	c, err := New(Options{Registerer: prometheus.NewPedanticRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// running runs a counter until the test's end.
func running(t *testing.T) *Counter {
	t.Helper()
	c := counter(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

// pass lets time go by in a bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestUseIsHandedOverByTheMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := running(t)
		start := time.Now().Truncate(time.Minute).Unix()
		pass(time.Second)
		all := Use{Input: 10, Cached: 4, Output: 3, Succeeded: 1, Failed: 2, Bytes: 100, Estimated: 5}
		c.Count(key("acme"), all)
		c.Count(key("acme"), Use{Input: 1, Succeeded: 1})
		c.Count(key("globex"), Use{Failed: 1})
		c.Count(key("umbrella"), Use{})
		if got := c.TakeUsage(time.Now(), false); len(got) != 0 {
			t.Errorf("of a minute that is running: %v", got)
		}
		pass(time.Minute)
		c.Count(key("acme"), Use{Input: 7})
		got := c.TakeUsage(time.Now(), false)
		want := []*routerpb.UsageMinute{{MinuteUnixS: start, Lines: []*routerpb.UsageLine{
			{Tenant: "acme", Model: "llama", Class: "interactive", Cluster: "us-a", Input: 11, Cached: 4, Output: 3, Succeeded: 2, Failed: 2, Bytes: 100, Estimated: 5},
			{Tenant: "globex", Model: "llama", Class: "interactive", Cluster: "us-a", Failed: 1},
		}}}
		if len(got) != 1 || !proto.Equal(got[0], want[0]) {
			t.Errorf("the first minute: %v", got)
		}
		if got := c.TakeUsage(time.Now(), false); len(got) != 0 {
			t.Errorf("again: %v", got)
		}
		got = c.TakeUsage(time.Now(), true)
		if len(got) != 1 || got[0].GetMinuteUnixS() != start+60 || got[0].GetLines()[0].GetInput() != 7 {
			t.Errorf("what was running at the end: %v", got)
		}
	})
}

// Whoever counts while minutes are closed and keys come and go has all of it counted.
func TestNothingIsLostBetweenSweeps(t *testing.T) {
	c := counter(t)
	const each, tenants = 5_000, 50
	var counting sync.WaitGroup
	stop := make(chan struct{})
	var sum int64
	taken := make(chan int64)
	take := func(last bool) (n int64) {
		for _, m := range c.TakeUsage(time.Now(), last) {
			for _, l := range m.GetLines() {
				n += l.GetSucceeded()
			}
		}
		return n
	}
	go func() {
		var n int64
		for {
			select {
			case <-stop:
				taken <- n
				return
			default:
				n += take(true)
			}
		}
	}()
	for i := range 4 {
		counting.Go(func() {
			for j := range each {
				c.Count(key(fmt.Sprint("t", (j/100+i)%tenants)), Use{Succeeded: 1})
			}
		})
	}
	counting.Wait()
	close(stop)
	if sum = <-taken + take(true); sum != 4*each {
		t.Errorf("%d of %d are there", sum, 4*each)
	}
}

func TestKeysBeyondTheBoundAreNobodysInParticular(t *testing.T) {
	c := counter(t)
	const most = 50
	c.tally = newTally(most)
	for i := range most + 10 {
		c.Count(key(fmt.Sprint("t", i)), Use{Input: 1})
	}
	for i := range spare + 10 {
		k := key("late")
		k.Cluster = fleet.ClusterID(fmt.Sprint("c", i))
		c.Count(k, Use{Input: 1})
	}
	if got := testutil.ToFloat64(c.metrics.folded); got != 10+spare+10 {
		t.Errorf("%v are told to be folded", got)
	}
	var lines, others, nowhere int
	var sum, other int64
	for {
		all := c.TakeUsage(time.Now(), true)
		if len(all) == 0 {
			break
		}
		for _, m := range all {
			for _, l := range m.GetLines() {
				lines, sum = lines+1, sum+l.GetInput()
				if l.GetTenant() == string(Other) {
					others, other = others+1, other+l.GetInput()
				}
				if l.GetCluster() == "" {
					nowhere++
				}
			}
		}
	}
	if sum != most+10+spare+10 || other != 10+spare+10 || lines != most+spare+1 || others != spare+1 || nowhere != 1 {
		t.Errorf("%d used in %d lines, of which %d in %d for others, %d nowhere", sum, lines, other, others, nowhere)
	}
}

// Keys that are not used any more leave room for others.
func TestKeysThatAreQuietAreLetGo(t *testing.T) {
	c := counter(t)
	const most = 50
	c.tally = newTally(most)
	for i := range most {
		c.Count(key(fmt.Sprint("t", i)), Use{Input: 1})
	}
	for range quietFor + 1 {
		c.Count(key("t0"), Use{Input: 1})
		c.TakeUsage(time.Now(), true)
	}
	if c.tally.count != 1 {
		t.Errorf("%d keys are left", c.tally.count)
	}
	c.Count(key("new"), Use{Input: 1})
	if got := testutil.ToFloat64(c.metrics.folded); got != 0 {
		t.Errorf("%v are folded", got)
	}
}

func TestCountingTakesNoMemory(t *testing.T) {
	c, k := counter(t), key("acme")
	c.Count(k, Use{Input: 1})
	if n := testing.AllocsPerRun(100, func() { c.Count(k, Use{Input: 11, Output: 3, Succeeded: 1}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestMetricsTellOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		c, err := New(Options{Registerer: registry})
		if err != nil {
			t.Fatal(err)
		}
		c.Count(key("acme"), Use{Input: 1})
		pass(3 * time.Minute)
		c.roll(time.Now())
		values := map[string]float64{}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			values[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
		}
		if values["anabranch_router_usage_waiting_lines"] != 1 || values["anabranch_router_usage_waiting_seconds"] != 180 {
			t.Errorf("waiting %v", values)
		}
		if _, err := New(Options{Registerer: registry}); err == nil {
			t.Error("two of one name")
		}
	})
}

func BenchmarkCount(b *testing.B) {
	c, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	k := key("acme")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Count(k, Use{Input: 11, Output: 3, Succeeded: 1})
		}
	})
}

// In ten hours without a control plane nothing is lost, and memory stays within its bounds; the last hours are
// still told by the minute.
func TestHoursWithoutControlPlaneAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := running(t)
		const tenants, hours = 150, 10
		began := time.Now()
		keys := make([]Key, tenants)
		for i := range keys {
			keys[i] = key(fmt.Sprint("t", i))
		}
		for range hours * 60 {
			for _, k := range keys {
				c.Count(k, Use{Input: 2, Succeeded: 1})
			}
			pass(time.Minute)
			if lines, _ := c.waiting(); lines > MaxLines {
				t.Fatalf("%d lines are kept", lines)
			}
		}
		if got := testutil.ToFloat64(c.metrics.coarsened); got == 0 || got > hours*60 {
			t.Errorf("%v minutes are told to be put together", got)
		}
		var sum int64
		var fine, coarse int
		for all := c.TakeUsage(time.Now(), false); len(all) > 0; all = c.TakeUsage(time.Now(), false) {
			for _, m := range all {
				if m.GetMinutes() > 1 {
					coarse++
				} else {
					fine++
				}
				if m.GetMinutes() > 60 {
					t.Errorf("%d minutes are one", m.GetMinutes())
				}
				for _, l := range m.GetLines() {
					sum += l.GetInput()
				}
			}
		}
		if sum != 2*tenants*hours*60 {
			t.Errorf("%d of %d are told", sum, 2*tenants*hours*60)
		}
		if fine < 240 || coarse == 0 || time.Since(began) < hours*time.Hour {
			t.Errorf("%d minutes by themselves, %d times longer ones", fine, coarse)
		}
	})
}

// A clock that is set back counts for an earlier minute, and takes nothing away.
func TestAClockThatIsSetBackLosesNothing(t *testing.T) {
	now := time.Unix(1_000_000_020, 0)
	c, err := New(Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []time.Duration{0, time.Minute, -3 * time.Minute, 0, time.Minute, 10 * time.Minute} {
		now = now.Add(step)
		c.roll(now)
		c.Count(key("acme"), Use{Input: 1})
	}
	now = now.Add(time.Minute)
	c.roll(now)
	var sum int64
	last := int64(0)
	for _, m := range c.TakeUsage(now, false) {
		if m.GetMinuteUnixS() <= last {
			t.Errorf("minute %d after %d", m.GetMinuteUnixS(), last)
		}
		last = m.GetMinuteUnixS()
		sum += m.GetLines()[0].GetInput()
	}
	if sum != 6 {
		t.Errorf("%d of 6 are told", sum)
	}
}

// The last minute is handed over in parts, too, and after it there is nothing.
func TestTheLastMinuteComesInParts(t *testing.T) {
	c := counter(t)
	const tenants = 3000
	for i := range tenants {
		c.Count(key(fmt.Sprint("tenant-with-a-long-name-", i)), Use{Input: 1})
	}
	parts, lines := 0, 0
	for all := c.TakeUsage(time.Now(), true); len(all) > 0; all = c.TakeUsage(time.Now(), true) {
		parts++
		size := 0
		for _, m := range all {
			lines += len(m.GetLines())
			size += proto.Size(m)
		}
		if size > maxMessage+1000 {
			t.Errorf("a part of %d bytes", size)
		}
	}
	if parts < 2 || lines != tenants {
		t.Errorf("%d lines in %d parts", lines, parts)
	}
}
