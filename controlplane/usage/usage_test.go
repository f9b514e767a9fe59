package usage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/account"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// cluster is a state, and what happens to proposals.
type cluster struct {
	t *testing.T

	mu       sync.Mutex // guards what follows
	view     *state.View
	commands []*statepb.CountUsage
	fail     error // of proposals; they are not applied
	lost     error // of proposals that are applied
}

// open is a cluster whose account has begun with the minute before this one, and that has published a table.
func open(t *testing.T) *cluster {
	c := young(t)
	c.apply(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: FirstLevel}}})
	c.begin()
	return c
}

func young(t *testing.T) *cluster {
	c := &cluster{t: t, view: state.Empty()}
	c.apply(&statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c"}}})
	c.publish("acme", "globex")
	return c
}

func (c *cluster) begin() {
	c.apply(&statepb.Command{Op: &statepb.Command_CloseMinutes{CloseMinutes: &statepb.CloseMinutes{
		Minutes: []*statepb.MinuteBills{{MinuteUnixS: thisMinute() - 60}},
	}}})
}

// publish puts a table of these tenants in force.
func (c *cluster) publish(tenants ...string) {
	t := &routerpb.Table{
		Regions: []*routerpb.Region{{Id: "us"}},
		Clusters: []*routerpb.Cluster{{
			Id: "us-a", Region: "us", Kind: "endpoints", Models: []string{"llama"}, HealthCap: 1,
			Endpoints: []*routerpb.Endpoint{{Id: "e1", Url: "http://127.0.0.1:9", Class: "h100"}},
		}},
		Models:  []*routerpb.Model{{Id: "llama", OutputWeight: 6}},
		Classes: []*routerpb.Class{{Id: "interactive"}},
	}
	for _, tenant := range tenants {
		t.Tenants = append(t.Tenants, &routerpb.Tenant{Id: tenant, Tier: "standard"})
	}
	if out := c.apply(&statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: t}}}); out.GetCode() != "" {
		c.t.Fatalf("publish: %v", out)
	}
}

func (c *cluster) View() *state.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view
}

func (c *cluster) apply(cmd *statepb.Command) *statepb.Outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	cmd.Format, cmd.AtUnixMs = state.FormatOf(cmd), time.Now().UnixMilli()
	next, out, err := state.Apply(c.view, c.view.Index()+1, cmd)
	if err != nil {
		c.t.Error(err)
		return out
	}
	c.view = next
	return out
}

func (c *cluster) propose(_ context.Context, cmd *statepb.Command) (*statepb.Outcome, error) {
	c.mu.Lock()
	fail, lost := c.fail, c.lost
	c.commands = append(c.commands, cmd.GetCountUsage())
	c.mu.Unlock()
	if fail != nil {
		return nil, fail
	}
	return c.apply(cmd), lost
}

func (c *cluster) troubled(fail, lost error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail, c.lost = fail, lost
}

func (c *cluster) sent() []*statepb.CountUsage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commands
}

// price gives lines the weight of their tokens.
func price(_ *state.View, minute time.Time, lines []costmodel.Line) *statepb.CountedMinute {
	m := &statepb.CountedMinute{MinuteUnixS: minute.Unix()}
	for _, l := range lines {
		m.Lines = append(m.Lines, &statepb.CountedLine{
			Tenant: string(l.Tenant), Model: string(l.Model), Class: string(l.Class), Cluster: string(l.Cluster), Region: "us", Source: string(l.Source),
			Input: l.Usage.Input, Cached: l.Usage.Cached, Output: l.Usage.Output, Succeeded: l.Usage.Succeeded, Failed: l.Usage.Failed, Bytes: l.Usage.Bytes,
			Work: l.Usage.Input + l.Usage.Output,
		})
	}
	return m
}

func (c *cluster) gatherer() *Gatherer {
	c.t.Helper()
	g, err := New(Options{View: c.View, Propose: c.propose, Price: price, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		c.t.Fatal(err)
	}
	return g
}

// running runs a gatherer until the test's end.
func (c *cluster) running() *Gatherer {
	g := c.gatherer()
	ctx, cancel := context.WithCancel(c.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = g.Run(ctx) })
	c.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return g
}

// account is the whole of it, by what a key is made of.
func (c *cluster) account(by costmodel.Dimensions) map[costmodel.Key]costmodel.Usage {
	c.t.Helper()
	// What is open is part of it: a minute is closed to read it.
	a, refused := c.View().Account().Close(&statepb.CloseMinutes{Minutes: []*statepb.MinuteBills{{MinuteUnixS: thisMinute() + 60}}}, 1<<40)
	if refused != nil {
		c.t.Fatal(refused)
	}
	report, err := a.Ask(account.Query{From: a.Begun(), Until: a.Closed(), By: by})
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[costmodel.Key]costmodel.Usage{}
	for _, r := range report.Rows {
		out[r.Key] = out[r.Key].Plus(r.Usage)
	}
	return out
}

