package publish

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

var leaseNow = time.UnixMilli(1_764_400_000_000)

// restored is a state as a snapshot has it.
func restored(t *testing.T, epoch uint64, drills ...*statepb.Drill) *state.View {
	t.Helper()
	payload, err := proto.Marshal(&statepb.Snapshot{
		Format: state.Format, FeatureLevel: state.Format, ClusterId: "c-1", Epoch: epoch, Index: 10, Drills: &statepb.Drills{Drills: drills},
	})
	if err != nil {
		t.Fatal(err)
	}
	whole := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32([]byte("ANABSTAT"), state.Format), uint64(len(payload)))
	whole = append(whole, payload...)
	sum := sha256.Sum256(whole)
	v, err := state.Decode(bytes.NewReader(append(whole, sum[:]...)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// shifting is a drill that shifts half of its scope, as a state has it after so many renewals, the last at a time.
func shifting(sequence uint64, renewed time.Time) *statepb.Drill {
	return &statepb.Drill{
		Id: 5, Revision: 9, State: string(drill.Shifting), BaseSha256: make([]byte, 32), Sequence: sequence,
		RenewedUnixMs: renewed.UnixMilli(), StateUnixMs: leaseNow.Add(-time.Hour).UnixMilli(), NotAfterUnixMs: leaseNow.Add(time.Hour).UnixMilli(),
	}
}

func over(sequence uint64) *statepb.Drill {
	d := shifting(sequence, leaseNow)
	d.State, d.Outcome = string(drill.Done), string(drill.Succeeded)
	return d
}

func half(d *statepb.Drill) drill.Effect {
	return drill.Effect{Leased: drill.State(d.GetState()).Leased(), Shifted: drill.Whole / 2}
}

// watched is a session of a router that holds leases, on a node that a test moves through time.
type watched struct {
	*session
	t   *testing.T
	now time.Time
}

func newWatched(t *testing.T, features ...routerpb.Feature) *watched {
	w := &watched{t: t, now: leaseNow}
	s := &Server{o: Options{Now: func() time.Time { return w.now }, Effect: half}}
	w.session = newSession(s, &routerpb.Hello{RouterId: "r", Region: "us", Features: append(features, routerpb.Feature_FEATURE_DRILL)}, nil)
	return w
}

// another is a router that comes to the same node.
func (w *watched) another() *watched {
	return &watched{session: newSession(w.s, w.seen.Hello, nil), t: w.t, now: w.now}
}

// tells is what the session tells of a state, after some time.
func (w *watched) tells(after time.Duration, v *state.View) *routerpb.DrillLease {
	w.now = w.now.Add(after)
	m, next := w.lease(v, w.now)
	w.tenure = next
	return m.GetDrill()
}

func (w *watched) wants(what string, got *routerpb.DrillLease, sequence uint64, ttl time.Duration) {
	w.t.Helper()
	switch {
	case sequence == 0 && got != nil:
		w.t.Errorf("%s: tells %v, want nothing", what, got)
	case sequence != 0 && (got.GetSequence() != sequence || time.Duration(got.GetTtlMs())*time.Millisecond != ttl || got.GetId() != 5):
		w.t.Errorf("%s: tells %v, want number %d for %v", what, got, sequence, ttl)
	}
}

func TestLeasesAreAsLongAsWhatIsLeft(t *testing.T) {
	w := newWatched(t)
	at := func(sequence uint64) *state.View { return restored(t, 1, shifting(sequence, w.now)) }
	w.wants("what was there before this process looked", w.tells(0, at(1)), 0, 0)
	second := restored(t, 1, shifting(2, leaseNow.Add(5*time.Second)))
	m := w.tells(5*time.Second, second)
	w.wants("a renewal", m, 2, 30*time.Second)
	if m.GetShiftedPpm() != 500_000 || m.GetEpoch() != 1 || len(m.GetBaseSha256()) != 32 || m.GetNotAfterUnixMs() == 0 {
		t.Errorf("lease %v", m)
	}
	w.wants("the same again", w.tells(time.Second, second), 0, 0)
	// No quorum, no renewals: who comes gets what is left, and then nothing.
	late := w.another()
	w.wants("who comes later", late.tells(9*time.Second, second), 2, 20*time.Second)
	w.now = late.now
	later := w.another()
	w.wants("who comes when it is over", later.tells(20*time.Second, second), 0, 0)
	w.now = later.now
	w.wants("the next renewal", w.tells(time.Second, restored(t, 1, shifting(3, w.now.Add(time.Second)))), 3, 30*time.Second)
}

// A node that was away, or starts again, goes through what happened meanwhile.
func TestOldRenewalsAreNotTakenForNew(t *testing.T) {
	for name, c := range map[string]struct {
		renewed time.Duration // before the node applied it
		want    time.Duration // of the lease; 0: none
	}{
		"of now":                    {0, 30 * time.Second},
		"of a while ago":            {12 * time.Second, 18 * time.Second},
		"of too long ago":           {30 * time.Second, 0},
		"of yesterday":              {24 * time.Hour, 0},
		"by a clock that is ahead ": {-10 * time.Second, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t)
			w.tells(0, restored(t, 1)) // it starts empty, and applies its log in a burst
			got := w.tells(time.Millisecond, restored(t, 1, shifting(7, w.now.Add(time.Millisecond-c.renewed))))
			sequence := uint64(7)
			if c.want == 0 {
				sequence = 0
			}
			w.wants(name, got, sequence, c.want)
		})
	}
	// Of one that has stood in its snapshot it does not know how old it is, whatever clocks say.
	w := newWatched(t)
	w.wants("the snapshot's", w.tells(0, restored(t, 1, shifting(7, leaseNow.Add(time.Hour)))), 0, 0)
	w.wants("the snapshot's, later", w.tells(time.Second, restored(t, 1, shifting(7, leaseNow.Add(time.Hour)))), 0, 0)
}

