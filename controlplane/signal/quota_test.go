package signal

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/routerpb"
)

func limits(quotas ...*routerpb.QuotaSignal) func(*routerpb.Report) {
	return func(r *routerpb.Report) { r.Quotas = quotas }
}

// only is the one limit that there is of an organisation.
func only(t *testing.T, s Snapshot, organisation string) Limit {
	t.Helper()
	all := s.Limits(organisation)
	if len(all) != 1 {
		t.Fatalf("%s has %d limits: %+v", organisation, len(all), all)
	}
	return all[0]
}

func TestALimitIsPutTogetherFromAllRouters(t *testing.T) {
	c := newClock()
	c.report("us", limits(&routerpb.QuotaSignal{
		Organisation: "acme", Limit: "q/requests", Level: 500, LevelAgeMs: 200, Held: 40, InUse: 3, Used: 10, Admitted: 10, Denied: 4, WouldDeny: 1,
	}))
	c.pass(500 * time.Millisecond)
	c.report("eu", limits(
		&routerpb.QuotaSignal{
			Organisation: "acme", Limit: "q/requests", Level: 460, LevelAgeMs: 100, Held: 60, InUse: 2, Used: 30, Admitted: 30, Degraded: true, Owed: 7,
		},
		&routerpb.QuotaSignal{Organisation: "globex", Limit: "g/requests", LevelAgeMs: -1, Denied: 1},
	))
	s := c.look()
	if got := s.Organisations(); !slices.Equal(got, []string{"acme", "globex"}) {
		t.Errorf("organisations %q", got)
	}
	got := only(t, s, "acme")
	if got.Organisation != "acme" || got.ID != "q/requests" || got.Level != 460 || got.LevelAge != 100*time.Millisecond {
		t.Errorf("the newest level is the second router's: %+v", got)
	}
	want := Tally{
		Routers: 2, Degraded: 1, Held: 100, InUse: 5, Owed: 7, UsedPerS: 40, AdmittedPerS: 40, DeniedPerS: 4, WouldDenyPerS: 1,
		Admitted: 40, Denied: 4, WouldDeny: 1,
	}
	if got.Tally != want {
		t.Errorf("together %+v, want %+v", got.Tally, want)
	}
	if eu := got.Regions["eu"]; len(got.Regions) != 2 || eu.UsedPerS != 30 || eu.Degraded != 1 || eu.Held != 60 || got.Regions["us"].Denied != 4 {
		t.Errorf("by region %+v", got.Regions)
	}
	if g := only(t, s, "globex"); g.LevelAge != -1 || g.Level != 0 || g.Denied != 1 {
		t.Errorf("of what was never asked for: %+v", g)
	}
	if got := s.Limits("nobody"); len(got) != 0 {
		t.Errorf("somebody unknown has %+v", got)
	}
}

func TestRatesOfLimitsAreSmoothedAndFade(t *testing.T) {
	c := newClock()
	say := func(used int64, denied uint64) {
		c.report("us", limits(&routerpb.QuotaSignal{Organisation: "acme", Limit: "l", LevelAgeMs: -1, Used: used, Denied: denied, Held: 5}))
	}
	say(100, 10)
	c.pass(15 * time.Second)
	say(200, 0)
	got := only(t, c.look(), "acme")
	near(t, "used after a step", got.UsedPerS, 100+100*(1-1/math.E))
	near(t, "denied after the end", got.DeniedPerS, 10/math.E)
	// A report that does not speak of the limit says that nothing was used, and that nothing is held.
	c.pass(15 * time.Second)
	c.report("us", nil)
	faded := only(t, c.look(), "acme")
	near(t, "used after silence", faded.UsedPerS, got.UsedPerS/math.E)
	if faded.Held != 0 || faded.Routers != 0 || faded.Denied != 10 {
		t.Errorf("a report later %+v", faded)
	}
	// A router that is not heard of keeps its figures until it is absent.
	c.pass(20 * time.Second)
	near(t, "used while the router is stale", only(t, c.look(), "acme").UsedPerS, faded.UsedPerS)
	c.pass(11 * time.Second)
	if got := c.look().Limits("acme"); len(got) != 0 {
		t.Errorf("of an absent router %+v", got)
	}
}

func TestRefundsDoNotMakeUseNegative(t *testing.T) {
	c := newClock()
	c.report("us", limits(&routerpb.QuotaSignal{Organisation: "acme", Limit: "l", Used: -50}))
	c.report("eu", limits(&routerpb.QuotaSignal{Organisation: "acme", Limit: "l", Used: 80}))
	got := only(t, c.look(), "acme")
	if got.UsedPerS != 30 || got.Regions["us"].UsedPerS != 0 || got.Regions["eu"].UsedPerS != 80 {
		t.Errorf("got %+v", got)
	}
}

