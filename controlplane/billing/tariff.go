// Package billing says what clusters and requests cost: which minutes are to be closed with which bills, and what
// usage that routers tell has a price of its own. What it makes are commands; package account keeps the books.
package billing

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// Tariff is all prices and weights that hold at one moment. It never changes.
type Tariff struct {
	book     costmodel.Book
	clusters []*policy.Resource // those that are known, by name
	places   map[fleet.ClusterID]*policy.ClusterSpec
	weights  map[fleet.ModelID]float64 // of output
	tokens   map[fleet.ModelID]tokenPrice
	egress   costmodel.Egress
	lanes    bool // somebody has priced traffic
	carbon   carbon
}

type tokenPrice struct {
	costmodel.TokenPrice
	estimate bool
}

// NewTariff collects what the resources say, and offers of price sources, at a moment.
func NewTariff(resources plan.Lookup, offers []costmodel.Offer, at time.Time) Tariff {
	t := Tariff{
		book:     plan.Prices(resources, offers, at),
		clusters: resources.List(policy.KindCluster),
		places:   map[fleet.ClusterID]*policy.ClusterSpec{},
		weights:  map[fleet.ModelID]float64{},
		tokens:   map[fleet.ModelID]tokenPrice{},
	}
	for _, r := range t.clusters {
		if spec, ok := r.Spec.(*policy.ClusterSpec); ok {
			t.places[fleet.ClusterID(r.Metadata.Name)] = spec
		}
	}
	for _, r := range resources.List(policy.KindModel) {
		if spec, ok := r.Spec.(*policy.ModelSpec); ok {
			t.weights[fleet.ModelID(r.Metadata.Name)] = spec.OutputWeight
		}
	}
	var lanes []costmodel.Lane
	for _, r := range resources.List(policy.KindRateCard) {
		card, ok := r.Spec.(*policy.RateCardSpec)
		if !ok {
			continue
		}
		for _, m := range card.Models {
			if _, known := t.tokens[fleet.ModelID(m.Model)]; !known {
				t.tokens[fleet.ModelID(m.Model)] = tokenPrice{m.Price(), m.Estimate}
			}
		}
		for _, l := range card.Egress {
			lanes = append(lanes, costmodel.Lane{From: l.From, To: l.To, PerGB: costmodel.FromUSD(l.USDPerGB), Estimate: l.Estimate})
		}
		t.carbon.read(card.Carbon)
	}
	t.egress, t.lanes = costmodel.NewEgress(lanes), len(lanes) > 0
	return t
}

// Count is what usage in a minute is in the account. Lines of one kind are priced together.
func (t Tariff) Count(minuteUnixS int64, lines []costmodel.Line) *statepb.CountedMinute {
	used := costmodel.Rollup{}
	for _, l := range lines {
		region := fleet.RegionID("")
		if spec := t.places[l.Cluster]; spec != nil {
			region = fleet.RegionID(spec.Region)
		}
		used.Add(l.Key(region), costmodel.Sum{Usage: l.Usage}.Sane())
	}
	out := &statepb.CountedMinute{MinuteUnixS: minuteUnixS}
	for _, k := range used.Keys() {
		out.Lines = append(out.Lines, t.line(k, used[k].Usage))
	}
	return out
}

// Price is what usage in a minute is in the account of a state, at the prices that held when it began. What was not
// there then, and has been written since, goes by how it was written.
func Price(view *state.View, minute time.Time, lines []costmodel.Line) *statepb.CountedMinute {
	held := view.AsOf(minute)
	t := NewTariff(held, nil, minute) // GPUs are paid by the bills of their clusters
	if slices.ContainsFunc([]policy.Kind{policy.KindCluster, policy.KindModel, policy.KindRateCard}, held.Differs) {
		t.add(NewTariff(view, nil, minute))
	}
	return t.Count(minute.Unix(), lines)
}

