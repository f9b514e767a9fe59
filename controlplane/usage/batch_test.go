package usage

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

func TestNamesThatNobodyKnowsAreOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t)
		c.publish("acme") // globex has just been deleted, and there may be requests of it
		g := c.running()
		strange := &routerpb.UsageLine{Tenant: "nobody", Model: "gpt", Class: "none", Cluster: "moon", Input: 3}
		take(t, g, "r1", said("a", 1, line("acme", 1), line("globex", 2), strange, line("", 4), line(costmodel.Other, 5)))
		pass(2 * DefaultInterval)
		got := map[fleet.TenantID]int64{}
		for k, u := range c.account(costmodel.ByTenant) {
			got[k.Tenant] = u.Input
		}
		if fmt.Sprint(got) != "map[:4 (other):8 acme:1 globex:2]" {
			t.Errorf("counted %v", got)
		}
		other := costmodel.Key{Tenant: costmodel.Other, Model: costmodel.Other, Class: costmodel.Other, Cluster: costmodel.Other}
		if got := c.account(costmodel.ByTenant | costmodel.ByModel | costmodel.ByClass | costmodel.ByCluster)[other].Input; got != 3 {
			t.Errorf("%d are of unknown names", got)
		}
	})
}

func TestNumbersAreHeldWithinBounds(t *testing.T) {
	for _, n := range []int64{math.MinInt64, -1} {
		if u := usageOf(&routerpb.UsageLine{Input: n, Cached: n, Output: n, Succeeded: n, Failed: n, Bytes: n}); u != (costmodel.Usage{}) {
			t.Errorf("%d counts as %+v", n, u)
		}
	}
	u := usageOf(&routerpb.UsageLine{Input: math.MaxInt64, Cached: math.MaxInt64, Output: math.MaxInt64, Succeeded: math.MaxInt64, Failed: math.MaxInt64, Bytes: math.MaxInt64})
	if u != (costmodel.Usage{Input: MaxCount, Cached: MaxCount, Output: MaxCount, Succeeded: MaxCount, Failed: MaxCount, Bytes: MaxCount}) {
		t.Errorf("the most is %+v", u)
	}
	if u := usageOf(&routerpb.UsageLine{Input: 5, Cached: 9}); u.Cached != 5 {
		t.Errorf("%d of 5 are cached", u.Cached)
	}
}

// Minutes of an outage come late, and some put together: each is counted as of its time.
func TestMinutesOfAnOutageAreCountedAsOfTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t)
		g := c.running()
		began := c.View().Account().Begun()
		pass(3 * time.Hour)
		r := &routerpb.UsageReport{Run: "a", Sequence: 1, Minutes: []*routerpb.UsageMinute{
			{MinuteUnixS: began.Unix(), Minutes: 60, Lines: []*routerpb.UsageLine{line("acme", 60)}},
			{MinuteUnixS: began.Unix() + 7200, Lines: []*routerpb.UsageLine{line("acme", 5)}},
			{MinuteUnixS: began.Unix() + 7200, Lines: []*routerpb.UsageLine{line("acme", 2)}},
			{MinuteUnixS: began.Unix() + 7261, Lines: []*routerpb.UsageLine{line("acme", 1)}}, // a router's clock
		}}
		take(t, g, "r1", r)
		pass(2 * DefaultInterval)
		all := c.sent()
		if len(all) != 1 {
			t.Fatalf("%d commands", len(all))
		}
		var got []string
		for _, m := range all[0].GetMinutes() {
			got = append(got, fmt.Sprint(m.GetMinuteUnixS()-began.Unix(), ":", m.GetLines()[0].GetInput()))
		}
		if fmt.Sprint(got) != "[0:60 7200:7 7260:1]" {
			t.Errorf("minutes %v", got)
		}
	})
}

