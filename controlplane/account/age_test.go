package account

import (
	"fmt"
	"testing"
	"time"

	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// skip closes one minute of each hour, which is as old as a whole one soon enough.
func (b *books) skip(until time.Time, bills ...*statepb.ClusterBill) {
	b.t.Helper()
	for b.Closed().Before(until) {
		if refused := b.shut(b.Closed().Truncate(time.Hour).Add(time.Hour), bills...); refused != nil {
			b.t.Fatal(refused)
		}
	}
}

func TestMinutesPassIntoHoursAndTheseIntoDays(t *testing.T) {
	b := newBooks(t)
	b.shut(at(-time.Minute), bill("us", 1, 0)) // of the day before
	b.closeUntil(at(3*time.Hour), bill("us", 1, 0))
	if len(b.minutes) != MinutesKept || len(b.hours) != 2 || len(b.days) != 0 {
		t.Fatalf("%d minutes, %d hours, %d days", len(b.minutes), len(b.hours), len(b.days))
	}
	if first := moment(b.hours[0].GetStartUnixS()); !first.Equal(at(-time.Hour)) {
		t.Errorf("the first hour begins at %s", first)
	}
	b.skip(at((HoursKept+30)*time.Hour), bill("us", 1, 0))
	if got := moment(b.hours[0].GetStartUnixS()); got.Before(at(27*time.Hour)) || got.After(at(29*time.Hour)) {
		t.Errorf("the first hour is that at %s", got)
	}
	if len(b.days) != 3 || !moment(b.days[0].GetStartUnixS()).Equal(at(-24*time.Hour)) || !moment(b.days[2].GetStartUnixS()).Equal(at(24*time.Hour)) {
		t.Errorf("days %v", b.days)
	}
	r := b.ask(Query{From: at(-time.Hour), Until: b.Closed(), Step: ByDay})
	if len(r.Rows) != 11 || r.Rows[0].Idle != 1 || r.Rows[1].Idle != 180+20 || r.Rows[2].Idle != 24 {
		t.Errorf("%d days, %s, %s and %s", len(r.Rows), r.Rows[0].Idle, r.Rows[1].Idle, r.Rows[2].Idle)
	}
}

func TestTheOldestDaysGo(t *testing.T) {
	b := newBooks(t)
	b.shut(at(0), bill("us", 1, 0))
	for d := range HoursKept/24 + DaysKept + 5 {
		b.shut(at(time.Duration(d+1)*24*time.Hour), bill("us", 1, 0))
	}
	if len(b.days) != DaysKept+1 { // the last is still being filled
		t.Errorf("%d days are kept", len(b.days))
	}
	r := b.ask(Query{From: at(0), Until: b.Closed()})
	if r.Complete || r.From.Before(at(4*24*time.Hour)) || len(r.Rows) != 1 || r.Rows[0].Idle != DaysKept+HoursKept/24+2 {
		t.Errorf("from %s, %+v", r.From, r.Rows)
	}
	for _, tt := range []struct {
		start time.Time
		lost  int64
		late  int64
	}{{r.From.Add(-time.Minute), 1, 0}, {r.From, 1, 1}, {b.Closed().Add(-7 * 24 * time.Hour), 1, 2}, {b.Closed().Add(-time.Hour), 1, 2}} {
		b.tell(b.Closed(), tt.start, used("a", "us", 1000))
		if late := b.ask(Query{From: at(0), Until: b.Closed()}).Late; b.Lost() != tt.lost || late != tt.late {
			t.Errorf("told of %s: %d lost, %d late", tt.start, b.Lost(), late)
		}
	}
	if gaps := b.Gaps(); len(gaps) != MaxGaps {
		t.Errorf("%d gaps are remembered", len(gaps))
	}
	b.shut(b.Closed().Add(500 * 24 * time.Hour))
	if r := b.ask(Query{From: b.Begun(), Until: b.Closed()}); r.total() != (costmodel.Sum{}) || len(b.days)+len(b.hours) != 0 || len(b.gaps) != 1 {
		t.Errorf("after a long time there are %+v", r)
	}
}

// The largest account that there can be takes what DESIGN.md says.
func TestTheLargestAccountIsBounded(t *testing.T) {
	const limit = 25 << 20
	runs := MaxRuns * (MaxRunName + 24)
	spans := (MinutesKept+MaxOpen)*(MaxMinute+24) + (HoursKept+1)*(MaxHour+24) + (DaysKept+1)*(MaxDay+24)
	if runs+spans > limit {
		t.Errorf("%d bytes of runs and %d of intervals", runs, spans)
	}
	// What is kept of a fleet that uses all the room there is, in a day: beyond, it only repeats itself.
	b := newBooks(t)
	b.shut(at(0))
	var bills []*statepb.ClusterBill
	for i := range 50 {
		bills = append(bills, bill(fmt.Sprintf("cluster-%d", i), 1e6, 1e9))
	}
	for i := range 3 * 60 {
		start := at(time.Duration(i+1) * time.Minute)
		if i%20 == 0 { // the rest is like it
			var lines []*statepb.CountedLine
			for j := range 1500 {
				lines = append(lines, used(fmt.Sprintf("tenant-%d-%d", i, j), fmt.Sprintf("cluster-%d", j%50), int64(1e6+1000*j)))
			}
			b.tell(start, start, lines...)
		}
		b.shut(start, bills...)
	}
	if len(b.minutes) > MinutesKept || len(b.hours) > 3 {
		t.Errorf("%d minutes, %d hours", len(b.minutes), len(b.hours))
	}
	for _, s := range b.minutes {
		if len(s.GetBody()) > MaxMinute {
			t.Errorf("a minute of %d bytes", len(s.GetBody()))
		}
	}
	for _, s := range b.hours {
		if len(s.GetBody()) > MaxHour {
			t.Errorf("an hour of %d bytes", len(s.GetBody()))
		}
	}
	if s := b.ask(Query{From: at(0), Until: b.Closed()}).total(); s.Paid() != 3*60*50*1e6 || s.Succeeded != 9*1500 {
		t.Errorf("%+v", s)
	}
}
