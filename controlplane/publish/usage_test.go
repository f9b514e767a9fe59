package publish

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/usage"
)

// heardUsage notes what routers' clients used, and refuses what bad says.
type heardUsage struct {
	mu   sync.Mutex // guards said
	said []string
	bad  error
}

func (h *heardUsage) Take(router fleet.RouterID, from fleet.RegionID, r *routerpb.UsageReport) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, fmt.Sprint(usage.Name(router, r.GetRun()), " ", r.GetSequence(), " of ", from))
	return h.bad
}

func (h *heardUsage) heard() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.said)
}

func begin() *statepb.Command {
	return &statepb.Command{Op: &statepb.Command_CloseMinutes{CloseMinutes: &statepb.CloseMinutes{Minutes: []*statepb.MinuteBills{{MinuteUnixS: 60}}}}}
}

func countUse(run string, sequence uint64) *statepb.Command {
	return &statepb.Command{Op: &statepb.Command_CountUsage{CountUsage: &statepb.CountUsage{Runs: []*statepb.UsageRun{{Run: run, Sequence: sequence}}}}}
}

func usageReport(run string, sequence uint64) *routerpb.FromRouter {
	return &routerpb.FromRouter{Body: &routerpb.FromRouter_Usage{Usage: &routerpb.UsageReport{
		Run: run, Sequence: sequence, Minutes: []*routerpb.UsageMinute{{MinuteUnixS: 60}},
	}}}
}

func newUsageRig(t *testing.T) (*rig, *heardUsage) {
	h := &heardUsage{}
	r := newRig(t, func(o *Options) { o.Usages = h })
	r.apply(level(usage.FirstLevel))
	return r, h
}

// joinAccount connects a router that tells what its clients use.
func (r *rig) joinAccount(id string) *router {
	r.t.Helper()
	x := r.dial()
	h := hello(id, nil)
	h.GetHello().Features = []routerpb.Feature{routerpb.Feature_FEATURE_USAGE}
	x.say(h)
	x.hear() // welcome
	return x
}

// wantTaken waits for the next word of the account.
func (x *router) wantTaken(sequence uint64) {
	x.t.Helper()
	for {
		if taken := x.hear().GetUsageTaken(); taken != nil {
			if taken.GetSequence() != sequence {
				x.t.Errorf("%d is taken, want %d", taken.GetSequence(), sequence)
			}
			return
		}
	}
}

func TestUsageIsAcknowledgedOnceTheStateHasIt(t *testing.T) {
	r, h := newUsageRig(t)
	x := r.joinAccount("r1")
	r.apply(begin())
	x.wantTaken(0) // there is an account
	x.say(usageReport("a", 1))
	eventually(t, "it is taken in", func() bool { return len(h.heard()) == 1 })
	if got := h.heard()[0]; got != "r1/a 1 of us" {
		t.Errorf("taken in as %q", got)
	}
	r.apply(countUse("r2/a", 7)) // another's
	r.apply(countUse("r1/a", 1))
	x.wantTaken(1)
	x.say(usageReport("a", 1)) // again, since the word was lost
	x.wantTaken(1)
	x.say(usageReport("a", 2))
	r.apply(countUse("r1/a", 2))
	x.wantTaken(2)
}

func TestARouterWithoutUsageHearsNothingOfTheAccount(t *testing.T) {
	r, _ := newUsageRig(t)
	r.apply(begin())
	x := r.joinLedger("r1")
	r.publish("us")
	for {
		m := x.hear()
		if m.GetUsageTaken() != nil {
			t.Fatalf("it is told %v", m)
		}
		if m.GetTable() != nil || m.GetDelta() != nil {
			return
		}
	}
}

func TestUsageThatIsNotValidEndsTheStream(t *testing.T) {
	r, h := newUsageRig(t)
	h.bad = errors.New("usage is not valid: sequence is 0")
	x := r.joinAccount("r1")
	x.say(usageReport("a", 0))
	wantCode(t, x.ended(), codes.InvalidArgument, "sequence is 0")
}

func TestANodeWithoutAccountTakesNoNotice(t *testing.T) {
	r := newRig(t, nil)
	r.apply(level(usage.FirstLevel))
	r.apply(begin())
	x := r.joinAccount("r1")
	x.say(usageReport("a", 1))
	r.publish("us")
	if m := x.hear(); m.GetTable() == nil && m.GetDelta() == nil && m.GetPing() == nil {
		t.Errorf("it is told %v", m)
	}
}
