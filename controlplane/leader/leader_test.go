package leader

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
	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
	"anabranch/failover"
)

// replica stands in for the store of the leading node: commands are applied at once.
type replica struct {
	t *testing.T

	mu       sync.Mutex // guards what is below
	view     *state.View
	changed  chan struct{}
	fail     error // answers proposals while not nil
	proposed []proposal
	terms    chan store.Term
}

type proposal struct {
	at      time.Time
	publish *statepb.Publish
	outcome *statepb.Outcome
}

func (r *replica) View() *state.View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view
}

func (r *replica) Changed(after uint64) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.view.Index() > after {
		done := make(chan struct{})
		close(done)
		return done
	}
	return r.changed
}

func (r *replica) Terms() <-chan store.Term { return r.terms }

func (r *replica) apply(c *statepb.Command) *statepb.Outcome {
	next, out, err := state.Apply(r.view, r.view.Index()+1, c)
	if err != nil {
		r.t.Errorf("apply: %v", err)
		return nil
	}
	r.view = next
	close(r.changed)
	r.changed = make(chan struct{})
	return out
}

func (r *replica) Propose(_ context.Context, c *statepb.Command) (*statepb.Outcome, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return nil, r.fail
	}
	out := r.apply(c)
	r.proposed = append(r.proposed, proposal{time.Now(), c.GetPublish(), out})
	return out, nil
}

// write puts a resource as an operator would.
func (r *replica) write(kind policy.Kind, name, spec string) {
	r.t.Helper()
	doc := fmt.Sprintf("apiVersion: anabranch/v1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", kind, name, spec)
	parsed, problems := policy.Parse([]byte(doc))
	if len(problems) > 0 {
		r.t.Fatalf("%s: %+v", doc, problems)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.apply(&statepb.Command{
		Format: state.Format, AtUnixMs: time.Now().UnixMilli(), Actor: &statepb.Actor{Name: "ann", Role: "operator"},
		Op: &statepb.Command_Put{Put: &statepb.Put{Kind: string(kind), Name: name, Doc: policy.Canonical(parsed), AnyRevision: true}},
	})
	if out.GetCode() != "" {
		r.t.Fatalf("put %s: %v", name, out)
	}
}

func (r *replica) proposals() []proposal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]proposal(nil), r.proposed...)
}