func TestLimitsNobodySpeaksOfAreForgotten(t *testing.T) {
	c := newClock()
	both := limits(&routerpb.QuotaSignal{Organisation: "a", Limit: "1", Used: 1}, &routerpb.QuotaSignal{Organisation: "b", Limit: "2", Used: 1})
	c.report("us", both)
	for range 61 {
		c.pass(10 * time.Second)
		c.report("us", limits(&routerpb.QuotaSignal{Organisation: "b", Limit: "2", Used: 1}))
	}
	if got := c.look().Organisations(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("ten minutes later %q are left", got)
	}
	for range 61 {
		c.pass(10 * time.Second)
		c.report("us", nil)
	}
	if got := c.look().Organisations(); len(got) != 0 {
		t.Errorf("and then %q", got)
	}
}

// What a router says of limits is believed only within what whole numbers can be summed up to.
func TestOneBadLimitDoesNotPoisonSums(t *testing.T) {
	c := newClock()
	bad := &routerpb.QuotaSignal{
		Organisation: "a", Limit: "l", Level: math.MaxInt64, LevelAgeMs: math.MaxInt64, Held: math.MaxInt64, InUse: -4, Owed: math.MinInt64, Used: math.MinInt64,
		Admitted: math.MaxUint64, Denied: math.MaxUint64,
	}
	for range 3 {
		c.pass(time.Second)
		c.report("us", limits(bad))
	}
	c.report("eu", limits(&routerpb.QuotaSignal{Organisation: "a", Limit: "l", Level: 9, Held: 5, InUse: 2}))
	got := only(t, c.look(), "a")
	if got.Level != 9 || got.Held < 5 || got.InUse != 2 || got.Admitted == 0 || math.IsNaN(got.UsedPerS) || got.UsedPerS < 0 || got.LevelAge < 0 {
		t.Errorf("got %+v", got)
	}
	many := make([]*routerpb.QuotaSignal, maxLimits+10)
	for i := range many {
		many[i] = &routerpb.QuotaSignal{Organisation: "flood", Limit: fmt.Sprintf("%05d", i)}
	}
	c.pass(time.Second)
	c.report("us", limits(many...))
	c.report("us", limits(many[10:]...))
	if got := len(c.routers["r-us"].quotas); got > maxLimits {
		t.Errorf("%d limits of one router are kept", got)
	}
}

func TestOfTwoWordsOnOneLimitTheFirstCounts(t *testing.T) {
	c := newClock()
	c.report("us", limits(&routerpb.QuotaSignal{Organisation: "a", Limit: "l", Used: 1}, &routerpb.QuotaSignal{Organisation: "a", Limit: "l", Used: 9}))
	if got := only(t, c.look(), "a"); got.UsedPerS != 1 || got.Routers != 1 {
		t.Errorf("got %+v", got)
	}
}

// Whatever reports of some routers say, in whatever order limits stand there, the list kept is sorted,
// has each limit once, and totals are the sums of what was said.
func TestLimitsAreKeptInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		sums := map[string]uint64{}
		for range rapid.IntRange(1, 8).Draw(t, "reports") {
			c.pass(time.Second)
			var said []*routerpb.QuotaSignal
			for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a/1", "a/2", "b/1", "c/9", "c/10"}), 0, 5, rapid.ID).Draw(t, "limits") {
				n := rapid.Uint64Range(0, 9).Draw(t, "admitted")
				said = append(said, &routerpb.QuotaSignal{Organisation: id[:1], Limit: id[2:], Admitted: n})
				sums[id] += n
			}
			c.report("us", limits(said...))
		}
		got := map[string]uint64{}
		s := c.look()
		for _, o := range s.Organisations() {
			for _, l := range s.Limits(o) {
				got[o+"/"+l.ID] = l.Admitted
			}
		}
		for id, n := range sums {
			if got[id] != n {
				t.Fatalf("%s was admitted %d times, want %d: %v", id, got[id], n, got)
			}
		}
		if !slices.IsSortedFunc(c.routers["r-us"].quotas, use.compare) {
			t.Fatalf("kept %v", c.routers["r-us"].quotas)
		}
	})
}

