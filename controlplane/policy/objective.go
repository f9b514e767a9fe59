package policy

import "fmt"

// The words that a TrafficPolicy's objective takes, from what cares for latency alone to what cares for
// money as much as its objective lets it.
const (
	LatencyFirst   = "latency-first"
	LatencyLeaning = "latency-leaning"
	Balanced       = "balanced"
	CostLeaning    = "cost-leaning"
	CostFirst      = "cost-first"
)

// objective is one of the words.
type objective struct {
	word string
	// preference is the costPreference that it stands for.
	preference float64
	// title is how people call it.
	title string
}

// objectives are evenly apart.
var objectives = []objective{
	{LatencyFirst, 0, "latency first"},
	{LatencyLeaning, 0.25, "latency, then cost"},
	{Balanced, 0.5, "balanced"},
	{CostLeaning, 0.75, "cost, then latency"},
	{CostFirst, 1, "cost first"},
}

func objectiveWords() []string {
	words := make([]string, len(objectives))
	for i, o := range objectives {
		words[i] = o.word
	}
	return words
}

// preferenceOf is the cost preference that a word stands for.
func preferenceOf(word string) (float64, bool) {
	for _, o := range objectives {
		if o.word == word {
			return o.preference, true
		}
	}
	return 0, false
}

// ObjectiveTitle names a cost preference for people: "latency first" is 0 and "cost first" 1 alone, what lies
// between is called by what it is nearest to of "latency, then cost", "balanced" and "cost, then latency".
func ObjectiveTitle(preference float64) string {
	switch {
	case !(preference > 0):
		return objectives[0].title
	case preference >= 1:
		return objectives[4].title
	case preference < 0.375:
		return objectives[1].title
	case preference <= 0.625:
		return objectives[2].title
	}
	return objectives[3].title
}

// objective checks that word and number say the same.
func (f *finding) objective(s *TrafficPolicySpec) {
	f.between("spec.costPreference", s.CostPreference, 0, 1)
	if s.Objective == "" {
		return
	}
	f.oneOf("spec.objective", s.Objective, objectiveWords())
	if stands, known := preferenceOf(s.Objective); known && s.CostPreference != stands {
		f.add("spec.costPreference", fmt.Sprintf("%g is not what objective %s stands for, which is %g", s.CostPreference, s.Objective, stands), "leave out one of the two")
	}
}