// add takes what is missing for counting usage from a later tariff.
func (t *Tariff) add(later Tariff) {
	missing(t.places, later.places)
	missing(t.weights, later.weights)
	missing(t.tokens, later.tokens)
	if !t.lanes {
		t.egress, t.lanes = later.egress, later.lanes
	}
}

func missing[K comparable, V any](to, from map[K]V) {
	for k, v := range from {
		if _, there := to[k]; !there {
			to[k] = v
		}
	}
}

func (t Tariff) line(k costmodel.Key, u costmodel.Usage) *statepb.CountedLine {
	weights := costmodel.Weights{Cached: costmodel.CachedWeight, Output: cmp.Or(t.weights[k.Model], policy.DefaultOutputWeight)}
	l := &statepb.CountedLine{
		Tenant: string(k.Tenant), Model: string(k.Model), Class: string(k.Class),
		Cluster: string(k.Cluster), Region: string(k.Region), Source: string(k.Source),
		Input: u.Input, Cached: u.Cached, Output: u.Output, Succeeded: u.Succeeded, Failed: u.Failed, Bytes: u.Bytes,
		Work: int64(weights.Work(u)),
	}
	if spec := t.places[k.Cluster]; spec != nil && spec.Type == policy.TypeProvider && u.Input+u.Output > 0 {
		price, known := t.tokens[k.Model]
		l.CostMicros, l.Estimate, l.Unpriced = int64(price.Cost(u)), price.estimate, !known
	}
	if t.lanes && k.Region != "" && k.Source != "" {
		sent := t.egress.Cost(string(k.Region), string(k.Source), u.Bytes)
		l.EgressMicros = int64(sent.Cost)
		l.Estimate, l.Unpriced = l.Estimate || sent.Estimate, l.Unpriced || sent.Unpriced
	}
	return l
}

// Bills are what all clusters cost from one time to another, whatever they did: those that are drained or down
// too. Providers ask for tokens, and members that are routers pay their own bills. Capacity is work per second
// of a model on a cluster as it was measured; 0 where it never was. Where that is so for all of its models the
// prior stands for it.
func (t Tariff) Bills(from, until time.Time, capacity func(fleet.ClusterID, fleet.ModelID) float64) []*statepb.ClusterBill {
	var out []*statepb.ClusterBill
	for _, r := range t.clusters {
		id := fleet.ClusterID(r.Metadata.Name)
		spec := t.places[id]
		if spec == nil || spec.Type == policy.TypeProvider || spec.Type == policy.TypeRouter {
			continue
		}
		bought := spec.Bought()
		bill := t.book.Bill(spec.Region, bought, from, until)
		measured := map[fleet.ModelID]float64{}
		most := 0.0
		for _, m := range spec.Models {
			if perS := capacity(id, fleet.ModelID(m)); perS > 0 {
				measured[fleet.ModelID(m)] = perS
				most = max(most, perS)
			}
		}
		if most == 0 {
			most = spec.PriorWork
		}
		work := func(perS float64) int64 { return int64(1000 * min(max(perS, 0), maxWork) * until.Sub(from).Seconds()) }
		out = append(out, &statepb.ClusterBill{
			Cluster: string(id), Region: spec.Region, CostMicros: int64(bill.Cost),
			CarbonMicros: int64(t.carbon.bill(spec.Region, bought, from, until)),
			Capacity:     work(most), Estimate: bill.Estimate, Unpriced: bill.Unpriced || len(bought) == 0,
		})
		for _, m := range slices.Sorted(maps.Keys(measured)) {
			if measured[m] < most {
				last := out[len(out)-1]
				last.Models = append(last.Models, &statepb.ModelCapacity{Model: string(m), Capacity: work(measured[m])})
			}
		}
	}
	slices.SortFunc(out, func(a, b *statepb.ClusterBill) int { return cmp.Compare(a.GetCluster(), b.GetCluster()) })
	return out
}

// maxWork is more work per second than any cluster does, so that what it does in a minute can be counted.
const maxWork = 1e12
