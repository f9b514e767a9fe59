package report

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Options of what is printed.
type Options struct {
	// Columns are the keys of the metrics of tables. Empty: those that say something.
	Columns []string
	// Bold lets the best stand out in text by escape codes: for terminals only.
	Bold bool
	// Width of the text in characters. 0: 120.
	Width int
}

// Text prints the report for a terminal.
func (r *Report) Text(w io.Writer, o Options) error {
	o.Width = cmp.Or(o.Width, 120)
	tables, err := r.tables(o)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\n", wrap(r.Title, o.Width))
	for _, p := range r.About {
		fmt.Fprintf(&b, "%s\n\n", wrap(p, o.Width))
	}
	for i := range tables {
		tables[i].text(&b, o.Width, o.Bold)
	}
	v := Judge(r)
	fmt.Fprintf(&b, "%s\n\n", wrap(v.Headline, o.Width))
	for _, p := range v.Points {
		text := wrap(p.Subject+": "+p.Text, o.Width-4)
		fmt.Fprintf(&b, "  %s %s\n", p.Kind.sign(), strings.ReplaceAll(text, "\n", "\n    "))
	}
	_, err = w.Write(b.Bytes())
	return err
}

// Markdown prints the report as a section of a page, under a heading of the second level.
func (r *Report) Markdown(w io.Writer, o Options) error {
	tables, err := r.tables(o)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "## %s\n\n", r.Title)
	for _, p := range r.About {
		fmt.Fprintf(&b, "%s\n\n", p)
	}
	if r.Command != "" {
		fmt.Fprintf(&b, "```\n%s\n```\n\n", r.Command)
	}
	v := Judge(r)
	fmt.Fprintf(&b, "**%s**\n\n", v.Headline)
	for i := range tables {
		tables[i].markdown(&b)
	}
	for _, p := range v.Points {
		fmt.Fprintf(&b, "- %s **%s**: %s\n", p.Kind.sign(), p.Subject, p.Text)
	}
	fmt.Fprintln(&b)
	_, err = w.Write(b.Bytes())
	return err
}

func (r *Report) tables(o Options) ([]grid, error) {
	figures, err := r.figures(o.Columns)
	if err != nil {
		return nil, err
	}
	changes, err := r.changes(o.Columns)
	if err != nil {
		return nil, err
	}
	if len(o.Columns) > 0 {
		return []grid{figures, changes}, nil
	}
	return []grid{figures, changes, r.clusters(), r.tenants()}, nil
}

// CSV prints a row for each run: policy, seed and every figure under its key, unrounded; empty fields
// are unknown.
func (r *Report) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head := []string{"policy", "seed"}
	for _, m := range metrics {
		head = append(head, m.Key)
	}
	if err := out.Write(head); err != nil {
		return err
	}
	for i := range r.Runs {
		f := &r.Runs[i]
		row := []string{f.Policy, strconv.FormatUint(f.Seed, 10)}
		for _, m := range metrics {
			field := ""
			if n := m.Of(f); n.Known() {
				field = strconv.FormatFloat(float64(n), 'g', 9, 64)
			}
			row = append(row, field)
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
