package signal

import (
	"cmp"
	"slices"
	"time"

	"anabranch/api/fleet"
)

// Source is one place that a node of the control plane polls itself, and what it found there last.
// Like an observation it is soft state, and never changes.
type Source struct {
	Node    fleet.NodeID
	Cluster fleet.ClusterID
	Region  fleet.RegionID
	// Endpoint of the cluster; empty: its gateway.
	Endpoint fleet.EndpointID
	// Kind is what is read there, in a word; URL where, without anything secret.
	Kind, URL string
	// Active: it is polled at present. Why says why it is, or is not.
	Active bool
	Why    string
	// Interval from one poll to the next, Timeout of one.
	Interval, Timeout time.Duration
	// Polled is when it was asked last, Got when it was asked for what it said last; zero: never.
	Polled, Got time.Time
	// Took is how long the last answer took.
	Took time.Duration
	// Failures are polls in a row that failed, Error what was wrong with the last, also if it found out
	// less than it should; empty: nothing.
	Failures int
	Error    string
	// Polls since the node began with the source, and Failed of these.
	Polls, Failed uint64
	// Scraped: what follows is from a page of metrics. Otherwise it is only known to answer.
	Scraped bool
	// Total and Ready endpoints behind the source; queues, KV use (0..1), saturation (0..1 and above).
	Total, Ready                          int
	Waiting, Running, KVUsage, Saturation float64
}

// FailedPolls is how many polls of a source in a row must fail until it counts as not answering.
const FailedPolls = 3

// Age of what was found; -1: nothing was.
func (s Source) Age(now time.Time) time.Duration {
	if s.Got.IsZero() {
		return -1
	}
	return max(now.Sub(s.Got), 0)
}

// overdue is by how much longer ago than its interval a source was asked: what is polled seldom is no
// older than it is meant to be. -1: it never was.
func (s Source) overdue(asked, now time.Time) time.Duration {
	if asked.IsZero() {
		return -1
	}
	return max(now.Sub(asked)-s.Interval, 0)
}

// Freshness of what was found, by how much longer ago than its interval that was.
func (s Source) Freshness(now time.Time) Freshness { return FreshnessOf(s.overdue(s.Got, now)) }

// silent: it has not answered for several polls, the last of which is not long ago.
func (s Source) silent(now time.Time) bool {
	return s.Failures >= FailedPolls && FreshnessOf(s.overdue(s.Polled, now)) == Fresh
}

// Poll is what one node found of a cluster, all of its sources there together.
type Poll struct {
	Node   fleet.NodeID
	Region fleet.RegionID
	// Silent: none of the sources answers, for Reason; what follows but for Overdue is zero then.
	Silent bool
	Reason string
	// Age of the newest answer; -1 without one. Overdue is by how much longer ago than its interval
	// that was, or of a silent cluster the last poll, and Freshness is judged by it.
	Age, Overdue time.Duration
	Freshness    Freshness
	// Scraped: some of it is from pages of metrics; see [Source].
	Scraped                               bool
	Total, Ready                          int
	Waiting, Running, KVUsage, Saturation float64
}

// Outranks says whether what nodes polled counts for a cluster and not what routers of its region say:
// the fresher of both does, and of what is equally fresh what the routers say, since they stand beside
// the cluster and see what becomes of requests. What is absent never counts.
func Outranks(poll, routers Freshness) bool { return poll.rank() > routers.rank() }

func (f Freshness) rank() int { return slices.Index([]Freshness{Absent, Stale, Fresh}, f) }

// pollOf puts one node's active sources of a cluster together. False: there is nothing to say.
func pollOf(sources []Source, now time.Time) (Poll, bool) {
	p := Poll{Node: sources[0].Node, Region: sources[0].Region, Age: -1, Overdue: -1, Freshness: Absent}
	silent, all, answered, mute := Poll{Overdue: -1}, 0, 0, 0
	for _, s := range sources {
		if !s.Active {
			continue
		}
		all++
		switch due := s.overdue(s.Got, now); {
		case s.silent(now):
			p.Total++ // it is one that is not ready
			mute++
			silent.see(s.overdue(s.Polled, now))
			silent.Reason = s.Error
		case FreshnessOf(due) == Absent:
			p.Total++
		default:
			answered++
			p.add(s)
			p.see(due)
			if age := s.Age(now); p.Age < 0 || age < p.Age {
				p.Age = age
			}
		}
	}
	switch {
	case answered > 0:
		p.KVUsage /= float64(answered)
		p.Saturation /= float64(answered)
	case mute > 0 && mute == all:
		p.Silent, p.Reason, p.Overdue, p.Total = true, silent.Reason, silent.Overdue, 0
	default:
		return Poll{}, false
	}
	p.Freshness = FreshnessOf(p.Overdue)
	return p, true
}

// see takes the least overdue of all.
func (p *Poll) see(overdue time.Duration) {
	if p.Overdue < 0 || overdue < p.Overdue {
		p.Overdue = overdue
	}
}

// add sums up; KV use and saturation become means.
func (p *Poll) add(s Source) {
	p.Scraped = p.Scraped || s.Scraped
	p.Total += s.Total
	p.Ready += s.Ready
	p.Waiting += Number(s.Waiting)
	p.Running += Number(s.Running)
	p.KVUsage += Number(s.KVUsage)
	p.Saturation += Number(s.Saturation)
}

// compareSources orders by cluster, endpoint and node.
func compareSources(a, b Source) int {
	return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Endpoint, b.Endpoint), cmp.Compare(a.Node, b.Node))
}
