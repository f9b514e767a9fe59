package rival

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Parameter is something of a policy that its operator sets, and that [Search] can set for him.
type Parameter struct {
	// Name in lower case with hyphens, and About what it is, with its unit.
	Name, About string
	// Default is what the policy's maker publishes, where he does.
	Default float64
	// Least and Most that may be set.
	Least, Most float64
	// Try are the values that a search tries, in rising order. Empty: it leaves the parameter alone.
	Try []float64
	// Share: it is one of a policy's weights that are searched together and sum to 1.
	Share bool
}

// Parameters of a policy, in the order in which they are searched. Nil: it has none, or there is no
// such policy.
func Parameters(name string) []Parameter {
	k, _ := find(name)
	return slices.Clone(k.parameters)
}

// values are a policy's parameters, all of them.
type values map[string]float64

// complete adds the defaults to what is given, and says what of it can't be.
func complete(k kind, given map[string]float64) (values, error) {
	all := values{}
	var names []string
	var sum float64
	var shares bool
	for _, p := range k.parameters {
		names = append(names, p.Name)
		x, ok := given[p.Name]
		if !ok {
			x = p.Default
		}
		if !(x >= p.Least && x <= p.Most) {
			return nil, fmt.Errorf("%s: %s is %v, want %v to %v", k.name, p.Name, x, p.Least, p.Most)
		}
		all[p.Name] = x
		if p.Share {
			shares = true
			sum += x
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := all[name]; !ok {
			if len(names) == 0 {
				return nil, fmt.Errorf("%s has no parameters, %q is given", k.name, name)
			}
			return nil, fmt.Errorf("%s: parameter %q is not one of %s", k.name, name, strings.Join(names, ", "))
		}
	}
	if shares && (sum < 1-shareSlack || sum > 1+shareSlack) {
		return nil, fmt.Errorf("%s: the weights sum to %v, want 1", k.name, sum)
	}
	return all, nil
}

// shareSlack is how far weights may be from 1 together, as AWS has it.
const shareSlack = 0.001 + 1e-9
