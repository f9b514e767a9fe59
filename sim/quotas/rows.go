package quotas

import (
	"fmt"
	"math"
	"time"
)

// Row is a fault with what it may cost.
type Row struct {
	Name  string
	Fault Fault
	// Bound of the excess, in bursts; +Inf: none.
	Bound float64
	// Text of the bound.
	Text string
	// telling: it is shown of the other schemes, too.
	telling bool
}

// silentAfter is how long the store takes to notice that it hears nothing of a region.
const silentAfter = 1500 * time.Millisecond

// Rows are the faults of the proof, for a spec whose store is away from and to the times given.
func Rows(s Spec, from, to time.Duration) []Row {
	apart := func(regions ...int) (bound float64, text string) {
		parts := 0.0
		for _, r := range regions {
			parts += float64(s.shares()[r].Parts) / 1e6
		}
		return parts * (overshoot/100.0 + silentAfter.Seconds()/s.Burst.Seconds()),
			fmt.Sprintf("its share (%.0f %%) × 0.2 B and its share × r × 1.5 s", 100*parts)
	}
	one, oneText := apart(2)
	two, twoText := apart(3, 4)
	return []Row{
		{"none", Fault{}, 0, "0", false},
		{"a router crashes each 10 s", Fault{Crash: 10 * time.Second}, 0, "0", false},
		{"5 % of calls and of answers lost, closed", Fault{Lost: 0.05, Policy: Closed}, 0, "0", false},
		{"5 % of calls and of answers lost, share", Fault{Lost: 0.05}, overshoot / 100.0, "0.2 B: who hears nothing takes the store for away", true},
		{"a fifth of calls carried out twice", Fault{Repeated: 0.2}, 0, "0", false},
		{"clock steps back an hour", Fault{StepAt: from, Step: -time.Hour}, 0, "0", true},
		{"clock steps on an hour", Fault{StepAt: from, Step: time.Hour}, 1, "min(B, r·D), once", true},
		{"all state lost", Fault{Lose: from}, cold / 100.0, "cold 20 % of B", true},
		{"store away 30 s, share", Fault{From: from, To: to}, overshoot / 100.0, "0.2 B", true},
		{"store away 30 s, closed", Fault{From: from, To: to, Policy: Closed}, 0, "0", false},
		{"store away 30 s, open", Fault{From: from, To: to, Policy: Open}, math.Inf(1), "unbounded", true},
		{"one region cut off 30 s", Fault{From: from, To: to, Cut: []int{2}}, one, oneText, true},
		{"two regions cut off 30 s", Fault{From: from, To: to, Cut: []int{3, 4}}, two, twoText, false},
		{"crashes, losses, repetitions and a step back, closed", Fault{Policy: Closed, Crash: 5 * time.Second, Lost: 0.05, Repeated: 0.2, StepAt: from, Step: -time.Hour}, 0, "0", false},
	}
}
