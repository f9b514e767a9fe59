package capacity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/api/routerpb"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// shelf is resources as a configuration lists them.
type shelf []*policy.Resource

func (s shelf) List(kind policy.Kind) []*policy.Resource {
	var out []*policy.Resource
	for _, r := range s {
		if r.Kind == kind {
			out = append(out, r)
		}
	}
	return out
}

// watch is a keeper of a fleet with one cluster of eight replicas, of 1,000 work/s each.
type watch struct {
	*Keeper
	t         *testing.T
	resources shelf
	view      *state.View
	signals   *signal.Store
	now       time.Time
	leading   bool
	log       bytes.Buffer
	registry  *prometheus.Registry
}

func initialised(t *testing.T) *state.View {
	t.Helper()
	view, out, _ := state.Apply(state.Empty(), 1, &statepb.Command{Format: 1, Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c-1"}}})
	if out.GetCode() != "" {
		t.Fatal(out)
	}
	return view
}

func newWatch(t *testing.T, change ...func(*Options)) *watch {
	t.Helper()
	w := &watch{t: t, view: initialised(t), now: noon, leading: true, registry: prometheus.NewRegistry()}
	w.signals = signal.New(func() time.Time { return w.now })
	var endpoints []string
	for i := range 8 {
		endpoints = append(endpoints, fmt.Sprintf("{id: e%d, url: \"http://e%d:1\", class: h100}", i, i))
	}
	for _, doc := range []string{
		"kind: Region\nmetadata: {name: us}\nspec: {}", "kind: Model\nmetadata: {name: m}\nspec: {}",
		"kind: Cluster\nmetadata: {name: us-a}\nspec: {region: us, models: [m], endpoints: [" + strings.Join(endpoints, ", ") + "]}",
	} {
		r, problems := policy.Parse([]byte("apiVersion: anabranch/v1\n" + doc))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		w.resources = append(w.resources, r)
	}
	o := Options{
		View: func() *state.View { return w.view }, Signals: w.signals, Leading: func() bool { return w.leading },
		Input: func(_ *state.View, s signal.Snapshot) plan.Input {
			return plan.Input{Resources: w.resources, Signals: s, Now: s.At, Warm: true}
		},
		Now: func() time.Time { return w.now }, Logger: slog.New(slog.NewTextHandler(&w.log, nil)), Registerer: w.registry,
	}
	for _, f := range change {
		f(&o)
	}
	var err error
	if w.Keeper, err = New(o); err != nil {
		t.Fatal(err)
	}
	return w
}

// hear reports a demand for some time, and looks each ten seconds.
func (w *watch) hear(work float64, d time.Duration) {
	for range int(d / time.Second) {
		w.now = w.now.Add(time.Second)
		w.signals.Put(signal.Observation{
			Node: "n", Connected: true, Received: w.now, Hello: &routerpb.Hello{RouterId: "r", Region: "us"},
			Report: &routerpb.Report{
				AtUnixMs: w.now.UnixMilli(), WindowMs: 1000, Demand: []*routerpb.DemandSignal{{Model: "m", Class: "interactive", WorkPerS: work}},
				Clusters: []*routerpb.ClusterSignal{{Cluster: "us-a", Model: "m", Scraped: true, EndpointsTotal: 8, EndpointsReady: 8, CapacityWork: 8000}},
			},
		})
		if w.now.Second()%10 == 0 {
			w.Look()
		}
	}
}

// wanted of the cluster.
func (w *watch) wanted(survive string, peak bool) int {
	w.t.Helper()
	a, known, err := w.Advise("m", survive, peak)
	if err != nil || !known || len(a.Clusters) != 1 {
		w.t.Fatalf("%+v, %v, %v", a, known, err)
	}
	return a.Clusters[0].Wanted
}

func TestAdviceIsRememberedBetweenLooks(t *testing.T) {
	w := newWatch(t)
	w.hear(6000, 2*time.Minute)
	if n := w.wanted("", false); n != 8 {
		t.Errorf("%d are wanted", n)
	}
	w.hear(3000, 3*time.Minute)
	if n := w.wanted("", false); n != 8 {
		t.Errorf("%d are wanted three minutes after", n)
	}
	w.hear(3000, 5*time.Minute)
	if n := w.wanted("", false); n > 5 {
		t.Errorf("%d are wanted eight minutes after", n)
	}
	if n := w.wanted("", true); n != 8 {
		t.Errorf("%d are wanted for the peak of the hour", n)
	}
	if a, _, _ := w.Advise("m", "", false); a.Demand.Basis != plan.BasisRise || a.Demand.PeakPerS < 5900 || a.Survive != policy.SurviveNone {
		t.Errorf("%+v", a)
	}
	if _, known, err := w.Advise("x", "", false); known || err != nil {
		t.Errorf("of a model that is not there: %v, %v", known, err)
	}
}

func TestAdviceThatIsAskedForStaysCalmToo(t *testing.T) {
	w := newWatch(t)
	w.hear(6000, 2*time.Minute)
	if n := w.wanted(policy.SurviveRegion, false); n != 8 {
		t.Errorf("%d are wanted", n)
	}
	w.hear(2000, 2*time.Minute) // looked at between, though nobody asks
	if n := w.wanted(policy.SurviveRegion, false); n != 8 || len(w.kept) != 2 {
		t.Errorf("%d are wanted, %d kinds are kept", n, len(w.kept))
	}
	w.hear(2000, 63*time.Minute)
	if len(w.kept) != 1 {
		t.Errorf("%d kinds are kept an hour after", len(w.kept))
	}
}

func TestTheLeaderShowsWhatIsWanted(t *testing.T) {
	w := newWatch(t)
	w.hear(6000, 2*time.Minute)
	shown := func() string {
		t.Helper()
		families, err := w.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if len(families) == 0 {
			return "nothing"
		}
		return families[0].String()
	}
	want := "# HELP anabranch_wanted_capacity " + "Replicas that a cluster needs for a model, and the others that its endpoints serve, so that the objectives hold; on the leader, and of clusters whose endpoints are known.\n" +
		"# TYPE anabranch_wanted_capacity gauge\nanabranch_wanted_capacity{cluster=\"us-a\",model=\"m\"} 8\n"
	if err := testutil.CollectAndCompare(w, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	w.leading = false
	if got := shown(); got != "nothing" {
		t.Errorf("another node shows %s", got)
	}
	w.leading = true
	w.now = w.now.Add(2 * time.Minute)
	if got := shown(); got != "nothing" {
		t.Errorf("who has not looked for long shows %s", got)
	}
}

func TestANodeWithoutAStateAdvisesNothing(t *testing.T) {
	w := newWatch(t)
	w.view = state.Empty()
	w.Look()
	if a, known, err := w.Advise("m", "", false); known || err != nil {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestAFleetThatIsTooLargeIsToldOnce(t *testing.T) {
	w := newWatch(t)
	for i := range 3200 { // few routes, and a loss each
		r := &policy.Resource{Kind: policy.KindCluster, Metadata: policy.Metadata{Name: fmt.Sprintf("c%04d", i)}, Spec: &policy.ClusterSpec{Region: "us", Models: []string{"m"}}}
		policy.Defaults(r)
		w.resources = append(w.resources, r)
	}
	if _, _, err := w.Advise("m", policy.SurviveCluster, false); !errors.Is(err, plan.ErrTooMuch) {
		t.Errorf("got %v", err)
	}
	policyOf := &policy.Resource{Kind: policy.KindTrafficPolicy, Metadata: policy.Metadata{Name: "p"}, Spec: &policy.TrafficPolicySpec{Survive: policy.SurviveCluster}}
	policy.Defaults(policyOf)
	w.resources = append(w.resources, policyOf)
	w.Look()
	w.Look()
	if n := strings.Count(w.log.String(), "too large for advice"); n != 1 {
		t.Errorf("told %d times: %s", n, &w.log)
	}
}

func TestRunLooksUntilItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		w := newWatch(t, func(o *Options) {
			o.Now = time.Now
			input := o.Input
			o.Input = func(v *state.View, s signal.Snapshot) plan.Input { looks++; return input(v, s) }
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		<-time.After(35 * time.Second) // of the bubble's clock
		synctest.Wait()
		cancel()
		if err := <-done; err != nil || looks != 4 {
			t.Errorf("%d looks, %v", looks, err)
		}
	})
}

func TestOptionsThatAreMissingAreNamed(t *testing.T) {
	good := newWatch(t).o
	for name, change := range map[string]func(*Options){
		"View": func(o *Options) { o.View = nil }, "Signals": func(o *Options) { o.Signals = nil }, "Input": func(o *Options) { o.Input = nil },
		"Leading": func(o *Options) { o.Leading = nil }, "Every": func(o *Options) { o.Every = -1 },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(good); err == nil {
		t.Error("a metric was registered twice")
	}
	good.Registerer, good.Every, good.Now, good.Logger = nil, 0, nil, nil
	if k, err := New(good); err != nil || k.o.Every != DefaultEvery || k.o.Now == nil || k.logger == nil {
		t.Errorf("%+v, %v", k, err)
	}
}
