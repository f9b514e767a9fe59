package table

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

func shed(priority int32, part float64) *routerpb.Shed {
	return &routerpb.Shed{Priority: priority, Part: part}
}

func TestWhatIsShedIsJudged(t *testing.T) {
	tests := map[string]struct {
		shed  []*routerpb.Shed
		field string // "": it is right
		want  Shed
	}{
		"nothing":                       {nil, "", Shed{}},
		"a part":                        {[]*routerpb.Shed{shed(-10, 0.25)}, "", Shed{-10, 0.25}},
		"all of some, a part of others": {[]*routerpb.Shed{shed(-10, 1), shed(0, 1), shed(50, 0.1)}, "", Shed{50, 0.1}},
		"all":                           {[]*routerpb.Shed{shed(100, 1)}, "", Shed{100, 1}},
		"nothing of one":                {[]*routerpb.Shed{shed(-10, 0)}, "weights[0].shed[0].part", Shed{}},
		"less than nothing":             {[]*routerpb.Shed{shed(-10, -0.1)}, "weights[0].shed[0].part", Shed{}},
		"more than all":                 {[]*routerpb.Shed{shed(-10, 1), shed(0, 1.5)}, "weights[0].shed[1].part", Shed{}},
		"no number":                     {[]*routerpb.Shed{shed(-10, math.NaN())}, "weights[0].shed[0].part", Shed{}},
		"endless":                       {[]*routerpb.Shed{shed(-10, math.Inf(1))}, "weights[0].shed[0].part", Shed{}},
		"downwards":                     {[]*routerpb.Shed{shed(0, 1), shed(-10, 0.5)}, "weights[0].shed[1].priority", Shed{}},
		"twice":                         {[]*routerpb.Shed{shed(0, 1), shed(0, 0.5)}, "weights[0].shed[1].priority", Shed{}},
		"two in part":                   {[]*routerpb.Shed{shed(-10, 0.9), shed(0, 0.5)}, "weights[0].shed[0].part", Shed{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pb := good()
			w := pb.Weights[0]
			w.Shed = tt.shed
			tab, err := Build(pb)
			var e *Invalid
			switch {
			case tt.field == "" && err != nil:
				t.Fatal(err)
			case tt.field != "" && (!errors.As(err, &e) || e.Field != tt.field || e.Code != CodeValue):
				t.Fatalf("got %v, want it to speak of %s", err, tt.field)
			case tt.field != "":
				return
			}
			key := weightKey{fleet.ModelID(w.GetModel()), fleet.ClassID(w.GetClass()), fleet.RegionID(w.GetSource())}
			if got := tab.Shed(key.model, key.class, key.source); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if got := tab.Shed(key.model, key.class, "elsewhere"); got != (Shed{}) {
				t.Errorf("elsewhere %+v", got)
			}
		})
	}
}

// Nothing is shed while something lower is let in, whatever is shed.
func TestLowerPrioritiesAreShedFirst(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := Shed{rapid.Int32Range(-20, 120).Draw(rt, "priority"), rapid.SampledFrom([]float64{0, 0.01, 0.5, 1}).Draw(rt, "part")}
		a, b := rapid.Int32Range(-20, 120).Draw(rt, "a"), rapid.Int32Range(-20, 120).Draw(rt, "b")
		if a > b {
			a, b = b, a
		}
		low, high := s.Of(a), s.Of(b)
		if low < 0 || low > 1 || high > low || a < b && high > 0 && low < 1 {
			rt.Fatalf("%+v sheds %v of %d and %v of %d", s, low, a, high, b)
		}
		if s.Part == 0 && low > 0 || s.Part > 0 && s.Of(s.Priority) != s.Part {
			rt.Fatalf("%+v sheds %v of %d", s, low, a)
		}
	})
}
