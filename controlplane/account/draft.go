package account

import (
	"maps"
	"slices"

	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// size is one of the three sizes of intervals.
type size int

const (
	minutes size = iota
	hours
	days
)

// most bytes that an interval of a size may take.
func (s size) most() int { return [...]int{MaxMinute, MaxHour, MaxDay}[s] }

// draft is an account that is being changed.
type draft struct {
	Account
	index   uint64
	touched [3]map[int64]*body // by start
}

// draft begins a change by the command at an index.
func (a Account) draft(index uint64) *draft {
	return &draft{a, index, [3]map[int64]*body{{}, {}, {}}}
}

func (d *draft) list(of size) *[]*statepb.AccountSpan {
	return [...]*[]*statepb.AccountSpan{&d.minutes, &d.hours, &d.days}[of]
}

// open gives an interval to change, a new one if there is none.
func (d *draft) open(of size, start int64) *body {
	if b := d.touched[of][start]; b != nil {
		return b
	}
	b := &body{sums: costmodel.Rollup{}}
	if at, found := find(*d.list(of), start); found {
		kept := bodyOf((*d.list(of))[at])
		b = &kept
	}
	d.touched[of][start] = b
	return b
}

// bodyOf reads an interval. What is kept was written here, or checked when it was restored.
func bodyOf(s *statepb.AccountSpan) body {
	b, err := decode(s.GetBody())
	if err != nil {
		return body{sums: costmodel.Rollup{}}
	}
	return b
}

// there says whether an interval is kept, or will be.
func (d *draft) there(of size, start int64) bool {
	_, found := find(*d.list(of), start)
	return found || d.touched[of][start] != nil
}

// count adds a line that was told as of a time.
func (d *draft) count(start, now int64, l *statepb.CountedLine) {
	at := floor(min(max(start, 0), max(now, d.begun), maxTime), minute)
	k := keyOf([6]string{named(l.GetRegion()), named(l.GetCluster()), named(l.GetTenant()), named(l.GetModel()), named(l.GetClass()), named(l.GetSource())})
	s := costmodel.Sum{
		Usage: costmodel.Usage{
			Input: l.GetInput(), Cached: l.GetCached(), Output: l.GetOutput(),
			Succeeded: l.GetSucceeded(), Failed: l.GetFailed(), Bytes: l.GetBytes(),
		},
		Work: costmodel.Work(l.GetWork()), Cost: costmodel.Micros(l.GetCostMicros()), Egress: costmodel.Micros(l.GetEgressMicros()),
		Estimate: l.GetEstimate(), Unpriced: l.GetUnpriced(),
	}.Sane()
	answers := costmodel.Sum{Usage: costmodel.Usage{Succeeded: s.Succeeded}}.Plus(costmodel.Sum{Usage: costmodel.Usage{Succeeded: s.Failed}}).Succeeded
	oldestMinute, oldestHour, oldestDay := d.floors()
	of, interval := minutes, at
	switch {
	case at < d.begun || floor(at, day) < oldestDay:
		d.lost = sum(d.lost, answers)
		return
	case floor(at, hour) < oldestHour:
		of, interval = days, floor(at, day)
	case at < oldestMinute:
		of, interval = hours, floor(at, hour)
	case at >= d.closed && !d.there(minutes, at):
		interval = d.room(at)
	}
	b := d.open(of, interval)
	b.sums.Add(k, s)
	if of != minutes {
		b.late = sum(b.late, answers)
	}
}

func sum(a, b int64) int64 {
	return costmodel.Usage{Input: a}.Plus(costmodel.Usage{Input: b}).Input
}

// room is an open minute in which usage of one that is not there yet can be counted: that, unless there are
// too many, else the one before it that is there, or the first.
func (d *draft) room(at int64) int64 {
	var open []int64
	for _, s := range d.minutes {
		if s.GetStartUnixS() >= d.closed {
			open = append(open, s.GetStartUnixS())
		}
	}
	for _, start := range sorted(d.touched[minutes]) {
		if start >= d.closed && !slices.Contains(open, start) {
			open = append(open, start)
		}
	}
	if len(open) < MaxOpen {
		return at
	}
	slices.Sort(open)
	place, _ := slices.BinarySearch(open, at)
	return open[max(place-1, 0)]
}

func sorted(m map[int64]*body) []int64 { return slices.Sorted(maps.Keys(m)) }

// age moves what is too old for minutes into hours, for hours into days, and lets the oldest go.
func (d *draft) age() {
	oldestMinute, oldestHour, oldestDay := d.floors()
	d.pass(minutes, oldestMinute, hours, hour)
	d.pass(hours, oldestHour, days, day)
	for _, start := range d.starts(days) {
		if start < oldestDay {
			d.drop(days, start)
		}
	}
	d.gaps = slices.DeleteFunc(d.gaps, func(g *statepb.AccountGap) bool { return g.GetUntilUnixS() <= oldestDay })
}

// pass moves intervals from before a time into those of the next size.
func (d *draft) pass(from size, before int64, to size, length int64) {
	for _, start := range d.starts(from) {
		if start >= before {
			return
		}
		b := d.open(from, start)
		into := d.open(to, floor(start, length))
		into.sums.Merge(b.attributed())
		into.late = sum(into.late, b.late)
		d.drop(from, start)
	}
}

// starts are those of all intervals of a size, the oldest first.
func (d *draft) starts(of size) []int64 {
	all := sorted(d.touched[of])
	for _, s := range *d.list(of) {
		if d.touched[of][s.GetStartUnixS()] == nil {
			all = append(all, s.GetStartUnixS())
		}
	}
	slices.Sort(all)
	return all
}

func (d *draft) drop(of size, start int64) {
	delete(d.touched[of], start)
	list := d.list(of)
	if at, found := find(*list, start); found {
		*list = slices.Delete(slices.Clone(*list), at, at+1)
	}
}

// done is the changed account.
func (d *draft) done() Account {
	for _, of := range []size{minutes, hours, days} {
		list := d.list(of)
		*list = slices.Clone(*list)
		for _, start := range sorted(d.touched[of]) {
			s := &statepb.AccountSpan{StartUnixS: start, Revision: d.index, Body: d.touched[of][start].within(of.most())}
			at, found := find(*list, start)
			if !found {
				*list = slices.Insert(*list, at, s)
				continue
			}
			(*list)[at] = s
		}
	}
	return d.Account
}
