package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"anabranch/sim/report"
	"anabranch/sim/report/stat"
)

// compareReports sets the second of two saved reports against the first.
func (a *app) compareReports(first, second string, f *replayFlags, format string) error {
	var both [2]*report.Report
	for i, file := range []string{first, second} {
		r, err := readReport(file)
		if err != nil {
			return err
		}
		both[i] = r
	}
	c := report.Compare(both[0], both[1])
	if len(f.figures) > 0 {
		for i := range c.Pairs {
			c.Pairs[i].Rows = slices.DeleteFunc(c.Pairs[i].Rows, func(d report.Difference) bool { return !slices.Contains(f.figures, d.Metric.Key) })
		}
	}
	if f.out != "" {
		if err := os.MkdirAll(f.out, 0o755); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		text := func(w io.Writer) error { return c.Text(w, report.Options{}) }
		if err := writeFile(filepath.Join(f.out, "comparison.txt"), text); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(f.out, "comparison.html"), c.HTML); err != nil {
			return err
		}
	}
	if format == "json" {
		return a.write("json", comparisonOf(c))
	}
	return c.Text(a.out, report.Options{Bold: a.color})
}

func readReport(file string) (*report.Report, error) {
	from, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	r, err := report.ReadJSON(from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; --compare wants the .json of two --out folders", file, err)
	}
	return r, nil
}

// comparison is what programs read of one.
type comparison struct {
	// Agreement is by how much P50 and P95 of the time to first token differ at most.
	Agreement stat.Number      `json:"agreement"`
	Policies  []policyCompared `json:"policies"`
	Alone     []string         `json:"alone,omitempty"`
}

type policyCompared struct {
	Policy  string           `json:"policy"`
	Figures []figureCompared `json:"figures"`
}

type figureCompared struct {
	Key    string        `json:"key"`
	A      stat.Estimate `json:"a"`
	B      stat.Estimate `json:"b"`
	Change stat.Change   `json:"change"`
}

func comparisonOf(c report.Comparison) comparison {
	out := comparison{Agreement: c.Agreement(), Policies: []policyCompared{}, Alone: c.Alone}
	for _, p := range c.Pairs {
		policy := policyCompared{Policy: p.Name, Figures: []figureCompared{}}
		for _, d := range p.Rows {
			policy.Figures = append(policy.Figures, figureCompared{d.Metric.Key, d.A, d.B, d.Change})
		}
		out.Policies = append(out.Policies, policy)
	}
	return out
}
