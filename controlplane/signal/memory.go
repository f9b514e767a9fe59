package signal

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// recently is how far back requests are counted for observed shares and rates, in at most
// maxReports reports.
const (
	recently   = 10 * time.Second
	maxReports = 64
)

// stream is the demand for one model and class.
type stream struct {
	model fleet.ModelID
	class fleet.ClassID
}

// Demand is what clients ask for, before routing.
type Demand struct {
	RequestsPerS float64
	// WorkPerS is in work units: input tokens + output weight x output tokens.
	WorkPerS float64
}

// asked is Demand over time.
type asked struct {
	requests, work series
	tiers          map[int32]float64 // work by priority, an average
}

// untold stands in for the priority of work of which none is told.
const untold = math.MinInt32

// Tier is a part of a demand.
type Tier struct {
	// Priority that its requests count as.
	Priority int32
	WorkPerS float64
}

// count is what one report said of one place.
type count struct {
	requests, failures uint64
	// tokens in and out, prompt tokens of which it is known how many were cached, and those.
	tokens, prefix, cached uint64
}

func (c count) plus(d count) count {
	return count{c.requests + d.requests, c.failures + d.failures, c.tokens + d.tokens, c.prefix + d.prefix, c.cached + d.cached}
}

// minus takes away what was added.
func (c count) minus(d count) count {
	return count{c.requests - d.requests, c.failures - d.failures, c.tokens - d.tokens, c.prefix - d.prefix, c.cached - d.cached}
}

// past is what one earlier report counted.
type past struct {
	at     time.Time
	span   time.Duration
	places []counted
	asked  []wanted
	total  count
}

// counted is what was counted of one place.
type counted struct {
	at place
	n  count
}

// wanted are requests for a model that were asked of the router, before routing.
type wanted struct {
	model    fleet.ModelID
	requests float64
}

// memory is one router's last observation and what has to be remembered across reports.
type memory struct {
	obs    Observation
	demand map[stream]asked
	recent []past // oldest first
	// places adds up those of recent, so that a look at all routers need not.
	places map[place]count
	quotas uses
	spots  map[place]spot // as of the last report
	began  time.Time      // when the first report came
}

func newMemory() *memory { return &memory{demand: map[stream]asked{}, places: map[place]count{}} }

// take replaces the observation. A report seen before, because another node handed it over too,
// is not counted twice.
func (m *memory) take(obs Observation) {
	before := m.obs
	m.obs = obs
	if obs.Report == nil {
		m.obs.Report = before.Report
		if before.Report != nil {
			m.obs.Received = before.Received
		}
		return
	}
	if before.Report != nil && before.Report.GetAtUnixMs() == obs.Report.GetAtUnixMs() {
		m.obs.Received = before.Received
		return
	}
	first := before.Report == nil
	after := obs.Received.Sub(before.Received)
	weight := weightOf(after, smoothing)
	if first {
		weight = 1
	}
	if first {
		m.began = obs.Received
	}
	m.smooth(obs.Report, after, first)
	m.look(obs.Report, after, first)
	m.remember(obs.Report, obs.Received)
	m.quotas = m.quotas.spoken(obs.Report, obs.Received, weight)
}

// smooth takes in what was asked for some time after the report before; the first report is taken whole.
func (m *memory) smooth(r *routerpb.Report, after time.Duration, first bool) {
	latest := map[stream]Demand{}
	tiers := map[stream]map[int32]float64{}
	for _, d := range r.GetDemand() {
		key := stream{fleet.ModelID(d.GetModel()), fleet.ClassID(d.GetClass())}
		sum := latest[key]
		sum.RequestsPerS += Number(d.GetRequestsPerS())
		sum.WorkPerS += Number(d.GetWorkPerS())
		latest[key] = sum
		tiers[key] = addTiers(tiers[key], d)
	}
	for key := range m.demand {
		if _, known := latest[key]; !known {
			latest[key] = Demand{}
		}
	}
	weight := weightOf(after, smoothing)
	if first {
		weight = 1
	}
	for key, is := range latest {
		was := m.demand[key]
		now := asked{was.requests.next(is.RequestsPerS, after), was.work.next(is.WorkPerS, after), mixed(was.tiers, tiers[key], weight)}
		if first {
			now.requests, now.work = startOf(is.RequestsPerS), startOf(is.WorkPerS)
		}
		if now.requests.mean < 1e-6 && now.work.mean < 1e-3 {
			delete(m.demand, key)
			continue
		}
		m.demand[key] = now
	}
}

