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
		for m := range int64(6000) {
			r.Minutes = append(r.Minutes, &routerpb.UsageMinute{MinuteUnixS: thisMinute() - 60*m, Lines: []*routerpb.UsageLine{{Cluster: "us-a", Tenant: "acme", Input: 1}}})
		}
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
