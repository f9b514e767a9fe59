package world

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"anabranch/sim/workload"
)

func TestPodsCostWhileTheyAreThere(t *testing.T) {
	t.Parallel()
	s := three(1)
	s.Clusters = s.Clusters[:1]
	s.Clusters[0].Pods[0].Count = 3
	s.Clusters[0].Pods[0].Options.StartUp = 10 * time.Second
	s.Warmup = 100 * time.Second
	s.Events = []Event{
		{Kind: PodLoss, Cluster: "us-east-1", Pod: 1, At: 200 * time.Second, For: 50 * time.Second},
		{Kind: ScaleIn, Cluster: "us-east-1", At: 300 * time.Second},
		{Kind: Price, Cluster: "us-east-1", Factor: 3, At: 400 * time.Second, For: 100 * time.Second},
		{Kind: ScaleOut, Cluster: "us-east-1", At: 600 * time.Second},
	}
	r := play(t, s, &turns{}, ask(1, 0, 1), ask(2, 1000*time.Second, 1))
	end := r.Ended.Seconds()
	for i, want := range []struct{ alive, dollars float64 }{
		{end - 100, (end - 100 + 200) / 1000}, // a thousandth of a dollar a second
		{end - 150, (end - 150 + 200) / 1000},
		{200, 0.2},
		{end - 600, (end - 600) / 1000},
	} {
		got := r.Pods[0][i]
		if math.Abs(got.Alive.Seconds()-want.alive) > 1e-6 || math.Abs(float64(got.MicroUSD)-want.dollars*1e6) > 1 {
			t.Errorf("pod %d: %v for %d µ$, want %v s for %v $", i, got.Alive, got.MicroUSD, want.alive, want.dollars)
		}
	}
	if len(r.Records) != 1 || r.Records[0].ID != 2 {
		t.Errorf("only what came after the warm-up is recorded: %+v", r.Records)
	}
}

func TestPodsCountTheirWork(t *testing.T) {
	t.Parallel()
	s := three(1)
	s.Warmup = time.Second
	first, again, cold := ask(1, 0, 5), ask(2, 2*time.Second, 7), ask(3, 10*time.Second, 1)
	for i := range 10 {
		first.Blocks = append(first.Blocks, uint64(i+1))
	}
	again.Blocks, cold.Blocks = first.Blocks, first.Blocks
	s.Events = []Event{{Kind: PodLoss, Cluster: "us-east-1", At: 5 * time.Second, For: time.Second}}
	r := play(t, s, scripted(map[uint64]string{1: "0/0", 2: "0/0", 3: "0/0"}), first, again, cold)
	// The last of ten blocks is always computed. The pod that came back knows none.
	want := PodTotal{Class: "h100", Served: 2, Prompt: 320, Cached: 144, Output: 8}
	got := r.Pods[0][0]
	got.Alive, got.MicroUSD = 0, 0
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if r.Records[0].Cached != 144 || r.Records[1].Cached != 0 {
		t.Errorf("cached of the records: %d and %d", r.Records[0].Cached, r.Records[1].Cached)
	}
}

func TestAnswersThatBreakOffCountWhatCame(t *testing.T) {
	t.Parallel()
	s := three(1)
	s.Events = []Event{{Kind: PodLoss, Cluster: "us-east-1", At: 500 * ms}}
	r := play(t, s, scripted(map[uint64]string{1: "0/0"}), ask(1, 0, 1000))
	// 7.7 ms a token from half a millisecond on.
	if got := r.Records[0]; got.End != Cut || got.Output < 60 || got.Output > 66 || got.Pod != 0 {
		t.Errorf("%+v", got)
	}
}

