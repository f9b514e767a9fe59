package report

import "anabranch/sim/report/stat"

// Figures of one run of one policy. What a source can't know is unknown: a replay knows no queues in
// pods, a run without weights no churn. Times are of the client, money is in micro-dollars.
type Figures struct {
	Policy string `json:"policy"`
	Seed   uint64 `json:"seed"`
	// Seconds from the end of the warm-up to the end of the last request: rates are per second of it.
	Seconds stat.Number `json:"seconds"`
	Ends    Ends        `json:"ends"`
	// TTFT is the time to first token of the requests that got one, InterToken the mean time between
	// tokens of each whole answer of at least two, Latency the time to the last token of whole answers;
	// all in milliseconds.
	TTFT        stat.Spread `json:"ttftMs"`
	InterToken  stat.Spread `json:"interTokenMs"`
	Latency     stat.Spread `json:"latencyMs"`
	Goodput     Goodput     `json:"goodput"`
	Throughput  Throughput  `json:"throughput"`
	Routing     Routing     `json:"routing"`
	Balance     Balance     `json:"balance"`
	Queue       Queue       `json:"queue"`
	Weights     Churn       `json:"weights"`
	Rules       Rules       `json:"rules"`
	Cost        Cost        `json:"cost"`
	Recovery    Recovery    `json:"recovery"`
	Preemptions stat.Number `json:"preemptions"`

	// Clusters and Tenants in detail; Tenants are those with a quota.
	Clusters []Cluster `json:"clusters,omitempty"`
	Tenants  []Tenant  `json:"tenants,omitempty"`
	// Curve is the TTFT in milliseconds at each of CurveAt's percentiles; nil without any.
	Curve []stat.Number `json:"ttftCurveMs,omitempty"`
	// Timeline is kept of the first seed of a policy only. Nil: none was taken.
	Timeline *Timeline `json:"timeline,omitempty"`
}

// Ends counts how requests ended.
type Ends struct {
	Requests stat.Number `json:"requests"`
	Answered stat.Number `json:"answered"` // whole
	Shed     stat.Number `json:"shed"`     // for want of room
	Denied   stat.Number `json:"denied"`   // by quota
	Failed   stat.Number `json:"failed"`   // since nothing could answer
	Cut      stat.Number `json:"cut"`      // after the first token
	GaveUp   stat.Number `json:"gaveUp"`   // the client left before the first token
	// Lost is the share of requests, those denied apart, that were not answered whole: 0..1.
	Lost stat.Number `json:"lost"`
}

// Goodput is of whole answers whose first token and mean time between tokens kept the objectives of
// their model.
type Goodput struct {
	// Share of all requests but those denied by quota, 0..1.
	Share     stat.Number `json:"share"`
	PerSecond stat.Number `json:"perSecond"`
}

// Throughput is of whole answers.
type Throughput struct {
	Requests stat.Number `json:"requestsPerS"`
	Output   stat.Number `json:"outputTokensPerS"`
}

// Routing is where requests went.
type Routing struct {
	// HitRate is the share of prompt tokens found in prefix caches, of the requests that reached a pod
	// and got a token. CrossRegion is the share of them served outside of their client's region.
	HitRate     stat.Number `json:"hitRate"`
	CrossRegion stat.Number `json:"crossRegion"`
	// Retries per request: attempts beyond the first.
	Retries stat.Number `json:"retries"`
}

// Balance is the share of equal pods (one cluster, one class) of what they served together, by the
// time that each was alive. It is told of the worst group, by variation, but of none whose pods served
// less than a tenth of what the fleet's did on average. All of it is unknown without a group of two.
type Balance struct {
	Min stat.Number `json:"minShare"` // 0..1
	Max stat.Number `json:"maxShare"`
	// CV is the coefficient of variation of the shares, and OverFair the largest share times the number
	// of pods: 1 is even.
	CV       stat.Number `json:"cv"`
	OverFair stat.Number `json:"overFair"`
}

