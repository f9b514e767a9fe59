package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/plan"
)

const (
	// pageWidth is how wide explanations are at most, in columns.
	pageWidth = 100
	// mostPlanRows is how many clusters of a demand are shown; -o json shows them all.
	mostPlanRows = 12
)

// printPlan prints an explanation: all that is said first, then demand by demand.
func (a *app) printPlan(p client.PlanAnswer) error {
	var b strings.Builder
	for i, d := range p.Demands {
		if i > 0 {
			b.WriteString("\n")
		}
		writeDemand(&b, p, d)
		if err := a.printf("%s", a.tint(&b)); err != nil {
			return err
		}
		header, rows := planTable(d)
		if err := a.table(header, rows); err != nil {
			return err
		}
		writeReasons(&b, d)
		if err := a.printf("%s", a.tint(&b)); err != nil {
			return err
		}
	}
	if p.Cut {
		return a.printf("\n%s", wrapped("There was more to look for than is done at a time: ask with --source, --class or --cluster for all that would change it.", "", ""))
	}
	return nil
}

// tint empties b into text.
func (a *app) tint(b *strings.Builder) string {
	text := b.String()
	b.Reset()
	return text
}

// writeDemand writes what comes before the table.
func writeDemand(b *strings.Builder, p client.PlanAnswer, d plan.ExplainedDemand) {
	b.WriteString(wrapped(d.Summary+".", "", "  "))
	by := "no policy speaks of it: the defaults hold"
	if d.Policy != "" {
		by = "policy " + d.Policy
	}
	about := fmt.Sprintf("%s, class %s, %s work/s; %s: %s (%g), first token within %g ms", p.Model, d.Class, threeDigits(d.WorkPerS), by,
		d.Objective.Title, d.Objective.CostPreference, d.Objective.FirstTokenMs)
	if d.Objective.WorthMs > 0 {
		about += fmt.Sprintf("; free instead of dearest is worth %.0f ms", d.Objective.WorthMs)
	}
	b.WriteString(wrapped(about+".", "  ", "  "))
	text := fmt.Sprintf("Weights are %s: %s. It is served at a marginal cost of %.0f ms.", standing(d), d.Why, d.LevelMs)
	if d.Standing == plan.StandingFirst {
		text = fmt.Sprintf("There are no weights in force yet. It would be served at a marginal cost of %.0f ms.", d.LevelMs)
	}
	b.WriteString(wrapped(text, "  ", "  "))
}

func standing(d plan.ExplainedDemand) string {
	if d.SecondsLeft >= 1 {
		return fmt.Sprintf("%s, for %s more", d.Standing, (time.Duration(math.Ceil(d.SecondsLeft)) * time.Second).String())
	}
	return string(d.Standing)
}

// planTable has a row for each cluster, those that matter most first.
func planTable(d plan.ExplainedDemand) (header []string, rows [][]string) {
	header = []string{"  CLUSTER", "NOW", "WANTED", "RTT + MONEY + QUEUE", "MS", "LOAD", "OF WORK/S", "$/M WORK"}
	for _, r := range rowsOf(d.Clusters) {
		load := fmt.Sprintf("%.2f", r.Load.Wanted)
		if math.Abs(r.Load.Wanted-r.Load.InForce) >= 0.005 {
			load = fmt.Sprintf("%.2f→%.2f", r.Load.InForce, r.Load.Wanted)
		}
		capacity := threeDigits(r.Capacity.PerS)
		switch c := r.Capacity; {
		case c.Confidence < 0.005:
			capacity += " believed"
		case c.Doubt > 0.1:
			capacity += " doubted"
		case c.Confidence < 0.9:
			capacity += fmt.Sprintf(" by %.0f %%", 100*c.Confidence)
		}
		rows = append(rows, []string{
			"  " + string(r.Cluster), percentage(r.InForce), percentage(r.Wanted),
			fmt.Sprintf("%.0f + %.0f + %.0f", r.Cost.DistanceMs, r.Cost.MoneyMs, r.Cost.CongestionMs), fmt.Sprintf("%.0f", r.Cost.TotalMs),
			load, capacity, price(r.Price),
		})
	}
	return header, rows
}

