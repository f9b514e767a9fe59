package state

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/rollout"
	"anabranch/controlplane/state/statepb"
)

// staged is a cluster with a table in force and rollouts in stages.
func staged(t *testing.T) *history {
	t.Helper()
	h := start(t)
	h.do(raise(3))
	h.do(region("us", `{}`, 0))
	h.must(&statepb.Publish{Table: table(0.5)})
	h.must(&statepb.Put{Kind: "SafetyRule", Name: "s", Doc: []byte(`{"spec":{"rollout":{}}}`)})
	return h
}

func (h *history) must(op any) {
	h.t.Helper()
	if out := h.do(command(op)); out.GetCode() != "" {
		h.t.Fatalf("%v: %v", op, out)
	}
}

func (h *history) refused(code string, op any) {
	h.t.Helper()
	before := h.View
	if out := h.do(command(op)); out.GetCode() != code {
		h.t.Errorf("%v: code %q (%s), want %q", op, out.GetCode(), out.GetMessage(), code)
	}
	if len(h.Audit(before.Index(), 0)) != 0 {
		h.t.Errorf("%v left something behind", op)
	}
}

// begin starts a rollout of what is held back; us tells its table from others.
func (h *history) begin(us float64) uint64 {
	h.t.Helper()
	h.must(&statepb.StartRollout{ConfigRevision: h.Config().Revision(), Table: table(us), Canary: "r-1", Region: "eu", Expected: 1, Reasons: []*statepb.WeightReason{{Text: "trial"}}})
	return h.Rollout().GetId()
}

// share tells tables apart by the weight that they give us.
func share(t *routerpb.Table) float64 { return t.GetWeights()[0].GetClusters()[0].GetWeight() }

// sees lists the shares that the canary, its neighbour and a router of another region are to have.
func (h *history) sees() string {
	var out []string
	for _, r := range [][2]string{{"r-1", "eu"}, {"r-2", "eu"}, {"r-3", "us"}} {
		out = append(out, fmt.Sprint(share(h.TableFor(fleet.RouterID(r[0]), fleet.RegionID(r[1])))))
	}
	return strings.Join(out, " ")
}

func TestARolloutReachesOneThenItsRegionThenAll(t *testing.T) {
	h := staged(t)
	h.do(region("us", `{"zone":"a"}`, h.Config().Revision()))
	if !h.Pending() || h.Settled().Revision() == h.Config().Revision() {
		t.Fatal("the change is not held back")
	}
	id := h.begin(0.7)
	if got := h.sees(); got != "0.7 0.5 0.5" {
		t.Errorf("canary: %s", got)
	}
	r := h.Rollout()
	if r.GetStage() != "canary" || !slices.Equal(r.GetChanges(), []string{"Region/us"}) || r.GetBaseRevision() != 3 || r.GetActor() != "ann" {
		t.Errorf("rollout %v", r)
	}
	// What displaces load goes out on both sides while the rollout is under way.
	h.must(&statepb.Publish{Table: table(0.4), Health: []*statepb.ClusterHealth{{Cluster: "a", State: "EVACUATED"}}})
	trial := table(0.6)
	trial.Ref = h.FreshTable().GetRef()
	h.must(&statepb.Publish{Trial: trial, TrialReasons: []*statepb.WeightReason{{Text: "later"}}})
	if got := h.sees(); got != "0.6 0.4 0.4" || len(h.Health()) != 1 {
		t.Errorf("canary, after a failover: %s", got)
	}
	h.refused(CodePrecondition, &statepb.Publish{Trial: trial}) // of a leader that has not seen the last
	h.refused(CodePrecondition, &statepb.SteerChange{Act: ActAdvance, Rollout: id, Stage: "region"})
	h.must(&statepb.SteerChange{Act: ActAdvance, Rollout: id, Stage: "canary", Expected: 2})
	if got := h.sees(); got != "0.6 0.6 0.4" || h.Rollout().GetExpected() != 2 || h.FreshTable().GetRef().GetRevision() != h.Index() {
		t.Errorf("region: %s, %v", got, h.Rollout())
	}
	h.refused(CodePrecondition, &statepb.SteerChange{Act: ActAdvance, Rollout: id, Stage: "canary"}) // repeated
	h.must(&statepb.SteerChange{Act: ActAdvance, Rollout: id, Stage: "region"})
	if got := h.sees(); got != "0.6 0.6 0.6" || h.Rollout() != nil || h.Pending() || h.FreshTable() != nil {
		t.Errorf("settled: %s", got)
	}
	if h.Reasons()[0].GetText() != "later" || h.Rollouts()[0].GetStage() != "settled" {
		t.Errorf("reasons %v, rollouts %v", h.Reasons(), h.Rollouts())
	}
}

