package rest

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/controlplane/prices"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// PriceList is what clusters cost now, and where that is known from.
type PriceList struct {
	Items      []ClusterPrice `json:"items"`
	NextCursor string         `json:"nextCursor"`
	At         time.Time      `json:"at"`
	// Sources of prices, all of them, by name.
	Sources []PriceSource `json:"sources"`
}

// ClusterPrice is what the GPUs of a cluster cost. Sums leave out GPUs whose price is not known.
type ClusterPrice struct {
	Cluster fleet.ClusterID `json:"cluster"`
	Region  fleet.RegionID  `json:"region"`
	Count   int             `json:"count"` // of its GPUs
	// USDPerHour is paid for it, worked or not; MarginalUSDPerHour is what of it is paid for work: that of
	// GPUs on demand and spot. Traffic is divided by it.
	USDPerHour         float64 `json:"usdPerHour"`
	MarginalUSDPerHour float64 `json:"marginalUsdPerHour"`
	// USDPerGPUHour is the mean; absent: it has no GPUs, or the price of one is not known.
	USDPerGPUHour *float64 `json:"usdPerGpuHour,omitempty"`
	// Estimate: one of its prices is. Unpriced: one is not known.
	Estimate bool       `json:"estimate"`
	Unpriced bool       `json:"unpriced"`
	GPUs     []GPUsCost `json:"gpus"`
}

// GPUsCost is what GPUs cost that are bought in one way, and why that price holds.
type GPUsCost struct {
	Class    string `json:"class"`
	Count    int    `json:"count"`
	Purchase string `json:"purchase"`
	// Instance and Zone are empty where the cluster does not tell them.
	Instance string `json:"instance"`
	Zone     string `json:"zone"`
	// USDPerGPUHour is rounded up; absent: no price is known.
	USDPerGPUHour *float64 `json:"usdPerGpuHour,omitempty"`
	// Origin is "operator's price", "live price", "price file" or "shipped default"; empty: no price is known.
	Origin string `json:"origin"`
	// Why the price was taken and not another one.
	Why string `json:"why"`
	// Source is where the figure is published.
	Source string `json:"source"`
	// AsOf is when it was read there; absent: not known. AgeMs is since then, -1 if that is not known.
	AsOf     time.Time `json:"asOf,omitzero"`
	AgeMs    int64     `json:"ageMs"`
	Estimate bool      `json:"estimate"`
	// Doubt is what its source has said since and is not believed; absent: nothing.
	Doubt *PriceDoubt `json:"doubt,omitempty"`
}

// PriceDoubt is a price that is not believed so far: it is more than ten times the last one, less than a tenth of it, or gone.
type PriceDoubt struct {
	Since time.Time `json:"since"`
	// USDPerGPUHour is what was told; absent: that there is no price any more.
	USDPerGPUHour *float64 `json:"usdPerGpuHour,omitempty"`
}

// PriceSource is one place where prices are asked for.
type PriceSource struct {
	Name string `json:"name"`
	// Standing is unasked, good, absent or failing.
	Standing string `json:"standing"`
	// Offers that are kept of its last good answer, and Doubted of them.
	Offers  int `json:"offers"`
	Doubted int `json:"doubted"`
	// ReadAt is when the last good answer came, AskedAt when it was asked last; absent: never. A node that does
	// not lead knows them to the hour.
	ReadAt  time.Time `json:"readAt,omitzero"`
	AskedAt time.Time `json:"askedAt,omitzero"`
	// AgeMs since ReadAt; -1: there was none.
	AgeMs int64 `json:"ageMs"`
	// IntervalMs between two questions. NextAt is when it is asked again; absent: this node does not lead.
	IntervalMs int64     `json:"intervalMs"`
	NextAt     time.Time `json:"nextAt,omitzero"`
	// Failures in a row, as far as this node has asked. Error is what was wrong with the last answer.
	Failures int    `json:"failures"`
	Error    string `json:"error"`
}

// prices lists what clusters cost by name, perhaps only some of them, and the sources of prices.
func (s *Server) prices(c echo.Context) error {
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	region, cluster := c.QueryParam("region"), c.QueryParam("cluster")
	for name, value := range map[string]string{"region": region, "cluster": cluster} {
		if value == "" {
			continue
		}
		if err := fleet.CheckName(value); err != nil {
			return newProblem(codeInvalidRequest, fmt.Sprintf("%s %s.", name, err))
		}
	}
	from, err := sameList(c, "region", "cluster")
	if err != nil {
		return err
	}
	view, now := s.localView(c), s.o.Now()
	wanted := func(p prices.Cluster) bool {
		return (region == "" || string(p.Region) == region) && (cluster == "" || string(p.ID) == cluster)
	}
	by := order[prices.Cluster]{name: func(p prices.Cluster) string { return string(p.ID) }}
	page, next := by.page(prices.Clusters(view, view.Offers(), now), from, limit, wanted)
	out := PriceList{Items: []ClusterPrice{}, NextCursor: next, At: now.UTC(), Sources: s.priceSources(view, now)}
	doubts := doubtsOf(view)
	for _, p := range page {
		out.Items = append(out.Items, clusterPrice(p, doubts))
	}
	return c.JSON(http.StatusOK, out)
}

