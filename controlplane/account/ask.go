package account

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

// Step is the time that one row of a report is for.
type Step int

// The steps. Hours and days are those of UTC.
const (
	Whole Step = iota // all that is asked for
	ByMinute
	ByHour
	ByDay
)

// seconds of a step; 0: the whole.
func (s Step) seconds() int64 { return map[Step]int64{ByMinute: minute, ByHour: hour, ByDay: day}[s] }

// String is "minute", "hour", "day" or "none".
func (s Step) String() string {
	switch s {
	case ByMinute:
		return "minute"
	case ByHour:
		return "hour"
	case ByDay:
		return "day"
	}
	return "none"
}

// MaxRows is how many rows a report may have.
const MaxRows = 100_000

// Errors of questions that have no answer.
var (
	// ErrTime: From is not before Until.
	ErrTime = errors.New("the time asked for ends before it begins")
	// ErrStep: what is asked for is kept, but not so finely any more.
	ErrStep = errors.New("the account is not kept in such small steps for so long")
	// ErrRows: the report would have more than [MaxRows].
	ErrRows = errors.New("the report has too many rows")
)

// Query is a question to the account. The zero value of everything but the times asks for one sum of all.
type Query struct {
	// From and Until bound the time, Until not included. Where only whole hours or days are kept any more, or
	// Step asks for them, the time is extended to whole ones; [Report] says what it covers.
	From, Until time.Time
	Step        Step
	// By names what rows tell apart. All else is summed up, and empty in their keys.
	By costmodel.Dimensions
	// These choose, by any of the values given; empty: all. Idle time has no tenant, model, class and source.
	Tenants []fleet.TenantID
	Models  []fleet.ModelID
	Classes []fleet.ClassID
	Regions []fleet.RegionID
	// Clusters that served, and Sources, regions in which requests came in.
	Clusters []fleet.ClusterID
	Sources  []fleet.RegionID
	// SpreadIdle makes those who used a cluster pay for its idle time too, by what they used within a step.
	SpreadIdle bool
}

// Row is what was used and what it cost in one step.
type Row struct {
	// Start of the step, and its end, both within what the report covers.
	Start, Until time.Time
	Key          costmodel.Key
	costmodel.Sum
}

// Report answers a Query.
type Report struct {
	// From and Until are what it covers of the account, Until not included. They are equal if that is nothing.
	From, Until time.Time
	// Closed is the end of the last minute of the account that is closed.
	Closed time.Time
	// Complete: all that was asked for is in it. Not so are a time that is not over, before the account began or
	// not kept any more, and gaps.
	Complete bool
	// Gaps are the times in it for which nothing was billed.
	Gaps []Gap
	// Late is how many of the answers in it came too late to pay for what clusters cost.
	Late int64
	// Rows by time, then in the order of their keys.
	Rows []Row
}

// Ask answers a question.
func (a Account) Ask(q Query) (Report, error) {
	if !q.From.Before(q.Until) {
		return Report{}, ErrTime
	}
	from, until, err := a.cover(q)
	if err != nil {
		return Report{}, err
	}
	begin := min(max(from, a.begun), until)
	out := Report{From: moment(begin), Until: moment(until), Closed: a.Closed()}
	out.Complete = a.begun > 0 && max(from, a.begun) <= q.From.Unix() && !out.Until.Before(q.Until)
	for _, g := range a.Gaps() {
		if g.From.Before(out.Until) && out.From.Before(g.Until) {
			out.Gaps, out.Complete = append(out.Gaps, g), false
		}
	}
	var one step
	for _, p := range a.parts(q.Step.seconds(), begin, from, until) {
		if one.sums != nil && p.at != one.at {
			if err := out.add(q, one, until); err != nil {
				return Report{}, err
			}
			one = step{}
		}
		b := bodyOf(p.span)
		one.take(q, p.at, b.attributed())
		out.Late = sum(out.Late, b.late)
	}
	if err := out.add(q, one, until); err != nil {
		return Report{}, err
	}
	return out, nil
}