func TestAbroadIsWhereATenantMayNotBe(t *testing.T) {
	t.Parallel()
	for residency, want := range map[string][3]bool{"": {}, "eu": {true, false, true}, "us-east-1 ap": {false, true, false}} {
		s := three(1)
		s.Tenants = []Tenant{{ID: "acme", Residency: strings.Fields(residency)}}
		for cluster, word := range []string{"0/0", "1/0", "2/0"} {
			r := ask(1, 0, 1)
			r.Tenant = "acme"
			if got := play(t, s, scripted(map[uint64]string{1: word}), r).Records[0].Abroad; got != want[cluster] {
				t.Errorf("residency %q, served in %s: abroad %v", residency, s.Regions[cluster].Zone, got)
			}
		}
	}
}

func TestSeriesHaveAPointASecondUntilThatIsTooMuch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		until  time.Duration
		points int
		step   time.Duration
	}{{100 * time.Second, 100, time.Second}, {2000 * time.Second, 2000, time.Second}, {2003 * time.Second, 1001, 2 * time.Second}, {8100 * time.Second, 1012, 8 * time.Second}} {
		s := three(1)
		s.Scrape.Interval, s.Tell.Interval = time.Minute, time.Minute
		s.Events = []Event{{Kind: Price, Region: "us-east-1", At: 50*time.Second + 1, Factor: 2}}
		r := play(t, s, weighing{&turns{local: true}}, ask(1, 10*time.Second-ms, 10_000), ask(2, c.until, 1))
		if len(r.Points) != c.points || r.Points[0] != c.step || r.Points[len(r.Points)-1] != time.Duration(c.points)*c.step {
			t.Fatalf("%v: %d points from %v to %v", c.until, len(r.Points), r.Points[0], r.Points[len(r.Points)-1])
		}
		for i, at := range r.Points {
			price, running := float32(3.6), float32(0)
			if at > 50*time.Second {
				price *= 2
			}
			if at >= 10*time.Second && at < r.Records[0].Last {
				running = 1
			}
			if r.Series.Price[0][i] != price || r.Series.Running[0][i] != running || r.Series.Ready[0][i] != 1 || r.Series.Weights[5][i] != 3 {
				t.Fatalf("at %v: $%v an hour, %v running, %v ready, weight %v", at, r.Series.Price[0][i], r.Series.Running[0][i], r.Series.Ready[0][i], r.Series.Weights[5][i])
			}
		}
	}
}

// weighing is a policy with weights.
type weighing struct{ *turns }

func (weighing) Weights(region int) []float64 { return []float64{1, 2, float64(region) + 2} }

