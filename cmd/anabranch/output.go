package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
)

// colorful says whether colours belong into out: a terminal, and nobody asked for none.
func colorful(out io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && terminal(out)
}

// terminal says whether out is a terminal that can move its cursor.
func terminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// formats adds the flag -o and returns its value.
func formats(cmd *cobra.Command, allowed ...string) *string {
	format := cmd.Flags().StringP("output", "o", allowed[0], "format: "+strings.Join(allowed, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	check := func(_ *cobra.Command, _ []string) error {
		for _, f := range allowed {
			if *format == f {
				return nil
			}
		}
		return fmt.Errorf("output %q is unknown; choose one of %s", *format, strings.Join(allowed, ", "))
	}
	args := cmd.Args
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if err := check(cmd, given); err != nil {
			return err
		}
		return args(cmd, given)
	}
	return format
}

// answer reads what the control plane says at a path: for a table into a value, which is the caller's to print then, and
// otherwise onto the output, as it came.
func (a *app) answer(ctx context.Context, c *client.Client, path string, query url.Values, format string, into any) (tabled bool, err error) {
	var raw json.RawMessage
	if err := c.JSON(ctx, path, query, &raw); err != nil {
		return false, err
	}
	if format != "table" {
		return false, a.write(format, raw)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return false, fmt.Errorf("read answer: %w; -o json shows it as it came", err)
	}
	return true, nil
}

// write prints v, or its JSON if it is raw already, as json or yaml.
func (a *app) write(format string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	switch format {
	case "yaml":
		if b, err = yaml.JSONToYAML(b); err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
	default:
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, b, "", "  "); err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
		pretty.WriteByte('\n')
		b = pretty.Bytes()
	}
	_, err = a.out.Write(b)
	return err
}

// states are words that say how something is, with the colour that says it too.
var states = []struct {
	words *regexp.Regexp
	code  string
}{
	{regexp.MustCompile(`\b(HEALTHY|up|ready|healthy|survives)\b`), "32"},
	{regexp.MustCompile(`\b(DEGRADED|SUSPECT|RECOVERING|RAMPING|FROZEN|DRAINING|PINNED|not ready|stale|starting|stopping|degraded)\b`), "33"},
	{regexp.MustCompile(`\b(FAILING_OVER|EVACUATED|DRAINED|broken|dead|down|unhealthy|absent|fails)\b`), "31"},
}

// table prints rows under their names, aligned; states in colour on a terminal.
func (a *app) table(header []string, rows [][]string) error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t")) // a buffer never fails
	}
	if err := w.Flush(); err != nil {
		return err
	}
	text := b.String()
	if a.color {
		head, body, _ := strings.Cut(text, "\n")
		text = head + "\n" + paint(body)
	}
	_, err := io.WriteString(a.out, text)
	return err
}

// paint colours the first word of state in each line: a reason may repeat others.
func paint(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		first, code := []int(nil), ""
		for _, s := range states {
			if at := s.words.FindStringIndex(line); at != nil && (first == nil || at[0] < first[0] || at[0] == first[0] && at[1] > first[1]) {
				first, code = at, s.code
			}
		}
		if first != nil {
			lines[i] = line[:first[0]] + "\x1b[" + code + "m" + line[first[0]:first[1]] + "\x1b[0m" + line[first[1]:]
		}
	}
	return strings.Join(lines, "\n")
}

func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.out, format, args...)
	return err
}

// dash stands for nothing in a table.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
