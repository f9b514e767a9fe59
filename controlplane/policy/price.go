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
