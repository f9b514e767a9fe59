package drill

import (
	"fmt"
	"testing"
	"time"
	_ "time/tzdata" // places must be known wherever the test runs

	"pgregory.net/rapid"
)

func place(t interface{ Fatal(...any) }, name string) *time.Location {
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const layout = "2006-01-02T15:04"

func TestSchedulesKeepToTheClocksOfTheirPlace(t *testing.T) {
	tests := []struct {
		cron, zone, after string
		want              []string // as clocks there show them, with the offset
	}{
		{"30 2 * * *", "Europe/Berlin", "2027-03-27T12:00", []string{"2027-03-28T03:00+02:00", "2027-03-29T02:30+02:00"}},                             // skipped
		{"30 2 * * *", "Europe/Berlin", "2027-10-30T12:00", []string{"2027-10-31T02:30+02:00", "2027-11-01T02:30+01:00"}},                             // shown twice, begins once
		{"*/30 2 * * *", "Europe/Berlin", "2027-03-27T12:00", []string{"2027-03-28T03:00+02:00", "2027-03-29T02:00+02:00", "2027-03-29T02:30+02:00"}}, // both at once
		{"0 * * * *", "America/New_York", "2027-11-07T00:30", []string{"2027-11-07T01:00-04:00", "2027-11-07T02:00-05:00"}},                           // not again
		{"0 0 * * *", "America/Havana", "2027-03-13T12:00", []string{"2027-03-14T01:00-04:00", "2027-03-15T00:00-04:00"}},                             // midnight is skipped
		{"15 2 * * *", "Australia/Lord_Howe", "2027-10-02T12:00", []string{"2027-10-03T02:30+11:00", "2027-10-04T02:15+11:00"}},                       // by half an hour
		{"45 1 * * *", "Australia/Lord_Howe", "2027-04-03T12:00", []string{"2027-04-04T01:45+11:00", "2027-04-05T01:45+10:30"}},                       // back by half an hour
		{"0 4 * * Tue", "UTC", "2026-11-30T00:00", []string{"2026-12-01T04:00+00:00", "2026-12-08T04:00+00:00"}},
		{"0 4 1 * Mon", "UTC", "2027-01-01T12:00", []string{"2027-01-04T04:00+00:00", "2027-01-11T04:00+00:00", "2027-01-18T04:00+00:00", "2027-01-25T04:00+00:00", "2027-02-01T04:00+00:00"}}, // one of both is enough
		{"0 0 29 2 *", "UTC", "2026-11-30T00:00", []string{"2028-02-29T00:00+00:00", "2032-02-29T00:00+00:00"}},
		{"5 4 * dec sun-tue", "Asia/Kolkata", "2026-11-30T00:00", []string{"2026-12-01T04:05+05:30", "2026-12-06T04:05+05:30"}},
	}
	for _, tt := range tests {
		l := place(t, tt.zone)
		s, err := NewSchedule(tt.cron, l, nil)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.ParseInLocation(layout, tt.after, l)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			next, ok := s.Next(at)
			if got := next.In(l).Format("2006-01-02T15:04-07:00"); !ok || got != want {
				t.Errorf("%s in %s after %s: %s, want %s", tt.cron, tt.zone, at, got, want)
			}
			at = next
		}
	}
}

