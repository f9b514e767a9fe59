package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"anabranch/api/fleet"
	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev"
	"anabranch/controlplane/policy"
)

// defaultOverlap is how long the old key of a rotation goes on serving.
const defaultOverlap = 24 * time.Hour

// shownPrefix is how much of a key stays readable: its kind and 5 of 40 hexadecimal digits.
const shownPrefix = 8

func (a *app) key() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make, list, rotate and revoke API keys of tenants",
		Long: `Make, list, rotate and revoke API keys of tenants.

A key is made here and shown once. The control plane and the routers get its SHA-256 and how it begins,
so that it can be known again; nobody can tell the key from that.`,
		Example: `  anabranch key list acme
  anabranch key rotate acme --id default --overlap 48h`,
	}
	cmd.AddCommand(a.newKey(), a.listKeys(), a.addKey(), a.rotateKey(), a.revokeKey())
	return cmd
}

func (a *app) newKey() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Make an API key, and the entry that a Tenant needs for it",
		Long: `Make an API key, and the entry that a Tenant needs for it.

Nothing is sent anywhere: for tenants that are kept in files. The key is shown once and kept nowhere.`,
		Example: `  anabranch key new
  anabranch key new --id laptop -o json`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&id, "id", "default", "name of the key within its tenant")
	format := formats(cmd, "text", "json")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := fleet.CheckName(id); err != nil {
			return err
		}
		key, spec := freshKey(id, time.Time{})
		if *format == "json" {
			return a.write("json", madeKey{Key: key, APIKeySpec: spec})
		}
		return a.printf("key:     %s\nsha256:  %s\n\nIn the Tenant's spec:\n\n  apiKeys:\n    - { id: %q, sha256: %q, prefix: %q }\n",
			key, spec.SHA256, id, spec.SHA256, spec.Prefix)
	}
	return cmd
}

// madeKey is a new key, told once.
type madeKey struct {
	Tenant string `json:"tenant,omitempty"`
	Key    string `json:"key"`
	policy.APIKeySpec
}

// freshKey makes a key and what is kept of it. A zero end: never.
func freshKey(id string, ends time.Time) (string, policy.APIKeySpec) {
	key := dev.NewKey()
	return key, policy.APIKeySpec{ID: id, SHA256: dev.HashKey(key), Prefix: key[:shownPrefix], ExpiresAt: moment(ends)}
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Truncate(time.Second).Format(time.RFC3339)
}

func (a *app) listKeys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list TENANT",
		Short: "List a tenant's keys: how they begin, and when they end",
		Long: `List a tenant's keys: how they begin, and when they end.

Only the hash of a key and how it begins are kept, so that a key can be known again and not be read.`,
		Example: `  anabranch key list acme`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completeTenants(),
	}
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		keys, _, err := keysOf(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, keys)
		}
		var rows [][]string
		for _, k := range keys {
			begins, ends := k.Prefix+"…", k.ExpiresAt
			if k.Prefix == "" {
				begins = "-"
			}
			if ends == "" {
				ends = "never"
			}
			rows = append(rows, []string{k.ID, begins, ends, keyState(k, time.Now())})
		}
		return a.table([]string{"ID", "BEGINS", "EXPIRES", "STATE"}, rows)
	}
	return cmd
}

// keyState says what a key is worth at a time.
func keyState(k policy.APIKeySpec, now time.Time) string {
	switch ends := k.Expires(); {
	case ends.IsZero():
		return "active"
	case !now.Before(ends):
		return "expired"
	default:
		return "active, ends in " + ends.Sub(now).Round(time.Minute).String()
	}
}

func (a *app) addKey() *cobra.Command {
	var id, reason string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use:   "add TENANT",
		Short: "Make one more key for a tenant",
		Long: `Make one more key for a tenant.

It is shown once. Routers take it as soon as they have the next table.`,
		Example: `  anabranch key add acme --id batch-jobs --reason "new nightly job"
  anabranch key add acme --id visitor --expires-in 3d`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeTenants(),
	}
	cmd.Flags().StringVar(&id, "id", "", "name of the key within its tenant (required)")
	spanVar(cmd.Flags(), &lasts, "expires-in", 0, "how long it serves, as 30d or 12h (default: for ever)")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	format := formats(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkID(id); err != nil {
			return err
		}
		ends, err := after(lasts, "--expires-in")
		if err != nil {
			return err
		}
		key, spec := freshKey(id, ends)
		err = a.changeKeys(cmd.Context(), args[0], reason, func(list []policy.APIKeySpec) ([]policy.APIKeySpec, error) {
			return withKey(list, spec)
		})
		if err = a.pendingKey(err); err != nil {
			return err
		}
		return a.showKey(*format, args[0], key, spec, "")
	}
	return cmd
}

// checkID judges the name that --id gives to a key, or calls one by.
func checkID(id string) error {
	if id == "" {
		return misused(errors.New("name the key with --id; `anabranch key list TENANT` shows those that there are"))
	}
	if err := fleet.CheckName(id); err != nil {
		return fmt.Errorf("--id: %w", err)
	}
	return nil
}

