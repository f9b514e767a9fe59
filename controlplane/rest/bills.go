package rest

import (
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// Bills are the days for which it is known what a seller billed, the newest first.
type Bills struct {
	Days []BilledDay `json:"days"`
}

// BilledDay is what a seller billed for instances in a day, beside what the account counted for them.
type BilledDay struct {
	Day    string    `json:"day"` // UTC
	Source string    `json:"source"`
	Asked  time.Time `json:"asked"`
	// Estimate: what was billed may still change. Incomplete: the account has not counted the whole day.
	Estimate   bool `json:"estimate"`
	Incomplete bool `json:"incomplete"`
	// BilledUSD and CountedUSD are of all goods; DriftRatio as in BilledGoods.
	BilledUSD  string        `json:"billedUSD"`
	CountedUSD string        `json:"countedUSD"`
	DriftRatio *float64      `json:"driftRatio"`
	Goods      []BilledGoods `json:"goods"`
	// LeftOut are clusters that name no instance type, so that what they cost can't be found in a bill.
	LeftOut []string `json:"leftOut"`
}

// BilledGoods are instances of one type in one region.
type BilledGoods struct {
	Region     string `json:"region"`
	Instance   string `json:"instance"`
	BilledUSD  string `json:"billedUSD"`
	CountedUSD string `json:"countedUSD"`
	// DriftRatio is how much more was billed than counted, as a part of what was counted; nil: nothing was
	// counted.
	DriftRatio *float64 `json:"driftRatio"`
}

// bills answers what was billed, and what the account says to it.
func (s *Server) bills(c echo.Context) error {
	view, err := s.view(c)
	if err != nil {
		return err
	}
	out := Bills{Days: []BilledDay{}}
	for _, d := range slices.Backward(view.Billed()) {
		out.Days = append(out.Days, billedDay(d))
	}
	return c.JSON(http.StatusOK, out)
}

func billedDay(d *statepb.BilledDay) BilledDay {
	out := BilledDay{
		Day: time.Unix(d.GetDayUnixS(), 0).UTC().Format(time.DateOnly), Source: d.GetSource(), Asked: time.UnixMilli(d.GetAskedUnixMs()).UTC(),
		Estimate: d.GetEstimate(), Incomplete: d.GetIncomplete(), Goods: []BilledGoods{}, LeftOut: append([]string{}, d.GetLeftOut()...),
	}
	var billed, counted costmodel.Sum // these saturate
	for _, g := range d.GetGoods() {
		one := costmodel.Drift{Billed: costmodel.Micros(g.GetBilledMicros()), Counted: costmodel.Micros(g.GetCountedMicros())}
		billed, counted = billed.Plus(costmodel.Sum{Cost: one.Billed}), counted.Plus(costmodel.Sum{Cost: one.Counted})
		out.Goods = append(out.Goods, BilledGoods{
			Region: g.GetRegion(), Instance: g.GetInstance(), BilledUSD: dollars(one.Billed), CountedUSD: dollars(one.Counted), DriftRatio: ratio(one),
		})
	}
	all := costmodel.Drift{Billed: billed.Cost, Counted: counted.Cost}
	out.BilledUSD, out.CountedUSD, out.DriftRatio = dollars(all.Billed), dollars(all.Counted), ratio(all)
	return out
}

func ratio(d costmodel.Drift) *float64 {
	if r, ok := d.Ratio(); ok {
		return &r
	}
	return nil
}
