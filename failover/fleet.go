package failover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"anabranch/api/fleet"
)

// StepAll moves all places on together, which is needed for the two judgements that none can make by
// itself: whether too much turned bad at once to be believed, and whether evacuating one more would
// leave a second region empty. Places without evidence are left out of the result; those without a
// state of their own go on from that of their cluster as a whole, and begin healthy without one.
// Config gives each place's numbers; those of correlated change are taken from [DefaultConfig] merged
// with the first place's. The transitions are sorted by place.
func StepAll(
	states map[Place]Cluster, evidence map[Place]Evidence, config func(Place) Config, now time.Time,
) (map[Place]Cluster, []Transition) {
	next := make(map[Place]Cluster, len(evidence))
	var changes []Transition
	places := slices.SortedFunc(maps.Keys(evidence), ComparePlaces)
	if len(places) == 0 {
		return next, nil
	}
	frozen := correlated(places, states, evidence, config, now)
	count := census{}
	for _, at := range places {
		if !evidence[at].off(now) { // neither in use nor taken out of it on evidence
			count.add(at, evidence[at].Region, Of(states, at).Gone())
		}
	}
	moves := movesOf(places, states, evidence)
	for _, at := range places {
		in, cfg := evidence[at], config(at).ready()
		in.Frozen = frozen
		in.Blocked = count.blocks(at, in.Region)
		in.Paced, in.Locked = moves.hold(at, in.Region, count, cfg, now)
		was := Of(states, at)
		c, change := Step(was, in, config(at), now)
		if c.Gone() && !was.Gone() {
			count.leave(at, in.Region)
		}
		next[at] = c
		if change != (Transition{}) {
			change.Place = at
			changes = append(changes, change)
		}
	}
	return next, changes
}

// part is a region as far as one model is concerned, or as a whole without one.
type part struct {
	region fleet.RegionID
	model  fleet.ModelID
}

// stock counts places, and those of them that are out of use on evidence.
type stock struct{ all, gone int }

// census counts the places of each region, of each model and of all together.
type census map[part]stock

func (c census) add(at Place, region fleet.RegionID, gone bool) {
	for _, p := range parts(at, region) {
		s := c[p]
		s.all++
		if gone {
			s.gone++
		}
		c[p] = s
	}
}

func (c census) leave(at Place, region fleet.RegionID) {
	for _, p := range parts(at, region) {
		s := c[p]
		s.gone++
		c[p] = s
	}
}

// parts are those that a place belongs to.
func parts(at Place, region fleet.RegionID) []part {
	if at.Model == "" {
		return []part{{region, ""}}
	}
	return []part{{region, ""}, {region, at.Model}}
}

// blocks says why a place may not be taken out of use: it is the last of its region, be it of its
// model or of all, and another region has none left. Empty: it may.
func (c census) blocks(at Place, region fleet.RegionID) string {
	for _, p := range parts(at, region) {
		if s := c[p]; s.gone+1 < s.all {
			continue
		}
		switch empty := c.emptied(p); {
		case empty == "":
		case p.model == "":
			return fmt.Sprintf("region %s is evacuated already, and this is the last cluster of %s", empty, region)
		default:
			return fmt.Sprintf("region %s is evacuated of %s already, and this is its last cluster of %s", empty, p.model, region)
		}
	}
	return ""
}

// emptied names another region without a place in use, or "".
func (c census) emptied(than part) fleet.RegionID {
	var found fleet.RegionID
	for p, s := range c {
		if p.model == than.model && p.region != than.region && s.gone >= s.all && (found == "" || p.region < found) {
			found = p.region
		}
	}
	return found
}

// correlated says why what turns bad now is not to be believed, or "". Turning bad is hard
// evidence that began within the last [Config.Correlated]; a region turns bad when more than half
// of its capacity does.
func correlated(
	places []Place, states map[Place]Cluster, evidence map[Place]Evidence, config func(Place) Config, now time.Time,
) string {
	cfg := config(places[0]).ready()
	bad := map[fleet.RegionID]float64{}
	total := map[fleet.RegionID]float64{}
	clusters := map[fleet.ClusterID]bool{}
	var badAll, all float64
	for _, at := range places {
		in := evidence[at]
		weight := max(in.Capacity, 1e-9)
		total[in.Region] += weight
		all += weight
		clusters[at.Cluster] = true
		if turnsBad(Of(states, at), judge(in, config(at).ready()), cfg, now) {
			bad[in.Region] += weight
			badAll += weight
		}
	}
	var regions []fleet.RegionID
	for region, weight := range bad {
		if 2*weight > total[region] {
			regions = append(regions, region)
		}
	}
	slices.SortFunc(regions, cmp.Compare)
	switch {
	case len(regions) >= 2:
		return fmt.Sprintf("%d regions turned bad within %s: %s", len(regions), cfg.Correlated, some(regions))
	case len(clusters) > 1 && badAll > cfg.CorrelatedShare*all:
		return fmt.Sprintf("%.0f %% of capacity turned bad within %s", 100*badAll/all, cfg.Correlated)
	}
	return ""
}

// someRegions is how many a reason names: it stands with each cluster of a fleet that is frozen.
const someRegions = 8

// some names regions, and how many more there are.
func some(regions []fleet.RegionID) string {
	if n := len(regions) - someRegions; n > 0 {
		return fmt.Sprintf("%v and %d more", regions[:someRegions], n)
	}
	return fmt.Sprint(regions)
}

func turnsBad(c Cluster, v verdict, cfg Config, now time.Time) bool {
	switch {
	case c.State == FailingOver:
		return now.Sub(c.Since) <= cfg.Correlated-cfg.Confirm
	case !v.hard || c.Cap() == 0:
		return false
	default:
		return c.BadSince.IsZero() || now.Sub(c.BadSince) <= cfg.Correlated
	}
}
