package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"anabranch/sim/scenario"
)

// sim are the commands that run fleets in virtual time.
func (a *app) sim() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run fleets in virtual time, and compare routing policies",
		Long: `Run fleets in virtual time, and compare routing policies.

A scenario says which regions, clusters and pods there are, what is asked of them, what goes wrong,
and what is expected. Anabranch's policy, "ours", is the code of its routers and control plane; the
others are what else there is, and the oracle knows what nobody can. The same scenario, policy and seed
give the same result.`,
		Example: `  anabranch sim list
  anabranch sim run prefix-long --policy ours,random --seeds 3
  anabranch sim show prefix-long > mine.yaml && anabranch sim run mine.yaml --out report/
  anabranch sim explain prefix-long 4711`,
	}
	cmd.AddCommand(a.simList(), a.simPolicies(), a.simShow(), a.simRun(), a.simExplain(), a.simTradeoff(), a.simProof())
	return cmd
}

func (a *app) simList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the scenarios that are shipped",
		Long:    "List the scenarios that are shipped: what each is about, and the variants that it compares.",
		Example: "  anabranch sim list\n  anabranch sim list -o json",
		Args:    cobra.NoArgs,
	}
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(*cobra.Command, []string) error {
		type item struct {
			Name     string   `json:"name"`
			About    string   `json:"about"`
			Variants []string `json:"variants,omitempty"`
		}
		var items []item
		for _, name := range scenario.Examples() {
			s, err := readScenario(name)
			if err != nil {
				return err
			}
			it := item{Name: s.Name, About: strings.TrimSpace(s.About)}
			if len(s.Vary) > 0 {
				it.Variants = s.Variants()
			}
			items = append(items, it)
		}
		if *format != "table" {
			return a.write(*format, items)
		}
		for i, it := range items {
			if i > 0 {
				it.Name = "\n" + it.Name
			}
			text := wrap(it.About, 96)
			if len(it.Variants) > 0 {
				text = append(text, wrap("variants: "+strings.Join(it.Variants, ", "), 96)...)
			}
			if err := a.printf("%s\n  %s\n", it.Name, strings.Join(text, "\n  ")); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

func (a *app) simPolicies() *cobra.Command {
	cmd := &cobra.Command{
		Use: "policies", Short: "List the policies that can be compared",
		Long:    "List the policies that can be compared, by the names that --policy of `sim run` takes, and what each does.",
		Example: "  anabranch sim policies",
		Args:    cobra.NoArgs,
	}
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(*cobra.Command, []string) error {
		type item struct {
			Name  string `json:"name"`
			About string `json:"about"`
		}
		var items []item
		var rows [][]string
		for _, name := range scenario.Policies() {
			items = append(items, item{name, scenario.AboutPolicy(name)})
			rows = append(rows, []string{name, scenario.AboutPolicy(name)})
		}
		if *format != "table" {
			return a.write(*format, items)
		}
		return a.table([]string{"policy", "what it does"}, rows)
	}
	return cmd
}

func (a *app) simShow() *cobra.Command {
	return &cobra.Command{
		Use: "show SCENARIO", Short: "Print a scenario's text, to copy and change",
		Long:    "Print a scenario's text, to copy and change: `sim run` takes the name of a file as well.",
		Example: "  anabranch sim show prefix-long > mine.yaml",
		Args:    cobra.ExactArgs(1), ValidArgs: scenario.Examples(),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := scenario.Example(args[0])
			if err != nil {
				return err
			}
			_, err = a.out.Write(text)
			return err
		},
	}
}

// readScenario reads a scenario by its name, or from a file.
func readScenario(name string) (*scenario.Scenario, error) {
	text, err := scenarioText(name)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	s, err := scenario.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read scenario %s: %w", name, err)
	}
	return s, nil
}

// scenarioText opens it.
func scenarioText(name string) (io.ReadCloser, error) {
	if !slices.Contains(scenario.Examples(), name) {
		f, err := os.Open(name)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Base(name) != name || filepath.Ext(name) != "" {
			return nil, err
		}
	}
	text, err := scenario.Example(name) // if there is none, the error says which there are
	return io.NopCloser(bytes.NewReader(text)), err
}

// wrap breaks a text into lines of at most so many characters.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
