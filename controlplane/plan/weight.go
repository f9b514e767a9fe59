package plan

import (
	"maps"
	"math"
	"slices"

	"anabranch/api/fleet"
)

// fitRounds is how often sizes of sites and weights of models are fitted to each other. Where each model does as well
// on every site for its size, the first is enough.
const fitRounds = 20

// heaviness finds how much of a site a unit of each model's work takes, beside other models, and how large
// sites are beside each other: their capacities for a model are about their weight over its heaviness. So the
// work of several models, and the waiting at several sites, can be added up: both count by the time of machines
// that they take. It is the least squares fit of the logarithms of all capacities.
func (w *world) heaviness() map[fleet.ModelID]float64 {
	type pair struct {
		site, model int
		log         float64
	}
	index := map[fleet.ModelID]int{}
	for _, s := range w.sites {
		for m := range s.capacity {
			index[m] = 0
		}
	}
	models := slices.Sorted(maps.Keys(index))
	for i, m := range models {
		index[m] = i
	}
	var pairs []pair
	for i, s := range w.sites {
		for _, m := range slices.Sorted(maps.Keys(s.capacity)) {
			pairs = append(pairs, pair{i, index[m], math.Log(s.capacity[m])})
		}
	}
	size, heavy := make([]float64, len(w.sites)), make([]float64, len(models))
	sum, count := make([]float64, max(len(size), len(heavy))), make([]float64, max(len(size), len(heavy)))
	for range fitRounds {
		clear(sum)
		clear(count)
		for _, p := range pairs {
			sum[p.site] += p.log + heavy[p.model]
			count[p.site]++
		}
		for i := range size {
			size[i] = sum[i] / max(count[i], 1)
		}
		clear(sum)
		clear(count)
		for _, p := range pairs {
			sum[p.model] += size[p.site] - p.log
			count[p.model]++
		}
		for i := range heavy {
			heavy[i] = sum[i] / max(count[i], 1)
		}
	}
	for i, s := range w.sites {
		s.weight = math.Exp(size[i])
	}
	out := map[fleet.ModelID]float64{}
	for i, m := range models {
		out[m] = math.Exp(heavy[i])
	}
	return out
}