// Much at once is several commands, none of which is too large for the log.
func TestCommandsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t)
		var tenants []string
		for i := range 600 {
			tenants = append(tenants, fmt.Sprint(strings.Repeat("t", 100), i))
		}
		c.publish(append(tenants, "acme")...)
		g := c.running()
		pass(5 * time.Minute)
		for i := range 20 {
			r := said("a", 1)
			for j := range 100 {
				r.Minutes[0].Lines = append(r.Minutes[0].Lines, line(tenants[(20*i+j)%600], 1))
			}
			for m := range int64(3) {
				r.Minutes = append(r.Minutes, &routerpb.UsageMinute{MinuteUnixS: r.Minutes[0].MinuteUnixS - 60*m, Lines: r.Minutes[0].Lines})
			}
			take(t, g, fleet.RouterID(fmt.Sprint("r", i)), r)
		}
		pass(3 * DefaultInterval)
		all := c.sent()
		if len(all) < 2 {
			t.Errorf("%d commands", len(all))
		}
		for _, m := range all {
			if proto.Size(m) > 400<<10 {
				t.Errorf("a command of %d bytes", proto.Size(m))
			}
		}
		var sum int64
		for _, u := range c.account(costmodel.ByTenant) {
			sum += u.Input
		}
		if sum != 20*100*4 {
			t.Errorf("%d are counted of %d", sum, 20*100*4)
		}
	})
}

// Where names are longer than is thought, commands are of fewer messages.
func TestCommandsOfLongNamesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t)
		long := strings.Repeat("r", 900)
		g, err := New(Options{View: c.View, Propose: c.propose, Logger: slog.New(slog.DiscardHandler), Price: func(v *state.View, minute time.Time, lines []costmodel.Line) *statepb.CountedMinute {
			m := price(v, minute, lines)
			for _, l := range m.GetLines() {
				l.Region = long
			}
			return m
		}})
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		for i := range 8 {
			r := &routerpb.UsageReport{Run: "a", Sequence: 1}
			for m := range int64(100) {
				at := thisMinute() - 60*(m%50)
				r.Minutes = append(r.Minutes, &routerpb.UsageMinute{MinuteUnixS: at, Lines: []*routerpb.UsageLine{line([]string{"acme", "globex"}[m/50], 1)}})
			}
			if err := g.Take(fleet.RouterID(fmt.Sprint("r", i)), fleet.RegionID(fmt.Sprint("region", i)), r); err != nil {
				t.Fatal(err)
			}
		}
		g.propose(t.Context())
		all := c.sent()
		if len(all) < 2 {
			t.Errorf("%d commands", len(all))
		}
		for _, m := range all {
			if proto.Size(m) > maxCommand {
				t.Errorf("a command of %d bytes", proto.Size(m))
			}
		}
		if got := c.input("acme"); got != 8*50 || g.waiting() != 0 {
			t.Errorf("%d are counted of %d, %d wait", got, 8*50, g.waiting())
		}
	})
}

// A router that makes far more lines of a message than any does is counted, and not told apart.
func TestAMessageOfTooManyLinesIsFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t)
		g := c.running()
		r := &routerpb.UsageReport{Run: "a", Sequence: 1}
		var tenants []string
		for i := range int64(6000) {
			tenants = append(tenants, fmt.Sprint("t", i))
			r.Minutes = append(r.Minutes, &routerpb.UsageMinute{MinuteUnixS: thisMinute() - 60*(i%7), Lines: []*routerpb.UsageLine{{Cluster: "us-a", Tenant: tenants[i], Input: 1}}})
		}
		c.publish(tenants...)
		far := fleet.RegionID(strings.Repeat("f", 100))
		if err := g.Take("r1", far, r); err != nil {
			t.Fatal(err)
		}
		pass(2 * DefaultInterval)
		all := c.sent()
		if len(all) != 1 || len(all[0].GetMinutes()) != 1 || len(all[0].GetMinutes()[0].GetLines()) != 1 {
			t.Fatalf("%d commands, the first of %d minutes", len(all), len(all[0].GetMinutes()))
		}
		if l := all[0].GetMinutes()[0].GetLines()[0]; l.GetInput() != 6000 || l.GetTenant() != costmodel.Other || l.GetCluster() != "us-a" || l.GetSource() != string(far) {
			t.Errorf("line %v", l)
		}
	})
}

