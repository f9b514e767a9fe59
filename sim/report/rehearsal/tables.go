package rehearsal

import (
	"fmt"
	"strconv"
	"time"

	"anabranch/failover/drill"
)

// table is shown if it has rows. The first cell of a row is its head.
type table struct {
	Title, Note string
	Head        []string
	Rows        [][]cell
	// Words are cells of text: they are aligned to the left.
	Words bool
}

// cell of a table; Mood is bad, or nothing.
type cell struct{ Text, Mood string }

func cells(texts ...string) []cell {
	var out []cell
	for _, t := range texts {
		out = append(out, cell{Text: t})
	}
	return out
}

func tablesOf(r drill.Report) []table {
	var kept []table
	for _, t := range []table{requestsOf(r), firstTokensOf(r), survivorsOf(r), phasesOf(r), earlierOf(r), strandedOf(r), eventsOf(r)} {
		if len(t.Rows) > 0 {
			kept = append(kept, t)
		}
	}
	return kept
}

// phases by the words that people use.
func phases(r drill.Report) []struct {
	name string
	drill.Phase
} {
	return []struct {
		name string
		drill.Phase
	}{{"before", r.Before}, {"during", r.During}, {"after", r.After}}
}

func requestsOf(r drill.Report) table {
	t := table{
		Title: "Requests by what became of them", Head: []string{"Tier", "Part", "Total", "Retried, answered", "Shed", "Over quota", "Lost", "Ended mid-stream"},
		Note: "Each request counts once. Lost: it failed before any content. During: from the first shift until all were back.",
	}
	row := func(name, part string, x drill.TierReport) {
		c := cells(name, part, whole(x.Total), whole(x.Retried), whole(x.Shed), whole(x.Limited), whole(x.Lost), whole(x.Broken))
		c[6].Mood, c[7].Mood = bad(x.Lost > 0), bad(x.Broken > 0)
		t.Rows = append(t.Rows, c)
	}
	for _, p := range phases(r) {
		for _, x := range p.Tiers {
			row(x.Tier, p.name, x)
		}
		if len(p.Tiers) > 1 {
			row("all", p.name, p.All)
		}
	}
	return t
}

func firstTokensOf(r drill.Report) table {
	t := table{Title: "Time to the first token", Head: []string{"Tier", "Part", "P50", "P95", "P99"}, Note: "From histograms: within 19 % of the truth."}
	for _, p := range phases(r) {
		for _, x := range p.Tiers {
			if x.TTFT != nil {
				t.Rows = append(t.Rows, cells(x.Tier, p.name, span(x.TTFT.P50), span(x.TTFT.P95), span(x.TTFT.P99)))
			}
		}
	}
	return t
}

func survivorsOf(r drill.Report) table {
	t := table{
		Title: "Places that stayed", Head: []string{"Cluster", "Before", "Mean", "Peak", "Peak simulated", "Off by"},
		Note: "Load as a share of measured capacity.",
	}
	for _, s := range r.Survivors {
		c := cells(string(s.Cluster), percent(s.Before), percent(s.Mean), percent(s.Peak), percentOf(s.Simulated), unknown)
		c[3].Mood = bad(s.Peak > 1)
		if s.Simulated != nil {
			c[5].Text = fmt.Sprintf("%+.0f pp", 100*(s.Peak-*s.Simulated))
		}
		t.Rows = append(t.Rows, c)
	}
	return t
}

func phasesOf(r drill.Report) table {
	t := table{
		Title: "Money, caches and quotas", Head: []string{"Part", "Measured", "Cost per minute", "Prefix hits", "Protected requests", "Refused by quota", "Peak load"},
		Note: fmt.Sprintf("Streams of drilled places: %s were open when all was ordered away, %s when traffic began to come back.", whole(r.Streams.AtShift), whole(r.Streams.Left)),
	}
	costs := []*int64{r.Money.BeforePerMinute, r.Money.DuringPerMinute, r.Money.AfterPerMinute}
	for i, p := range phases(r) {
		if p.Seconds == 0 {
			continue
		}
		c := cells(p.name, (time.Duration(p.Seconds) * time.Second).String(), moneyOf(costs[i]), percentOf(p.PrefixHit), whole(p.Protected), whole(p.ProtectedDenied), percent(p.PeakSaturation))
		c[5].Mood = bad(p.ProtectedDenied > 0)
		t.Rows = append(t.Rows, c)
	}
	return t
}

func earlierOf(r drill.Report) table {
	t := table{
		Title: "Earlier runs of this plan", Head: []string{"Drill", "Ended", "Outcome", "99 % away", "Requests", "Lost", "Mid-stream", "Peak load", "First token, P95", "Extra cost"},
		Note: "The first line is this run.",
	}
	if len(r.Earlier) == 0 {
		return t
	}
	for _, h := range append([]drill.Head{r.Head()}, r.Earlier...) {
		ttft := unknown
		if h.TopTTFTP95Ms > 0 {
			ttft = span(h.TopTTFTP95Ms)
		}
		c := cells(strconv.FormatUint(h.ID, 10), at(h.EndedUnixMs), string(h.Outcome), spanOf(h.NinetyNineMs), whole(h.Total), whole(h.Lost), whole(h.Broken), percent(h.PeakSaturation), ttft, moneyOf(h.Extra))
		c[2].Mood, c[5].Mood, c[6].Mood = bad(moodOf(h.Outcome) == "bad"), bad(h.Lost > 0), bad(h.Broken > 0)
		t.Rows = append(t.Rows, c)
	}
	return t
}

func strandedOf(r drill.Report) table {
	t := table{Title: "Tenants without a legal place", Head: []string{"Tenant", "Model", "Why"}, Note: "As the dry run said: their requests get 503 while the drill lasts.", Words: true}
	if r.Forecast == nil {
		return t
	}
	for _, s := range r.Forecast.Stranded {
		t.Rows = append(t.Rows, cells(string(s.Tenant), string(s.Model), s.Why))
	}
	return t
}

func eventsOf(r drill.Report) table {
	t := table{Title: "What happened", Head: []string{"Time", "State", "What", "Who", ""}, Words: true}
	for _, e := range r.Events {
		c := cells(time.UnixMilli(e.AtUnixMs).UTC().Format("15:04:05.000"), string(e.State), e.Kind, e.Actor, e.Text)
		c[2].Mood = bad(e.Kind == drill.OfSignal)
		t.Rows = append(t.Rows, c)
	}
	return t
}