func TestWhatIsReturnedComesToNobodyNew(t *testing.T) {
	h := staged(t)
	h.do(region("us", `{"zone":"a"}`, h.Config().Revision()))
	id := h.begin(0.7)
	bad := h.FreshTable().GetRef().GetRevision()
	h.must(&statepb.SteerChange{Act: ActReturn, Rollout: id, Why: "router r-1 refused it"})
	if got := h.sees(); got != "0.5 0.5 0.5" || h.Table().GetRef().GetRevision() <= bad {
		t.Errorf("returned: %s as %v", got, h.Table().GetRef())
	}
	last := h.Rollouts()[0]
	if last.GetStage() != "returned" || last.GetReason() != "router r-1 refused it" || !h.ReturnedNow() || !h.Pending() {
		t.Errorf("rollout %v", last)
	}
	h.refused(CodeNotFound, &statepb.SteerChange{Act: ActAdvance, Rollout: id, Stage: "canary"})
	h.refused(CodeNotFound, &statepb.SteerChange{Act: ActReturn, Rollout: id})

	// It is tried again when somebody says so, or when an operator has changed something.
	h.refused(CodeNotFound, &statepb.SteerChange{Act: ActRetry, Rollout: id + 1})
	h.must(&statepb.SteerChange{Act: ActRetry, Rollout: id})
	h.refused(CodeNotFound, &statepb.SteerChange{Act: ActRetry, Rollout: id})
	if h.ReturnedNow() {
		t.Error("still not to be tried again")
	}
	id = h.begin(0.8)
	h.must(&statepb.SteerChange{Act: ActReturn, Rollout: id})
	h.must(&statepb.Put{Kind: "Region", Name: "eu", Doc: []byte(`{"spec":{}}`)})
	if h.ReturnedNow() {
		t.Error("a change makes no difference")
	}
}

func TestChangesDuringARolloutWaitForTheNext(t *testing.T) {
	h := staged(t)
	h.do(region("us", `{"zone":"a"}`, h.Config().Revision()))
	id := h.begin(0.7)
	brought := h.Config().Revision()
	h.must(&statepb.Put{Kind: "Region", Name: "eu", Doc: []byte(`{"spec":{}}`)})
	if trial, ok := h.Trial(); !ok || trial.Revision() != brought || len(trial.List(policy.KindRegion)) != 1 {
		t.Errorf("the rollout brings %v", trial.List(policy.KindRegion))
	}
	h.refused(CodeExists, &statepb.StartRollout{ConfigRevision: h.Config().Revision(), Table: table(1), Canary: "r", Region: "eu"})
	h.must(&statepb.SteerChange{Act: ActSettle, Rollout: id, Why: "promoted"})
	if !h.Pending() || h.Settled().Revision() != brought || len(h.Settled().List(policy.KindRegion)) != 1 || len(h.Config().List(policy.KindRegion)) != 2 {
		t.Errorf("settled at %d, want %d", h.Settled().Revision(), brought)
	}
	h.begin(0.8)
	if got := h.Rollout().GetChanges(); !slices.Equal(got, []string{"Region/eu"}) {
		t.Errorf("changes %q", got)
	}
}

func TestAPausedRolloutGoesBackButNotOn(t *testing.T) {
	h := staged(t)
	h.do(region("us", `{"zone":"a"}`, h.Config().Revision()))
	id := h.begin(0.7)
	h.must(&statepb.SteerChange{Act: ActPause, Rollout: id})
	h.refused(CodePrecondition, &statepb.SteerChange{Act: ActAdvance, Rollout: id, Stage: "canary"})
	h.must(&statepb.SteerChange{Act: ActResume, Rollout: id})
	h.must(&statepb.SteerChange{Act: ActPause, Rollout: id})
	entries := len(h.Audit(0, 0))
	h.must(&statepb.SteerChange{Act: ActPause, Rollout: id})
	if len(h.Audit(0, 0)) != entries {
		t.Error("pausing twice is audited twice")
	}
	h.refused(CodeInvalid, &statepb.SteerChange{Act: "hurry", Rollout: id})
	h.must(&statepb.SteerChange{Act: ActReturn, Rollout: id})
	if h.Rollout() != nil || h.Rollouts()[0].GetPaused() {
		t.Errorf("rollouts %v", h.Rollouts())
	}
}