// Queue is waiting.
type Queue struct {
	// P50 and P99 of the time that requests waited in routers, those included that didn't; milliseconds.
	P50 stat.Number `json:"p50Ms"`
	P99 stat.Number `json:"p99Ms"`
	// Routers and Pods are the mean number of requests that wait in all of them, Running that of those
	// in the pods' batches.
	Routers stat.Number `json:"routers"`
	Pods    stat.Number `json:"pods"`
	Running stat.Number `json:"running"`
}

// Churn is how much weights move, as the mean of source regions.
type Churn struct {
	// PerMinute is the sum of |Δ| over clusters and time; 2 is everything moved elsewhere once.
	PerMinute stat.Number `json:"churnPerMinute"`
	// Reversals a minute: a weight turned round after it had moved by more than the dead-band of 2 %.
	Reversals stat.Number `json:"reversalsPerMinute"`
}

// Rules is how well rules were kept.
type Rules struct {
	// Violations of residency, in requests.
	Violations stat.Number `json:"residencyViolations"`
	// QuotaOver and QuotaUnder are by what share the tokens admitted differ from what one exact bucket
	// would have admitted, of the tenant that differs most.
	QuotaOver  stat.Number `json:"quotaOver"`
	QuotaUnder stat.Number `json:"quotaUnder"`
}

// Cost of a run, in micro-dollars.
type Cost struct {
	// Fleet is what all pods cost while they were alive, Work what the requests would have cost had
	// each pod been paid only for the time that their work takes it at full use.
	Fleet stat.Number `json:"fleetMicroUSD"`
	Work  stat.Number `json:"workMicroUSD"`
	// PerAnswer and WorkPerAnswer are of whole answers. PerMillion is Fleet for a million tokens of
	// theirs, prompt and output.
	PerAnswer     stat.Number `json:"perAnswerMicroUSD"`
	WorkPerAnswer stat.Number `json:"workPerAnswerMicroUSD"`
	PerMillion    stat.Number `json:"perMillionTokensMicroUSD"`
	// OverBound is the cost divided by a lower bound of it: 1.1 is 10 % more than could be. See
	// [Figures.Bound].
	OverBound stat.Number `json:"overBound"`
}

// Bound sets the cost against a lower bound of the same thing, both in micro-dollars.
func (f *Figures) Bound(cost, bound float64) { f.Cost.OverBound = stat.Ratio(cost, bound) }

// Recovery is from the first event after the warm-up.
type Recovery struct {
	// Seconds until goodput is back at 95 % of what it was before, for three buckets of time in turn;
	// if it isn't by the end, until then.
	Seconds stat.Number `json:"seconds"`
	// Lost requests are those not answered whole, but those denied by quota, that arrived from a minute
	// before the event on.
	Lost stat.Number `json:"lostRequests"`
	// Peak is the longest queue of a cluster afterwards, in requests per pod that was ready.
	Peak stat.Number `json:"peakWaitingPerPod"`
}

// Cluster in detail.
type Cluster struct {
	Name   string `json:"name"`
	Region string `json:"region,omitempty"`
	// Share of all requests served, 0..1.
	Share   stat.Number `json:"share"`
	HitRate stat.Number `json:"hitRate"`
	Pods    []Pod       `json:"pods"`
}

// Pod in detail.
type Pod struct {
	Name  string `json:"name"`
	Class string `json:"class,omitempty"`
	// Share of the cluster's pods of its class, by the time that each was alive, 0..1.
	Share   stat.Number `json:"share"`
	HitRate stat.Number `json:"hitRate"`
	Served  int         `json:"served"`
}

// Tenant with a quota, in tokens.
type Tenant struct {
	Name      string `json:"name"`
	PerMinute int64  `json:"perMinute"`
	Admitted  int64  `json:"admitted"`
	// Exact is what one bucket, in one place and always up to date, would have admitted.
	Exact int64 `json:"exact"`
}