// maxTiers bounds the priorities that one router can tell of a model and class: it has four.
const maxTiers = 16

// addTiers adds up work by priority. Tiers that say more than the whole, as none of ours do, are not believed.
func addTiers(to map[int32]float64, d *routerpb.DemandSignal) map[int32]float64 {
	if to == nil {
		to = map[int32]float64{}
	}
	left := Number(d.GetWorkPerS())
	for _, t := range d.GetTiers()[:min(len(d.GetTiers()), maxTiers)] {
		work := min(Number(t.GetWorkPerS()), left)
		to[t.GetPriority()] += work
		left -= work
	}
	to[untold] += left
	return to
}

// mixed takes new figures into averages, by what they weigh. What is next to nothing is forgotten.
func mixed(was, is map[int32]float64, weight float64) map[int32]float64 {
	out := map[int32]float64{}
	for p, x := range is {
		out[p] = weight * x
	}
	for p, x := range was {
		out[p] += (1 - weight) * x
	}
	maps.DeleteFunc(out, func(_ int32, x float64) bool { return x < 1e-3 })
	for len(out) > maxTiers { // of a router that tells others each time: its smallest go
		delete(out, slices.MinFunc(slices.Sorted(maps.Keys(out)), func(a, b int32) int { return cmp.Compare(out[a], out[b]) }))
	}
	return out
}

// look takes in what is said of each place; the first report is taken whole. What a report does not speak of
// any more is forgotten.
func (m *memory) look(r *routerpb.Report, after time.Duration, first bool) {
	spots := make(map[place]spot, len(r.GetClusters()))
	for _, c := range r.GetClusters() {
		at := place{fleet.ClusterID(c.GetCluster()), fleet.ModelID(c.GetModel())}
		if _, twice := spots[at]; twice {
			continue
		}
		p := m.spots[at]
		if first {
			p.finished = Number(c.GetLoadWork())
		}
		spots[at] = p.see(c, m.obs.Received, after, spanOf(r))
	}
	m.spots = spots
}

// spanOf is what the counts of a report span; 1 s where it says nothing sensible.
func spanOf(r *routerpb.Report) time.Duration {
	span := time.Duration(r.GetWindowMs()) * time.Millisecond
	if span <= 0 || span > StaleFor {
		return time.Second
	}
	return span
}

func (m *memory) remember(r *routerpb.Report, at time.Time) {
	span := spanOf(r)
	p := past{at: at, span: span, total: count{requests: r.GetRequests(), failures: r.GetFailures()}}
	for _, c := range r.GetClusters() {
		if c.GetRequests() == 0 && c.GetFailures() == 0 && c.GetPrefixTokens() == 0 {
			continue
		}
		key := place{fleet.ClusterID(c.GetCluster()), fleet.ModelID(c.GetModel())}
		n := count{
			requests: c.GetRequests(), failures: c.GetFailures(), tokens: c.GetInputTokens() + c.GetOutputTokens(),
			prefix: c.GetPrefixTokens(), cached: min(c.GetCachedTokens(), c.GetPrefixTokens()),
		}
		p.places = append(p.places, counted{key, n})
		m.places[key] = m.places[key].plus(n)
	}
	for _, d := range r.GetDemand() {
		p.asked = append(p.asked, wanted{fleet.ModelID(d.GetModel()), Number(d.GetRequestsPerS()) * span.Seconds()})
	}
	m.recent = append(m.recent, p)
	m.forget(len(m.recent) - maxReports)
	m.forget(upTo(m.recent, at.Add(-recently)))
}

// forget drops the oldest reports.
func (m *memory) forget(n int) {
	if n <= 0 {
		return
	}
	for _, p := range m.recent[:n] {
		for _, c := range p.places {
			if left := m.places[c.at].minus(c.n); left == (count{}) {
				delete(m.places, c.at)
			} else {
				m.places[c.at] = left
			}
		}
	}
	m.recent = slices.Delete(m.recent, 0, n)
}

// upTo counts what is from start or before.
func upTo(recent []past, start time.Time) int {
	i := 0
	for i < len(recent) && !recent[i].at.After(start) {
		i++
	}
	return i
}

// sorted lists memories by router id. The caller holds the lock.
func (s *Store) sorted() []*memory {
	return slices.SortedFunc(maps.Values(s.routers), func(a, b *memory) int {
		return cmp.Compare(a.obs.Router(), b.obs.Router())
	})
}
