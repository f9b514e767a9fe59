package billing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/controlplane/account"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// story is an account in the making, and what it must add up to.
type story struct {
	*rapid.T
	docs     configured
	account  account.Account
	now      time.Time
	index    uint64
	clusters []string
	// wanted is all that was billed and told, by cluster, and by tenant and source what of it these alone decide.
	wanted  costmodel.Rollup
	tenants map[fleet.TenantID]costmodel.Usage
}

func tell(t *rapid.T, tt *testing.T) *story {
	s := &story{T: t, now: epoch, wanted: costmodel.Rollup{}, tenants: map[fleet.TenantID]costmodel.Usage{}}
	regions := []string{"us", "eu", "ap"}
	region := rapid.SampledFrom(regions)
	usd := rapid.SampledFrom([]string{"0", "0.000001", "3", "2.718281", "98.76"})
	var docs []string
	for i := range rapid.IntRange(1, 4).Draw(t, "clusters") {
		name := fmt.Sprintf("c%d", i)
		s.clusters = append(s.clusters, name)
		switch rapid.IntRange(0, 3).Draw(t, "type") {
		case 0:
			docs = append(docs, fmt.Sprintf("Cluster %s {region: %s, models: [m, n], url: 'https://c', type: provider}", name, region.Draw(t, "region")))
		default:
			docs = append(docs, strings.Replace(cluster(name, region.Draw(t, "region"), ""), "[m]", "[m, n]", 1))
		}
	}
	gpus, lanes := "", ""
	for _, r := range regions {
		gpus += fmt.Sprintf("{class: h100, region: %s, usdPerHour: %s}, ", r, usd.Draw(t, "price"))
		lanes += fmt.Sprintf("{from: %s, usdPerGB: %s}, ", r, usd.Draw(t, "lane"))
	}
	docs = append(docs, "Model m {outputWeight: 3.1}", fmt.Sprintf(
		"RateCard r {gpus: [%s], egress: [%s], models: [{model: m, inputPerMTok: %s, outputPerMTok: %s}], carbon: {usdPerTonne: 80, regions: [{region: us, gramsPerKWh: 400}], gpus: [{class: h100, watts: 900}]}}",
		gpus, lanes, usd.Draw(t, "input"), usd.Draw(t, "output")))
	s.docs = write(tt, docs...)
	return s
}

// shut closes all minutes that are due, or that before a time alone, so that the time before is a gap.
func (s *story) shut() {
	for {
		c := Close(Due{Account: s.account, Held: s.docs.always, Capacity: func(fleet.ClusterID, fleet.ModelID) float64 {
			return rapid.SampledFrom([]float64{0, 1, 1e4}).Draw(s.T, "capacity")
		}, Now: s.now})
		if c == nil {
			return
		}
		s.index++
		next, refused := s.account.Close(c, s.index)
		if refused != nil {
			s.Fatal(refused)
		}
		s.account = next
		for _, m := range c.GetMinutes() {
			for _, b := range m.GetBills() {
				s.wanted.Add(costmodel.Key{Cluster: fleet.ClusterID(b.GetCluster())}, costmodel.Sum{Cost: costmodel.Micros(b.GetCostMicros()), Carbon: costmodel.Micros(b.GetCarbonMicros())})
			}
		}
	}
}

