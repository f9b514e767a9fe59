// Command envoybench measures this project's rate limit service beside github.com/envoyproxy/ratelimit:
// each as a process of its own, in turns, with the same calls, the same limits and the same Redis. It
// tells the decisions that a processor core makes in a second and the time of Redis that each takes.
//
// It is a module of its own, so that nobody who builds Anabranch needs what only this does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

type options struct {
	seconds, rounds, tenants, connections, loops int
}

func main() {
	var o options
	var address, store string
	flag.IntVar(&o.seconds, "seconds", 4, "length of each run")
	flag.IntVar(&o.rounds, "rounds", 5, "runs of each system in each case")
	flag.IntVar(&o.tenants, "tenants", 100, "tenants, each with a limit of its own and one for a model")
	flag.IntVar(&o.connections, "connections", 4, "connections, as of so many Envoys or their threads")
	flag.IntVar(&o.loops, "loops", 8, "calls at the same time on each connection")
	flag.StringVar(&address, "serve", "", "be the server at this address (for the command itself)")
	flag.StringVar(&store, "redis", "", "socket of its Redis (for the command itself)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if address != "" {
		err = serve(ctx, address, store, o.tenants)
	} else {
		err = compare(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "envoybench:", err)
		os.Exit(1)
	}
}

// system is one of those that are compared.
type system struct {
	name    string
	process *process
	address string
}

// cost is what a run cost.
type cost struct {
	perCore     float64       // decisions in a second of the server's processor time
	redis       time.Duration // of Redis' processor for a decision
	middle, bad time.Duration // latency: median and 99th percentile
	rate        float64       // decisions a second
}

func compare(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "envoybench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // of temporary files
	socket := filepath.Join(dir, "redis")
	store, err := start(ctx, "unix", socket, "redis-server", nil, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir)
	if err != nil {
		return err
	}
	defer store.end()
	systems, err := startAll(ctx, o, dir, socket)
	for _, s := range systems {
		defer s.process.end()
	}
	if err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	defer func() { _ = client.Close() }() // nothing is under way
	for limits := 1; limits <= 2; limits++ {
		fmt.Printf("%d limit(s) a call, %d tenants, %d connections with %d calls each, %d runs of %d s in turns; medians\n",
			limits, o.tenants, o.connections, o.loops, o.rounds, o.seconds)
		costs := make([][]cost, len(systems))
		for round := -1; round < o.rounds; round++ { // the first warms up
			for i, s := range systems {
				c, err := measure(ctx, o, s, client, limits)
				if err != nil {
					return err
				}
				if round >= 0 {
					costs[i] = append(costs[i], c)
				}
			}
		}
		report(systems, costs)
	}
	return nil
}

func startAll(ctx context.Context, o options, dir, socket string) ([]system, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program, err := buildTheirs(ctx, dir)
	if err != nil {
		return nil, err
	}
	var systems []system
	for _, c := range []struct{ name, window string }{{"envoyproxy/ratelimit", ""}, {"the same, writes within 150 µs together", "150us"}} {
		p, address, err := startTheirs(ctx, program, dir, socket, c.window)
		if err != nil {
			return systems, err
		}
		systems = append(systems, system{c.name, p, address})
	}
	address, err := free(ctx)
	if err != nil {
		return systems, err
	}
	p, err := start(ctx, "tcp", address, self, nil, "-serve", address, "-redis", socket, "-tenants", strconv.Itoa(o.tenants))
	if err != nil {
		return systems, err
	}
	return append(systems, system{"this", p, address}), nil
}

// measure makes one run.
func measure(ctx context.Context, o options, s system, store *redis.Client, limits int) (cost, error) {
	before, err := s.process.used()
	redisBefore, err2 := redisUsed(ctx, store)
	if err := errors.Join(err, err2); err != nil {
		return cost{}, err
	}
	l := load{address: s.address, connections: o.connections, loops: o.loops, tenants: o.tenants, limits: limits, during: time.Duration(o.seconds) * time.Second}
	r, err := l.run(ctx)
	if err != nil {
		return cost{}, err
	}
	after, err := s.process.used()
	redisAfter, err2 := redisUsed(ctx, store)
	if err := errors.Join(err, err2); err != nil {
		return cost{}, err
	}
	if r.blind*100 > r.calls { // a first call is answered before anything is known
		return cost{}, fmt.Errorf("%s said nothing of limits in %d of %d calls", s.name, r.blind, r.calls)
	}
	if r.denied*10_000 > r.calls {
		return cost{}, fmt.Errorf("%s denied %d of %d calls, the limits are out of reach", s.name, r.denied, r.calls)
	}
	return cost{
		perCore: float64(r.calls) / (after - before).Seconds(),
		redis:   (redisAfter - redisBefore) / time.Duration(r.calls),
		middle:  r.quantile(0.5), bad: r.quantile(0.99),
		rate: float64(r.calls) / l.during.Seconds(),
	}, nil
}

// redisUsed is the processor time that Redis has had so far.
func redisUsed(ctx context.Context, client *redis.Client) (time.Duration, error) {
	text, err := client.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_sys" && name != "used_cpu_user" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("read the processor time of Redis: %w", err)
		}
		sum += time.Duration(seconds * float64(time.Second))
	}
	return sum, nil
}

func report(systems []system, costs [][]cost) {
	fmt.Printf("  %-42s %16s %14s %10s %10s %12s\n", "", "decisions/core/s", "Redis/decision", "median", "p99", "decisions/s")
	for i, s := range systems {
		fmt.Printf("  %-42s %16.0f %14v %10v %10v %12.0f\n", s.name,
			median(costs[i], func(c cost) float64 { return c.perCore }),
			time.Duration(median(costs[i], func(c cost) float64 { return float64(c.redis) })),
			time.Duration(median(costs[i], func(c cost) float64 { return float64(c.middle) })).Round(time.Microsecond),
			time.Duration(median(costs[i], func(c cost) float64 { return float64(c.bad) })).Round(time.Microsecond),
			median(costs[i], func(c cost) float64 { return c.rate }))
	}
}

func median(costs []cost, of func(cost) float64) float64 {
	all := make([]float64, len(costs))
	for i, c := range costs {
		all[i] = of(c)
	}
	slices.Sort(all)
	return all[len(all)/2]
}
