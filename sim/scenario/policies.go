package scenario

import (
	"fmt"
	"slices"
	"strings"

	"anabranch/controlplane/policy"
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

func noPolicy(name string) error {
	return fmt.Errorf("there is no policy %q; there are %s", name, strings.Join(Policies(), ", "))
}

// AboutPolicy says in one line what a policy is.
func AboutPolicy(name string) string {
	if name == Ours {
		return "Anabranch: the code of its routers and of its control plane"
	}
	return rival.About(name)
}

// newPolicy makes a policy for one run.
func (l *lane) newPolicy(name string, spec *world.Spec) (world.Policy, error) {
	if name != Ours {
		return rival.New(name, rival.Options{Values: l.values(name)})
	}
	o, err := l.oursOptions(spec)
	if err != nil {
		return nil, err
	}
	return ours.New(o), nil
}

// oursOptions are Anabranch's with what the document says of its resources.
func (s *Scenario) oursOptions(spec *world.Spec) (ours.Options, error) {
	var o ours.Options
	if s.Resources != "" {
		resources, problems := policy.ParseAll([]byte(s.Resources))
		if len(problems) > 0 {
			p := problems[0]
			return o, fmt.Errorf("line %d: %s: %s; %s", p.Line, p.Field, p.Reason, p.Fix)
		}
		o.Resources = resources
	}
	var err error
	if o.Resources, err = s.prefer(o.Resources); err != nil {
		return o, err
	}
	return o, o.Validate(spec)
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
