package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"anabranch/api/routerpb"
)

const (
	// deadBand is how far a share must be from where it should be before it moves.
	deadBand = 0.02
	// quantum is what shares are rounded to.
	quantum = 1e-4
)

// settle decides what becomes of the solution: it is taken, approached or left.
func (d *demand) settle(w *world, in Input) {
	d.refuse(in)
	target := make([]float64, len(d.routes))
	for i, r := range d.routes {
		target[i] = r.share
	}
	round(target)
	before := make([]float64, len(d.routes))
	for i, r := range d.routes {
		before[i] = r.before
	}
	switch {
	case len(d.routes) == 0:
		d.why = "no cluster that can be reached serves the model"
		return
	case !d.usable():
		d.last(before, in)
		return
	case d.before == nil || !positive(before):
		d.repriced = false
		d.take(target, "first weights: "+d.describe())
		return
	}
	newcomer := d.newcomer(in.Signals)
	furthest := distance(before, target)
	if d.displaced != "" || furthest <= deadBand || d.pressed(target) {
		d.repriced = false
	}
	d.thrifty = d.displaced == "" && d.saves(before, target) && !d.pressed(target)
	switch {
	case d.displaced != "" && !in.Warm && d.keepUsable(before):
		d.take(before, "held until enough routers have reported; "+d.displaced)
	case d.displaced != "" && furthest < quantum/2 && d.same(), d.displaced == "" && furthest <= d.band() && !d.unprobed():
		d.keep(in, "in force: "+d.describe())
	case d.displaced != "":
		if !d.lost && d.manner == paced { // what a lost site did moves at once, and the solution knows how cold it comes
			d.warmUp(target)
		}
		d.take(target, "moved at once, "+d.displaced+": "+d.describe())
	case !in.Warm:
		d.keep(in, "held until enough routers have reported")
	case in.Frozen:
		d.keep(in, "held: changes are frozen")
	case d.silent != "" && d.urgent > 0:
		d.relieve(before, in)
	case d.silent != "":
		d.keep(in, d.deaf())
	case newcomer != "":
		d.keep(in, "held: a router in "+string(newcomer)+" has only just begun to report")
	case d.manner == waiting && d.work > 0:
		d.keep(in, "held: survivors of a loss have no room for what load moves: "+d.describe())
	case d.manner == together && d.work > 0:
		d.take(target, "moved at once, to make room on survivors of a loss: "+d.describe())
	case furthest <= deadBand:
		d.take(d.reprobed(before, target), "in force but for probes: "+d.describe())
	default:
		d.approach(before, target, in)
	}
}

// band is how far shares may be from the solution and stay.
func (d *demand) band() float64 {
	if d.manner == together && d.work > 0 {
		return quantum / 2
	}
	return deadBand
}

// last holds on to the last good weights where health bars every site. An operator's order, be it
// a drain or a policy, bars for good: what remains then is nothing.
func (d *demand) last(before []float64, in Input) {
	sum := 0.0
	shares := make([]float64, len(d.routes))
	for pass := range 2 {
		for i, r := range d.routes {
			if r.barred == "" || r.excluded || !r.unwell() {
				continue
			}
			shares[i] = before[i]
			if pass == 1 {
				shares[i] = r.size
			}
			sum += shares[i]
		}
		if sum > 0 {
			break
		}
	}
	if sum <= 0 {
		d.why = "every cluster is barred: " + d.describe()
		return
	}
	for i := range shares {
		shares[i] /= sum
	}
	round(shares)
	if d.before != nil && d.same() && distance(before, shares) < quantum/2 {
		d.keep(in, "no cluster is healthy: last good weights")
		return
	}
	d.take(shares, "no cluster is healthy: last good weights")
}

// unwell says that it is health alone that bars the site.
func (r *route) unwell() bool { return !r.site.spec.Drained && r.cap() <= 0 }

// keepUsable leaves out what is barred from the shares in force, and says whether anything is left.
func (d *demand) keepUsable(before []float64) bool {
	sum := 0.0
	for i, r := range d.routes {
		if r.barred != "" {
			before[i] = 0
		}
		sum += before[i]
	}
	if sum <= 0 {
		return false
	}
	for i := range before {
		before[i] /= sum
	}
	round(before)
	return true
}

