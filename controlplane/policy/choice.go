package policy

// The types of cluster.
const (
	TypeEndpoints = "endpoints" // our router picks the pod
	TypeGateway   = "gateway"   // a tier-1 gateway does
	TypeRouter    = "router"    // the routers of its region do
	TypeProvider  = "provider"  // an external API
)

// The types of credential.
const (
	AuthBearer = "bearer"
	AuthMTLS   = "mtls"
	AuthSigV4  = "sigv4"
)

// The kinds of discovery.
const (
	DiscoverDNS            = "dns"
	DiscoverSRV            = "srv"
	DiscoverFile           = "file"
	DiscoverEndpointSlices = "endpointslices"
	DiscoverInferencePool  = "inferencepool"
)

// When the control plane polls a cluster itself.
const (
	CollectAuto   = "auto" // while no router of its region reports
	CollectAlways = "always"
	CollectNever  = "never"
)

// The types of header match.
const (
	HeaderExact   = "exact"
	HeaderPrefix  = "prefix"
	HeaderPresent = "present"
)

// What Survive says.
const (
	SurviveNone    = "none"
	SurviveCluster = "cluster"
	SurviveRegion  = "region"
)

// What Spill says.
const (
	SpillAllowed = "allowed"
	SpillNever   = "never"
)

// The values that fields with a closed set may take, as they stand in documents.
var (
	clusterTypes   = []string{TypeEndpoints, TypeGateway, TypeRouter, TypeProvider}
	purchases      = []string{"on-demand", "spot", "reserved", "capacity-block", "owned"}
	authTypes      = []string{AuthBearer, AuthMTLS, AuthSigV4}
	discoveryKinds = []string{DiscoverDNS, DiscoverSRV, DiscoverFile, DiscoverEndpointSlices, DiscoverInferencePool}
	schemes        = []string{"http", "https"}
	collectModes   = []string{CollectAuto, CollectAlways, CollectNever}
	headerTypes    = []string{HeaderExact, HeaderPrefix, HeaderPresent}
	spills         = []string{SpillAllowed, SpillNever}
	survivals      = []string{SurviveNone, SurviveCluster, SurviveRegion}
	pickModes      = []string{"predicted-ttft", "round-robin", "random", "least-outstanding", "prefix-hash"}
	limitKinds     = []string{LimitRequests, LimitInputTokens, LimitOutputTokens, LimitTotalTokens, LimitConcurrent, LimitPerDay, LimitPerMonth}
	degradeds      = []string{DegradedShare, DegradedOpen, DegradedClosed}
	overruns       = []string{OverrunFinish, OverrunCut}
)
