package report

import (
	"strings"
	"testing"

	"anabranch/sim/report/stat"
)

// policy is what a policy of these tests measured: means, to which each seed adds what both meet.
type policy struct {
	name                    string
	p50, p95, p99           float64
	good, lost, hits, fair  float64
	answer, work            float64
	violations              float64
	noise                   float64 // alternates between seeds, of this policy only
	noHits, noCost, noShare bool
}

func (p policy) runs(seeds int) []Figures {
	var out []Figures
	for i := range seeds {
		meet := 1 + 0.2*float64(i)
		own := meet * (1 + p.noise*float64(1-2*(i%2)))
		n := func(v float64) stat.Number { return stat.Number(v) }
		f := Figures{
			Policy: p.name, Seed: uint64(i),
			TTFT:    stat.Spread{P50: n(p.p50 * own), P90: n(p.p95 * own), P95: n(p.p95 * own), P99: n(p.p99 * own), Mean: n(p.p50 * own)},
			Latency: stat.Spread{P95: n(1000)}, Goodput: Goodput{Share: n(p.good)}, Ends: Ends{Lost: n(p.lost)},
			Routing: Routing{HitRate: n(p.hits)}, Balance: Balance{OverFair: n(p.fair), Min: 0.1, Max: 0.2},
			Cost:  Cost{PerAnswer: n(p.answer), WorkPerAnswer: n(p.work), OverBound: stat.Unknown},
			Rules: Rules{Violations: n(p.violations), QuotaOver: stat.Unknown, QuotaUnder: stat.Unknown},
		}
		if p.noHits {
			f.Routing.HitRate = stat.Unknown
		}
		if p.noCost {
			f.Cost.PerAnswer, f.Cost.WorkPerAnswer = stat.Unknown, stat.Unknown
		}
		if p.noShare {
			f.Balance = Balance{Min: stat.Unknown, Max: stat.Unknown, CV: stat.Unknown, OverFair: stat.Unknown}
		}
		out = append(out, f)
	}
	return out
}

var usual = policy{name: "round-robin", p50: 100, p95: 400, p99: 800, good: 0.9, hits: 0.3, fair: 1.1, answer: 50, work: 20}

func as(name string, change func(*policy)) policy {
	p := usual
	p.name = name
	change(&p)
	return p
}

func report(seeds int, policies ...policy) *Report {
	var runs []Figures
	for _, p := range policies {
		runs = append(runs, p.runs(seeds)...)
	}
	return New("", runs)
}

