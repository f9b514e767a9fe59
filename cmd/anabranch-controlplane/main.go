// Command anabranch-controlplane is one node of the control plane: it keeps what operators decided
// in a Raft log shared with the other nodes, plans routing tables from it and from what routers
// report, and streams them back to the routers.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // budgets are for days of places, and a container may have no zoneinfo

	awscloudwatch "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/spf13/cobra"

	"anabranch/api/fleet"
	"anabranch/cmd/anabranch-controlplane/datadir"
	"anabranch/cmd/anabranch-controlplane/market"
	"anabranch/cmd/anabranch-controlplane/node"
	"anabranch/cmd/anabranch-controlplane/roster"
	"anabranch/cmd/settings"
	"anabranch/controlplane/backup"
	"anabranch/controlplane/backup/bucket"
	"anabranch/controlplane/cloudwatch"
	"anabranch/controlplane/oidc"
	"anabranch/controlplane/reconcile"
	"anabranch/controlplane/rest"
	"anabranch/controlplane/store"
	"anabranch/costmodel/awsprice"
	"anabranch/costmodel/awsprice/billed"
	"anabranch/web"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "anabranch-controlplane:", err)
		os.Exit(1)
	}
}

// flags are what only flags say; the rest goes straight into node.Options.
type flags struct {
	config     string
	log        settings.Log
	id         string
	peers      []string
	peersDNS   string
	peersCount int
	tokensFile string
	backupDir  string
	bucket     bucket.Options
	oidc       oidc.Options
	oidcSecret string
	cloudWatch cloudwatch.Options
	awsBills   bool
	market     market.Options
}

