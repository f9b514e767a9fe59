package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"anabranch/controlplane/policy"
)

// What the console says is the same on the command line is in web/src/ui/commands.json.
func consoleCommands(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "web", "src", "ui", "commands.json"))
	if err != nil {
		t.Fatal(err)
	}
	var commands map[string]string
	if err := json.Unmarshal(text, &commands); err != nil {
		t.Fatal(err)
	}
	return commands
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// Command lines that the console shows exist, take what they are given, and a reason where one is due.
func TestTheConsoleNamesCommandsThatThereAre(t *testing.T) {
	samples := map[string]string{
		"file": "x.yaml", "for": "30m", "id": "4711", "kind": "tenants", "limit": "--requests=600:1200", "metric": "saturation",
		"model": "llama", "name": "acme", "percent": "50", "place": "cluster/use1-a", "plan": "lose-eu", "revision": "41",
		"sha256": "9f2c", "shadow": "false",
	}
	reads := regexp.MustCompile(`^(get|list|inspect|watch|diff|read|explain|whatIf|survival|openSession|endSession|refreshSession|saveSnapshot)`)
	for operation, text := range consoleCommands(t) {
		line := strings.Fields(placeholder.ReplaceAllStringFunc(text, func(name string) string {
			value, ok := samples[strings.Trim(name, "{}")]
			if !ok {
				t.Errorf("%s: %s is no placeholder", operation, name)
			}
			return value
		}))
		if !reads.MatchString(operation) {
			line = append(line, "--reason", "because")
		}
		understood(t, line)
	}
}

// understood fails unless a command line names a command that there is and gives it what it takes.
func understood(t *testing.T, line []string) {
	t.Helper()
	c, rest, err := commandTree(t).Find(line) // flags keep what they were told: each line has commands of its own
	for _, check := range []func(*cobra.Command) error{
		func(*cobra.Command) error { return err },
		func(c *cobra.Command) error { c.InitDefaultHelpFlag(); return c.ParseFlags(rest) },
		func(c *cobra.Command) error { return c.ValidateArgs(c.Flags().Args()) },
		func(c *cobra.Command) error { return c.ValidateRequiredFlags() },
	} {
		if err := check(c); err != nil {
			t.Errorf("anabranch %s: %v", strings.Join(line, " "), err)
			return
		}
	}
}

var operationNamed = regexp.MustCompile(`\b(?:call|useRead|reading|urlOf|can)(?:<[^>]*>)?\(\s*'(\w+)'|\boperation: '(\w+)'`)

// Whatever the console reads or does can be read and done on the command line.
func TestTheConsoleDoesNothingThatTheCommandLineCannot(t *testing.T) {
	commands := consoleCommands(t)
	kinds := make([]string, 0, len(policy.Kinds()))
	for _, k := range policy.Kinds() {
		kinds = append(kinds, string(k))
	}
	generic := regexp.MustCompile(`^(list|create|get|replace|patch|delete|listHistoryOf|getRevisionOf|diff|rollback)(?:` + strings.Join(kinds, "|") + `)$`)
	seen := 0
	err := filepath.WalkDir(filepath.Join("..", "..", "web", "src"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".ts") && !strings.HasSuffix(path, ".tsx") || strings.Contains(path, ".test.") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range operationNamed.FindAllStringSubmatch(string(text), -1) {
			seen++
			operation := m[1] + m[2]
			if _, ok := commands[operation]; ok {
				continue
			}
			if g := generic.FindStringSubmatch(operation); g != nil && commands[g[1]+"*"] != "" {
				continue
			}
			if !hasVariant(commands, operation) {
				t.Errorf("%s uses %s: web/src/ui/commands.json names no command for it", path, operation)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 50 {
		t.Errorf("only %d uses of operations were found", seen)
	}
}

func hasVariant(commands map[string]string, operation string) bool {
	for name := range commands {
		if strings.HasPrefix(name, operation+" ") {
			return true
		}
	}
	return false
}
