// Package datadir is the commands on the data folder of a control plane node that does not run: to
// start a new cluster with the state of a backup, and to go on with what one node has left. Both of
// our programs for the control plane offer them. What they do is package store's.
package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"anabranch/api/fleet"
	"anabranch/controlplane/backup"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/store"
)

// Restore is the command that puts a backup into the folder of a new cluster's node.
func Restore() *cobra.Command {
	var dir, id, cluster string
	var peers []string
	var replace bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a backup into the data folder of a new cluster's node",
		Long: `Put a backup into the data folder of a new cluster's node, which must not run.

Run it on every node of the new cluster, with the same FILE and the same --peers; then start them with
the flags that they always have. A cluster of one node, which others then --join, does as well.

The cluster keeps its identity, so routers go on serving from the tables that they have, and take the
new ones: the first leader raises the epoch above all that they hold before it publishes. What was
changed after the backup is gone. With --cluster-id it becomes another control plane, which the routers
of the first one don't follow: for rehearsals.

A folder with data is refused. With --replace what is there is moved into a folder replaced-TIME in it.`,
		Example: `  anabranch-controlplane restore anabranch.backup --data-dir /var/lib/anabranch \
    --id n1 --peers n1=10.0.0.1:7120,n2=10.0.0.2:7120,n3=10.0.0.3:7120`,
		Args: cobra.ExactArgs(1),
	}
	fl := cmd.Flags()
	fl.StringVar(&dir, "data-dir", "", "data folder of this node (required)")
	fl.StringVar(&id, "id", "", "name of this node (required)")
	fl.StringSliceVar(&peers, "peers", nil, "all members of the new cluster, as id=host:port,… (required)")
	fl.StringVar(&cluster, "cluster-id", "", "identity of the new cluster (default: the one in the backup)")
	fl.BoolVar(&replace, "replace", false, "move data that is there aside")
	need(cmd, "data-dir", "id", "peers")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		list, err := parsePeers(peers)
		if err != nil {
			return err
		}
		m, view, err := backup.Load(args[0])
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		if replace {
			if err := store.Clear(dir, "replaced-"+time.Now().UTC().Format("20060102T150405Z")); err != nil {
				return err
			}
		}
		err = store.Plant(store.Seed{
			Dir: dir, ID: fleet.NodeID(id), Peers: list, View: view, ClusterID: cluster, Logger: slog.New(slog.DiscardHandler),
		})
		if errors.Is(err, store.ErrNotEmpty) {
			return fmt.Errorf("%w; give an empty folder, or --replace to move it aside", err)
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "restored cluster %s as of %s (epoch %d, revision %d) for node %s\n",
			cmp.Or(cluster, m.ClusterID), m.At.Format(time.RFC3339), m.Epoch, m.Revision, id)
		return err
	}
	return cmd
}

// Recover is the command that makes a cluster of one node of what its folder holds.
func Recover() *cobra.Command {
	var dir string
	var peers []string
	var dry bool
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Go on with one node when the majority is lost for ever",
		Long: `Go on with one node when the majority of the control plane's nodes is lost for ever.

It makes a cluster of one node of what the data folder holds; the node must not run. Copy the folder
first. If several nodes are left, look at each with --dry-run, and take the one with the highest last
term, then the highest last index: it has all that any of them has. Changes that only the lost nodes had
are gone. Then start it without --peers, and add new nodes with empty folders by --join.

Nodes of before that come back with their old folders are refused: empty these, and let them join.
Routers go on serving meanwhile, and follow the recovered node.`,
		Example: `  cp -a /var/lib/anabranch /var/lib/anabranch.before
  anabranch-controlplane recover --data-dir /var/lib/anabranch --peers n3=10.0.0.3:7120 --dry-run
  anabranch-controlplane recover --data-dir /var/lib/anabranch --peers n3=10.0.0.3:7120`,
		Args: cobra.NoArgs,
	}
	fl := cmd.Flags()
	fl.StringVar(&dir, "data-dir", "", "data folder of this node (required)")
	fl.StringSliceVar(&peers, "peers", nil, "this node alone, as id=host:port at which others reach it (required)")
	fl.BoolVar(&dry, "dry-run", false, "only tell what the folder holds")
	need(cmd, "data-dir", "peers")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := parsePeers(peers)
		if err != nil {
			return err
		}
		if len(list) != 1 {
			return fmt.Errorf("--peers lists %d nodes: list this one alone, the others join it afterwards", len(list))
		}
		logger := slog.New(slog.DiscardHandler)
		found, err := store.Inspect(dir, logger)
		if err != nil {
			return err
		}
		if found.NodeID != list[0].ID {
			return fmt.Errorf("--peers lists node %s, and %s is the folder of node %s", list[0].ID, dir, found.NodeID)
		}
		if err := tell(cmd, found); err != nil || dry {
			return err
		}
		if _, err := store.Recover(dir, list[0].Address, logger); err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "recovered: start node %s without --peers, then let others join it by --join %s\n",
			found.NodeID, list[0].Address)
		return err
	}
	return cmd
}

func tell(cmd *cobra.Command, r store.Remains) error {
	members := make([]string, 0, len(r.Members))
	for _, m := range r.Members {
		members = append(members, string(m.ID)+"="+m.Address)
	}
	resources := 0
	for _, n := range Resources(r.View) {
		resources += n.Count
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "node        %s\ncluster     %s, epoch %d\nmembers     %s\nlast term   %d\nlast index  %d\nresources   %d\ntable       revision %d\n",
		r.NodeID, r.View.ClusterID(), r.View.Epoch(), strings.Join(members, ","), r.LastTerm, r.LastIndex, resources, r.View.Table().GetRef().GetRevision())
	return err
}

// Held is how many resources of a kind a state has.
type Held struct {
	Plural string
	Count  int
}

// Resources counts the resources of a state by kind, in the order of policy.Kinds.
func Resources(v *state.View) []Held {
	var out []Held
	for _, kind := range policy.Kinds() {
		out = append(out, Held{policy.Plural(kind), len(v.List(kind))})
	}
	return out
}

// need refuses a command line without the flags named, as part of looking at its arguments: it is one
// that was not understood, not a command that failed.
func need(cmd *cobra.Command, flags ...string) {
	args := cmd.Args
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		for _, name := range flags {
			if !cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s is missing", name)
			}
		}
		return args(cmd, given)
	}
}

func parsePeers(list []string) ([]store.Peer, error) {
	var peers []store.Peer
	for _, p := range list {
		id, address, ok := strings.Cut(p, "=")
		if !ok || id == "" || address == "" {
			return nil, fmt.Errorf("--peers: %q is not of the form id=host:port", p)
		}
		peers = append(peers, store.Peer{ID: fleet.NodeID(id), Address: address})
	}
	return peers, nil
}