func command() *cobra.Command {
	var f flags
	o := node.Options{Version: version, Console: web.Dist()}
	cmd := &cobra.Command{
		Use:   "anabranch-controlplane",
		Short: "One node of Anabranch's control plane",
		Long: `One node of Anabranch's control plane.

Every flag can also be given as a variable (--data-dir is ANABRANCH_DATA_DIR) or as a key of the
YAML file named by --config; a flag wins over a variable, a variable over the file.

A new cluster starts when every node gets the same --peers list and an empty --data-dir. Instead of the
list, --peers-dns names SRV records that come to --peers-count members, whose ids are the first labels
of their names; a headless Service must list Pods that are not ready (publishNotReadyAddresses). A node
that comes later gets --join with the Raft address of any member instead.`,
		Example: `  # Three nodes of a new cluster; this is n1:
  anabranch-controlplane --id n1 --data-dir /var/lib/anabranch \
    --raft 10.0.0.1:7120 --peers n1=10.0.0.1:7120,n2=10.0.0.2:7120,n3=10.0.0.3:7120 \
    --tls-cert n1.pem --tls-key n1.key --tls-ca ca.pem --tokens-file tokens.json

  # The same in a StatefulSet, whose Pods are called anabranch-0 and so on:
  anabranch-controlplane --data-dir /var/lib/anabranch --raft :7120 \
    --peers-dns _raft._tcp.anabranch.prod.svc.cluster.local --peers-count 3 …

  # A fourth:
  anabranch-controlplane --id n4 --data-dir /var/lib/anabranch --raft 10.0.0.4:7120 --join 10.0.0.1:7120 …`,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settings.Fill(cmd.Flags(), "ANABRANCH_", f.config); err != nil {
				return err
			}
			if err := f.apply(cmd.Context(), &o); err != nil {
				return err
			}
			n, err := node.New(o)
			if err != nil {
				return err
			}
			return n.Run(cmd.Context())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.config, "config", "", "YAML file with any of these flags as keys")
	fl.StringVar(&f.id, "id", "", "name of this node, unique in the cluster (default: a UUID kept in --data-dir)")
	fl.StringVar(&o.DataDir, "data-dir", "", "folder of the Raft log and snapshots (required)")
	fl.StringVar(&o.HTTP, "http", ":7100", "address of REST, console, /metrics, /healthz and /readyz")
	fl.StringVar(&o.HTTPCert, "http-cert", "", "certificate shown at --http (PEM; read again when it changes; default: plain HTTP)")
	fl.StringVar(&o.HTTPKey, "http-key", "", "its key")
	fl.StringVar(&o.GRPC, "grpc", ":7110", "address for routers")
	fl.StringVar(&o.Raft, "raft", ":7120", "address for other nodes")
	fl.StringVar(&o.RaftAdvertise, "raft-advertise", "", "address at which other nodes reach --raft (default: --raft, which then must name a host)")
	fl.StringSliceVar(&f.peers, "peers", nil, "all members of a new cluster, as id=host:port,…")
	fl.StringVar(&f.peersDNS, "peers-dns", "", "instead of --peers: name whose SRV records list the members of a new cluster, as _raft._tcp.NAME; --id is then by default the host's name")
	fl.IntVar(&f.peersCount, "peers-count", 3, "how many members --peers-dns must list, twice in a row, before the cluster starts")
	fl.StringSliceVar(&o.Join, "join", nil, "Raft addresses of members of the cluster to join")
	fl.BoolVar(&o.LeaveOnStop, "leave-on-stop", false, "leave the cluster when stopped, for nodes that come and go with --join; refused with three voters or fewer")
	fl.StringVar(&o.TLS.Cert, "tls-cert", "", "certificate of this node (PEM, URI name anabranch://node/<id>); it, its key and the authorities are read again when they change")
	fl.StringVar(&o.TLS.Key, "tls-key", "", "its key")
	fl.StringVar(&o.TLS.CA, "tls-ca", "", "authorities of nodes and routers (PEM, several may stand in it)")
	fl.StringVar(&o.EmergencyKeys, "emergency-keys", "", "file of the public keys of those who may sign emergency orders, which any node takes without quorum; lines as \"anabranch emergency keygen\" prints them, read again when it changes (default: no signed order is taken)")
	fl.Float64Var(&o.ReadRate, "read-rate", rest.DefaultReadRate, "reads that one caller may ask of this node in a second, and twice as many at once; negative: no limit")
	fl.Float64Var(&o.WriteRate, "write-rate", rest.DefaultWriteRate, "changes that one caller may ask of this node in a second, and five times as many at once; negative: no limit")
	fl.StringVar(&f.tokensFile, "tokens-file", "", `JSON file {"admin": "…", "operator": "…", "approver": "…", "viewer": "…"} of the tokens that a new cluster starts with`)
	fl.StringVar(&o.SecretsDir, "secrets-dir", "", "folder below which the credentials towards clusters that this node polls itself must lie, in regions where no router reports (default: clusters that want one are not polled)")
	fl.StringVar(&f.oidc.Issuer, "oidc-issuer", "", "address of the OpenID provider whose people sign in (default: static tokens only)")
	fl.StringVar(&f.oidc.ClientID, "oidc-client-id", "", "the console's client there, with the authorization code grant and this console's address for the way back")
	fl.StringVar(&f.oidcSecret, "oidc-client-secret-file", "", "file with that client's secret (default: a public client)")
	fl.StringVar(&f.oidc.CLIClientID, "oidc-cli-client-id", "", "the command line's client, a public one with the device grant (default: --oidc-client-id)")
	fl.StringSliceVar(&f.oidc.Scopes, "oidc-scopes", nil, "scopes to ask for beside openid (default: profile,email,groups,offline_access)")
	fl.StringVar(&f.oidc.NameClaim, "oidc-name-claim", "", "claim that people are called by (default: email if the provider has verified it, else sub; email: also if it does not say)")
	fl.StringVar(&f.oidc.GroupsClaim, "oidc-groups-claim", "", "claim with people's groups (default: groups)")
	fl.StringVar(&f.oidc.BindingsFile, "oidc-bindings", "", "YAML file {bindings: [{role, users, groups, scope}]} that gives people roles, the first that fits; read again when it changes")
	fl.Float64Var(&o.TimeScale, "time-scale", 1, "scales election timing, for slow networks (above 1)")
	fl.StringVar(&f.backupDir, "backup-dir", "", "folder where backups of the state, and archives of the audit trail, are kept while this node leads (default: none are)")
	fl.StringVar(&f.bucket.URL, "backup-s3", "", "bucket where backups are kept as well, s3://bucket/prefix; credentials as for AWS's own tools")
	fl.StringVar(&f.bucket.Endpoint, "backup-s3-endpoint", "", "https://host:port of a store that speaks S3's API (default: AWS)")
	fl.StringVar(&f.bucket.Region, "backup-s3-region", "", "region of the bucket (default: AWS_REGION or the profile's)")
	fl.DurationVar(&o.BackupInterval, "backup-interval", backup.DefaultInterval, "time between backups")
	fl.IntVar(&o.BackupKeep, "backup-keep", backup.DefaultKeep, "how many backups of the cluster to keep at a place")
	fl.StringVar(&f.cloudWatch.Namespace, "cloudwatch-namespace", "", "namespace of Amazon CloudWatch in which metrics are published while this node leads; credentials and region as for AWS's own tools (default: none are published)")
	fl.StringSliceVar(&f.cloudWatch.Names, "cloudwatch-metrics", cloudwatch.DefaultNames(), "names of the metrics to publish there, with * for any letters; each combination of labels costs money")
	fl.DurationVar(&f.cloudWatch.Interval, "cloudwatch-interval", cloudwatch.DefaultInterval, "time between two data points there")
	fl.BoolVar(&f.awsBills, "aws-bills", false, "hold what clusters cost against what AWS Cost Explorer says was billed, once a day while this node leads; each question costs a cent; credentials as for AWS's own tools")
	f.market.Bind(fl)
	f.log.Bind(fl)
	cmd.AddCommand(datadir.Restore(), datadir.Recover())
	return cmd
}

