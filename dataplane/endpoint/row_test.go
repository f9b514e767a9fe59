package endpoint

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

var (
	first = time.Unix(1_764_400_000, 0)
	rules = table.Ejection{MinRequests: 20, Reprobe: time.Second, ReprobeMax: time.Minute}
)

// rowOf plays a row: "20a" are twenty requests of tenant a without an answer, "ok" is an answer, and a
// duration is waited. It says to whom the cluster is unanswered then.
func rowOf(t *testing.T, story string) (r row, to string, now time.Time) {
	t.Helper()
	now = first
	for word := range strings.FieldsSeq(story) {
		if d, err := time.ParseDuration(word); err == nil {
			now = now.Add(d)
			continue
		}
		if word == "ok" {
			r = r.answered(now)
			continue
		}
		n, tenant := 0, ""
		if _, err := fmt.Sscanf(word, "%d%s", &n, &tenant); err != nil {
			t.Fatalf("%q: %v", word, err)
		}
		for range n {
			r = r.failed(fleet.TenantID(strings.Trim(tenant, "-")), now, &rules, now, 0.5)
		}
	}
	for _, tenant := range []fleet.TenantID{"a", "b", "c", ""} {
		if r.avoided(tenant) {
			to += string(tenant) + "."
		}
	}
	return r, to, now
}

func TestWhoLeavesAClusterAlone(t *testing.T) {
	const all = "a.b.c.."
	for _, tt := range []struct{ name, story, want string }{
		{"nothing has happened", "", ""},
		{"nineteen in a row", "19a", ""},
		{"twenty in a row", "20a", "a."},
		{"twenty however far apart", "10a 1h 10a", "a."},
		{"an answer in between", "19a ok 19a", ""},
		{"an answer after", "30a ok", ""},
		{"of two tenants alike", "10a 10b", all},
		{"one after the other", "1a 1b 1a 1b 1a 1b 1a 1b 1a 1b 1a 1b 1a 1b 1a 1b 1a 1b 1a 1b", all},
		{"of three tenants", "7a 7b 6c", all},
		{"two of another", "9a 1b 9a 1b", "a."},
		{"two of another at first", "2b 18a", "a."},
		{"three of another", "9a 1b 8a 2b", all},
		{"three of another, later", "20a 3b", all},
		{"two of others, later", "20a 1b 1c", "a."},
		{"two of others, and one more", "20a 1b 1c 1b", all},
		{"nobody's", "30-", ""},
		{"nobody's among those of several", "10a 10-", all},
		{"two after a return", "20a ok 2a", ""},
		{"three after a return", "20a ok 3a", "a."},
		{"three after a return, with an answer", "20a ok 2a ok 2a", ""},
		{"three of all after a return", "10a 10b ok 3c", all},
		{"three, another's after a return", "20a ok 3b", "b."},
		{"three, long after a return", "20a ok 60s 3a", ""},
		{"three that begin soon after a return", "20a ok 59s 2a 1s 1a", ""},
		{"three, long after an answer after a return", "20a ok 30s 1a ok 30s 3a", ""},
		{"twenty, long after a return", "20a ok 60s 20a", "a."},
		{"what was of all is one's, long after", "10a 10b ok 60s 20a", "a."},
		{"what was nearly a relapse of all is one's", "10a 10b ok 59s 2a 1s 18a", "a."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r, got, _ := rowOf(t, tt.story); got != tt.want {
				t.Errorf("to %q, want %q: %+v", got, tt.want, r)
			}
		})
	}
}

// A trial goes after 1 s, and each further one, if it fails, after twice as long, up to a minute.
func TestTrialsGoEverMoreSeldom(t *testing.T) {
	r, _, now := rowOf(t, "20a")
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		wait := time.Duration(seconds) * time.Second
		if r.mayTry("a", now.Add(wait-1)) || !r.mayTry("a", now.Add(wait)) {
			t.Fatalf("no trial exactly %s after the last: %+v", wait, r)
		}
		now = now.Add(wait)
		r = r.try("a", &rules, now)
		began := now
		now = now.Add(500 * time.Millisecond)
		r = r.failed("a", began, &rules, now, 0.5)
	}
	again := r.answered(now)
	for range 3 {
		again = again.failed("a", now, &rules, now.Add(time.Second), 0.5)
	}
	if at := now.Add(time.Second + time.Minute); again.mayTry("a", at.Add(-1)) || !again.mayTry("a", at) {
		t.Errorf("after a relapse the pauses did not go on where they were: %+v", again)
	}
}

