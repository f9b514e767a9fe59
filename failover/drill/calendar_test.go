package drill

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return moment
}

// short is a plan that takes some five minutes.
func short(k Kind) Plan {
	return Plan{Kind: k, Percent: 100, Stages: []Stage{{100, time.Minute}}, Back: []float64{100}, BackDwell: time.Minute, Baseline: time.Minute, Hold: time.Minute, Scale: 1}
}

func recurring(t *testing.T, name, cron, zone string, k Kind, out ...Blackout) Recurring {
	t.Helper()
	s, err := NewSchedule(cron, place(t, zone), out)
	if err != nil {
		t.Fatal(err)
	}
	return Recurring{name, short(k), s}
}

func TestACalendarTellsWhatSchedulesBeginAndWhatWouldNot(t *testing.T) {
	night := Window{From: 1 * 60, Until: 5 * 60, Zone: place(t, "Europe/Berlin")}
	rules := Rules{Windows: [][]Window{{night}}, Blackouts: []Blackout{{at(t, "2027-03-30T00:00:00Z"), at(t, "2027-03-31T00:00:00Z"), "quarter end"}}}
	berlin := recurring(t, "berlin", "30 2 * * *", "Europe/Berlin", Soft)
	noon := recurring(t, "noon", "0 12 29 3 *", "UTC", Hard)
	dry := recurring(t, "dry", "0 12 30 3 *", "UTC", PlanOnly)
	own := recurring(t, "own", "0 3 * * *", "UTC", Soft, Blackout{From: at(t, "2027-03-01T00:00:00Z"), Until: at(t, "2027-03-29T00:00:00Z")})
	tests := map[string]struct {
		plans       []Recurring
		from, until string
		most        int
		want        string
		more        bool
	}{
		"where clocks go forward, and a blackout": {[]Recurring{berlin}, "2027-03-27T12:00:00Z", "2027-03-31T00:00:00Z", 10, "berlin 28T01:00; berlin 29T00:30; berlin 30T00:30 window", false},
		"beyond the windows":                      {[]Recurring{noon}, "2027-03-01T00:00:00Z", "2027-04-01T00:00:00Z", 10, "noon 29T12:00 window", false},
		"dry runs are held to no times":           {[]Recurring{dry}, "2027-03-01T00:00:00Z", "2027-04-01T00:00:00Z", 10, "dry 30T12:00", false},
		"not in a plan's own blackout":            {[]Recurring{own}, "2027-03-27T00:00:00Z", "2027-03-30T00:00:00Z", 10, "own 29T03:00 window", false},
		"of several by time":                      {[]Recurring{own, noon, berlin}, "2027-03-29T00:00:00Z", "2027-03-30T00:00:00Z", 10, "berlin 29T00:30; own 29T03:00 window; noon 29T12:00 window", false},
		"of those at once by name":                {[]Recurring{recurring(t, "b", "0 2 * * *", "UTC", PlanOnly), recurring(t, "a", "0 2 * * *", "UTC", PlanOnly)}, "2027-03-29T00:00:00Z", "2027-03-30T00:00:00Z", 10, "a 29T02:00; b 29T02:00", false},
		"so many at most":                         {[]Recurring{berlin}, "2027-03-27T12:00:00Z", "2027-04-30T00:00:00Z", 1, "berlin 28T01:00", true},
		"the end is not in it":                    {[]Recurring{dry}, "2027-03-01T00:00:00Z", "2027-03-30T12:00:00Z", 10, "", false},
		"the beginning is not in it":              {[]Recurring{dry}, "2027-03-30T12:00:00Z", "2027-04-30T12:00:00Z", 10, "", false},
		"no plans":                                {nil, "2027-03-01T00:00:00Z", "2027-04-01T00:00:00Z", 10, "", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			list, more := Calendar(tt.plans, rules, at(t, tt.from), at(t, tt.until), tt.most)
			var got []string
			for _, c := range list {
				line := c.Name + " " + c.At.UTC().Format("02T15:04")
				if len(c.Refused) > 0 {
					line += " " + string(c.Refused[0].Cause)
				}
				got = append(got, line)
				if c.Ends.Sub(c.At) != short(Soft).Length() && c.Name != "noon" && c.Name != "dry" && len(c.Name) > 1 {
					t.Errorf("%s ends at %s", line, c.Ends)
				}
			}
			if text := strings.Join(got, "; "); text != tt.want || more != tt.more {
				t.Errorf("got %q, %v", text, more)
			}
		})
	}
}