func (f *flags) apply(ctx context.Context, o *node.Options) error {
	var problems []error
	o.ID = fleet.NodeID(f.id)
	for _, peer := range f.peers {
		id, address, ok := strings.Cut(peer, "=")
		if !ok || id == "" || address == "" {
			problems = append(problems, fmt.Errorf("--peers: %q is not of the form id=host:port", peer))
			continue
		}
		o.Peers = append(o.Peers, store.Peer{ID: fleet.NodeID(id), Address: address})
	}
	if f.tokensFile != "" {
		tokens, err := readTokens(f.tokensFile)
		problems = append(problems, err)
		o.Tokens = tokens
	}
	if f.backupDir != "" {
		o.Backups = append(o.Backups, backup.Dir(f.backupDir))
	}
	if f.oidc.Issuer != "" || f.oidc.ClientID != "" || f.oidc.BindingsFile != "" {
		o.OIDC = &f.oidc
		if f.oidcSecret != "" {
			secret, err := os.ReadFile(f.oidcSecret)
			if err != nil {
				problems = append(problems, fmt.Errorf("--oidc-client-secret-file: %w", err))
			}
			o.OIDC.ClientSecret = strings.TrimSpace(string(secret))
		}
	}
	if f.bucket.URL != "" {
		b, err := bucket.New(ctx, f.bucket)
		problems = append(problems, err)
		o.Backups = append(o.Backups, b)
	}
	problems = append(problems, f.publish(ctx, o), f.reconcile(ctx, o))
	groups, err := f.market.Groups(ctx)
	problems = append(problems, err)
	o.Prices = groups
	logger, err := f.log.Logger(os.Stderr)
	problems = append(problems, err)
	o.Logger = logger
	if err := errors.Join(problems...); err != nil || f.peersDNS == "" {
		return err
	}
	return f.find(ctx, o)
}

// publish makes the client of CloudWatch, if metrics are to be published there. It calls nobody.
func (f *flags) publish(ctx context.Context, o *node.Options) error {
	if f.cloudWatch.Namespace == "" {
		return nil
	}
	if err := f.cloudWatch.Validate(); err != nil {
		return err
	}
	config, err := awsprice.Load(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("--cloudwatch-namespace: %w", err)
	case config.Region == "":
		return errors.New("--cloudwatch-namespace: no region of AWS is known: set AWS_REGION, or one in the profile")
	}
	f.cloudWatch.Client = awscloudwatch.NewFromConfig(config)
	f.cloudWatch.Credentials = func(ctx context.Context) error { return awsprice.Credentials(ctx, config) }
	o.CloudWatch = &f.cloudWatch
	return nil
}

// reconcile makes the client of Cost Explorer, if the account is to be held against bills. It calls nobody.
func (f *flags) reconcile(ctx context.Context, o *node.Options) error {
	if !f.awsBills {
		return nil
	}
	config, err := awsprice.Load(ctx)
	if err != nil {
		return fmt.Errorf("--aws-bills: %w", err)
	}
	o.Reconcile = &reconcile.Options{Seller: billed.New(config), Source: billed.Name, Lag: billed.Lag, RegionOf: f.market.Code}
	return nil
}

// find takes the members of a new cluster from DNS. A folder with a past knows them.
func (f *flags) find(ctx context.Context, o *node.Options) error {
	if len(o.Peers) > 0 || len(o.Join) > 0 {
		return errors.New("--peers-dns excludes --peers and --join: it is another way to give --peers")
	}
	if o.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("--id is missing, and the host's name is not known: %w", err)
		}
		first, _, _ := strings.Cut(host, ".")
		o.ID = fleet.NodeID(first)
	}
	r := roster.Options{Name: f.peersDNS, Count: f.peersCount, Own: o.ID, Logger: o.Logger}
	if err := errors.Join(r.Validate(), o.Validate()); err != nil { // before anything is waited for
		return err
	}
	cluster, err := store.ClusterOf(o.DataDir)
	if err != nil || cluster != "" {
		return err
	}
	o.Peers, err = roster.Find(ctx, r)
	return err
}

func readTokens(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--tokens-file: %w", err)
	}
	var tokens map[string]string
	if err := json.Unmarshal(text, &tokens); err != nil {
		// The text holds secrets: say where, not what.
		return nil, fmt.Errorf("--tokens-file: %s is not a JSON object of role to token", path)
	}
	return tokens, nil
}
