package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// eachCommand calls each with every command that help shows, but for those that cobra brings.
func eachCommand(c *cobra.Command, each func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		each(sub)
		eachCommand(sub, each)
	}
}

func commandTree(t *testing.T) *cobra.Command {
	t.Helper()
	var out bytes.Buffer
	root := (&app{program: "anabranch", in: &out, out: &out, err: &out}).root()
	root.InitDefaultHelpCmd()
	return root
}

var substitution = regexp.MustCompile(`\$\([^)]*\)`)

// lines are the command lines of an example, without what a shell would do: pipes, redirections, comments.
// Lines that go on end in a backslash.
func lines(example string) [][]string {
	var all [][]string
	example = strings.ReplaceAll(substitution.ReplaceAllString(example, "x"), "\\\n", " ")
	for line := range strings.SplitSeq(example, "\n") {
		for part := range strings.FieldsFuncSeq(line, func(r rune) bool { return r == '|' || r == '&' || r == ';' }) {
			words := split(part)
			if len(words) > 0 && words[0] == "anabranch" {
				all = append(all, words[1:])
			}
		}
	}
	return all
}

// split into words, which quotes keep together; a comment or a redirection ends them.
func split(line string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	in := false
	end := func() {
		if in {
			words = append(words, word.String())
		}
		word.Reset()
		in = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, in = r, true
		case r == ' ':
			end()
		case !in && (r == '#' || r == '>' || r == '<'):
			return words
		default:
			word.WriteRune(r)
			in = true
		}
	}
	end()
	return words
}

func TestEveryCommandHasHelpAndExamplesOfIt(t *testing.T) {
	seen := 0
	eachCommand(commandTree(t), func(c *cobra.Command) {
		seen++
		path := c.CommandPath()
		switch {
		case c.Short == "" || strings.HasSuffix(c.Short, "."):
			t.Errorf("%s: short help %q", path, c.Short)
		case c.Runnable() && len(strings.TrimSpace(c.Long)) < len(c.Short):
			t.Errorf("%s: no long help", path)
		}
		for line := range strings.SplitSeq(c.Long, "\n") {
			if len([]rune(line)) > 110 {
				t.Errorf("%s: a line of its help is %d characters long: %s", path, len([]rune(line)), line)
			}
		}
		want := strings.Fields(path)[1:]
		if !slices.ContainsFunc(lines(c.Example), func(line []string) bool {
			return len(line) >= len(want) && slices.Equal(line[:len(want)], want)
		}) {
			t.Errorf("%s: no example of it in %q", path, c.Example)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if name, usage := pflag.UnquoteUsage(f); usage == "" || strings.Contains(name, " ") {
				t.Errorf("%s: --%s is shown as %q, %q", path, f.Name, name, usage)
			}
		})
	})
	if seen < 60 {
		t.Errorf("only %d commands", seen)
	}
	commandTree(t).PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if name, usage := pflag.UnquoteUsage(f); usage == "" || strings.Contains(name, " ") {
			t.Errorf("--%s is shown as %q, %q", f.Name, name, usage)
		}
	})
}

// What examples write is understood: their commands and flags exist, and so many arguments are taken.
func TestExamplesAreUnderstood(t *testing.T) {
	var examples []string
	root := commandTree(t)
	examples = append(examples, root.Example)
	eachCommand(root, func(c *cobra.Command) { examples = append(examples, c.Example) })
	tried := 0
	for _, example := range examples {
		for _, line := range lines(example) {
			tried++
			understood(t, line)
		}
	}
	if tried < 100 {
		t.Errorf("only %d lines", tried)
	}
}

func TestLinesOfExamples(t *testing.T) {
	got := lines("  anabranch get tenant acme -o yaml | sed s/a/b/ | anabranch diff -f - # compare\n" +
		"  anabranch freeze --reason \"end of the year\" > out\n  redis-cli ping\n  anabranch sim run a-$(date +%F) \\\n    --seeds 3")
	want := [][]string{
		{"get", "tenant", "acme", "-o", "yaml"},
		{"diff", "-f", "-"},
		{"freeze", "--reason", "end of the year"},
		{"sim", "run", "a-x", "--seeds", "3"},
	}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, want %q", got, want)
	}
}
