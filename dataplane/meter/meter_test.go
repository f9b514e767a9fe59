package meter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"anabranch/api/fleet"
	"anabranch/dataplane/admit"
	"anabranch/ratelimit"
)

// book is an Adjuster that writes down what it is told.
type book struct {
	mu    sync.Mutex // guards the rest
	calls []entry
	fail  error
	slow  time.Duration
}

func (b *book) Adjust(ctx context.Context, tenant string, path []ratelimit.Charge) error {
	b.mu.Lock()
	slow, fail := b.slow, b.fail
	b.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, entry{tenant, path})
	return fail
}

// total is the sum of all adjustments of a tenant's limit.
func (b *book) total(tenant, limit string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	var sum int64
	for _, e := range b.calls {
		for _, c := range e.path {
			if e.tenant == tenant && c.Limit.ID == limit {
				sum += c.Cost
			}
		}
	}
	return sum
}

func (b *book) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.calls)
}

// ticket of a request that reserved 1,000 input and 256 output tokens of limits of each kind.
func ticket(tenant fleet.TenantID) admit.Ticket {
	t := admit.Ticket{
		Tenant: tenant, Model: "llama-3.1-8b", Cluster: "use1-h100", Input: 1000, Output: 256,
		InputMicros: 50_000, OutputMicros: 80_000,
	}
	for _, kind := range []ratelimit.Kind{ratelimit.Requests, ratelimit.InputTokens, ratelimit.OutputTokens, ratelimit.TotalTokens} {
		t.Path = append(t.Path, ratelimit.Charge{
			Limit: ratelimit.Limit{ID: string(kind), Kind: kind, Amount: 1e6, PeriodMs: 60_000, Burst: 1e6},
			Cost:  admit.Cost(kind, 1, t.Input, t.Output),
		})
	}
	return t
}

func TestWhatIsChargedInTheEnd(t *testing.T) {
	used := Usage{Prompt: 900, Cached: 512, Completion: 300}
	for name, c := range map[string]struct {
		usage                         Usage
		fate                          Fate
		requests, input, output, both int64 // differences to what was reserved
	}{
		"used as told":                           {used, Completed, 0, -100, 44, -56},
		"as reserved":                            {Usage{Prompt: 1000, Completion: 256}, Completed, 0, 0, 0, 0},
		"no prompt told: the estimate stands":    {Usage{Completion: 56}, Completed, 0, 0, -200, -200},
		"broken after content: what was counted": {Usage{Completion: 10}, Broken, 0, 0, -246, -246},
		"broken after the server told":           {used, Broken, 0, -100, 44, -56},
		"failed before content":                  {used, FailedBeforeContent, 0, -1000, -256, -1256},
		"never sent":                             {Usage{}, NotSent, -1, -1000, -256, -1256},
		"nonsense from a server":                 {Usage{Prompt: -5, Completion: -5}, Completed, 0, 0, -256, -256},
	} {
		want := map[string]int64{}
		for kind, d := range map[string]int64{"requests": c.requests, "input-tokens": c.input, "output-tokens": c.output, "total-tokens": c.both} {
			if d != 0 {
				want[kind] = d
			}
		}
		got := map[string]int64{}
		for _, d := range Differences(ticket("acme"), c.usage, c.fate) {
			got[d.Limit.ID] = d.Cost
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if got := Differences(admit.Ticket{Tenant: "acme"}, used, Completed); got != nil {
		t.Errorf("a tenant without quotas: %v", got)
	}
}

// start runs a meter; the function that it answers stops it and waits.
func start(t *testing.T, o Options) (*Meter, func()) {
	t.Helper()
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := m.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	return m, func() {
		cancel()
		<-done
	}
}

func TestSettlingHappensBehindTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{slow: time.Second}
		m, stop := start(t, Options{Authority: b})
		defer stop()
		begin := time.Now()
		for range 100 {
			m.Settle(ticket("acme"), Usage{Prompt: 900, Completion: 300}, Completed)
			m.Settle(ticket("globex"), Usage{}, NotSent)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("telling took %v", took)
		}
		<-time.After(10 * time.Second)
		for limit, want := range map[string]int64{"requests": 0, "input-tokens": -100 * 100, "output-tokens": 44 * 100, "total-tokens": -56 * 100} {
			if got := b.total("acme", limit); got != want {
				t.Errorf("acme %s: %d, want %d", limit, got, want)
			}
		}
		if got := b.total("globex", "requests"); got != -100 {
			t.Errorf("globex requests: %d, want -100", got)
		}
		if b.count() > 6 {
			t.Errorf("%d calls for 200 requests of two tenants: they should add up", b.count())
		}
	})
}

func TestConcurrentTellersLoseNothing(t *testing.T) {
	b := &book{}
	m, stop := start(t, Options{Authority: b})
	var tellers sync.WaitGroup
	for range 8 {
		tellers.Go(func() {
			for range 500 {
				m.Settle(ticket("acme"), Usage{Prompt: 1001, Completion: 256}, Completed)
			}
		})
	}
	tellers.Wait()
	stop()
	if got := b.total("acme", "input-tokens"); got != 4000 {
		t.Errorf("%d tokens settled, want 4,000", got)
	}
}

func TestTheRestIsSettledAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{}
		m, stop := start(t, Options{Authority: b})
		synctest.Wait()
		m.Settle(ticket("acme"), Usage{}, FailedBeforeContent)
		stop()
		if got := b.total("acme", "total-tokens"); got != -1256 {
			t.Errorf("%d, want -1,256", got)
		}
	})
}

func TestTheEndIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{slow: time.Hour}
		registry := prometheus.NewPedanticRegistry()
		m, stop := start(t, Options{Authority: b, Flush: 3 * time.Second, Registerer: registry})
		synctest.Wait()
		for i := range 20 {
			m.Settle(ticket(fleet.TenantID(fmt.Sprintf("tenant-%d", i))), Usage{}, NotSent)
		}
		synctest.Wait() // one settlement is under way
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("the end took %v", took)
		}
		if line := "anabranch_settlements_lost_total 80"; !slices.Contains(exposed(t, registry), line) {
			t.Errorf("want %s", line)
		}
	})
}

func TestOptionsNameWhatIsWrong(t *testing.T) {
	for want, o := range map[string]Options{
		"authority is nil": {},
		"flush time":       {Authority: &book{}, Flush: -1},
		"bound of -1":      {Authority: &book{}, Buckets: -1},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

func TestWhatCannotBeSettledIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		m, stop := start(t, Options{Authority: &book{fail: errors.New("gone")}, Registerer: registry})
		m.Settle(ticket("acme"), Usage{}, FailedBeforeContent)
		stop()
		if line := "anabranch_settlements_lost_total 3"; !slices.Contains(exposed(t, registry), line) {
			t.Errorf("want %s", line)
		}
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m, err := New(Options{Authority: &book{}, Buckets: 6, Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		m.Settle(ticket("acme"), Usage{}, NotSent) // 4 buckets
	}
	m.Settle(ticket("globex"), Usage{}, NotSent) // 4 more, of which 2 find no room
	for _, line := range []string{"anabranch_settlements_waiting 6", "anabranch_settlements_lost_total 2"} {
		if !slices.Contains(exposed(t, registry), line) {
			t.Errorf("want %s", line)
		}
	}
}

func TestMetricsOfUse(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m, err := New(Options{Authority: &book{}, Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	m.Settle(ticket("acme"), Usage{Prompt: 1_000_000, Cached: 600_000, Completion: 500_000}, Completed)
	m.Settle(ticket("acme"), Usage{Prompt: 10, Cached: 99, Completion: 1}, Broken)
	m.Settle(ticket("acme"), Usage{}, FailedBeforeContent)
	unsent := ticket("acme")
	unsent.Cluster = ""
	m.Settle(unsent, Usage{}, NotSent)
	got := exposed(t, registry)
	where := `cluster="use1-h100",` // labels are shown in the order of their names
	for _, line := range []string{
		`anabranch_requests_total{` + where + `fate="completed",model="llama-3.1-8b",tenant="acme"} 1`,
		`anabranch_requests_total{` + where + `fate="broken",model="llama-3.1-8b",tenant="acme"} 1`,
		`anabranch_requests_total{` + where + `fate="failed",model="llama-3.1-8b",tenant="acme"} 1`,
		`anabranch_requests_total{cluster="",fate="not_sent",model="llama-3.1-8b",tenant="acme"} 1`,
		`anabranch_tokens_total{` + where + `model="llama-3.1-8b",tenant="acme",token_type="input"} 1.00001e+06`,
		`anabranch_tokens_total{` + where + `model="llama-3.1-8b",tenant="acme",token_type="output"} 500001`,
		`anabranch_cached_input_tokens_total{` + where + `model="llama-3.1-8b",tenant="acme"} 600010`,
		// 50,000 + 40,000 for the first; 10 × 0.05 + 0.08 for the second.
		`anabranch_cost_microdollars_total{` + where + `model="llama-3.1-8b",tenant="acme"} 90000.58`,
	} {
		if !slices.Contains(got, line) {
			t.Errorf("want %s in\n%s", line, strings.Join(got, "\n"))
		}
	}
	if _, err := New(Options{Authority: &book{}, Registerer: registry}); err == nil {
		t.Error("two meters share a registry")
	}
}

// exposed is what the registry shows, line by line.
func exposed(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Split(text.String(), "\n")
}

func TestFatesHaveNames(t *testing.T) {
	for f, want := range map[Fate]string{Completed: "completed", Broken: "broken", FailedBeforeContent: "failed", NotSent: "not_sent", 9: "fate 9"} {
		if f.String() != want {
			t.Errorf("%d: %s, want %s", int(f), f, want)
		}
	}
}

func TestLedgerKeepsOrderAndBoundsPaths(t *testing.T) {
	l := newLedger(1000)
	many := make([]ratelimit.Charge, ratelimit.MaxPath+5)
	for i := range many {
		many[i] = ratelimit.Charge{Limit: ratelimit.Limit{ID: fmt.Sprint(i)}, Cost: 1}
	}
	l.add("b", many)
	l.add("a", many[:1])
	l.add("b", many[:1])
	l.add("c", nil)
	got := l.drain()
	if len(got) != 3 || got[0].tenant != "b" || got[1].tenant != "b" || got[2].tenant != "a" {
		t.Fatalf("%d entries: %+v", len(got), got)
	}
	if len(got[0].path) != ratelimit.MaxPath || len(got[1].path) != 5 || got[0].path[0].Cost != 2 {
		t.Errorf("paths of %d and %d, first cost %d", len(got[0].path), len(got[1].path), got[0].path[0].Cost)
	}
	if l.waiting() != 0 || l.drain() != nil {
		t.Error("something is left")
	}
}

func BenchmarkSettle(b *testing.B) {
	m, err := New(Options{Authority: &book{}})
	if err != nil {
		b.Fatal(err)
	}
	t := ticket("acme")
	b.ReportAllocs()
	for b.Loop() {
		m.Settle(t, Usage{Prompt: 900, Completion: 300}, Completed)
	}
}
