// Package rival holds the routing policies that others use or publish, for package world to run beside
// Anabranch's own: each as good as its public description allows, so that a comparison says
// something. [Names] lists them and [About] says where each comes from.
//
// Policies that are published for one cluster choose among clusters in the same way, as their doc
// comments say. All of them have what a proxy in front of model servers has anyway: pods whose last
// scrape got no answer are passed over, as readiness probes would have it; what has refused or broken
// off five requests in a row is left out for 30 s, the defaults of Envoy's outlier detection
// (consecutive_5xx, base_ejection_time); a cluster of which nothing was heard for three times the
// usual is used only if there is no other; a failed request is tried at three places at most. None
// holds requests back in the router, none knows quotas or prices.
//
// Of the originals only routers of the operator's own making know data residency. Here all keep to it
// unless [Options].NoResidency, so that comparisons are of equals.
package rival
