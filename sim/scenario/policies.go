package scenario

import (
	"slices"

	"anabranch/sim/ours"
	"anabranch/sim/rival"
	"anabranch/sim/world"
)

// The policies that expressions leave out of best and most: Anabranch's own, and the one that knows
// everything.
const (
	Ours   = "ours"
	Oracle = "oracle"
)

// Policies are the names that documents may use.
func Policies() []string { return append([]string{Ours}, rival.Names()...) }

// AboutPolicy says in one line what a policy is.
func AboutPolicy(name string) string {
	if name == Ours {
		return "Anabranch: the code of its routers and of its control plane"
	}
	return rival.About(name)
}

// newPolicy makes a policy for one run.
func newPolicy(name string, values map[string]float64) (world.Policy, error) {
	if name == Ours {
		return ours.New(ours.Options{}), nil
	}
	return rival.New(name, rival.Options{Values: values})
}

// checkValues says which parameter of which policy can't be.
func checkValues(values map[string]map[string]float64) error {
	for _, name := range sortedKeys(values) {
		if !slices.Contains(rival.Names(), name) {
			_, err := rival.New(name, rival.Options{})
			return err
		}
		if _, err := rival.New(name, rival.Options{Values: values[name]}); err != nil {
			return err
		}
	}
	return nil
}
