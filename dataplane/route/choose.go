package route

import (
	"cmp"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
	"anabranch/failover"
	"anabranch/failover/drill"
)

// Groups of targets, in the order of trying.
const (
	weighted = iota
	fallback
	standby
)

// rank is what targets are ordered by, apart from them since it is small.
type rank struct {
	mute  int     // 1: requests go unanswered there, which is later than any group
	group int     // lower is earlier
	score float64 // of the rendezvous, higher is earlier
	at    int     // among those found
}

// Fill is [Choose] into c, whose lists are used again.
func (c *Choice) Fill(in *Input) {
	c.Targets, c.Removed, c.Code = c.Targets[:0], c.Removed[:0], ""
	c.found, c.ranks = c.found[:0], c.ranks[:0]
	legal := c.collect(in)
	c.keepHome(in)
	c.ranks, c.Targets = slices.Grow(c.ranks, len(c.found)), slices.Grow(c.Targets, len(c.found))
	for i := range c.found {
		c.found[i].rank.at = i
		c.ranks = append(c.ranks, c.found[i].rank)
	}
	slices.SortFunc(c.ranks, func(a, b rank) int {
		return cmp.Or(cmp.Compare(a.mute, b.mute), cmp.Compare(a.group, b.group), cmp.Compare(b.score, a.score), cmp.Compare(a.at, b.at))
	})
	for _, r := range c.ranks {
		c.Targets = append(c.Targets, c.found[r.at])
	}
	c.nearer(in)
	c.overflow(in)
	switch {
	case len(c.Targets) > 0:
	case legal:
		c.Code = NoCapacity
	default:
		c.Code = NoLegalTarget
	}
}

// collect sorts the clusters into targets and removals, and says whether rules and operators allow
// any. The weights are the table's for the request's class, else for the default class. A
// combination that the table doesn't speak of has equal weights on all clusters that serve the
// model.
func (c *Choice) collect(in *Input) (legal bool) {
	for _, class := range [...]fleet.ClassID{in.Class.ID, fleet.DefaultClass} {
		if weights, ok := in.weights(class); ok {
			c.found = slices.Grow(c.found, len(weights))
			for i := range weights {
				legal = c.add(in, &weights[i]) || legal
			}
			if len(weights) == 0 {
				legal = c.unlisted(in)
			}
			return legal
		}
	}
	for _, cluster := range in.Table.Serving(in.Model.ID) {
		legal = c.add(in, &table.Weight{Cluster: cluster}) || legal
	}
	return legal
}

// weights are those of a class that the request goes by.
func (in *Input) weights(class fleet.ClassID) (w []table.Weight, ok bool) {
	if in.Drill != nil {
		if w, ok = in.Drill.Weights(in.Model.ID, class, in.Region); ok {
			return w, ok
		}
	}
	return in.Table.Weights(in.Model.ID, class, in.Region)
}

// drills says whether the drill takes a cluster out: its weights give it nothing.
func (in *Input) drills(w *table.Weight) bool {
	return in.Drill != nil && w.Share == 0 && in.Drill.Kind != drill.FailbackOnly && in.Drill.Drills(w.Cluster.ID)
}

// brings says whether the drill brings traffic back to a cluster that an operator has drained.
func (in *Input) brings(c *table.Cluster) bool {
	return in.Drill != nil && in.Drill.Kind == drill.FailbackOnly && in.Drill.Drills(c.ID)
}

// revives says whether the drill lets a cluster be used that its being drained allows nothing, and nothing else.
func (in *Input) revives(c *table.Cluster) bool {
	return in.brings(c) && (c.Health == string(failover.Drained) || c.Health == string(failover.Draining))
}

// unlisted says why clusters are no targets where the table lists none for the request, and lets those
// be used that an emergency order restores.
func (c *Choice) unlisted(in *Input) (legal bool) {
	for _, cluster := range in.Table.Serving(in.Model.ID) {
		r, allowed := in.barred(cluster)
		if allowed && in.restored(cluster) {
			legal = c.add(in, &table.Weight{Cluster: cluster}) || legal
			continue
		}
		if r.Cluster = cluster.ID; allowed {
			r.Reason = Unlisted
		}
		c.Removed = append(c.Removed, r)
	}
	return legal
}

