package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
)

// quotaChange is what flags make of a Quota.
type quotaChange struct {
	limits             limitFlags
	subject            policy.QuotaSpec // of which the flags set all but the limits
	perDay, perMonth   float64
	timeZone           string
	warnAt             []int
	remove             []string
	dryRun, allowLarge bool
	reason             string
	others             consent
}

func (a *app) quotaSet() *cobra.Command {
	var f quotaChange
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Create a quota, or change some of its limits",
		Long: `Create a quota, or change some of its limits. What no flag names stays as it is; each kind of limit that a
flag names is replaced, with its burst. Amounts are whole numbers such as 600, 1.5k, 2M or 1G.

A new quota needs --tenant or --organization, and a limit. With --shadow it is counted, and refuses nothing:
` + "`quota list`" + ` tells what it would. A change holds for all routers at once, with their next table. If somebody
else changes the quota meanwhile nothing is changed.`,
		Example: `  anabranch quota set acme-tokens --tenant acme --total-tokens 1M:2M --requests 600 --concurrent 20
  anabranch quota set acme-spend --tenant acme --usd-per-day 50 --time-zone Europe/Berlin --warn-at 50,80,95
  anabranch quota set acme-tokens --total-tokens 2M --burst 4M --reason "contract renewed" --dry-run
  anabranch quota set acme-tokens --remove requests --shadow=false`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeQuotas(),
	}
	f.add(a, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		limits, err := f.limits.limits()
		if err != nil {
			return misused(err)
		}
		c, err := a.connect(f.reason)
		if err != nil {
			return err
		}
		c.LargeChange = f.allowLarge
		f.others.of(c)
		item, _, err := c.Get(cmd.Context(), policy.KindQuota, args[0])
		if err != nil && !client.IsStatus(err, http.StatusNotFound) {
			return err
		}
		r, err := f.changed(cmd.Flags(), args[0], item, limits)
		if err != nil {
			return err
		}
		if f.dryRun {
			return a.rehearse(cmd.Context(), c, []*policy.Resource{r})
		}
		done, changes, err := c.Apply(cmd.Context(), r)
		if waits, err := a.proposed(cmd.Context(), c, title(r.Kind, r.Metadata.Name), err, f.others.wait); waits {
			return err
		}
		if err != nil {
			return fmt.Errorf("%s: %w", title(r.Kind, r.Metadata.Name), err)
		}
		if err := a.printOutcome(r, done, "", changes); err != nil || done == client.Unchanged {
			return err
		}
		a.noteHeldBack(cmd.Context(), c)
		return nil
	}
	return cmd
}

func (f *quotaChange) add(a *app, cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.subject.Tenant, "tenant", "", "whose requests count")
	fl.StringVar(&f.subject.Organization, "organization", "", "or: the requests of all tenants of this organization")
	fl.StringVar(&f.subject.Model, "model", "", "only requests for this base model; \"\" for all")
	fl.StringVar(&f.subject.Key, "key", "", "only requests with this API key of the tenant, by its id; \"\" for all")
	f.limits.add(fl)
	fl.Float64Var(&f.perDay, "usd-per-day", 0, "dollars a day")
	fl.Float64Var(&f.perMonth, "usd-per-month", 0, "dollars a month")
	fl.StringVar(&f.timeZone, "time-zone", "", "where days and months begin, as Europe/Berlin (default UTC)")
	fl.IntSliceVar(&f.warnAt, "warn-at", nil, "percent of the budgets at which to warn")
	fl.StringSliceVar(&f.remove, "remove", nil, "kinds of limit to take out")
	fl.StringVar(&f.subject.Degraded, "degraded", "", "what holds while the quota store is away: share, open or closed")
	fl.BoolVar(&f.subject.Shadow, "shadow", false, "count what the limits would refuse, and refuse nothing")
	fl.StringVar(&f.subject.Overrun, "overrun", "", "what becomes of an answer that needs more tokens than are left: finish or cut")
	fl.StringVar(&f.subject.HomeRegion, "home-region", "", "region whose quota store keeps the levels of the whole organization")
	fl.BoolVar(&f.dryRun, "dry-run", false, "say what would change, and change nothing")
	fl.StringVar(&f.reason, "reason", "", "why, for the audit trail")
	fl.BoolVar(&f.allowLarge, "allow-large-change", false, "move more of the traffic at once than the safety rules allow; needs --reason")
	f.others.flags(cmd)
	named := func(kind string) completion {
		find := completeOne(func(ctx context.Context, begun string) []string { return a.names(ctx, kind, begun) })
		return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return find(cmd, nil, begun)
		}
	}
	for flag, complete := range map[string]completion{
		"tenant": named("tenant"), "model": named("model"), "home-region": named("region"),
		"degraded": cobra.FixedCompletions([]string{policy.DegradedShare, policy.DegradedOpen, policy.DegradedClosed}, cobra.ShellCompDirectiveNoFileComp),
		"overrun":  cobra.FixedCompletions([]string{policy.OverrunFinish, policy.OverrunCut}, cobra.ShellCompDirectiveNoFileComp),
		"remove":   cobra.FixedCompletions(limitKinds(), cobra.ShellCompDirectiveNoFileComp),
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, complete) // the flag is there
	}
}

func limitKinds() []string {
	return []string{
		policy.LimitRequests, policy.LimitInputTokens, policy.LimitOutputTokens, policy.LimitTotalTokens, policy.LimitConcurrent,
		policy.LimitPerDay, policy.LimitPerMonth,
	}
}

