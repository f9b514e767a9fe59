package world

import (
	"math/rand/v2"
	"time"

	"anabranch/sim"
	"anabranch/sim/workload"
)

// Policy routes. One value serves one run, all routers of all regions; it must keep apart what
// routers can't know of each other, since each [View] shows what one router knows. It is called from
// one goroutine, must take time from the View and chance from View.Rand only.
type Policy interface {
	// Name in lower case with hyphens.
	Name() string
	// Start is called once, before everything else, with defaults filled in ([Spec.WithDefaults]).
	Start(*Spec)
	// Route chooses a cluster for a request at a router that it has come to from a client, or come
	// back to when an attempt has failed: v.Attempt counts from 1, and v.Tried are the clusters and
	// pods of failed ones.
	Route(r *workload.Request, v *View) Route
	// Pick chooses a pod of a cluster for a request that has come to a router of its region. Away is
	// the region that it came from by way of another router; -1: it is a client's here.
	Pick(r *workload.Request, cluster, away int, v *View) Pick
	// Sent, First and Ended tell the router that picked how it goes on: the request is on its way to
	// the pod; its first token has come; it is over. The router that routed it to another region has an
	// Attempt of its own: Sent when it goes off, its Pod still -1, First and Ended when it would hear of
	// it, with the Pod that the other told it. Ended comes once for each Sent, also where the router
	// itself has died. An Attempt is the world's, and valid until Ended returns.
	Sent(a *Attempt, v *View)
	First(a *Attempt, v *View)
	Ended(a *Attempt, how Outcome, v *View)
	// Tick is called for each router each [TickInterval], and Heard when a measurement has come to it
	// that is in the View now.
	Tick(v *View)
	Heard(h *Heard, v *View)
}

// Queuer is a [Policy] that says itself in which order requests leave the routers' queues. Without it
// they are routed again by priority, then in order of arrival at the queue. When one was told to wait, so
// are those behind it of the same model and, if they have come by way of another router, region; a tenant
// with a residency has a turn of its own.
type Queuer interface {
	// Release names a request that waits at the router and shall be routed (or picked for) again;
	// false: none. It is asked until then or until a request that it named has been told to wait again.
	Release(v *View) (id uint64, ok bool)
	// Gone says that a request has left the router's queue otherwise: its client has left, or the router
	// has died.
	Gone(r *workload.Request, v *View)
}

// Retrier is a [Policy] that decides itself how often a request is tried, by routing it nowhere.
type Retrier interface {
	// MaxAttempts is how often at most, in place of the constant.
	MaxAttempts() int
	// Picks is how often a router picks for a request from another region before it sends it back: again
	// when its pod has refused it. Of others it is once.
	Picks() int
}

// TickInterval is how often [Policy].Tick is called; MaxAttempts is how often a request is tried;
// Unreachable is how long it takes until a connection to a region that is silent fails, and until
// what is under way there is given up.
const (
	TickInterval = 100 * time.Millisecond
	MaxAttempts  = 3
	Unreachable  = time.Second
)

// Codes of [Route] without a cluster. Any other code ends as [Failed].
const (
	CodeNoCapacity = "no_capacity"         // ends as Shed
	CodeQuota      = "rate_limit_exceeded" // ends as Denied
)

// Route is the choice of a cluster.
type Route struct {
	// Cluster by its place in the Spec; -1: none.
	Cluster int
	// Wait: the request waits in the router. It is routed again when something there has ended, or
	// every 10 ms. Else, without a cluster, it is refused.
	Wait bool
	// Code says why it is refused, as an error code would.
	Code string
	// Reason for people, wanted only if View.Explain.
	Reason string
}

// Pick is the choice of a pod.
type Pick struct {
	// Pod of the cluster, from 0; -1: none: a client's request is then routed again as after a failed
	// attempt, and so is one from another region, at the router that it came from.
	Pod int
	// Wait, without a pod: the request waits in the router. A client's is then routed again, one from
	// another region picked for again, when something has ended or every 10 ms.
	Wait bool
	// Bound is how long the router waits for the first token before it gives the attempt up and routes
	// again. 0: as long as the client.
	Bound time.Duration
	// Reason for people, wanted only if View.Explain.
	Reason string
}

