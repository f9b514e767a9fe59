package policy

// The types of cluster.
const (
	TypeEndpoints = "endpoints" // our router picks the pod
	TypeGateway   = "gateway"   // a tier-1 gateway does
)

// What Spill says.
const (
	SpillAllowed = "allowed"
	SpillNever   = "never"
)

// The values that fields with a closed set may take, as they stand in documents.
var (
	clusterTypes = []string{TypeEndpoints, TypeGateway}
	purchases    = []string{"on-demand", "spot", "reserved", "owned"}
	authTypes    = []string{"bearer"}
	spills       = []string{SpillAllowed, SpillNever}
	pickModes    = []string{"predicted-ttft", "round-robin", "random", "least-outstanding"}
	limitKinds   = []string{"requests", "input-tokens", "output-tokens", "total-tokens"}
	degradeds    = []string{"share", "open", "closed"}
)