// Each minute that a command counts for takes time on all nodes: there are not too many of them, whatever routers tell.
func TestACommandIsOfABoundedNumberOfMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t)
		g := c.gatherer()
		of := func(first, minutes int64) *routerpb.UsageReport {
			r := &routerpb.UsageReport{Run: "a", Sequence: 1}
			for m := range minutes {
				r.Minutes = append(r.Minutes, &routerpb.UsageMinute{MinuteUnixS: 60 * (first + m), Lines: []*routerpb.UsageLine{line("acme", 1)}})
			}
			return r
		}
		take(t, g, "r1", of(1000, 40))
		take(t, g, "r2", of(1020, 40)) // with that of the first they are 60
		take(t, g, "r3", of(1000, 60))
		take(t, g, "r4", of(2000, 1))
		take(t, g, "liar", of(3000, 5000))
		g.propose(t.Context())
		var minutes []int
		var tokens int64
		for _, m := range c.sent() {
			minutes = append(minutes, len(m.GetMinutes()))
			for _, x := range m.GetMinutes() {
				for _, l := range x.GetLines() {
					tokens += l.GetInput()
				}
			}
		}
		if fmt.Sprint(minutes) != "[60 1 60]" || tokens != 40+40+60+1+5000 {
			t.Errorf("commands of %v minutes with %d tokens", minutes, tokens)
		}
		if last := c.sent()[2].GetMinutes()[59]; last.GetMinuteUnixS() != 60*3059 || last.GetLines()[0].GetInput() != 5000-59 {
			t.Errorf("the last minute is %v", last)
		}
	})
}

// Whatever routers tell, commands have all of it, within bounds, and each message is in one of them.
func TestCommandsHaveAllThatIsTold(t *testing.T) {
	c := open(t)
	rapid.Check(t, func(t *rapid.T) {
		var want, got costmodel.Usage
		runs := map[string]uint64{}
		var waiting []*message
		names := []string{"acme", "globex", "nobody", "", costmodel.Other}
		count := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64())
		for i := range rapid.IntRange(1, 8).Draw(t, "messages") {
			r := &routerpb.UsageReport{Run: "a", Sequence: rapid.Uint64Range(1, 9).Draw(t, "sequence")}
			for range rapid.IntRange(0, 4).Draw(t, "minutes") {
				m := &routerpb.UsageMinute{MinuteUnixS: rapid.OneOf(rapid.Int64Range(0, 600), rapid.Int64()).Draw(t, "minute")}
				for range rapid.IntRange(0, 5).Draw(t, "lines") {
					l := &routerpb.UsageLine{
						Tenant: rapid.SampledFrom(names).Draw(t, "tenant"), Model: "llama", Class: "interactive", Cluster: rapid.SampledFrom([]string{"us-a", "moon"}).Draw(t, "cluster"),
						Input: count.Draw(t, "input"), Cached: count.Draw(t, "cached"), Output: count.Draw(t, "output"), Succeeded: count.Draw(t, "ok"), Failed: count.Draw(t, "failed"), Bytes: count.Draw(t, "bytes"),
					}
					m.Lines = append(m.Lines, l)
					want = want.Plus(usageOf(l))
				}
				r.Minutes = append(r.Minutes, m)
			}
			m := &message{run: fmt.Sprint("r", 9-i, "/a"), from: "us", bytes: proto.Size(r), said: r}
			waiting = append(waiting, m)
			runs[m.run] = r.GetSequence()
		}
		g := c.gatherer()
		known := g.names.of(c.View())
		for most := rapid.IntRange(1, 2000).Draw(t, "bytes"); len(waiting) > 0; {
			b := gather(waiting, known, most)
			g.price(c.View(), b)
			waiting = waiting[len(b.command.GetRuns()):]
			last := ""
			for _, r := range b.command.GetRuns() {
				if r.GetRun() <= last || runs[r.GetRun()] != r.GetSequence() {
					t.Fatalf("run %v", r)
				}
				last = r.GetRun()
				delete(runs, r.GetRun())
			}
			for _, m := range b.command.GetMinutes() {
				if m.GetMinuteUnixS() < 0 || m.GetMinuteUnixS()%60 != 0 {
					t.Fatalf("minute %d", m.GetMinuteUnixS())
				}
				for _, l := range m.GetLines() {
					if l.GetTenant() == "nobody" || l.GetCluster() == "moon" || l.GetSource() != "us" {
						t.Fatalf("line %v", l)
					}
					got = got.Plus(costmodel.Usage{
						Input: l.GetInput(), Cached: l.GetCached(), Output: l.GetOutput(), Succeeded: l.GetSucceeded(), Failed: l.GetFailed(), Bytes: l.GetBytes(),
					})
				}
			}
		}
		if got != want || len(runs) > 0 {
			t.Fatalf("%+v of %+v, %d runs are in no command", got, want, len(runs))
		}
	})
}
