package failover

import (
	"fmt"
	"time"

	"anabranch/api/fleet"
)

// moves is when a region was last moved, as far as each model is concerned, and when an operator last changed
// anything there.
type moves struct {
	moved   map[part]time.Time
	ordered map[fleet.RegionID]time.Time
}

func movesOf(places []Place, states map[Place]Cluster, evidence map[Place]Evidence) moves {
	m := moves{map[part]time.Time{}, map[fleet.RegionID]time.Time{}}
	for _, at := range places {
		c, region := Of(states, at), evidence[at].Region
		if p := (part{region, at.Model}); c.movedAt().After(m.moved[p]) {
			m.moved[p] = c.movedAt()
		}
		if c.OrderedAt.After(m.ordered[region]) {
			m.ordered[region] = c.OrderedAt
		}
	}
	return m
}

// movedAt is when evidence last moved the place. A new leader knows of what is under way since when.
func (c Cluster) movedAt() time.Time {
	if c.MovedAt.IsZero() && c.OrderedAt.IsZero() && (c.State == FailingOver || c.State == Ramping) {
		return c.Since
	}
	return c.MovedAt
}

// hold says why a place may not move by evidence now: the whole of its region would, for its model, and has moved
// within [Config.Pace]; or an operator has changed something there within [Config.Lock]. Empty: it may.
func (m moves) hold(at Place, region fleet.RegionID, count census, cfg Config, now time.Time) (paced, locked string) {
	p := part{region, at.Model}
	whole := count[p].gone+1 >= count[p].all
	if t := m.moved[p]; whole && !t.IsZero() && now.Sub(t) < cfg.Pace {
		paced = fmt.Sprintf("region %s moved %s ago, and moves at most once in %s", region, now.Sub(t).Round(time.Second), cfg.Pace)
	}
	if t := m.ordered[region]; !t.IsZero() && now.Sub(t) < cfg.Lock {
		locked = fmt.Sprintf("an operator changed something in %s less than %s ago", region, cfg.Lock)
	}
	return paced, locked
}
