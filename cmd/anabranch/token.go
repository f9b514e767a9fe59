package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/access"
)

// tokenLife is how long a token is valid if nobody says otherwise: what is forgotten ends by itself.
const tokenLife = 90 * 24 * time.Hour

// token is one token as /v1/tokens tells it; secret only when it was just issued.
type token struct {
	Name          string       `json:"name"`
	Role          string       `json:"role"`
	Scope         access.Scope `json:"scope"`
	Prefix        string       `json:"prefix"`
	State         string       `json:"state"`
	CreatedAt     time.Time    `json:"createdAt"`
	CreatedBy     string       `json:"createdBy"`
	ExpiresAt     time.Time    `json:"expiresAt"`
	PreviousUntil time.Time    `json:"previousUntil"`
	Secret        string       `json:"secret"`
}

func (a *app) tokens() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list, rotate and revoke the tokens of operators and programs",
		Long: `Make, list, rotate and revoke the tokens of operators and programs.

A token has a role (viewer, operator, approver, admin), may have a scope of regions, tenants and models,
and may expire. Its secret, anb_ and 59 characters, is told once: the control plane keeps a hash. All of
this needs the role admin without a scope.`,
		Example: `  anabranch token create ci --role operator --tenant acme
  anabranch token list
  anabranch token rotate ci --overlap 1h
  anabranch token revoke ci`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(a.createToken(), a.listTokens(), a.getToken(), a.rotateToken(), a.revokeToken())
	return cmd
}

func (a *app) createToken() *cobra.Command {
	var reason, role string
	var scope access.Scope
	var life time.Duration
	var forever bool
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token and print its secret, this once",
		Long: `Make a token and print its secret, this once.

Without --region, --tenant and --model the token is good for everything that its role may do. With them
it changes only what names nothing else, and sees no other tenants; a token for a tenant alone changes no
region and no model. The table is printed to standard error and the secret alone to standard output, so
that it can go straight into a file or a secret store.`,
		Example: `  anabranch token create ci --role operator --tenant acme > ci.token
  anabranch token create oncall-eu --role operator --region eu-west-1,eu-central-1 --expires 30d
  anabranch token create chief --role admin --never-expires`,
		Args: cobra.ExactArgs(1),
	}
	format := formats(cmd, "table", "json", "yaml")
	cmd.Flags().StringVar(&role, "role", "viewer", "viewer, operator, approver or admin")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"viewer", "operator", "approver", "admin"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	cmd.Flags().StringSliceVar(&scope.Regions, "region", nil, "regions that it is good for (default: all)")
	cmd.Flags().StringSliceVar(&scope.Tenants, "tenant", nil, "tenants that it is good for (default: all)")
	cmd.Flags().StringSliceVar(&scope.Models, "model", nil, "models that it is good for (default: all)")
	spanVar(cmd.Flags(), &life, "expires", tokenLife, "how long it is valid, at most 366d")
	cmd.Flags().BoolVar(&forever, "never-expires", false, "it is valid until it is revoked")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	cmd.MarkFlagsMutuallyExclusive("expires", "never-expires")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		body := map[string]any{"name": args[0], "role": role, "scope": scope}
		if !forever {
			ends, err := in(life)
			if err != nil {
				return err
			}
			body["expiresAt"] = ends
		}
		return a.issue(cmd, "/v1/tokens", reason, *format, body)
	}
	return cmd
}

// in is a time from now, to the second.
func in(life time.Duration) (time.Time, error) {
	if life < time.Second {
		return time.Time{}, fmt.Errorf("--expires %s is too short: give a time such as 24h or 90d, or --never-expires", life)
	}
	return time.Now().UTC().Add(life).Truncate(time.Second), nil
}

// issue asks for a secret and prints it.
func (a *app) issue(cmd *cobra.Command, path, reason, format string, body any) error {
	c, err := a.connect(reason)
	if err != nil {
		return err
	}
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	answer, err := c.Do(cmd.Context(), client.Call{Method: http.MethodPost, Path: path, Body: b})
	if err != nil {
		return err
	}
	if format != "table" {
		return a.write(format, json.RawMessage(answer.Body))
	}
	var t token
	if err := json.Unmarshal(answer.Body, &t); err != nil {
		return fmt.Errorf("read answer to POST %s: %w", path, err)
	}
	note := fmt.Sprintf("%s: %s of %s, expires %s\n", t.Name, t.Role, t.Scope, orNever(t.ExpiresAt))
	if !t.PreviousUntil.IsZero() {
		note += fmt.Sprintf("the secret before is valid until %s\n", t.PreviousUntil.Format(time.RFC3339))
	}
	if _, err := fmt.Fprint(a.err, note+"the secret is told this once; keep it safe:\n"); err != nil {
		return err
	}
	return a.printf("%s\n", t.Secret)
}

func (a *app) listTokens() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens, those that have ended included",
		Long: `List the tokens, those that have ended included.

For each its role, scope and end, and how its secret begins: the secrets themselves are not kept.`,
		Example: "  anabranch token list\n  anabranch token list -o json",
		Args:    cobra.NoArgs,
	}
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		list, err := everyPage(cmd.Context(), c, "/v1/tokens", nil)
		if err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, list)
		}
		var rows [][]string
		for _, raw := range list.Items {
			var t token
			if err := json.Unmarshal(raw, &t); err != nil {
				return fmt.Errorf("read answer to GET /v1/tokens: %w", err)
			}
			rows = append(rows, t.row())
		}
		return a.table(tokenColumns, rows)
	}
	return cmd
}

var tokenColumns = []string{"NAME", "ROLE", "SCOPE", "STATE", "EXPIRES", "SECRET", "BY"}