// approach moves towards the target so far that no region's share rises by more than growth allows
// for the time since the table in force, a second at most, and after a change of price that no more
// moves at all than that may. All shares keep pace: what may not yet
// go to one region stays where it is. What a site has too much does not wait for that, and what a site with
// cold caches may not have yet does.
func (d *demand) approach(before, target []float64, in Input) {
	pace, how := d.pace(before, target, passed(in)), fmt.Sprintf("by at most %.2g points a second", 100*growth)
	if slow := d.pricePace(before, target, passed(in)); slow < pace {
		pace, how = slow, fmt.Sprintf("by at most %.2g points a second", 100*priceGrowth)
	}
	next := towards(before, target, pace)
	d.warmUp(next)
	if d.urgent > pace {
		pace, how = d.urgent, "what a cluster has too much at once"
		next = towards(before, target, pace)
	}
	switch {
	case distance(before, next) < quantum/2:
		d.keep(in, "in force: "+d.describe())
	case pace < 1:
		d.take(next, fmt.Sprintf("on the way, %s: %s", how, d.describe()))
	default:
		d.take(next, d.describe())
	}
}

// towards goes a part of the way.
func towards(before, target []float64, pace float64) []float64 {
	next := make([]float64, len(before))
	for i := range before {
		next[i] = before[i] + pace*(target[i]-before[i])
	}
	round(next)
	return next
}

// take makes shares the weights.
func (d *demand) take(shares []float64, why string) {
	d.why = why
	d.out = nil
	for i, r := range d.routes {
		d.out = append(d.out, &routerpb.ClusterWeight{
			Cluster: string(r.site.id), Weight: shares[i], Standby: (r.ordered || r.dear) && shares[i] == 0, Reason: r.reason(d, shares[i]),
		})
	}
}

// keep leaves the weights in force as they are, and their reasons as long as these hold. Who is not
// warm has no say in either.
func (d *demand) keep(in Input, why string) {
	d.why = why
	d.out = d.before.GetClusters()
	if in.Warm {
		d.out = d.explained()
	}
}

// same says that the list in force speaks of the same clusters.
func (d *demand) same() bool {
	return slices.EqualFunc(d.routes, d.before.GetClusters(), func(r *route, c *routerpb.ClusterWeight) bool {
		return string(r.site.id) == c.GetCluster()
	})
}

func (d *demand) weights() *routerpb.Weights {
	return &routerpb.Weights{Model: string(d.model), Class: string(d.class), Source: string(d.source), Clusters: d.out, Shed: d.refused}
}

// describe tells the solution in one line.
func (d *demand) describe() string {
	var local, remote float64
	var notes []string
	for _, r := range d.routes {
		switch {
		case r.barred != "":
			notes = append(notes, fmt.Sprintf("%s %s", r.site.id, r.barred))
		case r.because != "":
			notes = append(notes, fmt.Sprintf("%s %s", r.site.id, r.because))
		case r.note(r.share) != "":
			notes = append(notes, fmt.Sprintf("%s %s", r.site.id, r.note(r.share)))
		}
		if r.site.region == d.source {
			local += r.share
		} else {
			remote += r.share
		}
	}
	text := fmt.Sprintf("%.0f work/s, %.0f %% local, %.0f %% elsewhere", d.work, 100*local, 100*remote)
	for _, more := range []string{d.told(), d.overflow()} {
		if more != "" {
			notes = append([]string{more}, notes...)
		}
	}
	if len(notes) > 0 {
		text += "; " + strings.Join(notes, "; ")
	}
	return text
}

// round brings shares to multiples of quantum that sum to 1, each less than one away from where it was:
// they are cut off, and those that lost most by that get one more (the largest remainder method). The
// largest can't make up for all that many small ones gain by rounding: it would end below 0.
func round(shares []float64) {
	if !positive(shares) {
		return
	}
	left := 1 / quantum
	order := make([]int, len(shares))
	lost := make([]float64, len(shares))
	for i, x := range shares {
		steps := math.Floor(x/quantum + 1e-6) // what is a multiple already stays one
		order[i], lost[i] = i, x/quantum-steps
		shares[i] = steps
		left -= steps
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lost[b], lost[a]) })
	for _, i := range order[:min(max(int(math.Round(left)), 0), len(order))] {
		shares[i]++
	}
	for i := range shares {
		shares[i] /= 1 / quantum
	}
}

func positive(shares []float64) bool {
	return slices.ContainsFunc(shares, func(x float64) bool { return x > 0 })
}

func distance(a, b []float64) float64 {
	far := 0.0
	for i := range a {
		far = max(far, math.Abs(a[i]-b[i]))
	}
	return far
}
