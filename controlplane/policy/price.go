package policy

import (
	"fmt"
	"time"

	"anabranch/api/fleet"
	"anabranch/costmodel"
)

// Offers are the prices of GPUs as the cost model takes them: an operator's, which hold before any other.
func (s *RateCardSpec) Offers() []costmodel.Offer {
	out := make([]costmodel.Offer, 0, len(s.GPUs))
	for _, p := range s.GPUs {
		out = append(out, costmodel.Offer{
			Class:    p.Class,
			Instance: p.Instance,
			Region:   p.Region,
			Zone:     p.AvailabilityZone,
			Purchase: costmodel.Purchase(p.Purchase),
			PerHour:  costmodel.FromUSD(p.USDPerHour),
			From:     bound(p.From),
			Until:    bound(p.Until),
			Origin:   costmodel.Override,
			Source:   s.Source,
			Estimate: p.Estimate,
		})
	}
	return out
}

// Price is the token price as the cost model takes it.
func (m ModelPrice) Price() costmodel.TokenPrice {
	usd := func(x float64) costmodel.Micros { return max(costmodel.FromUSD(x), 0) }
	p := costmodel.TokenPrice{Input: usd(m.InputPerMTok), Output: usd(m.OutputPerMTok)}
	if p.Cached = p.Input; m.CachedPerMTok != nil {
		p.Cached = usd(*m.CachedPerMTok)
	}
	return p
}

// bound is zero for none, and for what validation does not let pass.
func bound(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// Bought are the cluster's GPUs as the cost model takes them.
func (s *ClusterSpec) Bought() []costmodel.GPUs {
	out := make([]costmodel.GPUs, 0, len(s.GPUs))
	for _, g := range s.GPUs {
		out = append(out, costmodel.GPUs{
			Class: g.Class, Count: g.Count, Purchase: costmodel.Purchase(g.Purchase), Instance: g.Instance, Zone: g.AvailabilityZone,
		})
	}
	return out
}

// goods checks what GPUs sit in and where.
func (f *finding) goods(at, instance, zone string) {
	if instance != "" {
		f.named(at+".instance", instance, fleet.CheckName)
	}
	if zone != "" {
		f.named(at+".availabilityZone", zone, fleet.CheckName)
	}
}

// span checks the bounds of a price.
func (f *finding) span(at, from, until string) {
	if from != "" {
		f.moment(at+".from", from)
	}
	if until != "" {
		f.moment(at+".until", until)
	}
	if end := bound(until); !end.IsZero() && !bound(from).Before(end) {
		f.add(at+".until", fmt.Sprintf("%q is not after from", clip(until)), "let the price hold for a time")
	}
}

// lanes checks prices of traffic.
func (f *finding) lanes(list []LanePrice) {
	seen := map[[2]string]bool{}
	for i, l := range list {
		at := fmt.Sprintf("spec.egress[%d]", i)
		f.named(at+".from", l.From, fleet.CheckName)
		if l.To != "" {
			f.named(at+".to", l.To, fleet.CheckName)
		}
		f.between(at+".usdPerGB", l.USDPerGB, 0, maxUSD)
		switch key := [2]string{l.From, l.To}; {
		case l.From == l.To && l.From != "":
			f.add(at+".to", fmt.Sprintf("%q is the region that it comes from", clip(l.To)), "traffic within a region costs nothing: name another one, or none for all")
		case seen[key]:
			f.add(at, fmt.Sprintf("traffic from %q to %q appears twice", clip(l.From), clip(l.To)), "keep one price")
		default:
			seen[key] = true
		}
	}
}

// carbon checks what emissions are made to cost.
func (f *finding) carbon(c *CarbonSpec) {
	f.between("spec.carbon.usdPerTonne", c.USDPerTonne, 0, maxUSD)
	if c.USDPerTonne == 0 && len(c.Regions) == 0 && len(c.GPUs) == 0 {
		f.add("spec.carbon", "says nothing", "give usdPerTonne, regions or gpus, or leave it out")
	}
	regions := map[string]bool{}
	for i, r := range c.Regions {
		at := fmt.Sprintf("spec.carbon.regions[%d]", i)
		f.named(at+".region", r.Region, fleet.CheckName)
		f.between(at+".gramsPerKWh", r.GramsPerKWh, 0, 10_000)
		if regions[r.Region] {
			f.add(at+".region", fmt.Sprintf("%q appears twice", clip(r.Region)), "keep one figure")
		}
		regions[r.Region] = true
	}
	gpus := map[[2]string]bool{}
	for i, g := range c.GPUs {
		at := fmt.Sprintf("spec.carbon.gpus[%d]", i)
		f.named(at+".class", g.Class, fleet.CheckName)
		f.goods(at, g.Instance, "")
		f.between(at+".watts", float64(g.Watts), 1, 100_000)
		key := [2]string{g.Class, g.Instance}
		if gpus[key] {
			f.add(at, fmt.Sprintf("class %q in %q appears twice", clip(g.Class), clip(g.Instance)), "keep one figure")
		}
		gpus[key] = true
	}
}
