package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
)

func (a *app) quota() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quota",
		Short: "Show, set and rehearse what tenants may use, in all regions together",
		Long: `Show, set and rehearse what tenants may use, in all regions together.

A Quota limits requests, tokens, requests at the same time, or money: of an organization, a tenant, a
model or an API key. Routers hold leases on it, so that what is shown as left is an estimate; what is
spent of budgets is the ledger's, a few seconds old.`,
		Example: `  anabranch quota list --tenant acme
  anabranch quota show acme-tokens
  anabranch quota watch`,
	}
	cmd.AddCommand(a.quotaList(), a.quotaShow(), a.quotaSet(), a.quotaWatch(), a.quotaSimulate())
	return cmd
}

// quotaFilter says which limits are meant.
type quotaFilter struct{ tenant, organization string }

func (f *quotaFilter) flags(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "only limits that this tenant's requests pass")
	cmd.Flags().StringVar(&f.organization, "organization", "", "only limits of this organization and its tenants")
	complete := a.completeTenants()
	_ = cmd.RegisterFlagCompletionFunc("tenant", func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return complete(cmd, nil, begun)
	}) // the flag is there
}

func (f *quotaFilter) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"tenant": f.tenant, "organization": f.organization} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// completeQuotas completes the name of a Quota.
func (a *app) completeQuotas() completion {
	return completeOne(func(ctx context.Context, begun string) []string { return a.names(ctx, "quota", begun) })
}

func (a *app) quotaList() *cobra.Command {
	var filter quotaFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List limits: whose they are, how much is used, who is refused",
		Long: `List limits: whose they are, how much is used, who is refused.

USE is of a rate its average over about 15 s, of requests at the same time those that are open, of a
budget what is spent. DENIED/MIN counts requests refused a minute; of limits in shadow those that would
be. DEGRADED tells which routers keep a limit by themselves, because they can't reach its quota store.`,
		Example: `  anabranch quota list
  anabranch quota list --tenant acme
  anabranch quota list --organization works -o json`,
		Args: cobra.NoArgs,
	}
	filter.flags(a, cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		all, raw, err := limitUses(cmd.Context(), c, filter.query())
		if err != nil {
			return err
		}
		if len(all) == 0 && filter.tenant != "" {
			if _, _, err := c.Get(cmd.Context(), policy.KindTenant, filter.tenant); err != nil {
				return err // mistyped, most likely
			}
		}
		if *format != "table" {
			return a.write(*format, raw)
		}
		if err := a.limits(all); err != nil {
			return err
		}
		if filter != (quotaFilter{}) {
			if len(all) == 0 {
				_, err = fmt.Fprintln(a.err, "note: nothing limits these requests, or nobody is of that name")
			}
			return err
		}
		return a.notWithRouters(cmd.Context(), c, all)
	}
	return cmd
}

var limitHeader = []string{"QUOTA", "SUBJECT", "LIMIT", "USE", "LEFT", "ADMITTED/MIN", "DENIED/MIN", "DEGRADED"}

func (l *limitUse) row() []string {
	return []string{l.Quota, l.subject(), l.rule(), l.used(), l.left(), perMinute(l.AdmittedPerMinute), l.denied(), l.away()}
}

func (a *app) limits(all []limitUse) error {
	rows := make([][]string, len(all))
	for i := range all {
		rows[i] = all[i].row()
	}
	return a.table(limitHeader, rows)
}

// notWithRouters says which quotas no routing table has.
func (a *app) notWithRouters(ctx context.Context, c *client.Client, all []limitUse) error {
	list, err := c.List(ctx, policy.KindQuota)
	if err != nil {
		return err
	}
	var missing []string
	for _, q := range list.Items {
		if !slices.ContainsFunc(all, func(l limitUse) bool { return l.Quota == q.Metadata.Name }) {
			missing = append(missing, q.Metadata.Name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = fmt.Fprintf(a.err, "note: not in the routing table yet: %s\n", strings.Join(missing, ", "))
	return err
}

func (a *app) quotaShow() *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use:   "show NAME | show --tenant TENANT",
		Short: "Show a quota by region, or all limits that a tenant's requests pass as a tree",
		Long: `Show how a quota stands, its limits by region; or with --tenant all limits that requests of a tenant
pass, as a tree: those of its organization, of the tenant, of its models and keys. A request has to pass
all of them, and a refused one is charged nowhere.

SHARE is the part of a limit that holds in a region while it is cut off from the quota store.`,
		Example: `  anabranch quota show acme-tokens
  anabranch quota show --tenant acme`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeQuotas(),
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "all limits that this tenant's requests pass")
	complete := a.completeTenants()
	_ = cmd.RegisterFlagCompletionFunc("tenant", func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return complete(cmd, nil, begun)
	}) // the flag is there
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (len(args) == 1) == (tenant != "") {
			return misused(errors.New("name a quota, or a tenant with --tenant"))
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		if tenant != "" {
			return a.showTenantLimits(cmd.Context(), c, tenant, *format)
		}
		return a.showQuota(cmd.Context(), c, args[0], *format)
	}
	return cmd
}

