package dispatch

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/route"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

func TestWhatTheTableShedsIsWeighed(t *testing.T) {
	const never, always = math.MaxUint64, 0 // draws
	busy := endpoint.Result{Outcome: failover.Ignored, Busy: true, RetryAfter: time.Minute}
	half := table.Shed{Priority: -10, Part: 0.5}
	full := func(h *here) {
		h.loaded("a", 5, 10)
		h.loaded("b", 5, 10)
		h.loaded("f", 0, 1) // of another region, which is not this router's to measure
	}
	tests := map[string]struct {
		shed     table.Shed
		priority int32
		load     func(*here)
		old      bool
		draw     uint64
		want     Verdict
	}{
		"nothing is shed":                         {table.Shed{}, -10, full, false, always, Unconcerned},
		"what is higher is let in":                {half, 0, full, false, always, Unconcerned},
		"what is lower counts as of the lowest":   {half, -20, full, false, always, Shed},
		"one of the half":                         {half, -10, full, false, always, Shed},
		"one of the other half":                   {half, -10, full, false, never, Drawn},
		"what is lower goes whole":                {table.Shed{Priority: 50, Part: 0.1}, 49, full, false, never, Shed},
		"what lies between counts as the lower":   {table.Shed{Priority: 50, Part: 0.1}, 60, full, false, always, Shed},
		"the control plane is not heard":          {half, -10, full, true, always, Outdated},
		"a place here has room":                   {half, -10, func(h *here) { full(h); h.loaded("b", 0, 4) }, false, always, Roomy},
		"one of three endpoints is full":          {half, -10, func(h *here) { full(h); h.loaded("a", 0, 3) }, false, always, Roomy},
		"half of a place is no room":              {half, -10, func(h *here) { full(h); h.loaded("b", 0, 5) }, false, always, Shed},
		"room of long ago is none":                {half, -10, func(h *here) { full(h); h.loaded("b", 0, 1); h.now = h.now.Add(3 * time.Second) }, false, always, Shed},
		"room that nobody measures is none":       {half, -10, func(*here) {}, false, always, Shed},
		"a place that says that it is full":       {half, -10, func(h *here) { full(h); h.loaded("b", 0, 1); h.fails("b", h.endpoint("b", 0), busy, 1) }, false, always, Shed},
		"the draw comes before what this one saw": {half, -10, func(h *here) { full(h); h.loaded("b", 0, 1) }, false, never, Drawn},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHere(t)
			tt.load(h)
			got, part := h.Sheds(tt.shed, tt.priority, h.targets, !tt.old, tt.draw)
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if (part > 0) != (tt.want != Unconcerned) {
				t.Errorf("the part is %v", part)
			}
			if got, _ := h.Sheds(tt.shed, tt.priority, nil, !tt.old, tt.draw); got != Unconcerned {
				t.Errorf("without anywhere to go it is %s", got)
			}
			if got, _ := h.Sheds(tt.shed, tt.priority, []route.Target{h.targets[2]}, true, tt.draw); got == Roomy {
				t.Error("room in another region counts")
			}
		})
	}
}

// A higher priority is never shed while a lower one is let in, and of each the part is shed that the table says.
func TestShedsByPart(t *testing.T) {
	h := newHere(t)
	h.loaded("a", 5, 10)
	h.loaded("b", 5, 10)
	rapid.Check(t, func(rt *rapid.T) {
		shed := table.Shed{Priority: rapid.SampledFrom([]int32{-10, 0, 50, 100}).Draw(rt, "priority"), Part: rapid.Float64Range(0.01, 1).Draw(rt, "part")}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		const n = 2000
		lower := 1.0
		for _, priority := range []int32{-10, 0, 50, 100} {
			out := 0
			for range n {
				if v, _ := h.Sheds(shed, priority, h.targets, true, random.Uint64()); v == Shed {
					out++
				}
			}
			part := float64(out) / n
			if part > 0 && lower < 1 {
				rt.Fatalf("of %d %v is shed while %v of what is lower is let in", priority, part, 1-lower)
			}
			if want := shed.Of(priority); math.Abs(part-want) > 0.06 { // more than five standard deviations
				rt.Fatalf("of %d %v is shed, want %v", priority, part, want)
			}
			lower = part
		}
	})
}

func TestVerdictsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for v := Unconcerned; v <= Outdated; v++ {
		if v.String() == "" || seen[v.String()] {
			t.Errorf("%d is called %q", v, v)
		}
		seen[v.String()] = true
	}
}

func TestWeighingWhatIsShedAllocatesNothing(t *testing.T) {
	h := newHere(t)
	h.loaded("a", 5, 10)
	h.loaded("b", 5, 10)
	shed := table.Shed{Priority: -10, Part: 0.5}
	if n := testing.AllocsPerRun(100, func() {
		h.Sheds(shed, -10, h.targets, true, 0)
		h.Sheds(shed, 50, h.targets, true, 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
