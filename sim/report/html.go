package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"anabranch/sim/report/chart"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is what the template of HTML shows.
type page struct {
	Title   string
	About   []string
	Command string
	// Kind says what kind of runs, and how many of each policy.
	Kind string
	// Verdict is shown if it has a headline, below the Heading.
	Heading  string
	Verdict  Verdict
	Tables   []grid
	Pictures []picture
	Style    template.CSS
}

// HTML writes the report as one page that needs nothing else: no script, and no file or address
// besides it.
func (r *Report) HTML(w io.Writer, o Options) error {
	tables, err := r.tables(o)
	if err != nil {
		return err
	}
	p := page{
		Title: r.Title, About: r.About, Command: r.Command, Kind: kindOf(r), Heading: "Go or no go", Verdict: Judge(r), Tables: tables,
		Pictures: r.pictures(),
	}
	return p.write(w)
}

// kindOf says what the runs are.
func kindOf(r *Report) string {
	kind := "Simulated"
	if r.Real {
		kind = "Requests really sent"
	}
	n := 0
	for _, s := range r.Summaries() {
		n = max(n, s.N)
	}
	if n > 1 {
		kind += fmt.Sprintf(", %d runs of each policy", n)
	}
	return kind + "."
}

func (p page) write(w io.Writer) error {
	p.Style = template.CSS(chart.Style()) //nolint:gosec // it is made of constants
	var kept []grid
	for _, t := range p.Tables {
		if len(t.Rows) > 0 {
			kept = append(kept, t)
		}
	}
	p.Tables = kept
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Sign and Word tell kinds of points apart without their colour.
func (k Kind) Sign() string { return k.sign() }

// Word is the sign for those who hear it.
func (k Kind) Word() string {
	switch k {
	case Good:
		return "speaks for it"
	case Bad:
		return "speaks against it"
	}
	return "speaks for neither"
}