// showQuota shows the limits of one Quota, and each by region.
func (a *app) showQuota(ctx context.Context, c *client.Client, name, format string) error {
	if _, _, err := c.Get(ctx, policy.KindQuota, name); err != nil {
		return err
	}
	all, raw, err := limitUses(ctx, c, url.Values{"quota": {name}})
	if err != nil {
		return err
	}
	if format != "table" {
		return a.write(format, raw)
	}
	if len(all) == 0 {
		return a.printf("quotas/%s is not in the routing table yet\n", name)
	}
	if err := a.limits(all); err != nil {
		return err
	}
	var rows [][]string
	for _, l := range all {
		for _, r := range l.Regions {
			degraded := "-"
			if r.DegradedRouters > 0 {
				degraded = fmt.Sprintf("%d of %d routers", r.DegradedRouters, r.Routers)
			}
			refused := r.DeniedPerMinute
			if l.Shadow {
				refused = r.WouldDenyPerMin
			}
			rows = append(rows, []string{
				l.ID, r.Region, fmt.Sprintf("%.0f%%", 100*r.Share), about(r.UsedPerMinute), amount(r.InUse), amount(r.Held),
				perMinute(r.AdmittedPerMinute), perMinute(refused), degraded,
			})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	return a.table([]string{"LIMIT", "REGION", "SHARE", "USED/MIN", "IN USE", "HELD", "ADMITTED/MIN", "DENIED/MIN", "DEGRADED"}, rows)
}

// tenantUse is how a tenant's limits stand, as /v1/tenants/{name}/usage tells it.
type tenantUse struct {
	Tenant        string     `json:"tenant"`
	Organization  string     `json:"organization"`
	Home          string     `json:"home"`
	At            time.Time  `json:"at"`
	TableRevision uint64     `json:"tableRevision"`
	Limits        []limitUse `json:"limits"`
}

func tenantLimits(ctx context.Context, c *client.Client, tenant string) (tenantUse, json.RawMessage, error) {
	var raw json.RawMessage
	var u tenantUse
	local := *c
	local.Stale = false // no leader is asked for this anyway
	if err := local.JSON(ctx, "/v1/tenants/"+url.PathEscape(tenant)+"/usage", nil, &raw); err != nil {
		return u, nil, err
	}
	if err := json.Unmarshal(raw, &u); err != nil {
		return u, nil, fmt.Errorf("read the usage of %s: %w; -o json shows it as it came", tenant, err)
	}
	return u, raw, nil
}

// showTenantLimits shows the limits of a tenant's requests as a tree.
func (a *app) showTenantLimits(ctx context.Context, c *client.Client, tenant, format string) error {
	u, raw, err := tenantLimits(ctx, c, tenant)
	if err != nil {
		return err
	}
	if format != "table" {
		return a.write(format, raw)
	}
	return a.tenantTree(u, "")
}

// tenantTree prints the limits of a tenant's requests as a tree, each line behind an indent.
func (a *app) tenantTree(u tenantUse, indent string) error {
	header := append([]string{indent + "LIMIT OF"}, limitHeader[2:]...)
	rows := u.tree()
	for i := range rows {
		rows[i][0] = indent + rows[i][0]
	}
	return a.table(append(header, "QUOTA"), rows)
}

// tree is a row for each limit below whose it is. What no limit is of is left out, but for the organization
// and the tenant.
func (u *tenantUse) tree() [][]string {
	home := ""
	if u.Home != "" {
		home = " (home " + u.Home + ")"
	}
	branch := func(depth int, text string) []string {
		row := make([]string, len(limitHeader))
		row[0] = strings.Repeat("  ", depth) + text
		for i := range row[1:] {
			row[i+1] = ""
		}
		return row
	}
	rows := [][]string{branch(0, "organization "+u.Organization+home)}
	inTenant, last := false, ""
	for i := range u.Limits {
		l := &u.Limits[i]
		depth, of := 1, ""
		if l.Tenant != "" {
			if !inTenant {
				rows, inTenant = append(rows, branch(1, "tenant "+u.Tenant)), true
			}
			if depth, of = 2, strings.TrimPrefix(l.narrowed(", "), ", "); of != "" {
				depth = 3
			}
		}
		if of != last && of != "" {
			rows = append(rows, branch(2, of))
		}
		last = of
		rows = append(rows, append([]string{strings.Repeat("  ", depth) + l.Kind}, append(l.row()[2:], l.Quota)...))
	}
	if !inTenant {
		rows = append(rows, branch(1, "tenant "+u.Tenant+": no limits of its own"))
	}
	return rows
}
