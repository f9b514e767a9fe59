package state

import (
	"fmt"
	"slices"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// Bounds of writes that did not wait for approval.
const (
	// GlassFor is how long they are shown.
	GlassFor = 24 * time.Hour
	// MaxGlass is how many there may be in GlassRate, so that breaking the glass stays an exception.
	MaxGlass  = 30
	GlassRate = time.Hour
)

// ActionBreakGlass stands in the audit trail beside the write that did not wait for approval.
const ActionBreakGlass = "break_glass"

// BrokenGlass gives the writes of the last day, as of a time, that did not wait for the approval that they
// needed; oldest first.
func (v *View) BrokenGlass(at time.Time) []*statepb.BrokenGlass {
	return since(v.broken, at.Add(-GlassFor).UnixMilli())
}

// since leaves those after a time.
func since(all []*statepb.BrokenGlass, unixMs int64) []*statepb.BrokenGlass {
	return slices.DeleteFunc(slices.Clone(all), func(g *statepb.BrokenGlass) bool { return g.GetAtUnixMs() <= unixMs })
}

// breakGlass lets a write hold without approval: nil.
func (v *View) breakGlass(cmd *statepb.Command, kind policy.Kind, name, why string) *statepb.Outcome {
	at := cmd.GetAtUnixMs()
	if n := len(since(v.broken, at-GlassRate.Milliseconds())); n >= MaxGlass {
		return refuse(CodeTooMany, "", fmt.Sprintf("the glass was broken %d times within %s, as often as it may be", n, GlassRate))
	}
	v.broken = append(since(v.broken, at-GlassFor.Milliseconds()), &statepb.BrokenGlass{
		Revision: v.index, AtUnixMs: at, Actor: cmd.GetActor(), Kind: string(kind), Name: name, Why: bounded(why),
	})
	v.record(cmd, entry{action: ActionBreakGlass, kind: string(kind), name: name, reason: why})
	return nil
}

// Rehearse gives the state after a write as if it needed no approval, for those who look ahead: nobody may
// take it for the state. A refused write leaves it as it is.
func Rehearse(v *View, cmd *statepb.Command) (*View, *statepb.Outcome) {
	next := *v
	next.index++
	var out *statepb.Outcome
	if d := cmd.GetDelete(); d != nil {
		out = next.delete(cmd, d, licence{waived: true})
	} else {
		out = next.put(cmd, cmd.GetPut(), licence{waived: true})
	}
	if out.GetCode() != "" {
		return v, out
	}
	return &next, out
}
