package quotas

import "anabranch/ratelimit"

// buckets are one for each limit.
type buckets struct {
	limits []ratelimit.Limit
	state  []ratelimit.Bucket
}

func fullBuckets(limits []ratelimit.Limit, nowUs int64) *buckets {
	b := &buckets{limits: limits}
	for _, l := range limits {
		b.state = append(b.state, ratelimit.Full(l, nowUs))
	}
	return b
}

// take takes the request's costs from all limits of its path, or from none. A request that costs more than a
// bucket holds passes a full one if large, and leaves a debt.
func (b *buckets) take(r *request, nowUs int64, large bool) bool {
	way := path(r.tenant)
	passes := true
	for i, l := range way {
		b.state[l] = b.state[l].Refill(b.limits[l], nowUs)
		need := r.costs[i]
		if large {
			need = min(need, b.limits[l].Burst)
		}
		passes = passes && b.state[l].Level >= need
	}
	if passes {
		for i, l := range way {
			b.state[l] = b.state[l].Charge(b.limits[l], r.costs[i])
		}
	}
	return passes
}
