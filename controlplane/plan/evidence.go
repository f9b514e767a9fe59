package plan

import (
	"fmt"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/failover"
)

// Evidence puts together what all routers say of each cluster that is configured, and what nodes of the
// control plane found where no router stands, in the words of package failover. Clusters are weighed by the capacity they are configured with: of some none may
// have been measured yet.
func Evidence(resources Lookup, s signal.Snapshot) map[fleet.ClusterID]failover.Evidence {
	w := &world{resources: resources, policies: traffic(resources)}
	var all, routers float64
	for _, o := range s.Routers {
		if o.Freshness(s.At) == signal.Fresh {
			all += float64(o.Report.GetRequests())
			routers++
		}
	}
	out := map[fleet.ClusterID]failover.Evidence{}
	for _, r := range resources.List(policy.KindCluster) {
		spec, ok := r.Spec.(*policy.ClusterSpec)
		if !ok {
			continue
		}
		id := fleet.ClusterID(r.Metadata.Name)
		in := failover.Evidence{
			Region:    fleet.RegionID(spec.Region),
			Capacity:  prior(spec),
			Drained:   spec.Drained,
			Objective: time.Duration(w.speaker(spec).TTFTObjectiveMs * float64(time.Millisecond)),
		}
		var fresh float64 // new requests there as of the last reports
		for _, sight := range s.Sights(id) {
			if signal.FreshnessOf(sight.Age) == signal.Fresh {
				fresh += float64(sight.Signal.GetRequests())
			}
			in.Sights = merge(in.Sights, sight, direct(spec) || sight.Region == in.Region)
		}
		in.Sights = polled(in.Sights, s.Polls(id))
		// A probe by each router is no traffic.
		in.Quiet = fresh <= max(routers, quietShare*all)
		out[id] = in
	}
	return out
}

// polled adds what nodes of the control plane found of a cluster themselves, where that outranks what
// routers of its region say. A page that tells of no ready endpoint is first hand, as an own router's
// scrape is. That nothing answers may be the way's fault as well as the cluster's: it is a vote like a
// remote router's. And that something answers is no word against remote routers that can't use the
// cluster: their requests take a way that polls do not, by the routers of its region.
func polled(sights []failover.Sight, polls []signal.Poll) []failover.Sight {
	routers, disputed := signal.Absent, false
	for _, x := range sights {
		switch fresh := signal.FreshnessOf(x.Age); {
		case !x.Own:
			disputed = disputed || x.Ejected && fresh == signal.Fresh
		case signal.Outranks(fresh, routers):
			routers = fresh
		}
	}
	for _, p := range polls {
		if !signal.Outranks(p.Freshness, routers) {
			continue
		}
		next := failover.Sight{Router: fleet.RouterID("node/" + string(p.Node)), Age: p.Overdue}
		switch down := p.Scraped && p.Total > 0 && p.Ready == 0; {
		case p.Silent:
			next.Ejected, next.Reason = true, fmt.Sprintf("polls by %s: %s", p.Node, p.Reason)
		case down || !disputed:
			next.Region, next.Own = p.Region, true
			next.Scraped, next.Total, next.Ready, next.Saturation = p.Scraped, p.Total, p.Ready, p.Saturation
		default:
			continue
		}
		sights = append(sights, next)
	}
	return sights
}

// quietShare of all requests is what a cluster may still get and count as empty.
const quietShare = 0.01

// maxTTFTMs bounds what a router may report as time to the first token, an hour.
const maxTTFTMs = 3_600_000

// merge adds what a router says of one model to what it says of the cluster, which is its own where
// nobody stands between. Models share endpoints: the cluster is ejected when all of its models are.
func merge(sights []failover.Sight, from signal.Sight, own bool) []failover.Sight {
	c := from.Signal
	next := failover.Sight{
		Router:     from.Router,
		Region:     from.Region,
		Own:        own,
		Age:        from.Age,
		Ejected:    c.GetEjected(),
		Reason:     c.GetEjectReason(),
		Scraped:    c.GetScraped() && c.GetAgeMs() >= 0,
		Total:      int(c.GetEndpointsTotal()),
		Ready:      int(c.GetEndpointsReady()),
		Saturation: signal.Number(c.GetSaturation()),
		TTFTP95:    time.Duration(min(signal.Number(c.GetTtftP95Ms()), maxTTFTMs) * float64(time.Millisecond)),
		Requests:   from.Requests,
		Failures:   from.Failures,
	}
	if n := len(sights); n > 0 && sights[n-1].Router == next.Router {
		last := &sights[n-1]
		last.Ejected = last.Ejected && next.Ejected
		last.Scraped = last.Scraped || next.Scraped
		last.Total, last.Ready = max(last.Total, next.Total), max(last.Ready, next.Ready)
		last.Saturation = max(last.Saturation, next.Saturation)
		last.TTFTP95 = max(last.TTFTP95, next.TTFTP95)
		last.Requests += next.Requests
		last.Failures += next.Failures
		return sights
	}
	return append(sights, next)
}

// Covered is the part, 0..1, of the weight of a table, counted by configured capacity, that stands in regions
// with a fresh report, or in members of which no router of ours reports more than others. Without a table there is nothing to wait for, and it is 1.
func Covered(resources Lookup, s signal.Snapshot, table *routerpb.Table) float64 {
	weights := map[string]float64{}
	for _, list := range table.GetWeights() {
		for _, c := range list.GetClusters() {
			weights[c.GetCluster()] += signal.Number(c.GetWeight())
		}
	}
	var heard, all float64
	for _, r := range resources.List(policy.KindCluster) {
		spec, ok := r.Spec.(*policy.ClusterSpec)
		if !ok {
			continue
		}
		weighted := weights[r.Metadata.Name] * prior(spec)
		all += weighted
		if direct(spec) || s.Region(fleet.RegionID(spec.Region)).Freshness == signal.Fresh {
			heard += weighted
		}
	}
	if all <= 0 {
		return 1
	}
	return heard / all
}