// part is an interval, and the step that it is of.
type part struct {
	at   int64
	span *statepb.AccountSpan
}

// parts are the intervals of a time, by step.
func (a Account) parts(length, begin, from, until int64) (all []part) {
	for _, list := range [][]*statepb.AccountSpan{a.days, a.hours, a.minutes} {
		for _, s := range list {
			if s.GetStartUnixS() < from || s.GetStartUnixS() >= until {
				continue
			}
			at := begin
			if length > 0 {
				at = max(floor(s.GetStartUnixS(), length), begin)
			}
			all = append(all, part{at, s})
		}
	}
	slices.SortStableFunc(all, func(x, y part) int { return cmp.Compare(x.at, y.at) })
	return all
}

// step is what is known of one step while intervals are added: its rows, or, where idle time is to be spread over
// the whole step before they are gathered, everything. So no more is held at a time than a step needs.
type step struct {
	at   int64
	sums costmodel.Rollup // nil: of none
}

func (s *step) take(q Query, at int64, r costmodel.Rollup) {
	if s.sums == nil {
		s.at, s.sums = at, costmodel.Rollup{}
	}
	if !q.SpreadIdle {
		r = q.gather(r)
	}
	s.sums.Merge(r)
}

// add makes rows of a step.
func (r *Report) add(q Query, s step, until int64) error {
	if s.sums == nil {
		return nil
	}
	sums, end := s.sums, until
	if q.SpreadIdle {
		sums = q.gather(sums.SpreadIdle())
	}
	if length := q.Step.seconds(); length > 0 {
		end = min(floor(s.at, length)+length, until)
	}
	if len(r.Rows)+len(sums) > MaxRows {
		return fmt.Errorf("%w: more than %d", ErrRows, MaxRows)
	}
	for _, k := range sums.Keys() {
		r.Rows = append(r.Rows, Row{Start: moment(s.at), Until: moment(end), Key: k, Sum: sums[k]})
	}
	return nil
}

// cover is the time of the account that answers a question.
func (a Account) cover(q Query) (from, until int64, err error) {
	from, until = floor(max(min(q.From.Unix(), maxTime), 0), minute), min(q.Until.Unix(), maxTime)
	if last := floor(until, minute); last < until || q.Until.Nanosecond() > 0 {
		until = last + minute
	}
	oldestMinute, oldestHour, oldestDay := a.floors()
	// The finest intervals of which the account is made up around a moment.
	fine := func(at int64) int64 {
		switch {
		case floor(at, hour) < oldestHour:
			return day
		case at < oldestMinute:
			return hour
		}
		return minute
	}
	if a.begun > 0 {
		from = max(from, a.begun, oldestDay)
	}
	if length := q.Step.seconds(); length > 0 {
		if a.begun > 0 && length < fine(from) {
			return 0, 0, fmt.Errorf("%w: minutes for %d minutes, hours for %d days", ErrStep, MinutesKept, HoursKept/24)
		}
		from, until = floor(from, length), ceil(until, length)
	}
	from, until = floor(from, fine(from)), ceil(until, fine(until-1))
	until = min(until, a.closed)
	return min(from, until), until, nil
}

func ceil(at, multiple int64) int64 { return floor(at+multiple-1, multiple) }

// gather is what rows tell.
func (q Query) gather(r costmodel.Rollup) costmodel.Rollup {
	if len(q.Tenants)+len(q.Models)+len(q.Classes)+len(q.Regions)+len(q.Clusters)+len(q.Sources) == 0 {
		return r.By(q.By)
	}
	chosen := costmodel.Rollup{}
	for _, k := range r.Keys() {
		if among(q.Tenants, k.Tenant) && among(q.Models, k.Model) && among(q.Classes, k.Class) &&
			among(q.Regions, k.Region) && among(q.Clusters, k.Cluster) && among(q.Sources, k.Source) {
			chosen[k] = r[k]
		}
	}
	return chosen.By(q.By)
}

func among[T comparable](list []T, one T) bool { return len(list) == 0 || slices.Contains(list, one) }
