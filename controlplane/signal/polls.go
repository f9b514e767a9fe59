package signal

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/forward/nodepb"
)

// maxSources bounds what is kept of one node.
const maxSources = 4096

// polls are all sources of one node, as it told them at a time on this node's clock.
type polls struct {
	at      time.Time
	sources []Source // of that node, by cluster and endpoint; never changed
}

// PutSources takes in all that a node polls itself at now, in place of what it polled before.
func (s *Store) PutSources(node fleet.NodeID, sources []Source, now time.Time) {
	kept := slices.Clone(sources[:min(len(sources), maxSources)])
	for i := range kept {
		kept[i].Node = node
	}
	slices.SortFunc(kept, compareSources)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.polls == nil {
		s.polls = map[fleet.NodeID]polls{}
	}
	s.polls[node] = polls{at: now, sources: kept}
}

// LocalSources lists what node polls itself, for the other nodes.
func (s *Store) LocalSources(node fleet.NodeID) []*nodepb.SourceObservation {
	now := s.now()
	s.mu.Lock()
	own := s.polls[node].sources
	s.mu.Unlock()
	out := make([]*nodepb.SourceObservation, 0, len(own))
	for _, x := range own {
		out = append(out, &nodepb.SourceObservation{
			Cluster: string(x.Cluster), Region: string(x.Region), Endpoint: string(x.Endpoint),
			Kind: x.Kind, Url: x.URL, Active: x.Active, Why: x.Why,
			IntervalMs: x.Interval.Milliseconds(), TimeoutMs: x.Timeout.Milliseconds(),
			PolledMs: since0(x.Polled, now), GotMs: since0(x.Got, now), TookUs: x.Took.Microseconds(),
			Failures: uint32(min(max(x.Failures, 0), 1<<30)), Error: x.Error, Polls: x.Polls, Failed: x.Failed,
			Scraped: x.Scraped, Total: uint32(max(x.Total, 0)), Ready: uint32(max(x.Ready, 0)),
			Waiting: x.Waiting, Running: x.Running, KvUsage: x.KVUsage, Saturation: x.Saturation,
		})
	}
	return out
}

// MergeSources takes in what another node said at now of all that it polls.
func (s *Store) MergeSources(node fleet.NodeID, sources []*nodepb.SourceObservation, now time.Time) {
	in := make([]Source, 0, min(len(sources), maxSources))
	for _, x := range sources[:cap(in)] {
		in = append(in, Source{
			Cluster: fleet.ClusterID(x.GetCluster()), Region: fleet.RegionID(x.GetRegion()), Endpoint: fleet.EndpointID(x.GetEndpoint()),
			Kind: x.GetKind(), URL: x.GetUrl(), Active: x.GetActive(), Why: x.GetWhy(),
			Interval: milliseconds(x.GetIntervalMs()), Timeout: milliseconds(x.GetTimeoutMs()),
			Polled: before(now, x.GetPolledMs()), Got: before(now, x.GetGotMs()), Took: time.Duration(x.GetTookUs()) * time.Microsecond,
			Failures: int(x.GetFailures()), Error: x.GetError(), Polls: x.GetPolls(), Failed: x.GetFailed(),
			Scraped: x.GetScraped(), Total: int(x.GetTotal()), Ready: int(x.GetReady()),
			Waiting: Number(x.GetWaiting()), Running: Number(x.GetRunning()), KVUsage: Number(x.GetKvUsage()), Saturation: Number(x.GetSaturation()),
		})
	}
	s.PutSources(node, in, now)
}

// since0 is how many ms ago something was; -1: never.
func since0(at, now time.Time) int64 {
	if at.IsZero() {
		return -1
	}
	return max(now.Sub(at).Milliseconds(), 0)
}

func before(now time.Time, ms int64) time.Time {
	if ms < 0 {
		return time.Time{}
	}
	return now.Add(-milliseconds(ms))
}

// milliseconds is a duration within what a message may sensibly say.
func milliseconds(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), keepBelief.Milliseconds())) * time.Millisecond
}

// gather joins what all nodes told, by cluster, endpoint and node. Nodes that have been silent for long
// are forgotten: their polls are as old as that. The caller holds the lock.
func (s *Store) gather(now time.Time) []Source {
	var all []Source
	for node, p := range s.polls {
		if now.Sub(p.at) > StaleFor {
			delete(s.polls, node)
			continue
		}
		all = append(all, p.sources...)
	}
	slices.SortFunc(all, compareSources)
	return all
}

// Polls are what each node that polls a cluster found there, by node.
func (s Snapshot) Polls(cluster fleet.ClusterID) []Poll {
	byNode := map[fleet.NodeID][]Source{}
	for _, x := range s.SourcesOf(cluster) {
		byNode[x.Node] = append(byNode[x.Node], x)
	}
	var out []Poll
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		if p, ok := pollOf(byNode[node], s.At); ok {
			out = append(out, p)
		}
	}
	return out
}

// SourcesOf are the sources of a cluster, by endpoint and node. It must not be changed.
func (s Snapshot) SourcesOf(cluster fleet.ClusterID) []Source {
	compare := func(x Source, c fleet.ClusterID) int { return cmp.Compare(x.Cluster, c) }
	from, _ := slices.BinarySearchFunc(s.Sources, cluster, compare)
	n := from
	for n < len(s.Sources) && s.Sources[n].Cluster == cluster {
		n++
	}
	return s.Sources[from:n]
}

// bestPoll is the poll that speaks for a cluster: the newest answer of any node.
func (s Snapshot) bestPoll(cluster fleet.ClusterID) (best Poll, ok bool) {
	for _, p := range s.Polls(cluster) {
		if !p.Silent && (!ok || p.Age < best.Age) {
			best, ok = p, true
		}
	}
	return best, ok
}
