// Command anabranch-router is the data plane of one region: it takes OpenAI-compatible requests,
// sends each to the cluster and endpoint where it is answered soonest within the rules, and goes on
// doing so with no control plane in sight.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // budgets are for days of places, and a container may have no zoneinfo

	"github.com/spf13/cobra"

	"anabranch/api/fleet"
	"anabranch/cmd/anabranch-router/instance"
	"anabranch/cmd/settings"
	"anabranch/dataplane/discover"
	"anabranch/dataplane/rls"
)

// version is set by the linker.
var version = "dev"

// kubernetes makes the finders of endpoints in Kubernetes: through a kubeconfig file, or without one
// in the cluster that this process runs in; none if it runs in none. Nil: this binary was built
// without the tag kubernetes, which keeps it lean.
var kubernetes func(kubeconfig string, logger *slog.Logger) (map[string]discover.Finder, error)

// environment is the prefix of the variables.
const environment = "ANABRANCH_ROUTER_"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	run := func(ctx context.Context, o instance.Options) error {
		n, err := instance.New(o)
		if err != nil {
			return err
		}
		return n.Run(ctx)
	}
	if err := command(run).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "anabranch-router:", err)
		os.Exit(1)
	}
}

// flags are what needs more than copying into the options.
type flags struct {
	config         string
	log            settings.Log
	router, region string
	kubeconfig     string
}

// finders are those that this binary has beside the built-in ones.
func (f *flags) finders(logger *slog.Logger) (map[string]discover.Finder, error) {
	switch {
	case kubernetes != nil:
		return kubernetes(f.kubeconfig, logger)
	case f.kubeconfig != "":
		return nil, errors.New("--kubeconfig: this router was built without Kubernetes, build it with -tags kubernetes")
	}
	return nil, nil
}

