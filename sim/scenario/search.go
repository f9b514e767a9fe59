package scenario

import (
	"context"
	"fmt"
	"slices"

	"anabranch/sim/report"
	"anabranch/sim/rival"
	"anabranch/sim/world"
)

const (
	// searchBudget is how many runs a search may make, which is also what it weighs in the progress.
	searchBudget = 12
	// searchSeed is of the workload that a search sees, which is none of those that are reported.
	searchSeed = 1 << 32
	// lostPenalty is by how much a score grows with the share of requests that are lost: 1 % counts as
	// 10 %.
	lostPenalty = 10
)

// search is for the parameters of one policy in one variant.
type search struct {
	*lane
	policy string
}

// searchesOf are the searches that the variants ask for.
func searchesOf(lanes []*lane) []search {
	var all []search
	for _, l := range lanes {
		for _, p := range l.Search {
			if slices.Contains(l.policies, p) {
				all = append(all, search{lane: l, policy: p})
			}
		}
	}
	return all
}

// search finds parameters. The score is the 99th percentile of first-token times.
func (s search) search(ctx context.Context, from *Options) (map[string]float64, error) {
	best, _, err := rival.Search(ctx, s.policy, rival.Options{Values: s.Values[s.policy]}, searchBudget,
		func(ctx context.Context, o rival.Options) (float64, error) {
			trial := *s.lane
			trial.found = map[string]map[string]float64{s.policy: o.Values}
			result, err := trial.once(ctx, s.policy, searchSeed, from, world.Options{})
			if err != nil {
				return 0, err
			}
			f := report.Of(result)
			return float64(f.TTFT.P99) * (1 + lostPenalty*float64(f.Ends.Lost)), nil
		})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.title(), err)
	}
	return best.Values, nil
}