func (c *cluster) input(tenant fleet.TenantID) int64 {
	return c.account(costmodel.ByTenant)[costmodel.Key{Tenant: tenant}].Input
}

// pass lets time go by in a bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func thisMinute() int64 { return time.Now().Truncate(time.Minute).Unix() }

func line(tenant string, input int64) *routerpb.UsageLine {
	return &routerpb.UsageLine{Tenant: tenant, Model: "llama", Class: "interactive", Cluster: "us-a", Input: input, Output: 1, Succeeded: 1}
}

func said(run string, sequence uint64, lines ...*routerpb.UsageLine) *routerpb.UsageReport {
	return &routerpb.UsageReport{Run: run, Sequence: sequence, Minutes: []*routerpb.UsageMinute{{MinuteUnixS: thisMinute(), Lines: lines}}}
}

func take(t *testing.T, g *Gatherer, router fleet.RouterID, r *routerpb.UsageReport) {
	t.Helper()
	if err := g.Take(router, "us", r); err != nil {
		t.Error(err)
	}
}

func TestWhatSeveralRoutersTellIsOneCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t)
		g := c.running()
		take(t, g, "r2", said("a", 1, line("acme", 5), line("globex", 2)))
		other := line("acme", 7)
		other.Cached, other.Failed, other.Bytes, other.Estimated = 3, 2, 100, 6
		take(t, g, "r1", said("a", 1, other))
		if err := g.Take("r3", "eu", said("a", 1, line("acme", 1))); err != nil {
			t.Error(err)
		}
		pass(DefaultInterval + time.Millisecond)
		got := c.account(costmodel.ByTenant | costmodel.ByModel | costmodel.ByClass | costmodel.ByCluster | costmodel.BySource)
		at := func(tenant fleet.TenantID, from fleet.RegionID) costmodel.Key {
			return costmodel.Key{Tenant: tenant, Model: "llama", Class: "interactive", Cluster: "us-a", Source: from}
		}
		for k, want := range map[costmodel.Key]costmodel.Usage{
			at("acme", "us"):   {Input: 12, Cached: 3, Output: 2, Succeeded: 2, Failed: 2, Bytes: 100},
			at("acme", "eu"):   {Input: 1, Output: 1, Succeeded: 1},
			at("globex", "us"): {Input: 2, Output: 1, Succeeded: 1},
		} {
			if got[k] != want {
				t.Errorf("%v: %+v, want %+v", k, got[k], want)
			}
		}
		if all := c.sent(); len(all) != 1 || len(all[0].GetRuns()) != 3 || len(all[0].GetMinutes()) != 1 || len(all[0].GetMinutes()[0].GetLines()) != 3 {
			t.Errorf("commands %v", all)
		}
		take(t, g, "r1", said("a", 1, other)) // sent again
		pass(10 * DefaultInterval)
		if len(c.sent()) != 1 || c.input("acme") != 13 {
			t.Errorf("commands of what is counted, or of nothing: %v", c.sent())
		}
		if told, guessed := testutil.ToFloat64(g.metrics.tokens.WithLabelValues("model_server")), testutil.ToFloat64(g.metrics.tokens.WithLabelValues("estimate")); told != 13 || guessed != 6 {
			t.Errorf("%v tokens are told, and %v guessed", told, guessed)
		}
	})
}

// A proposal whose outcome is unknown is made again with what has not been counted.
func TestNothingIsLostOrCountedTwiceInTrouble(t *testing.T) {
	for name, trouble := range map[string]struct{ fail, lost error }{
		"no leader":      {fail: errors.New("no leader")},
		"answer is lost": {lost: errors.New("unknown outcome")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := open(t)
				g := c.running()
				c.troubled(trouble.fail, trouble.lost)
				take(t, g, "r1", said("a", 1, line("acme", 5)))
				pass(3 * DefaultInterval)
				take(t, g, "r2", said("a", 1, line("acme", 7)))
				pass(3 * DefaultInterval)
				c.troubled(nil, nil)
				pass(3 * DefaultInterval)
				if got := c.input("acme"); got != 12 {
					t.Errorf("%d are counted of 12", got)
				}
				if g.waiting() != 0 || g.bytes != 0 {
					t.Errorf("%d wait, of %d bytes", g.waiting(), g.bytes)
				}
			})
		})
	}
}

