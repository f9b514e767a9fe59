package endpoint

import (
	"net/http"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

// withProvider adds cluster p, a provider in another region, where m is called gpt-m.
func withProvider(pb *routerpb.Table) {
	pb.Clusters = append(pb.Clusters, &routerpb.Cluster{
		Id: "p", Region: "eu", Kind: table.KindProvider, Models: []string{"m"}, HealthCap: 1,
		GatewayUrl: "https://p.example", ModelNames: map[string]string{"m": "gpt-m"},
	})
}

func allowance(limit, remaining int64, reset time.Duration) inference.Allowance {
	return inference.Allowance{Known: true, Limit: limit, Remaining: remaining, Reset: reset}
}

func TestAProvidersLoadIsWhatItsLimitsSay(t *testing.T) {
	for _, tt := range []struct {
		name  string
		told  inference.RateLimit
		since int // requests after that
		after time.Duration
		known bool
		want  float64
	}{
		{"it doesn't say", inference.RateLimit{}, 0, 0, false, 0},
		{"half of its requests", inference.RateLimit{Requests: allowance(100, 50, time.Minute)}, 0, 0, true, 0.5},
		{"most of its tokens", inference.RateLimit{Requests: allowance(100, 90, time.Minute), Tokens: allowance(1000, 50, time.Minute)}, 0, 0, true, 0.95},
		{"it refills evenly", inference.RateLimit{Requests: allowance(100, 0, time.Minute)}, 0, 30 * time.Second, true, 0.5},
		{"it is whole again", inference.RateLimit{Requests: allowance(100, 0, time.Minute)}, 0, time.Minute, true, 0},
		{"it doesn't say when", inference.RateLimit{Requests: allowance(100, 40, 0)}, 0, 30 * time.Second, true, 0.3},
		{"requests since count", inference.RateLimit{Requests: allowance(100, 50, time.Minute)}, 60, 0, true, 1.1},
		{"long ago", inference.RateLimit{Requests: allowance(100, 50, time.Minute)}, 0, 11 * time.Minute, false, 0},
		{"no limit", inference.RateLimit{Requests: inference.Allowance{Known: true, Remaining: 7}}, 0, 0, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, now := still(t)
			r.Sync(world(t, withProvider))
			e := r.of("p")[0]
			e.Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.OK, FirstToken: 1, RateLimit: tt.told}, *now)
			for range tt.since {
				e.Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.Ignored}, *now)
			}
			*now = now.Add(tt.after + loadEvery)
			ev := r.Cluster("p").Evidence(*now)
			if ev.Known != tt.known || tt.known && !near(1+ev.Saturation, 1+tt.want, 0.01) || ev.Ejected {
				t.Errorf("%+v, want a saturation of %v, known %v", ev, tt.want, tt.known)
			}
		})
	}
}

func TestTheLatestAnswerSpeaksOfLimits(t *testing.T) {
	r, now := still(t)
	r.Sync(world(t, withProvider))
	e := r.of("p")[0]
	old, newer := e.Begin(Load{Model: "m"}, *now), e.Begin(Load{Model: "m"}, now.Add(time.Second))
	*now = now.Add(2 * time.Second)
	newer.Done(Result{Outcome: failover.OK, FirstToken: 1, RateLimit: inference.RateLimit{Requests: allowance(100, 20, time.Minute)}}, *now)
	old.Done(Result{Outcome: failover.OK, FirstToken: 1, RateLimit: inference.RateLimit{Requests: allowance(100, 90, time.Minute)}}, *now)
	if used, ok := e.used(*now); !ok || !near(used, 0.79, 0.01) {
		t.Errorf("used %v, %v; the answer to an older request came later", used, ok)
	}
}

func TestAProviderWithNothingLeftIsBusy(t *testing.T) {
	r, now := still(t)
	r.Sync(world(t, withProvider))
	e, p := r.of("p")[0], r.Cluster("p")
	e.Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.OK, FirstToken: 1, RateLimit: inference.RateLimit{Tokens: allowance(1000, 0, 8*time.Second)}}, *now)
	if ev := p.Evidence(*now); !ev.Busy || ev.Ejected {
		t.Errorf("%+v", ev)
	}
	if ev := p.Evidence(now.Add(8 * time.Second)); ev.Busy {
		t.Errorf("after its limit is whole again: %+v", ev)
	}
}

// A provider is asked nothing while it is in use, and when it is ejected at most twice a minute.
func TestCanariesToAProviderAreFew(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		r.Sync(world(t, withProvider))
		pass(time.Minute)
		e := r.of("p")[0]
		if r.Cluster("p").Remote || e.URL != "https://p.example" {
			t.Fatalf("a provider is called directly, wherever it is: %+v", e)
		}
		e.Begin(Load{Model: "m"}, time.Now()).Done(Result{Outcome: failover.ServerFault}, time.Now())
		pass(time.Minute)
		if s := f.get("p.example"); s.scrapes+s.canaries != 0 {
			t.Errorf("%d scrapes and %d canaries while it is in use", s.scrapes, s.canaries)
		}
		f.set("p.example", func(s *server) { s.status = http.StatusBadGateway })
		for range 20 {
			e.Begin(Load{Model: "m"}, time.Now()).Done(Result{Outcome: failover.ServerFault}, time.Now())
		}
		if !r.ejectedNow("p") {
			t.Fatal("twenty failures in a row, and it is in use")
		}
		pass(10 * time.Minute)
		if n := f.get("p.example").canaries; n < 5 || n > 20 {
			t.Errorf("%d canaries in ten minutes", n)
		}
		f.set("p.example", func(s *server) { s.status = 0 })
		soon(t, 2*time.Minute, "p back", func() bool { return !r.ejectedNow("p") })
		if got := f.get("p.example").model; got != "gpt-m" {
			t.Errorf("a canary asked for model %q", got)
		}
	})
}