// rig is a leader of a small fleet: us and eu and ap, one cluster each.
type rig struct {
	*replica
	leader   *Leader
	signals  *signal.Store
	registry *prometheus.Registry
	logs     *strings.Builder
	down     map[string]bool           // regions whose endpoints are gone
	mute     map[string]bool           // regions whose router is silent
	observe  func(*signal.Observation) // changes what a router tells; nil: nothing
	end      func()                    // of the term
	wait     func()                    // for Run to return
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		replica: &replica{t: t, view: state.Empty(), changed: make(chan struct{}), terms: make(chan store.Term)},
		signals: signal.New(nil), registry: prometheus.NewPedanticRegistry(), logs: &strings.Builder{}, down: map[string]bool{}, mute: map[string]bool{},
	}
	l, err := New(Options{
		Store: r.replica, Propose: r.Propose, Signals: r.signals,
		Logger: slog.New(slog.NewTextHandler(r.logs, nil)), Registerer: r.registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.leader = l
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := l.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	r.wait = func() { cancel(); <-done }
	t.Cleanup(r.wait)
	return r
}

func (r *rig) seed() {
	r.apply(&statepb.Command{Format: state.Format, Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c-1"}}})
	for _, region := range []string{"ap", "eu", "us"} {
		r.write(policy.KindRegion, region, "{peerURLs: [\"https://"+region+":1\"]}")
	}
	r.write(policy.KindModel, "m", "{}")
	for _, region := range []string{"ap", "eu", "us"} {
		r.write(policy.KindCluster, region+"-a", "{region: "+region+", models: [m], endpoints: [{id: e, url: \"http://"+region+":1\", class: h100}]}")
	}
	r.write(policy.KindTrafficPolicy, "p", "{failover: {timeScale: 0.05}}")
}

// lead begins a term.
func (r *rig) lead() {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.end = cancel
	r.terms <- store.Term{Number: 3, Ctx: ctx}
}

// pass lets time pass, with a report from each router each second.
func (r *rig) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for _, region := range []string{"ap", "eu", "us"} {
			if r.mute[region] {
				continue
			}
			ready := uint32(2)
			if r.down[region] {
				ready = 0
			}
			o := signal.Observation{
				Node: "n1", Hello: &routerpb.Hello{RouterId: "r-" + region, Region: region}, Received: time.Now(), Connected: true,
				Report: &routerpb.Report{AtUnixMs: time.Now().UnixMilli(), WindowMs: 1000, Clusters: []*routerpb.ClusterSignal{{
					Cluster: region + "-a", Model: "m", Scraped: true, EndpointsTotal: 2, EndpointsReady: ready, CapacityWork: 1000,
				}}},
			}
			if r.observe != nil {
				r.observe(&o)
			}
			r.signals.Put(o)
		}
		time.Sleep(time.Second) //nolint:forbidigo // virtual time of synctest
		synctest.Wait()
	}
}

// weight of a cluster for its own region's traffic in the table in force.
func (r *rig) weight(source, cluster string) float64 {
	for _, w := range r.View().Table().GetWeights() {
		if w.GetSource() != source {
			continue
		}
		for _, c := range w.GetClusters() {
			if c.GetCluster() == cluster {
				return c.GetWeight()
			}
		}
	}
	return -1
}

func (r *rig) health(cluster string) string {
	h, _ := r.View().HealthOf(cluster, "")
	return h.GetState()
}

func TestTheFirstTableIsPublishedAndThenNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.lead()
		r.pass(30 * time.Second)
		got := r.proposals()
		if len(got) == 0 || got[0].publish.GetTable() == nil || got[0].outcome.GetCode() != "" {
			t.Fatalf("got %+v", got)
		}
		table := r.View().Table()
		if table.GetRef().GetClusterId() != "c-1" || table.GetRef().GetRevision() == 0 || r.weight("us", "us-a") != 1 {
			t.Errorf("table is %v", table)
		}
		if len(r.View().Reasons()) != 3 || len(r.View().Health()) != 3 || r.health("us-a") != "HEALTHY" {
			t.Errorf("reasons %v, health %v", r.View().Reasons(), r.View().Health())
		}
		n := len(got)
		r.pass(time.Minute)
		if got := r.proposals(); len(got) != n {
			t.Errorf("nothing happened for a minute, and there were %d proposals: %v", len(got)-n, got[n:])
		}
	})
}

func TestNothingIsProposedWithoutATermOrACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lead()
		r.pass(10 * time.Second)
		if got := r.proposals(); len(got) != 0 {
			t.Errorf("before init there were %v", got)
		}
		r.end()
		synctest.Wait()
		r.seed()
		r.pass(10 * time.Second)
		if got := r.proposals(); len(got) != 0 {
			t.Errorf("without a term there were %v", got)
		}
	})
}

func TestAChangeOfConfigurationIsPublishedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.lead()
		r.pass(20 * time.Second)
		n := len(r.proposals())
		at := time.Now()
		for i := range 20 { // a burst becomes one table
			r.write(policy.KindTenant, fmt.Sprintf("t%d", i), "{}")
		}
		r.pass(3 * time.Second)
		got := r.proposals()[n:]
		if len(got) != 1 || len(r.View().Table().GetTenants()) != 20 {
			t.Fatalf("%d proposals, %d tenants", len(got), len(r.View().Table().GetTenants()))
		}
		if late := got[0].at.Sub(at); late < debounce || late > 2*debounce {
			t.Errorf("published after %s", late)
		}
	})
}

func TestProposalsKeepASecondApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.lead()
		r.pass(20 * time.Second)
		n := len(r.proposals())
		for i := range 200 { // ten changes a second
			r.write(policy.KindTenant, fmt.Sprintf("t%d", i), "{}")
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // virtual time of synctest
		}
		r.pass(2 * time.Second)
		got := r.proposals()[n-1:]
		for i := 1; i < len(got); i++ {
			if gap := got[i].at.Sub(got[i-1].at); gap < DefaultTick {
				t.Errorf("two proposals %s apart", gap)
			}
		}
		if len(got) < 15 || len(r.View().Table().GetTenants()) != 200 {
			t.Errorf("%d proposals in 20 s, %d tenants in the table", len(got), len(r.View().Table().GetTenants()))
		}
	})
}