func (t token) row() []string {
	shown := "-"
	if t.Prefix != "" {
		shown = t.Prefix + "…"
	}
	return []string{t.Name, t.Role, t.Scope.String(), t.State, orNever(t.ExpiresAt), shown, dash(t.CreatedBy)}
}

func orNever(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

func (a *app) getToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Show a token, but for its secret",
		Long: `Show a token, but for its secret.

Its role and scope, by whom it was made, when it ends, and how its secret begins.`,
		Example: "  anabranch token get ci -o yaml",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completeItems("/v1/tokens"),
	}
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		var raw json.RawMessage
		if err := c.JSON(cmd.Context(), "/v1/tokens/"+url.PathEscape(args[0]), nil, &raw); err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, raw)
		}
		var t token
		if err := json.Unmarshal(raw, &t); err != nil {
			return fmt.Errorf("read answer to GET /v1/tokens/%s: %w", args[0], err)
		}
		return a.table(tokenColumns, [][]string{t.row()})
	}
	return cmd
}

func (a *app) rotateToken() *cobra.Command {
	var reason string
	var overlap, life time.Duration
	var forever bool
	cmd := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Give a token a new secret, and print it this once",
		Long: `Give a token a new secret, and print it this once.

The secret before stays valid for --overlap, so that whoever holds it can change over without a pause;
with --overlap 0s, for a secret that has leaked, it ends at once, and so does in any case the one before
that. Role and scope stay, and the expiry too unless --expires or --never-expires say otherwise.`,
		Example: `  anabranch token rotate ci --overlap 1h > ci.token
  anabranch token rotate ci --overlap 0s --reason "it was in a log"`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeItems("/v1/tokens"),
	}
	format := formats(cmd, "table", "json", "yaml")
	spanVar(cmd.Flags(), &overlap, "overlap", defaultOverlap, "how long the secret before stays valid, at most 7d")
	spanVar(cmd.Flags(), &life, "expires", 0, "how long it is valid from now on (default: as before)")
	cmd.Flags().BoolVar(&forever, "never-expires", false, "it is valid until it is revoked")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	cmd.MarkFlagsMutuallyExclusive("expires", "never-expires")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if overlap < 0 || overlap%time.Second != 0 {
			return fmt.Errorf("--overlap %s: give whole seconds, such as 1h or 0s", overlap)
		}
		body := map[string]any{"overlapSeconds": overlap / time.Second}
		switch {
		case forever:
			body["expiresAt"] = time.Time{}
		case cmd.Flags().Changed("expires"):
			ends, err := in(life)
			if err != nil {
				return err
			}
			body["expiresAt"] = ends
		}
		return a.issue(cmd, "/v1/tokens/"+url.PathEscape(args[0])+"/rotate", reason, *format, body)
	}
	return cmd
}

func (a *app) revokeToken() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "End a token for good, now",
		Long: `End a token for good, now. What it is watching ends too.

The name stays taken, so that one name in the audit trail is one token. The last token of an admin that
never expires and has no scope can't be revoked.`,
		Example: `  anabranch token revoke ci --reason "the pipeline is gone"`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completeItems("/v1/tokens"),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		if _, err := c.Do(cmd.Context(), client.Call{Method: http.MethodDelete, Path: "/v1/tokens/" + url.PathEscape(args[0])}); err != nil {
			return err
		}
		return a.printf("%s is revoked\n", args[0])
	}
	return cmd
}

func (a *app) whoami() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show who you are to the control plane, and what you may do",
		Long: `Show who you are to the control plane, and what you may do.

How the control plane knows you (by a token or by the OpenID provider), your role, your scope, and when
your token ends. With --operations every operation of the API, whether you may do it, and why not.`,
		Example: "  anabranch whoami\n  anabranch whoami --operations",
		Args:    cobra.NoArgs,
	}
	operations := cmd.Flags().Bool("operations", false, "list every operation, and whether you may do it")
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		path := "/v1/whoami"
		if *operations {
			path = "/v1/capabilities"
		}
		var raw json.RawMessage
		if err := c.JSON(cmd.Context(), path, nil, &raw); err != nil {
			return err
		}
		switch {
		case *format != "table":
			return a.write(*format, raw)
		case *operations:
			return a.capabilities(raw)
		}
		var me struct {
			Kind, Name, Role string
			Scope            access.Scope
			Rights           []string
			ExpiresAt        time.Time
		}
		if err := json.Unmarshal(raw, &me); err != nil {
			return fmt.Errorf("read answer to GET /v1/whoami: %w", err)
		}
		return a.printf("name      %s (%s)\nrole      %s\nscope     %s\nrights    %s\nexpires   %s\n",
			me.Name, me.Kind, me.Role, me.Scope, strings.Join(me.Rights, ", "), orNever(me.ExpiresAt))
	}
	return cmd
}

// capabilities prints what the caller may do, and why not.
func (a *app) capabilities(raw json.RawMessage) error {
	var can struct {
		Operations map[string]struct {
			Allowed              bool
			Needs, Scope, Reason string
		}
	}
	if err := json.Unmarshal(raw, &can); err != nil {
		return fmt.Errorf("read answer to GET /v1/capabilities: %w", err)
	}
	var rows [][]string
	for _, id := range slices.Sorted(maps.Keys(can.Operations)) {
		o, allowed := can.Operations[id], "no"
		if o.Allowed {
			allowed = "yes"
		}
		rows = append(rows, []string{id, o.Needs, o.Scope, allowed, dash(o.Reason)})
	}
	return a.table([]string{"OPERATION", "NEEDS", "SCOPE", "ALLOWED", "WHY NOT"}, rows)
}