// A router that has moved is heard by two nodes. Its message is counted once, and so is what goes with it.
func TestAMessageThatTwoNodesHearCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t)
		first, second := c.running(), c.running()
		for _, g := range []*Gatherer{first, second} {
			take(t, g, "r1", said("a", 1, line("acme", 5)))
		}
		take(t, second, "r2", said("a", 1, line("acme", 7)))
		pass(5 * DefaultInterval)
		if got := c.input("acme"); got != 12 {
			t.Errorf("%d are counted of 12", got)
		}
	})
}

func TestNothingIsTakenWithoutAnAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := young(t)
		g := c.running()
		take(t, g, "r1", said("a", 1, line("acme", 5)))
		c.apply(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: FirstLevel}}})
		take(t, g, "r1", said("a", 1, line("acme", 5))) // it has not begun
		pass(3 * DefaultInterval)
		if g.waiting() != 0 || len(c.sent()) != 0 {
			t.Errorf("%d wait, %v", g.waiting(), c.sent())
		}
		c.begin()
		take(t, g, "r1", said("a", 1, line("acme", 5)))
		pass(3 * DefaultInterval)
		if got := c.input("acme"); got != 5 {
			t.Errorf("%d are counted of 5", got)
		}
	})
}

func TestMessagesThatNoRouterSendsAreRefused(t *testing.T) {
	c := open(t)
	g := c.gatherer()
	large := said("a", 1)
	for range 2000 {
		large.Minutes[0].Lines = append(large.Minutes[0].Lines, line(strings.Repeat("x", 128), 1))
	}
	for name, r := range map[string]*routerpb.UsageReport{
		"no run": said("", 1), "a long run": said(strings.Repeat("x", maxRun+1), 1), "no sequence": said("a", 0), "too large": large,
	} {
		if err := g.Take("r1", "us", r); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if g.waiting() != 0 {
		t.Errorf("%d wait", g.waiting())
	}
}

func TestWhatWaitsIsBounded(t *testing.T) {
	c := open(t)
	g := c.gatherer()
	g.most = 1 << 20
	long := strings.Repeat("x", 128)
	r := said("a", 1)
	for range 1000 {
		r.Minutes[0].Lines = append(r.Minutes[0].Lines, line(long, 1))
	}
	for i := range 20 {
		take(t, g, fleet.RouterID(fmt.Sprint("r", i)), r)
	}
	if g.bytes > g.most || testutil.ToFloat64(g.metrics.dropped) == 0 || g.waiting()+int(testutil.ToFloat64(g.metrics.dropped)) != 20 {
		t.Errorf("%d bytes wait of %d messages, %v are dropped", g.bytes, g.waiting(), testutil.ToFloat64(g.metrics.dropped))
	}
	before := g.bytes
	take(t, g, "r0", said("a", 2, line("acme", 1))) // in the place of its message before
	if g.bytes >= before {
		t.Errorf("%d bytes after %d", g.bytes, before)
	}
	take(t, g, "r0", said("a", 1, line("acme", 1))) // an earlier one
	if g.pending["r0/a"].said.GetSequence() != 2 {
		t.Error("a message is replaced by one before it")
	}
}

// A router that makes up runs takes no room from others.
func TestOfOneRouterFewMessagesWait(t *testing.T) {
	c := open(t)
	g := c.gatherer()
	take(t, g, "honest", said("a", 1, line("acme", 7)))
	for i := range 10 * maxWaiting {
		take(t, g, "liar", said(fmt.Sprint(i), 1))
	}
	if g.waiting() != maxWaiting+1 || testutil.ToFloat64(g.metrics.dropped) != 9*maxWaiting || g.pending["liar/159"] == nil {
		t.Errorf("%d wait, %v are dropped", g.waiting(), testutil.ToFloat64(g.metrics.dropped))
	}
	if least := (maxWaiting + 1) * besides; g.bytes < least {
		t.Errorf("%d bytes wait, at least %d are taken", g.bytes, least)
	}
	g.propose(t.Context())
	if len(g.unseen(c.View())) != 0 || len(g.of) != 0 || g.bytes != 0 || c.input("acme") != 7 {
		t.Errorf("%d bytes of %v routers are left, %d tokens", g.bytes, g.of, c.input("acme"))
	}
}

func TestOptionsAreChecked(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("a gatherer of nothing")
	}
	c := open(t)
	reg := prometheus.NewRegistry()
	o := Options{View: c.View, Propose: c.propose, Price: price, Registerer: reg}
	if _, err := New(o); err != nil {
		t.Error(err)
	}
	if _, err := New(o); err == nil {
		t.Error("two of one name")
	}
}
