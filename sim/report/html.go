package report

import (
	"bytes"
	_ "embed"
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
	// Real and N say what kind of runs, and how many of each policy.
	Real bool
	N    int
	// Verdict is shown if it has a headline.
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
		Title: r.Title, About: r.About, Command: r.Command, Real: r.Real, Verdict: Judge(r), Tables: tables,
		Pictures: r.pictures(),
	}
	for _, s := range r.Summaries() {
		p.N = max(p.N, s.N)
	}
	return p.write(w)
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