func TestAKilledRegionIsLeftAndReturnsInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.lead()
		r.pass(20 * time.Second)
		r.down["us"] = true
		r.pass(5 * time.Second)
		if w := r.weight("us", "us-a"); w != 0 {
			t.Fatalf("after five seconds us-a is %s with weight %v", r.health("us-a"), w)
		}
		r.pass(10 * time.Second)
		if r.health("us-a") != "EVACUATED" {
			t.Fatalf("us-a is %s", r.health("us-a"))
		}
		if n := r.metric("health_changes_total", "EVACUATED"); n != 1 {
			t.Errorf("%v clusters were evacuated", n)
		}
		delete(r.down, "us")
		var steps []float64
		for range 60 {
			r.pass(time.Second)
			if w := r.weight("us", "us-a"); len(steps) == 0 || steps[len(steps)-1] != w {
				steps = append(steps, w)
			}
		}
		if fmt.Sprint(steps) != "[0 0.01 0.05 0.1 0.25 0.5 1]" || r.health("us-a") != "HEALTHY" {
			t.Errorf("it returned by %v and is %s", steps, r.health("us-a"))
		}
	})
}

func TestARegionThatFallsSilentKeepsItsWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.lead()
		r.pass(20 * time.Second)
		r.mute["us"] = true
		r.pass(10 * time.Second)
		if r.health("us-a") != "SUSPECT" {
			t.Errorf("us-a is %s", r.health("us-a"))
		}
		r.pass(5 * time.Minute)
		if r.health("us-a") != "SUSPECT" || r.weight("us", "us-a") != 1 {
			t.Errorf("us-a is %s with weight %v", r.health("us-a"), r.weight("us", "us-a"))
		}
	})
}

func TestANewLeaderChangesNothingByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.lead()
		r.pass(20 * time.Second)
		r.down["us"] = true
		r.pass(12 * time.Second) // evacuated
		r.end()
		synctest.Wait()
		n := len(r.proposals())
		before := r.View().Health()
		r.signals = signal.New(nil) // the new leader has heard nothing
		l, err := New(Options{Store: r.replica, Propose: r.Propose, Signals: r.signals})
		if err != nil {
			t.Fatal(err)
		}
		r.wait()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := l.Run(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
		}()
		r.lead()
		for range 8 { // 40 % of the weight is silent, less than ten seconds have passed
			time.Sleep(time.Second) //nolint:forbidigo // virtual time of synctest
		}
		if got := r.proposals(); len(got) != n {
			t.Errorf("a new leader that has heard nothing proposed %+v", got[n].publish)
		}
		if !sameHealth(before, r.View().Health()) {
			t.Errorf("health became %v", r.View().Health())
		}
		// Once it hears, it goes on from where the old leader stopped.
		delete(r.down, "us")
		r.pass(60 * time.Second)
		if r.health("us-a") != "HEALTHY" || r.weight("us", "us-a") != 1 {
			t.Errorf("us-a is %s with weight %v", r.health("us-a"), r.weight("us", "us-a"))
		}
		cancel()
		<-done
	})
}

func TestARampGoesOnUnderANewLeader(t *testing.T) {
	view := state.Empty()
	for i, c := range []*statepb.Command{
		{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c-1"}}},
		{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Health: []*statepb.ClusterHealth{
			{Cluster: "us-a", State: "RAMPING", RampStep: 3, SinceUnixMs: 1000, EvacuatedUnixMs: 500, Relapses: 2, LastRelapseUnixMs: 400, Reason: "so"},
			{Cluster: "eu-a", State: "HEALTHY"},
		}}}},
	} {
		c.Format = state.Format
		next, out, err := state.Apply(view, uint64(i+1), c)
		if err != nil || out.GetCode() != "" {
			t.Fatal(err, out)
		}
		view = next
	}
	health := restored(view)
	if c := health[failover.Place{Cluster: "us-a"}]; c.Cap() != 0.25 || c.Relapses != 2 || c.EvacuatedAt.UnixMilli() != 500 || c.Reason != "so" {
		t.Errorf("got %+v", c)
	}
	if c := health[failover.Place{Cluster: "eu-a"}]; !c.EvacuatedAt.IsZero() || c.Cap() != 1 {
		t.Errorf("got %+v", c)
	}
	if got := replicated(health, state.Format); !sameHealth(got, view.Health()) {
		t.Errorf("health does not survive the way: %v", got)
	}
}

