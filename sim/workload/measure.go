package workload

import (
	"cmp"
	"math"
	"slices"
	"time"

	"anabranch/sim"
)

// Stats is what a workload is.
type Stats struct {
	Requests int
	// Span is from the start to the last request, and Rate the requests a second over it.
	Span time.Duration
	Rate float64
	// CV is the coefficient of variation of the times between arrivals: 1 for Poisson, more for bursts.
	CV float64
	// Prompt and Output are lengths in tokens.
	Prompt, Output LengthStats
	// Sessions is how many there are.
	Sessions int
	// Hit is the share of prompt tokens that one cache without limits would have, for each model and
	// adapter its own: what no routing can exceed.
	Hit float64
	// Regions, Tenants and Models (adapters as "model/adapter") are parts of the requests, the largest
	// first. None: the workload names none.
	Regions, Tenants, Models []Part
}

// LengthStats is a distribution of tokens.
type LengthStats struct {
	Sum                int
	Mean               float64
	P50, P90, P99, Max int
}

// Part is what one of several has.
type Part struct {
	Name                                 string
	Requests, PromptTokens, OutputTokens int
}

// Measure takes the first n requests of a source (or all there are) and says what they are. Where
// answers bring requests about, each is taken to need the given time. It remembers every block. The
// error is the source's.
func Measure(s Source, n int, answer time.Duration) (Stats, error) {
	p := Ahead(s)
	m := measurement{blocks: map[uint64]struct{}{}, sessions: map[uint64]struct{}{}}
	for i := range m.parts {
		m.parts[i] = map[string]*Part{}
	}
	var flying []Request // in order of their times, so also of their ends
	for len(m.prompt) < n {
		at, ok := p.Peek()
		if len(flying) > 0 && (!ok || flying[0].At+answer <= at) {
			p.Done(flying[0].ID, flying[0].At+answer, true)
			flying = flying[1:]
			continue
		}
		r, ok := p.Next()
		if !ok {
			break
		}
		m.add(&r)
		r.Blocks = nil
		flying = append(flying, r)
	}
	return m.stats(), Err(s)
}

// measurement is Stats on its way.
type measurement struct {
	last           time.Duration
	gaps, squares  float64
	prompt, output []int
	hit            int
	blocks         map[uint64]struct{}
	sessions       map[uint64]struct{}
	parts          [3]map[string]*Part
}

func (m *measurement) add(r *Request) {
	if len(m.prompt) > 0 {
		gap := (r.At - m.last).Seconds()
		m.gaps += gap
		m.squares += gap * gap
	}
	m.last = r.At
	m.prompt = append(m.prompt, r.PromptTokens)
	m.output = append(m.output, r.OutputTokens)
	if r.Session != 0 {
		m.sessions[r.Session] = struct{}{}
	}
	model := string(r.Model)
	if r.Adapter != "" {
		model += "/" + r.Adapter
	}
	m.look(r, model)
	for i, name := range []string{string(r.Region), string(r.Tenant), model} {
		p := m.parts[i][name]
		if p == nil {
			p = &Part{Name: name}
			m.parts[i][name] = p
		}
		p.Requests++
		p.PromptTokens += r.PromptTokens
		p.OutputTokens += r.OutputTokens
	}
}

// look counts the leading blocks that were there before, and remembers all.
func (m *measurement) look(r *Request, model string) {
	salt := tagOwn
	for _, c := range []byte(model) {
		salt = mix(salt, uint64(c))
	}
	found := true
	for _, h := range r.Blocks {
		h = mix(salt, h)
		if found {
			if _, found = m.blocks[h]; found {
				m.hit += sim.BlockSize
				continue
			}
		}
		m.blocks[h] = struct{}{}
	}
}

func (m *measurement) stats() Stats {
	n := len(m.prompt)
	st := Stats{
		Requests: n, Span: m.last, Sessions: len(m.sessions),
		Prompt: lengthStats(m.prompt), Output: lengthStats(m.output),
		Regions: sorted(m.parts[0]), Tenants: sorted(m.parts[1]), Models: sorted(m.parts[2]),
	}
	if m.last > 0 {
		st.Rate = float64(n) / m.last.Seconds()
	}
	if m.gaps > 0 {
		mean := m.gaps / float64(n-1)
		st.CV = math.Sqrt(max(0, m.squares/float64(n-1)-mean*mean)) / mean
	}
	if st.Prompt.Sum > 0 {
		st.Hit = float64(m.hit) / float64(st.Prompt.Sum)
	}
	return st
}

// lengthStats sorts the lengths. Percentiles are the least length that so many don't exceed.
func lengthStats(lengths []int) LengthStats {
	if len(lengths) == 0 {
		return LengthStats{}
	}
	slices.Sort(lengths)
	var st LengthStats
	for _, l := range lengths {
		st.Sum += l
	}
	at := func(p float64) int { return lengths[int(math.Ceil(p*float64(len(lengths))))-1] }
	st.Mean = float64(st.Sum) / float64(len(lengths))
	st.P50, st.P90, st.P99, st.Max = at(0.5), at(0.9), at(0.99), lengths[len(lengths)-1]
	return st
}

// sorted is by requests, most first. Where nothing has a name there are no parts.
func sorted(parts map[string]*Part) []Part {
	if len(parts) == 0 || len(parts) == 1 && parts[""] != nil {
		return nil
	}
	out := make([]Part, 0, len(parts))
	for _, p := range parts {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name, b.Name))
	})
	return out
}