// rowsOf are the clusters of a table: those that get something, then the cheapest.
func rowsOf(all []plan.ExplainedRoute) []plan.ExplainedRoute {
	list := slices.Clone(all)
	if len(list) <= mostPlanRows {
		return list
	}
	used := func(r plan.ExplainedRoute) int {
		if max(r.InForce, r.Wanted) > 0 {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(x, y plan.ExplainedRoute) int {
		return cmp.Or(cmp.Compare(used(x), used(y)), cmp.Compare(x.Cost.TotalMs, y.Cost.TotalMs)*used(x)*used(y))
	})
	return list[:mostPlanRows]
}

func price(p plan.ExplainedPrice) string {
	switch {
	case p.Sunk:
		return "paid anyway"
	case p.Unpriced:
		return "not known"
	case p.Estimate:
		return fmt.Sprintf("%.3g estimate", p.USDPerMillion)
	}
	return fmt.Sprintf("%.3g", p.USDPerMillion)
}

// writeReasons writes what comes after the table.
func writeReasons(b *strings.Builder, d plan.ExplainedDemand) {
	rows := rowsOf(d.Clusters)
	if left := len(d.Clusters) - len(rows); left > 0 {
		fmt.Fprintf(b, "  and %d more that get nothing; -o json shows them\n", left)
	}
	b.WriteString("  why:\n")
	for _, r := range rows {
		reasons := []string{r.Reason}
		for _, c := range r.Constraints {
			if c.Text != r.Reason {
				reasons = append(reasons, c.Text)
			}
		}
		if r.Cost.AboveLevelMs >= 0.5 && r.Wanted == 0 && len(r.Constraints) == 0 {
			reasons = append(reasons, fmt.Sprintf("%.0f ms dearer than where it goes", r.Cost.AboveLevelMs))
		}
		b.WriteString(wrapped(string(r.Cluster)+": "+strings.Join(reasons, "; "), "    ", "      "))
	}
	if sources := priceSources(rows); len(sources) > 0 {
		b.WriteString("  prices:\n")
		for _, s := range sources {
			b.WriteString(wrapped(s, "    ", "      "))
		}
	}
	var changes []string
	for _, l := range d.Changes {
		changes = append(changes, l.Text)
	}
	lines := slices.Clone(changes)
	for _, r := range rows {
		changes = changes[:0]
		for _, l := range r.Changes {
			changes = append(changes, l.Text)
		}
		if len(changes) > 0 {
			lines = append(lines, string(r.Cluster)+": "+strings.Join(changes, "; "))
		}
	}
	if len(lines) > 0 {
		b.WriteString("  would change it:\n")
	}
	for _, line := range lines {
		b.WriteString(wrapped(line, "    ", "      "))
	}
}

// priceSources tell where the prices of clusters are from, those alike together.
func priceSources(rows []plan.ExplainedRoute) []string {
	var texts []string
	of := map[string][]string{}
	for _, r := range rows {
		for _, g := range r.Price.GPUs {
			text := fmt.Sprintf("%s %s has no price", g.Purchase, g.Class)
			if g.Known {
				text = fmt.Sprintf("%s %s $%.4g per GPU and hour, %s", g.Purchase, g.Class, g.USDPerHour, g.Why)
				if g.Source != "" {
					text += ", " + g.Source
				}
				if g.AgeS >= 0 {
					text += fmt.Sprintf(", %s old", (time.Duration(g.AgeS) * time.Second).Round(time.Minute))
				}
				if g.Estimate {
					text += ", an estimate"
				}
			}
			if of[text] == nil {
				texts = append(texts, text)
			}
			of[text] = append(of[text], string(r.Cluster))
		}
	}
	for i, text := range texts {
		texts[i] = strings.Join(slices.Compact(of[text]), ", ") + ": " + text
	}
	return texts
}

// wrapped breaks text into lines that are no wider than a page.
func wrapped(text, first, next string) string {
	var b strings.Builder
	line, width := first, len([]rune(first))
	empty := true
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		if !empty && width+1+n > pageWidth {
			b.WriteString(line + "\n")
			line, width, empty = next, len([]rune(next)), true
		}
		if !empty {
			line, width = line+" ", width+1
		}
		line, width, empty = line+word, width+n, false
	}
	b.WriteString(line + "\n")
	return b.String()
}

// percentage writes a share.
func percentage(share float64) string {
	if share > 0 && share < 0.001 {
		return "<0.1 %"
	}
	return strconv.FormatFloat(math.Round(1000*share)/10, 'f', -1, 64) + " %"
}

// threeDigits writes a number with three digits and what they count: "12.4k".
func threeDigits(x float64) string {
	unit := ""
	for _, u := range []struct {
		of   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if x >= 0.9995*u.of {
			x, unit = x/u.of, u.name
			break
		}
	}
	decimals := 2
	for limit := 9.995; decimals > 0 && x >= limit; limit *= 10 {
		decimals--
	}
	text := strconv.FormatFloat(x, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + unit
}
