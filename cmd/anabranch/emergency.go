package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	orders "anabranch/api/order"
	"anabranch/cmd/anabranch/client"
)

// emergencyFlags are what all orders take.
type emergencyFlags struct {
	reason, term, key string
	yes               bool
}

func (f *emergencyFlags) bind(cmd *cobra.Command, signable bool) {
	fl := cmd.Flags()
	fl.StringVar(&f.reason, "reason", "", "why, for whoever looks (required)")
	fl.StringVar(&f.term, "for", "", "how long it holds, like 30m or 2h, at most 24h (default: 4h)")
	fl.BoolVarP(&f.yes, "yes", "y", false, "don't ask")
	if signable {
		fl.StringVar(&f.key, "key", "", "sign it with the private key in this `file`, for when there is no quorum (ANABRANCH_EMERGENCY_KEY)")
	}
}

// emergencyCommand gives orders that beat the table.
func (a *app) emergencyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "emergency",
		Short: "Give orders that beat the routing table until they end",
		Long: `Give orders that beat the routing table until they end, after four hours unless --for says otherwise.

There are three ways, each enough alone. With a quorum: these commands and a token. Without one: the same
with --key and the private key of somebody whom nodes and routers trust (--emergency-keys); any node that
is left takes the order, hands it to its routers and the nodes that it reaches, and it is entered in the
audit trail later. With no node at all: on the router's machine, "anabranch-router order".

Of two orders that conflict the one that keeps more in use holds: restore before evacuate, the lower of
two that shed, the newer table of two that revert.`,
		Example: `  anabranch emergency evacuate region/us-east-1 --reason "power is failing" --for 2h
  anabranch emergency evacuate region/us-east-1 --reason "power is failing" --key ~/.anabranch/emergency.pem
  anabranch emergency list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.placeOrder(orders.Evacuate, "emergency ", "evacuate REGION|cluster/NAME", "Send no new requests to a region or a cluster"),
		a.placeOrder(orders.Restore, "emergency ", "restore REGION|cluster/NAME", "Use a region or a cluster again, whatever other orders say"),
		a.plainOrder(orders.Freeze, "freeze", "Take no new routing table, not even for failover",
			"Routers hold the table that they have and go on leaving what is dead by themselves. To keep only changes of\nconfiguration away, until further notice, use \"anabranch freeze\"."),
		a.plainOrder(orders.StopDrills, "stop-drills", "End the drill under way, and let none begin",
			"Traffic goes as if there were no drill, at once."),
		a.revertOrder(), a.shedOrder(), a.emergencyList(), a.emergencyCancel(), a.keygen(),
	)
	return cmd
}

// placeOrder is an order for a region or a cluster. Under is the words before its name, each with a space after it.
func (a *app) placeOrder(kind orders.Kind, under, use, short string) *cobra.Command {
	var f emergencyFlags
	long := "Requests under way end there. What is left is planned for: it takes no more than it can, the rest waits or\nis shed by priority."
	if kind == orders.Restore {
		long = "It ends evacuations of the same name for good. Traffic comes back in steps. It makes nothing alive, and lets\nnobody in whom rules forbid. What is drained by its resource is used only as long as the order holds."
	}
	name, _, _ := strings.Cut(use, " ")
	cmd := &cobra.Command{
		Use: use, Short: short, Long: short + ".\n\n" + long, Args: cobra.ExactArgs(1),
		Example:           "  anabranch " + under + name + " us-east-1 --reason \"power is failing\" --for 2h",
		ValidArgsFunction: completeOne(func(ctx context.Context, begun string) []string { return a.names(ctx, "region", begun) }),
	}
	f.bind(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.order(cmd.Context(), &f, orders.Order{Kind: kind, Target: placeOf(args[0])})
	}
	return cmd
}

// placeOf is a target as the wire has it: without a word before it a region is meant.
func placeOf(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "region/" + name
}

func (a *app) plainOrder(kind orders.Kind, use, short, long string) *cobra.Command {
	var f emergencyFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Long: short + ".\n\n" + long, Args: cobra.NoArgs,
		Example: "  anabranch emergency " + use + " --reason \"weights jump\" --for 30m",
	}
	f.bind(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.order(cmd.Context(), &f, orders.Order{Kind: kind})
	}
	return cmd
}

func (a *app) revertOrder() *cobra.Command {
	var f emergencyFlags
	cmd := &cobra.Command{
		Use:   "revert REVISION|EPOCH/REVISION",
		Short: "Serve by an earlier routing table, and take no newer one",
		Long: `Serve by an earlier routing table, and take no newer one.

