package leader

import (
	"context"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// maxLead is how far above the state's own epoch a router's is believed. Each restore and recovery
// raises it by one: a report from further away is a fault, and would use epochs up.
const maxLead = 1000

// nextEpoch is the epoch that must be committed before the next table is published; 0: none. Routers
// may hold tables of a history that the state has lost: one of a higher epoch, or one of this epoch
// that was never published here. After a restore or a recovery the epoch rises in any case, once
// routers have been heard. Doubtful is a report that is not believed, nil if there is none.
func nextEpoch(v *state.View, s signal.Snapshot, warm bool) (to uint64, doubtful *routerpb.TableRef) {
	highest := v.Epoch()
	found := v.EpochDue() && warm
	for _, o := range s.Routers {
		for _, ref := range []*routerpb.TableRef{o.Hello.GetHolds(), o.Report.GetApplied()} {
			switch {
			case !strange(v, ref):
			case ref.GetEpoch() > v.Epoch() && ref.GetEpoch()-v.Epoch() > maxLead:
				doubtful = ref
			default:
				found = found || !v.EpochDue() || warm
				highest = max(highest, ref.GetEpoch())
			}
		}
	}
	if !found {
		return 0, doubtful
	}
	return highest + 1, doubtful
}

// strange says that a table of this cluster is held somewhere which is not known to have been
// published by this history. One that is older than those that are kept is taken to be its own.
func strange(v *state.View, ref *routerpb.TableRef) bool {
	switch {
	case ref.GetRevision() == 0 || ref.GetClusterId() != v.ClusterID():
		return false
	case ref.GetEpoch() != v.Epoch():
		return ref.GetEpoch() > v.Epoch()
	}
	tables := v.Tables()
	if len(tables) > 0 && ref.GetRevision() < tables[0].GetRef().GetRevision() {
		return false
	}
	for _, t := range tables {
		if proto.Equal(t.GetRef(), ref) {
			return false
		}
	}
	return true
}

// settleEpoch commits a higher epoch where one is needed, and says whether tables may be published
// now. The state is read after the signals: what routers report must have been published before.
func (l *loop) settleEpoch(ctx context.Context, s signal.Snapshot) bool {
	view := l.o.Store.View()
	to, doubtful := nextEpoch(view, s, l.warm)
	if doubtful != nil && !l.doubted {
		l.doubted = true
		l.logger.Error("a router reports an epoch that can't be: empty its folder of tables",
			"epoch", doubtful.GetEpoch(), "revision", doubtful.GetRevision(), "own", view.Epoch())
	}
	if to == 0 {
		return !view.EpochDue()
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l.proposed = l.o.Now()
	outcome, err := l.o.Propose(ctx, &statepb.Command{
		Format:   1,
		AtUnixMs: l.proposed.UnixMilli(),
		Actor:    &statepb.Actor{Name: actor, Role: "admin", Reason: "restored or recovered: routers may hold later tables"},
		Op:       &statepb.Command_BumpEpoch{BumpEpoch: &statepb.BumpEpoch{AtLeast: to}},
	})
	switch {
	case err != nil:
		l.logger.Warn("raise the epoch", "error", err) // the next tick tries again
	case outcome.GetCode() != "":
		l.logger.Error("epoch refused", "code", outcome.GetCode(), "reason", outcome.GetMessage())
	default:
		l.logger.Info("epoch raised", "from", view.Epoch(), "to", to)
	}
	return false
}