// add makes a cluster a target or a removal, and says whether rules and operators allow it.
func (c *Choice) add(in *Input, w *table.Weight) (legal bool) {
	var place Place
	removal, legal := in.barred(w.Cluster)
	if removal.Reason == "" {
		if in.Local != nil {
			place = in.Local(w.Cluster.ID, in.Tenant)
		}
		switch {
		case in.cap(w.Cluster) == 0 && !in.restored(w.Cluster) && !in.revives(w.Cluster):
			removal.Reason = Unhealthy
		case place.Ejected:
			removal.Reason, removal.Detail = Ejected, place.Reason
		case in.drills(w):
			removal.Reason = Drilled
		case in.Rehearsed != nil:
			if why, dead := in.Rehearsed(w.Cluster.ID); dead {
				removal.Reason, removal.Detail = Ejected, why
			}
		}
	}
	if removal.Reason != "" {
		removal.Cluster = w.Cluster.ID
		c.Removed = append(c.Removed, removal)
		return legal
	}
	t := Target{
		Cluster: w.Cluster, Region: w.Cluster.Region, Weight: w.Share, Reason: ByWeight,
		Remote: in.away(w.Cluster),
		RTT:    in.Table.RTT(in.Region, w.Cluster.Region), Place: place,
	}
	share := w.Share
	if share == 0 {
		if share = in.cap(w.Cluster); share == 0 { // the weights of the table have it in them, this one not
			share = 1 // by an order
		}
		t.rank.group, t.Reason = fallback, ByFallback
		if w.Standby {
			t.rank.group, t.Reason = standby, ByStandby
		}
	}
	switch {
	case place.Unanswered && place.Trial:
		t.Reason = ByTrial
	case place.Unanswered:
		t.rank.mute, t.Reason = 1, Unanswered
	case place.Share > 0 && place.Share < 1:
		share *= place.Share
		if t.Reason == ByWeight {
			t.Reason = ByReturn
		}
	}
	if t.rank.group == weighted && t.rank.mute == 0 {
		t.drawn = share
		share *= in.Leaning.factor(w.Cluster.ID)
	}
	t.rank.score = Score(share, in.Key, w.Cluster.Hash)
	c.found = append(c.found, t)
	return legal
}

// barred says why rules, operators and the kind of a cluster keep a request from it; no reason: they
// don't.
func (in *Input) barred(c *table.Cluster) (r Removal, legal bool) {
	away := c.Region != in.Region
	switch {
	case in.Tenant != nil && !in.Tenant.Allows(c.Region, c.Zone):
		r.Reason = Residency
	case !table.Within(in.Residency, c.Region, c.Zone):
		r.Reason = Narrowed
	case len(in.Only) > 0 && !slices.Contains(in.Only, c.ID):
		r.Reason = Pinned
	case !away && c.Kind == table.KindRouter:
		r.Reason = Self
	case away && in.Hop:
		r.Reason = Hopped
	case away && c.Kind != table.KindProvider && len(in.Table.Regions[c.Region].PeerURLs) == 0:
		r.Reason = NotThere
	case c.Drained && !in.restored(c) && !in.brings(c):
		r.Reason = Drained
	case in.Evacuated != nil:
		if order, yes := in.Evacuated(c.ID); yes {
			r.Reason, r.Detail = Evacuated, order
		}
	}
	return r, r.Reason == ""
}

// cap is the share of its weight that a cluster's health allows of the model, as far as the table's word on it can
// be gone by: else all, and only this router's own evidence counts.
func (in *Input) cap(c *table.Cluster) float64 {
	if in.Alone || in.Stale && in.away(c) {
		return 1
	}
	return c.CapOf(in.Model.ID)
}

// away: requests for the cluster go by way of another region's router, so that this one sees nothing of
// it but what becomes of them.
func (in *Input) away(c *table.Cluster) bool {
	return c.Region != in.Region && c.Kind != table.KindProvider
}