// priceSources are those that the state knows, with what the leader knows of them beyond.
func (s *Server) priceSources(view *state.View, now time.Time) []PriceSource {
	var asked map[string]prices.Asked
	if s.o.Prices != nil {
		asked = s.o.Prices()
	}
	all := []PriceSource{}
	for _, k := range view.PriceSources() {
		p := PriceSource{
			Name: k.GetName(), Standing: k.GetStanding(), Offers: len(k.GetOffers()), IntervalMs: k.GetEveryMs(), Error: k.GetError(),
			ReadAt: fromMs(k.GetReadUnixMs()), AskedAt: fromMs(k.GetAskedUnixMs()), AgeMs: -1,
		}
		for _, o := range k.GetOffers() {
			if o.GetDoubt() != nil {
				p.Doubted++
			}
		}
		if a, ok := asked[k.GetName()]; ok {
			p.NextAt, p.Failures = a.Next.UTC(), a.Failures
			if a.Asked.After(p.AskedAt) {
				p.AskedAt, p.Standing, p.Error = a.Asked.UTC(), string(a.Standing), cmp.Or(a.Error, p.Error)
			}
			if a.Read.After(p.ReadAt) {
				p.ReadAt = a.Read.UTC()
			}
		}
		if !p.ReadAt.IsZero() {
			p.AgeMs = max(now.Sub(p.ReadAt).Milliseconds(), 0)
		}
		all = append(all, p)
	}
	return all
}

// fromMs keeps none, which is 0, none.
func fromMs(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// doubtsOf are the doubts about offers that plans go by.
func doubtsOf(view *state.View) map[costmodel.Offer]*statepb.PriceOffer {
	out := map[costmodel.Offer]*statepb.PriceOffer{}
	for _, s := range view.PriceSources() {
		for _, o := range s.GetOffers() {
			if o.GetDoubt() != nil {
				out[state.OfferOf(s, o)] = o
			}
		}
	}
	return out
}

func clusterPrice(p prices.Cluster, doubts map[costmodel.Offer]*statepb.PriceOffer) ClusterPrice {
	out := ClusterPrice{
		Cluster: p.ID, Region: p.Region, Count: p.Count, USDPerHour: p.Hour.Cost.USD(), MarginalUSDPerHour: p.Marginal.Cost.USD(),
		Estimate: p.Hour.Estimate, Unpriced: p.Hour.Unpriced, GPUs: []GPUsCost{},
	}
	if mean, ok := p.PerGPUHour(); ok {
		out.USDPerGPUHour = amount(mean)
	}
	for _, g := range p.GPUs {
		cost := GPUsCost{
			Class: strings.ToLower(g.Class), Count: g.Count, Purchase: string(cmp.Or(g.Purchase, costmodel.OnDemand)), Instance: g.Instance, Zone: g.Zone,
			AgeMs: -1, Why: "no price is known: write a rate card",
		}
		if g.Known {
			cost.USDPerGPUHour, cost.Origin, cost.Why, cost.Source = amount(g.Price.GPUsPerHour(1)), g.Price.Origin.String(), g.Price.Why(), g.Price.Source
			cost.Estimate, cost.AsOf = g.Price.Estimate, g.Price.AsOf
			if !g.Price.AsOf.IsZero() {
				cost.AgeMs = g.Price.Age.Milliseconds()
			}
			if o := doubts[g.Price.Offer]; o != nil {
				cost.Doubt = &PriceDoubt{Since: fromMs(o.GetDoubt().GetSinceUnixMs())}
				if !o.GetDoubt().GetGone() {
					told := g.Price.Offer
					told.PerHour = costmodel.Micros(o.GetDoubt().GetMicrosPerHour())
					cost.Doubt.USDPerGPUHour = amount(told.GPUsPerHour(1))
				}
			}
		}
		out.GPUs = append(out.GPUs, cost)
	}
	return out
}

func amount(m costmodel.Micros) *float64 {
	dollars := m.USD()
	return &dollars
}
