// Package instance puts one router together: it wires the data plane, the stream to the control
// plane and the servers, and starts and stops them in order. It decides nothing; the command reads
// its flags, and cmd/e2e runs several routers in one process.
package instance

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/identity"
	"anabranch/api/order/signed"
	"anabranch/dataplane"
	"anabranch/dataplane/discover"
)

// Options says who a router is, where it listens and whom it follows.
type Options struct {
	// Router names this process, Region where it stands.
	Router fleet.RouterID
	Region fleet.RegionID
	// DataDir keeps the last good tables. It belongs to this router alone.
	DataDir string
	// Listen is for clients, PeerListen for routers of other regions, AdminListen for operators;
	// host:port, port 0 takes a free one, see Addresses. PeerListen empty, or without TLS: no
	// other region enters here.
	Listen, PeerListen, AdminListen string
	// PeerListener replaces PeerListen by a bound listener, for tests that must know all addresses
	// first.
	PeerListener net.Listener
	// ControlPlane are host:port of its nodes. Empty: serve from disk only.
	ControlPlane []string
	// Redis keeps the quotas that no region's quota store keeps.
	Redis Redis
	// TLS towards the control plane and peers. Empty: plain, allowed to loopback only.
	TLS identity.Files
	// FrontCert and FrontKey are shown to clients. Empty: plain HTTP.
	FrontCert, FrontKey string
	// RLSListen is where Envoy's rate limit filter asks for quotas, host:port. Empty: nowhere. RLS is
	// shown there, and its CA signs those who may ask; without it only loopback is allowed. RLSDomains
	// are the domains that are judged; none: rls.DefaultDomain.
	RLSListen  string
	RLS        identity.Files
	RLSDomains []string
	// RequestLog says which requests get a line in the log: all, faults or none. Empty: all.
	RequestLog string
	// SecretsDir is the folder below which the files of credentials towards clusters must lie. Empty:
	// anywhere.
	SecretsDir string
	// OTLPEndpoint is the URL that traces are sent to, e.g. "http://127.0.0.1:4318". Empty: what
	// OpenTelemetry's variables say (OTEL_EXPORTER_OTLP_ENDPOINT), and without them no traces.
	OTLPEndpoint string
	// TraceRatio is the share 0..1 of the requests that are traced, of those whose client has not
	// decided it. 0: as OTEL_TRACES_SAMPLER says, and without it all.
	TraceRatio float64
	// DiscoveryDir is the folder that files of endpoints must lie in. Empty: anywhere.
	DiscoveryDir string
	// Finders of endpoints beside those in files and DNS, by kind of discovery in the table.
	Finders map[string]discover.Finder
	// EmergencyKeys is a file of the keys that emergency orders are signed with where the control plane has no
	// quorum; see [signed.ParseKeys]. It is read again when it changes. Empty: none are taken.
	EmergencyKeys string
	// DrainDelay is how long the router goes on taking requests on the way down when its readiness is
	// off, so that load balancers see it before they are refused; 0: not at all.
	DrainDelay time.Duration
	// DrainWithin bounds how long open requests are waited for on the way down; 0: 15 min.
	DrainWithin time.Duration
	Version     string
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// DefaultDrainWithin is how long streams may go on after a stop was asked for.
const DefaultDrainWithin = 15 * time.Minute

// Validate names each wrong option by its flag and says what would be right.
func (o Options) Validate() error {
	var problems []error
	name := func(flag, value string) {
		if err := fleet.CheckName(value); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", flag, err))
		}
	}
	name("--router-id", string(o.Router))
	name("--region", string(o.Region))
	if o.DataDir == "" {
		problems = append(problems, errors.New("--data-dir is missing: name a folder that only this router uses"))
	}
	address := func(flag, value string) {
		if _, _, err := net.SplitHostPort(value); err != nil {
			problems = append(problems, fmt.Errorf("%s: %q is not host:port: %w", flag, value, err))
		}
	}
	address("--listen", o.Listen)
	address("--admin-listen", o.AdminListen)
	if o.PeerListen != "" && o.PeerListener == nil {
		address("--peer-listen", o.PeerListen)
	}
	for _, node := range o.ControlPlane {
		address("--controlplane", node)
		if o.TLS.Empty() && !loopback(node) {
			problems = append(problems, fmt.Errorf("--controlplane %s would be spoken to without TLS: give --tls-cert, --tls-key and --tls-ca", node))
		}
	}
	problems = append(problems, o.Redis.validate()...)
	if err := o.TLS.Validate(); err != nil {
		problems = append(problems, err)
	}
	if err := o.validateDoor(); err != nil {
		problems = append(problems, err)
	}
	if (o.FrontCert == "") != (o.FrontKey == "") {
		problems = append(problems, errors.New("--listen-cert and --listen-key go together: give both, or neither for plain HTTP"))
	}
	switch dataplane.RequestLog(o.RequestLog) {
	case "", dataplane.LogAll, dataplane.LogFaults, dataplane.LogNone:
	default:
		problems = append(problems, fmt.Errorf("--request-log is %q: give all, faults or none", o.RequestLog))
	}
	if u, err := url.Parse(o.OTLPEndpoint); o.OTLPEndpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		problems = append(problems, errors.New("--otlp-endpoint is no URL: give one such as http://127.0.0.1:4318"))
	}
	if !(o.TraceRatio >= 0 && o.TraceRatio <= 1) {
		problems = append(problems, fmt.Errorf("--trace-ratio is %v: give a share from 0 to 1", o.TraceRatio))
	}
	if o.DiscoveryDir != "" {
		if info, err := os.Stat(o.DiscoveryDir); err != nil || !info.IsDir() {
			problems = append(problems, fmt.Errorf("--discovery-dir %s is not a folder: name one that this router may read", o.DiscoveryDir))
		}
	}
	if o.DrainDelay < 0 {
		problems = append(problems, fmt.Errorf("--drain-delay is %s: give the time in which load balancers see that readiness is off, or leave it out", o.DrainDelay))
	}
	if o.DrainWithin < 0 {
		problems = append(problems, fmt.Errorf("--drain is %s: leave it out for %s", o.DrainWithin, DefaultDrainWithin))
	}
	return errors.Join(problems...)
}

// keys reads the keys of emergency orders. Nil: there are none.
func (o Options) keys() (*signed.Ring, error) {
	if o.EmergencyKeys == "" {
		return nil, nil //nolint:nilnil // see above
	}
	keys, err := signed.OpenRing(o.EmergencyKeys)
	if err != nil {
		return nil, fmt.Errorf("--emergency-keys: %w", err)
	}
	return keys, nil
}

// loopback says whether an address can only be reached from this machine.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