func TestTrialsOfManyRoutersAreSpread(t *testing.T) {
	var early, late row
	for range 20 {
		early, late = early.failed("a", first, &rules, first, 0), late.failed("a", first, &rules, first, 0.999999)
	}
	if !early.due.Equal(first.Add(500*time.Millisecond)) || late.due.Before(first.Add(1499*time.Millisecond)) {
		t.Errorf("due after %s and %s", early.due.Sub(first), late.due.Sub(first))
	}
}

func TestOneTrialAtATime(t *testing.T) {
	r, _, now := rowOf(t, "20a 2s")
	if r.mayTry("b", now) {
		t.Error("a tenant for whom nothing is amiss may try")
	}
	tried := r.try("a", &rules, now)
	if tried.mayTry("a", now.Add(59*time.Second)) {
		t.Error("a second one may try while the first is under way")
	}
	if !tried.mayTry("a", now.Add(time.Minute)) {
		t.Error("none may try although nothing is heard of the first")
	}
	old := tried.failed("a", now.Add(-1), &rules, now.Add(time.Second), 0.5)
	if old.tried.IsZero() || old.interval != time.Second {
		t.Errorf("a request from before was taken for the trial: %+v", old)
	}
	others := tried.failed("b", now.Add(1), &rules, now.Add(time.Second), 0.5)
	if others.tried.IsZero() {
		t.Error("another tenant's was taken for the trial")
	}
	open := tried.undecided("a", now, now.Add(time.Second), 0.5)
	if open.interval != time.Second || open.mayTry("a", now.Add(2*time.Second-1)) || !open.mayTry("a", now.Add(2*time.Second)) {
		t.Errorf("one that said nothing is not made up for after the same pause: %+v", open)
	}
	if got := tried.undecided("b", now, now, 0.5); got != tried {
		t.Error("what another tenant's end did not say ended the trial")
	}
	if got := r.hurried(now.Add(-time.Second)); !got.mayTry("a", now.Add(-time.Second)) || got.interval != r.interval {
		t.Errorf("a sign of life did not bring the trial forward: %+v", got)
	}
	if got := tried.hurried(now); got != tried {
		t.Error("a sign of life let in a second trial")
	}
	if got := (row{}).hurried(now); got != (row{}) {
		t.Error("a sign of life changed a cluster that answers")
	}
}

// Whatever happens: an answer ends it for all, it takes as many in a row as it should, and a tenant that
// has had fewer than three of a row of others leaves the cluster to those.
func TestRowsAreFair(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var r row
		now, ended, since := first, time.Time{}, map[fleet.TenantID]int{}
		for range rapid.IntRange(1, 120).Draw(rt, "n") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(rt, "ms")) * time.Millisecond)
			tenant := rapid.SampledFrom([]fleet.TenantID{"a", "a", "a", "a", "a", "a", "b", "c"}).Draw(rt, "tenant")
			switch rapid.IntRange(0, 40).Draw(rt, "what") {
			case 0:
				if !r.since.IsZero() {
					ended = now
				}
				r = r.answered(now)
				clear(since)
			case 1:
				if r.mayTry(tenant, now) {
					r = r.try(tenant, &rules, now)
				}
			case 2:
				r = r.undecided(tenant, now, now, rapid.Float64Range(0, 1).Draw(rt, "rnd"))
			default:
				r = r.failed(tenant, now, &rules, now, rapid.Float64Range(0, 1).Draw(rt, "rnd"))
				since[tenant]++
			}
			all, most, need := 0, 0, rules.MinRequests
			for _, n := range since {
				all, most = all+n, max(most, n)
			}
			if !ended.IsZero() && r.ended.Equal(ended) {
				need = relapses
			}
			switch {
			case r.since.IsZero():
				continue
			case all == 0:
				rt.Fatalf("left alone after an answer: %+v", r)
			case all < need:
				rt.Fatalf("left alone after %d: %+v", all, r)
			case need == relapses:
				continue // for whom it was before
			case all-most < dissent && r.avoided(""):
				rt.Fatalf("of %v, and yet of all: %+v", since, r)
			}
			if interval := r.interval; interval < rules.Reprobe || interval > rules.ReprobeMax {
				rt.Fatalf("tried each %s", interval)
			}
		}
	})
}
