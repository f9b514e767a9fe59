package rival

// random draws: a cluster with the probability of its share of the pods, and any of its pods.
type random struct{}

func (random) cluster(q *query) int {
	q.say("drawn by numbers of pods")
	return q.draw(q.clusters)
}

func (random) pod(q *query) int {
	q.say("drawn")
	return q.pods[q.v.Rand.IntN(len(q.pods))]
}

// draw is one of the clusters, by their capacity.
func (q *query) draw(clusters []int) int {
	var total float64
	for _, c := range clusters {
		total += q.capacity(c)
	}
	x := q.v.Rand.Float64() * total
	for _, c := range clusters {
		if x -= q.capacity(c); x < 0 {
			return c
		}
	}
	return clusters[len(clusters)-1]
}

// roundRobin takes clusters in turn by their capacity, as nginx's smooth weighted round robin does, and
// pods one after the other. Each router has turns of its own.
type roundRobin struct{ routers []turns }

type turns struct {
	credit []float64 // of clusters
	next   []int     // pod, by cluster
}

func (t *roundRobin) of(q *query) *turns {
	for len(t.routers) <= q.index {
		n := len(q.region)
		t.routers = append(t.routers, turns{make([]float64, n), make([]int, n)})
	}
	return &t.routers[q.index]
}

func (t *roundRobin) cluster(q *query) int {
	q.say("its turn, by numbers of pods")
	credit := t.of(q).credit
	var total float64
	best := q.clusters[0]
	for _, c := range q.clusters {
		n := q.capacity(c)
		credit[c] += n
		total += n
		if credit[c] > credit[best] {
			best = c
		}
	}
	credit[best] -= total
	return best
}

// pod is the first at or after the place where the last turn ended, so that pods which come and go
// change nothing for the others.
func (t *roundRobin) pod(q *query) int {
	q.say("its turn")
	next := &t.of(q).next[q.cluster]
	chosen := q.pods[0]
	for _, p := range q.pods {
		if p >= *next {
			chosen = p
			break
		}
	}
	*next = chosen + 1
	return chosen
}

// leastOutstanding takes the cluster with the fewest of this router's own requests in flight for each
// ready pod, and of its pods the one with the fewest; ties are drawn. It is SageMaker's
// RoutingStrategy LEAST_OUTSTANDING_REQUESTS and Envoy's LEAST_REQUEST over all hosts: both count
// what they have sent themselves, and know nothing of other routers or distances.
type leastOutstanding struct{}

func (leastOutstanding) cluster(q *query) int {
	q.say("fewest own requests in flight for each pod")
	return q.least(q.clusters, func(c int) float64 { return float64(q.v.Clusters[c].InFlight+1) / q.capacity(c) })
}

func (leastOutstanding) pod(q *query) int {
	pods := q.v.Clusters[q.cluster].Pods
	best := q.least(q.pods, func(p int) float64 { return float64(pods[p].InFlight) })
	q.say("%d own requests in flight, the fewest", pods[best].InFlight)
	return best
}

// twoChoices draws two and takes the one with the shorter queue (Mitzenmacher, The Power of Two Choices in
// Randomized Load Balancing, 2001). It does well with old information too, since two that are drawn differ
// from one request to the next. The queue is requests that wait for each ready pod, as last heard and with
// this router's own since; of equal ones those running decide. (To count both alike, as balancers for
// other traffic do, is worse here: those that run are no queue.) Clusters are drawn by their number of
// ready pods.
type twoChoices struct{}

const shorter = "the shorter queue of two drawn"

func (twoChoices) cluster(q *query) int {
	q.say(shorter)
	a := q.draw(q.clusters)
	if len(q.clusters) == 1 {
		return a
	}
	others := make([]int, 0, len(q.clusters))
	for _, c := range q.clusters {
		if c != a {
			others = append(others, c)
		}
	}
	b := q.draw(others)
	return q.least([]int{a, b}, func(c int) float64 {
		l := q.load(c, true)
		return queue(l.waiting/l.ready, l.running/l.ready)
	})
}

func (twoChoices) pod(q *query) int {
	q.say(shorter)
	n := len(q.pods)
	if n == 1 {
		return q.pods[0]
	}
	a, b := q.v.Rand.IntN(n), q.v.Rand.IntN(n-1)
	if b >= a {
		b++
	}
	return q.least([]int{q.pods[a], q.pods[b]}, func(p int) float64 {
		pod := &q.v.Clusters[q.cluster].Pods[p]
		return queue(float64(pod.Waiting)+q.since(q.cluster, p), float64(pod.Running))
	})
}

// queue orders by the first, and by the second where the first are equal, up to a million.
func queue(waiting, running float64) float64 { return waiting + running/1e6 }