// command reads the settings and hands them to run.
func command(run func(context.Context, instance.Options) error) *cobra.Command {
	var f flags
	o := instance.Options{Version: version}
	cmd := &cobra.Command{
		Use:   "anabranch-router",
		Short: "The data plane of one region of Anabranch",
		Long: `The data plane of one region of Anabranch.

Every flag can also be given as a variable (--data-dir is ANABRANCH_ROUTER_DATA_DIR) or as a key of
the YAML file named by --config; a flag wins over a variable, a variable over the file. What an
operator changes while it runs is no flag but policy, see "anabranch apply".

On SIGTERM the router turns its readiness off. It goes on taking requests for as long as
--drain-delay says, then takes no new ones and waits for those that are open, at most as long as
--drain says. Load balancers that look at /readyz need the delay, of a look's interval times the
looks that must fail; without one they send here what is refused. A second signal ends it at once.`,
		Example: `  anabranch-router --router-id r1 --region us-east-1 --data-dir /var/lib/anabranch \
    --controlplane 10.0.0.1:7110,10.0.0.2:7110,10.0.0.3:7110 --redis 10.0.0.9:6379 \
    --tls-cert r1.pem --tls-key r1.key --tls-ca ca.pem`,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settings.Fill(cmd.Flags(), environment, f.config); err != nil {
				return err
			}
			o.Router, o.Region = fleet.RouterID(f.router), fleet.RegionID(f.region)
			logger, err := f.log.Logger(os.Stderr)
			if err := errors.Join(err, o.Validate()); err != nil {
				return err
			}
			o.Logger = logger
			if o.Finders, err = f.finders(logger); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.config, "config", "", "YAML file with any of these flags as keys")
	fl.StringVar(&f.router, "router-id", "", "name of this router, unique in the fleet (required)")
	fl.StringVar(&f.region, "region", "", "region that it stands in (required)")
	fl.StringVar(&o.DataDir, "data-dir", "", "folder of the last good routing tables (required)")
	fl.StringVar(&o.Listen, "listen", ":8100", "address for clients")
	fl.StringVar(&o.FrontCert, "listen-cert", "", "certificate shown to clients (PEM; read again when it changes; default: plain HTTP)")
	fl.StringVar(&o.FrontKey, "listen-key", "", "its key")
	fl.StringVar(&o.PeerListen, "peer-listen", ":8300", "address for routers of other regions, over mutual TLS; empty: none enter")
	fl.StringVar(&o.AdminListen, "admin-listen", "127.0.0.1:8200", "address of /metrics, /healthz, /readyz, /status, /table, /explain and /explain/{id}")
	fl.StringSliceVar(&o.ControlPlane, "controlplane", nil, "control plane nodes, as host:port,… (default: serve from disk only)")
	fl.StringVar(&o.Redis.Addresses, "redis", "", "where quotas are counted that no region's quota store counts, host:port or the path of a socket; of Sentinels or a cluster host:port,… (default: by this router alone)")
	fl.StringVar(&o.Redis.Master, "redis-sentinel-master", "", "name by which the Sentinels at --redis know the primary (default: it is no Sentinel)")
	fl.BoolVar(&o.Redis.Cluster, "redis-cluster", false, "what is at --redis is a Redis Cluster")
	fl.StringVar(&o.Redis.Username, "redis-username", "", "user of Redis's access lists (default: the default user)")
	fl.StringVar(&o.Redis.PasswordFile, "redis-password-file", "", "file that holds the password of Redis (read again for each new connection)")
	fl.BoolVar(&o.Redis.TLS, "redis-tls", false, "encrypt connections to Redis")
	fl.StringVar(&o.Redis.CAFile, "redis-ca-file", "", "authorities of Redis's certificate, with --redis-tls (PEM; default: the system's)")
	fl.StringVar(&o.TLS.Cert, "tls-cert", "", "certificate of this router (PEM, URI name anabranch://router/<region>/<id>); it, its key and the authorities are read again when they change")
	fl.StringVar(&o.TLS.Key, "tls-key", "", "its key")
	fl.StringVar(&o.TLS.CA, "tls-ca", "", "authorities of the control plane and the routers (PEM, several may stand in it)")
	fl.StringVar(&o.RLSListen, "rls-listen", "", "address for Envoy's rate limit filter, which asks there for the same quotas (gRPC; default: none)")
	fl.StringVar(&o.RLS.Cert, "rls-cert", "", "certificate shown there (PEM; read again when it changes; default: plain, on loopback only)")
	fl.StringVar(&o.RLS.Key, "rls-key", "", "its key")
	fl.StringVar(&o.RLS.CA, "rls-ca", "", "authorities of the certificates of those who may ask (PEM)")
	fl.StringSliceVar(&o.RLSDomains, "rls-domain", []string{rls.DefaultDomain}, "domains of the filters whose calls count; other calls are OK")
	fl.StringVar(&o.RequestLog, "request-log", "all", "which requests get a line in the log: all, faults or none")
	fl.StringVar(&o.SecretsDir, "secrets-dir", "", "folder below which the credentials towards clusters and the passwords of regions' quota stores must lie (default: anywhere)")
	fl.StringVar(&o.OTLPEndpoint, "otlp-endpoint", "", "URL that traces are sent to (default: as OTEL_EXPORTER_OTLP_ENDPOINT says, or none are)")
	fl.Float64Var(&o.TraceRatio, "trace-ratio", 0, "share of requests that are traced, unless their client decides (default: as OTEL_TRACES_SAMPLER says, or all)")
	fl.StringVar(&o.EmergencyKeys, "emergency-keys", "", "file of the public keys of those who may sign emergency orders, for when the control plane has no quorum; lines as \"anabranch emergency keygen\" prints them, read again when it changes (default: no signed order is taken)")
	fl.StringVar(&o.DiscoveryDir, "discovery-dir", "", "folder that files of endpoints must lie in, for clusters that are discovered by file (default: anywhere)")
	fl.StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the API server, for clusters that are discovered in Kubernetes; needs a build with the tag kubernetes (default: the cluster that this runs in)")
	fl.DurationVar(&o.DrainDelay, "drain-delay", 0, "how long new requests are still taken on the way down, when readiness is off already (default: not at all)")
	fl.DurationVar(&o.DrainWithin, "drain", instance.DefaultDrainWithin, "how long open requests are waited for on the way down")
	f.log.Bind(fl)
	cmd.AddCommand(orderCommand(), ordersCommand())
	return cmd
}
