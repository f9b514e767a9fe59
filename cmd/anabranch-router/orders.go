package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"anabranch/api/order"
	"anabranch/cmd/settings"
	"anabranch/dataplane/override"
)

// door finds the socket of the router that orders are for.
type door struct {
	socket, dataDir string
}

func (d *door) bind(cmd *cobra.Command) {
	fl := cmd.PersistentFlags()
	fl.StringVar(&d.dataDir, "data-dir", "", "data folder of the router (default: $"+settings.Variable(environment, "data-dir")+")")
	fl.StringVar(&d.socket, "socket", "", "its socket, where that is not "+override.SocketName+" in the data folder")
}

func (d *door) dial() (*override.Client, error) {
	if d.socket != "" {
		return override.Dial(d.socket), missing(d.socket, filepath.Dir(d.socket))
	}
	dir := d.dataDir
	if dir == "" {
		dir = os.Getenv(settings.Variable(environment, "data-dir"))
	}
	if dir == "" {
		return nil, fmt.Errorf("which router? Give --data-dir, the folder that it was started with, or --socket%s", near(demonstration))
	}
	path := filepath.Join(dir, override.SocketName)
	return override.Dial(path), missing(path, dir)
}

// demonstration is where "anabranch dev" keeps the data folders of its routers.
const demonstration = ".anabranch/data"

// missing says that there is no socket at a path, and which there are near the folder of it.
func missing(path, dir string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("there is no socket at %s: give --data-dir, the folder that the router was started with, and see that it runs%s",
		path, near(dir, filepath.Join(dir, "*"), filepath.Dir(dir), demonstration))
}

// near names the sockets in the folders that are in these, at most five. Empty: there are none.
func near(dirs ...string) string {
	var found []string
	for _, dir := range dirs {
		paths, err := filepath.Glob(filepath.Join(dir, "*", override.SocketName))
		if err != nil {
			continue // the name of the folder is a bad pattern
		}
		for _, path := range paths {
			if !slices.Contains(found, path) {
				found = append(found, path)
			}
		}
	}
	if len(found) == 0 {
		return ""
	}
	return "; there is " + strings.Join(found[:min(len(found), 5)], ", ")
}

// orderCommand gives orders.
func orderCommand() *cobra.Command {
	var d door
	var ask override.Ask
	cmd := &cobra.Command{
		Use:   "order",
		Short: "Give the router on this machine an emergency order",
		Long: `Give the router on this machine an emergency order.

Orders are for when no control plane can be asked; as long as one answers, use "anabranch". An order
holds for this router alone, at once, over restarts, and until it expires: after ` + term(order.DefaultTerm) + ` unless --for says
otherwise, and after ` + term(order.MaxTerm) + ` at most. It beats the routing table. Of two that conflict the less drastic
holds: restore before evacuate, the lower bound of two that shed, the newer table of two that revert.

The same can be written to ` + override.FileName + ` in the data folder, where the router looks each second:

  orders:
  - {kind: evacuate, target: us-east-1-a, for: 30m, actor: ann, reason: "GPUs are lost"}`,
		Example: `  anabranch-router order evacuate us-east-1-a --for 30m --reason "GPUs are lost" --data-dir /var/lib/anabranch
  anabranch-router order shed 50 --reason "half of the GPUs are lost"
  anabranch-router order revert --reason "table 412 sends everything to one cluster"`,
		Args: known,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	d.bind(cmd)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd.Name() == string(override.Shed) && strings.HasPrefix(err.Error(), "unknown shorthand flag") {
			return fmt.Errorf("%w: a negative priority comes after --, as in: shed --reason … -- -5", err)
		}
		return err
	})
	fl := cmd.PersistentFlags()
	fl.StringVar(&ask.For, "for", "", "how long it holds, like 10m or 2h (default: "+term(order.DefaultTerm)+")")
	fl.StringVar(&ask.Reason, "reason", "", "why, for whoever looks (required)")
	fl.StringVar(&ask.Actor, "actor", "", "who gives it (default: the name that you are logged in by)")
	add := func(use, short, long string, args cobra.PositionalArgs, fill func([]string) error) {
		c := &cobra.Command{Use: use, Short: short, Long: short + ".\n\n" + long, Args: args}
		c.RunE = func(cmd *cobra.Command, args []string) error {
			ask.Kind = override.Kind(cmd.Name())
			if err := fill(args); err != nil {
				return err
			}
			return give(cmd, &d, ask)
		}
		cmd.AddCommand(c)
	}
	target := func(args []string) error {
		ask.Target = args[0]
		return nil
	}
	add("freeze", "Take no new routing table",
		"The newest that comes meanwhile is taken when the order ends.",
		cobra.NoArgs, func([]string) error { return nil })
	add("stop-drills", "End the drill under way, and take part in none",
		"Traffic goes as if there were no drill, at once. Drills go on elsewhere: stop them all by \"anabranch emergency stop-drills\".",
		cobra.NoArgs, func([]string) error { return nil })
	add("evacuate CLUSTER|REGION", "Send no new requests to a cluster or a region",
		"Requests under way end there. Where a cluster and a region have one name, say cluster/NAME or region/NAME.",
		one("the cluster or region to leave"), target)
	add("restore CLUSTER|REGION", "Use a cluster or a region, whatever orders and operators say",
		"It ends evacuations of the same name for good, and lets a drained cluster be used. It makes nothing alive.",
		one("the cluster or region to use"), target)
	add("revert [REVISION|EPOCH/REVISION]", "Serve by an earlier routing table, and take no new one",
		"Without a revision, by the one before that in force. \"/table\" of the admin address shows which is.",
		cobra.MaximumNArgs(1), func(args []string) (err error) {
			if len(args) == 1 {
				ask.Epoch, ask.Revision, err = revision(args[0])
			}
			return err
		})
	add("shed PRIORITY", "Refuse requests below a priority",
		"Requests have the priority of their tenant's tier unless they ask for less: batch -10, best-effort 0,\nstandard 50, top 100. \"shed 50\" refuses batch and best-effort. A negative one comes after \"--\".",
		one("the priority below which to refuse"), func(args []string) error {
			p, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil {
				return fmt.Errorf("priority %q is no number: batch is -10, best-effort 0, standard 50, top 100", args[0])
			}
			below := int32(p)
			ask.Priority = &below
			return nil
		})
	return cmd
}