func TestTheEndIsToldOnce(t *testing.T) {
	w := newWatched(t)
	w.tells(0, restored(t, 1))
	w.wants("a lease", w.tells(time.Second, restored(t, 1, shifting(2, w.now.Add(time.Second)))), 2, 30*time.Second)
	rolled := shifting(3, w.now)
	rolled.State = string(drill.RollingBack)
	w.wants("it is rolled back", w.tells(time.Second, restored(t, 1, rolled)), 3, 0)
	w.wants("it is over", w.tells(time.Second, restored(t, 1, over(5))), 0, 0)
	again := shifting(6, w.now.Add(time.Second))
	w.wants("it goes on after the rehearsal", w.tells(time.Second, restored(t, 1, again)), 6, 30*time.Second)
	w.wants("all is gone from the state", w.tells(time.Second, restored(t, 1)), 6, 0)
	w.wants("and stays so", w.tells(time.Second, restored(t, 1)), 0, 0)
	// A router that comes may hold a lease from another node.
	late := w.another()
	w.wants("who comes after the end", late.tells(time.Second, restored(t, 1, over(7))), 7, 0)
	w.wants("and once", late.tells(time.Second, restored(t, 1, over(7))), 0, 0)
	if got := w.another().tells(time.Second, restored(t, 1)); got != nil {
		t.Errorf("where no drill ever was it tells %v", got)
	}
}

func TestWhoIsToldNothingOfDrills(t *testing.T) {
	view := func(s uint64) *state.View { return restored(t, 1, shifting(s, leaseNow)) }
	for name, change := range map[string]func(*watched){
		"a router that holds no leases":        func(w *watched) { w.tenure.on = false },
		"where nobody says what drills effect": func(w *watched) { w.s.o.Effect = nil },
		"where the drill shifts nothing yet": func(w *watched) {
			w.s.o.Effect = func(*statepb.Drill) drill.Effect { return drill.Effect{} }
			w.tenure.opened = true
		},
	} {
		w := newWatched(t)
		change(w)
		w.tells(0, view(1))
		w.wants(name, w.tells(0, view(2)), 0, 0)
	}
	for name, change := range map[string]func(*statepb.Drill){
		"without a table from before": func(d *statepb.Drill) { d.BaseSha256 = nil },
		"without an end":              func(d *statepb.Drill) { d.NotAfterUnixMs = 0 },
	} {
		d := shifting(2, leaseNow)
		change(d)
		if m := leaseOf(d, 1, half(d), time.Minute); m != nil {
			t.Errorf("%s: %v", name, m)
		}
	}
	d := shifting(2, leaseNow)
	if m := leaseOf(d, 1, drill.Effect{Leased: true, Shifted: 5 * drill.Whole, Dead: true, QuotaStoreLost: true, WatchOnly: true}, time.Hour); m.GetTtlMs() != 30_000 || m.GetShiftedPpm() != drill.Whole ||
		!m.GetDead() || !m.GetQuotaStoreLost() || !m.GetWatchOnly() {
		t.Errorf("beyond bounds: %v", m)
	}
	x := newWatched(t)
	if old := newSession(x.s, &routerpb.Hello{RouterId: "r", Region: "us"}, nil); old.tenure.on {
		t.Error("an older router is lent to")
	}
}
