package forward

import (
	"context"
	"time"

	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
)

// raiseLevel commits a higher feature level while this node leads and every voter has lately said
// that it applies it.
func (f *Forward) raiseLevel(ctx context.Context) {
	tick := time.NewTicker(f.o.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		view := f.store.View()
		if !f.store.IsLeader() || view.ClusterID() == "" {
			continue
		}
		level := lowest(f.store.Members(), f.peers.list(time.Now()), string(f.store.ID()), f.o.format, 3*f.o.Interval)
		if level <= view.FeatureLevel() {
			continue
		}
		if err := f.commitLevel(ctx, level); err != nil {
			f.logger.Warn("raise the feature level", "level", level, "error", err)
		}
	}
}

func (f *Forward) commitLevel(ctx context.Context, level uint32) error {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	_, err := f.store.Propose(ctx, &statepb.Command{
		AtUnixMs: time.Now().UnixMilli(),
		Actor:    &statepb.Actor{Name: "system/forward", Role: "admin", Reason: "every voter applies it"},
		Op:       &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: level}},
	})
	if err == nil {
		f.logger.Info("feature level raised", "level", level)
	}
	return err
}

// lowest is the feature level that all voters have, this node, whose own is format, included; 0 if one
// of them has not said so for maxAge.
func lowest(members []store.Member, known []PeerStatus, own string, format uint32, maxAge time.Duration) uint32 {
	said := map[string]uint32{own: format}
	for _, p := range known {
		if p.Age <= maxAge {
			said[string(p.ID)] = p.FeatureLevel
		}
	}
	level := format
	for _, m := range members {
		if m.Voter {
			level = min(level, said[string(m.ID)])
		}
	}
	return level
}
