package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"anabranch/costmodel/focus"
)

const pathCosts = "/v1/costs"

// maxTop is how many keys the server tells apart.
const maxTop = 1000

// costFields are what costs are told apart by, in the order of columns.
var costFields = []string{"tenant", "model", "class", "cluster", "region", "source"}

// costOrders are what rows are sorted by, the largest first.
var costOrders = []string{"paid", "work", "idle", "egress", "carbon", "tokens", "answers", "perMillionTokens", "perAnswer", "name"}

// costFlags say what of the account is shown.
type costFlags struct {
	by                                                   []string
	since, from, until                                   string
	step, idle, sort                                     string
	top                                                  int
	tenants, models, classes, clusters, regions, sources []string
}

func (a *app) cost() *cobra.Command {
	var f costFlags
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Show what requests and idle GPUs cost, by tenant, model, cluster or region",
		Long: `Show what requests and idle GPUs cost, by tenant, model, class, cluster, region (where it was served) or
source (where requests came in).

Each minute, what a cluster's GPUs cost is split by the work that requests made there; what is paid for
nothing is IDLE. Providers who ask by token cost what they ask, and answers that leave their region what
the traffic costs. COST is all of that, SHARE its part of the total. $/MTOK, by a million tokens, and
$/ANSWER, by answer that succeeded, are of work and traffic: failed answers are paid for too, so they are
in both, and idle time is in neither unless --idle spread divides it among those who used the cluster.

~ before an amount: at a price that is an estimate. + after it: at least, since a price is not known.
Times are UTC. Minutes are kept for two hours, hours for days, days for months.

-o csv is a file in the columns of FOCUS ` + focus.Version + ` (https://focus.finops.org), by day and by all fields but source,
unless --step and --by say otherwise.`,
		Example: `  anabranch cost --by tenant,model --since 24h
  anabranch cost --by cluster --idle apart -o wide
  anabranch cost --by region --since 31d --step day
  anabranch cost --tenant acme --from 2026-11-01 --until 2026-12-01 -o json
  anabranch cost --from 2026-11-01 --until 2026-12-01 -o csv > november.csv`,
		Args: cobra.NoArgs,
	}
	f.add(a, cmd)
	cmd.AddCommand(a.costBills(), a.costEvents())
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "wide", "json", "yaml", "csv")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return misused(err)
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		query := f.query(cmd, *format == "csv")
		if *format == "csv" {
			query.Set("format", "csv")
			if c.Stale { // downloads do not say it by themselves
				query.Set("consistency", "stale")
			}
			return c.Download(cmd.Context(), pathCosts, query, a.out)
		}
		if *format != "table" && *format != "wide" {
			var raw json.RawMessage
			if err := c.JSON(cmd.Context(), pathCosts, query, &raw); err != nil {
				return err
			}
			return a.write(*format, raw)
		}
		return a.showCosts(cmd.Context(), c, query, *format == "wide")
	}
	return cmd
}

// add gives a command the flags, with completion.
func (f *costFlags) add(a *app, cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.by, "by", []string{"tenant"}, "`fields` that rows tell apart: "+strings.Join(costFields, ", "))
	fl.StringVar(&f.since, "since", "24h", "how far back from --until: 90m, 24h, 31d")
	fl.StringVar(&f.from, "from", "", "the beginning, instead of --since: 2026-11-30 or 2026-11-30T12:00:00Z")
	fl.StringVar(&f.until, "until", "", "the end, which is no part of it; now, unless it is given")
	fl.StringVar(&f.step, "step", "none", "a row for each minute, hour or day; none: one for the whole time")
	fl.StringVar(&f.idle, "idle", "apart", "idle time is shown apart, or spread over those who used the cluster")
	fl.StringVar(&f.sort, "sort", "paid", "what is largest comes first: "+strings.Join(costOrders, ", "))
	fl.IntVar(&f.top, "top", 50, "show so many and put the others together; 0: as many as there may be, 1000")
	for _, of := range []struct {
		name, kind, usage string
		to                *[]string
	}{
		{"tenant", "tenant", "only these `tenants`", &f.tenants},
		{"model", "model", "only these `models`", &f.models},
		{"class", "", "only these traffic `classes`", &f.classes},
		{"cluster", "cluster", "only what was done on these `clusters`", &f.clusters},
		{"region", "region", "only what was done in these `regions`", &f.regions},
		{"source", "region", "only requests that came in in these `regions`", &f.sources},
	} {
		fl.StringSliceVar(of.to, of.name, nil, of.usage)
		if of.kind == "" {
			continue
		}
		_ = cmd.RegisterFlagCompletionFunc(of.name, completeEach(func(ctx context.Context, begun string) []string {
			return a.names(ctx, of.kind, begun)
		})) // the flag is there
	}
	_ = cmd.RegisterFlagCompletionFunc("by", completeEach(func(_ context.Context, begun string) []string { return beginning(slices.Clone(costFields), begun) })) // as above
	for name, values := range map[string][]string{"step": {"none", "minute", "hour", "day"}, "idle": {"apart", "spread"}, "sort": costOrders} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // as above
	}
}

// completeEach completes the last of several words with commas between.
func completeEach(find func(ctx context.Context, begun string) []string) completion {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		before, last := "", begun
		if at := strings.LastIndexByte(begun, ','); at >= 0 {
			before, last = begun[:at+1], begun[at+1:]
		}
		var all []string
		for _, word := range find(ctx, last) {
			if !slices.Contains(strings.Split(before, ","), word) {
				all = append(all, before+word)
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// check finds what is wrong with the flags.
func (f *costFlags) check() error {
	among := func(flag, value string, all ...string) error {
		if slices.Contains(all, value) {
			return nil
		}
		return fmt.Errorf("--%s: %q is unknown; choose among %s", flag, value, strings.Join(all, ", "))
	}
	for _, field := range f.by {
		if err := among("by", field, costFields...); err != nil {
			return err
		}
	}
	if len(f.by) == 0 {
		return errors.New("--by: nothing to tell rows apart by; give " + strings.Join(costFields, ", "))
	}
	if f.top < 0 || f.top > maxTop {
		return fmt.Errorf("--top: %d is out of range; use 1 to %d, or 0 for as many as there may be", f.top, maxTop)
	}
	return errors.Join(
		among("step", f.step, "none", "minute", "hour", "day"), among("idle", f.idle, "apart", "spread"), among("sort", f.sort, costOrders...),
	)
}

// query asks for what the flags say. What nobody said is left to the server, which knows what suits a file.
func (f *costFlags) query(cmd *cobra.Command, file bool) url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"by": strings.Join(f.by, ","), "since": f.since, "from": f.from, "until": f.until, "step": f.step, "idle": f.idle,
	} {
		if cmd.Flags().Changed(name) {
			q.Set(name, value)
		}
	}
	if f.sort == "name" {
		q.Set("sort", f.sort)
	} else {
		q.Set("sort", "-"+f.sort)
	}
	if !file || cmd.Flags().Changed("top") {
		q.Set("limit", strconv.Itoa(cmp.Or(f.top, maxTop)))
	}
	for name, values := range map[string][]string{
		"tenant": f.tenants, "model": f.models, "class": f.classes, "cluster": f.clusters, "region": f.regions, "source": f.sources,
	} {
		if len(values) > 0 {
			q[name] = values
		}
	}
	return q
}
