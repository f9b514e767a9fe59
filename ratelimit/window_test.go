package ratelimit

import (
	"testing"
	"time"
	_ "time/tzdata" // places must be known wherever the test runs
)

func TestWindowsFollowTheClocksOnTheWall(t *testing.T) {
	for name, c := range map[string]struct {
		calendar   Calendar
		place      string
		now        string
		from, next string
	}{
		"a plain day":                        {Daily, "UTC", "2026-11-30T09:26:00Z", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"},
		"the first instant of a day":         {Daily, "Asia/Tokyo", "2026-11-29T15:00:00Z", "2026-11-29T15:00:00Z", "2026-11-30T15:00:00Z"},
		"the last instant of a day":          {Daily, "Asia/Tokyo", "2026-11-29T14:59:59.999999Z", "2026-11-28T15:00:00Z", "2026-11-29T15:00:00Z"},
		"a day of 23 hours":                  {Daily, "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		"a day of 25 hours":                  {Daily, "America/New_York", "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		"a day that starts at one":           {Daily, "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		"clocks set back over midnight":      {Daily, "America/Sao_Paulo", "2018-02-18T01:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"},
		"an offset of three quarters":        {Daily, "Asia/Kathmandu", "2026-05-05T18:14:59Z", "2026-05-04T18:15:00Z", "2026-05-05T18:15:00Z"},
		"a date that was left out":           {Daily, "Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		"a leap day":                         {Daily, "UTC", "2028-02-29T23:00:00Z", "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"},
		"a February of 29":                   {Monthly, "UTC", "2028-02-10T00:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		"a February of 28 at a century":      {Monthly, "UTC", "2100-02-28T23:59:59Z", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z"},
		"the last day of a long month":       {Monthly, "UTC", "2026-01-31T23:59:59Z", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"},
		"a month across the turn of a year":  {Monthly, "Asia/Tokyo", "2026-12-31T16:00:00Z", "2026-12-31T15:00:00Z", "2027-01-31T15:00:00Z"},
		"a month with one change of clocks":  {Monthly, "Europe/Berlin", "2026-10-20T00:00:00Z", "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z"},
		"a month of the southern hemisphere": {Monthly, "Australia/Lord_Howe", "2026-04-10T00:00:00Z", "2026-03-31T13:00:00Z", "2026-04-30T13:30:00Z"},
	} {
		place, err := time.LoadLocation(c.place)
		if err != nil {
			t.Fatal(err)
		}
		now := instant(t, c.now)
		w, err := c.calendar.Window(now, place)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if w.FromUs != instant(t, c.from).UnixMicro() || w.NextUs != instant(t, c.next).UnixMicro() || w.Spent != -1 {
			t.Errorf("%s: %v to %v (spent %d), want %s to %s", name,
				time.UnixMicro(w.FromUs).UTC(), time.UnixMicro(w.NextUs).UTC(), w.Spent, c.from, c.next)
		}
	}
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestNoPlaceIsUTCAndNoCalendarIsAnError(t *testing.T) {
	now := instant(t, "2026-11-30T09:26:00Z")
	w, err := Daily.Window(now, nil)
	if err != nil || w.FromUs != instant(t, "2026-11-30T00:00:00Z").UnixMicro() {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := Calendar("week").Window(now, nil); err == nil {
		t.Error("a calendar that is not known gave a window")
	}
}

// places are where clocks are changed in all sorts of ways.
var places = []string{
	"UTC", "America/New_York", "Europe/London", "America/Sao_Paulo", "Asia/Kathmandu", "Australia/Lord_Howe",
	"Pacific/Apia", "Africa/Casablanca", "America/Havana", "Asia/Beirut", "Antarctica/Troll", "Pacific/Kiritimati",
}

// sound holds a window to what makes budgets right: now is in it, the next one starts where it
// ends, its length is that of a day or a month, and it starts with a date's first instant.
func sound(t *testing.T, c Calendar, now time.Time, where *time.Location) {
	t.Helper()
	least, most := 27*24*time.Hour, 32*24*time.Hour
	if c == Daily {
		least, most = 22*time.Hour, 50*time.Hour
	}
	w, err := c.Window(now, where)
	if err != nil {
		t.Fatal(err)
	}
	from, next := time.UnixMicro(w.FromUs), time.UnixMicro(w.NextUs)
	if now.Before(from) || !now.Before(next) {
		t.Fatalf("%v is not from %v to %v", now.In(where), from.In(where), next.In(where))
	}
	if long := next.Sub(from); long < least || long > most {
		t.Fatalf("%v to %v is %v long", from, next, long)
	}
	after, err := c.Window(next, where)
	if err != nil || after.FromUs != w.NextUs {
		t.Fatalf("after %v comes the window from %v (error %v)", next, time.UnixMicro(after.FromUs), err)
	}
	if again, _ := c.Window(from, where); again != w {
		t.Fatalf("at its start the window is %+v, at %v %+v", again, now, w)
	}
	before := next.Add(-time.Microsecond).In(where)
	if next.In(where).Format(time.DateOnly) == before.Format(time.DateOnly) {
		t.Fatalf("%v starts no date", next)
	}
	if c == Monthly && next.In(where).Day() != 1 {
		t.Fatalf("%v is not the first of a month", next.In(where))
	}
}

// TestWindowsAreSoundWhereClocksAndDatesChange looks around every change of clocks since 2010, the ends of
// months and leap days, to the microsecond.
func TestWindowsAreSoundWhereClocksAndDatesChange(t *testing.T) {
	for _, name := range places {
		where, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		var edges []time.Time
		for at := time.Date(2010, 1, 1, 0, 0, 0, 0, where); at.Year() < 2027; {
			_, next := at.ZoneBounds()
			if next.IsZero() {
				break
			}
			at = next.In(where)
			edges = append(edges, at)
		}
		for y := 2026; y < 2029; y++ {
			for m := range time.Month(12) {
				edges = append(edges, time.Date(y, m+1, 1, 0, 0, 0, 0, where))
			}
			edges = append(edges, time.Date(y, 2, 29, 0, 0, 0, 0, where))
		}
		edges = append(edges, time.Date(2000, 2, 29, 0, 0, 0, 0, where), time.Date(2100, 3, 1, 0, 0, 0, 0, where))
		for _, edge := range edges {
			for _, off := range []time.Duration{-24 * time.Hour, -time.Microsecond, 0} {
				sound(t, Daily, edge.Add(off), where)
				sound(t, Monthly, edge.Add(off), where)
			}
		}
	}
}

// FuzzWindow holds windows at any time to that.
func FuzzWindow(f *testing.F) {
	for i, at := range []string{
		"2026-03-29T00:30:00Z", "2026-11-01T05:30:00Z", "2028-02-29T12:00:00Z", "2018-02-18T02:30:00Z",
		"2026-12-31T18:15:00Z", "2026-04-04T15:00:00Z", "2011-12-30T10:00:00Z", "2026-02-15T02:00:00Z",
	} {
		f.Add(must(time.Parse(time.RFC3339, at)).Unix(), uint8(i), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seconds int64, place uint8, daily bool) {
		if seconds < 0 || seconds > 7_000_000_000 { // 1970 to 2191
			return
		}
		where, err := time.LoadLocation(places[int(place)%len(places)])
		if err != nil {
			t.Fatal(err)
		}
		c := Monthly
		if daily {
			c = Daily
		}
		sound(t, c, time.Unix(seconds, 0), where)
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
