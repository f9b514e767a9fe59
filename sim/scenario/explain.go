package scenario

import (
	"context"
	"fmt"
	"io"
	"time"

	"anabranch/sim/world"
)

// Explanation is how one request of a run went.
type Explanation struct {
	Policy  string       `json:"policy"`
	Seed    uint64       `json:"seed"`
	Request uint64       `json:"request"`
	Steps   []world.Step `json:"steps"`
}

// Explain runs a variant once and tells of one request. Variant empty: the first.
func (s *Scenario) Explain(ctx context.Context, o Options, variant, policy string, seed, request uint64) (*Explanation, error) {
	o.Policies, o.Variants = []string{policy}, []string{variant}
	if variant == "" {
		o.Variants = s.Variants()[:1]
	}
	lanes, err := s.lanes(&o)
	if err != nil {
		return nil, err
	}
	result, err := lanes[0].once(ctx, policy, seed, &o, world.Options{
		Explain: func(id uint64) bool { return id == request }, Progress: o.Progress,
	})
	if err != nil {
		return nil, err
	}
	e := &Explanation{Policy: policy, Seed: seed, Request: request, Steps: result.Explained[request]}
	if len(e.Steps) == 0 {
		last := uint64(0)
		for _, r := range result.Records {
			last = max(last, r.ID)
		}
		if last == 0 {
			return nil, fmt.Errorf("there is no request %d, nor any", request)
		}
		return nil, fmt.Errorf("there is no request %d; there are 1 to %d", request, last)
	}
	return e, nil
}

// Print writes it for people.
func (e *Explanation) Print(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "request %d by %s, seed %d\n", e.Request, e.Policy, e.Seed); err != nil {
		return err
	}
	for _, s := range e.Steps {
		if _, err := fmt.Fprintf(w, "%12s  %s\n", s.At.Round(10*time.Microsecond), s.Text); err != nil {
			return err
		}
	}
	return nil
}
