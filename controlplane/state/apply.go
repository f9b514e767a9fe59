package state

import (
	"errors"
	"fmt"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// Format is the newest format of commands that this build applies. A change of what an existing
// command does, also of the verdicts of policy.Check and policy.CheckDelete, is a new format:
// replicas of two builds must agree on every entry. [FormatOf] says which commands need it.
const Format = 6

// The codes of an outcome; empty means done.
const (
	CodeExists         = "exists"          // it is there already
	CodeNotFound       = "not_found"       // it is not there
	CodePrecondition   = "precondition"    // it has another revision than the command expects
	CodeInvalid        = "invalid"         // the command or its document is wrong
	CodeInUse          = "in_use"          // others still refer to it
	CodeNotInitialised = "not_initialised" // Init has not been applied
	CodeSkipped        = "skipped"         // unknown to this build, and ignorable
	CodeKeyReused      = "key_reused"      // the idempotency key stands for another request
	CodeFieldOwned     = "field_owned"     // an automation would change what others have set
	CodeTooMany        = "too_many"        // there are as many as there may be, for now
	CodeDecided        = "decided"         // the proposal is not pending any more
	CodeChanged        = "changed"         // what was approved is not what is proposed
	CodeOwnProposal    = "own_proposal"    // who proposes a change can't approve it
	CodeNotProposer    = "not_proposer"    // a proposal is withdrawn by who made it
)

// ErrUnknown means that a command is newer than this build and may not be skipped: the node must
// halt, because from here on its state would differ from that of the others.
var ErrUnknown = errors.New("the command is newer than this build; upgrade this node")

// Apply gives the state after one command. The same view, index and command give the same view and
// outcome on every node. A command whose precondition fails changes nothing but the index. An error
// means that the node must halt; the view is then nil.
func Apply(v *View, index uint64, cmd *statepb.Command) (*View, *statepb.Outcome, error) {
	if index <= v.index {
		return nil, nil, fmt.Errorf("apply entry %d: the state is already at %d", index, v.index)
	}
	next := *v
	next.index = index
	if known := cmd.GetFormat() <= Format && cmd.GetOp() != nil && knownContent(cmd); !known {
		if cmd.GetIgnorable() {
			return &next, &statepb.Outcome{Revision: index, Code: CodeSkipped}, nil
		}
		return nil, nil, fmt.Errorf("apply entry %d of format %d with a build that knows formats up to %d: %w", index, cmd.GetFormat(), Format, ErrUnknown)
	}
	out := next.repeated(cmd)
	if out == nil {
		out = next.apply(cmd)
		next.remember(v, cmd, out)
	}
	out.Revision = index
	if out.Code != "" {
		next = *v // nothing of a refused command stays
		next.index = index
	}
	return &next, out, nil
}

// knownContent: a kind or a feature level that this build does not know comes from a newer one.
func knownContent(cmd *statepb.Command) bool {
	switch op := cmd.GetOp().(type) {
	case *statepb.Command_Put:
		return policy.Plural(policy.Kind(op.Put.GetKind())) != ""
	case *statepb.Command_Delete:
		return policy.Plural(policy.Kind(op.Delete.GetKind())) != ""
	case *statepb.Command_SetFeatureLevel:
		return op.SetFeatureLevel.GetLevel() <= Format
	}
	return true
}

// apply changes v, which is this call's own shallow copy: what v refers to is shared with older
// views and is replaced, never written to.
func (v *View) apply(cmd *statepb.Command) *statepb.Outcome {
	switch op := cmd.GetOp().(type) {
	case *statepb.Command_Noop:
		return &statepb.Outcome{}
	case *statepb.Command_Init:
		return v.init(cmd, op.Init)
	}
	if v.clusterID == "" {
		return refuse(CodeNotInitialised, "", "the cluster is not initialised yet")
	}
	switch op := cmd.GetOp().(type) {
	case *statepb.Command_Put:
		return v.put(cmd, op.Put, licence{})
	case *statepb.Command_Delete:
		return v.delete(cmd, op.Delete, licence{})
	case *statepb.Command_Publish:
		return v.publish(cmd, op.Publish)
	case *statepb.Command_PutNode:
		return v.putNode(cmd, op.PutNode)
	case *statepb.Command_BumpEpoch:
		return v.bumpEpoch(cmd, op.BumpEpoch)
	case *statepb.Command_StartRollout:
		return v.startRollout(cmd, op.StartRollout)
	case *statepb.Command_SteerChange:
		return v.steer(cmd, op.SteerChange)
	case *statepb.Command_SetFeatureLevel:
		return v.setFeatureLevel(cmd, op.SetFeatureLevel)
	case *statepb.Command_Denied:
		d := op.Denied
		v.record(cmd, entry{action: "denied", kind: d.GetKind(), name: d.GetName(), code: d.GetCode(), reason: d.GetAction()})
	case *statepb.Command_PutToken:
		return v.putToken(cmd, op.PutToken)
	case *statepb.Command_RevokeToken:
		return v.revokeToken(cmd, op.RevokeToken)
	case *statepb.Command_Note:
		return v.note(cmd, op.Note)
	case *statepb.Command_ArchiveAudit:
		return v.archiveAudit(cmd, op.ArchiveAudit)
	case *statepb.Command_DecideProposal:
		return v.decide(cmd, op.DecideProposal)
	case *statepb.Command_ExpireProposals:
		return v.expire(cmd)
	case *statepb.Command_CountSpending:
		return v.countSpending(cmd, op.CountSpending)
	case *statepb.Command_WarnBudget:
		return v.warnBudget(cmd, op.WarnBudget)
	case *statepb.Command_CountUsage:
		return v.keepAccount(v.account.Count(op.CountUsage, cmd.GetAtUnixMs(), v.index))
	case *statepb.Command_CloseMinutes:
		return v.keepAccount(v.account.Close(op.CloseMinutes, v.index))
	case *statepb.Command_PutPrices:
		return v.putPrices(cmd, op.PutPrices)
	case *statepb.Command_PutBilled:
		return v.putBilled(op.PutBilled.GetDay())
	case *statepb.Command_CreateDrill:
		return v.createDrill(cmd, op.CreateDrill)
	case *statepb.Command_DecideDrill:
		return v.decideDrill(cmd, op.DecideDrill)
	case *statepb.Command_SteerDrill:
		return v.steerDrill(cmd, op.SteerDrill)
	case *statepb.Command_RenewDrill:
		return v.renewDrill(cmd, op.RenewDrill)
	case *statepb.Command_PutOrder:
		return v.putOrder(cmd, op.PutOrder)
	case *statepb.Command_EndOrder:
		return v.endOrder(cmd, op.EndOrder)
	}
	return &statepb.Outcome{}
}

func refuse(code, field, message string) *statepb.Outcome {
	return &statepb.Outcome{Code: code, Field: field, Message: message}
}
