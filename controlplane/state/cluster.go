package state

import (
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state/statepb"
)

// Roles are the roles that a token may have, by rising power over what others do.
func Roles() []string { return []string{"viewer", "operator", "approver", "admin"} }

// init gives the cluster its identity and tokens, once. A second Init changes nothing and answers
// "exists".
func (v *View) init(cmd *statepb.Command, in *statepb.Init) *statepb.Outcome {
	if v.clusterID != "" {
		return refuse(CodeExists, "cluster_id", fmt.Sprintf("the cluster is %s already", v.clusterID))
	}
	if in.GetClusterId() == "" {
		return refuse(CodeInvalid, "cluster_id", "is empty")
	}
	names := map[string]bool{}
	for i, t := range in.GetTokens() {
		at := fmt.Sprintf("tokens[%d]", i)
		switch {
		case t.GetName() == "" || names[t.GetName()]:
			return refuse(CodeInvalid, at+".name", "is empty or appears twice")
		case !slices.Contains(Roles(), t.GetRole()):
			return refuse(CodeInvalid, at+".role", "is not known")
		case len(t.GetSha256()) != 32:
			return refuse(CodeInvalid, at+".sha256", "is not 32 bytes long")
		}
		names[t.GetName()] = true
	}
	v.clusterID, v.epoch, v.tokens = in.GetClusterId(), 1, in.GetTokens()
	v.record(cmd, entry{action: "init", kind: "ControlPlane", name: in.GetClusterId()})
	return &statepb.Outcome{}
}

func (v *View) putNode(cmd *statepb.Command, p *statepb.PutNode) *statepb.Outcome {
	if p.GetId() == "" {
		return refuse(CodeInvalid, "id", "is empty")
	}
	at, found := findNode(v.nodes, p.GetId())
	switch {
	case found && proto.Equal(v.nodes[at], p):
		return &statepb.Outcome{}
	case found:
		v.nodes = slices.Clone(v.nodes)
		v.nodes[at] = p
	case len(v.nodes) >= MaxNodes:
		return refuse(CodeInvalid, "id", fmt.Sprintf("there are %d nodes, which is the limit", len(v.nodes)))
	default:
		v.nodes = slices.Insert(slices.Clone(v.nodes), at, p)
	}
	v.record(cmd, entry{action: "update", kind: "Node", name: p.GetId()})
	return &statepb.Outcome{}
}

// bumpEpoch raises the epoch by one, or to at_least; an epoch that is there already changes nothing,
// so that the command may be repeated.
func (v *View) bumpEpoch(cmd *statepb.Command, b *statepb.BumpEpoch) *statepb.Outcome {
	to := b.GetAtLeast()
	if to == 0 {
		to = v.epoch + 1
	}
	if to <= v.epoch {
		return &statepb.Outcome{}
	}
	v.epoch, v.epochDue = to, false
	v.interrupt(cmd, "the epoch has risen")
	v.record(cmd, entry{action: "epoch", name: strconv.FormatUint(to, 10)})
	return &statepb.Outcome{}
}
