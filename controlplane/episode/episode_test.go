package episode

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/state/statepb"
)

// clock reads a time of the day that these tests are about.
func clock(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04:05", "2026-12-01 "+text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// trailOf reads lines such as "10:00:00 eu-a/m FAILING_OVER".
func trailOf(t *testing.T, text string) []*statepb.AuditEntry {
	t.Helper()
	var out []*statepb.AuditEntry
	for line := range strings.Lines(strings.TrimSpace(text)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			t.Fatalf("%q", line)
		}
		kind := "ClusterHealth"
		if f[2] == "APPLIED" {
			kind = "Cluster"
		}
		out = append(out, &statepb.AuditEntry{AtUnixMs: clock(t, f[0]).UnixMilli(), Kind: kind, Name: f[1], Code: f[2], Reason: "was " + f[2]})
	}
	return out
}

// regionOf is what stands before the hyphen.
func regionOf(c fleet.ClusterID) fleet.RegionID {
	region, _, _ := strings.Cut(string(c), "-")
	return fleet.RegionID(region)
}

func told(list []Episode) string {
	var out []string
	for _, e := range list {
		until := "now"
		if !e.Until.IsZero() {
			until = e.Until.Format("15:04:05")
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s%s %v %s–%s", e.Kind, e.Region, e.ID, e.Clusters, e.From.Format("15:04:05"), until)))
	}
	return strings.Join(out, "\n")
}

func TestFailoversAreFoundInTheTrail(t *testing.T) {
	for name, tt := range map[string]struct{ trail, want string }{
		"nothing": {"10:00:00 eu-a SUSPECT\n10:00:20 eu-a HEALTHY", ""},
		"one, all the way": {`10:00:00 eu-a SUSPECT
			10:00:05 eu-a FAILING_OVER
			10:00:10 eu-a EVACUATED
			10:08:00 eu-a RECOVERING
			10:09:00 eu-a RAMPING
			10:15:00 eu-a HEALTHY`, "failover eu [eu-a] 10:00:05–10:15:00"},
		"one that goes on":        {"10:00:05 eu-a FAILING_OVER\n10:00:10 eu-a EVACUATED", "failover eu [eu-a] 10:00:05–now"},
		"frozen meanwhile":        {"10:00:05 eu-a FAILING_OVER\n10:01:00 eu-a FROZEN\n10:05:00 eu-a HEALTHY", "failover eu [eu-a] 10:00:05–10:05:00"},
		"frozen alone is none":    {"10:01:00 eu-a FROZEN\n10:05:00 eu-a HEALTHY", ""},
		"its beginning forgotten": {"10:09:00 eu-a RAMPING\n10:15:00 eu-a HEALTHY", ""},
		"models and clusters of a region are one": {`10:00:05 eu-a/m FAILING_OVER
			10:00:06 eu-a/n FAILING_OVER
			10:00:07 eu-b FAILING_OVER
			10:15:00 eu-a/m HEALTHY
			10:16:00 eu-b HEALTHY
			10:14:00 eu-a/n HEALTHY`, "failover eu [eu-a eu-b] 10:00:05–10:16:00"},
		"regions are two":                  {"10:00:05 eu-a FAILING_OVER\n10:00:07 us-a FAILING_OVER\n10:10:00 eu-a HEALTHY\n10:11:00 us-a HEALTHY", "failover us [us-a] 10:00:07–10:11:00\nfailover eu [eu-a] 10:00:05–10:10:00"},
		"twice, much later":                {"10:00:05 eu-a FAILING_OVER\n10:10:00 eu-a HEALTHY\n11:00:05 eu-a EVACUATED\n11:10:00 eu-a HEALTHY", "failover eu [eu-a] 11:00:05–11:10:00\nfailover eu [eu-a] 10:00:05–10:10:00"},
		"twice, one right after the other": {"10:00:05 eu-a FAILING_OVER\n10:10:00 eu-a HEALTHY\n10:10:50 eu-a FAILING_OVER\n10:20:00 eu-a HEALTHY", "failover eu [eu-a] 10:00:05–10:20:00"},
		"drained by an operator":           {"10:00:05 eu-a DRAINING\n10:01:00 eu-a DRAINED\n10:30:00 eu-a RAMPING\n10:35:00 eu-a HEALTHY", "drain eu [eu-a] 10:00:05–10:35:00"},
		"other entries":                    {"10:00:05 eu-a APPLIED\n10:00:06 eu-a FAILING_OVER\n10:00:07 eu-a APPLIED\n10:10:00 eu-a DEGRADED", "failover eu [eu-a] 10:00:06–10:10:00"},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Trail: trailOf(t, tt.trail), Region: regionOf, Now: clock(t, "12:00:00")}
			if got := told(Find(in, clock(t, "09:00:00"), clock(t, "13:00:00"))); got != tt.want {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

func TestEpisodesOfOtherTimesAreLeftOut(t *testing.T) {
	in := Input{Trail: trailOf(t, "10:00:00 eu-a EVACUATED\n10:10:00 eu-a HEALTHY\n11:00:00 us-a EVACUATED"), Region: regionOf, Now: clock(t, "12:00:00")}
	for _, tt := range []struct{ from, until, want string }{
		{"09:00:00", "10:00:00", ""}, {"10:10:00", "10:30:00", ""}, {"10:09:00", "10:30:00", "eu"}, {"09:00:00", "10:00:01", "eu"}, {"11:30:00", "11:40:00", "us"},
	} {
		var got []string
		for _, e := range Find(in, clock(t, tt.from), clock(t, tt.until)) {
			got = append(got, string(e.Region))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s to %s: %q", tt.from, tt.until, got)
		}
	}
}

func TestDrillsThatMovedTrafficAreEpisodes(t *testing.T) {
	at := func(text string) int64 { return clock(t, text).UnixMilli() }
	one := func(kind string, change func(*statepb.Drill)) *statepb.Drill {
		d := &statepb.Drill{
			Id: 12, Plan: "lose-eu", Spec: []byte(`{"kind":"` + kind + `"}`), Resolved: []byte(`{"clusters":["eu-a","eu-b"],"regions":["eu"]}`),
			StartedUnixMs: at("10:00:00"), NotAfterUnixMs: at("11:00:00"), EndedUnixMs: at("10:30:00"),
			Events: []*statepb.DrillEvent{{AtUnixMs: at("10:00:01"), State: "BASELINE"}, {AtUnixMs: at("10:05:00"), State: "SHIFTING"}, {AtUnixMs: at("10:06:00"), State: "SHIFTING"}},
		}
		if change != nil {
			change(d)
		}
		return d
	}
	for name, tt := range map[string]struct {
		d    *statepb.Drill
		want string
	}{
		"over":             {one("soft", nil), "drill eu12 [eu-a eu-b] 10:05:00–10:30:00"},
		"under way":        {one("hard", func(d *statepb.Drill) { d.EndedUnixMs = 0 }), "drill eu12 [eu-a eu-b] 10:05:00–now"},
		"moved nothing":    {one("shadow", nil), ""},
		"never leased":     {one("soft", func(d *statepb.Drill) { d.NotAfterUnixMs = 0 }), ""},
		"never shifted":    {one("soft", func(d *statepb.Drill) { d.Events = d.GetEvents()[:1] }), ""},
		"of no cluster":    {one("quota-store", func(d *statepb.Drill) { d.Resolved = []byte(`{}`) }), ""},
		"spec is not JSON": {one("soft", func(d *statepb.Drill) { d.Spec = []byte(`{`) }), ""},
	} {
		list := Find(Input{Drills: []*statepb.Drill{tt.d}, Region: regionOf, Now: clock(t, "12:00:00")}, clock(t, "09:00:00"), clock(t, "13:00:00"))
		if got := told(list); got != tt.want {
			t.Errorf("%s: %s", name, got)
		}
		if len(list) > 0 && (list[0].Name != "lose-eu" || !list[0].Since.Equal(clock(t, "10:00:00"))) {
			t.Errorf("%s: %+v", name, list[0])
		}
	}
}
