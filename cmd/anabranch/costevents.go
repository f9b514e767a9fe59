package main

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const pathCostEvents = "/v1/costs/events"

// costEventsAnswer is what events cost, as /v1/costs/events tells it.
type costEventsAnswer struct {
	Items []costEvent `json:"items"`
	More  bool        `json:"more"`
}

// costEvent is one of them.
type costEvent struct {
	Kind     string     `json:"kind"`
	ID       string     `json:"id"`
	Plan     string     `json:"plan"`
	Region   string     `json:"region"`
	Clusters []string   `json:"clusters"`
	From     time.Time  `json:"from"`
	Until    time.Time  `json:"until"`
	Unknown  string     `json:"unknown"`
	Extra    *costExtra `json:"extra"`
}

// costExtra is what it cost on top. Amounts are signed decimal text.
type costExtra struct {
	TotalUSD      string  `json:"totalUSD"`
	PaidUSD       string  `json:"paidUSD"`
	WorkUSD       string  `json:"workUSD"`
	TokensUSD     string  `json:"tokensUSD"`
	EgressUSD     string  `json:"egressUSD"`
	UncomparedUSD string  `json:"uncomparedUSD"`
	Moved         float64 `json:"moved"`
	Answers       int64   `json:"answers"`
	Step          string  `json:"step"`
	Unpriced      bool    `json:"unpriced"`
}

func (a *app) costEvents() *cobra.Command {
	var since, from, until string
	var limit int
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what drills, failovers, drains and evacuations cost on top",
		Long: `Show what drills, failovers, drains and evacuations cost on top: for each time in which traffic was kept away
from clusters, the usage that had been served there is compared with what the same usage cost before, by unit
of work. More or less traffic than before is not in it.

ON TOP is all of it. PAID is what somebody sends a bill for: EGRESS, and TOKENS of providers who ask by token.
WORK is of GPUs that are paid by the hour anyway: it comes out of idle time. MOVED is the share of that usage
that was served elsewhere than before. Nobody knows what would have been, so all of it is an estimate (~);
+ means that a price is not known, and it is more. Minutes are kept for two hours: what is older is compared
by the hour, with usage around it (STEP).`,
		Example: "  anabranch cost events\n  anabranch cost events --since 31d -o json",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&since, "since", "7d", "how far back from --until: 90m, 24h, 31d")
	cmd.Flags().StringVar(&from, "from", "", "the beginning, instead of --since: 2026-11-30 or 2026-11-30T12:00:00Z")
	cmd.Flags().StringVar(&until, "until", "", "the end, which is no part of it; now, unless it is given")
	cmd.Flags().IntVar(&limit, "limit", 20, "show the newest so many, 50 at most")
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{"limit": {strconv.Itoa(limit)}}
		for name, v := range map[string]string{"since": since, "from": from, "until": until} {
			if cmd.Flags().Changed(name) {
				query.Set(name, v)
			}
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		var all costEventsAnswer
		if tabled, err := a.answer(cmd.Context(), c, pathCostEvents, query, *format, &all); !tabled {
			return err
		}
		return a.printCostEvents(all)
	}
	return cmd
}

func (a *app) printCostEvents(all costEventsAnswer) error {
	if len(all.Items) == 0 {
		return a.printf("no drill, failover, drain or evacuation is remembered of that time\n")
	}
	var rows [][]string
	for _, e := range all.Items {
		took := "goes on"
		if !e.Until.IsZero() {
			took = e.Until.Sub(e.From).Round(time.Second).String()
		}
		row := []string{e.From.UTC().Format("2006-01-02 15:04:05"), took, join(" ", e.Kind, e.ID, e.Plan), dash(e.Region), dash(strings.Join(e.Clusters, ","))}
		if x := e.Extra; x != nil {
			row = append(row, x.marked(x.TotalUSD), x.marked(x.PaidUSD), onTop(x.WorkUSD), onTop(x.TokensUSD), onTop(x.EgressUSD), fmt.Sprintf("%.0f%%", 100*x.Moved), about(float64(x.Answers)), x.Step)
		} else {
			row = append(row, "-", "-", "-", "-", "-", "-", "-", "-")
		}
		rows = append(rows, row)
	}
	if err := a.table([]string{"FROM (UTC)", "TOOK", "WHAT", "REGION", "CLUSTERS", "ON TOP", "PAID", "WORK", "TOKENS", "EGRESS", "MOVED", "ANSWERS", "STEP"}, rows); err != nil {
		return err
	}
	for _, note := range all.notes() {
		if _, err := fmt.Fprintln(a.err, "note: "+note); err != nil {
			return err
		}
	}
	return nil
}

// notes say what figures lack.
func (c *costEventsAnswer) notes() []string {
	var out []string
	for _, e := range c.Items {
		at := e.Kind + " of " + e.From.UTC().Format("2006-01-02 15:04:05")
		switch {
		case e.Unknown != "":
			out = append(out, at+": "+e.Unknown)
		case e.Extra != nil && amountOf(e.Extra.UncomparedUSD) != 0:
			out = append(out, fmt.Sprintf("%s: %s more were spent on usage like none before", at, usd(amountOf(e.Extra.UncomparedUSD))))
		}
	}
	if c.More {
		out = append(out, "there are older ones; --limit or --until show them")
	}
	return out
}

// marked is an amount that says how far it is to be believed: no more than an estimate.
func (x *costExtra) marked(amount string) string {
	out := "~" + onTop(amount)
	if x.Unpriced {
		out += "+"
	}
	return out
}

// amountOf reads decimal text, which may be below 0.
func amountOf(text string) float64 {
	x, _ := strconv.ParseFloat(text, 64) // of the server, who writes numbers
	return x
}

// onTop writes an amount with its sign.
func onTop(text string) string {
	switch x := amountOf(text); {
	case x < 0:
		return "-" + usd(-x)
	case x > 0:
		return "+" + usd(x)
	}
	return usd(0)
}
