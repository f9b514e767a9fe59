package ratelimit

import (
	"fmt"
	"time"
)

// Calendar is the kind of window that a budget is for.
type Calendar string

// The calendars.
const (
	// Daily: from midnight to midnight.
	Daily Calendar = "day"
	// Monthly: from the first of a month to the first of the next.
	Monthly Calendar = "month"
)

// Window is the one that now is in, as clocks on the wall of the given place show it: a day may
// have 23 or 25 hours, and where there is no midnight a day starts when the clocks first show it.
// What was spent is unknown. A nil place is UTC.
func (c Calendar) Window(now time.Time, place *time.Location) (Window, error) {
	if place == nil {
		place = time.UTC
	}
	y, m, d := now.In(place).Date()
	var start func(n int) time.Time // of the nth window from that of the date
	switch c {
	case Daily:
		start = func(n int) time.Time { return dayStart(y, m, d+n, place) }
	case Monthly:
		start = func(n int) time.Time { return dayStart(y, m+time.Month(n), 1, place) }
	default:
		return Window{}, fmt.Errorf("calendar %q is not known: use %s or %s", c, Daily, Monthly)
	}
	from, next := start(0), start(1)
	// More than once only where a date was left out, as in Samoa at the end of 2011, or where the clocks
	// are set back over midnight and a date is seen again.
	for n := 2; !next.After(now); n++ {
		from, next = next, start(n)
	}
	return Window{FromUs: from.UnixMicro(), NextUs: next.UnixMicro(), Spent: -1}, nil
}

// dayStart is the first instant of a date. [time.Date] answers for a time that does not exist with
// one of the two that are an offset away, and for one that exists twice with either.
func dayStart(y int, m time.Month, d int, place *time.Location) time.Time {
	want := time.Date(y, m, d, 0, 0, 0, 0, time.UTC) // normalises, and compares dates
	t := time.Date(y, m, d, 0, 0, 0, 0, place)
	const near = 26 * time.Hour
	if start, end := t.ZoneBounds(); (start.IsZero() || t.Sub(start) > near) && (end.IsZero() || end.Sub(t) > near) {
		return t // the clocks are not changed anywhere near
	}
	date := func(t time.Time) time.Time {
		y, m, d := t.In(place).Date()
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	}
	// The date grows with time, but for the hour that the clocks are set back by at midnight: the
	// day starts where it is first seen.
	low, high := t.Add(-near), t.Add(near)
	for s := low; s.Before(high); s = s.Add(15 * time.Minute) {
		if !date(s).Before(want) {
			high = s
			break
		}
		low = s
	}
	for high.Sub(low) > time.Microsecond {
		mid := low.Add(high.Sub(low) / 2).Truncate(time.Microsecond)
		if !mid.After(low) {
			break
		}
		if date(mid).Before(want) {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}
