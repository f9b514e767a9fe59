package world

import (
	"time"

	"anabranch/api/fleet"
)

// End is how a request ended for its client.
type End uint8

// The ends of requests.
const (
	OK     End = iota // answered whole
	Shed              // refused for want of room: CodeNoCapacity, or Full at the last attempt
	Denied            // refused by quota: CodeQuota
	Failed            // refused since nothing could answer it
	Cut               // broken off after its first token
	GaveUp            // the client left before the first token
)

// Record is one request as its client saw it. Times are true ones since the start.
type Record struct {
	ID uint64
	At time.Duration
	// First token and Last of the answer at the client; First 0: none came.
	First, Last time.Duration
	// Queued is how long it waited in routers.
	Queued time.Duration
	// Region of the client, Cluster, Model by their place in the Spec; Cluster and Pod -1: none answered.
	// Tenant as in Result.Tenants.
	Region, Cluster, Pod, Model, Tenant int32
	// Output is what the client got, Cached the prompt tokens found in the cache of the pod that answered.
	Prompt, Output, Cached int32
	Priority               int32
	Attempts               uint8
	End                    End
	// Abroad: it was served, if only in part, in a zone where its tenant may not be.
	Abroad bool
}

// Result of a run.
type Result struct {
	// Spec with defaults.
	Spec    *Spec
	Policy  string
	Seed    uint64
	Tenants []fleet.TenantID
	// Records of requests that arrived after the warm-up, in order of arrival.
	Records []Record
	// Points of time at which Series were taken, one a second or, of runs of more than 2,000 s, less often,
	// so that there are at most 2,000.
	Points []time.Duration
	Series Series
	// Pods by cluster, those that came later at the end.
	Pods [][]PodTotal
	// Ended is when the last request ended: until then Pods have been paid for.
	Ended time.Duration
	// Events is how many things happened in the world: messages, steps of engines, measurements.
	Events int
	// Explained is what was asked for by Options.Explain, by request.
	Explained map[uint64][]Step
}

// Series over time. Each has a row for each cluster with a value for each of Result.Points, but Queue,
// which has one for each region.
type Series struct {
	Running, Waiting, Ready [][]float32
	Price                   [][]float32 // dollars an hour
	Queue                   [][]float32 // requests that wait in routers
	// Weights is the share of each cluster in a policy that has weights: rows are source region ×
	// cluster. Nil of others.
	Weights [][]float32
}

// PodTotal is what a pod has done after the warm-up.
type PodTotal struct {
	Class string
	// Served is how many Records it has answered whole.
	Served int
	// Prompt, Cached and Output are all tokens that its engine has admitted, found and generated, also
	// for requests whose clients had left or that were tried again elsewhere.
	Prompt, Cached, Output int64
	// Alive is how long it was paid for, from its start-up until it died or had gone, and MicroUSD what it
	// cost then.
	Alive     time.Duration
	MicroUSD  int64
	Preempted uint64
}

// Step is one step of how a request went, for people.
type Step struct {
	At   time.Duration
	Text string
}

// Weigher is a [Policy] with weights over time.
type Weigher interface {
	// Weights of clusters as seen from a region, by their place in the Spec. To be copied.
	Weights(region int) []float64
}

// Options of a run.
type Options struct {
	Seed uint64
	// Explain says of which requests the steps are wanted. Nil: of none.
	Explain func(id uint64) bool
	// Progress is told now and then how far it is, 0..1: by the share of Spec.Duration, if that is set, and
	// 1 at the end. Nil: nobody is.
	Progress func(float64)
}
