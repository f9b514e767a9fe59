package state

import (
	"slices"
	"strings"
	"testing"

	"anabranch/controlplane/state/statepb"
)

// billedOn is a day of 1970 or later, counted from 0, with one kind of instance.
func billedOn(day int64, micros int64) *statepb.BilledDay {
	return &statepb.BilledDay{
		DayUnixS: (day + 1) * secondsPerDay, Source: "the cloud", AskedUnixMs: 5,
		Goods: []*statepb.BilledGoods{{Region: "us", Instance: "p5.48xlarge", BilledMicros: micros, CountedMicros: 10}},
	}
}

func putBilled(day *statepb.BilledDay) *statepb.Command {
	op := &statepb.Command_PutBilled{PutBilled: &statepb.PutBilled{Day: day}}
	return &statepb.Command{Format: FormatOf(&statepb.Command{Op: op}), AtUnixMs: 2000, Actor: &statepb.Actor{Name: "system/reconcile"}, Op: op}
}

func TestWhatWasBilledIsKeptByDay(t *testing.T) {
	h := fourth(t)
	h.want(h.do(putBilled(billedOn(3, 30))), "", "")
	h.want(h.do(putBilled(billedOn(1, 10))), "", "")
	h.want(h.do(putBilled(billedOn(3, 33))), "", "")
	told := func(v *View) (all []int64) {
		for _, d := range v.Billed() {
			all = append(all, d.GetDayUnixS()/secondsPerDay-1, d.GetGoods()[0].GetBilledMicros())
		}
		return all
	}
	if got := told(h.View); !slices.Equal(got, []int64{1, 10, 3, 33}) {
		t.Errorf("kept %v", got)
	}
	before := h.View
	for day := range int64(MaxBilledDays) {
		h.do(putBilled(billedOn(10+day, day)))
	}
	if got := h.Billed(); len(got) != MaxBilledDays || got[0].GetDayUnixS() != 11*secondsPerDay {
		t.Errorf("%d days are kept, the first is %d", len(got), got[0].GetDayUnixS())
	}
	if got := told(before); !slices.Equal(got, []int64{1, 10, 3, 33}) {
		t.Errorf("an older view has changed: %v", got)
	}
}

func TestDaysThatCannotBeKeptAreRefused(t *testing.T) {
	long := strings.Repeat("x", maxPriceText+1)
	for name, c := range map[string]struct {
		change func(*statepb.BilledDay)
		field  string
	}{
		"noon":           {func(d *statepb.BilledDay) { d.DayUnixS += 43_200 }, "day.day_unix_s"},
		"no day":         {func(d *statepb.BilledDay) { d.DayUnixS = 0 }, "day.day_unix_s"},
		"nobody says so": {func(d *statepb.BilledDay) { d.Source = "" }, "day.source"},
		"a long name":    {func(d *statepb.BilledDay) { d.Goods[0].Instance = long }, "day.goods"},
		"no region":      {func(d *statepb.BilledDay) { d.Goods[0].Region = "" }, "day.goods"},
		"below nothing":  {func(d *statepb.BilledDay) { d.Goods[0].CountedMicros = -1 }, "day.goods"},
		"twice":          {func(d *statepb.BilledDay) { d.Goods = append(d.Goods, d.Goods[0]) }, "day.goods"},
		"many": {func(d *statepb.BilledDay) {
			d.Goods = slices.Repeat(d.Goods, MaxBilledGoods+1)
		}, "day.goods"},
		"many clusters":    {func(d *statepb.BilledDay) { d.LeftOut = make([]string, MaxLeftOut+1) }, "day.left_out"},
		"a cluster's name": {func(d *statepb.BilledDay) { d.LeftOut = []string{""} }, "day.left_out"},
	} {
		t.Run(name, func(t *testing.T) {
			h := fourth(t)
			day := billedOn(3, 30)
			c.change(day)
			h.want(h.do(putBilled(day)), CodeInvalid, c.field)
			if len(h.Billed()) > 0 {
				t.Error("it is kept")
			}
		})
	}
	h := fourth(t)
	h.want(h.do(putBilled(nil)), CodeInvalid, "day.day_unix_s")
}
