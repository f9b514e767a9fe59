package dataplane

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"anabranch/api/fleet"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/discover"
	"anabranch/dataplane/override"
	"anabranch/dataplane/subscribe"
	"anabranch/dataplane/table"
)

// Options of a [Router]. Router, Region, Tables and Quotas must be set.
type Options struct {
	// Router names this process; request ids begin with it. Region is where it stands.
	Router  fleet.RouterID
	Region  fleet.RegionID
	Version string
	// Tables holds the table in force; who swaps it also calls [Router.Applied].
	Tables *table.Holder
	// Quotas are the stores that keep the levels of quotas.
	Quotas admit.Stores
	// Inline has requests call for what quotas lack by themselves, instead of Run beside them: for virtual
	// time and where Run does not run.
	Inline bool
	// PeerTLS gives this router's certificate and the authority of its peers; it is asked at each
	// handshake, so that they may change. Nil: plain text, for tests.
	PeerTLS func() *tls.Config
	// Orders are the emergency orders that hold now, see package override. Nil: there are none.
	Orders func() *override.View
	// DiscoveryDir is the folder in which files of endpoints must lie. Empty: anywhere. Finders look
	// for endpoints in further kinds of sources.
	DiscoveryDir string
	Finders      map[string]discover.Finder
	// Requests says which requests get a line in the log. Empty: all.
	Requests RequestLog
	// SecretsDir is the folder below which the files of credentials must lie. Empty: anywhere.
	SecretsDir string
	// Control tells how the router stands with the control plane, for the status page. Nil:
	// nothing is told.
	Control func() ControlStatus
	// Sight tells how far what the control plane said last of health can be trusted now. Nil: it is
	// current.
	Sight func(now time.Time) subscribe.Sight
	// OrdersStatus tells how the emergency orders stand, for the status page. Nil: nothing is told.
	OrdersStatus func() override.Status
	// Traces takes the spans of requests. Nil: none are made.
	Traces trace.TracerProvider
	// MaxInFlight bounds the requests open at once; 0: 20,000.
	MaxInFlight int64
	// MaxBodies bounds the bytes that are held of requests' bodies, and half of it those of one tenant. The
	// first 64 KiB of each don't count; where policy changes a field, the body is held twice. 0: 1 GiB.
	MaxBodies int64
	// Registry takes the metrics. Nil: one of its own.
	Registry *prometheus.Registry
	// Logger; nil: slog.Default().
	Logger *slog.Logger
	// Now and Random are the clock and 64 random bits. Nil: the real ones.
	Now    func() time.Time
	Random func() uint64
}

// ControlStatus is how the router stands with the control plane.
type ControlStatus struct {
	Connected bool   `json:"connected"`
	Node      string `json:"node,omitempty"`
	Address   string `json:"address,omitempty"`
	// LastContact is when a node was last heard. Zero: never.
	LastContact time.Time `json:"lastContact,omitzero"`
	// Waiting is a table that is taken when the order ends that holds it off. Nil: there is none.
	Waiting *TableNumber `json:"waiting,omitempty"`
	// Refused is why the newest push was not taken, Disk why the table in force is not kept.
	Refused string `json:"refused,omitempty"`
	Disk    string `json:"disk,omitempty"`
}

// TableNumber names a table of the control plane that the router follows.
type TableNumber struct {
	Epoch    uint64 `json:"epoch"`
	Revision uint64 `json:"revision"`
}

// Validate names the first option that is wrong and what would be right.
func (o *Options) Validate() error {
	switch {
	case o.Router == "":
		return errors.New("options of the router: Router is empty, name this process")
	case o.Region == "":
		return errors.New("options of the router: Region is empty, name the region that it stands in")
	case o.Tables == nil:
		return errors.New("options of the router: Tables is nil, pass where the table in force is kept")
	case o.Quotas == nil:
		return errors.New("options of the router: Quotas is nil, pass who keeps them")
	case !slices.Contains([]RequestLog{"", LogAll, LogFaults, LogNone}, o.Requests):
		return fmt.Errorf("options of the router: Requests is %q, want all, faults or none", o.Requests)
	case o.MaxBodies < 0:
		return fmt.Errorf("options of the router: MaxBodies is %d, leave it 0 for the default", o.MaxBodies)
	case o.MaxInFlight < 0:
		return fmt.Errorf("options of the router: MaxInFlight is %d, leave it 0 for the default", o.MaxInFlight)
	}
	return nil
}

func (o *Options) defaults() {
	if o.MaxInFlight == 0 {
		o.MaxInFlight = 20_000
	}
	if o.MaxBodies == 0 {
		o.MaxBodies = 1 << 30
	}
	if o.Orders == nil {
		o.Orders = func() *override.View { return nil }
	}
	if o.Requests == "" {
		o.Requests = LogAll
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Control == nil {
		o.Control = func() ControlStatus { return ControlStatus{} }
	}
	if o.Sight == nil {
		o.Sight = func(time.Time) subscribe.Sight { return subscribe.Current }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Uint64
	}
}
