package scenario

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"anabranch/sim/report"
	"anabranch/sim/report/stat"
)

// telling are the figures of a proof's tables, but those that nothing is known of.
var telling = []string{
	"ttftMs.p50", "ttftMs.p95", "ttftMs.p99", "latencyMs.p50", "latencyMs.p99", "throughput.requestsPerS",
	"routing.hitRate", "routing.crossRegion", "balance.overFair", "ends.lost", "cost.workPerAnswerMicroUSD", "cost.overBound", "recovery.seconds",
}

// falling are the figures in which ours is held against the best of the others, and loss from which on
// that is told: 3 %, or 3 points of a share.
var falling = []string{"ttftMs.p50", "ttftMs.p95", "ttftMs.p99", "latencyMs.p95", "throughput.requestsPerS", "ends.lost", "cost.workPerAnswerMicroUSD"}

const loss = 0.03

// WriteProof writes what scenarios came to, as Markdown: first what was expected and what ours does not
// do better, then each scenario with its tables. Command made it.
func WriteProof(w io.Writer, all []*Played, command string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Policies side by side\n\nMade by\n\n```\n%s\n```\n\n", command)
	b.WriteString(`Every policy met the same requests under each seed. Figures are means with half of their 95 % confidence
interval (Student's t) over the seeds; in bold what is best but for the oracle, which knows what nobody
can. ` + "`ours`" + ` is the code of the routers and of the control plane, in virtual time.

`)
	writeVerdicts(&b, all)
	writeLosses(&b, all)
	for _, p := range all {
		if err := p.section(&b); err != nil {
			return err
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (v *PlayedVariant) title(p *Played) string {
	if v.Name == "" {
		return p.Scenario.Name
	}
	return p.Scenario.Name + " / " + v.Name
}

// writeVerdicts lists what was expected or aimed at.
func writeVerdicts(b *bytes.Buffer, all []*Played) {
	b.WriteString("## What was expected\n\n| | scenario | | ours | against | |\n|---|---|---|---:|---:|---|\n")
	for _, p := range all {
		for i := range p.Variants {
			v := &p.Variants[i]
			for _, j := range v.Verdicts {
				sign, kind := "✗", "expected"
				if j.Holds {
					sign = "✓"
				}
				if j.Goal {
					kind = "goal"
				}
				against := fmt.Sprintf("%.4g", j.Right)
				if j.Against != "" {
					against += " (" + j.Against + ")"
				}
				fmt.Fprintf(b, "| %s | %s | %s: `%s` | %.4g | %s | %s |\n", sign, v.title(p), kind, j.That, j.Left, against, j.Why)
			}
		}
	}
	b.WriteString("\n")
}

// writeLosses lists where another policy is surely better than ours.
func writeLosses(b *bytes.Buffer, all []*Played) {
	b.WriteString("## What does not improve\n\nWhere another policy than the oracle is better than ours by more than 3 %, with an interval that excludes 0:\n\n")
	found := false
	for _, p := range all {
		for i := range p.Variants {
			v := &p.Variants[i]
			if lines := v.losses(); len(lines) > 0 {
				found = true
				fmt.Fprintf(b, "- **%s**: %s\n", v.title(p), strings.Join(lines, "; "))
			}
		}
	}
	if !found {
		b.WriteString("- nothing was found\n")
	}
	b.WriteString("\n")
}

// losses says in which figures ours is surely worse than the best of the others.
func (v *PlayedVariant) losses() []string {
	ours := v.Report.Of(Ours)
	if len(ours) == 0 {
		return nil
	}
	var lines []string
	for _, key := range falling {
		m, err := report.Lookup(key)
		if err != nil {
			continue // the list is ours: a test holds it against the figures there are
		}
		best, change := "", stat.Change{}
		for _, policy := range v.Report.Policies() {
			if policy == Ours || policy == Oracle {
				continue
			}
			c := report.Changed(m, v.Report.Of(policy), ours)
			if float64(c.Mean)*float64(m.Better) < 0 && c.Sure(loss) && (best == "" || float64(c.Mean-change.Mean)*float64(m.Better) < 0) {
				best, change = policy, c
			}
		}
		if best != "" {
			lines = append(lines, fmt.Sprintf("%s %s against %s", m.Label, m.ShowChange(change), best))
		}
	}
	return lines
}

// section is one scenario with its variants.
func (p *Played) section(b *bytes.Buffer) error {
	fmt.Fprintf(b, "# %s\n\n%s\n\n", p.Scenario.Name, strings.TrimSpace(p.Scenario.About))
	for i := range p.Variants {
		v := &p.Variants[i]
		w := &v.Workload
		if v.Name != "" {
			fmt.Fprintf(b, "## %s\n\n", v.title(p))
		}
		fmt.Fprintf(b, "%d requests in %s, %.3g a second (CV %.2g); prompts of %.0f tokens (P99 %d), answers of %.0f (P99 %d); a cache without limits would have %.0f %% of the prompts' tokens.",
			w.Requests, w.Span.Round(time.Second), w.Rate, w.CV, w.Prompt.Mean, w.Prompt.P99, w.Output.Mean, w.Output.P99, 100*w.Hit)
		if v.Thinned > 0 && v.Thinned < 1 {
			fmt.Fprintf(b, " Of the trace one request in %.0f was used, and the fleet is as much smaller.", 1/v.Thinned)
		}
		if text := v.PeakText(); text != "" {
			b.WriteString(" " + text)
		}
		b.WriteString("\n\n")
		for _, policy := range Policies() {
			if text := v.FoundText(policy); text != "" {
				fmt.Fprintf(b, "Searched for %s: %s.\n\n", policy, text)
			}
		}
		if err := v.Report.Table(b, telling); err != nil {
			return err
		}
		b.WriteString("\n")
	}
	return nil
}
