package rest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"anabranch/controlplane/rollout"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// newBaking is a node at which a rollout is under way, which judges as look says; the rollout's id is given.
func newBaking(t *testing.T, look **rollout.Look) (d *double, id string) {
	t.Helper()
	d = newChronicler(t, func(o *Options) {
		o.CohortOf = func(*state.View, *statepb.Rollout, signal.Snapshot) []rollout.Member {
			return []rollout.Member{{Router: "r-1", Heard: true, Holds: true}, {Router: "r-2", Holds: true}, {Router: "r-3", Heard: true, Refused: "bad: no"}, {Router: "r-4", Heard: true}}
		}
		o.Look = func() *rollout.Look { return *look }
	})
	d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: bareTable("a")}}})
	d.do("operator", "POST", "/v1/safetyrules", doc("SafetyRule", "s", "{rollout: {canary: {bakeSeconds: 40}, region: {bakeSeconds: 90}, ackShare: 0.25}}"), yaml).want(201, "")
	d.seed("Region us {}")
	return d, d.begin()
}

func TestABakeIsTold(t *testing.T) {
	var look *rollout.Look
	d, id := newBaking(t, &look)
	number := d.current().Rollout().GetId()
	ends := epoch.Add(25 * time.Second)
	judged := rollout.Look{
		Rollout: number, Stage: rollout.Canary, At: epoch, Verdict: rollout.Verdict{Act: rollout.Hold, Why: "it bakes"}, Have: 1, Want: 1, Ends: ends,
		With: rollout.Count{Requests: 60, Failures: 1}, Before: rollout.Count{Requests: 50}, Rest: rollout.Count{Requests: 700, Failures: 2},
	}
	stages := []StageBake{{"canary", 40}, {"region", 90}}
	for name, tt := range map[string]struct {
		look   func() *rollout.Look
		judged bool
		ends   time.Time
	}{
		"by the leader":         {func() *rollout.Look { return &judged }, true, ends},
		"by the rules":          {func() *rollout.Look { return nil }, false, epoch.Add(40 * time.Second)},
		"of another rollout":    {func() *rollout.Look { l := judged; l.Rollout++; return &l }, false, epoch.Add(40 * time.Second)},
		"of the stage before":   {func() *rollout.Look { l := judged; l.Stage = rollout.Region; return &l }, false, epoch.Add(40 * time.Second)},
		"of when it led before": {func() *rollout.Look { l := judged; l.At = epoch.Add(-lookFresh - 1); return &l }, false, epoch.Add(40 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			look = tt.look()
			b := d.rollout(id).Bake
			if b == nil || !slices.Equal(b.Stages, stages) || b.Judged != tt.judged || b.Have != 1 || b.Needed != 1 || b.EndsAt == nil || !b.EndsAt.Equal(tt.ends) || b.ReturnsAt != nil {
				t.Fatalf("bake %+v", b)
			}
			if tt.judged && (b.Verdict != "it bakes" || *b.Errors != ErrorGate{With: FailureCount{60, 1}, Before: FailureCount{50, 0}, Rest: FailureCount{700, 2}, MaxIncrease: 0.02, MinRequests: 50}) {
				t.Errorf("%q, errors %+v", b.Verdict, b.Errors)
			}
			if !tt.judged && (b.Errors != nil || b.Verdict != "") {
				t.Errorf("%q, errors %+v", b.Verdict, b.Errors)
			}
		})
	}
	look = nil
	d.do("operator", "POST", "/v1/rollouts/"+id+"/promote", "").want(204, "")
	if r := d.rollout(id); r.Bake != nil {
		t.Errorf("it has ended: %+v", r.Bake)
	}
}

func TestRoutersOfARolloutAreListedTheTroubledFirst(t *testing.T) {
	var look *rollout.Look
	d, id := newBaking(t, &look)
	for _, router := range []string{"r-1", "r-2", "r-3", "r-4", "r-5"} {
		d.join(router, "us", 3, nil)
	}
	list := func(query string) (out []string) {
		var got List[RolloutRouter]
		d.do("viewer", "GET", "/v1/rollouts/"+id+"/routers"+query, "").want(200, "").into(&got)
		for _, r := range got.Items {
			out = append(out, fmt.Sprintf("%s %s %s %s", r.ID, r.Region, r.Standing, r.Reason))
		}
		return out
	}
	all := []string{"r-3 us refused bad: no", "r-2 us silent ", "r-4 us waiting ", "r-1 us holds ", "r-5 us later "}
	if got := list(""); !slices.Equal(got, all) {
		t.Errorf("%q", got)
	}
	if got := list("?limit=2"); !slices.Equal(got, all[:2]) {
		t.Errorf("two: %q", got)
	}
	if got := list("?standing=holds"); !slices.Equal(got, all[3:4]) {
		t.Errorf("those that hold it: %q", got)
	}
	d.do("viewer", "GET", "/v1/rollouts/"+id+"/routers?standing=well", "").want(400, "invalid_request")
	d.do("viewer", "GET", "/v1/rollouts/999/routers", "").want(404, "not_found")
	d.do("operator", "POST", "/v1/rollouts/"+id+"/promote", "").want(204, "")
	if got := list(""); len(got) != 0 {
		t.Errorf("it has ended: %q", got)
	}
}
