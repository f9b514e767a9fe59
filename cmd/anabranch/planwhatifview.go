package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/plan"
)

// printWhatIf prints what a change would do.
func (a *app) printWhatIf(w client.WhatIfAnswer) error {
	if err := a.printf("%s", wrapped(outcomeOf(w.Effect), "", "  ")); err != nil {
		return err
	}
	rows := [][]string{}
	add := func(name string, of func(p plan.Picture) string) {
		rows = append(rows, []string{"  " + name, of(w.Before), of(w.After)})
	}
	add("work/s asked for", func(p plan.Picture) string { return threeDigits(p.WorkPerS) })
	add("that nothing may serve", func(p plan.Picture) string { return threeDigits(p.StrandedPerS) })
	add("beyond what clusters should do", func(p plan.Picture) string { return threeDigits(p.OverPerS) })
	add("to be shed", func(p plan.Picture) string { return shedding(p.Shed) })
	add("distance in the mean", func(p plan.Picture) string { return fmt.Sprintf("%.0f ms", p.RTTMs) })
	add("work costs an hour", func(p plan.Picture) string { return money(p.MarginalPerHour) })
	add("all GPUs cost an hour", func(p plan.Picture) string { return money(p.BillPerHour) })
	if err := a.table([]string{"  ALL", "BEFORE", "AFTER"}, rows); err != nil {
		return err
	}
	rows = rows[:0]
	for i, after := range w.After.Sites {
		if i >= len(w.Before.Sites) {
			break
		}
		before := w.Before.Sites[i]
		if before == after && after.WorkPerS == 0 {
			continue
		}
		rows = append(rows, []string{"  " + string(after.Cluster), threeDigits(before.WorkPerS), workAfter(after), usedOf(before), usedOf(after)})
	}
	if err := a.table([]string{"  CLUSTER", "WORK/S", "AFTER", "LOAD", "AFTER"}, rows); err != nil {
		return err
	}
	for _, d := range w.After.Demands {
		if d.Stranded != "" && d.WorkPerS > 0 {
			text := fmt.Sprintf("%s %s, class %s, from %s, %s work/s: %s", a.tinted("31", "stranded:"), d.Model, d.Class, d.Source, threeDigits(d.WorkPerS), d.Stranded)
			if err := a.printf("%s", wrapped(text, "  ", "    ")); err != nil {
				return err
			}
		}
	}
	if err := a.printMoves(w.Moves); err != nil {
		return err
	}
	if w.Simulation == nil {
		return nil
	}
	if err := a.printForecasts(w.Simulation.Before, w.Simulation.After); err != nil {
		return err
	}
	return a.printf("  %s\n", w.Simulation.Note)
}

// outcomeOf says in a sentence what is to be known first.
func outcomeOf(e plan.Effect) string {
	switch {
	case e.After.StrandedPerS > 0 && e.After.StrandedPerS > e.Before.StrandedPerS:
		return fmt.Sprintf("It would not be survived whole: nothing could serve %s of %s work/s.", threeDigits(e.After.StrandedPerS), threeDigits(e.After.WorkPerS))
	case len(e.After.Shed) > 0 && shedWork(e.After) > shedWork(e.Before):
		return fmt.Sprintf("There would be more to do than clusters can: %s work/s would have to be shed.", shedding(e.After.Shed))
	case e.After.OverPerS > 0 && e.After.OverPerS > e.Before.OverPerS:
		var full []string
		for _, s := range e.After.Sites {
			if s.OverPerS > 0 {
				full = append(full, string(s.Cluster))
			}
		}
		return fmt.Sprintf("Nothing would have to be shed, but clusters would be fuller than they should be: %s work/s are beyond that (%s).",
			threeDigits(e.After.OverPerS), strings.Join(full, ", "))
	case len(e.Moves) == 0:
		return "No share would move, and there would be room for all."
	}
	busiest := slices.MaxFunc(e.After.Sites, func(x, y plan.SitePicture) int {
		return cmp.Compare(x.Use/max(x.Limit, 1e-9), y.Use/max(y.Limit, 1e-9))
	})
	return fmt.Sprintf("There would be room for all; the busiest cluster, %s, would be at %.2f of what it can do, of which it should use %.2f at most.",
		busiest.Cluster, busiest.Use, busiest.Limit)
}

func shedWork(p plan.Picture) float64 {
	sum := 0.0
	for _, s := range p.Shed {
		sum += s.WorkPerS
	}
	return sum
}

func workAfter(s plan.SitePicture) string {
	if s.Lost {
		return "lost"
	}
	return threeDigits(s.WorkPerS)
}

func usedOf(s plan.SitePicture) string {
	switch {
	case s.Lost:
		return "-"
	case s.OverPerS > 0:
		return fmt.Sprintf("%.2f over", s.Use)
	}
	return fmt.Sprintf("%.2f", s.Use)
}

// shedding writes what is to be shed.
func shedding(list []plan.ShedWork) string {
	if len(list) == 0 {
		return "0"
	}
	var parts []string
	for _, s := range list {
		parts = append(parts, threeDigits(s.WorkPerS)+" of "+s.Tier)
	}
	return strings.Join(parts, ", ")
}

// money writes an amount and what is to be known of it.
func money(m plan.Money) string {
	text := fmt.Sprintf("$%.2f", m.USD)
	switch {
	case m.Unpriced:
		return text + " and what has no price"
	case m.Estimate:
		return text + " estimate"
	}
	return text
}
