package main

import (
	"github.com/spf13/cobra"

	"anabranch/api/fleet"
	"anabranch/cmd/anabranch/dev"
)

func (a *app) key() *cobra.Command {
	cmd := &cobra.Command{Use: "key", Short: "Make API keys for tenants"}
	var id string
	generate := &cobra.Command{
		Use:   "new",
		Short: "Make an API key, and the entry that a Tenant needs for it",
		Long: `Make an API key, and the entry that a Tenant needs for it.

The key is shown once and kept nowhere: give it to the tenant. The Tenant resource holds its hash.`,
		Example: `  anabranch key new
  anabranch key new --id laptop -o json`,
		Args: cobra.NoArgs,
	}
	generate.Flags().StringVar(&id, "id", "default", "name of the key within its tenant")
	format := formats(generate, "text", "json")
	generate.RunE = func(*cobra.Command, []string) error {
		if err := fleet.CheckName(id); err != nil {
			return err
		}
		key := dev.NewKey()
		if *format == "json" {
			return a.write("json", map[string]string{"id": id, "key": key, "sha256": dev.HashKey(key)})
		}
		return a.printf("key:     %s\nsha256:  %s\n\nIn the Tenant's spec:\n\n  apiKeys:\n    - { id: %q, sha256: %q }\n",
			key, dev.HashKey(key), id, dev.HashKey(key))
	}
	cmd.AddCommand(generate)
	return cmd
}