func TestAGreyFailoverGoesOnUnderANewLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.lead()
		r.pass(2 * time.Second)
		r.end()
		synctest.Wait()
		table := proto.CloneOf(r.View().Table())
		for _, c := range table.GetClusters() {
			if c.GetId() == "us-a" {
				c.Health, c.HealthCap = "FAILING_OVER", 0.75
			}
		}
		r.apply(&statepb.Command{Format: state.Format, Op: &statepb.Command_Publish{Publish: &statepb.Publish{
			Table: table, Health: []*statepb.ClusterHealth{{Cluster: "us-a", State: "FAILING_OVER", Reason: "grey"}},
		}}})
		n := len(r.proposals())
		r.signals = signal.New(nil) // the new leader has heard nothing
		l, err := New(Options{Store: r.replica, Propose: r.Propose, Signals: r.signals})
		if err != nil {
			t.Fatal(err)
		}
		r.wait()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := l.Run(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
		}()
		r.lead()
		time.Sleep(5 * time.Second) //nolint:forbidigo // virtual time of synctest
		if got := r.proposals(); len(got) != n {
			t.Errorf("a new leader that has heard nothing proposed %+v", got[n].publish)
		}
		cancel()
		<-done
	})
}

func TestAFailedProposalIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.fail = errors.New("the disk is on fire")
		r.lead()
		r.pass(5 * time.Second)
		if n := r.metric("publish_failures_total", causeUncertain); n < 3 {
			t.Errorf("%v failures are counted in 5 s", n)
		}
		if r.View().Table() != nil || !strings.Contains(r.logs.String(), "the disk is on fire") {
			t.Fatalf("log: %s", r.logs)
		}
		r.mu.Lock()
		r.fail = nil
		r.mu.Unlock()
		r.pass(2 * time.Second)
		if r.View().Table() == nil {
			t.Error("no table after the store recovered")
		}
	})
}

func TestATableFromAnOlderOneIsRefusedAndMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.lead()
		r.pass(15 * time.Second)
		// Another leader publishes between this one's look and its proposal.
		r.mu.Lock()
		overtaken := r.view.Table()
		r.mu.Unlock()
		if overtaken == nil {
			t.Fatal("no table")
		}
		stale := &statepb.Publish{Table: &routerpb.Table{
			Ref:     &routerpb.TableRef{ClusterId: "c-1", Epoch: overtaken.GetRef().GetEpoch(), Revision: 1},
			Regions: overtaken.GetRegions(), Clusters: overtaken.GetClusters(),
		}}
		out, err := r.Propose(t.Context(), &statepb.Command{Format: state.Format, Op: &statepb.Command_Publish{Publish: stale}})
		if err != nil || out.GetCode() == "" {
			t.Fatalf("a table that starts from an older one was taken: %v %v", out, err)
		}
		r.write(policy.KindTenant, "t", "{}")
		r.pass(3 * time.Second)
		if got := len(r.View().Table().GetTenants()); got != 1 {
			t.Errorf("%d tenants in the table", got)
		}
	})
}

func TestRunEndsWithItsContextAndWithTheTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.lead()
		r.pass(3 * time.Second)
		r.wait() // in the middle of a term
		s := newRig(t)
		close(s.terms)
		synctest.Wait()
		s.wait()
	})
}

func TestOptionsNameWhatIsMissing(t *testing.T) {
	r := &replica{t: t, view: state.Empty()}
	full := Options{Store: r, Propose: r.Propose, Signals: signal.New(nil)}
	for want, change := range map[string]func(*Options){
		"Store":   func(o *Options) { o.Store = nil },
		"Propose": func(o *Options) { o.Propose = nil },
		"Signals": func(o *Options) { o.Signals = nil },
	} {
		o := full
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: %v", want, err)
		}
	}
}
