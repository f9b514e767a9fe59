package scenario

import "anabranch/sim/workload"

// Source starts the workload of a variant as a run with the seed gets it, for those who send it
// themselves. Of the options it heeds Full, Requests and Traces.
func (s *Scenario) Source(variant string, seed uint64, o Options) (workload.Source, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	v, err := s.variant(variant, o.Full)
	if err != nil {
		return nil, err
	}
	return v.source(seed, &o)
}
