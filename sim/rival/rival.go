package rival

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"anabranch/sim/world"
)

// Options of a policy. The zero value is useful.
type Options struct {
	// NoResidency lets requests go where their tenant may not be served, as products do that know no
	// residency.
	NoResidency bool
	// Bound is how long a router waits for the first token before it tries elsewhere, as operators of
	// proxies may set it. 0: as long as the client, the default of products for streamed answers.
	Bound time.Duration
	// Values of parameters by name, as [Parameters] lists them. What isn't here has its default.
	Values map[string]float64
}

// kind is one of the policies.
type kind struct {
	name, about string
	parameters  []Parameter
	rule        func(values) rule
}

// kinds in the order in which they are shown: from those that know nothing to the one that knows all.
var kinds = []kind{
	{"random", "any pod with the same probability", nil, func(values) rule { return random{} }},
	{"round-robin", "one pod after the other, clusters in turn by their number of pods", nil, func(values) rule { return &roundRobin{} }},
	{"least-outstanding", "fewest own requests in flight, SageMaker's LEAST_OUTSTANDING_REQUESTS", nil, func(values) rule { return leastOutstanding{} }},
	{"p2c", "of two drawn the less loaded, the power of two choices", nil, func(values) rule { return twoChoices{} }},
	{"prefix-hash", "consistent placement by the prompt's beginning, SageMaker's PREFIX_AWARE", prefixParameters, newPrefixHash},
	{"bounded-load", "consistent hashing with bounded loads, as in KubeAI", boundedParameters, newBounded},
	{"weighted", "weighted sum of queue, KV cache and prefix scores, the defaults of llm-d and the Gateway API Inference Extension", weightedParameters, newWeighted},
	{"aws-gig", "argmax of four weighted signals with an overload guard, AWS's Global Inference Gateway", gigParameters, newGig},
	{"spill", "local first, the next nearest when saturated", spillParameters, newSpill},
	{"greedy", "least predicted first-token time over signals as they come", greedyParameters, newGreedy},
	{"oracle", "least true first-token time with perfect knowledge; nothing real can have it", oracleParameters, newOracle},
}

// Names of all policies.
func Names() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

// About says in one line what a policy is. Empty: there is no such policy.
func About(name string) string {
	k, _ := find(name)
	return k.about
}

func find(name string) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// New makes a policy for one run. The error says what names or parameters there are.
func New(name string, o Options) (world.Policy, error) {
	k, ok := find(name)
	if !ok {
		return nil, fmt.Errorf("policy %q is not one of %s", name, strings.Join(Names(), ", "))
	}
	given, err := complete(k, o.Values)
	if err != nil {
		return nil, err
	}
	return &policy{name: k.name, residency: !o.NoResidency, bound: max(0, o.Bound), rule: k.rule(given)}, nil
}
