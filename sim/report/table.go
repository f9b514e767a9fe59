package report

import (
	"bytes"
	"io"
)

// Table writes the figures by policy alone, as Markdown: of the metrics with these keys those that
// say something.
func (r *Report) Table(w io.Writer, keys []string) error {
	said, err := chosen(nil, keys, r.Summaries())
	if err != nil {
		return err
	}
	shown := make([]string, len(said))
	for i, m := range said {
		shown[i] = m.Key
	}
	g, err := r.figures(shown)
	if err != nil {
		return err
	}
	g.Title, g.Note = "", ""
	var b bytes.Buffer
	g.markdown(&b)
	_, err = w.Write(b.Bytes())
	return err
}
