package rollout

import (
	"testing"
	"time"
)

func TestALookTellsWhenAStageEnds(t *testing.T) {
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for name, tt := range map[string]struct {
		stage         Stage
		have          int
		p             Progress
		ends, returns time.Time
		want          int
	}{
		"nobody has it yet":       {Canary, 0, Progress{}, time.Time{}, at(60 + 300), 5},
		"enough have it":          {Canary, 4, Progress{}, at(10 + 60), time.Time{}, 5},
		"they have for a while":   {Canary, 5, Progress{Good: at(3)}, at(3 + 60), time.Time{}, 5},
		"a region bakes longer":   {Region, 5, Progress{Good: at(3)}, at(3 + 120), time.Time{}, 5},
		"they were lost just now": {Region, 1, Progress{Good: at(3)}, time.Time{}, at(10 + 30), 5},
		"they were lost before":   {Region, 1, Progress{Lost: at(4)}, time.Time{}, at(4 + 30), 5},
	} {
		t.Run(name, func(t *testing.T) {
			e := Evidence{Rules: rules, Stage: tt.stage, Cohort: cohort(5, tt.have), Expected: 5, Since: start, Now: at(10), With: Count{100, 1}, Before: Count{90, 0}, Rest: Count{800, 2}}
			v, p := Judge(e, tt.p)
			got := LookAt(7, e, p, v)
			if !got.Ends.Equal(tt.ends) || !got.Returns.Equal(tt.returns) {
				t.Errorf("ends %s, returns %s; want %s and %s", got.Ends, got.Returns, tt.ends, tt.returns)
			}
			if got.Rollout != 7 || got.Stage != tt.stage || !got.At.Equal(at(10)) || got.Have != tt.have || got.Want != 4 || got.Verdict != v || got.With != e.With || got.Before != e.Before || got.Rest != e.Rest {
				t.Errorf("%+v", got)
			}
		})
	}
}

// What a look promises is what the judge does, if nothing changes.
func TestAStageEndsWhenTheLookSaysSo(t *testing.T) {
	e := Evidence{Rules: rules, Stage: Canary, Cohort: cohort(1, 1), Expected: 1, Since: start, Now: start.Add(time.Second)}
	v, p := Judge(e, Progress{})
	ends := LookAt(1, e, p, v).Ends
	for _, tt := range []struct {
		now time.Time
		act Act
	}{{ends.Add(-time.Millisecond), Hold}, {ends, Advance}} {
		e.Now = tt.now
		if got, _ := Judge(e, p); got.Act != tt.act {
			t.Errorf("at %s: %+v, want %s", tt.now, got, tt.act)
		}
	}
	e.Cohort, e.Now = cohort(1, 0), start.Add(time.Second)
	v, p = Judge(e, Progress{})
	returns := LookAt(1, e, p, v).Returns
	e.Now = returns
	if got, _ := Judge(e, p); got.Act != Return {
		t.Errorf("at %s: %+v", returns, got)
	}
}