func TestAFreezeHoldsChangesBack(t *testing.T) {
	h := start(t)
	h.do(raise(3))
	h.do(region("us", `{}`, 0))
	h.must(&statepb.Publish{Table: table(0.5)})
	h.must(&statepb.SteerChange{Act: ActFreeze})
	if f := h.Frozen(); f.GetActor() != "ann" || f.GetReason() != "because" || f.GetAtUnixMs() != 1000 {
		t.Errorf("frozen %v", f)
	}
	h.must(&statepb.SteerChange{Act: ActFreeze}) // is as it was
	h.do(region("us", `{"zone":"a"}`, h.Config().Revision()))
	if !h.Pending() {
		t.Error("a change takes effect")
	}
	now := h.Config().Revision()
	h.refused(CodeFrozen, &statepb.SteerChange{Act: ActSettle, ConfigRevision: now})
	h.refused(CodeFrozen, &statepb.StartRollout{ConfigRevision: now, Table: table(0.7), Canary: "r-1", Region: "eu"})
	h.must(&statepb.SteerChange{Act: ActUnfreeze})
	h.refused(CodePrecondition, &statepb.SteerChange{Act: ActSettle, ConfigRevision: now - 1})
	h.must(&statepb.SteerChange{Act: ActSettle, ConfigRevision: now})
	if h.Pending() || h.Frozen() != nil {
		t.Error("still held back")
	}
	// A rollout under way stays where it is, and may be taken back.
	h.must(&statepb.Put{Kind: "SafetyRule", Name: "s", Doc: []byte(`{"spec":{"rollout":{}}}`)})
	h.do(region("us", `{"zone":"b"}`, now))
	id := h.begin(0.7)
	h.must(&statepb.SteerChange{Act: ActFreeze})
	h.refused(CodeFrozen, &statepb.SteerChange{Act: ActAdvance, Rollout: id, Stage: "canary"})
	h.refused(CodeFrozen, &statepb.SteerChange{Act: ActSettle, Rollout: id})
	h.must(&statepb.SteerChange{Act: ActReturn, Rollout: id})
	var told []string
	for _, e := range h.Audit(0, 0) {
		if e.GetKind() == "Freeze" {
			told = append(told, e.GetAction())
		}
	}
	if !slices.Equal(told, []string{"create", "delete", "create"}) {
		t.Errorf("audit %q", told)
	}
}

func TestWhatIsHeldBackAndWhatIsNot(t *testing.T) {
	put := &statepb.Put{Kind: "Region", Name: "eu", Doc: []byte(`{"spec":{}}`)}
	for name, tt := range map[string]struct {
		before []any
		then   any
		want   bool
	}{
		"no rule":                   {[]any{&statepb.Publish{Table: table(1)}}, put, false},
		"no table yet":              {[]any{&statepb.Put{Kind: "SafetyRule", Name: "s", Doc: []byte(`{"spec":{"rollout":{}}}`)}}, put, false},
		"a rule without stages":     {[]any{&statepb.Publish{Table: table(1)}, &statepb.Put{Kind: "SafetyRule", Name: "s", Doc: []byte(`{"spec":{"rollout":{"staged":false}}}`)}}, put, false},
		"a rule":                    {[]any{&statepb.Publish{Table: table(1)}, &statepb.Put{Kind: "SafetyRule", Name: "s", Doc: []byte(`{"spec":{"rollout":{}}}`)}}, put, true},
		"a kind that tables lack":   {[]any{&statepb.Publish{Table: table(1)}, &statepb.Put{Kind: "SafetyRule", Name: "s", Doc: []byte(`{"spec":{"rollout":{}}}`)}}, &statepb.Put{Kind: "SafetyRule", Name: "t", Doc: []byte(`{"spec":{"rollout":{}}}`)}, false},
		"a deletion":                {[]any{put, &statepb.Publish{Table: table(1)}, &statepb.Put{Kind: "SafetyRule", Name: "s", Doc: []byte(`{"spec":{"rollout":{}}}`)}}, &statepb.Delete{Kind: "Region", Name: "eu"}, true},
		"what stands there already": {[]any{put, &statepb.Publish{Table: table(1)}, &statepb.SteerChange{Act: ActFreeze}}, &statepb.Put{Kind: "Region", Name: "eu", Doc: []byte(`{"spec":{}}`), AnyRevision: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			h.do(raise(3))
			for _, op := range tt.before {
				h.must(op)
			}
			h.must(tt.then)
			if h.Pending() != tt.want {
				t.Errorf("held back: %v", h.Pending())
			}
		})
	}
}

