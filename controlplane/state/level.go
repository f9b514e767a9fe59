package state

import (
	"slices"
	"strconv"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// firstKinds are those that builds of format 1 know.
var firstKinds = []policy.Kind{
	policy.KindRegion, policy.KindCluster, policy.KindModel, policy.KindTenant,
	policy.KindTrafficPolicy, policy.KindQuota, policy.KindRateCard,
}

// FormatOf is the format that a command needs: the oldest builds that apply it are those whose
// [Format] it is. A command may be proposed once the committed feature level has reached it, or if
// it is ignorable.
func FormatOf(cmd *statepb.Command) uint32 {
	needs := operationFormat(cmd)
	if cmd.GetOnce() != nil {
		needs = max(needs, 2) // format 1 would do it twice
	}
	return needs
}

func operationFormat(cmd *statepb.Command) uint32 {
	switch op := cmd.GetOp().(type) {
	case *statepb.Command_Noop, *statepb.Command_Init,
		*statepb.Command_PutNode, *statepb.Command_BumpEpoch, *statepb.Command_Denied:
		return 1
	case *statepb.Command_Publish:
		return publishFormat(op.Publish)
	case *statepb.Command_Put:
		needs := max(kindFormat(policy.Kind(op.Put.GetKind())), policy.NeedsFormat(policy.Kind(op.Put.GetKind()), op.Put.GetDoc()))
		if op.Put.GetRollbackTo() != 0 || op.Put.GetManager() != "" || op.Put.GetForce() || op.Put.GetBreakGlass() != "" {
			needs = max(needs, 3) // older formats would take it for an ordinary write by a person
		}
		return needs
	case *statepb.Command_Delete:
		needs := kindFormat(policy.Kind(op.Delete.GetKind()))
		if op.Delete.GetManager() != "" || op.Delete.GetForce() || op.Delete.GetBreakGlass() != "" {
			needs = max(needs, 3)
		}
		return needs
	case *statepb.Command_SetFeatureLevel, *statepb.Command_Checkpoint:
		return 2
	case *statepb.Command_PutToken, *statepb.Command_RevokeToken,
		*statepb.Command_Note, *statepb.Command_ArchiveAudit, *statepb.Command_StartRollout, *statepb.Command_SteerChange,
		*statepb.Command_DecideProposal, *statepb.Command_ExpireProposals:
		return 3
	case *statepb.Command_CountSpending, *statepb.Command_WarnBudget:
		return 4
	case *statepb.Command_CountUsage, *statepb.Command_CloseMinutes, *statepb.Command_PutPrices, *statepb.Command_PutBilled:
		return 5
	case *statepb.Command_CreateDrill, *statepb.Command_DecideDrill, *statepb.Command_SteerDrill, *statepb.Command_RenewDrill,
		*statepb.Command_PutOrder, *statepb.Command_EndOrder:
		return 6
	}
	return Format
}

// publishFormat: older builds keep one health of each cluster, know of no table on trial, and would put one that is only
// to tighten residency in force whole.
func publishFormat(p *statepb.Publish) uint32 {
	switch {
	case p.GetTighten():
		return 6
	case slices.ContainsFunc(p.GetHealth(), func(h *statepb.ClusterHealth) bool { return h.GetModel() != "" }):
		return 6
	case p.GetTrial() != nil:
		return 3
	}
	return 1
}

func kindFormat(kind policy.Kind) uint32 {
	switch {
	case slices.Contains(firstKinds, kind):
		return 1
	case kind == policy.KindSafetyRule:
		return 3
	case kind == policy.KindDrillPlan:
		return 6
	}
	return Format
}

// FeatureLevel is the newest format of commands that every voter applies, as far as has been
// committed; 1 at first. It never falls: a node of an older build that joins later stops at the first
// thing that it does not know.
func (v *View) FeatureLevel() uint32 { return max(1, v.level) }

// setFeatureLevel raises the level; a level that is there already changes nothing.
func (v *View) setFeatureLevel(cmd *statepb.Command, s *statepb.SetFeatureLevel) *statepb.Outcome {
	if s.GetLevel() <= v.FeatureLevel() {
		return &statepb.Outcome{}
	}
	if v.FeatureLevel() < 3 && s.GetLevel() >= 3 {
		v.beginHistory()
	}
	v.level = s.GetLevel()
	v.record(cmd, entry{action: "update", kind: "FeatureLevel", name: strconv.FormatUint(uint64(v.level), 10)})
	return &statepb.Outcome{}
}