func TestRunsStopAtWhatIsWrong(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	odd := ask(1, 0, 1)
	odd.Model = "gpt"
	far := ask(1, 0, 1)
	far.Region = "mars"
	for _, c := range []struct {
		name   string
		ctx    context.Context
		change func(*Spec)
		source workload.Source
		policy *script
		want   string
	}{
		{name: "the spec", change: func(s *Spec) { s.Regions = nil }, want: "spec: regions: there are none"},
		{name: "the context", ctx: cancelled, want: "context canceled"},
		{name: "an unknown model", source: newList(odd), want: `request 1 wants model "gpt", which is not in the spec`},
		{name: "an unknown region", source: newList(far), want: `request 1 comes from region "mars", which is not in the spec`},
		{name: "no such cluster", policy: scripted(map[uint64]string{1: "3/0"}), want: "policy turns routes request 1 to cluster 3"},
		{name: "no such pod", policy: scripted(map[uint64]string{1: "0/1"}), want: "policy turns picks pod 1 of cluster 0"},
		{name: "another model's cluster", change: func(s *Spec) {
			s.Models = append(s.Models, Model{ID: "other", Profile: "llama-3.1-8b"})
			s.Clusters[0].Model = "other"
		}, want: "does not serve llama-3.1-8b"},
		{name: "a workload that breaks off", source: &broken{newList(ask(1, 0, 1))}, want: "read workload: line 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := three(1)
			if c.change != nil {
				c.change(s)
			}
			if c.ctx == nil {
				c.ctx = context.Background()
			}
			if c.source == nil {
				c.source = newList(ask(1, 0, 1))
			}
			if c.policy == nil {
				c.policy = scripted(map[uint64]string{1: "0/0"})
			}
			_, err := Run(c.ctx, s, c.source, c.policy, Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// broken is a source that ends with an error.
type broken struct{ *list }

func (*broken) Err() error { return errors.New("line 7") }

func TestArrivalsEndWithTheDuration(t *testing.T) {
	t.Parallel()
	source, err := workload.Uniform{Traffic: workload.Traffic{Seed: 3, Arrivals: workload.Arrivals{Clients: 5}}}.Source()
	if err != nil {
		t.Fatal(err)
	}
	s := three(1)
	s.Duration = 20 * time.Second
	var progress []float64
	r, err := Run(context.Background(), s, source, &turns{}, Options{Seed: 1, Progress: func(x float64) { progress = append(progress, x) }})
	if err != nil {
		t.Fatal(err)
	}
	last := r.Records[len(r.Records)-1]
	if last.At > s.Duration || last.At < s.Duration-2*time.Second || r.Ended < last.Last || r.Ended > s.Duration+5*time.Second {
		t.Errorf("the last came at %v, all was over at %v", last.At, r.Ended)
	}
	// A closed loop of five has never more than five under way, and each comes when another has ended.
	for i, rec := range r.Records[5:] {
		under := 0
		for _, other := range r.Records[:i+5] {
			if other.Last > rec.At {
				under++
			}
		}
		if under > 4 {
			t.Fatalf("request %d came while %d were under way", rec.ID, under)
		}
	}
	for i, x := range progress {
		if x < 0 || x > 1 || i > 0 && x < progress[i-1] || i == len(progress)-1 && x != 1 {
			t.Errorf("progress %v", progress)
		}
	}
}

func TestTruthIsAsThingsAre(t *testing.T) {
	t.Parallel()
	s := three(2)
	s.Scrape.Interval, s.Tell.Interval = time.Hour, time.Hour // nothing is heard
	s.Events = []Event{
		{Kind: PodLoss, Cluster: "us-east-1", Pod: 1, At: time.Second},
		{Kind: Slow, Cluster: "us-east-1", Pod: 0, Factor: 4, At: time.Second},
		{Kind: Slow, Cluster: "us-east-1", Pod: -1, Factor: 2, At: time.Second},
		{Kind: Hang, Cluster: "eu-west-1", At: time.Second},
		{Kind: Partition, Region: "ap-northeast-1", At: time.Second},
		{Kind: ScaleOut, Cluster: "eu-west-1", At: time.Second},
	}
	seen := map[bool]int{}
	p := scripted(map[uint64]string{1: "0/0", 2: "0/0"})
	p.tick = func(v *View) {
		x, after := v.Truth, v.Now >= time.Second
		seen[after]++
		if got := x.Engine(0, 1) != nil; got == after {
			t.Errorf("at %v a pod has an engine: %v", v.Now, got)
		}
		if x.Engine(0, 0) == nil || x.Hangs(1) != after || x.Reachable(0, 2) == after || !x.Reachable(2, 2) || x.Hangs(0) {
			t.Errorf("at %v hangs %v, reachable %v", v.Now, x.Hangs(1), x.Reachable(0, 2))
		}
		slow, pods := 1.0, 2
		if after {
			slow, pods = 8, 3
		}
		if x.Slow(0, 0) != slow || x.Pods(1) != pods {
			t.Errorf("at %v slow by %v, %d pods", v.Now, x.Slow(0, 0), x.Pods(1))
		}
		if st := x.Engine(0, 0).Stats(); v.Now > 100*ms && v.Now < 800*ms && st.GenerationTokens < 10 {
			t.Errorf("at %v the engine had made %d tokens", v.Now, st.GenerationTokens)
		}
	}
	play(t, s, p, ask(1, 0, 100), ask(2, 2*time.Second, 1))
	if seen[false] < 10 || seen[true] < 10 {
		t.Errorf("looked %v times", seen)
	}
}