func TestJudge(t *testing.T) {
	faster := func(p *policy) { p.p50, p.p95, p.p99 = 27, 108, 400 }
	slower := func(p *policy) { p.p99 = 1000 }
	for _, c := range []struct {
		name     string
		r        *Report
		choose   string
		headline string // in part
	}{
		{"better in all", report(5, usual, as("ours", faster)), "ours", "Choose ours: against round-robin, TTFT P50 −73 % [−73, −73]"},
		{
			"better than each", report(5, usual, as("p2c", slower), as("ours", faster)), "ours",
			"better than each of 2 baselines in something, worse in nothing.",
		},
		{"no difference", report(5, usual, as("ours", func(*policy) {})), "round-robin", "No difference: keep round-robin."},
		{
			"sure, but too small", report(5, usual, as("ours", func(p *policy) { p.p95 = 390 })), "round-robin",
			"No difference: keep round-robin.",
		},
		{
			"large, but not sure", report(5, usual, as("ours", func(p *policy) { p.p50, p.p95, p.p99, p.noise = 90, 360, 720, 0.4 })),
			"round-robin", "No difference",
		},
		{"worse", report(5, usual, as("ours", slower)), "round-robin", "Keep round-robin: ours is worse than round-robin in TTFT P99 +25 %"},
		{
			"better here and worse there", report(5, usual, as("ours", func(p *policy) { p.p50, p.p99 = 27, 1000 })), "",
			"It depends: ours is better than round-robin in TTFT P50 −73 % [−73, −73], and worse than round-robin in TTFT P99 +25 %",
		},
		{
			"better than one, worse than another", report(5, usual, as("quick", func(p *policy) { p.p99 = 100 }), as("ours", faster)), "",
			"worse than quick in TTFT P99 +300 %",
		},
		{
			"no better than a simple one", report(5, usual, as("hash", faster), as("ours", faster)), "hash",
			"No difference from hash: keep it. Against round-robin, ours is better.",
		},
		{
			"goodput counts in points", report(5, usual, as("ours", func(p *policy) { p.good = 0.95 })), "ours",
			"goodput +5.0 pp",
		},
		{
			"what is lost counts", report(5, usual, as("ours", func(p *policy) { p.lost = 0.2 })), "round-robin",
			"not answered +20 pp",
		},
		{
			"against the law", report(5, as("greedy", func(p *policy) { p.violations = 1 }), usual, as("ours", func(p *policy) { faster(p); p.violations = 2 })),
			"round-robin", "No go: ours served requests where they may not be served.",
		},
		{
			"all against the law", report(5, as("greedy", func(p *policy) { p.violations = 1 }), as("ours", func(p *policy) { p.violations = 2 })),
			"", "No go",
		},
		{"one seed", report(1, usual, as("ours", faster)), "", "fewer than two seeds"},
		{
			"nothing answered", report(5, as("rr", func(p *policy) { p.lost = 1 }), as("ours", func(p *policy) { p.lost = 1 })), "",
			"nothing was answered",
		},
		{"ours wasn't run", report(5, usual), "", "ours was not among the policies"},
		{"nothing to compare with", report(5, as("ours", faster), as("oracle", faster)), "", "nothing to compare ours with"},
		{"the oracle is no baseline", report(5, usual, as("oracle", func(p *policy) { p.p99 = 1 }), as("ours", faster)), "ours", "Choose ours"},
		{"free costs on both sides", report(5, as("rr", func(p *policy) { p.noCost = true }), as("ours", func(p *policy) { faster(p); p.noCost = true })), "ours", "Choose ours"},
	} {
		v := Judge(c.r)
		if v.Choose != c.choose || !strings.Contains(v.Headline, c.headline) {
			t.Errorf("%s: choose %q, %q; want %q, %q", c.name, v.Choose, v.Headline, c.choose, c.headline)
		}
	}
}

func TestJudgeOfNamesGiven(t *testing.T) {
	r := report(5, as("a", func(*policy) {}), as("b", func(p *policy) { p.p50 = 50 }), as("c", func(p *policy) { p.p50 = 10 }))
	r.Ours, r.Baselines = "b", []string{"a"}
	if v := Judge(r); v.Choose != "b" || strings.Contains(v.Headline, "c") && strings.Contains(v.Headline, " c ") {
		t.Errorf("%+v", v)
	}
}

func point(v Verdict, subject string) Point {
	for _, p := range v.Points {
		if p.Subject == subject {
			return p
		}
	}
	return Point{}
}