// use tells lines of a time that may be long ago.
func (s *story) use() {
	start := s.now.Add(-rapid.SampledFrom([]time.Duration{0, time.Minute, time.Minute, 90 * time.Minute, 5 * time.Hour, 200 * time.Hour}).Draw(s.T, "age"))
	if start.Before(s.account.Begun()) {
		start = s.account.Begun()
	}
	var lines []costmodel.Line
	for range rapid.IntRange(1, 6).Draw(s.T, "lines") {
		count := rapid.OneOf(rapid.Int64Range(0, 10), rapid.Int64Range(0, 1e9))
		l := costmodel.Line{
			Tenant: rapid.SampledFrom([]fleet.TenantID{"", "a", "b", "c"}).Draw(s.T, "tenant"), Model: rapid.SampledFrom([]fleet.ModelID{"m", "n"}).Draw(s.T, "model"),
			Class: "chat", Cluster: fleet.ClusterID(rapid.SampledFrom(s.clusters).Draw(s.T, "cluster")), Source: rapid.SampledFrom([]fleet.RegionID{"us", "eu", "ap"}).Draw(s.T, "source"),
			Usage: costmodel.Usage{Input: count.Draw(s.T, "input"), Output: count.Draw(s.T, "output"), Succeeded: 1, Bytes: count.Draw(s.T, "bytes")},
		}
		l.Usage.Cached = l.Usage.Input / 3
		lines = append(lines, l)
		s.tenants[l.Tenant] = s.tenants[l.Tenant].Plus(l.Usage)
	}
	counted := NewTariff(s.docs, nil, start).Count(start.Truncate(time.Minute).Unix(), lines)
	for _, l := range counted.GetLines() {
		s.wanted.Add(costmodel.Key{Cluster: fleet.ClusterID(l.GetCluster())}, costmodel.Sum{
			Usage: costmodel.Usage{Input: l.GetInput(), Cached: l.GetCached(), Output: l.GetOutput(), Succeeded: l.GetSucceeded(), Bytes: l.GetBytes()},
			Work:  costmodel.Work(l.GetWork()), Cost: costmodel.Micros(l.GetCostMicros()), Egress: costmodel.Micros(l.GetEgressMicros()),
		})
	}
	s.index++
	next, refused := s.account.Count(&statepb.CountUsage{Runs: []*statepb.UsageRun{{Run: "r", Sequence: s.index}}, Minutes: []*statepb.CountedMinute{counted}}, s.now.UnixMilli(), s.index)
	if refused != nil {
		s.Fatal(refused)
	}
	s.account = next
}

// restart restores the account from a snapshot.
func (s *story) restart() {
	restored, err := account.FromProto(s.account.Proto())
	if err != nil {
		s.Fatal(err)
	}
	s.account = restored
}

// check asks in some way, and adds up.
func (s *story) check() {
	q := account.Query{
		From: s.account.Begun(), Until: s.account.Closed(), By: costmodel.Dimensions(rapid.Uint8Range(0, 1<<6-1).Draw(s.T, "by")),
		Step: rapid.SampledFrom([]account.Step{account.Whole, account.ByHour, account.ByDay}).Draw(s.T, "step"), SpreadIdle: rapid.Bool().Draw(s.T, "spread"),
	}
	r, err := s.account.Ask(q)
	if err != nil && q.Step == account.ByHour {
		return // older than hours are kept
	}
	if err != nil || len(s.account.Gaps()) == 0 != r.Complete {
		s.Fatalf("complete %v with %d gaps, %v", r.Complete, len(s.account.Gaps()), err)
	}
	got, tenants := costmodel.Rollup{}, map[fleet.TenantID]costmodel.Usage{}
	for _, row := range r.Rows {
		row.Cost, row.Idle = row.Cost+row.Idle, 0 // only their sum is known here
		got.Add(row.Key, row.Sum)
		tenants[row.Key.Tenant] = tenants[row.Key.Tenant].Plus(row.Usage)
	}
	got, want := got.By(q.By&costmodel.ByCluster), s.wanted.By(q.By&costmodel.ByCluster)
	for _, k := range want.Keys() {
		is, was := got[k], want[k]
		if is.Estimate, is.Unpriced = was.Estimate, was.Unpriced; is != was {
			s.Fatalf("%+v: %v adds up to\n%+v, and was\n%+v", q, k, is, was)
		}
	}
	if len(got) > len(want) {
		s.Fatalf("there are %v, and were %v", got.Keys(), want.Keys())
	}
	if q.By&costmodel.ByTenant != 0 {
		for tenant, u := range s.tenants {
			if tenants[tenant] != u {
				s.Fatalf("%q used %+v, and is told %+v", tenant, u, tenants[tenant])
			}
		}
	}
}

// Whatever clusters there are, whoever uses them, however late it is told, however old the account gets and
// however it is asked: the rows are the bills, the providers' tokens and the traffic, to the micro-dollar.
func TestAnAccountIsWhole(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := tell(rt, t)
		s.now = s.now.Add(Grace)
		s.shut()
		for range rapid.IntRange(1, 14).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				s.now = s.now.Add(rapid.SampledFrom([]time.Duration{2*time.Hour + 30*time.Minute, MaxGap + time.Hour, 120 * time.Hour}).Draw(rt, "outage"))
				s.shut()
			case 1, 2, 3:
				s.now = s.now.Add(time.Minute)
				s.shut()
			case 4:
				s.restart()
			default:
				s.use()
			}
		}
		s.now = s.now.Add(2 * time.Minute) // so that no usage waits for its minute to be closed
		s.shut()
		for range 5 {
			s.check()
		}
	})
}
