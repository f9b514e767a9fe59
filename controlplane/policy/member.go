package policy

// ClusterSpec is one member of the fleet: GPUs behind one tier-1 gateway, a set of endpoints, a region
// with routers of its own, or an API that somebody else runs.
type ClusterSpec struct {
	// Region that it is in; of a provider the one whose jurisdiction holds for what it is sent.
	Region string `json:"region"`
	// Type is the member kind: "endpoints" (default; our router picks the pod), "gateway" (a tier-1
	// gateway does), "router" (the whole region as one member, served by its routers, which follow
	// another control plane) or "provider" (an external OpenAI-compatible API, which every router
	// calls directly).
	Type string `json:"type,omitempty"`
	// Models are the base models served; their adapters come with them.
	Models []string `json:"models"`
	// ModelNames are what base models and adapters are called there, where that differs. Not of
	// type "router".
	ModelNames map[string]string `json:"modelNames,omitempty"`
	// Endpoints of type "endpoints": those that don't change. At least one, or discovery.
	Endpoints []EndpointSpec `json:"endpoints,omitempty"`
	// Discovery of type "endpoints": where routers find more. Nil: nowhere.
	Discovery *DiscoverySpec `json:"discovery,omitempty"`
	// URL of types "gateway" and "provider": where requests go. What stands before /v1.
	URL string `json:"url,omitempty"`
	// GatewayURL is another name for url of type "gateway".
	GatewayURL string `json:"gatewayURL,omitempty"`
	// MetricsURL of type "gateway": the endpoint picker's pool metrics.
	MetricsURL string `json:"metricsURL,omitempty"`
	// Auth towards the cluster, by reference. Nil: none. Not of type "router", whose routers know
	// each other.
	Auth *AuthSpec `json:"auth,omitempty"`
	// Collect says how the control plane reads the cluster's load itself, of types "endpoints" and
	// "gateway". Nil: all defaults.
	Collect *CollectSpec `json:"collect,omitempty"`
	// Drained: no new requests, by an operator's order.
	Drained bool `json:"drained,omitempty"`
	// Pin keeps the cluster at a share of its weight for a time, whatever is seen of its health. Nil: evidence decides.
	Pin *PinSpec `json:"pin,omitempty"`
	// GPUs says what the cluster is made of, for cost: how many GPUs of which class, bought how.
	// Not of type "provider", which costs what the rate cards say of its models.
	GPUs []GPUSpec `json:"gpus,omitempty"`
	// PriorWork is the believed capacity in work units per second until it is measured, for
	// each model; of types "router" and "provider", where nothing can be measured, it stays that.
	// 0: 5,000 per endpoint.
	PriorWork float64 `json:"priorWork,omitempty"`
}

// Target is where requests of types "gateway" and "provider" go.
func (s *ClusterSpec) Target() string {
	if s.URL != "" {
		return s.URL
	}
	return s.GatewayURL
}

// CollectSpec says how nodes of the control plane poll a cluster themselves: the metrics of a gateway's
// endpoint picker, or whether the gateway answers at all where these can't be read, and the metrics
// of endpoints that are listed. What is found by discovery they leave to routers.
type CollectSpec struct {
	// Mode is "auto" (default; while no router of the cluster's region reports), "always" or "never".
	Mode string `json:"mode,omitempty"`
	// IntervalMs from one poll of a node to its next, 1,000 to 300,000; default 2000. Each node of the
	// control plane polls.
	IntervalMs int `json:"intervalMs,omitempty"`
	// TimeoutMs of one request, 100 to 10,000; default 1000.
	TimeoutMs int `json:"timeoutMs,omitempty"`
	// Path is asked instead of /metrics at endpoints, or of /health at a gateway.
	Path string `json:"path,omitempty"`
}

// EndpointSpec is one model server.
type EndpointSpec struct {
	ID  string `json:"id"`
	URL string `json:"url"`
	// Class is the GPU class ("h100"), within which rates are learned together.
	Class string `json:"class"`
	// KVEventsURL is where it publishes what its KV cache holds, as tcp://host:port. Empty: nowhere.
	KVEventsURL string `json:"kvEventsURL,omitempty"`
}

// DiscoverySpec says where routers find the endpoints of a cluster whose addresses change.
type DiscoverySpec struct {
	// Kind is dns (A and AAAA records of a host, as of a headless Service), srv (SRV records), file
	// (on the router, read again when it changes), endpointslices (of a Kubernetes Service) or
	// inferencepool (pods of a Gateway API InferencePool).
	Kind string `json:"kind"`
	// Name is a host (dns), a service (srv), an absolute path (file), a Service or an InferencePool.
	Name string `json:"name"`
	// Namespace of kinds endpointslices and inferencepool.
	Namespace string `json:"namespace,omitempty"`
	// Port of the model servers, default 8000. Not of kind srv, whose records say it.
	Port int `json:"port,omitempty"`
	// Scheme is http (default) or https.
	Scheme string `json:"scheme,omitempty"`
	// Class of GPU of what is found, where the source doesn't say.
	Class string `json:"class,omitempty"`
}

// AuthSpec says where a router finds the secret for a cluster; never the secret.
type AuthSpec struct {
	// Type is "bearer" (default), "mtls" or "sigv4".
	Type string `json:"type"`
	// File and Env of types bearer and sigv4, exactly one is set: a path on the router, of the token
	// or of an AWS credentials file; or a variable of it, with the token, or the prefix of those
	// with AWS's keys ("AWS": AWS_ACCESS_KEY_ID and so on).
	File string `json:"file,omitempty"`
	Env  string `json:"env,omitempty"`
	// CertFile and KeyFile of type mtls: what the router shows. CAFile: whom it believes; empty: the
	// system's authorities.
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
	CAFile   string `json:"caFile,omitempty"`
	// Region and Service of type sigv4, e.g. us-east-1 and sagemaker. Profile is the section of File;
	// empty: default.
	Region  string `json:"region,omitempty"`
	Service string `json:"service,omitempty"`
	Profile string `json:"profile,omitempty"`
}

// GPUSpec counts GPUs of one class and purchase option.
type GPUSpec struct {
	Class string `json:"class"`
	Count int    `json:"count"`
	// Purchase is on-demand (default), spot, reserved, capacity-block or owned. All but the first two
	// cost nothing at the margin.
	Purchase string `json:"purchase,omitempty"`
	// Instance and AvailabilityZone are what they sit in and where, as prices tell. Empty: not known, so
	// that of prices that tell the dearest holds.
	Instance         string `json:"instance,omitempty"`
	AvailabilityZone string `json:"availabilityZone,omitempty"`
}
