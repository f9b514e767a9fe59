package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"anabranch/sim/workload"
)

// kinds are the generators of workloads by their names in documents: the options to read, and the
// traffic in them, whose seed is the run's to give.
var kinds = map[string]func() (workload.Spec, *workload.Traffic){
	"uniform":       func() (workload.Spec, *workload.Traffic) { w := &workload.Uniform{}; return w, &w.Traffic },
	"bursty":        func() (workload.Spec, *workload.Traffic) { w := &workload.Bursty{}; return w, &w.Traffic },
	"shared-prefix": func() (workload.Spec, *workload.Traffic) { w := &workload.SharedPrefix{}; return w, &w.Traffic },
	"sessions":      func() (workload.Spec, *workload.Traffic) { w := &workload.Sessions{}; return w, &w.Traffic },
	"agentic":       func() (workload.Spec, *workload.Traffic) { w := &workload.Agentic{}; return w, &w.Traffic },
	"batch":         func() (workload.Spec, *workload.Traffic) { w := &workload.Batch{}; return w, &w.Traffic },
}

// Kinds are the kinds of workloads that a part of a document may have: generators, and the formats of
// traces, see [Trace].
func Kinds() []string {
	return slices.Sorted(slices.Values(slices.AppendSeq(slices.Collect(maps.Keys(kinds)), maps.Keys(formats))))
}

// part reads one part of a workload. Traces is the folder of traces; empty: there is none.
func part(n *yaml.Node, seed uint64, traces string) (workload.Spec, error) {
	kind := child(n, "kind")
	if kind == nil {
		return nil, fmt.Errorf("line %d: kind: say which; there are %s", n.Line, strings.Join(Kinds(), ", "))
	}
	of, generated := kinds[kind.Value]
	if !generated && formats[kind.Value] == nil {
		return nil, fmt.Errorf("line %d: kind: there is no %q; there are %s", kind.Line, kind.Value, strings.Join(Kinds(), ", "))
	}
	rest := *n
	rest.Content = nil
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value != "kind" {
			rest.Content = append(rest.Content, n.Content[i], n.Content[i+1])
		}
	}
	if !generated {
		return traceOf(&rest, kind.Value, seed, traces)
	}
	w, traffic := of()
	if err := decode(&rest, w); err != nil {
		return nil, err
	}
	switch {
	case traffic.Requests == 0 && traffic.Duration == 0:
		return nil, fmt.Errorf("line %d: traffic: it never ends: set requests or duration", n.Line)
	case traffic.Requests > MaxRequests:
		return nil, fmt.Errorf("line %d: traffic: requests: %d is more than %d, whose records would fill the memory", n.Line, traffic.Requests, MaxRequests)
	}
	traffic.Seed = seed
	return w, w.Validate()
}

// source starts the workload of a scenario. Each part has a seed of its own.
func (s *Scenario) source(seed uint64, o *Options) (workload.Source, error) {
	var all []workload.Source
	for i := range s.Workload {
		p, err := part(&s.Workload[i], seed*1_000_003+uint64(i), o.Traces)
		if err != nil {
			return nil, fmt.Errorf("workload[%d]: %w", i, err)
		}
		from, err := p.Source()
		if err != nil {
			return nil, fmt.Errorf("workload[%d]: %w", i, err)
		}
		all = append(all, from)
	}
	merged := all[0]
	if len(all) > 1 {
		merged = workload.Merge(all...)
	}
	if o.Requests == 0 {
		return merged, nil
	}
	return &first{Source: merged, left: o.Requests}, nil
}

// first is the beginning of a source.
type first struct {
	workload.Source
	left int
}

// Next is the next request, as long as there are any left.
func (f *first) Next() (workload.Request, bool) {
	if f.left == 0 {
		return workload.Request{}, false
	}
	r, ok := f.Source.Next()
	if ok {
		f.left--
	}
	return r, ok
}

// Peek is the time of the request that Next would give, where the source can tell.
func (f *first) Peek() (time.Duration, bool) {
	p, ok := f.Source.(workload.Peeker)
	if !ok || f.left == 0 {
		return 0, false
	}
	return p.Peek()
}

// Ended says that nothing will come any more.
func (f *first) Ended() bool { return f.left == 0 || f.Source.Ended() }
