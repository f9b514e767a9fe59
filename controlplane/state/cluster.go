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
func (n *View) init(cmd *statepb.Command, in *statepb.Init) *statepb.Outcome {
	if n.clusterID != "" {
		return refuse(CodeExists, "cluster_id", fmt.Sprintf("the cluster is %s already", n.clusterID))
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
	n.clusterID, n.epoch, n.tokens = in.GetClusterId(), 1, in.GetTokens()
	n.record(cmd, entry{action: "init", kind: "Cluster", name: in.GetClusterId()})
	return &statepb.Outcome{}
}

func (n *View) putNode(cmd *statepb.Command, p *statepb.PutNode) *statepb.Outcome {
	if p.GetId() == "" {
		return refuse(CodeInvalid, "id", "is empty")
	}
	at, found := findNode(n.nodes, p.GetId())
	switch {
	case found && proto.Equal(n.nodes[at], p):
		return &statepb.Outcome{}
	case found:
		n.nodes = slices.Clone(n.nodes)
		n.nodes[at] = p
	case len(n.nodes) >= MaxNodes:
		return refuse(CodeInvalid, "id", fmt.Sprintf("there are %d nodes, which is the limit", len(n.nodes)))
	default:
		n.nodes = slices.Insert(slices.Clone(n.nodes), at, p)
	}
	n.record(cmd, entry{action: "update", kind: "Node", name: p.GetId()})
	return &statepb.Outcome{}
}

// bumpEpoch raises the epoch by one, or to at_least; an epoch that is there already changes nothing,
// so that the command may be repeated.
func (n *View) bumpEpoch(cmd *statepb.Command, b *statepb.BumpEpoch) *statepb.Outcome {
	to := b.GetAtLeast()
	if to == 0 {
		to = n.epoch + 1
	}
	if to <= n.epoch {
		return &statepb.Outcome{}
	}
	n.epoch = to
	n.record(cmd, entry{action: "epoch", name: strconv.FormatUint(to, 10)})
	return &statepb.Outcome{}
}
