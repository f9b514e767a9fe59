package account

import (
	"testing"
	"time"

	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// epoch is the start of a day.
var epoch = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

// books is an account with the means to change it.
type books struct {
	t *testing.T
	Account
	index    uint64
	sequence uint64
}

func newBooks(t *testing.T) *books { return &books{t: t} }

// at is a moment so long after epoch.
func at(d time.Duration) time.Time { return epoch.Add(d) }

// shut closes a minute with bills.
func (b *books) shut(start time.Time, bills ...*statepb.ClusterBill) *Refusal {
	b.index++
	next, refused := b.Close(&statepb.CloseMinutes{Minutes: []*statepb.MinuteBills{{MinuteUnixS: start.Unix(), Bills: bills}}}, b.index)
	b.Account = next
	return refused
}

// closeUntil closes all minutes to a time, each with the same bills.
func (b *books) closeUntil(until time.Time, bills ...*statepb.ClusterBill) {
	b.t.Helper()
	for b.Closed().Before(until) {
		c := &statepb.CloseMinutes{}
		for start := b.Closed(); start.Before(until) && len(c.GetMinutes()) < MaxClosed; start = start.Add(time.Minute) {
			c.Minutes = append(c.Minutes, &statepb.MinuteBills{MinuteUnixS: start.Unix(), Bills: bills})
		}
		b.index++
		next, refused := b.Close(c, b.index)
		if refused != nil {
			b.t.Fatal(refused)
		}
		b.Account = next
	}
}

// tell counts lines of a minute, told at a time.
func (b *books) tell(now, start time.Time, lines ...*statepb.CountedLine) {
	b.t.Helper()
	b.index++
	b.sequence++
	next, refused := b.Count(&statepb.CountUsage{
		Runs:    []*statepb.UsageRun{{Run: "r/1", Sequence: b.sequence}},
		Minutes: []*statepb.CountedMinute{{MinuteUnixS: start.Unix(), Lines: lines}},
	}, now.UnixMilli(), b.index)
	if refused != nil {
		b.t.Fatal(refused)
	}
	b.Account = next
}

// bill of a cluster in a region of the same name that costs so much and could have done so much work.
func bill(cluster string, cost, capacity int64) *statepb.ClusterBill {
	return &statepb.ClusterBill{Cluster: cluster, Region: cluster, CostMicros: cost, Capacity: capacity}
}

// used is a line of a tenant with one answer of so much work.
func used(tenant, cluster string, work int64) *statepb.CountedLine {
	return &statepb.CountedLine{Tenant: tenant, Model: "m", Class: "chat", Cluster: cluster, Region: cluster, Source: cluster, Input: work / 1000, Work: work, Succeeded: 1}
}

// ask fails the test if there is no answer.
func (b *books) ask(q Query) Report {
	b.t.Helper()
	r, err := b.Ask(q)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// total of all rows.
func (r Report) total() (s costmodel.Sum) {
	for _, row := range r.Rows {
		s = s.Plus(row.Sum)
	}
	return s
}
