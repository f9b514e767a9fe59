package leader

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// published is a state of epoch 2 that published at 4 and 5, reborn if due.
func published(t *testing.T, due bool) *state.View {
	t.Helper()
	v := state.Empty()
	weigh := func(w float64) *statepb.Command {
		return &statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: &routerpb.Table{
			Regions: []*routerpb.Region{{Id: "us"}}, Clusters: []*routerpb.Cluster{{Id: "a"}},
			Weights: []*routerpb.Weights{{Model: "m", Clusters: []*routerpb.ClusterWeight{{Cluster: "a", Weight: w}}}},
		}}}}
	}
	for i, c := range []*statepb.Command{
		{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c-1"}}},
		{Op: &statepb.Command_BumpEpoch{BumpEpoch: &statepb.BumpEpoch{AtLeast: 2}}},
		{Op: &statepb.Command_Noop{Noop: &statepb.Noop{}}},
		weigh(0.25),
		weigh(0.75),
		{Op: &statepb.Command_Noop{Noop: &statepb.Noop{}}},
		{Op: &statepb.Command_Noop{Noop: &statepb.Noop{}}},
	} {
		c.Format = state.Format
		next, out, err := state.Apply(v, uint64(i+1), c)
		if err != nil || out.GetCode() != "" {
			t.Fatalf("%v: %v %v", c, err, out)
		}
		v = next
	}
	if due {
		v = v.Reborn(state.Rebirth{Lineage: "l1"})
	}
	return v
}

func TestTheEpochRisesAboveWhatRoutersHold(t *testing.T) {
	ref := func(cluster string, epoch, revision uint64) *routerpb.TableRef {
		return &routerpb.TableRef{ClusterId: cluster, Epoch: epoch, Revision: revision}
	}
	for _, c := range []struct {
		name      string
		due, warm bool
		holds     *routerpb.TableRef // by the hello of one router
		applied   *routerpb.TableRef // by the report of another
		want      uint64
		doubt     bool
	}{
		{name: "nothing held", warm: true},
		{name: "the current table and the one before", warm: true, holds: ref("c-1", 2, 4), applied: ref("c-1", 2, 5)},
		{name: "a table of before what is kept", warm: true, applied: ref("c-1", 2, 3)},
		{name: "a table of an earlier epoch", warm: true, applied: ref("c-1", 1, 900)},
		{name: "a table of another control plane", warm: true, applied: ref("c-2", 9, 900)},
		{name: "a later epoch", applied: ref("c-1", 3, 1), want: 4},
		{name: "of two later ones the highest", holds: ref("c-1", 6, 1), applied: ref("c-1", 3, 1), want: 7},
		{name: "a revision of the future", applied: ref("c-1", 2, 8), want: 3},
		{name: "a revision that published something else", applied: ref("c-1", 2, 6), want: 3},
		{name: "restored, routers not heard yet", due: true},
		{name: "restored, and a later epoch heard too early to know all", due: true, applied: ref("c-1", 5, 1)},
		{name: "restored, nobody knows better", due: true, warm: true, applied: ref("c-1", 2, 5), want: 3},
		{name: "restored, a router is ahead", due: true, warm: true, applied: ref("c-1", 5, 1), want: 6},
		{name: "an epoch that can't be", warm: true, applied: ref("c-1", math.MaxUint64, 1), doubt: true},
		{name: "the last epoch that can", warm: true, applied: ref("c-1", 2+maxLead, 1), want: 3 + maxLead},
		{name: "restored, and an epoch that can't be", due: true, warm: true, applied: ref("c-1", math.MaxUint64, 1), want: 3, doubt: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			signals := signal.New(nil)
			signals.Put(signal.Observation{Node: "n1", Hello: &routerpb.Hello{RouterId: "a", Region: "us", Holds: c.holds}, Received: now})
			signals.Put(signal.Observation{
				Node: "n1", Hello: &routerpb.Hello{RouterId: "b", Region: "us"}, Received: now,
				Report: &routerpb.Report{Applied: c.applied},
			})
			to, doubtful := nextEpoch(published(t, c.due), signals.Snapshot(now), c.warm)
			if to != c.want || (doubtful != nil) != c.doubt {
				t.Errorf("epoch %d, doubtful %v; want %d, %v", to, doubtful, c.want, c.doubt)
			}
		})
	}
}

func TestARestoredClusterRaisesTheEpochBeforeItPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.lead()
		r.pass(20 * time.Second)
		r.end()
		synctest.Wait()
		r.mu.Lock()
		r.view = r.view.Reborn(state.Rebirth{Index: r.view.Index(), Lineage: "l1"})
		r.mu.Unlock()
		n, before := len(r.proposals()), r.View().Table().GetRef()
		r.signals.Put(signal.Observation{
			Node: "n1", Received: time.Now(),
			Hello: &routerpb.Hello{RouterId: "r-new", Region: "eu", Holds: &routerpb.TableRef{ClusterId: "c-1", Epoch: 4, Revision: 900}},
		})
		r.lead()
		r.pass(15 * time.Second)
		got := r.proposals()[n:]
		if len(got) == 0 || got[0].publish != nil || r.View().EpochDue() {
			t.Fatalf("first it proposed %+v, due %v", got, r.View().EpochDue())
		}
		if e := r.View().Epoch(); e != 5 {
			t.Errorf("epoch %d, want one above that of the router", e)
		}
		after := r.View().Table().GetRef()
		if after.GetEpoch() != 5 || after.GetRevision() <= before.GetRevision() {
			t.Errorf("table %v after %v", after, before)
		}
		for _, p := range got {
			if p.outcome.GetCode() != "" {
				t.Errorf("refused: %v", p.outcome)
			}
		}
		n = len(r.proposals())
		r.pass(time.Minute)
		if got := r.proposals(); len(got) != n {
			t.Errorf("nothing happened for a minute, and there were %d proposals", len(got)-n)
		}
	})
}

func TestAReportedEpochThatCannotBeIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		r.signals.Put(signal.Observation{
			Node: "n1", Received: time.Now(),
			Hello: &routerpb.Hello{RouterId: "r-x", Region: "eu", Holds: &routerpb.TableRef{ClusterId: "c-1", Epoch: math.MaxUint64, Revision: 1}},
		})
		r.lead()
		r.pass(30 * time.Second)
		if r.View().Epoch() != 1 || r.View().Table() == nil {
			t.Errorf("epoch %d, table %v", r.View().Epoch(), r.View().Table().GetRef())
		}
		r.wait()
		if n := strings.Count(r.logs.String(), "an epoch that can't be"); n != 1 {
			t.Errorf("told %d times", n)
		}
	})
}
