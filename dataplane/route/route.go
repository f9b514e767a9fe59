// Package route chooses a cluster, and with it a region, for a request: a filter that is never
// widened, a weighted rendezvous hash that honours the table's weights exactly, and a local
// override on fresh evidence. It also draws the arm of a split. All of it is a pure function of what
// it is given. Which rule speaks of a request is for the table to say; what stands within a cluster
// is others' business.
package route

import (
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// Place is the router's own evidence of a cluster. The zero Place says that nothing is known.
type Place struct {
	// Ejected: the router itself has found it dead; Reason says how.
	Ejected bool
	Reason  string
	// Busy: it has said that it has no room now.
	Busy bool
	// Unanswered: requests like this one have gone without an answer there, one after another. Trial: one
	// of them may try now.
	Unanswered, Trial bool
	// Share of its weight that it should get while it has been answering again for a short time only; 0:
	// all.
	Share float64
	// Saturation is load over capacity; 0 if not known. See [Input.Ceiling].
	Saturation float64
	// Wait is the predicted time that a request queues there, without the way to it; 0 if not known.
	Wait time.Duration
	// Prefill is the predicted time to compute this request's prompt there, but for what its cache is
	// believed to hold; 0 if not known.
	Prefill time.Duration
}

// Input is everything that a choice depends on.
type Input struct {
	Table *table.Table
	// Region is the router's own.
	Region fleet.RegionID
	// Model is the base model to serve, as rules have rewritten it.
	Model *table.Model
	Class *table.Class
	// Tenant whose residency holds. Nil: no limit of residence.
	Tenant *table.Tenant
	// Residency of the rule, in zones or regions: what the tenant's allows and this doesn't is not
	// allowed. Empty: as the tenant's.
	Residency []string
	// Only these clusters, by a pin of the rule or of its arm. Empty: any.
	Only []fleet.ClusterID
	// Key is the affinity key: equal keys go to the same place while weights stay.
	Key uint64
	// Hop: the request came from another region's router, and must not leave this one.
	Hop bool
	// Ceiling is the saturation from which on a place is full for this request, by its priority.
	// 0 or less: 1.
	Ceiling float64
	// Stale: what the table says of the health of places that this router does not see itself is too
	// old to go by. Alone: so is what it says of all others. Weights, drains and rules hold all the
	// same; of places whose health is not known any more, those without weight are a last resort.
	Stale, Alone bool
	// Local gives the router's own evidence of a cluster, for requests of Tenant. Nil: none of any.
	Local func(fleet.ClusterID, *table.Tenant) Place
	// Leaning is the account by which shares are made up for. Nil: they count as the table has them.
	Leaning *Leaning
	// Long: the prompt is one of the longest, which are the slowest wherever they go. Among places with weight
	// the one that is soonest, way and prompt together, comes before one that was drawn farther away, as long as
	// its share bears it; shorter prompts go there instead. Local must tell [Place].Prefill then.
	Long bool
	// Drill is the drill by whose weights the request goes where it has any, and not by the table's; nil: by none.
	// Clusters that it drills and gives nothing are no targets then. One that brings traffic back to places that an
	// operator has drained lets these be used.
	Drill *table.Drill
	// Rehearsed says whether a cluster is to be taken for dead, and why. Nil: none is.
	Rehearsed func(fleet.ClusterID) (reason string, dead bool)
	// Evacuated says whether an emergency order keeps a cluster free of requests, and which. Nil:
	// there is none.
	Evacuated func(fleet.ClusterID) (order string, yes bool)
	// Restored says whether an emergency order lets a cluster be used that the control plane has
	// drained or allows nothing. Nil: there is none.
	Restored func(fleet.ClusterID) bool
}

// Target is a place to send the request to.
type Target struct {
	Cluster *table.Cluster
	Region  fleet.RegionID
	// Remote: by way of that region's router. A provider is called directly, wherever it is.
	Remote bool
	// Weight is the table's share.
	Weight float64
	// Reason is why it stands where it does in the order.
	Reason string
	// RTT is the round trip to its region, Place the evidence by which it was judged.
	RTT   time.Duration
	Place Place

	rank rank
	// drawn is the share that it stands in the draw with, before anything is made up for; 0: in none.
	drawn float64
}

// Hint is the cluster to name to the router of the target's region; empty where that region's routers
// choose by themselves.
func (t *Target) Hint() fleet.ClusterID {
	if t.Cluster.Kind == table.KindRouter {
		return ""
	}
	return t.Cluster.ID
}

// Removal is a cluster that isn't a target, and why.
type Removal struct {
	Cluster fleet.ClusterID
	// Reason is one of the reasons of removals below.
	Reason string
	// Detail says more for people: what was found, or the order. Often empty.
	Detail string
}

// String is the reason with its detail.
func (r Removal) String() string {
	if r.Detail == "" {
		return r.Reason
	}
	return r.Reason + ": " + r.Detail
}

// Reasons of targets.
const (
	ByWeight   = "weight"         // the rendezvous by the table's weights
	ByFallback = "fallback"       // weight 0, for want of anything better
	ByStandby  = "standby"        // the policy gives it nothing while anything else is alive
	ByOverflow = "local overflow" // earlier than its draw: the one before it is full
	Full       = "full"           // later than its draw
	ByNearness = "long prompt"    // earlier than its draw: it is nearer, and the prompt one of the longest
	ByReturn   = "returning"      // by the draw, with less than its weight: it has not answered for long again
	ByTrial    = "trial"          // by the draw: requests went unanswered there, and one may see whether they still do
	Unanswered = "unanswered"     // after all others: requests go unanswered there
)

// Reasons of removals.
const (
	Residency = "residency"      // the tenant may not be served there
	Narrowed  = "rule residency" // nor may what the rule matches
	Pinned    = "pin"            // the rule or its arm uses other clusters
	Self      = "self"           // a member that stands for this router's own region
	Hopped    = "hop"            // has come from another region already
	NotThere  = "no peer"        // no router of that region can be reached
	Drained   = "drained"        // by an operator
	Evacuated = "evacuated"      // by an emergency order
	Unhealthy = "health"         // the control plane allows it nothing
	Ejected   = "ejected"        // this router found it dead
	Drilled   = "drill"          // the drill takes it out
	Unlisted  = "not in table"   // the control plane has no place for the model and class to list
	NoSpill   = "no spill"       // the class stays in its region while that is alive
)

// Codes of an empty choice.
const (
	// NoLegalTarget: rules and operators' orders leave nothing, whatever is alive, so that waiting
	// does not help.
	NoLegalTarget = "no_legal_target"
	// NoCapacity: what they leave is dead.
	NoCapacity = "no_capacity"
)

// Choice is where to send a request, best first, to go on with down the list. The zero Choice is
// ready to be filled.
type Choice struct {
	Targets []Target
	Removed []Removal
	// Code is set when there is no target: [NoLegalTarget] or [NoCapacity].
	Code string

	found []Target // in the table's order
	ranks []rank   // of those found
}

// Margin is how much better another place must be than a full one before it, so that neither noise
// nor two regions that are equally full send requests back and forth.
const Margin = 100 * time.Millisecond

// Choose orders the legal, living clusters: first those with weight, by weighted rendezvous; then
// those that the table gives nothing, as a last resort; after these those where requests go
// unanswered. Clusters that the table's list leaves out are not legal.
func Choose(in Input) Choice {
	var c Choice
	c.Fill(&in)
	return c
}

// Prefer puts the cluster that a peer chose first, if it is among the targets.
func (c *Choice) Prefer(hint fleet.ClusterID) {
	i := slices.IndexFunc(c.Targets, func(t Target) bool { return t.Cluster.ID == hint })
	if i <= 0 {
		return
	}
	wanted := c.Targets[i]
	copy(c.Targets[1:i+1], c.Targets[:i])
	c.Targets[0] = wanted
}