// flagOfQuota are the flags behind fields of a Quota, the longest first.
var flagOfQuota = []struct{ field, flag string }{
	{"spec.tenant", "tenant"},
	{"spec.organization", "organization"},
	{"spec.model", "model"},
	{"spec.key", "key"},
	{"spec.degraded", "degraded"},
	{"spec.overrun", "overrun"},
	{"spec.homeRegion", "home-region"},
}

// changed is the Quota as the flags want it, made from what is there; an empty item: nothing is.
func (f *quotaChange) changed(flags *pflag.FlagSet, name string, item client.Item, limits []policy.LimitSpec) (*policy.Resource, error) {
	var spec policy.QuotaSpec
	if item.Spec != nil {
		if err := json.Unmarshal(item.Spec, &spec); err != nil {
			return nil, fmt.Errorf("read quota %s: %w", name, err)
		}
	}
	f.narrow(flags, &spec)
	if flags.Changed("usd-per-day") {
		limits = append(limits, policy.LimitSpec{Kind: policy.LimitPerDay, USD: f.perDay})
	}
	if flags.Changed("usd-per-month") {
		limits = append(limits, policy.LimitSpec{Kind: policy.LimitPerMonth, USD: f.perMonth})
	}
	for _, l := range limits {
		i := slices.IndexFunc(spec.Limits, func(o policy.LimitSpec) bool { return o.Kind == l.Kind })
		if i < 0 {
			spec.Limits = append(spec.Limits, l)
			continue
		}
		l.TimeZone, l.WarnAt = spec.Limits[i].TimeZone, spec.Limits[i].WarnAt
		spec.Limits[i] = l
	}
	if err := f.budgets(flags, &spec); err != nil {
		return nil, err
	}
	for _, kind := range f.remove {
		if slices.ContainsFunc(limits, func(l policy.LimitSpec) bool { return l.Kind == kind }) {
			return nil, misused(fmt.Errorf("--remove: %s is given by another flag: leave one of the two out", kind))
		}
		n := len(spec.Limits)
		spec.Limits = slices.DeleteFunc(spec.Limits, func(l policy.LimitSpec) bool { return l.Kind == kind })
		if len(spec.Limits) == n {
			return nil, misused(fmt.Errorf("--remove: there is no limit of %q; there are %s", kind, listOf(spec.Limits)))
		}
	}
	switch {
	case spec.Tenant == "" && spec.Organization == "":
		return nil, misused(fmt.Errorf("quota %s is new: say whose requests count with --tenant or --organization", name))
	case len(spec.Limits) == 0:
		return nil, misused(fmt.Errorf("quota %s would have no limit: give one, such as --total-tokens 1M, or delete it with `anabranch delete quota %s`", name, name))
	}
	doc, err := json.Marshal(policy.Resource{
		APIVersion: policy.APIVersion, Kind: policy.KindQuota, Spec: &spec,
		Metadata: policy.Metadata{Name: name, Revision: item.Metadata.Revision, Labels: item.Metadata.Labels},
	})
	if err != nil {
		return nil, fmt.Errorf("write quota %s: %w", name, err)
	}
	r, problems := policy.Parse(doc)
	if len(problems) == 0 {
		problems = policy.Validate(r)
	}
	if len(problems) > 0 {
		return nil, errors.New("this is not valid:" + client.Fields(byFlag(problems)))
	}
	return r, nil
}

// narrow takes over what flags say beside limits.
func (f *quotaChange) narrow(flags *pflag.FlagSet, spec *policy.QuotaSpec) {
	for _, of := range []struct {
		flag     string
		to, from *string
	}{
		{"tenant", &spec.Tenant, &f.subject.Tenant},
		{"organization", &spec.Organization, &f.subject.Organization},
		{"model", &spec.Model, &f.subject.Model},
		{"key", &spec.Key, &f.subject.Key},
		{"degraded", &spec.Degraded, &f.subject.Degraded},
		{"overrun", &spec.Overrun, &f.subject.Overrun},
		{"home-region", &spec.HomeRegion, &f.subject.HomeRegion},
	} {
		if flags.Changed(of.flag) {
			*of.to = *of.from
		}
	}
	if flags.Changed("shadow") {
		spec.Shadow = f.subject.Shadow
	}
}

// budgets takes over what flags say of all budgets.
func (f *quotaChange) budgets(flags *pflag.FlagSet, spec *policy.QuotaSpec) error {
	zone, warn := flags.Changed("time-zone"), flags.Changed("warn-at")
	if !zone && !warn {
		return nil
	}
	some := false
	for i := range spec.Limits {
		l := &spec.Limits[i]
		if !l.Money() {
			continue
		}
		some = true
		if zone {
			l.TimeZone = f.timeZone
		}
		if warn {
			l.WarnAt = f.warnAt
		}
	}
	if !some {
		return misused(errors.New("--time-zone, --warn-at: are of budgets, and there is none: give --usd-per-day or --usd-per-month"))
	}
	return nil
}

// byFlag has problems name the flags beside the fields.
func byFlag(problems []policy.Problem) []policy.Problem {
	out := slices.Clone(problems)
	for i, p := range out {
		for _, of := range flagOfQuota {
			if p.Field == of.field {
				out[i].Field += " (--" + of.flag + ")"
			}
		}
	}
	return out
}

// listOf lists the kinds of limits.
func listOf(limits []policy.LimitSpec) string {
	var out []string
	for _, l := range limits {
		out = append(out, l.Kind)
	}
	return dash(strings.Join(out, ", "))
}
