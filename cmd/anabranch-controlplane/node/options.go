// Package node puts one control plane node together: it wires storage, planning, streams to routers
// and REST, and starts and stops them in order. It decides nothing; the command reads its flags,
// and cmd/e2e runs several nodes in one process.
package node

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/identity"
	"anabranch/controlplane/backup"
	"anabranch/controlplane/cloudwatch"
	"anabranch/controlplane/oidc"
	"anabranch/controlplane/prices"
	"anabranch/controlplane/reconcile"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
)

// MinTokenBytes keeps tokens out of reach of guessing: they are stored as plain SHA-256.
const MinTokenBytes = 16

// Options says who a node is and where it listens.
type Options struct {
	// ID names the node. Empty: a UUID kept in DataDir; then Peers must be empty.
	ID fleet.NodeID
	// DataDir belongs to this node for ever.
	DataDir string
	// HTTP, GRPC and Raft are host:port; port 0 takes a free one, see Addresses.
	HTTP, GRPC, Raft string
	// HTTPCert and HTTPKey are shown to those who come to HTTP. Empty: plain HTTP, for loopback and
	// behind something that ends TLS.
	HTTPCert, HTTPKey string
	// RaftAdvertise is how others reach Raft. Empty: where it listens.
	RaftAdvertise string
	// RaftListener replaces Raft by a bound listener, for tests that must know all addresses first.
	RaftListener net.Listener
	// Peers starts a new cluster, Join enters a running one. With a data folder that has a past,
	// both are ignored. At most one is set.
	Peers []store.Peer
	Join  []string
	// LeaveOnStop has the node removed from the cluster when it stops, if three voters remain.
	LeaveOnStop bool
	// TLS towards nodes and routers. Empty: plain, allowed on loopback only.
	TLS identity.Files
	// SecretsDir is the folder below which the credentials towards clusters that this node polls itself
	// must lie; variables are read only if their names begin with ANABRANCH_SECRET_. Empty: clusters that
	// want a credential are not polled.
	SecretsDir string
	// Tokens maps a role to the bearer token that a new cluster starts with.
	Tokens map[string]string
	// OIDC is the OpenID provider whose people sign in. Nil: there is none.
	OIDC *oidc.Options
	// TimeScale of elections; 0: 1.
	TimeScale float64
	// Backups are the places where this node keeps backups while it leads, every BackupInterval and the
	// newest BackupKeep of them; 0: the defaults of package backup. Archives of the audit trail go there
	// too, all of them. Empty: it takes none.
	Backups        []backup.Place
	BackupInterval time.Duration
	BackupKeep     int
	// CloudWatch is where and which metrics are published while this node leads: Client, Credentials,
	// Namespace, Names, Interval and Most of it count. Nil: none are.
	CloudWatch *cloudwatch.Options
	// Reconcile is whose bills the account is held against while this node leads: Seller, Source, Lag and
	// RegionOf of it count. Nil: nobody's.
	Reconcile *reconcile.Options
	// Prices are sources of what GPUs cost, which this node asks while it leads. Empty: it asks nobody, and goes
	// by rate cards, what others have found, and the defaults that come with the program.
	Prices []prices.Group
	// EmergencyKeys is a file of the keys that emergency orders are signed with where there is no quorum; see
	// signed.ParseKeys. It is read again when it changes. Empty: none are taken.
	EmergencyKeys string
	// ReadRate and WriteRate are how many reads and changes one caller may ask of this node in a second;
	// 0: the defaults of package rest, negative: no limit.
	ReadRate, WriteRate float64
	// Console is the built web console. Nil: none.
	Console fs.FS
	Version string
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// Validate names each wrong option by its flag and says what would be right.
func (o Options) Validate() error {
	var problems []error
	if o.DataDir == "" {
		problems = append(problems, errors.New("--data-dir is missing: name a folder that only this node uses"))
	}
	if len(o.Peers) > 0 && len(o.Join) > 0 {
		problems = append(problems, errors.New("--peers and --join exclude one another: --peers starts a new cluster, --join enters a running one"))
	}
	for _, a := range []struct{ flag, value string }{{"--http", o.HTTP}, {"--grpc", o.GRPC}, {"--raft", o.Raft}} {
		if a.flag == "--raft" && o.RaftListener != nil {
			continue
		}
		if _, _, err := net.SplitHostPort(a.value); err != nil {
			problems = append(problems, fmt.Errorf("%s: %q is not host:port: %w", a.flag, a.value, err))
		}
	}
	if err := o.TLS.Validate(); err != nil {
		problems = append(problems, err)
	}
	if (o.HTTPCert == "") != (o.HTTPKey == "") {
		problems = append(problems, errors.New("--http-cert and --http-key go together: give both, or neither for plain HTTP"))
	}
	if o.TLS.Empty() {
		for _, a := range []struct{ flag, value string }{{"--grpc", o.GRPC}, {"--raft", o.Raft}} {
			if a.value != "" && !loopback(a.value) {
				problems = append(problems, fmt.Errorf("%s %s would be open to the network without TLS: give --tls-cert, --tls-key and --tls-ca, or listen on 127.0.0.1", a.flag, a.value))
			}
		}
	}
	if o.OIDC != nil {
		problems = append(problems, o.OIDC.Validate())
	}
	problems = append(problems, o.validateTokens(), o.validateBackups())
	return errors.Join(problems...)
}

func (o Options) validateBackups() error {
	switch {
	case o.BackupInterval != 0 && o.BackupInterval < backup.MinInterval:
		return fmt.Errorf("--backup-interval: %s is too short, the least is %s", o.BackupInterval, backup.MinInterval)
	case o.BackupKeep < 0:
		return fmt.Errorf("--backup-keep: %d is negative: say how many to keep", o.BackupKeep)
	}
	return nil
}

func (o Options) validateTokens() error {
	var problems []error
	roles := map[string]string{} // by token
	for role, token := range o.Tokens {
		if other, twice := roles[token]; twice {
			problems = append(problems, fmt.Errorf("--tokens-file: %q and %q have the same token: its role would be anybody's guess", min(role, other), max(role, other)))
		}
		roles[token] = role
		if !slices.Contains(state.Roles(), role) {
			problems = append(problems, fmt.Errorf("--tokens-file: role %q is none of %v", role, state.Roles()))
		}
		if len(token) < MinTokenBytes {
			problems = append(problems, fmt.Errorf("--tokens-file: the token of %q is shorter than %d bytes", role, MinTokenBytes))
		}
	}
	return errors.Join(problems...)
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// tokens gives the hashes that go into the replicated state.
func (o Options) tokens() []*statepb.Token {
	var out []*statepb.Token
	for _, role := range state.Roles() {
		if token, ok := o.Tokens[role]; ok {
			sum := sha256.Sum256([]byte(token))
			out = append(out, &statepb.Token{Name: role, Role: role, Sha256: sum[:]})
		}
	}
	return out
}