func TestARiseOfTheEpochEndsARollout(t *testing.T) {
	h := staged(t)
	h.do(region("us", `{"zone":"a"}`, h.Config().Revision()))
	id := h.begin(0.7)
	h.View = h.Reborn(Rebirth{Lineage: "l"})
	h.refused(CodePrecondition, &statepb.SteerChange{Act: ActAdvance, Rollout: id, Stage: "canary"})
	h.refused(CodePrecondition, &statepb.SteerChange{Act: ActReturn, Rollout: id})
	h.must(&statepb.BumpEpoch{})
	if got := h.sees(); got != "0.5 0.5 0.5" || h.Table().GetRef().GetEpoch() != 2 || h.Rollouts()[0].GetStage() != "interrupted" {
		t.Errorf("%s, %v, %v", got, h.Table().GetRef(), h.Rollouts())
	}
	if h.ReturnedNow() || !h.Pending() {
		t.Error("it is not tried again")
	}
}

func TestTablesInForceAreKeptHoweverManyComeAfter(t *testing.T) {
	h := staged(t)
	h.do(region("us", `{"zone":"a"}`, h.Config().Revision()))
	h.begin(0.7)
	for i := range 2 * MaxTables {
		h.must(&statepb.Publish{Table: table(0.5 - float64(i)/1000)})
	}
	fresh := h.FreshTable()
	if !slices.Contains(h.Tables(), fresh) || !slices.Contains(h.Tables(), h.Table()) || len(h.Tables()) != MaxTables+1 {
		t.Errorf("%d tables", len(h.Tables()))
	}
	if !slices.IsSortedFunc(h.Tables(), func(a, b *routerpb.Table) int {
		return int(a.GetRef().GetRevision()) - int(b.GetRef().GetRevision())
	}) {
		t.Error("out of order")
	}
	var b bytes.Buffer
	if err := Encode(h.View, &b); err != nil {
		t.Fatal(err)
	}
	back := must(Decode(&b))
	if !proto.Equal(back.FreshTable(), fresh) || !proto.Equal(back.Table(), h.Table()) {
		t.Error("a restart forgets which tables are in force")
	}
}

func TestRolloutsAreBounded(t *testing.T) {
	h := staged(t)
	for range MaxRollouts + 5 {
		h.must(&statepb.Put{Kind: "Region", Name: "us", Doc: fmt.Appendf(nil, `{"spec":{"zone":"z%d"}}`, h.Index()), AnyRevision: true})
		h.must(&statepb.SteerChange{Act: ActReturn, Rollout: h.begin(0.7)})
	}
	if len(h.Rollouts()) != MaxRollouts {
		t.Errorf("%d rollouts", len(h.Rollouts()))
	}
}

// act of a SteerChange; of any other operation none.
func act(op any) string {
	if s, ok := op.(*statepb.SteerChange); ok {
		return s.GetAct()
	}
	return ""
}

