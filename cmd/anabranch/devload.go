package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/dev"
	"anabranch/cmd/anabranch/dev/load"
)

// loadFlags are what `dev load` takes besides load.Options.
type loadFlags struct{ tenants, regions []string }

// defaultShares of tenants: most by one with room, some by one that stays below its limit. The
// third may be served in one region only, and would fail with it as it should.
var defaultShares = map[string]float64{"acme": 9, "globex": 1}

func (a *app) devLoad() *cobra.Command {
	var f loadFlags
	o := load.Options{}
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Send mixed traffic to the routers, with a live line for each region",
		Long: `Send mixed traffic to the routers, with a live line for each region: streams and whole answers,
conversations over shared system prompts, base models and adapters, arriving at random.

It fails (exit code 1) if any request failed. Two things are no failures, and are shown beside them: a
429, which a tenant's limits want, and a stream that broke after its first content and said so with
an error event, which nothing can undo.`,
		Example: `  anabranch dev load
  anabranch dev load --rps 20 --duration 5m --region us-east-1
  anabranch dev load --tenant globex --rps 5 --max 200     # runs into its limit
  anabranch dev load --duration 30s -o json`,
		Args: cobra.NoArgs,
	}
	fl := cmd.Flags()
	fl.Float64Var(&o.RPS, "rps", load.DefaultRPS, "requests per second over all regions")
	fl.DurationVar(&o.Duration, "duration", load.DefaultDuration, "how long to send")
	fl.IntVar(&o.Max, "max", 0, "most requests to send (0: as many as the duration holds)")
	fl.Float64Var(&o.StreamRatio, "stream-ratio", load.DefaultStreamRatio, "share of requests that are streams, 0 to 1")
	fl.Uint64Var(&o.Seed, "seed", uint64(time.Now().Unix()), "the same seed sends the same requests")
	fl.StringSliceVar(&f.tenants, "tenant", nil, "tenants that ask, in equal parts (default acme 9 of 10, globex 1 of 10)")
	fl.StringSliceVar(&f.regions, "region", nil, "regions whose routers are asked (default all)")
	format := formats(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := folder.Load()
		if err != nil {
			return fmt.Errorf("%w; dev load needs a running `anabranch dev` in this folder", err)
		}
		// dev.json outlives its demonstration, and another folder's may be at the same ports.
		if _, err := folder.Status(cmd.Context()); err != nil {
			return err
		}
		if o.RPS <= 0 || o.Duration <= 0 || o.StreamRatio < 0 {
			return errors.New("--rps and --duration must be above 0, --stream-ratio at least 0")
		}
		if err := f.choose(r, &o); err != nil {
			return err
		}
		if *format == "text" {
			o.Each = a.liveLines()
		}
		sum, err := load.Run(cmd.Context(), o)
		if err != nil {
			return err
		}
		if *format == "json" {
			err = a.write("json", sum)
		} else {
			err = sum.Print(a.out)
		}
		if err == nil && sum.Total.Failed > 0 {
			return fmt.Errorf("%d of %d requests failed", sum.Total.Failed, sum.Total.Finished)
		}
		return err
	}
	return cmd
}

// choose fills in routers and keys from dev.json.
func (f loadFlags) choose(r *dev.Record, o *load.Options) error {
	for _, router := range r.Routers {
		if len(f.regions) == 0 {
			o.Routers = append(o.Routers, load.Router{Region: router.Region, URL: router.HTTP})
		}
	}
	for _, region := range f.regions {
		router, ok := r.Router(region)
		if !ok {
			return fmt.Errorf("region %q has no router; dev.json names %d others", region, len(r.Routers))
		}
		o.Routers = append(o.Routers, load.Router{Region: router.Region, URL: router.HTTP})
	}
	o.Keys = map[string]string{}
	tenants := f.tenants
	if len(tenants) == 0 {
		o.Shares = defaultShares
		for t := range defaultShares {
			tenants = append(tenants, t)
		}
	}
	for _, tenant := range tenants {
		t, ok := r.Tenants[tenant]
		if !ok {
			return fmt.Errorf("tenant %q has no key in %s", tenant, folder.RecordPath())
		}
		o.Keys[tenant] = t.Key
	}
	return nil
}

// headerEvery so many seconds the names of the columns are repeated.
const headerEvery = 15

// liveLines prints the rows of each second.
func (a *app) liveLines() func(int, []load.Row) {
	return func(second int, rows []load.Row) {
		if second%headerEvery == 1 {
			_ = load.Header(a.out) // a reader that has gone; the summary's error is told
		}
		_ = load.Print(a.out, fmt.Sprintf("%ds", second), 1, rows) // same
	}
}
