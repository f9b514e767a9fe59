// Package route chooses a cluster, and with it a region, for a request: a filter that is never
// widened, a weighted rendezvous hash that honours the table's weights exactly, and a local
// override on fresh evidence. It is a pure function of what it is given. What stands within a
// cluster is others' business.
package route

import (
	"cmp"
	"math"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// Place is the router's own evidence of a cluster.
type Place struct {
	// Ejected: the router itself has found it dead; Reason says how.
	Ejected bool
	Reason  string
	// Saturation is load over capacity, 1 and above is full; 0 if not known.
	Saturation float64
	// Wait is the predicted time to the first token there, without the way to it; 0 if not known.
	Wait time.Duration
}

// Input is everything that a choice depends on.
type Input struct {
	Table *table.Table
	// Region is the router's own.
	Region fleet.RegionID
	Model  *table.Model
	Class  *table.Class
	// Tenant whose residency holds. Nil: no limit of residence.
	Tenant *table.Tenant
	// Key is the affinity key: equal keys go to the same place while weights stay.
	Key uint64
	// Hop: the request came from another region's router, and must not leave this one.
	Hop bool
	// Local gives the router's own evidence of a cluster. Nil: none of any.
	Local func(fleet.ClusterID) Place
}

// Target is a place to send the request to.
type Target struct {
	Cluster *table.Cluster
	Region  fleet.RegionID
	// Remote: by way of that region's router.
	Remote bool
	// Weight is the table's share.
	Weight float64
	// Reason is why it stands where it does in the order.
	Reason string

	score float64 // of the rendezvous, higher is earlier
	group int     // lower is earlier
	place Place
}

// Removal is a cluster that isn't a target, and why.
type Removal struct {
	Cluster fleet.ClusterID
	Reason  string
}

// Reasons of targets.
const (
	ByWeight   = "weight"         // the rendezvous by the table's weights
	ByFallback = "fallback"       // weight 0, for want of anything better
	ByOverflow = "local overflow" // earlier than its draw: the one before it is full
	Full       = "full"           // later than its draw
)

// Reasons of removals.
const (
	Residency = "residency" // the tenant may not be served there
	NotThere  = "no peer"   // no router of that region can be reached
	Hopped    = "hop"       // has come from another region already
	Drained   = "drained"   // by an operator
	Unhealthy = "health"    // the control plane allows it nothing
	Ejected   = "ejected"   // this router found it dead
	NoSpill   = "no spill"  // the class stays in its region while that is alive
)

// Codes of an empty choice.
const (
	// NoLegalTarget: rules and operators' orders leave nothing, whatever is alive, so that waiting
	// does not help.
	NoLegalTarget = "no_legal_target"
	// NoCapacity: what they leave is dead.
	NoCapacity = "no_capacity"
)

// Choice is where to send a request, best first, to go on with down the list.
type Choice struct {
	Targets []Target
	Removed []Removal
	// Code is set when there is no target: [NoLegalTarget] or [NoCapacity].
	Code string
}

// Margin is how much better a remote must be than a full place before it, so that neither noise
// nor two regions that are equally full send requests back and forth.
const Margin = 100 * time.Millisecond

// Choose orders the legal, living clusters: first those with weight, by weighted rendezvous; then
// those that the table gives nothing, as a last resort. Clusters that the table's list leaves out
// are not legal.
func Choose(in Input) Choice {
	var c Choice
	legal := 0
	for _, w := range weights(in) {
		reason, isLegal := in.removed(w.Cluster)
		if isLegal {
			legal++
		}
		if reason != "" {
			c.Removed = append(c.Removed, Removal{w.Cluster.ID, reason})
			continue
		}
		c.Targets = append(c.Targets, in.target(w))
	}
	c.keepHome(in)
	slices.SortFunc(c.Targets, func(a, b Target) int {
		return cmp.Or(
			cmp.Compare(a.group, b.group),
			cmp.Compare(b.score, a.score),
			cmp.Compare(a.Cluster.ID, b.Cluster.ID),
		)
	})
	c.override(in)
	switch {
	case len(c.Targets) > 0:
	case legal > 0:
		c.Code = NoCapacity
	default:
		c.Code = NoLegalTarget
	}
	return c
}

// weights are the table's for the request's class, else for the default class. A combination
// that the table doesn't speak of has equal weights on all clusters that serve the model.
func weights(in Input) []table.Weight {
	for _, class := range []fleet.ClassID{in.Class.ID, fleet.DefaultClass} {
		if w, ok := in.Table.Weights(in.Model.ID, class, in.Region); ok {
			return w
		}
	}
	serving := in.Table.Serving(in.Model.ID)
	w := make([]table.Weight, len(serving))
	for i, c := range serving {
		w[i] = table.Weight{Cluster: c, Reason: "no weights in the table"}
	}
	return w
}

// removed says why a cluster can't be a target ("" if it can), and whether rules and operators allow
// it at all.
func (in *Input) removed(c *table.Cluster) (reason string, legal bool) {
	remote := c.Region != in.Region
	switch {
	case in.Tenant != nil && !in.Tenant.Allows(c.Region, c.Zone):
		return Residency, false
	case remote && in.Hop:
		return Hopped, false
	case remote && len(in.Table.Regions[c.Region].PeerURLs) == 0:
		return NotThere, false
	case c.Drained:
		return Drained, false
	case c.Cap == 0:
		return Unhealthy, true
	}
	if p := in.local(c); p.Ejected {
		if p.Reason == "" {
			return Ejected, true
		}
		return Ejected + ": " + p.Reason, true
	}
	return "", true
}

func (in *Input) local(c *table.Cluster) Place {
	if in.Local == nil {
		return Place{}
	}
	return in.Local(c.ID)
}

func (in *Input) target(w table.Weight) Target {
	t := Target{
		Cluster: w.Cluster, Region: w.Cluster.Region, Remote: w.Cluster.Region != in.Region,
		Weight: w.Share, Reason: ByWeight, place: in.local(w.Cluster),
	}
	share := w.Share
	if share == 0 {
		t.group, t.Reason = 1, ByFallback
		share = w.Cluster.Cap // the weights of the table have it in them, this one not
	}
	t.score = Score(share, in.Key, w.Cluster.Hash)
	return t
}

// keepHome removes remote targets of a class that doesn't spill while a local one is alive.
func (c *Choice) keepHome(in Input) {
	if in.Class.Spill || !slices.ContainsFunc(c.Targets, func(t Target) bool { return !t.Remote }) {
		return
	}
	c.Targets = slices.DeleteFunc(c.Targets, func(t Target) bool {
		if t.Remote {
			c.Removed = append(c.Removed, Removal{t.Cluster.ID, NoSpill})
		}
		return t.Remote
	})
}

// override puts the next choice first when the first is full and the next is sooner in spite of
// its way: the second of the rendezvous, not the best of all, so that overflow warms up one place.
func (c *Choice) override(in Input) {
	if len(c.Targets) < 2 {
		return
	}
	first, next := c.Targets[0], c.Targets[1]
	if first.place.Saturation <= 1 || next.place.Saturation > 1 {
		return
	}
	if in.cost(next)+Margin >= in.cost(first) {
		return
	}
	first.Reason, next.Reason = Full, ByOverflow
	c.Targets[0], c.Targets[1] = next, first
}

func (in *Input) cost(t Target) time.Duration {
	return in.Table.RTT(in.Region, t.Region) + t.place.Wait
}

// Score is a cluster's draw in the weighted rendezvous for a key: the highest wins, with a chance
// proportional to its weight, and a change of one weight moves only keys to or from that cluster.
// Weight 0 never wins.
func Score(weight float64, key, cluster uint64) float64 {
	if !(weight > 0) {
		return math.Inf(-1)
	}
	// 53 bits, never 0 or 1.
	u := (float64(mix(key^mix(cluster))>>11) + 0.5) / (1 << 53)
	return weight / -math.Log(u)
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
