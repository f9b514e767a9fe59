package bound

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Peak compares two ways to provision. Both do all work in its interval.
type Peak struct {
	// Own and Fleet are GPUs by region, in parts of one too: where each has what its own peak needs, and
	// where work goes to any region that may do it.
	Own, Fleet []float64
	// OwnHours and FleetHours are what these GPUs come to over all intervals.
	OwnHours, FleetHours float64
}

// MaxGroups is how many groups of regions with different rules there may be.
const MaxGroups = 10

// Peaks provisions so many regions for the intervals, where a GPU does gpu work a second. The fleet is
// the smallest that can do each interval's work within its rules; which of several smallest ones is
// arbitrary, and regions that have the same rules share their part evenly.
func Peaks(regions int, gpu float64, intervals []Interval) (Peak, error) {
	if !(gpu > 0) || regions < 1 {
		return Peak{}, fmt.Errorf("%d regions with GPUs that do %v a second, want both above 0", regions, gpu)
	}
	if err := check(regions, intervals); err != nil {
		return Peak{}, err
	}
	group, groups := alike(regions, intervals)
	if groups > MaxGroups {
		return Peak{}, fmt.Errorf("%d regions differ in whose work they may do, at most %d may", groups, MaxGroups)
	}
	own := make([]float64, regions)
	needs := make([]int64, 1<<groups) // work a second × 1000 that only these groups may do, at its peak
	var hours float64
	for _, in := range intervals {
		hours += in.Length.Hours()
		home := make([]float64, regions)
		total := make([]float64, 1<<groups)
		for _, d := range in.Demands {
			rate := float64(d.Work) / in.Length.Seconds()
			home[d.Home] += rate
			within := set(d, group, groups)
			for all := range total {
				if within&^all == 0 {
					total[all] += rate
				}
			}
		}
		for r, x := range home {
			own[r] = max(own[r], x/gpu)
		}
		for s, x := range total {
			needs[s] = max(needs[s], int64(math.Ceil(x*1000)))
		}
	}
	out := Peak{Own: own, Fleet: make([]float64, regions)}
	for g, x := range cover(groups, needs) {
		size := 0
		for _, of := range group {
			if of == g {
				size++
			}
		}
		for r, of := range group {
			if of == g {
				out.Fleet[r] = x / 1000 / gpu / float64(size)
			}
		}
	}
	for r := range regions {
		out.OwnHours += out.Own[r] * hours
		out.FleetHours += out.Fleet[r] * hours
	}
	return out, nil
}

// cover is the least sizes of groups with which each set of them together has what it needs. By Hall's
// theorem that is enough for all work to find a place.
func cover(groups int, needs []int64) []float64 {
	p := packing{rows: groups}
	for s, x := range needs {
		if s > 0 && x > 0 {
			p.columns = append(p.columns, column{uint(s), x})
		}
	}
	sizes := make([]float64, groups)
	for g, x := range p.prices() {
		sizes[g], _ = x.Float64()
	}
	return sizes
}

// alike groups regions that may do the same work: the group of each, and how many there are.
func alike(regions int, intervals []Interval) (group []int, groups int) {
	signature := make([][]bool, regions) // whether the region is in each of the sets that there are
	var sets [][]int
	for _, in := range intervals {
		for _, d := range in.Demands {
			if d.May == nil {
				continue
			}
			may := slices.Compact(slices.Sorted(slices.Values(d.May)))
			if slices.ContainsFunc(sets, func(s []int) bool { return slices.Equal(s, may) }) {
				continue
			}
			sets = append(sets, may)
			for r := range regions {
				signature[r] = append(signature[r], slices.Contains(may, r))
			}
		}
	}
	var kinds [][]bool
	for r := range regions {
		g := slices.IndexFunc(kinds, func(k []bool) bool { return slices.Equal(k, signature[r]) })
		if g < 0 {
			g = len(kinds)
			kinds = append(kinds, signature[r])
		}
		group = append(group, g)
	}
	return group, len(kinds)
}

// set is the groups of the regions where the demand may be served.
func set(d Demand, group []int, groups int) int {
	if d.May == nil {
		return 1<<groups - 1
	}
	s := 0
	for _, r := range d.May {
		s |= 1 << group[r]
	}
	return s
}

func check(regions int, intervals []Interval) error {
	for i, in := range intervals {
		if in.Length < time.Millisecond {
			return fmt.Errorf("interval %d is %v long, want 1 ms at least", i, in.Length)
		}
		for _, d := range in.Demands {
			if err := d.check(regions); err != nil {
				return fmt.Errorf("interval %d: %w", i, err)
			}
			if d.Home < 0 || d.Home >= regions {
				return fmt.Errorf("interval %d: work of region %d of %d", i, d.Home, regions)
			}
			if d.May != nil && len(d.May) == 0 && d.Work > 0 {
				return fmt.Errorf("interval %d: work that no region may do", i)
			}
		}
	}
	return nil
}