// known refuses what is no subcommand, which cobra would show the help for.
func known(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q is no order: use freeze, evacuate, restore, revert, shed or stop-drills, see %s --help", args[0], cmd.CommandPath())
	}
	return nil
}

// one wants one argument and says which.
func one(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("name %s: %s", what, cmd.UseLine())
		}
		return nil
	}
}

func revision(s string) (epoch, rev uint64, err error) {
	before, after, both := strings.Cut(s, "/")
	if !both {
		before, after = "0", s
	}
	epoch, err = strconv.ParseUint(before, 10, 64)
	if err == nil {
		rev, err = strconv.ParseUint(after, 10, 64)
	}
	if err != nil || rev == 0 {
		return 0, 0, fmt.Errorf("table %q is no revision: write it like 41, or 2/41 with its epoch", s)
	}
	return epoch, rev, nil
}

func give(cmd *cobra.Command, d *door, ask override.Ask) error {
	if ask.Reason == "" {
		return errors.New("--reason is missing: say why, for whoever looks")
	}
	ask.Actor = actor(ask.Actor)
	c, err := d.dial()
	if err != nil {
		return err
	}
	given, err := c.Give(cmd.Context(), ask)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "order %s: %s until %s\n", given.ID, given.String(), given.Expires.Local().Format("15:04:05"))
	if given.OverruledBy != "" {
		fmt.Fprintf(out, "order %s holds instead. If it should not: anabranch-router orders cancel %s\n", given.OverruledBy, given.OverruledBy)
	}
	return nil
}

// actor is who gives an order: as given, or who is logged in.
func actor(given string) string {
	if given != "" {
		return given
	}
	if name := os.Getenv("SUDO_USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + strconv.Itoa(os.Getuid())
}

// ordersCommand lists and cancels orders.
func ordersCommand() *cobra.Command {
	var d door
	var who string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "orders",
		Short: "List the emergency orders that the router on this machine has",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := d.dial()
			if err != nil {
				return err
			}
			s, err := c.List(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(s)
			}
			return list(cmd.OutOrStdout(), s, time.Now())
		},
	}
	d.bind(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	cancel := &cobra.Command{
		Use:   "cancel ID",
		Short: "End an order",
		Args:  one("the order to end, by its ID in the list"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := d.dial()
			if err != nil {
				return err
			}
			if err := c.Cancel(cmd.Context(), args[0], actor(who)); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "order %s ended\n", args[0])
			return nil
		},
	}
	cancel.Flags().StringVar(&who, "actor", "", "who ends it (default: the name that you are logged in by)")
	cmd.AddCommand(cancel)
	return cmd
}

// list writes orders as a table, and below it what is wrong.
func list(out io.Writer, s override.Status, now time.Time) error {
	if len(s.Orders) == 0 {
		fmt.Fprintln(out, "no orders")
	} else {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "ID\tORDER\tENDS IN\tACTOR\tBY\tREASON")
		for i := range s.Orders {
			o := &s.Orders[i]
			doing := o.String()
			if o.OverruledBy != "" {
				doing += " (overruled by " + o.OverruledBy + ")"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", o.ID, doing, o.Expires.Sub(now).Truncate(time.Second), o.Actor, o.Door, o.Reason)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	for _, why := range s.Problems {
		fmt.Fprintln(out, "problem:", why)
	}
	return nil
}

// term writes a duration without the units that are zero.
func term(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
