package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) seriesCommand() *cobra.Command {
	var by string
	var names []string
	var last time.Duration
	cmd := &cobra.Command{
		Use:   "series METRIC[,METRIC...]",
		Short: "Show what the last hour was like, region by region",
		Long: `Show what the last hour was like, region by region.

Metrics are requestsPerSecond, failuresPerSecond, tokensPerSecond, inFlight, waiting, running, saturation,
kvUsage, ttftP95Ms, loadWork, capacityWork, endpointsReady, wanted and observed (shares of all work that
is asked for), routersConnected and routersBehind. Each node of the control plane keeps its own, each five
seconds, since its start; what it did not know is a gap: a dot in the picture, null with -o json.`,
		Example: `  anabranch series ttftP95Ms
  anabranch series saturation,observed --by cluster --name eu-west-1-a --last 15m
  anabranch series requestsPerSecond --by fleet -o json`,
		Args: cobra.ExactArgs(1),
	}
	fl := cmd.Flags()
	fl.StringVar(&by, "by", "region", "fleet, region or cluster")
	fl.StringSliceVar(&names, "name", nil, "only of these regions or clusters")
	spanVar(fl, &last, "last", time.Hour, "how far back, at most 1h")
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if last <= 0 || last > time.Hour {
			return misused(fmt.Errorf("--last is %s; give up to 1h, which is what nodes keep", last))
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		query := url.Values{"metric": {args[0]}, "by": {by}, "name": names, "from": {time.Now().Add(-last).UTC().Format(time.RFC3339)}}
		var raw json.RawMessage
		if err := c.JSON(cmd.Context(), "/v1/series", query, &raw); err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, raw)
		}
		return a.seriesTable(raw)
	}
	return cmd
}

// seriesTable prints each line with its least, mean, largest and last value, and as a small picture.
func (a *app) seriesTable(raw json.RawMessage) error {
	var s struct {
		Node   string
		Since  time.Time
		Series []struct {
			Metric, Name string
			Points       []*float64
		}
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("read answer to GET /v1/series: %w", err)
	}
	var rows [][]string
	for _, l := range s.Series {
		rows = append(rows, append([]string{l.Metric, dash(l.Name)}, summary(l.Points)...))
	}
	if err := a.table([]string{"METRIC", "OF", "LEAST", "MEAN", "MOST", "LAST", "FROM THEN TO NOW"}, rows); err != nil {
		return err
	}
	if s.Since.IsZero() {
		return a.printf("node %s has recorded nothing yet\n", s.Node)
	}
	return a.printf("as node %s has recorded since %s\n", s.Node, s.Since.Format(time.RFC3339))
}

// summary is the least, the mean, the largest and the last of some points, and a picture of all.
func summary(points []*float64) []string {
	least, most, sum, known := math.Inf(1), math.Inf(-1), 0.0, 0
	for _, p := range points {
		if p != nil {
			least, most, sum, known = min(least, *p), max(most, *p), sum+*p, known+1
		}
	}
	if known == 0 {
		return []string{"-", "-", "-", "-", "-"}
	}
	last := "-"
	for i := len(points) - 1; i >= 0 && i >= len(points)-2; i-- { // the present step may not be told yet
		if points[i] != nil {
			last = fourDigits(*points[i])
			break
		}
	}
	return []string{fourDigits(least), fourDigits(sum / float64(known)), fourDigits(most), last, sparkline(points, most)}
}

func fourDigits(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// sparkWidth is how many columns a picture has at most.
const sparkWidth = 40

// sparkline draws points as bars up to the largest; where nothing is known there is a dot.
func sparkline(points []*float64, most float64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	width := min(sparkWidth, len(points))
	var b strings.Builder
	for column := range width {
		sum, known := 0.0, 0
		for _, p := range points[column*len(points)/width : (column+1)*len(points)/width] {
			if p != nil {
				sum, known = sum+*p, known+1
			}
		}
		switch {
		case known == 0:
			b.WriteRune('·')
		case most <= 0:
			b.WriteRune(bars[0])
		default:
			at := int(math.Round(sum / float64(known) / most * float64(len(bars)-1)))
			b.WriteRune(bars[min(max(at, 0), len(bars)-1)])
		}
	}
	return b.String()
}