// A snapshot stays as it is while reports come in, and messages are not written to.
func TestSnapshotsOfLimitsDoNotChange(t *testing.T) {
	c := newClock()
	said := &routerpb.QuotaSignal{Organisation: "a", Limit: "l", Used: 10, Held: 4}
	before := proto.CloneOf(said)
	c.report("us", limits(said))
	s := c.look()
	was := only(t, s, "a")
	c.pass(time.Second)
	c.report("us", limits(&routerpb.QuotaSignal{Organisation: "a", Limit: "l", Used: 90, Held: 1}))
	if now := only(t, s, "a"); now.Tally != was.Tally {
		t.Errorf("it was %+v and is %+v", was.Tally, now.Tally)
	}
	if !proto.Equal(said, before) {
		t.Errorf("the message became %v", said)
	}
}

func TestAllLimitsAreThoseOfEachOrganisation(t *testing.T) {
	c := newClock()
	for _, at := range []string{"us", "eu", "ap"} {
		var said []*routerpb.QuotaSignal
		for i := range 12 {
			if len(at)+i%3 != 3 { // not every router speaks of all
				said = append(said, &routerpb.QuotaSignal{Organisation: fmt.Sprint("t", i/4), Limit: fmt.Sprint("q", i), Used: int64(i), Admitted: 1, LevelAgeMs: int64(len(said))})
			}
		}
		c.report(at, limits(said...))
		c.pass(time.Second)
	}
	s := c.look()
	all := s.AllLimits()
	if organisations := s.Organisations(); len(organisations) != 3 || len(all) != 3 {
		t.Fatalf("%d and %d organisations", len(organisations), len(all))
	}
	for organisation, got := range all {
		if want := s.Limits(organisation); !reflect.DeepEqual(got, want) || len(got) == 0 {
			t.Errorf("%s: got %+v, want %+v", organisation, got, want)
		}
	}
}

// A report of a router through which all limits of a large fleet are used.
func BenchmarkReportOfManyLimits(b *testing.B) {
	var said []*routerpb.QuotaSignal
	for i := range 20_000 {
		said = append(said, &routerpb.QuotaSignal{Organisation: fmt.Sprintf("t%05d", i/2), Limit: fmt.Sprintf("q%05d/requests", i), Used: 1, Admitted: 1})
	}
	c := newClock()
	b.ReportAllocs()
	for b.Loop() {
		c.pass(time.Second)
		c.report("us", limits(said...))
	}
}

// What twenty routers say of one organisation among ten thousand.
func BenchmarkLimitsOfOneOrganisation(b *testing.B) {
	c := newClock()
	var said []*routerpb.QuotaSignal
	for i := range 20_000 {
		said = append(said, &routerpb.QuotaSignal{Organisation: fmt.Sprintf("t%05d", i/2), Limit: fmt.Sprintf("q%05d/requests", i), Used: 1, Admitted: 1})
	}
	for i := range 20 {
		c.report(fmt.Sprint("us", i), limits(said...))
	}
	s := c.look()
	b.ReportAllocs()
	for b.Loop() {
		if len(s.Limits("t05000")) != 2 {
			b.Fatal("not found")
		}
	}
}

func TestALimitThatNobodyUsesIsDegradedAsLongAsARouterSaysSo(t *testing.T) {
	c := newClock()
	say := func(degraded bool) *routerpb.QuotaSignal {
		return &routerpb.QuotaSignal{Organisation: "acme", Limit: "q/requests", LevelAgeMs: -1, Degraded: degraded}
	}
	report := func(storeOK bool, quotas ...*routerpb.QuotaSignal) Tally {
		c.pass(time.Second)
		c.report("us", func(r *routerpb.Report) { r.QuotaStoreOk, r.Quotas = storeOK, quotas })
		return only(t, c.look(), "acme").Tally
	}
	for at, step := range []struct {
		storeOK bool
		says    []*routerpb.QuotaSignal
		want    int
	}{
		{true, []*routerpb.QuotaSignal{say(false)}, 0},
		{false, nil, 0}, // another store
		{false, []*routerpb.QuotaSignal{say(true)}, 1},
		{false, nil, 1},
		{false, nil, 1},
		{false, []*routerpb.QuotaSignal{say(false)}, 0}, // another store still is away
		{false, nil, 0},
		{false, []*routerpb.QuotaSignal{say(true)}, 1},
		{true, nil, 0}, // a router that says no more of it
	} {
		got := report(step.storeOK, step.says...)
		if got.Degraded != step.want || got.Routers < step.want {
			t.Errorf("step %d: %d of %d routers, want %d", at, got.Degraded, got.Routers, step.want)
		}
	}
}