// after is the time when something ends that lasts so long; zero for 0.
func after(lasts time.Duration, flag string) (time.Time, error) {
	switch {
	case lasts < 0:
		return time.Time{}, fmt.Errorf("%s: %s is in the past", flag, lasts)
	case lasts == 0:
		return time.Time{}, nil
	}
	return time.Now().Add(lasts), nil
}

func (a *app) rotateKey() *cobra.Command {
	var id, newID, reason string
	var overlap, lasts time.Duration
	cmd := &cobra.Command{
		Use:   "rotate TENANT",
		Short: "Put a new key in the place of an old one, which serves a while longer",
		Long: `Put a new key in the place of an old one, which serves a while longer.

Both serve until the overlap is over; then routers refuse the old one and say that it has expired. It stays
in the tenant's list until it is revoked, so that its requests can be told from strangers'.`,
		Example: `  anabranch key rotate acme --id default --overlap 48h --reason "yearly"
  anabranch key rotate acme --id laptop --overlap 0s --reason "laptop stolen"`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeTenants(),
	}
	cmd.Flags().StringVar(&id, "id", "", "name of the key that is replaced (required)")
	cmd.Flags().StringVar(&newID, "new-id", "", "name of the new one (default: the old name and today's date)")
	spanVar(cmd.Flags(), &overlap, "overlap", defaultOverlap, "how long the old key goes on serving")
	spanVar(cmd.Flags(), &lasts, "expires-in", 0, "how long the new one serves (default: for ever)")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	format := formats(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if overlap < 0 {
			return fmt.Errorf("--overlap: %s is in the past; 0s ends the old key now", overlap)
		}
		ends, err := after(lasts, "--expires-in")
		if err != nil {
			return err
		}
		now := time.Now()
		if newID == "" {
			newID = policy.KeyFamily(id) + now.UTC().Format("-20060102-1504")
		}
		if err := checkID(id); err != nil {
			return err
		}
		if err := fleet.CheckName(newID); err != nil {
			return fmt.Errorf("--new-id: %w", err)
		}
		old := now.Add(overlap)
		if overlap > 0 {
			old = old.Add(time.Second - 1) // ends are whole seconds, and an overlap is no shorter than it says
		}
		key, spec := freshKey(newID, ends)
		err = a.changeKeys(cmd.Context(), args[0], reason, func(list []policy.APIKeySpec) ([]policy.APIKeySpec, error) {
			return rotated(list, id, spec, old)
		})
		if err = a.pendingKey(err); err != nil {
			return err
		}
		return a.showKey(*format, args[0], key, spec, fmt.Sprintf("%s serves until %s\n", id, moment(old)))
	}
	return cmd
}

func (a *app) revokeKey() *cobra.Command {
	var id, reason string
	cmd := &cobra.Command{
		Use:   "revoke TENANT",
		Short: "Take a key away: routers refuse it as soon as they have the next table",
		Long: `Take a key away: routers refuse it as soon as they have the next table.

Requests that are being answered go on. To change a key without a gap, use ` + "`key rotate`" + ` instead.`,
		Example: `  anabranch key revoke acme --id laptop --reason "leaked"`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completeTenants(),
	}
	cmd.Flags().StringVar(&id, "id", "", "name of the key (required)")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkID(id); err != nil {
			return err
		}
		err := a.changeKeys(cmd.Context(), args[0], reason, func(list []policy.APIKeySpec) ([]policy.APIKeySpec, error) {
			return withoutKey(list, id)
		})
		if errors.As(err, new(*client.ProposedError)) {
			return a.pendingKey(err)
		}
		if err != nil {
			return err
		}
		return a.printf("%s of %s is no key any more\n", id, args[0])
	}
	return cmd
}

// pendingKey says beside the answer that a change of keys waits for approval, which is no failure; other
// errors come back.
func (a *app) pendingKey(err error) error {
	var p *client.ProposedError
	if !errors.As(err, &p) {
		return err
	}
	_, err = fmt.Fprintf(a.err, "The change of keys waits as proposal %s until somebody else has approved it.\n  anabranch proposal show %s\n", p.ID, p.ID)
	return err
}

func (a *app) showKey(format, tenant, key string, spec policy.APIKeySpec, more string) error {
	if format == "json" {
		return a.write("json", madeKey{Tenant: tenant, Key: key, APIKeySpec: spec})
	}
	ends := spec.ExpiresAt
	if ends == "" {
		ends = "never"
	}
	// The key alone is the output, so that it can go straight into a file or a secret store.
	_, err := fmt.Fprintf(a.err, "%s of tenant %s, expires %s\n%sthe key is told this once; keep it safe:\n", spec.ID, tenant, ends, more)
	if err != nil {
		return err
	}
	return a.printf("%s\n", key)
}
