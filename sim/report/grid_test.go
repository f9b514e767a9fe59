package report

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func sample() grid {
	return grid{
		Title: "A table", Head: []string{"policy", "TTFT", "µ$"}, Note: "A note.",
		Rows: [][]cell{{{"ours", false}, {"1 ±2", true}, {"−3", false}}, {{"round-robin", false}, {"100", false}, {"–", false}}},
	}
}

func TestTextGrid(t *testing.T) {
	for _, c := range []struct {
		name  string
		width int
		bold  bool
		want  string
	}{
		{"wide", 80, false, "A table\n\npolicy       TTFT  µ$\nours         1 ±2  −3\nround-robin   100   –\n\nA note.\n\n"},
		{"bold", 80, true, "A table\n\npolicy       TTFT  µ$\nours         \x1b[1m1 ±2\x1b[0m  −3\nround-robin   100   –\n\nA note.\n\n"},
		{
			"narrow: columns below each other", 18, false,
			"A table\n\npolicy       TTFT\nours         1 ±2\nround-robin   100\n\npolicy       µ$\nours         −3\nround-robin   –\n\nA note.\n\n",
		},
		{
			"narrower than a column", 3, false,
			"A table\n\npolicy       TTFT\nours         1 ±2\nround-robin   100\n\npolicy       µ$\nours         −3\nround-robin   –\n\nA\nnote.\n\n",
		},
	} {
		var b bytes.Buffer
		g := sample()
		g.text(&b, c.width, c.bold)
		if b.String() != c.want {
			t.Errorf("%s: got\n%swant\n%s", c.name, b.String(), c.want)
		}
	}
}

func TestMarkdownGrid(t *testing.T) {
	var b bytes.Buffer
	g := sample()
	g.markdown(&b)
	want := "**A table**\n\n| policy | TTFT | µ$ |\n|---|---:|---:|\n| ours | **1 ±2** | −3 |\n| round-robin | 100 | – |\n\nA note.\n\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestEmptyGridsPrintNothing(t *testing.T) {
	var b bytes.Buffer
	g := grid{Title: "nothing", Head: []string{"policy"}}
	g.text(&b, 80, false)
	g.markdown(&b)
	if b.Len() > 0 {
		t.Errorf("%q", b.String())
	}
}

// Whatever the fields hold, all of them are printed, once, and columns stand under their heads.
func TestTextGridHoldsEveryField(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(2, 8).Draw(t, "columns")
		field := rapid.StringMatching(`[a-zé0-9±]{1,14}`)
		g := grid{Title: "T"}
		for range columns {
			g.Head = append(g.Head, field.Draw(t, "head"))
		}
		rows := rapid.IntRange(1, 5).Draw(t, "rows")
		want := rows * (columns - 1)
		for range rows {
			var row []cell
			for range columns {
				row = append(row, cell{Text: field.Draw(t, "field")})
			}
			g.Rows = append(g.Rows, row)
		}
		var b bytes.Buffer
		g.text(&b, rapid.IntRange(20, 100).Draw(t, "width"), false)
		blocks := strings.Split(strings.TrimSuffix(b.String(), "\n\n"), "\n\n")[1:]
		got := 0
		for _, block := range blocks {
			lines := strings.Split(block, "\n")
			if len(lines) != rows+1 {
				t.Fatalf("%d lines in a block of %d rows:\n%s", len(lines), rows, block)
			}
			for _, line := range lines[1:] {
				if length(line) != length(lines[0]) {
					t.Fatalf("a line of %d under a head of %d:\n%s", length(line), length(lines[0]), block)
				}
				got += len(strings.Fields(line)) - 1
			}
		}
		if got != want {
			t.Fatalf("%d fields of %d:\n%s", got, want, b.String())
		}
	})
}
