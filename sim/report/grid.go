package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// grid is a table of any output. The first column names the rows.
type grid struct {
	Title string
	Head  []string
	Rows  [][]cell
	// Note says how to read it.
	Note string
}

// cell is one field; Strong stands out.
type cell struct {
	Text   string
	Strong bool
}

func length(s string) int { return utf8.RuneCountInString(s) }

// widths of the columns, as wide as their widest field.
func (g *grid) widths() []int {
	w := make([]int, len(g.Head))
	for i, h := range g.Head {
		w[i] = length(h)
	}
	for _, row := range g.Rows {
		for i, c := range row {
			w[i] = max(w[i], length(c.Text))
		}
	}
	return w
}

// text prints the grid for a terminal of so many columns: what doesn't fit beside each other is put
// below, under the names of the rows again.
func (g *grid) text(w io.Writer, width int, bold bool) {
	if len(g.Rows) == 0 {
		return
	}
	fmt.Fprintf(w, "%s\n\n", g.Title)
	widths := g.widths()
	for from := 1; from < len(g.Head); {
		to, used := from, widths[0]
		for to < len(g.Head) && (to == from || used+2+widths[to] <= width) {
			used += 2 + widths[to]
			to++
		}
		g.block(w, widths, from, to, bold)
		from = to
	}
	if g.Note != "" {
		fmt.Fprintf(w, "%s\n\n", wrap(g.Note, width))
	}
}

// block prints the first column and those from ≤ i < to.
func (g *grid) block(w io.Writer, widths []int, from, to int, bold bool) {
	line := func(first string, field func(int) cell) {
		var b strings.Builder
		b.WriteString(first + strings.Repeat(" ", widths[0]-length(first)))
		for i := from; i < to; i++ {
			c := field(i)
			b.WriteString(strings.Repeat(" ", 2+widths[i]-length(c.Text)))
			if c.Strong && bold {
				b.WriteString("\x1b[1m" + c.Text + "\x1b[0m")
			} else {
				b.WriteString(c.Text)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
	line(g.Head[0], func(i int) cell { return cell{Text: g.Head[i]} })
	for _, row := range g.Rows {
		line(row[0].Text, func(i int) cell { return row[i] })
	}
	fmt.Fprintln(w)
}

// markdown prints the grid as a table of GitHub's Markdown.
func (g *grid) markdown(w io.Writer) {
	if len(g.Rows) == 0 {
		return
	}
	escape := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "*", `\*`).Replace
	if g.Title != "" {
		fmt.Fprintf(w, "**%s**\n\n", escape(g.Title))
	}
	fmt.Fprint(w, "|")
	for _, h := range g.Head {
		fmt.Fprintf(w, " %s |", escape(h))
	}
	fmt.Fprint(w, "\n|---|"+strings.Repeat("---:|", len(g.Head)-1)+"\n")
	for _, row := range g.Rows {
		fmt.Fprint(w, "|")
		for _, c := range row {
			if c.Strong {
				fmt.Fprintf(w, " **%s** |", escape(c.Text))
			} else {
				fmt.Fprintf(w, " %s |", escape(c.Text))
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	if g.Note != "" {
		fmt.Fprintf(w, "%s\n\n", escape(g.Note))
	}
}

// wrap breaks a paragraph into lines of at most so many characters, where words allow it.
func wrap(s string, width int) string {
	var b strings.Builder
	used := 0
	for i, word := range strings.Fields(s) {
		n := length(word)
		switch {
		case i == 0:
		case used+1+n > width:
			b.WriteByte('\n')
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}