func TestTheNextOpening(t *testing.T) {
	weekend := []Window{{Days: 1<<time.Saturday | 1<<time.Sunday, From: 0, Until: 1440}}
	tight := []Window{{From: 60, Until: 62}} // shorter than a drill
	out := func(from, until string) Blackout { return Blackout{at(t, from), at(t, until), ""} }
	for name, tt := range map[string]struct {
		rules Rules
		kind  Kind
		from  string
		want  string // empty: none
	}{
		"no rules":                        {Rules{}, Soft, "2026-12-01T03:20:30Z", "2026-12-01T03:20:30Z"},
		"the next weekend":                {Rules{Windows: [][]Window{weekend}}, Soft, "2026-12-01T03:20:30Z", "2026-12-05T00:00:00Z"},
		"within it":                       {Rules{Windows: [][]Window{weekend}}, Soft, "2026-12-05T03:20:30Z", "2026-12-05T03:20:30Z"},
		"too late within it":              {Rules{Windows: [][]Window{weekend}}, Soft, "2026-12-06T23:58:00Z", "2026-12-12T00:00:00Z"},
		"after a blackout":                {Rules{Blackouts: []Blackout{out("2026-12-01T00:00:00Z", "2026-12-03T00:00:00Z")}}, Soft, "2026-12-01T03:20:30Z", "2026-12-03T00:00:00Z"},
		"before one that it would reach":  {Rules{Blackouts: []Blackout{out("2026-12-01T03:22:00Z", "2026-12-01T04:00:10Z")}}, Soft, "2026-12-01T03:20:30Z", "2026-12-01T04:01:00Z"},
		"no window is long enough":        {Rules{Windows: [][]Window{tight}}, Soft, "2026-12-01T03:20:30Z", ""},
		"a blackout for longer":           {Rules{Blackouts: []Blackout{out("2026-12-01T00:00:00Z", "2027-01-03T00:00:00Z")}}, Soft, "2026-12-01T03:20:30Z", ""},
		"dry runs alone at any time":      {Rules{Windows: [][]Window{tight}}, PlanOnly, "2026-12-01T03:20:30Z", "2026-12-01T03:20:30Z"},
		"two rules with windows together": {Rules{Windows: [][]Window{weekend, {{From: 600, Until: 700}}}}, Soft, "2026-12-01T03:20:30Z", "2026-12-05T10:00:00Z"},
	} {
		got, ok := tt.rules.Opening(short(tt.kind), at(t, tt.from), OpensWithin)
		if text := got.UTC().Format(time.RFC3339); ok != (tt.want != "") || ok && text != tt.want {
			t.Errorf("%s: got %s, %v", name, text, ok)
		}
	}
}