// Attempt is one request on its way.
type Attempt struct {
	Request *workload.Request
	Number  int // from 1
	// Router that holds it and Cluster and Pod that it went to; Pod -1: not known here.
	Router, Cluster, Pod int
	// Away: Router is of another region than Cluster, and another router picked.
	Away bool
	// Sent and First are by the router's clock; First 0: no token has come.
	Sent, First time.Duration
	// Cached prompt tokens, as the pod told it, and Output tokens so far told; set when it has ended.
	Cached, Output int
	// Data is the policy's own.
	Data any
}

// Outcome is how an attempt ended.
type Outcome uint8

// The outcomes of attempts.
const (
	Answered Outcome = iota // whole
	Refused                 // no connection within Unreachable, refused, or reset before the first token
	Silent                  // nothing came within the bound
	Broken                  // it broke off after the first token; it is not tried again
	Left                    // the client, or the router that it came from, left
	Full                    // the router of the other region had no place for it
	Unfit                   // the pod can't ever serve it: too long, or an adapter without slots; it is not tried again
)

// View is what a router knows. It is valid during the call, and must not be changed.
type View struct {
	// Router by number, and Region that it is in, by its place in the Spec.
	Router, Region int
	// Now by the clock of the region.
	Now time.Duration
	// Clusters by their place in the Spec, as last heard of.
	Clusters []ClusterView
	// RTT to each region as the router measures it.
	RTT []time.Duration
	// Attempt and Tried of the request that is to be routed or picked for, and how long it has waited in
	// this router.
	Attempt int
	Tried   []Place
	Waited  time.Duration
	Rand    *rand.Rand // the router's own
	// Leader: the control plane has one. QuotaStore: it answers.
	Leader, QuotaStore bool
	// Explain: the reason of the choice is wanted.
	Explain bool
	// Truth is everything as it really is. For the oracle alone.
	Truth Truth
}

// Place is a pod of a cluster; -1: the cluster as a whole.
type Place struct{ Cluster, Pod int }

// ClusterView is what a router has heard of a cluster: of its own region's pod by pod, of others by
// what is told. It has a zero At until something is heard.
type ClusterView struct {
	// Pods of a cluster of the own region; nil elsewhere. Pods that have gone keep their place, and are
	// not Known; new ones follow at the end when they are first heard of.
	Pods []PodView
	// Told is of the whole cluster, as last told, also where Pods are known.
	Told Told
	// InFlight is this router's own requests there, whether it has picked their pods or not.
	InFlight int
	// PriceMicroUSD is the price of all its pods for an hour, as published; it is known at once.
	PriceMicroUSD int64
}

// PodView is a pod as last scraped.
type PodView struct {
	// Known: it is listed, whether alive or not.
	Known bool
	// At is when it was measured by its region's clock; 0: never.
	At               time.Duration
	Waiting, Running int
	KV               float64  // share of the KV cache in use, 0..1
	Slots            int      // of its batch
	KVTokens         int      // of the whole cache
	Adapters         []string // resident
	MaxAdapters      int
	// Counters since it was started: tokens generated, prompt tokens looked up in its prefix cache, and of
	// these found there.
	Generated, PrefixAsked, PrefixFound uint64
	// Failing: the last scrape got no answer; all but At is as before.
	Failing bool
	// InFlight is this router's own requests there, also those that it picked for other routers.
	InFlight int
}

// Told is what a cluster's region tells of it.
type Told struct {
	At               time.Duration // by its region's clock; 0: nothing yet
	Waiting, Running int           // sums
	KV               float64       // mean over pods
	Ready, Pods      int           // that answer, and that are listed
	Slots            int           // of the batches of those ready
	// FirstToken is the 95th percentile of first-token times of the last 10 s there. 0: none.
	FirstToken time.Duration
	// PrefixHits is the share of prompt tokens found in caches in the last 10 s, Errors the share of
	// requests that failed there.
	PrefixHits, Errors float64
}

// Heard is a measurement that has come: of a pod (Pod ≥ 0), or of a cluster as a whole (-1).
type Heard struct {
	Cluster, Pod int
}

// Truth is the state of everything now, for policies that may know it.
type Truth interface {
	// Engine of a pod; nil: it is dead, starting up, or takes nothing new.
	Engine(cluster, pod int) *sim.Engine
	// Pods of a cluster that have ever been, dead and gone ones too.
	Pods(cluster int) int
	// Slow is by what factor it takes longer.
	Slow(cluster, pod int) float64
	// Hangs says whether the cluster answers nothing.
	Hangs(cluster int) bool
	// Reachable says whether routers of a region and a cluster reach each other.
	Reachable(region, cluster int) bool
}
