package quotas

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// short makes all cases of a proof as short as can be.
func short() *Proof {
	p := cases()
	for _, list := range [][]Case{p.Loads, p.Small, p.Faults, p.Rivals} {
		for i := range list {
			s := &list[i].Spec
			s.Tokens, s.Requests = s.Tokens/50, s.Requests/25
			s.Warm, s.Time = 100*time.Millisecond, 200*time.Millisecond
		}
	}
	return p
}

func TestAProofHasAllTables(t *testing.T) {
	p := short()
	var told []float64
	if err := p.run(t.Context(), Options{Seeds: 2, Parallel: 2, Progress: func(x float64) { told = append(told, x) }}); err != nil {
		t.Fatal(err)
	}
	if runs := 2 * (len(p.Loads) + len(p.Small) + len(p.Faults) + len(p.Rivals)); len(told) != runs || told[len(told)-1] != 1 || told[0] != 1/float64(runs) {
		t.Errorf("%d of %d runs were told of: %v", len(told), runs, told)
	}
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"# Global quotas\n", "## Goals\n", "## Schemes, with a burst of a minute\n", "## Schemes, with a burst of 1 s\n", "## Smaller organisations\n", "## Faults\n",
		"organisation\nof 800,000 tokens and 2,500 requests a second", "| 0.5 × | leases |", "| 5 × | exact |", "| – |",
		"| store away 30 s, open | unbounded | 1 s | ∞ |", "| fault | leases | per-call | redis_rate | windows | counter | assigned |",
		"worst of 2 seeds", "- `counter`: asynchronous",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "| ") && strings.Contains(line, "NaN") {
			t.Error(line)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := short().run(ctx, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// met is a proof that meets all goals.
func met() *Proof {
	good := Result{Decided: 1000, Trips: 100, Excess: -0.1, MeanWait: time.Millisecond, Late: 0.02, Used: 0.95, WaitedMost: 50 * time.Millisecond}
	p := &Proof{seeds: 1}
	for _, demand := range Demands() {
		p.Loads = append(p.Loads, Case{Scheme: Leases, Spec: steady(time.Minute, demand), Runs: []Result{good}})
	}
	bad := Result{Excess: 9, MeanWait: time.Minute, Late: 1, WaitedMost: time.Minute}
	p.Loads = append(p.Loads, Case{Scheme: PerCall, Spec: steady(time.Minute, 2), Runs: []Result{bad}})
	small := good
	small.MeanWait, small.Late, small.Trips, small.Used = time.Second, 1, 1000, 0.5 // is told, and no goal
	p.Loads = append(p.Loads, Case{Scheme: Leases, Spec: steady(time.Second, 2), Runs: []Result{small}})
	fault := good
	fault.Excess = 0.2
	p.Faults = []Case{
		{Scheme: Leases, Row: Row{Name: "away", Bound: 0.2}, Runs: []Result{fault}},
		{Scheme: Leases, Row: Row{Name: "open", Bound: math.Inf(1)}, Runs: []Result{{Excess: 100}}},
	}
	return p
}

func TestGoalsAreMetOrMissed(t *testing.T) {
	if p := met(); !p.Holds() {
		t.Errorf("%+v", p.Goals())
	}
	for name, change := range map[string]func(*Proof){
		"mean added wait":                         func(p *Proof) { p.Loads[0].Runs[0].MeanWait += time.Microsecond },
		"requests that wait more than 5 ms":       func(p *Proof) { p.Loads[3].Runs[0].Late = 0.021 },
		"decisions for each round trip":           func(p *Proof) { p.Loads[1].Runs[0].Trips = 120 },
		"excess over the envelope without faults": func(p *Proof) { p.Loads[5].Runs[0].Excess = 0.001 },
		"excess with each fault":                  func(p *Proof) { p.Faults[0].Runs[0].Excess = 0.201 },
		"usable at twice the limit":               func(p *Proof) { p.Loads[2].Runs[0].Used = 0.94 },
		"longest wait, the store away or not":     func(p *Proof) { p.Faults[0].Runs[0].WaitedMost = 51 * time.Millisecond },
	} {
		p := met()
		change(p)
		for _, g := range p.Goals() {
			if g.Met == (g.Name == name) {
				t.Errorf("%s is changed: %+v", name, g)
			}
		}
		if p.Holds() {
			t.Errorf("%s: holds", name)
		}
	}
}

func TestNumbers(t *testing.T) {
	for want, got := range map[string]string{
		"−1.50": number(-1.5, 2), "0.00": number(-0.001, 2), "∞": number(math.Inf(1), 3),
		"+0.25": signed(0.25, 2), "0.0": signed(0.01, 1), "12.5 %": percent(0.125),
		"999": count(999), "1,234,567": count(1_234_567), "a minute": span(time.Minute), "30 s": span(30 * time.Second),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
