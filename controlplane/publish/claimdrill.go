package publish

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/failover/drill"
)

const (
	// mostCount bounds each count of a report, so that sums over all routers stay numbers.
	mostCount = 1 << 40
	// mostHeld is how many emergency orders a router may tell of, and mostText how long each of their texts may be.
	mostHeld = 64
	mostText = 512
	// mostStep is the last step of a brown-out.
	mostStep = 6
)

// rehearsed keeps of a report what may be said of drills and emergency orders: of the drill under way, which a router
// knows by its table, and no more of it than there can be. What is part of something is no more than that. What was sent
// is never changed, and returned where nothing has to go.
func rehearsed(r *routerpb.Report, view *state.View) *routerpb.Report {
	d, o := r.GetDrill(), r.GetOrders()
	if d != nil {
		if d = boundDrill(d, view); proto.Equal(d, r.GetDrill()) {
			d = r.GetDrill()
		}
	}
	if o = boundOrders(o); d == r.GetDrill() && o == r.GetOrders() && r.GetBrownout() <= mostStep {
		return r
	}
	out := shallow(r)
	out.Drill, out.Orders, out.Brownout = d, o, min(r.GetBrownout(), mostStep)
	return out
}

// boundDrill is a copy of what a router says of a drill, within bounds; nil: it says nothing of one that is known. Unknown
// fields go.
func boundDrill(d *routerpb.DrillSignal, view *state.View) *routerpb.DrillSignal {
	if id := d.GetId(); id == 0 || id != view.ActiveDrill().GetId() && id != view.Table().GetDrill().GetId() {
		return nil
	}
	scoped, prompts, denied := bounded(d.GetScoped()), bounded(d.GetPrefixTokens()), bounded(d.GetProtectedRequests())
	streams := min(max(d.GetStreams(), 0), mostCount)
	out := &routerpb.DrillSignal{
		Id: d.GetId(), Sequence: d.GetSequence(), ShiftedPpm: min(d.GetShiftedPpm(), drill.Whole), Reverted: d.GetReverted(),
		Scoped: scoped, Away: min(d.GetAway(), scoped), Shifted: min(d.GetShifted(), scoped),
		Streams: streams, StreamsLeft: min(max(d.GetStreamsLeft(), 0), streams), EjectedUnixMs: d.GetEjectedUnixMs(),
		ProtectedRequests: denied, ProtectedDenied: min(d.GetProtectedDenied(), denied),
		PrefixTokens: prompts, CachedTokens: min(d.GetCachedTokens(), prompts),
	}
	told := map[string]bool{}
	for _, t := range d.GetTiers() {
		if tier := t.GetTier(); slices.Contains(policy.Tiers(), tier) && !told[tier] {
			told[tier] = true
			out.Tiers = append(out.Tiers, boundTier(t))
		}
	}
	return out
}

// boundTier is a copy of what became of a tier's requests. Its parts are taken in their order, none of which the others
// left no room for.
func boundTier(t *routerpb.TierSignal) *routerpb.TierSignal {
	left := bounded(t.GetTotal())
	out := &routerpb.TierSignal{Tier: t.GetTier(), Total: left}
	part := func(n uint64) uint64 {
		n = min(n, left)
		left -= n
		return n
	}
	out.Lost, out.Broken, out.Limited, out.Shed, out.Retried = part(t.GetLost()), part(t.GetBroken()), part(t.GetLimited()), part(t.GetShed()), part(t.GetRetried())
	for _, n := range t.GetTtft()[:min(len(t.GetTtft()), drill.Buckets)] {
		out.Ttft = append(out.Ttft, bounded(n))
	}
	return out
}

func bounded(n uint64) uint64 { return min(n, mostCount) }

// boundOrders keeps the first orders, those whose texts are no longer than any that can be given.
func boundOrders(o *routerpb.OrderSignal) *routerpb.OrderSignal {
	long := func(h *routerpb.HeldOrder) bool {
		return max(len(h.GetId()), len(h.GetKind()), len(h.GetTarget()), len(h.GetActor()), len(h.GetOverruledBy()), len(h.GetDoor())) > mostText
	}
	if len(o.GetHeld()) <= mostHeld && !slices.ContainsFunc(o.GetHeld(), long) {
		return o
	}
	held := slices.DeleteFunc(slices.Clone(o.GetHeld()), long)
	return &routerpb.OrderSignal{Held: held[:min(len(held), mostHeld)]}
}
