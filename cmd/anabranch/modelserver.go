package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"anabranch/api/fleet"
	"anabranch/sim/gateway"
	"anabranch/sim/modelserver"
)

// modelserverFlags are the flags of the hidden command as they stand.
type modelserverFlags struct {
	cluster, admin                string
	endpoints, models, adapters   []string
	gatewayListen, gatewayMetrics string
	timeScale                     float64
	startUp                       time.Duration
	seed                          uint64
	level                         string
}

// newModelserverCommand is the simulated cluster that `anabranch dev` starts as a child.
func newModelserverCommand() *cobra.Command {
	var f modelserverFlags
	cmd := &cobra.Command{
		Use:   "modelserver",
		Short: "Serve the simulated GPU endpoints of one cluster",
		Long: `Serve the simulated GPU endpoints of one cluster with the API and metrics of vLLM, and a tier-1
gateway in front of them if --gateway-listen says where. Faults are set on the admin port.`,
		Example: `  anabranch modelserver --cluster east --admin 127.0.0.1:9199 --model llama-3.1-8b \
    --adapters support-lora,legal-lora --endpoint id=east-0,listen=127.0.0.1:9101,class=h100
  curl -X POST 127.0.0.1:9199/faults -d '{"fault":"slow","factor":3}'`,
		Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.cluster, "cluster", "", "name of the cluster")
	flags.StringVar(&f.admin, "admin", "", "address of the admin port (faults, status)")
	flags.StringArrayVar(&f.endpoints, "endpoint", nil, "id=…,listen=host:port,class=l40s|a100-80|h100|h200 and events=host:port for KV events over ZeroMQ; repeatable")
	flags.StringArrayVar(&f.models, "model", nil, "base model; repeatable")
	flags.StringSliceVar(&f.adapters, "adapters", nil, "LoRA adapters of the first model")
	flags.StringVar(&f.gatewayListen, "gateway-listen", "", "address of a tier-1 gateway in front of the endpoints")
	flags.StringVar(&f.gatewayMetrics, "gateway-metrics", "", "address of that gateway's pool metrics")
	flags.Float64Var(&f.timeScale, "time-scale", 1, "stretch of the endpoints' time: 0.1 is ten times faster")
	flags.DurationVar(&f.startUp, "start-up", 0, "how long endpoints load before they are healthy")
	flags.Uint64Var(&f.seed, "seed", 0, "decides which requests a partial fault hits")
	flags.StringVar(&f.level, "log-level", "info", "debug, info, warn or error")
	return cmd
}

// run serves until ctx ends.
func (f *modelserverFlags) run(ctx context.Context) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	opts, err := f.options()
	if err != nil {
		return err
	}
	opts.Logger = log
	pods, err := modelserver.New(opts)
	if err != nil {
		return err
	}
	if err := pods.Listen(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return pods.Run(ctx) })
	if f.gatewayListen != "" {
		group.Go(func() error { return f.gateway(ctx, pods, opts, log) })
	}
	return group.Wait()
}

// gateway serves the tier-1 gateway in front of endpoints that listen already.
func (f *modelserverFlags) gateway(ctx context.Context, pods *modelserver.Server, opts modelserver.Options, log *slog.Logger) error {
	g := gateway.Options{Name: f.cluster, Listen: f.gatewayListen, Metrics: f.gatewayMetrics, Logger: log}
	addrs := pods.Addrs()
	for _, e := range opts.Endpoints {
		g.Endpoints = append(g.Endpoints, gateway.Endpoint{ID: e.ID, URL: "http://" + addrs[e.ID]})
	}
	for _, m := range opts.Models {
		g.Models = append(append(g.Models, m.Name), m.Adapters...)
	}
	server, err := gateway.New(g)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}

// options turns the flags into what the server wants.
func (f *modelserverFlags) options() (modelserver.Options, error) {
	o := modelserver.Options{
		Cluster: fleet.ClusterID(f.cluster), Admin: f.admin, TimeScale: f.timeScale, StartUp: f.startUp, Seed: f.seed,
	}
	if f.timeScale <= 0 {
		return o, fmt.Errorf("--time-scale: %v is not above 0", f.timeScale)
	}
	if f.gatewayMetrics != "" && f.gatewayListen == "" {
		return o, errors.New("--gateway-metrics needs --gateway-listen")
	}
	for _, s := range f.endpoints {
		e, err := parseEndpoint(s)
		if err != nil {
			return o, fmt.Errorf("--endpoint %s: %w", s, err)
		}
		o.Endpoints = append(o.Endpoints, e)
	}
	for _, m := range f.models {
		o.Models = append(o.Models, modelserver.Model{Name: fleet.ModelID(m)})
	}
	for _, a := range f.adapters {
		if len(o.Models) == 0 {
			return o, errors.New("--adapters needs --model")
		}
		o.Models[0].Adapters = append(o.Models[0].Adapters, fleet.ModelID(a))
	}
	return o, nil
}

// parseEndpoint reads "id=…,listen=…,class=…,events=…" in any order.
func parseEndpoint(s string) (modelserver.Endpoint, error) {
	var e modelserver.Endpoint
	for part := range strings.SplitSeq(s, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return e, fmt.Errorf("%q is not key=value", part)
		}
		switch key {
		case "id":
			e.ID = fleet.EndpointID(value)
		case "listen":
			e.Listen = value
		case "class":
			e.Class = value
		case "events":
			e.KVEvents = value
		default:
			return e, fmt.Errorf("%q is not one of id, listen, class, events", key)
		}
	}
	return e, nil
}
