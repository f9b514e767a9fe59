package drill

import (
	"fmt"
	"strings"
	"time"
)

// Window is a time of the week. It is compared with what clocks in its place show: where they are put forward the hour
// that they skip is in no window, and where they are put back the hour that they show twice is in it twice.
type Window struct {
	// Days on which it begins; bit 0 is Sunday. 0: every day.
	Days uint8
	// From and Until are minutes since midnight, 0..1440. Until is not included; when it is not after From it is on the
	// next day, and when both are equal the window is a day long.
	From, Until int
	// Zone of the clock; nil: UTC.
	Zone *time.Location
}

// Open says whether a moment is within the window.
func (w Window) Open(t time.Time) bool {
	if w.Zone != nil {
		t = t.In(w.Zone)
	} else {
		t = t.UTC()
	}
	minute := t.Hour()*60 + t.Minute()
	begins := func(d time.Weekday) bool { return w.Days == 0 || w.Days&(1<<d) != 0 }
	if w.From < w.Until {
		return begins(t.Weekday()) && w.From <= minute && minute < w.Until
	}
	yesterday := (t.Weekday() + 6) % 7
	return begins(t.Weekday()) && minute >= w.From || begins(yesterday) && minute < w.Until
}

// String tells of it as in "Mon,Tue 22:00-04:00 Europe/Berlin".
func (w Window) String() string {
	var days []string
	for d := time.Sunday; d <= time.Saturday; d++ {
		if w.Days&(1<<d) != 0 {
			days = append(days, d.String()[:3])
		}
	}
	name := "UTC"
	if w.Zone != nil {
		name = w.Zone.String()
	}
	text := fmt.Sprintf("%02d:%02d-%02d:%02d %s", w.From/60, w.From%60, w.Until/60, w.Until%60, name)
	if len(days) == 0 || len(days) == 7 {
		return text
	}
	return strings.Join(days, ",") + " " + text
}

func describe(list []Window) string {
	texts := make([]string, 0, len(list))
	for _, w := range list {
		texts = append(texts, w.String())
	}
	return strings.Join(texts, "; ")
}

// open says whether at each moment from one time to another one of the windows is: they may follow each other.
// Windows begin and end on the minute, so that one look a minute is enough.
func open(list []Window, from, until time.Time) bool {
	for t := from; t.Before(until) || t.Equal(from); t = t.Truncate(time.Minute).Add(time.Minute) {
		fits := false
		for _, w := range list {
			fits = fits || w.Open(t)
		}
		if !fits {
			return false
		}
	}
	return true
}

// Blackout is a stretch of time without drills. Until is not included.
type Blackout struct {
	From, Until time.Time
	Reason      string
}

// Touches says whether any moment from one time to another is within it.
func (b Blackout) Touches(from, until time.Time) bool {
	return from.Before(b.Until) && (until.After(b.From) || from.Equal(b.From))
}

// Moment is when clocks in a place show what a wall clock shows: a time whose year to nanosecond are meant, and whose
// own zone is not. Of a time that they show twice it is the first, and for one that they skip it is the moment at
// which they are put forward.
func Moment(wall time.Time, place *time.Location) time.Time {
	if place == nil {
		place = time.UTC
	}
	naive := wallOf(wall)
	_, before := naive.Add(-24 * time.Hour).In(place).Zone()
	_, after := naive.Add(24 * time.Hour).In(place).Zone()
	for _, offset := range []int{max(before, after), min(before, after)} { // the greater is earlier
		t := naive.Add(-time.Duration(offset) * time.Second).In(place)
		if wallOf(t).Equal(naive) {
			return t
		}
	}
	skipped := naive.Add(-time.Duration(before) * time.Second).In(place)
	start, _ := skipped.ZoneBounds()
	return start
}

// wallOf is what a clock shows, as if it stood in UTC.
func wallOf(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}
