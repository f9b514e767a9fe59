// Package episode finds times in which traffic was kept away from clusters: drills, failovers, drains and orders to
// evacuate, by what the replicated state remembers of them. What they cost is then a question to the account, for the
// times that [Episode.Window] gives.
package episode

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/order"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover"
	"anabranch/failover/drill"
)

// Kind says what kept traffic away.
type Kind string

// The kinds.
const (
	Drill    Kind = "drill"
	Failover Kind = "failover" // what evidence decided
	Drain    Kind = "drain"    // what an operator wished
	Order    Kind = "order"    // an emergency order to evacuate
)

// Episode is a time in which traffic was kept away from clusters of a region.
type Episode struct {
	Kind Kind
	// ID of the drill or of the order; empty of others.
	ID string
	// Name of the drill's plan; empty: it has none.
	Name     string
	Region   fleet.RegionID
	Clusters []fleet.ClusterID
	// Reason is what was said of its beginning.
	Reason string
	// Since is when it was first measured or known, which is before From for drills with a baseline. Until is zero as long
	// as it goes on.
	Since, From, Until time.Time
}

// Input is what is remembered. None of it is changed.
type Input struct {
	// Trail holds entries of the audit trail, oldest first. Those that are not about health are passed over.
	Trail  []*statepb.AuditEntry
	Drills []*statepb.Drill
	// Orders that were given, also those that are over.
	Orders []*statepb.PutOrder
	// Region of a cluster; empty: it is not known any more.
	Region func(fleet.ClusterID) fleet.RegionID
	Now    time.Time
}

// Find gives the episodes that touch a time, the newest first. What began before anything remembered is not among them.
func Find(in Input, from, until time.Time) []Episode {
	all := slices.Concat(drills(in), judged(in), orders(in))
	all = slices.DeleteFunc(all, func(e Episode) bool {
		return !e.From.Before(until) || !e.Until.IsZero() && !e.Until.After(from)
	})
	slices.SortStableFunc(all, func(a, b Episode) int {
		return cmp.Or(b.From.Compare(a.From), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Region, b.Region))
	})
	return all
}

// drills are those that have moved traffic.
func drills(in Input) []Episode {
	var out []Episode
	for _, d := range in.Drills {
		from := shifted(d)
		resolved := readResolved(d.GetResolved())
		if from.IsZero() || len(resolved.Clusters) == 0 {
			continue
		}
		e := Episode{
			Kind: Drill, ID: strconv.FormatUint(d.GetId(), 10), Name: d.GetPlan(), Clusters: resolved.Clusters, Reason: readKind(d.GetSpec()) + " drill",
			Since: time.UnixMilli(d.GetStartedUnixMs()).UTC(), From: from,
		}
		if len(resolved.Regions) > 0 {
			e.Region = resolved.Regions[0]
		}
		if d.GetEndedUnixMs() != 0 {
			e.Until = time.UnixMilli(d.GetEndedUnixMs()).UTC()
		}
		out = append(out, e)
	}
	return out
}

// shifted is when a drill first shifted traffic; zero: it never did.
func shifted(d *statepb.Drill) time.Time {
	if kind := drill.Kind(readKind(d.GetSpec())); d.GetNotAfterUnixMs() == 0 || kind == "" || !kind.Moves() {
		return time.Time{}
	}
	for _, e := range d.GetEvents() {
		if e.GetState() == string(drill.Shifting) {
			return time.UnixMilli(e.GetAtUnixMs()).UTC()
		}
	}
	return time.Time{}
}

// together is how soon after one place another is part of the same episode.
const together = time.Minute

// judged are failovers and drains, by what the trail says of health. Places of one region that are away at once, or one
// right after the other, are one episode.
func judged(in Input) []Episode {
	open := map[string]*Episode{} // by place
	var ended []*Episode
	for _, a := range in.Trail {
		if a.GetKind() != "ClusterHealth" {
			continue
		}
		at := time.UnixMilli(a.GetAtUnixMs()).UTC()
		kind, away := standing(a.GetCode())
		switch e := open[a.GetName()]; {
		case e == nil && away && kind != "":
			cluster, _, _ := strings.Cut(a.GetName(), "/")
			id := fleet.ClusterID(cluster)
			open[a.GetName()] = &Episode{Kind: kind, Region: in.Region(id), Clusters: []fleet.ClusterID{id}, Reason: a.GetReason(), Since: at, From: at}
		case e != nil && !away:
			e.Until = at
			ended = append(ended, e)
			delete(open, a.GetName())
		}
	}
	for _, e := range open {
		ended = append(ended, e)
	}
	return merged(ended)
}

// standing says what a state of health is: whether a place is kept from all that it would get, and what began that.
func standing(code string) (kind Kind, away bool) {
	switch failover.State(code) {
	case failover.FailingOver, failover.Evacuated:
		return Failover, true
	case failover.Draining, failover.Drained:
		return Drain, true
	case failover.Recovering, failover.Ramping, failover.Frozen:
		return "", true // of what was away before; else its beginning is not known
	default:
		return "", false
	}
}

func merged(list []*Episode) []Episode {
	slices.SortFunc(list, func(a, b *Episode) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Region, b.Region), a.From.Compare(b.From), slices.Compare(a.Clusters, b.Clusters))
	})
	var out []Episode
	for _, e := range list {
		last := len(out) - 1
		if last < 0 || out[last].Kind != e.Kind || out[last].Region != e.Region || !out[last].Until.IsZero() && e.From.Sub(out[last].Until) > together {
			out = append(out, *e)
			continue
		}
		o := &out[last]
		if !slices.Contains(o.Clusters, e.Clusters[0]) {
			o.Clusters = append(o.Clusters, e.Clusters[0])
			slices.Sort(o.Clusters)
		}
		if !o.Until.IsZero() && (e.Until.IsZero() || e.Until.After(o.Until)) {
			o.Until = e.Until
		}
	}
	return out
}

// orders are those that evacuate. Their clusters are those of the region, as far as the trail or drills need not say.
func orders(in Input) []Episode {
	var out []Episode
	for _, p := range in.Orders {
		o := order.FromProto(p.GetOrder())
		if o.Kind != order.Evacuate {
			continue
		}
		e := Episode{Kind: Order, ID: o.ID, Reason: o.Reason, Since: o.At.UTC(), From: o.At.UTC()}
		switch what, name := o.Place(); what {
		case "region":
			e.Region = fleet.RegionID(name)
		default:
			e.Clusters = []fleet.ClusterID{fleet.ClusterID(name)}
			e.Region = in.Region(fleet.ClusterID(name))
		}
		switch {
		case p.GetEndedUnixMs() != 0:
			e.Until = time.UnixMilli(p.GetEndedUnixMs()).UTC()
		case !o.Expires.After(in.Now):
			e.Until = o.Expires.UTC()
		}
		out = append(out, e)
	}
	return out
}