func TestBlackoutsAreLeftOut(t *testing.T) {
	day := func(text string) time.Time {
		at, err := time.Parse("2006-01-02", text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	s, err := NewSchedule("0 4 * * *", nil, []Blackout{{day("2026-12-20"), day("2027-01-03"), "holidays"}, {day("2027-01-03"), day("2027-01-04"), ""}})
	if err != nil {
		t.Fatal(err)
	}
	if next, ok := s.Next(day("2026-12-19").Add(5 * time.Hour)); !ok || !next.Equal(day("2027-01-04").Add(4*time.Hour)) {
		t.Error(next)
	}
	s, err = NewSchedule("0 4 25 12 *", nil, []Blackout{{day("2020-01-01"), day("2099-01-01"), ""}})
	if err != nil {
		t.Fatal(err)
	}
	if next, ok := s.Next(day("2026-12-19")); ok {
		t.Errorf("within a blackout of all time: %s", next)
	}
	if _, ok := (Schedule{}).Next(day("2026-12-19")); ok {
		t.Error("of no schedule")
	}
}

func TestBadExpressionsAreRefused(t *testing.T) {
	for _, cron := range []string{"", "* * * *", "* * * * * *", "@daily", "61 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 31 2 *", "0 0 L * *", "0 0 15W * *", "0 0 * * 1#2", "0 0 ? * 1", "x * * * *", "0 0 * foo *", "0 0 Mon * *"} {
		if _, err := NewSchedule(cron, nil, nil); err == nil {
			t.Errorf("%q is taken", cron)
		}
	}
}

// TestNextIsTheFirstMinuteThatFits compares with looking at every minute.
func TestNextIsTheFirstMinuteThatFits(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo"}
	rapid.Check(t, func(rt *rapid.T) {
		l := place(rt, rapid.SampledFrom(zones).Draw(rt, "zone"))
		minute, hour := rapid.IntRange(0, 59).Draw(rt, "minute"), rapid.IntRange(0, 5).Draw(rt, "hour")
		dom, dow := rapid.IntRange(0, 28).Draw(rt, "day"), rapid.IntRange(-1, 6).Draw(rt, "weekday")
		text := func(n, none int) string {
			if n == none {
				return "*"
			}
			return fmt.Sprint(n)
		}
		s, err := NewSchedule(fmt.Sprintf("%d %d %s * %s", minute, hour, text(dom, 0), text(dow, -1)), l, nil)
		if err != nil {
			rt.Fatal(err)
		}
		start := time.Date(2027, rapid.SampledFrom([]time.Month{3, 4, 10, 11}).Draw(rt, "month"), rapid.IntRange(1, 31).Draw(rt, "from"), rapid.IntRange(0, 23).Draw(rt, "at"), rapid.IntRange(0, 59).Draw(rt, "past"), 0, 0, time.UTC)
		got, ok := s.Next(start)
		fits := func(wall time.Time) bool {
			day, week := wall.Day() == dom, int(wall.Weekday()) == dow
			ok := dom == 0 && dow < 0 || dom == 0 && week || dow < 0 && day || dom > 0 && dow >= 0 && (day || week)
			return ok && wall.Hour() == hour && wall.Minute() == minute
		}
		want := time.Time{}
		for at := start.Add(time.Minute); want.IsZero() && at.Before(start.AddDate(0, 3, 0)); at = at.Add(time.Minute) {
			shown, before := wallOf(at.In(l)), wallOf(at.Add(-time.Minute).In(l))
			for w := before.Add(time.Minute); !w.After(shown); w = w.Add(time.Minute) { // what was skipped begins now
				// what is shown a second time has begun before
				if fits(w) && (!w.Equal(shown) || !Moment(shown, l).Before(at)) {
					want = at
				}
			}
		}
		if !ok || !got.Equal(want) {
			rt.Fatalf("%s after %s in %s: %s, want %s", s.cron, start, l, got, want)
		}
	})
}

func TestMoment(t *testing.T) {
	berlin := place(t, "Europe/Berlin")
	for wall, want := range map[string]string{
		"2027-03-28T01:59": "2027-03-28T00:59Z", "2027-03-28T02:00": "2027-03-28T01:00Z", "2027-03-28T02:59": "2027-03-28T01:00Z", "2027-03-28T03:00": "2027-03-28T01:00Z",
		"2027-10-31T02:30": "2027-10-31T00:30Z", "2027-10-31T03:00": "2027-10-31T02:00Z", "2027-07-01T00:00": "2027-06-30T22:00Z",
	} {
		at, err := time.Parse(layout, wall)
		if err != nil {
			t.Fatal(err)
		}
		if got := Moment(at, berlin).UTC().Format("2006-01-02T15:04Z"); got != want {
			t.Errorf("%s is %s, want %s", wall, got, want)
		}
	}
	if at := time.Date(2027, 1, 1, 5, 0, 0, 0, berlin); !Moment(at, nil).Equal(time.Date(2027, 1, 1, 5, 0, 0, 0, time.UTC)) {
		t.Error("without a place it is UTC")
	}
}

func TestWindows(t *testing.T) {
	berlin := place(t, "Europe/Berlin")
	night := Window{Days: 1 << time.Saturday, From: 22 * 60, Until: 4 * 60, Zone: berlin}
	early := Window{From: 2 * 60, Until: 3 * 60, Zone: berlin}
	whole := Window{Days: 1 << time.Monday}
	tests := []struct {
		w    Window
		at   string // UTC
		open bool
	}{
		{night, "2026-12-05T20:59", false},
		{night, "2026-12-05T21:00", true},
		{night, "2026-12-06T02:59", true},
		{night, "2026-12-06T03:00", false},
		{night, "2026-12-06T22:00", false}, // Sunday's night is another
		{early, "2027-03-28T00:59", false},
		{early, "2027-03-28T01:00", false}, // 02:00 to 03:00 is skipped
		{early, "2027-10-31T00:30", true},
		{early, "2027-10-31T01:30", true},
		{early, "2027-10-31T02:00", false}, // shown twice
		{whole, "2026-11-30T00:00", true},
		{whole, "2026-11-30T23:59", true},
		{whole, "2026-12-01T00:00", false},
		{whole, "2026-11-29T23:59", false},
	}
	for _, tt := range tests {
		at, err := time.Parse(layout, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		if tt.w.Open(at) != tt.open {
			t.Errorf("%s at %s", tt.w, tt.at)
		}
	}
	noon := time.Date(2026, 11, 30, 12, 0, 30, 0, time.UTC)
	list := []Window{{From: 12 * 60, Until: 13 * 60}, {From: 13 * 60, Until: 14 * 60}}
	if !open(list, noon, noon.Add(119*time.Minute)) || open(list, noon, noon.Add(121*time.Minute)) || open(list[:1], noon, noon.Add(time.Hour)) || !open(list, noon, noon) {
		t.Error("windows that follow each other hold for what is in them together")
	}
	if got := night.String() + "; " + whole.String() + "; " + early.String(); got != "Sat 22:00-04:00 Europe/Berlin; Mon 00:00-00:00 UTC; 02:00-03:00 Europe/Berlin" {
		t.Error(got)
	}
	b := Blackout{From: noon, Until: noon.Add(time.Hour)}
	if !b.Touches(noon.Add(-time.Hour), noon.Add(time.Second)) || b.Touches(noon.Add(-time.Hour), noon) || b.Touches(noon.Add(time.Hour), noon.Add(2*time.Hour)) || !b.Touches(noon, noon) {
		t.Error("a blackout is touched from its first moment to before its end")
	}
}
