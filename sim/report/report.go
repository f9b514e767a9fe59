package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Version is that of the JSON. 1: the first.
const Version = 1

// maxJSON is how large a saved report may be.
const maxJSON = 256 << 20

// Report is the runs of several policies, or of one.
type Report struct {
	Version int    `json:"version"`
	Title   string `json:"title"`
	// About says for people what was run, a paragraph each: by how much a trace was thinned, what is
	// not covered.
	About []string `json:"about,omitempty"`
	// Command made it, as typed. Empty: not told.
	Command string `json:"command,omitempty"`
	// Real: requests were really sent; else they were simulated.
	Real bool `json:"real,omitempty"`
	// Ours is the policy that is judged. Empty: "ours".
	Ours string `json:"ours,omitempty"`
	// Baselines are the policies that it is judged against, the simplest first. Empty: all others but
	// the oracle, in the order of Runs.
	Baselines []string `json:"baselines,omitempty"`
	// Oracle knows what no policy can, and is no baseline. Empty: "oracle".
	Oracle string `json:"oracle,omitempty"`
	// Runs of one policy have different seeds; runs with the same seed met the same requests.
	Runs []Figures `json:"runs"`
}

// New gathers runs into a report. Timelines are kept of the first run of each policy.
func New(title string, runs []Figures) *Report {
	r := &Report{Version: Version, Title: title, Runs: slices.Clone(runs)}
	seen := map[string]bool{}
	for i := range r.Runs {
		if seen[r.Runs[i].Policy] {
			r.Runs[i].Timeline = nil
		}
		seen[r.Runs[i].Policy] = true
	}
	return r
}

// Policies in the order of their first runs.
func (r *Report) Policies() []string {
	var out []string
	for i := range r.Runs {
		if !slices.Contains(out, r.Runs[i].Policy) {
			out = append(out, r.Runs[i].Policy)
		}
	}
	return out
}

// Of are the runs of a policy.
func (r *Report) Of(policy string) []Figures {
	var out []Figures
	for i := range r.Runs {
		if r.Runs[i].Policy == policy {
			out = append(out, r.Runs[i])
		}
	}
	return out
}

// Summaries of all policies, in order.
func (r *Report) Summaries() []Summary {
	var out []Summary
	for _, p := range r.Policies() {
		out = append(out, Summarise(r.Of(p)))
	}
	return out
}

func (r *Report) ours() string {
	if r.Ours == "" {
		return "ours"
	}
	return r.Ours
}

func (r *Report) oracle() string {
	if r.Oracle == "" {
		return "oracle"
	}
	return r.Oracle
}

// baselines that were run.
func (r *Report) baselines() []string {
	policies := r.Policies()
	if len(r.Baselines) > 0 {
		return slices.DeleteFunc(slices.Clone(r.Baselines), func(p string) bool { return !slices.Contains(policies, p) })
	}
	return slices.DeleteFunc(policies, func(p string) bool { return p == r.ours() || p == r.oracle() })
}

// WriteJSON writes the report, with the summaries of its policies for those who only read.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		*Report
		Summaries []Summary `json:"summaries"`
	}{r, r.Summaries()})
}

// ReadJSON reads a report that WriteJSON wrote.
func ReadJSON(from io.Reader) (*Report, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxJSON+1))
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if len(text) > maxJSON {
		return nil, fmt.Errorf("read report: it is larger than %d MiB", maxJSON>>20)
	}
	r := &Report{}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(r); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	if r.Version != Version {
		return nil, fmt.Errorf("read report: version %d is not %d, the one known", r.Version, Version)
	}
	if len(r.Runs) == 0 {
		return nil, errors.New("read report: it holds no runs")
	}
	for i := range r.Runs {
		if err := r.Runs[i].Timeline.check(); err != nil {
			return nil, fmt.Errorf("read report: run %d, timeline: %w", i+1, err)
		}
	}
	return r, nil
}
