// Package exposition reads the pages of metrics that model servers and the endpoint pickers of tier-1
// gateways write, in Prometheus' text format, and says how loaded the place is that wrote one. Both
// planes read them: routers those of the places that they send to, the control plane those of regions
// where no router reports. It knows names and what they mean; who asks, how often, and what is made of
// it is for others.
package exposition

// Paths are where model servers have their pages: trtllm-serve the second, and something else in JSON
// at the first.
var Paths = []string{"/metrics", "/prometheus/metrics"}
