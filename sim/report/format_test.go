package report

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"anabranch/sim/report/stat"
)

func TestShow(t *testing.T) {
	for _, c := range []struct {
		key  string
		n    stat.Number
		want string
	}{
		{"ttftMs.p50", 0, "0"},
		{"ttftMs.p50", 0.1234, "0.123"},
		{"ttftMs.p50", 1.234, "1.23"},
		{"ttftMs.p50", 9.996, "10.0"},
		{"ttftMs.p50", 12.34, "12.3"},
		{"ttftMs.p50", 99.96, "100"},
		{"ttftMs.p50", 1234.5, "1,234"},
		{"ttftMs.p50", 1234567, "1,234,567"},
		{"ttftMs.p50", stat.Unknown, "–"},
		{"goodput.share", 0.9876, "98.8"},
		{"goodput.share", 1, "100.0"},
		{"preemptions", 3, "3"},
		{"preemptions", 3.2, "3.20"},
		{"cost.perAnswerMicroUSD", -12.34, "−12.3"},
		{"cost.perAnswerMicroUSD", -0.00001, "0.000"},
	} {
		if got := metric(c.key).Show(c.n); got != c.want {
			t.Errorf("%s of %v: %q, want %q", c.key, c.n, got, c.want)
		}
	}
}

func TestShowEstimate(t *testing.T) {
	e := func(mean, half stat.Number) stat.Estimate {
		return stat.Estimate{Mean: mean, Low: mean - half, High: mean + half}
	}
	for _, c := range []struct {
		key  string
		e    stat.Estimate
		want string
	}{
		{"ttftMs.p50", e(1234, 56), "1,234 ±56"},
		{"ttftMs.p50", e(12.34, 0.56), "12.3 ±0.6"},
		{"goodput.share", e(0.5, 0.01), "50.0 ±1.0"},
		{"ends.shed", e(0, 0), "0 ±0"},
		{"ends.shed", stat.Estimate{Mean: 7, Low: stat.Unknown, High: stat.Unknown}, "7"},
		{"ends.shed", stat.Estimate{Mean: stat.Unknown, Low: stat.Unknown, High: stat.Unknown}, "–"},
	} {
		if got := metric(c.key).ShowEstimate(c.e); got != c.want {
			t.Errorf("%s: %q, want %q", c.key, got, c.want)
		}
	}
}

func TestShowChange(t *testing.T) {
	c := func(low, mean, high stat.Number, relative bool) stat.Change {
		return stat.Change{Estimate: stat.Estimate{Mean: mean, Low: low, High: high}, Relative: relative}
	}
	for _, d := range []struct {
		key  string
		c    stat.Change
		want string
	}{
		{"ttftMs.p50", c(-0.75, -0.73, -0.71, true), "−73 % [−75, −71]"},
		{"ttftMs.p50", c(-0.012, 0.021, 0.05, true), "+2.1 % [−1.2, +5.0]"},
		{"ttftMs.p50", c(0, 0, 0, true), "0.0 % [0.0, 0.0]"},
		{"ttftMs.p50", c(-0.00001, -0.00001, 0.00001, true), "0.0 % [0.0, 0.0]"},
		{"goodput.share", c(0.5, 0.57, 0.64, false), "+57 pp [+50, +64]"},
		{"ends.shed", c(-3, 2, 7, false), "+2.00 [−3.00, +7.00]"},
		{"queue.p99Ms", c(1, 20, 39, false), "+20.0 ms [+1.0, +39.0]"},
		{"ttftMs.p50", c(stat.Unknown, 0.1, stat.Unknown, true), "+10 %"},
		{"ttftMs.p50", c(stat.Unknown, stat.Unknown, stat.Unknown, true), "–"},
	} {
		if got := metric(d.key).ShowChange(d.c); got != d.want {
			t.Errorf("%s: %q, want %q", d.key, got, d.want)
		}
	}
}

