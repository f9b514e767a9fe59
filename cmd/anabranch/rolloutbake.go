package main

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// aBake is what the present stage of a rollout waits for.
type aBake struct {
	Stages []struct {
		Stage   string `json:"stage"`
		Seconds int64  `json:"seconds"`
	} `json:"stages"`
	Have      int        `json:"have"`
	Needed    int        `json:"needed"`
	EndsAt    *time.Time `json:"endsAt"`
	ReturnsAt *time.Time `json:"returnsAt"`
	Judged    bool       `json:"judged"`
	Errors    *struct {
		With        failures `json:"with"`
		Before      failures `json:"before"`
		Rest        failures `json:"rest"`
		MaxIncrease float64  `json:"maxIncrease"`
		MinRequests int      `json:"minRequests"`
	} `json:"errors"`
}

type failures struct {
	Requests uint64 `json:"requests"`
	Failures uint64 `json:"failures"`
}

// share in percent, of how many.
func (f failures) String() string {
	if f.Requests == 0 {
		return "none"
	}
	return fmt.Sprintf("%.1f %% of %d", 100*float64(f.Failures)/float64(f.Requests), f.Requests)
}

// bakeLines say how long a stage still takes, and how its gates stand; empty: it has ended.
func (r *aRollout) bakeLines(now time.Time) string {
	b := r.Bake
	if b == nil {
		return ""
	}
	left := func(t *time.Time) string { return max(t.Sub(now), 0).Round(time.Second).String() }
	bake := "waits for routers"
	switch {
	case r.Paused:
		bake = "paused"
	case b.EndsAt != nil && b.Judged:
		bake = left(b.EndsAt) + " left"
	case b.EndsAt != nil:
		bake = left(b.EndsAt) + " left at least; the leader's node knows"
	case b.ReturnsAt != nil:
		bake += ", and is taken back in " + left(b.ReturnsAt)
	}
	out := fmt.Sprintf("bake      %s\nrouters   %d hold it and are heard of, %d are needed\n", bake, b.Have, b.Needed)
	if e := b.Errors; e != nil {
		out += fmt.Sprintf("errors    %s with it, %s before, %s elsewhere; at most %.1f points more, from %d requests on\n", e.With, e.Before, e.Rest, 100*e.MaxIncrease, e.MinRequests)
	}
	return out
}

func (a *app) rolloutRouters() *cobra.Command {
	var standing string
	cmd := &cobra.Command{
		Use: "routers [ID]", Short: "List how routers stand to a rollout, those in trouble first", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeItems("/v1/rollouts"),
		Long: `List how routers stand to a rollout under way, those in trouble first. Without an ID it is the newest.

refused   did not take the table, with the reason
silent    is to have it, and is not heard of
waiting   is to have it, and has not said so yet
holds     has it
later     gets it in a later stage`,
		Example: "  anabranch rollout routers\n  anabranch rollout routers 4711 --standing refused",
	}
	cmd.Flags().StringVar(&standing, "standing", "", "only routers that stand so: refused, silent, waiting, holds or later")
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		id, err := rolloutID(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		query := url.Values{"limit": {"500"}}
		if standing != "" {
			query.Set("standing", standing)
		}
		var list struct {
			Items []struct {
				ID, Region, Standing, Reason string
				AppliedRevision              uint64
			} `json:"items"`
		}
		if tabled, err := a.answer(cmd.Context(), c, "/v1/rollouts/"+url.PathEscape(id)+"/routers", query, *format, &list); !tabled {
			return err
		}
		var rows [][]string
		for _, r := range list.Items {
			rows = append(rows, []string{r.ID, r.Region, r.Standing, strconv.FormatUint(r.AppliedRevision, 10), dash(r.Reason)})
		}
		return a.table([]string{"ROUTER", "REGION", "STANDING", "TABLE", "REASON"}, rows)
	}
	return cmd
}
