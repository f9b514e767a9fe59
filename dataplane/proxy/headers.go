package proxy

import (
	"net/http"
	"strings"
)

// The headers between routers; from clients they are stripped.
const (
	HeaderTenant      = "X-Anabranch-Tenant"
	HeaderHop         = "X-Anabranch-Hop"
	HeaderClass       = "X-Anabranch-Class"
	HeaderPriority    = "X-Anabranch-Priority"
	HeaderClusterHint = "X-Anabranch-Cluster-Hint"
	// HeaderSaturation tells a router from its peer how full the cluster is that it asked for: load over
	// capacity.
	HeaderSaturation = "X-Anabranch-Saturation"
	// HeaderErrorCode tells a router from its peer why it got no answer from a model.
	HeaderErrorCode = "X-Anabranch-Error-Code"
)

// The headers that tell a client where its answer comes from.
const (
	HeaderRegion    = "X-Anabranch-Region"
	HeaderCluster   = "X-Anabranch-Cluster"
	HeaderEndpoint  = "X-Anabranch-Endpoint"
	HeaderRequestID = "X-Anabranch-Request-Id"
	HeaderAttempts  = "X-Anabranch-Attempts"
)

// The headers that a tier-1 gateway reads: the tenant, for fairness, and the priority class.
// https://gateway-api-inference-extension.sigs.k8s.io
const (
	HeaderFairness  = "X-Gateway-Inference-Fairness-Id"
	HeaderObjective = "X-Gateway-Inference-Objective"
)

// dropped never goes on: hop-by-hop headers (RFC 9110, section 7.6.1), credentials, which are the
// router's to check and not a place's to see, and what the transport sets itself.
var dropped = map[string]bool{
	"Connection":          true,
	"Proxy-Connection":    true,
	"Keep-Alive":          true,
	"Proxy-Authenticate":  true,
	"Proxy-Authorization": true,
	"Te":                  true,
	"Trailer":             true,
	"Transfer-Encoding":   true,
	"Upgrade":             true,
	"Content-Length":      true,
	"Host":                true,
	"Expect":              true,
	"Accept-Encoding":     true, // a stream must stay readable on the way
	"Authorization":       true,
	"Api-Key":             true,
	"X-Api-Key":           true,
	"Cookie":              true,
}

// ours are the prefixes of headers that only the routers and the gateways may set. Those of the
// second line tell sidecars of model servers, and Envoy, where to send a request and how often: a
// client that set them could have prompts sent to a host of its own.
var ours = []string{
	"X-Anabranch-", "X-Gateway-", "X-Llm-D-",
	"X-Prefiller-", "X-Encoder-", "X-Data-Parallel-", "X-Kv-Cache-Source-", "X-Envoy-",
}

func mine(key string) bool {
	if len(key) < 8 || key[0] != 'X' {
		return false
	}
	for _, p := range ours {
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}

// Outgoing is the header of a request on its way to a place: the client's without what is hop by
// hop, secret or ours, and then what set says.
func Outgoing(client http.Header, set []Field) http.Header {
	h := make(http.Header, len(client)+len(set)+1)
	named := client["Connection"]
	for k, v := range client {
		if dropped[k] || mine(k) || (named != nil && listed(named, k)) {
			continue
		}
		h[k] = v
	}
	values := make([]string, len(set))
	for i, f := range set {
		if f.Value != "" {
			values[i] = f.Value
			h[f.Key] = values[i : i+1 : i+1]
		}
	}
	return h
}

// theirs stays between the router and the place: what binds a client to a host, as which a place would
// speak of the router's, and whose account is used.
var theirs = map[string]bool{
	"Alt-Svc":                   true,
	"Clear-Site-Data":           true,
	"Openai-Organization":       true,
	"Openai-Project":            true,
	"Set-Cookie":                true,
	"Strict-Transport-Security": true,
}

// listed reports whether a Connection header names k.
func listed(connection []string, k string) bool {
	for _, line := range connection {
		for name := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(name), k) {
				return true
			}
		}
	}
	return false
}

// incoming copies a place's header into the answer, without what is hop by hop, ours or theirs.
func incoming(answer, from http.Header) {
	named := from["Connection"]
	for k, v := range from {
		if dropped[k] || theirs[k] || k == "Date" || mine(k) || strings.HasPrefix(k, "X-Ratelimit-") || strings.HasPrefix(k, "Ratelimit") || (named != nil && listed(named, k)) {
			continue
		}
		answer[k] = v
	}
}
