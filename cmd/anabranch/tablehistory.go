package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"anabranch/cmd/anabranch/client"
)

// weightMove is a cluster's share of some traffic in two tables.
type weightMove struct {
	Model   string  `json:"model"`
	Class   string  `json:"class"`
	Source  string  `json:"source"`
	Cluster string  `json:"cluster"`
	From    float64 `json:"from"`
	To      float64 `json:"to"`
}

func (m weightMove) String() string {
	return fmt.Sprintf("%s %s from %s to %s: %s → %s", m.Model, m.Class, m.Source, m.Cluster, percent(m.From), percent(m.To))
}

func percent(share float64) string { return strconv.FormatFloat(share*100, 'f', 1, 64) + " %" }

// tableVersion is one of the routing tables kept.
type tableVersion struct {
	Epoch     uint64    `json:"epoch"`
	Revision  uint64    `json:"revision"`
	CreatedAt time.Time `json:"createdAt"`
	Change    *struct {
		Weights int          `json:"weights"`
		Largest []weightMove `json:"largest"`
		Lists   []struct {
			List      string `json:"list"`
			Added     int    `json:"added"`
			Removed   int    `json:"removed"`
			Changed   int    `json:"changed"`
			Reordered bool   `json:"reordered"`
		} `json:"lists"`
	} `json:"change"`
}

// tableHistory shows the tables kept, or how one differs from the one before.
func (a *app) tableHistory(ctx context.Context, revision string, withDiff bool, format string) error {
	c, err := a.connect("")
	if err != nil {
		return err
	}
	if revision != "" {
		return a.tableDiff(ctx, c, revision, format)
	}
	var raw json.RawMessage
	if err := c.JSON(ctx, "/v1/tables", nil, &raw); err != nil { // fewer are kept than a page holds
		return err
	}
	if format != "table" {
		return a.write(format, raw)
	}
	var list struct{ Items []tableVersion }
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("read tables: %w; -o json shows them as they came", err)
	}
	var rows [][]string
	for _, t := range list.Items {
		if withDiff {
			if err := a.printTableVersion(t); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, t.row())
	}
	if withDiff {
		return nil
	}
	return a.table([]string{"REVISION", "EPOCH", "AT", "WEIGHTS", "LARGEST MOVE", "OTHERWISE"}, rows)
}

func (t *tableVersion) row() []string {
	weights, largest, otherwise := "-", "-", "-"
	if t.Change != nil {
		weights, otherwise = strconv.Itoa(t.Change.Weights), dash(strings.Join(t.lists(), ", "))
		if len(t.Change.Largest) > 0 {
			largest = t.Change.Largest[0].String()
		}
	}
	return []string{strconv.FormatUint(t.Revision, 10), strconv.FormatUint(t.Epoch, 10), t.CreatedAt.Format(time.RFC3339), weights, largest, otherwise}
}

func (t *tableVersion) lists() []string {
	var all []string
	for _, l := range t.Change.Lists {
		all = append(all, counts(l.List, l.Added, l.Removed, l.Changed, l.Reordered))
	}
	return all
}

// printTableVersion prints what is known of a table's differences without asking again.
func (a *app) printTableVersion(t tableVersion) error {
	if err := a.printf("revision %d of epoch %d, %s\n", t.Revision, t.Epoch, t.CreatedAt.Format(time.RFC3339)); err != nil || t.Change == nil {
		return err
	}
	for _, m := range t.Change.Largest {
		if err := a.printf("  %s\n", m); err != nil {
			return err
		}
	}
	for _, l := range t.lists() {
		if err := a.printf("  %s\n", l); err != nil {
			return err
		}
	}
	return nil
}

// tableDiff prints all differences of a table from the one before.
func (a *app) tableDiff(ctx context.Context, c *client.Client, revision, format string) error {
	if _, err := strconv.ParseUint(revision, 10, 64); err != nil {
		return fmt.Errorf("revision %q is no number; `anabranch history tables` lists the tables", revision)
	}
	var raw json.RawMessage
	if err := c.JSON(ctx, "/v1/tables/"+url.PathEscape(revision)+"/diff", nil, &raw); err != nil {
		return err
	}
	if format != "table" {
		return a.write(format, raw)
	}
	var diff struct {
		From, To uint64
		Weights  []struct {
			Model, Class, Source string
			Clusters             []struct {
				Cluster  string
				From, To float64
			}
		}
		Lists []struct {
			List                    string
			Added, Removed, Changed []string
			Reordered               bool
		}
	}
	if err := json.Unmarshal(raw, &diff); err != nil {
		return fmt.Errorf("read the difference: %w; -o json shows it as it came", err)
	}
	lines := []string{fmt.Sprintf("revision %d → %d", diff.From, diff.To)}
	for _, w := range diff.Weights {
		for _, m := range w.Clusters {
			lines = append(lines, "  "+weightMove{w.Model, w.Class, w.Source, m.Cluster, m.From, m.To}.String())
		}
	}
	for _, l := range diff.Lists {
		for _, of := range []struct {
			ids        []string
			sign, code string
		}{{l.Added, "+", "32"}, {l.Removed, "-", "31"}, {l.Changed, "~", "33"}} {
			for _, id := range of.ids {
				lines = append(lines, "  "+a.colored(of.code, of.sign+" "+l.List+" "+id))
			}
		}
		if l.Reordered {
			lines = append(lines, "  "+a.colored("33", "~ "+l.List+" in another order"))
		}
	}
	return a.printf("%s\n", strings.Join(lines, "\n"))
}
