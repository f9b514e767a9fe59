package drill

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// Schedule says when drills of a plan begin by themselves.
type Schedule struct {
	cron      string
	zone      *time.Location
	blackouts []Blackout
}

// NewSchedule reads a cron expression of five fields (minute, hour, day of month, month, day of week), which is for
// clocks in a place; nil: UTC. As everywhere, of day of month and day of week one is enough when both are given.
func NewSchedule(cron string, zone *time.Location, blackouts []Blackout) (Schedule, error) {
	if zone == nil {
		zone = time.UTC
	}
	fields := strings.Fields(cron)
	const five = 5
	if len(fields) != five {
		return Schedule{}, fmt.Errorf("%.40q has %d fields, and must have minute, hour, day of month, month and day of week", cron, len(fields))
	}
	if !plain(fields) || !gronx.IsValid(cron) {
		return Schedule{}, fmt.Errorf("%.40q is no cron expression of numbers, names, '*', ',', '-' and '/'", cron)
	}
	s := Schedule{cron: cron, zone: zone, blackouts: blackouts}
	if _, err := s.tick(wallOf(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))); err != nil { // a year with a 29 February
		return Schedule{}, fmt.Errorf("%.40q never comes", cron)
	}
	return s, nil
}

// named are the fields that may have names, and which.
var named = map[int]string{3: "jan feb mar apr may jun jul aug sep oct nov dec", 4: "sun mon tue wed thu fri sat"}

// plain: the fields hold numbers, '*', ',', '-', '/' and names where they belong, and none of what only some programs know.
func plain(fields []string) bool {
	for i, f := range fields {
		if strings.Trim(f, "0123456789*,-/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			return false
		}
		for _, name := range strings.FieldsFunc(strings.ToLower(f), func(c rune) bool { return c < 'a' }) {
			if !slices.Contains(strings.Fields(named[i]), name) {
				return false
			}
		}
	}
	return true
}

// errNever is returned for a schedule of which nothing comes any more.
var errNever = errors.New("never comes")

// tick is the next time that a wall clock shows after another.
func (s Schedule) tick(wall time.Time) (time.Time, error) {
	next, err := gronx.NextTickAfter(s.cron, wall, false)
	if err != nil || !next.After(wall) {
		return time.Time{}, errNever
	}
	return next, nil
}

// Next is the first time after another at which a drill is to begin; false: none within ten years. What falls into an
// hour that clocks skip begins when they are put forward, and what falls into one that they show twice begins once, in
// the first. What falls into a blackout is left out.
func (s Schedule) Next(after time.Time) (time.Time, bool) {
	if s.cron == "" {
		return time.Time{}, false
	}
	wall := wallOf(after.In(s.zone)).Truncate(time.Minute)
	limit := wall.AddDate(10, 0, 0)
	for {
		next, err := s.tick(wall)
		if err != nil || next.After(limit) {
			return time.Time{}, false
		}
		at := Moment(next, s.zone)
		if until, out := s.blackedOut(at); out {
			// the next that can be is at the end of it; a minute less as ticks are after
			wall = wallOf(until.In(s.zone)).Add(-time.Minute)
			wall = later(wall, next)
			continue
		}
		if at.After(after) {
			return at, true
		}
		wall = next
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (s Schedule) blackedOut(t time.Time) (until time.Time, out bool) {
	for _, b := range s.blackouts {
		if !t.Before(b.From) && t.Before(b.Until) {
			return b.Until, true
		}
	}
	return time.Time{}, false
}
