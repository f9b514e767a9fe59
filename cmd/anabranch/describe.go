package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
)

// references are the fields of each kind that name other resources.
var references = []struct {
	kind  policy.Kind
	field string
	to    policy.Kind
}{
	{policy.KindCluster, "spec.region", policy.KindRegion},
	{policy.KindCluster, "spec.models", policy.KindModel},
	{policy.KindTrafficPolicy, "spec.models", policy.KindModel},
	{policy.KindTrafficPolicy, "spec.clusters", policy.KindCluster},
	{policy.KindTrafficPolicy, "spec.split.clusters", policy.KindCluster},
	{policy.KindTrafficPolicy, "spec.shadow.clusters", policy.KindCluster},
	{policy.KindTrafficPolicy, "spec.regions.region", policy.KindRegion},
	{policy.KindTrafficPolicy, "spec.match.tenants", policy.KindTenant},
	{policy.KindQuota, "spec.tenant", policy.KindTenant},
	{policy.KindQuota, "spec.model", policy.KindModel},
	{policy.KindRateCard, "spec.gpus.region", policy.KindRegion},
	{policy.KindRateCard, "spec.models.model", policy.KindModel},
	{policy.KindTenant, "spec.residency", policy.KindRegion},
}

// describedEvents is how many entries of the audit trail a description shows.
const describedEvents = 10

func (a *app) describe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe KIND NAME",
		Short: "Show a resource with its state, what is related to it, and its last changes",
		Long: `Show a resource as it was written, what the fleet says of it, which resources it names and which name it,
what is strange about it, and its last changes from the audit trail; of a tenant how its limits stand, too,
and of a cluster how its health, and that of its models, changed.`,
		Example: `  anabranch describe cluster us-east-1-a
  anabranch describe tenant acme`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := kindOf(args[0])
			if err != nil {
				return err
			}
			c, err := a.connect("")
			if err != nil {
				return err
			}
			return a.described(cmd.Context(), c, kind, args[1])
		},
	}
	a.mayBeStale(cmd)
	return cmd
}

func (a *app) described(ctx context.Context, c *client.Client, kind policy.Kind, name string) error {
	item, _, err := c.Get(ctx, kind, name)
	if err != nil {
		return err
	}
	shelf, err := c.Shelf(ctx)
	if err != nil {
		return err
	}
	m := item.Metadata
	if err := a.printf("%s %s\nrevision  %d\ncreated   %s\nchanged   %s\n", kind, name, m.Revision, stamp(m.CreatedAt), stamp(m.UpdatedAt)); err != nil {
		return err
	}
	for _, part := range []struct {
		title string
		value any
	}{{"labels", m.Labels}, {"spec", item.Spec}, {"status", item.Status}} {
		text, err := yaml.Marshal(part.value)
		if err != nil {
			return fmt.Errorf("show %s: %w", part.title, err)
		}
		if s := strings.TrimSpace(string(text)); s != "null" && s != "{}" && s != "" {
			if err := a.printf("\n%s:\n%s\n", part.title, indent(s)); err != nil {
				return err
			}
		}
	}
	if err := a.printRelated(shelf, kind, name); err != nil {
		return err
	}
	if kind == policy.KindTenant {
		if err := a.printTenantLimits(ctx, c, name); err != nil {
			return err
		}
	}
	for _, w := range warningsOf(shelf, pricesOf(ctx, c, kind, name), time.Now()) {
		if w.Resource == title(kind, name) {
			if err := a.printf("\n%s %s: %s\n    fix: %s\n", a.tinted("33", "warning:"), w.Field, w.Reason, w.Fix); err != nil {
				return err
			}
		}
	}
	if kind == policy.KindCluster {
		if err := a.printTransitions(ctx, c, name, item.Status); err != nil {
			return err
		}
	}
	return a.printEvents(ctx, c, kind, name)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }

// printRelated prints what a resource names, and what names it.
func (a *app) printRelated(all policy.Lookup, kind policy.Kind, name string) error {
	var names, named []string
	for _, ref := range references {
		field, err := policy.FieldOf(ref.kind, ref.field)
		if err != nil {
			return err
		}
		for _, r := range all.List(ref.kind) {
			for _, value := range field.Values(r) {
				_, exists := all.Get(ref.to, value)
				switch {
				case exists && ref.kind == kind && r.Metadata.Name == name:
					names = append(names, title(ref.to, value)+"  ("+ref.field+")")
				case ref.to == kind && value == name:
					named = append(named, title(r.Kind, r.Metadata.Name)+"  ("+ref.field+")")
				}
			}
		}
	}
	for _, list := range []struct {
		title string
		lines []string
	}{{"names", names}, {"is named by", named}} {
		if len(list.lines) > 0 {
			if err := a.printf("\n%s:\n%s\n", list.title, indent(strings.Join(list.lines, "\n"))); err != nil {
				return err
			}
		}
	}
	return nil
}

// printTenantLimits prints how the limits stand that a tenant's requests pass, if there are any. A node that
// does not tell is older.
func (a *app) printTenantLimits(ctx context.Context, c *client.Client, name string) error {
	u, _, err := tenantLimits(ctx, c, name)
	switch {
	case client.IsStatus(err, http.StatusNotFound):
		return nil
	case err != nil:
		return err
	case len(u.Limits) == 0:
		return nil
	}
	if err := a.printf("\nlimits:\n"); err != nil {
		return err
	}
	return a.tenantTree(u, "  ")
}

// printEvents prints a resource's last changes, newest first.
func (a *app) printEvents(ctx context.Context, c *client.Client, kind policy.Kind, name string) error {
	var trail struct {
		Items []struct {
			At     time.Time       `json:"at"`
			Actor  string          `json:"actor"`
			Action string          `json:"action"`
			Code   string          `json:"code"`
			Reason string          `json:"reason"`
			Index  json.RawMessage `json:"index"`
		} `json:"items"`
	}
	query := url.Values{"kind": {string(kind)}, "name": {name}, "limit": {strconv.Itoa(describedEvents)}}
	if err := c.JSON(ctx, "/v1/audit", query, &trail); err != nil {
		return err
	}
	var rows [][]string
	for _, e := range trail.Items {
		rows = append(rows, []string{"  " + stamp(e.At), string(e.Index), e.Actor, strings.TrimSpace(e.Action + " " + e.Code), dash(e.Reason)})
	}
	if len(rows) == 0 {
		return nil
	}
	if err := a.printf("\nchanges:\n"); err != nil {
		return err
	}
	return a.table([]string{"  AT", "REVISION", "BY", "WHAT", "WHY"}, rows)
}