// Whatever is done in whatever order: routers are never sent back, a region that the rollout has not
// come to never sees its table, all hold the same when none is under way, and a node that has restarted
// from a snapshot goes on as all others do.
func TestRolloutsUnderAnyOrderOfCommands(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := staged(t)
		routers := [][2]string{{"r-1", "eu"}, {"r-2", "eu"}, {"r-3", "us"}}
		held := map[string]uint64{}
		fresh := 0.5
		ops := []string{
			"write", "write", "start", "start", "start", "publish", "publish", "trial", "advance", "advance", "advance",
			"delete", "return", "settle", "pause", "resume", "retry", "freeze", "unfreeze", "unfreeze", "bump",
		}
		for step := range 40 {
			id := uint64(0)
			if n := len(h.Rollouts()); n > 0 {
				id = h.Rollouts()[n-1].GetId()
			}
			var op any
			switch what := rapid.SampledFrom(ops).Draw(rt, "op"); what {
			case "write":
				zone := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "zone")
				op = &statepb.Put{Kind: "Region", Name: rapid.SampledFrom([]string{"us", "eu"}).Draw(rt, "name"), Doc: []byte(`{"spec":{"zone":"` + zone + `"}}`), AnyRevision: true}
			case "delete":
				op = &statepb.Delete{Kind: "Region", Name: "eu"}
			case "start":
				fresh += 0.001
				op = &statepb.StartRollout{ConfigRevision: h.Config().Revision(), Table: table(fresh), Canary: "r-1", Region: "eu"}
			case "publish":
				fresh += 0.001
				op = &statepb.Publish{Table: table(fresh)}
			case "trial":
				fresh += 0.001
				op = &statepb.Publish{Trial: table(fresh)}
			case "bump":
				op = &statepb.BumpEpoch{}
			case "advance":
				op = &statepb.SteerChange{Act: ActAdvance, Rollout: id, Stage: h.Rollout().GetStage()}
			default:
				op = &statepb.SteerChange{Act: what, Rollout: id}
			}
			stable := share(h.Table())
			next, out, err := Apply(h.View, h.Index()+1, command(op))
			if err != nil {
				rt.Fatal(err)
			}
			h.View = next
			if out.GetCode() == "" && act(op) == ActReturn && share(h.Table()) != stable {
				rt.Fatalf("%v gives all routers what was returned", op)
			}
			for _, r := range routers {
				got := h.TableFor(fleet.RouterID(r[0]), fleet.RegionID(r[1]))
				revision := got.GetRef().GetRevision()
				if revision < held[r[0]] {
					rt.Fatalf("after %v router %s is sent back from %d to %d", op, r[0], held[r[0]], revision)
				}
				held[r[0]] = revision
				if r[1] == "us" && got == h.FreshTable() {
					rt.Fatalf("after %v the table is in a second region", op)
				}
			}
			active := h.Rollout() != nil
			if active != (h.FreshTable() != nil) || !active && (held["r-1"] != held["r-3"] || held["r-2"] != held["r-3"]) {
				rt.Fatalf("after %v routers hold %v with no rollout under way", op, held)
			}
			if h.Pending() && h.Settled().Revision() == h.Config().Revision() {
				rt.Fatalf("after %v nothing is held back, and it says so", op)
			}
			if step%8 != 7 {
				continue
			}
			var b bytes.Buffer
			if err := Encode(h.View, &b); err != nil {
				rt.Fatal(err)
			}
			back := must(Decode(&b))
			same := Equal(back, h.View) && len(Differing(Sums(back), Sums(h.View))) == 0
			if !same || !slices.Equal(back.Settled().differing(h.Config()), h.Settled().differing(h.Config())) ||
				back.Settled().Revision() != h.Settled().Revision() {
				rt.Fatalf("after %v a restart makes another state", op)
			}
			h.View = back
		}
		if rollout.Stage(h.Rollout().GetStage()) == rollout.Settled {
			rt.Fatal("settled and under way")
		}
	})
}

// TestARolloutInASnapshotIsWhole: half of one would give routers no table, or end a node later.
func TestARolloutInASnapshotIsWhole(t *testing.T) {
	h := staged(t)
	h.do(region("us", `{"zone":"a"}`, h.Config().Revision()))
	h.begin(0.7)
	for name, spoil := range map[string]func(*statepb.Rollouts){
		"":                  func(*statepb.Rollouts) {},
		"what is held back": func(r *statepb.Rollouts) { r.Settled = nil },
		"what it brings":    func(r *statepb.Rollouts) { r.Trial = nil },
		"the table of all":  func(r *statepb.Rollouts) { r.StableRevision = 0 },
		"its table":         func(r *statepb.Rollouts) { r.TrialRevision = 0 },
		"the rollout":       func(r *statepb.Rollouts) { r.Rollouts = nil },
	} {
		payload, err := h.bytes()
		if err != nil {
			t.Fatal(err)
		}
		var s statepb.Snapshot
		if err := proto.Unmarshal(payload, &s); err != nil {
			t.Fatal(err)
		}
		spoil(s.GetRollouts())
		if _, err := fromSnapshot(&s); (err == nil) != (name == "") {
			t.Errorf("without %q: %v", name, err)
		}
	}
}
