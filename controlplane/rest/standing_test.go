package rest

import (
	"testing"
	"time"

	"anabranch/controlplane/signal"
)

func TestReadsThatComeTogetherShareALook(t *testing.T) {
	looks := 0
	routers := make([]signal.Observation, 5000)
	look := func(now time.Time) signal.Snapshot { looks++; return signal.Snapshot{At: now, Routers: routers} }
	var s seen
	for _, step := range []struct {
		after time.Duration
		looks int
		age   time.Duration
		why   string
	}{
		{0, 1, 0, "the first"},
		{time.Millisecond, 1, time.Millisecond, "soon after it"},
		{199 * time.Millisecond, 1, 199 * time.Millisecond, "just in time"},
		{200 * time.Millisecond, 2, 0, "it is old"},
		{200 * time.Millisecond, 3, 0, "the same moment: a clock that stands"},
		{100 * time.Millisecond, 4, 0, "a clock that was set back"},
	} {
		now := epoch.Add(step.after)
		got := s.at(now, look)
		if looks != step.looks || now.Sub(got.At) != step.age {
			t.Errorf("%s: %d looks, %s old; want %d, %s", step.why, looks, now.Sub(got.At), step.looks, step.age)
		}
	}
	routers = routers[:3]
	s = seen{}
	before := looks
	for i := range 10 {
		s.at(epoch.Add(time.Duration(i)*time.Millisecond), look)
	}
	if looks != before+10 {
		t.Errorf("ten reads of three routers, a millisecond apart, shared %d looks", looks-before)
	}
}