func TestARegionIsReadyWhenNothingIsAgainstIt(t *testing.T) {
	now := at(t, "2026-12-01T03:20:00Z")
	fleet := func() World {
		return World{Clusters: []Place{
			{Cluster: "a", Region: "us", Capacity: 1, On: true, Health: "HEALTHY", Drilled: true},
			{Cluster: "b", Region: "eu", Capacity: 1, On: true, Health: "HEALTHY"},
			{Cluster: "c", Region: "ap", Capacity: 1, On: true, Health: "HEALTHY"},
		}}
	}
	none := 0.0
	good := Forecast{Verdict: VerdictPass}
	for name, tt := range map[string]struct {
		change func(*World, *Rules, *Forecast)
		kind   Kind
		want   string
	}{
		"nothing":              {func(*World, *Rules, *Forecast) {}, Soft, ""},
		"room":                 {func(_ *World, _ *Rules, f *Forecast) { f.Verdict = VerdictBlock }, Soft, "capacity"},
		"room of a warning":    {func(_ *World, _ *Rules, f *Forecast) { f.Verdict = VerdictWarn }, Soft, ""},
		"room, moving nothing": {func(_ *World, _ *Rules, f *Forecast) { f.Verdict = VerdictBlock }, Shadow, ""},
		"the error budget":     {func(w *World, _ *Rules, _ *Forecast) { w.ErrorBudget = &none }, Soft, "alert"},
		"health":               {func(w *World, _ *Rules, _ *Forecast) { w.Clusters[1].Health = "SUSPECT" }, Soft, "alert"},
		"another drill":        {func(w *World, _ *Rules, _ *Forecast) { w.Active = "drill 7" }, Soft, "drill"},
		"an order":             {func(w *World, _ *Rules, _ *Forecast) { w.Order = "emergency order" }, Soft, "operator"},
		"a rollout":            {func(w *World, _ *Rules, _ *Forecast) { w.Rollout = "9" }, Soft, "rollout"},
		"a blackout": {func(_ *World, r *Rules, _ *Forecast) {
			r.Blackouts = []Blackout{{now.Add(-time.Hour), now.Add(time.Hour), "sale"}}
		}, Soft, "window"},
		"a recent drill":   {func(w *World, _ *Rules, _ *Forecast) { w.LastMoved = now.Add(-time.Hour) }, Soft, "drill"},
		"all at once":      {func(w *World, _ *Rules, f *Forecast) { w.Rollout, w.Active, f.Verdict = "9", "drill 7", VerdictBlock }, Soft, "drill rollout capacity"},
		"too much of it":   {func(w *World, _ *Rules, _ *Forecast) { w.Clusters[0].Capacity = 9 }, Hard, "rule"},
		"drained already":  {func(w *World, _ *Rules, _ *Forecast) { w.Clusters[0].On, w.Clusters[0].Health = false, "DRAINED" }, Soft, "rule"},
		"nothing is there": {func(w *World, _ *Rules, _ *Forecast) { w.Clusters[0].Drilled = false }, Soft, "rule"},
	} {
		w, r, f := fleet(), DefaultRules(), good
		tt.change(&w, &r, &f)
		got := ReadinessOf(r, w, short(tt.kind), f, now)
		var causes []string
		for _, b := range got.Blocks {
			causes = append(causes, string(b.Cause))
			if b.Text == "" {
				t.Errorf("%s: %s has no words", name, b.Cause)
			}
		}
		if text := strings.Join(causes, " "); text != tt.want || got.Ready != (tt.want == "") || got.Blocks == nil {
			t.Errorf("%s: %s, %+v", name, text, got)
		}
	}
}

func TestTimesOpenAfterTheInterval(t *testing.T) {
	now := at(t, "2026-12-01T03:20:00Z")
	rules := DefaultRules()
	for _, tt := range []struct {
		kind  Kind
		since time.Duration // since the last; 0: there was none
		scale float64
		want  time.Duration
	}{
		{Soft, 0, 1, 0}, {Soft, time.Hour, 1, 23 * time.Hour}, {Soft, 24 * time.Hour, 1, 0}, {Shadow, time.Hour, 1, 0}, {Soft, time.Hour, 0.05, 12 * time.Minute},
	} {
		p := short(tt.kind)
		p.Scale = tt.scale
		var last time.Time
		if tt.since > 0 {
			last = now.Add(-tt.since)
		}
		if got := rules.Opens(p, last, now); !got.Equal(now.Add(tt.want)) {
			t.Errorf("%s: %s after the last it opens at %s", fmt.Sprint(tt.kind, tt.scale), tt.since, got)
		}
	}
}
