package flow

// Solution is how demands are divided, and what proves that it is the best. It doesn't change once made.
type Solution struct {
	// LevelMs of each demand: what its last unit of load costs, wherever it goes. It is the dual of its being met.
	LevelMs []float64
	// CongestionMs of each site: what a unit of load more would cost all that is there, by the site's size. It is the
	// dual of what the site can do, and more than its curve says where it is at its limit.
	CongestionMs []float64
	// Load of each site.
	Load []float64
	// Cost of the solution, in ms times load. Bound: no other costs less than that, so Cost-Bound is what this one may
	// be off by; it is next to nothing, but for rounding.
	Cost, Bound float64
	// Rounds is how often prices were changed to find it.
	Rounds int

	share        []float64 // of all ways
	start, steps []int32
}

// Shares of a demand, by its arcs. Together with what is shed they sum to 1.
func (s *Solution) Shares(demand int) []float64 {
	return s.share[s.start[demand]:s.steps[demand]]
}

// Shed is what is not served of a demand, by its steps, as parts of the demand.
func (s *Solution) Shed(demand int) []float64 {
	return s.share[s.steps[demand]:s.start[demand+1]]
}