With a quorum the table is published anew; without one, routers that keep it go back to it by themselves.
All of it comes back, tenants and their keys included, but for one thing: nobody may be served where the
table before the order would not let them, so residency that was tightened since stays tight, and what is
tightened under the order holds at once. "anabranch history tables" lists the tables.`,
		Example: "  anabranch emergency revert 412 --reason \"413 sends everything to one cluster\"",
		Args:    cobra.ExactArgs(1),
	}
	f.bind(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		before, after, both := strings.Cut(args[0], "/")
		if !both {
			before, after = "0", args[0]
		}
		epoch, err1 := strconv.ParseUint(before, 10, 64)
		revision, err2 := strconv.ParseUint(after, 10, 64)
		if err := errors.Join(err1, err2); err != nil || revision == 0 {
			return fmt.Errorf("table %q is no revision: write it like 41, or 2/41 with its epoch", args[0])
		}
		return a.order(cmd.Context(), &f, orders.Order{Kind: orders.Revert, Epoch: epoch, Revision: revision})
	}
	return cmd
}

func (a *app) shedOrder() *cobra.Command {
	var f emergencyFlags
	cmd := &cobra.Command{
		Use:   "shed PRIORITY",
		Short: "Refuse requests below a priority",
		Long: `Refuse requests below a priority.

Requests have the priority of their tenant's tier unless they ask for less: batch -10, best-effort 0,
standard 50, top 100. "shed 50" refuses batch and best-effort. A negative one comes after "--".`,
		Example: "  anabranch emergency shed 50 --reason \"half of the GPUs are lost\"",
		Args:    cobra.ExactArgs(1),
	}
	f.bind(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := strconv.ParseInt(args[0], 10, 32)
		if err != nil {
			return fmt.Errorf("priority %q is no number: batch is -10, best-effort 0, standard 50, top 100", args[0])
		}
		return a.order(cmd.Context(), &f, orders.Order{Kind: orders.Shed, Priority: int32(p)})
	}
	return cmd
}

// order gives an order, after having shown what it does and asked.
func (a *app) order(ctx context.Context, f *emergencyFlags, o orders.Order) error {
	term, err := orders.ParseTerm(f.term)
	if err != nil {
		return err
	}
	o.Actor, o.Reason, o.At = "you", strings.TrimSpace(f.reason), time.Now()
	o.Expires = o.At.Add(term)
	if o.Reason == "" {
		return errors.New("--reason is missing: say why, for whoever looks")
	}
	if err := o.Check(o.At); err != nil {
		return err
	}
	c, err := a.connect(f.reason)
	if err != nil {
		return err
	}
	if !f.yes {
		if err := a.consent(ctx, c, &o); err != nil {
			return err
		}
	}
	if path := keyPath(f.key); path != "" {
		return a.sign(ctx, c, path, o)
	}
	body, err := json.Marshal(askOf(&o, f.term))
	if err != nil {
		return err
	}
	answer, err := c.Do(ctx, client.Call{Method: http.MethodPost, Path: "/v1/emergency", Body: body})
	if err != nil {
		return withoutQuorum(err, &o)
	}
	var given orders.Given
	if err := json.Unmarshal(answer.Body, &given); err != nil {
		return fmt.Errorf("answer of the control plane: %w", err)
	}
	return a.printGiven(given.ID, &o, given.Expires, given.OverruledBy)
}

func (a *app) printGiven(id string, o *orders.Order, until time.Time, overruled string) error {
	err := a.printf("order %s: %s until %s\n", id, o, until.Local().Format("2006-01-02 15:04:05"))
	if overruled != "" {
		err = errors.Join(err, a.printf("order %s holds instead. If it should not: anabranch emergency cancel %s\n", overruled, overruled))
	}
	return err
}

// askOf is what the API is asked.
func askOf(o *orders.Order, term string) map[string]any {
	ask := map[string]any{"kind": o.Kind, "for": term, "reason": o.Reason}
	switch o.Kind {
	case orders.Evacuate, orders.Restore:
		ask["target"] = o.Target
	case orders.Revert:
		ask["epoch"], ask["revision"] = o.Epoch, o.Revision
	case orders.Shed:
		ask["priority"] = o.Priority
	case orders.Freeze, orders.StopDrills:
	}
	return ask
}

// withoutQuorum says which ways are left where a quorum is missing.
func withoutQuorum(err error, o *orders.Order) error {
	var p *client.ProblemError
	missing := errors.As(err, &p) && (p.Code == "no_leader" || p.Code == "unknown_outcome" || p.Code == "timeout" || p.Code == "read_only")
	if !missing && !errors.Is(err, client.ErrUnreachable) {
		return err
	}
	return fmt.Errorf(`%w

