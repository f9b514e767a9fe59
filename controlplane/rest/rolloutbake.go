package rest

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/rollout"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// lookFresh is how old a look at a rollout may be and still tell of the present: several ticks of the leader.
const lookFresh = 10 * time.Second

// Bake is what the present stage of a rollout waits for.
type Bake struct {
	// Stages are those that a rollout bakes in, in their order, by the rules that hold now.
	Stages []StageBake `json:"stages"`
	// Have are the routers that hold the table and are heard of, Needed how many of them it takes.
	Have   int `json:"have"`
	Needed int `json:"needed"`
	// EndsAt is when the stage ends if enough routers go on holding the table; nil: too few do now.
	EndsAt *time.Time `json:"endsAt"`
	// ReturnsAt is when the table is taken back if too few hold it by then; nil: enough do, or it is not known.
	ReturnsAt *time.Time `json:"returnsAt"`
	// Judged: the figures are the leader's own. Otherwise this node does not lead, and EndsAt is the earliest that
	// the rules allow.
	Judged bool `json:"judged"`
	// Verdict is what the leader decided last, with its reason; empty: not judged.
	Verdict string `json:"verdict"`
	// Errors is the gate of failed requests; nil: not judged.
	Errors *ErrorGate `json:"errors"`
}

// StageBake is one stage and how long its bake takes.
type StageBake struct {
	Stage   string `json:"stage"`
	Seconds int64  `json:"seconds"`
}

// ErrorGate compares requests that failed with the table of a rollout and without it. It returns the table when
// the share With it exceeds the larger of the other shares by more than MaxIncrease, once there are MinRequests.
type ErrorGate struct {
	With   FailureCount `json:"with"`
	Before FailureCount `json:"before"`
	Rest   FailureCount `json:"rest"`
	// MaxIncrease is a share, 0..1.
	MaxIncrease float64 `json:"maxIncrease"`
	MinRequests int     `json:"minRequests"`
}

// FailureCount is of requests that ended.
type FailureCount struct {
	Requests uint64 `json:"requests"`
	Failures uint64 `json:"failures"`
}

// baking tells of a rollout with what its present stage waits for.
func (s *Server) baking(view *state.View, r *statepb.Rollout) Rollout {
	out := s.rollout(view, r)
	if out.Cohort == nil {
		return out
	}
	safety := policy.SafetyOf(view)
	bake := &Bake{Stages: []StageBake{
		{string(rollout.Canary), int64(safety.CanaryBake.Seconds())}, {string(rollout.Region), int64(safety.RegionBake.Seconds())},
	}}
	out.Bake = bake
	if look := s.look(r); look != nil {
		bake.Have, bake.Needed, bake.Judged, bake.Verdict = look.Have, look.Want, true, look.Verdict.Why
		bake.EndsAt, bake.ReturnsAt = someTime(look.Ends), someTime(look.Returns)
		bake.Errors = &ErrorGate{FailureCount(look.With), FailureCount(look.Before), FailureCount(look.Rest), safety.MaxIncrease, safety.MinRequests}
		return out
	}
	all := max(out.Cohort.Expected, out.Cohort.Known)
	bake.Have, bake.Needed = out.Cohort.Holding, max(1, int(math.Ceil(safety.AckShare*float64(all)-1e-9)))
	if bake.Have >= bake.Needed {
		length := safety.CanaryBake
		if rollout.Stage(r.GetStage()) == rollout.Region {
			length = safety.RegionBake
		}
		bake.EndsAt = someTime(out.StageSince.Add(length))
	}
	return out
}

// look is how this node judged the present stage of a rollout; nil: it does not lead.
func (s *Server) look(r *statepb.Rollout) *rollout.Look {
	if s.o.Look == nil {
		return nil
	}
	l := s.o.Look()
	if l == nil || l.Rollout != r.GetId() || string(l.Stage) != r.GetStage() || s.o.Now().Sub(l.At) > lookFresh {
		return nil
	}
	return l
}

// someTime is nil for the zero time.
func someTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// RolloutRouter is how a router stands to a rollout under way.
type RolloutRouter struct {
	ID     fleet.RouterID `json:"id"`
	Region fleet.RegionID `json:"region"`
	// Standing is refused, silent (it is in the present stage and not heard of), waiting (it is to have the table
	// and has not said so), holds, or later (its stage is to come).
	Standing string `json:"standing"`
	// Reason is why it refused; empty: it did not.
	Reason          string `json:"reason"`
	AppliedEpoch    uint64 `json:"appliedEpoch"`
	AppliedRevision uint64 `json:"appliedRevision"` // of the table; 0: none yet
	AgeMs           int64  `json:"ageMs"`           // of its last report; -1: none yet
	Connected       bool   `json:"connected"`
}

// The standings, those that need somebody first.
var standings = []string{"refused", "silent", "waiting", "holds", "later"}

// rolloutRouters lists the routers and how they stand to a rollout, those in trouble first. Of one that has ended
// there are none.
func (s *Server) rolloutRouters(c echo.Context) error {
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	want := c.QueryParam("standing")
	if want != "" && !slices.Contains(standings, want) {
		return newProblem(codeInvalidRequest, fmt.Sprintf("standing is %.40q; use one of %v.", want, standings))
	}
	view, err := s.view(c)
	if err != nil {
		return err
	}
	r, err := rolloutOf(c, view)
	if err != nil {
		return err
	}
	items := []RolloutRouter{}
	if view.Rollout().GetId() == r.GetId() && s.o.CohortOf != nil {
		for _, x := range s.standingsOf(view, r) {
			if want == "" || x.Standing == want {
				items = append(items, x)
			}
		}
	}
	slices.SortStableFunc(items, func(a, b RolloutRouter) int {
		return cmp.Or(slices.Index(standings, a.Standing)-slices.Index(standings, b.Standing), cmp.Compare(a.Region, b.Region), cmp.Compare(a.ID, b.ID))
	})
	return c.JSON(http.StatusOK, List[RolloutRouter]{Items: items[:min(len(items), limit)]})
}

// standingsOf tells of every router that this node knows.
func (s *Server) standingsOf(view *state.View, r *statepb.Rollout) []RolloutRouter {
	signals := s.o.Signals.Snapshot(s.o.Now())
	members := map[fleet.RouterID]rollout.Member{}
	for _, m := range s.o.CohortOf(view, r, signals) {
		members[m.Router] = m
	}
	n := standing{view: view, signals: signals}
	out := make([]RolloutRouter, 0, len(signals.Routers))
	for _, o := range signals.Routers {
		known := n.router(o)
		x := RolloutRouter{
			ID: known.ID, Region: known.Region, AppliedEpoch: known.AppliedEpoch, AppliedRevision: known.AppliedRevision,
			AgeMs: known.AgeMs, Connected: known.Connected, Standing: "later",
		}
		if m, in := members[known.ID]; in {
			x.Standing, x.Reason = standingOf(m), m.Refused
		}
		out = append(out, x)
	}
	return out
}

func standingOf(m rollout.Member) string {
	switch {
	case m.Refused != "":
		return "refused"
	case !m.Heard:
		return "silent"
	case m.Holds:
		return "holds"
	}
	return "waiting"
}