func (in *Input) restored(c *table.Cluster) bool { return in.Restored != nil && in.Restored(c.ID) }

// keepHome removes targets of other regions of a class that doesn't spill while one of its own is
// alive, and answers.
func (c *Choice) keepHome(in *Input) {
	if in.Class.Spill || !slices.ContainsFunc(c.found, func(t Target) bool { return t.Region == in.Region && !t.Place.Unanswered }) {
		return
	}
	c.found = slices.DeleteFunc(c.found, func(t Target) bool {
		if t.Region != in.Region {
			c.Removed = append(c.Removed, Removal{Cluster: t.Cluster.ID, Reason: NoSpill})
		}
		return t.Region != in.Region
	})
}

// Overfull says whether the first target is full and others might be taken instead, if more were known
// of them.
func (c *Choice) Overfull(in *Input) bool {
	return len(c.Targets) > 1 && (c.Targets[0].Reason == ByOverflow || in.full(&c.Targets[0]))
}

// Far says whether the first target was drawn though another one with weight is nearer.
func (c *Choice) Far() bool {
	if len(c.Targets) < 2 || c.Targets[0].Reason != ByWeight {
		return false
	}
	return slices.ContainsFunc(c.Targets[1:], func(t Target) bool { return t.Reason == ByWeight && t.RTT < c.Targets[0].RTT })
}

// nearer brings the soonest of the nearer places before the one that a long prompt was drawn for, if one is sooner
// and has room. The time to the first token of a long prompt is among the longest already, and the way adds to
// it; a short one's may be longer by the way without being among them.
func (c *Choice) nearer(in *Input) {
	if !in.Long || !c.Far() {
		return
	}
	best := 0
	for i := 1; i < len(c.Targets); i++ {
		t := &c.Targets[i]
		if t.Reason == ByWeight && t.RTT < c.Targets[0].RTT && !in.full(t) && in.cost(t) < in.cost(&c.Targets[best]) && in.Leaning.mayHaveMore(t.Cluster.ID) {
			best = i
		}
	}
	if best > 0 {
		c.first(best, ByNearness)
	}
}

// first brings a target before all others.
func (c *Choice) first(i int, reason string) {
	taken := c.Targets[i]
	copy(c.Targets[1:i+1], c.Targets[:i])
	taken.Reason = reason
	c.Targets[0] = taken
}

// overflow brings another place before a first one that is full: the next of the rendezvous that has
// room and is sooner in spite of its way. That is the same for all requests of a key, and not the
// best of all, so that overflow warms up one place. Among places that the table gives no weight only
// those count that are in full use and that the policy wants. A trial is not put off, nor is there
// overflow to where requests go unanswered.
func (c *Choice) overflow(in *Input) {
	if len(c.Targets) < 2 || !in.full(&c.Targets[0]) || c.Targets[0].Reason == ByTrial {
		return
	}
	home := in.cost(&c.Targets[0])
	for i := 1; i < len(c.Targets); i++ {
		t := &c.Targets[i]
		switch {
		case t.Place.Unanswered && !c.Targets[0].Place.Unanswered:
		case t.rank.group == standby, t.rank.group == fallback && t.Cluster.CapOf(in.Model.ID) < 1 && !in.Alone:
		case in.full(t), in.cost(t)+Margin >= home:
		default:
			c.first(i, ByOverflow)
			c.Targets[1].Reason = Full
			return
		}
	}
}

// full says whether a place has no room for this request.
func (in *Input) full(t *Target) bool {
	ceiling := in.Ceiling
	if !(ceiling > 0) {
		ceiling = 1
	}
	return t.Place.Busy || t.Place.Saturation >= ceiling
}

// cost is the time to the first token by way of a place. Where one is full and its wait is not known,
// it is taken to miss the objective, which is what full means.
func (in *Input) cost(t *Target) time.Duration {
	wait := t.Place.Wait
	if wait == 0 && in.full(t) {
		wait = in.Class.TTFTObjective
	}
	return t.RTT + wait + t.Place.Prefill
}
