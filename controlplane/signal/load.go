package signal

import (
	"time"

	"anabranch/api/fleet"
)

// Load is how a cluster stands, put together from all routers that speak of it.
type Load struct {
	// Freshness and Age are of the newest scrape by a router of the cluster's region, or of what a node
	// polled where that outranks it; Age is -1 when nobody does.
	Freshness Freshness
	Age       time.Duration
	// By says whose word it is.
	By Origin
	// Total and Ready endpoints; queues, KV use (0..1) and saturation as they were found there.
	Total, Ready                          int
	Waiting, Running, KVUsage, Saturation float64
	// CapacityWork is the last measured capacity, LoadWork what is being done, in work units per
	// second.
	CapacityWork, LoadWork float64
	// TTFTP50Ms and TTFTP95Ms are the worst of the region's own routers.
	TTFTP50Ms, TTFTP95Ms float64
	// RequestsPerS and FailuresPerS over the last ten seconds, as the cluster's own region counts
	// them; as all others do while it has no router.
	RequestsPerS, FailuresPerS float64
	// TokensPerS in and out, of answers that ended in that time. Of the prompt tokens of which it is told, PrefixTokens,
	// CachedTokens were found in prefix caches.
	TokensPerS                 float64
	PrefixTokens, CachedTokens uint64
	// Observers are the votes of all routers, by id.
	Observers []Observer
}

// Origin says where signals of a cluster come from.
type Origin string

// The origins: routers of its region, nodes of the control plane, or nobody.
const (
	ByRouters Origin = "routers"
	ByPolls   Origin = "polls"
	ByNobody  Origin = ""
)

// PrefixHits is the part, 0..1, of prompt tokens that was found in prefix caches; -1: nobody tells.
func (l Load) PrefixHits() float64 {
	if l.PrefixTokens == 0 {
		return -1
	}
	return float64(l.CachedTokens) / float64(l.PrefixTokens)
}

// Observer is one router's vote on a cluster.
type Observer struct {
	Router  fleet.RouterID
	Region  fleet.RegionID
	Ejected bool
	Reason  string
	Age     time.Duration
}

// Cluster views one model on a cluster; an empty model is all of them together.
func (s Snapshot) Cluster(cluster fleet.ClusterID, model fleet.ModelID) Load {
	l := Load{Freshness: Absent, Age: -1}
	home := s.home(cluster)
	for _, sight := range s.sights[cluster] {
		c := sight.Signal
		if model != "" && fleet.ModelID(c.GetModel()) != model {
			continue
		}
		l.Observers = vote(l.Observers, sight)
		if home == "" || sight.Region == home {
			l.count(sight)
		}
		if c.GetScraped() && c.GetAgeMs() >= 0 {
			l.scrape(sight)
		}
	}
	for at, a := range s.abilities {
		if at.cluster == cluster && (model == "" || at.model == model) {
			l.CapacityWork = max(l.CapacityWork, a.Capacity)
		}
	}
	if l.Freshness = FreshnessOf(l.Age); l.Freshness != Absent {
		l.By = ByRouters
	}
	if p, ok := s.bestPoll(cluster); ok && Outranks(p.Freshness, l.Freshness) {
		l.polled(p)
	}
	return l
}

// polled takes what a node found.
func (l *Load) polled(p Poll) {
	l.By, l.Freshness, l.Age = ByPolls, p.Freshness, p.Age
	l.Total, l.Ready = p.Total, p.Ready
	l.Waiting, l.Running, l.KVUsage, l.Saturation = p.Waiting, p.Running, p.KVUsage, p.Saturation
}

// count adds what one router of the region sent there.
func (l *Load) count(sight Sight) {
	if sight.Span > 0 {
		l.RequestsPerS += float64(sight.Requests) / sight.Span.Seconds()
		l.FailuresPerS += float64(sight.Failures) / sight.Span.Seconds()
		l.TokensPerS += float64(sight.Tokens) / sight.Span.Seconds()
	}
	l.PrefixTokens += sight.Prefix
	l.CachedTokens += sight.Cached
	l.LoadWork += Number(sight.Signal.GetLoadWork())
	l.TTFTP50Ms = max(l.TTFTP50Ms, Number(sight.Signal.GetTtftP50Ms()))
	l.TTFTP95Ms = max(l.TTFTP95Ms, Number(sight.Signal.GetTtftP95Ms()))
}

// scrape takes the gauges of the newest scrape. Models of one cluster share its endpoints, so
// between signals of one router the fuller one speaks.
func (l *Load) scrape(sight Sight) {
	c := sight.Signal
	age := sight.Age + time.Duration(c.GetAgeMs())*time.Millisecond
	if l.Age >= 0 && age > l.Age {
		return
	}
	if l.Age >= 0 && age == l.Age && Number(c.GetSaturation()) < l.Saturation {
		return
	}
	l.Age = age
	l.Total, l.Ready = int(c.GetEndpointsTotal()), int(c.GetEndpointsReady())
	l.Waiting, l.Running = Number(c.GetWaiting()), Number(c.GetRunning())
	l.KVUsage, l.Saturation = Number(c.GetKvUsage()), Number(c.GetSaturation())
}

// vote adds a router's vote; of several models, one that is ejected speaks for the router. What one router says
// comes in one piece.
func vote(votes []Observer, sight Sight) []Observer {
	v := Observer{
		Router:  sight.Router,
		Region:  sight.Region,
		Ejected: sight.Signal.GetEjected(),
		Reason:  sight.Signal.GetEjectReason(),
		Age:     sight.Age,
	}
	if last := len(votes) - 1; last >= 0 && votes[last].Router == v.Router {
		if v.Ejected {
			votes[last] = v
		}
		return votes
	}
	return append(votes, v)
}