func TestPoints(t *testing.T) {
	for _, c := range []struct {
		name    string
		ours    policy
		subject string
		kind    Kind
		text    string // in part; "": there is no such point
	}{
		{"reuse grows", as("ours", func(p *policy) { p.hits = 0.82 }), "prefix reuse", Good, "ours found 82.0 ±0 % of prompt tokens in caches; the best of the others, round-robin, 30.0 ±0 %"},
		{"reuse falls", as("ours", func(p *policy) { p.hits = 0.1 }), "prefix reuse", Bad, "10.0"},
		{"reuse unknown", as("ours", func(p *policy) { p.noHits = true }), "prefix reuse", "", ""},
		{"even", as("ours", func(p *policy) { p.fair = 1.2 }), "balance", Neutral, "the busiest of equal pods served 1.20 ±0 times its fair share; shares from 10.0 ±0 % to 20.0 ±0 %; with round-robin 1.10 ±0 times"},
		{"uneven", as("ours", func(p *policy) { p.fair = 1.4 }), "balance", Bad, "1.40"},
		{"no equals", as("ours", func(p *policy) { p.noShare = true }), "balance", "", ""},
		{"faster", as("ours", func(p *policy) { p.p95, p.work = 108, 10 }), "against round-robin", Good, "TTFT P50 0.0 % [0.0, 0.0], TTFT P95 −73 % [−73, −73], TTFT P99 0.0 % [0.0, 0.0]; better in work/answer −50 %"},
		{"slower", as("ours", func(p *policy) { p.p95, p.p99 = 108, 1600 }), "against round-robin", Bad, "; worse in TTFT P99 +100 %"},
		{"cheaper", as("ours", func(p *policy) { p.answer = 25 }), "cost of a whole answer", Good, "25.0 ±0 µ$ of the fleet (−50 % [−50, −50] against round-robin); 20.0 ±0 µ$ of its work alone (0.0 %"},
		{"dearer", as("ours", func(p *policy) { p.answer, p.work = 25, 40 }), "cost of a whole answer", Bad, "+100 %"},
		{"free", as("ours", func(p *policy) { p.noCost = true }), "cost of a whole answer", "", ""},
		{"lawful", usualOurs, "residency", Good, "no request was served where it may not be"},
		{"abroad", as("ours", func(p *policy) { p.violations = 3 }), "residency", Bad, "3 ±0 requests a run"},
		{"lost", as("ours", func(p *policy) { p.lost = 0.25 }), "not answered", Bad, "25.0 ±0 % of the requests that quotas let in; with round-robin 0.0 ±0 %"},
		{"no oracle", usualOurs, "gap to oracle", "", ""},
		{"no bound", usualOurs, "gap to the bound", "", ""},
	} {
		p := point(Judge(report(5, usual, c.ours)), c.subject)
		if p.Kind != c.kind || !strings.Contains(p.Text, c.text) {
			t.Errorf("%s: %q %q, want %q %q", c.name, p.Kind, p.Text, c.kind, c.text)
		}
	}
}

var usualOurs = as("ours", func(*policy) {})

func TestPointsOfWorkloadsWithoutPrefixes(t *testing.T) {
	few := func(p *policy) { p.hits = 0.02 }
	p := point(Judge(report(5, as("rr", few), as("ours", func(p *policy) { p.hits = 0.045 }))), "prefix reuse")
	if !strings.Contains(p.Text, "hardly share prefixes") || p.Kind != Neutral {
		t.Errorf("%+v", p)
	}
}

func TestGapsAreTold(t *testing.T) {
	r := report(5, usual, as("oracle", func(p *policy) { p.p95 = 320 }), usualOurs)
	for i := range r.Runs {
		r.Runs[i].Bound(108, 100)
	}
	v := Judge(r)
	if p := point(v, "gap to oracle"); !strings.Contains(p.Text, "TTFT P95 +25 % [+25, +25]") {
		t.Errorf("%+v", p)
	}
	if p := point(v, "gap to the bound"); !strings.Contains(p.Text, "1.08 ±0 times") {
		t.Errorf("%+v", p)
	}
}

func TestFew(t *testing.T) {
	if got := few([]string{"a", "b", "c", "d"}); got != "a, b, c, d" {
		t.Error(got)
	}
	if got := few([]string{"a", "b", "c", "d", "e"}); got != "a, b, c and 2 more" {
		t.Error(got)
	}
}

func TestKindsAreToldWithoutColour(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range []Kind{Good, Bad, Neutral} {
		if seen[k.Sign()] || seen[k.Word()] {
			t.Errorf("%s looks like another", k)
		}
		seen[k.Sign()], seen[k.Word()] = true, true
	}
}
