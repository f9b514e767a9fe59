package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// stampedAt stamps a command with a time in seconds.
func stampedAt(seconds int64, c *statepb.Command) *statepb.Command {
	c.AtUnixMs = 1000 * seconds
	return c
}

func removal(name string) *statepb.Command {
	return command(&statepb.Delete{Kind: "Region", Name: name})
}

// writeZone writes a region at a time in seconds.
func (h *history) writeZone(seconds int64, name, zone string) {
	revision := uint64(0)
	if r, there := h.Get(policy.KindRegion, name); there {
		revision = r.Metadata.Revision
	}
	h.want(h.do(stampedAt(seconds, region(name, fmt.Sprintf(`{"zone":%q}`, zone), revision))), "", "")
}

// regionsAsOf is "name zone" of each region that there was at a time in seconds.
func regionsAsOf(v *View, seconds int64) string {
	var all []string
	for _, r := range v.AsOf(time.Unix(seconds, 0)).List(policy.KindRegion) {
		all = append(all, r.Metadata.Name+" "+r.Spec.(*policy.RegionSpec).Zone)
	}
	return strings.Join(all, ", ")
}

func TestResourcesAreAsTheyWereAtATime(t *testing.T) {
	h := remembering(t)
	h.writeZone(100, "us", "a")
	h.writeZone(110, "eu", "a")
	h.writeZone(120, "us", "b")
	h.do(stampedAt(130, removal("eu")))
	h.writeZone(140, "ap", "a")
	h.writeZone(150, "eu", "c")
	h.do(stampedAt(160, removal("us")))
	for seconds, want := range map[int64]string{
		0: "", 99: "", 100: "us a", 109: "us a", 110: "eu a, us a", 119: "eu a, us a", 120: "eu a, us b", 129: "eu a, us b", 130: "us b",
		140: "ap a, us b", 150: "ap a, eu c, us b", 159: "ap a, eu c, us b", 160: "ap a, eu c", 1000: "ap a, eu c",
	} {
		if got := regionsAsOf(h.View, seconds); got != want {
			t.Errorf("at %d: %q, want %q", seconds, got, want)
		}
		if got := regionsAsOf(again(t, h.View), seconds); got != want {
			t.Errorf("at %d, after a restart: %q, want %q", seconds, got, want)
		}
		if got := h.AsOf(time.Unix(seconds, 0)).Differs(policy.KindRegion); got != (seconds < 160) {
			t.Errorf("at %d: differs %v", seconds, got)
		}
	}
}

func TestWhatHistoryHasForgottenIsAsTheFirstThatItKnows(t *testing.T) {
	h := remembering(t)
	for i := range int64(MaxRevisions + 10) {
		h.writeZone(100+i, "us", fmt.Sprint("z", i))
	}
	if got := regionsAsOf(h.View, 102); got != "us z10" { // 20 are kept, the present one among them
		t.Errorf("got %q", got)
	}
	if got := regionsAsOf(h.View, 99); got != "" {
		t.Errorf("before it was made: %q", got)
	}
}

// Whatever is written and deleted in whatever order of clocks that go forward, the past is what the present was.
func TestThePastIsWhatThePresentWas(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := remembering(t)
		now, was := int64(100), map[int64]string{}
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			now += rapid.Int64Range(1, 3).Draw(rt, "later")
			name := rapid.SampledFrom([]string{"us", "eu", "ap"}).Draw(rt, "name")
			if rapid.IntRange(0, 2).Draw(rt, "delete") == 0 {
				h.do(stampedAt(now, removal(name)))
			} else {
				h.writeZone(now, name, fmt.Sprint("z", rapid.IntRange(0, 2).Draw(rt, "zone")))
			}
			was[now] = regionsAsOf(h.View, 1<<40)
		}
		for seconds, want := range was {
			if got := regionsAsOf(h.View, seconds); got != want {
				rt.Fatalf("at %d: %q, and it was %q", seconds, got, want)
			}
		}
	})
}

func TestPricesAreAsTheyWereAtATime(t *testing.T) {
	h := fourth(t)
	moved := live("h100", 9)
	moved.FromUnixMs, moved.WasMicrosPerHour, moved.WasUntilUnixMs = 70_000, 7, 80_000
	block := live("b200", 5)
	block.Purchase, block.FromUnixMs, block.UntilUnixMs = string(costmodel.CapacityBlock), 70_000, 90_000
	listed := live("a100", 3)
	listed.Origin, listed.FromUnixMs = uint32(costmodel.File), 70_000
	h.want(h.do(found(&statepb.PutPrices{Sources: []*statepb.PriceSource{seller("a", 80_000, moved, block, listed)}})), "", "")
	for seconds, want := range map[int64]string{
		60: "7 - -", // what was in force before is not known but by what it cost
		75: "7 5 3", 80: "9 5 3", 95: "9 - 3",
	} {
		at := time.Unix(seconds, 0)
		book := costmodel.NewBook(at, h.OffersAsOf(at))
		var got []string
		for _, w := range []costmodel.Want{
			{Class: "h100", Region: "us"}, {Class: "b200", Region: "us", Purchase: costmodel.CapacityBlock}, {Class: "a100", Region: "us"},
		} {
			if f, ok := book.Find(w); ok {
				got = append(got, fmt.Sprint(int64(f.PerHour)))
			} else {
				got = append(got, "-")
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("at %d: %v, want %s", seconds, got, want)
		}
	}
	wrong := live("h100", 9)
	wrong.WasMicrosPerHour = -1
	h.want(h.do(found(&statepb.PutPrices{Sources: []*statepb.PriceSource{seller("a", 1, wrong)}})), CodeInvalid, "sources.offers")
}
