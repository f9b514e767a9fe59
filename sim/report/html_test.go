package report

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func pageOf(t *testing.T, r *Report) (text string, root *html.Node) {
	t.Helper()
	var b bytes.Buffer
	if err := r.HTML(&b, Options{}); err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), root
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// words of a node and all in it.
func words(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.TrimSpace(b.String())
}

// elements of a page by name.
func elements(root *html.Node, name string) []*html.Node {
	var out []*html.Node
	for d := range root.Descendants() {
		if d.Type == html.ElementNode && d.Data == name {
			out = append(out, d)
		}
	}
	return out
}

// wellFormed walks the tags: what is opened is closed in turn, so that the parser had nothing to mend.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	void := map[string]bool{"meta": true, "br": true, "link": true, "img": true, "input": true, "hr": true}
	var open []string
	z := html.NewTokenizer(strings.NewReader(text))
	for {
		switch z.Next() {
		case html.ErrorToken:
			if len(open) > 0 {
				t.Errorf("never closed: %v", open)
			}
			return
		case html.StartTagToken:
			if name, _ := z.TagName(); !void[string(name)] {
				open = append(open, string(name))
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			if len(open) == 0 || open[len(open)-1] != string(name) {
				t.Fatalf("</%s> closes %v", name, open)
			}
			open = open[:len(open)-1]
		case html.SelfClosingTagToken, html.TextToken, html.CommentToken, html.DoctypeToken:
		}
	}
}

func TestPageIsWholeAndAlone(t *testing.T) {
	text, root := pageOf(t, golden())
	wellFormed(t, text)
	for _, outside := range []string{"http://", "https://", "<script", "@import", "url(", "<link", "<img", "<iframe"} {
		if strings.Contains(text, outside) {
			t.Errorf("the page holds %q: it must need nothing else", outside)
		}
	}
	ids := map[string]bool{}
	for d := range root.Descendants() {
		if id := attribute(d, "id"); id != "" {
			if ids[id] {
				t.Errorf("the id %q is there twice", id)
			}
			ids[id] = true
		}
		for _, key := range []string{"src", "href", "xlink:href"} {
			if to := attribute(d, key); to != "" {
				t.Errorf("<%s %s=%q>", d.Data, key, to)
			}
		}
	}
	for d := range root.Descendants() {
		for by := range strings.FieldsSeq(attribute(d, "aria-labelledby")) {
			if !ids[by] {
				t.Errorf("<%s> is labelled by %q, which is not there", d.Data, by)
			}
		}
	}
}

func TestPageIsAccessible(t *testing.T) {
	_, root := pageOf(t, golden())
	charts := elements(root, "svg")
	if len(charts) < 12 {
		t.Errorf("%d charts", len(charts))
	}
	for _, svg := range charts {
		if attribute(svg, "role") != "img" || attribute(svg, "aria-labelledby") == "" {
			t.Error("a chart has no role or no label")
		}
		if words(elements(svg, "title")[0]) == "" || len(words(elements(svg, "desc")[0])) < 20 {
			t.Errorf("a chart has no title or no description: %q", words(svg)[:60])
		}
	}
	tables := elements(root, "table")
	if len(tables) != 3 {
		t.Errorf("%d tables", len(tables))
	}
	for _, table := range tables {
		if len(elements(table, "caption")) != 1 {
			t.Error("a table has no caption")
		}
		for _, th := range elements(table, "th") {
			if s := attribute(th, "scope"); s != "row" && s != "col" {
				t.Errorf("a head of a table has the scope %q", s)
			}
		}
		width := len(elements(elements(table, "thead")[0], "th"))
		for _, row := range elements(elements(table, "tbody")[0], "tr") {
			if n := len(elements(row, "th")) + len(elements(row, "td")); n != width {
				t.Errorf("a row has %d fields of %d", n, width)
			}
		}
	}
	if lang := attribute(elements(root, "html")[0], "lang"); lang != "en" {
		t.Errorf("the language is %q", lang)
	}
	if h := elements(root, "h1"); len(h) != 1 {
		t.Errorf("%d headings of the first level", len(h))
	}
}

func TestPageShowsWhatWasMeasured(t *testing.T) {
	r := golden()
	text, root := pageOf(t, r)
	if got := words(elements(root, "h1")[0]); got != r.Title {
		t.Errorf("heading %q", got)
	}
	for _, want := range []string{
		Judge(r).Headline, r.Command, r.About[0], "5 runs of each policy", "Weights of ours in us-east-1",
		"prefers-color-scheme:dark", "Cost over its lower bound", "Waiting requests over time",
	} {
		if !strings.Contains(html.UnescapeString(text), want) {
			t.Errorf("the page doesn't say %q", want)
		}
	}
}

// Names come from files that anybody may have written.
func TestPageEscapesNames(t *testing.T) {
	const evil = `"><script>alert(1)</script>&`
	var runs []Figures
	for seed := range uint64(2) {
		for _, s := range shapes {
			s.policy = map[string]string{"round-robin": evil, "ours": "ours"}[s.policy]
			if s.policy == "" {
				continue
			}
			result := made(s, seed)
			result.Spec.Clusters[0].ID = evil
			result.Spec.Regions[0].ID = evil
			runs = append(runs, Of(result))
		}
	}
	r := New(evil, runs)
	r.About, r.Command = []string{evil}, evil
	text, root := pageOf(t, r)
	wellFormed(t, text)
	if n := len(elements(root, "script")); n != 0 {
		t.Fatalf("%d scripts came in by a name", n)
	}
	if got := words(elements(root, "h1")[0]); got != evil {
		t.Errorf("the title has become %q", got)
	}
}

func TestPageOfOneRunWithoutMuch(t *testing.T) {
	f := FromReplay([]Request{{At: 1, First: 2, Last: 3, Prompt: 1, Output: 1}}, Replay{Name: "replay"})
	r := New("one", []Figures{f})
	r.Real = true
	text, _ := pageOf(t, r)
	wellFormed(t, text)
	if !strings.Contains(text, "Requests really sent") || strings.Contains(text, "NaN") {
		t.Error("a page of one real request says what isn't so")
	}
}
