package failover

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// goal is one thing that is measured.
type goal struct {
	name, unit string
	want       float64
	// hard: one sample above what is wanted fails the test. Of others three times as much does, since
	// machines that tests run on have much else to do.
	hard    bool
	samples []float64
}

func (g *goal) limit() float64 {
	if g.hard {
		return g.want
	}
	return 3 * g.want
}

// board holds what was measured beside what is wanted.
type board struct{ goals []*goal }

// The goals, in the order of the table.
const (
	notice        = "router notices a killed cluster"
	retried       = "refused connection answers elsewhere"
	left          = "99 % of new traffic away from a killed cluster"
	evacuated     = "control plane has evacuated a killed cluster"
	evacuatedIll  = "control plane has evacuated an ill cluster"
	silent        = "router leaves what accepts and emits nothing"
	blackHole     = "router leaves what swallows packets"
	errorsGrey    = "router leaves 30 % errors"
	slowGrey      = "3 × time to first token is DEGRADED"
	lostRequests  = "requests lost, each run"
	cutLate       = "cut stream has its error event after the kill"
	cutUncounted  = "cut streams without usage, each run"
	amplified     = "attempts for each request over any 10 s"
	drained       = "streams cut by a drain"
	survivors     = "fullest survivor, of its capacity"
	survivorsMean = "survivors, of their capacity, mean of a run"
	unjust        = "clusters moved away from without cause, each run"
	swings        = "steady weights, peak to peak"
	turns         = "steady weights, reversals a minute"
	flaps         = "transitions by an alternating signal"
	aloneSlower   = "time to first token without a control plane, of that with one"
	fromDisk      = "router serves from disk after its start"
	quorumBack    = "every router current after the quorum is back"
	jump          = "weights move when the quorum is back"
	residency     = "answers from outside the tenant's zone, each run"
	skippedByLoad = "requests that the load left out"
)

func newBoard() *board {
	return &board{goals: []*goal{
		{name: notice, unit: "s", want: 1},
		{name: retried, unit: "ms", want: 250},
		{name: left, unit: "s", want: 3},
		{name: evacuated, unit: "s", want: 15},
		{name: evacuatedIll, unit: "s", want: 30},
		{name: silent, unit: "s", want: 5},
		{name: blackHole, unit: "s", want: 5},
		{name: errorsGrey, unit: "s", want: 15},
		{name: slowGrey, unit: "s", want: 15},
		{name: lostRequests, hard: true},
		{name: cutLate, unit: "s", want: 2},
		{name: cutUncounted, hard: true},
		{name: amplified, unit: "×", want: 1.1},
		{name: drained, hard: true},
		{name: survivors, unit: "×", want: 1},
		{name: survivorsMean, unit: "×", want: 0.9},
		{name: unjust, hard: true},
		{name: swings, unit: "points", want: 5},
		{name: turns, want: 1},
		{name: flaps, want: 2},
		{name: aloneSlower, unit: "×", want: 1.5},
		{name: fromDisk, unit: "s", want: 2},
		{name: quorumBack, unit: "s", want: 10},
		{name: jump, unit: "points", want: 5},
		{name: residency, hard: true},
		{name: skippedByLoad, unit: "%", want: 1},
	}}
}

func (b *board) add(name string, sample float64) {
	i := slices.IndexFunc(b.goals, func(g *goal) bool { return g.name == name })
	b.goals[i].samples = append(b.goals[i].samples, sample)
}

// fail tells of each goal that was missed by more than is let pass.
func (b *board) fail(t *testing.T) {
	t.Helper()
	for _, g := range b.goals {
		if worst := quantile(g.samples, 1); worst > g.limit() {
			t.Errorf("%s: %.4g %s, wanted at most %.4g", g.name, worst, g.unit, g.want)
		}
	}
}

// String is the table.
func (b *board) String() string {
	var text strings.Builder
	text.WriteString("| measured | wanted | p50 | max | samples | above |\n|---|---:|---:|---:|---:|---:|\n")
	for _, g := range b.goals {
		above := 0
		for _, v := range g.samples {
			if v > g.want {
				above++
			}
		}
		if len(g.samples) == 0 {
			fmt.Fprintf(&text, "| %s | ≤ %.4g %s | | | 0 | |\n", g.name, g.want, g.unit)
			continue
		}
		fmt.Fprintf(&text, "| %s | ≤ %.4g %s | %.3g | %.3g | %d | %d |\n", g.name, g.want, g.unit,
			quantile(g.samples, 0.5), quantile(g.samples, 1), len(g.samples), above)
	}
	return text.String()
}