There is no quorum to give it. Without one:
  anabranch emergency %s --reason … --key FILE    signed, to any node that still answers
  anabranch-router order %s --reason …            on each router's machine, needs no network`, err, o, o)
}

// consent shows how much traffic an order concerns, and asks.
func (a *app) consent(ctx context.Context, c *client.Client, o *orders.Order) error {
	if err := a.printf("%s until %s\n%s", o, o.Expires.Local().Format("2006-01-02 15:04:05"), a.blast(ctx, c, o)); err != nil {
		return err
	}
	if err := a.printf("Go on? [y/N] "); err != nil {
		return err
	}
	line, _ := bufio.NewReader(a.in).ReadString('\n') // an end of input is a no
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errors.New("nothing was ordered; --yes does not ask")
	}
	return nil
}

// blast tells how much of the traffic goes now to what an order names, as the node knows that answers.
func (a *app) blast(ctx context.Context, c *client.Client, o *orders.Order) string {
	if o.Kind != orders.Evacuate {
		return ""
	}
	var fleet struct {
		Clusters []struct {
			Name   string  `json:"name"`
			Region string  `json:"region"`
			Rate   float64 `json:"requestsPerSecond"`
		} `json:"clusters"`
	}
	if err := c.JSON(ctx, "/v1/fleet", nil, &fleet); err != nil {
		return fmt.Sprintf("how much traffic that is can't be told: %v\n", err)
	}
	what, name := o.Place()
	var all, there float64
	var names []string
	for _, x := range fleet.Clusters {
		all += x.Rate
		if what == "cluster" && x.Name == name || what == "region" && x.Region == name {
			there += x.Rate
			names = append(names, x.Name)
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("there is no cluster in %s\n", o.Target)
	}
	share := 0.0
	if all > 0 {
		share = there / all
	}
	return fmt.Sprintf("that is %s, with %.0f%% of the traffic now (%.1f of %.1f requests a second); %d of %d clusters are left\n",
		strings.Join(names, ", "), 100*share, there, all, len(fleet.Clusters)-len(names), len(fleet.Clusters))
}

// emergencyOrder is what lists show.
type emergencyOrder struct {
	orders.Given
	Obeyed  int `json:"obeyed"`
	Routers int `json:"routers"`
}

func (a *app) emergencyList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the emergency orders that hold",
		Long:    "List the emergency orders that hold, as the node knows that answers; it needs no quorum.",
		Example: "  anabranch emergency list", Args: cobra.NoArgs,
	}
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		var list struct {
			Items []emergencyOrder `json:"items"`
		}
		if tabled, err := a.answer(cmd.Context(), c, "/v1/emergency", nil, *format, &list); !tabled {
			return err
		}
		return a.printOrders(list.Items, time.Now())
	}
	return cmd
}

func (a *app) printOrders(list []emergencyOrder, now time.Time) error {
	if len(list) == 0 {
		return a.printf("no emergency orders\n")
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tORDER\tENDS IN\tACTOR\tBY\tOBEYED\tREASON")
	for i := range list {
		o := &list[i]
		doing := o.String()
		if o.OverruledBy != "" {
			doing += " (overruled by " + o.OverruledBy + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d of %d\t%s\n", o.ID, doing, o.Expires.Sub(now).Truncate(time.Second), o.Actor, o.Door, o.Obeyed, o.Routers, o.Reason)
	}
	return w.Flush()
}

func (a *app) emergencyCancel() *cobra.Command {
	var key, reason string
	cmd := &cobra.Command{
		Use: "cancel ID", Short: "End an emergency order",
		Long:    "End an emergency order. With a quorum any; without one, with --key, those that the same key has signed.",
		Example: "  anabranch emergency cancel 1842", Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&key, "key", "", "sign it with the private key in this `file` (ANABRANCH_EMERGENCY_KEY)")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		if path := keyPath(key); path != "" {
			return a.signCancel(cmd.Context(), c, path, args[0])
		}
		if _, err := c.Do(cmd.Context(), client.Call{Method: http.MethodDelete, Path: "/v1/emergency/" + url.PathEscape(args[0])}); err != nil {
			return err
		}
		return a.printf("order %s ended\n", args[0])
	}
	return cmd
}