func TestTextIsNoWiderThanItMayBe(t *testing.T) {
	for _, width := range []int{80, 100, 120} {
		var b bytes.Buffer
		if err := golden().Text(&b, Options{Width: width}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := length(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("width %d: a line of %d: %s", width, n, line)
			}
		}
		if strings.Contains(b.String(), "\x1b") {
			t.Error("escape codes that nobody asked for")
		}
	}
}

func TestBoldIsTheBestOnly(t *testing.T) {
	var b bytes.Buffer
	if err := golden().Text(&b, Options{Bold: true, Columns: []string{"ttftMs.p95", "routing.hitRate", "routing.crossRegion"}}); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(b.String()) {
		bold := strings.Count(line, "\x1b[1m")
		switch {
		case strings.HasPrefix(line, "instead of") || strings.HasPrefix(line, "policy"):
			if bold != 0 {
				t.Errorf("a bold head: %q", line)
			}
		case strings.HasPrefix(line, "ours ") && strings.Contains(line, "1,011"):
			seen++
			if bold != 2 { // the oracle is better, and doesn't count; cross-region is neither good nor bad
				t.Errorf("%d fields are bold: %q", bold, line)
			}
		case strings.HasPrefix(line, "oracle ") && strings.Contains(line, "910") && bold != 0:
			t.Errorf("the oracle is bold: %q", line)
		}
	}
	if seen != 1 {
		t.Errorf("the row of ours is there %d times", seen)
	}
}

func TestColumnsMustBeFigures(t *testing.T) {
	var b bytes.Buffer
	for name, err := range map[string]error{
		"text": golden().Text(&b, Options{Columns: []string{"speed"}}),
		"md":   golden().Markdown(&b, Options{Columns: []string{"speed"}}),
		"html": golden().HTML(&b, Options{Columns: []string{"speed"}}),
	} {
		if err == nil || !strings.Contains(err.Error(), `"speed"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b.Len() > 0 {
		t.Error("half a report was written")
	}
}

func TestMarkdownKeepsTablesWhole(t *testing.T) {
	r := report(2, as("a|b", func(*policy) {}), as("<i>*", func(*policy) {}))
	var b bytes.Buffer
	if err := r.Markdown(&b, Options{Columns: []string{"ttftMs.p50"}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`| a\|b |`, `| &lt;i>\* |`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

func TestWrapLosesNoWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.StringMatching(`[a-zé−]{1,12}`)).Draw(t, "words")
		width := rapid.IntRange(12, 40).Draw(t, "width")
		got := wrap(strings.Join(words, " "), width)
		if strings.Join(strings.Fields(got), " ") != strings.Join(words, " ") {
			t.Fatalf("%q of %q", got, words)
		}
		for line := range strings.SplitSeq(got, "\n") {
			if length(line) > width {
				t.Fatalf("a line of %d in %d: %q", length(line), width, line)
			}
		}
	})
}

func TestWait(t *testing.T) {
	for ms, want := range map[float64]string{0.5: "0.5 ms", 200: "200 ms", 1000: "1 s", 2500: "2.5 s", 60_000: "60 s"} {
		if got := wait(ms); got != want {
			t.Errorf("%v: %s, want %s", ms, got, want)
		}
	}
	if got := perCent(-0.255); got != "−25.5 %" {
		t.Error(got)
	}
}

func TestTimeAxis(t *testing.T) {
	for seconds, want := range map[float64]string{60: "time, s", 3600: "time, min", 86400: "time, h"} {
		if got, _ := timeAxis(seconds); got != want {
			t.Errorf("%v s: %s, want %s", seconds, got, want)
		}
	}
}

func TestColoursTellPoliciesApart(t *testing.T) {
	var runs []Figures
	for _, p := range []string{"random", "round-robin", "a", "b", "c", "d", "oracle", "e", "f", "g", "ours", "h", "i"} {
		runs = append(runs, Figures{Policy: p})
	}
	colours := New("", runs).colours()
	seen := map[int]string{}
	for p, c := range colours {
		if seen[c] != "" {
			t.Errorf("%s and %s have the same colour", p, seen[c])
		}
		seen[c] = p
	}
	if colours["ours"] != 0 || colours["oracle"] != oracleColour {
		t.Errorf("%v", colours)
	}
}
