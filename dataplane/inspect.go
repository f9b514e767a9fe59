package dataplane

import (
	"cmp"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/endpoint"
)

const (
	// inspectMost is how many places one answer to the control plane tells of, and inspectAdapters how many
	// adapters of each: what does not fit is counted, and the answer stays below two megabytes.
	inspectMost, inspectAdapters = 1000, 32
)

// Inspect tells the control plane how the places of a cluster stand now, as /status does, of so many at most; 0:
// 1,000. Where not all fit, those come first that are not in full use.
func (r *Router) Inspect(id fleet.ClusterID, most uint32) *routerpb.Inspected {
	t, c := r.tables.Load(), r.places.Cluster(id)
	if t == nil || t.Clusters[id] == nil || c == nil {
		return &routerpb.Inspected{}
	}
	now, spec := r.now(), t.Clusters[id]
	out := &routerpb.Inspected{Known: true, Remote: c.Remote, Kind: spec.Kind, InFlight: c.InFlight()}
	out.Ejected, out.Reason = c.Ejected()
	all := slices.Clone(c.Endpoints())
	if most == 0 || most > inspectMost {
		most = inspectMost
	}
	if left := len(all) - int(most); left > 0 {
		slices.SortStableFunc(all, func(a, b *endpoint.Endpoint) int { return cmp.Compare(unwell(b, now), unwell(a, now)) })
		all, out.Left = all[:most], uint32(left)
	}
	slices.SortFunc(all, func(a, b *endpoint.Endpoint) int { return cmp.Compare(a.ID, b.ID) })
	for _, e := range all {
		out.Places = append(out.Places, placeSight(e, spec.Models, now))
	}
	return out
}

// unwell orders places by how far they are from full use.
func unwell(e *endpoint.Endpoint, now time.Time) int {
	return slices.Index([]string{stateReady, stateStarting, stateBusy, stateEjected}, stateOf(e, now))
}

func placeSight(e *endpoint.Endpoint, models []fleet.ModelID, now time.Time) *routerpb.PlaceSight {
	s := endpointStatus(e, models, now)
	p := &routerpb.PlaceSight{
		Id: string(s.ID), Url: s.URL, Class: s.Class, State: s.State, Reason: s.Reason, InFlight: s.InFlight, Ramp: s.Ramp,
		Freshness: s.Signals, AgeMs: s.SignalAgeMs, Waiting: s.Waiting, Running: s.Running, Slots: s.Slots,
		KvUsage: s.KV, BacklogTokens: s.Backlog, PoolReady: -1, Adapters: s.Adapters,
	}
	if signals := e.Signals(); signals != nil {
		p.PoolReady, p.AdaptersMost = int32(signals.Ready), uint32(max(signals.MaxLoRA, 0)) //nolint:gosec // counts of servers and adapters
	}
	if more := len(p.Adapters) - inspectAdapters; more > 0 {
		p.Adapters, p.AdaptersLeft = p.Adapters[:inspectAdapters], uint32(more)
	}
	for _, rate := range s.Rates {
		m := &routerpb.ModelSight{
			Model: string(rate.Model), Known: rate.Known, PrefillPerS: rate.PrefillTokensPerS,
			OverheadMs: rate.OverheadMs, StepMs: rate.StepMs, StepMoreMs: rate.StepMoreMs,
		}
		m.Lacks, m.Reason = e.Lacks(rate.Model)
		times := e.OwnFirstToken(rate.Model, now)
		m.TtftP50Ms, m.TtftP95Ms = milliseconds(times.P50), milliseconds(times.P95)
		p.Models = append(p.Models, m)
	}
	return p
}
