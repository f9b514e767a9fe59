package plan

import (
	"fmt"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/failover"
)

// Evidence puts together what all routers say of each model on each cluster that is configured, and what nodes of the
// control plane found where no router stands, in the words of package failover. Clusters are weighed by the capacity
// they are configured with, of which each model counts for a like part: of some none may have been measured yet.
func Evidence(resources Lookup, s signal.Snapshot) map[failover.Place]failover.Evidence {
	w := &world{resources: resources, policies: traffic(resources)}
	config := FailoverConfig(resources)
	routers := 0
	for _, o := range s.Routers {
		if o.Freshness(s.At) == signal.Fresh {
			routers++
		}
	}
	stations := stationsOf(s)
	out, fresh, all := map[failover.Place]failover.Evidence{}, map[failover.Place]float64{}, map[fleet.ModelID]float64{}
	missing, adapters := map[failover.Place][]string{}, adaptersOf(resources)
	for _, r := range resources.List(policy.KindCluster) {
		spec, ok := r.Spec.(*policy.ClusterSpec)
		if !ok {
			continue
		}
		id := fleet.ClusterID(r.Metadata.Name)
		sights, polls := map[string][]failover.Sight{}, s.Polls(id)
		for _, sight := range s.Sights(id) {
			at := failover.Place{Cluster: id, Model: fleet.ModelID(sight.Signal.GetModel())}
			if signal.FreshnessOf(sight.Age) == signal.Fresh {
				fresh[at] += float64(sight.Signal.GetRequests())
			}
			own := direct(spec) || sight.Region == fleet.RegionID(spec.Region)
			if own && sight.Age <= config(at).WithDefaults().Silence {
				missing[at] = append(missing[at], sight.Signal.GetMissingAdapters()...)
			}
			sights[string(at.Model)] = append(sights[string(at.Model)], seen(sight, own))
		}
		for _, m := range spec.Models {
			at := failover.Place{Cluster: id, Model: fleet.ModelID(m)}
			all[at.Model] += fresh[at]
			out[at] = failover.Evidence{
				Region:    fleet.RegionID(spec.Region),
				Capacity:  prior(spec) / float64(len(spec.Models)),
				Drained:   spec.Drained,
				Pin:       failover.Pin{Until: spec.Pin.Ends(), Share: spec.Pin.Share()},
				Objective: time.Duration(w.speakerOf(at.Model).TTFTObjectiveMs * float64(time.Millisecond)),
				Sights:    polled(sights[m], polls),

				MissingAdapters: among(adapters[m], missing[at]),
			}
			if there := stations[out[at].Region]; there != nil && !direct(spec) {
				in := out[at]
				in.Skew, in.Versions = there.skew, len(there.versions)
				out[at] = in
			}
		}
	}
	for at, in := range out {
		// A probe by each router is no traffic.
		in.Quiet = fresh[at] <= max(float64(routers), config(at).WithDefaults().QuietShare*all[at.Model])
		out[at] = in
	}
	return out
}

// adaptersOf are the adapters of each model, as operators say, whatever routers tell of them.
func adaptersOf(resources Lookup) map[string][]string {
	out := map[string][]string{}
	for _, r := range resources.List(policy.KindModel) {
		if spec, ok := r.Spec.(*policy.ModelSpec); ok && len(spec.Adapters) > 0 {
			out[r.Metadata.Name] = spec.Adapters
		}
	}
	return out
}

// among are those of some adapters that are named, sorted. Nil: none.
func among(adapters, named []string) (out []string) {
	for _, a := range adapters {
		if slices.Contains(named, a) {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return out
}

// station is what a region's routers are like.
type station struct {
	skew     time.Duration // of the worst clock, as far as clocks are told
	versions map[string]bool
}

// stationsOf looks at the routers that were heard of lately. A clock counts as off by what lies between when a report
// was sent, on the router's clock, and when it came, on a node's, so by its way too.
func stationsOf(s signal.Snapshot) map[fleet.RegionID]*station {
	out := map[fleet.RegionID]*station{}
	for _, o := range s.Routers {
		if o.Freshness(s.At) != signal.Fresh {
			continue
		}
		at := out[o.Region()]
		if at == nil {
			at = &station{versions: map[string]bool{}}
			out[o.Region()] = at
		}
		at.versions[o.Hello.GetVersion()] = true
		if sent := o.Report.GetClockUnixMs(); sent != 0 {
			at.skew = max(at.skew, o.Received.Sub(time.UnixMilli(sent)).Abs())
		}
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

// maxTTFTMs bounds what a router may report as time to the first token, an hour.
const maxTTFTMs = 3_600_000

// seen is what a router says of one model on a cluster, which is its own where nobody stands between.
func seen(from signal.Sight, own bool) failover.Sight {
	c := from.Signal
	return failover.Sight{
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
