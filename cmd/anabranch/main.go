// Command anabranch is the operator's command line: it reads and changes what the control plane
// keeps, explains where a request went, and runs the whole system on one machine (`anabranch dev`).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // budgets are for days of places, and a container may have no zoneinfo

	"github.com/spf13/cobra"

	orders "anabranch/api/order"
	"anabranch/cmd/anabranch/client"
)

// version is set by the linker.
var version = "dev"

// Exit codes, as the help of the root command tells them.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitRefused     = 3
	exitUnreachable = 4
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A second signal ends the process at once, and children of dev with it.
	context.AfterFunc(ctx, stop)
	// Writing to a reader that has gone is an error like others, not the end.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// app is what commands have in common.
type app struct {
	program  string // how the user called it
	in       io.Reader
	out, err io.Writer
	color    bool
	servers  []string
	token    string
	context  string // that --context names
	stale    bool   // reads ask no leader
	// begun says that the command line was understood: an error after it is not one of usage.
	begun bool
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	a := &app{program: args[0], in: in, out: out, err: errs, color: colorful(out)}
	root := a.root()
	root.SetArgs(args[1:])
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := a.execute(ctx, root, args[1:])
	if err == nil {
		return 0
	}
	if !errors.Is(err, errQuiet) {
		_, _ = fmt.Fprintln(errs, "anabranch: "+err.Error()) // nowhere left to say it
	}
	var p *client.ProblemError
	var exit *exitError
	switch {
	case errors.As(err, &exit):
		return exit.code
	case !a.begun:
		return exitUsage
	case errors.As(err, &p):
		return exitRefused
	case errors.Is(err, client.ErrUnreachable):
		return exitUnreachable
	}
	return exitFailed
}

// exitError ends a command with an exit code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// errQuiet ends a command with an exit code when all has been said.
var errQuiet = errors.New("")

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "anabranch",
		Short: "Route inference traffic across GPU clusters and regions",
		Long: `Route inference traffic across GPU clusters and regions.

Commands that talk to the control plane find it, in this order, by --server and --token, by
ANABRANCH_SERVER and ANABRANCH_TOKEN, by the context that --context or ANABRANCH_CONTEXT names, by
.anabranch/dev.json, which ` + "`anabranch dev`" + ` leaves in the current folder, or by the current context.
Several servers, separated by commas, are tried in turn: any node takes any call.

Exit codes: 0 done, or proposed where others have to approve it, 1 failed, 2 wrong usage, 3 refused by the
control plane, 4 control plane not reachable; ` + "`anabranch diff`" + ` and ` + "`anabranch drill run`" + ` have
their own. NO_COLOR turns colours off.`,
		Example: `  anabranch dev                         # the whole system on this machine
  anabranch get clusters
  anabranch apply -f policies/
  anabranch explain us-east-1-r1-4f0c21aa9be34d10
  anabranch tail --errors               # requests that go wrong, as they end`,
		Version: version, SilenceUsage: true, SilenceErrors: true,
		PersistentPreRun: func(*cobra.Command, []string) { a.begun = true },
	}
	root.PersistentFlags().StringSliceVar(&a.servers, "server", nil, "URLs of control plane nodes (ANABRANCH_SERVER)")
	root.PersistentFlags().StringVar(&a.token, "token", "", "bearer token (ANABRANCH_TOKEN; better than a flag, which others on the machine can see)")
	root.PersistentFlags().StringVar(&a.context, "context", "", "`name` of the control plane that is meant, as context list shows it (ANABRANCH_CONTEXT)")
	a.completions(root)
	root.AddCommand(
		a.get(), a.describe(), a.apply(), a.lint(), a.diff(), a.plan(), a.edit(), a.remove(), a.proposalCommand(), a.history(), a.rollback(), a.watch(),
		a.contextCommand(), a.login(), a.logout(), a.console(), a.tokens(), a.whoami(), a.key(), a.quota(),
		a.status(), a.rollouts(), a.freeze(), a.unfreeze(),
		a.placeOrder(orders.Evacuate, "", "evacuate REGION|cluster/NAME", "Send no new requests to a region or a cluster"),
		a.placeOrder(orders.Restore, "", "restore REGION|cluster/NAME", "Use a region or a cluster again, whatever other orders say"),
		a.drainCommand(), a.undrainCommand(), a.pinCommand(), a.unpinCommand(),
		a.emergencyCommand(), a.members(), a.controlplane(), a.drills(), a.explain(), a.tail(), a.audits(),
		a.sim(), a.replay(), a.prices(), a.capacity(), a.cost(), a.seriesCommand(), a.dev(),
		newModelserverCommand(),
	)
	return root
}
