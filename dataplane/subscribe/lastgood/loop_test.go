package lastgood

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/dataplane/table"
)

// A slow and obvious account of what a start may suspect: for each table when it was put in force,
// and how many starts in a row have found the present trial.
type account struct {
	young   []table.Ref
	at      []time.Time
	starts  int
	suspect bool
}

func (a *account) restarted(now time.Time) []table.Ref {
	if len(a.young) == 0 {
		return nil
	}
	a.starts++
	for i := range a.at {
		a.at[i] = now
	}
	if a.suspect = a.starts >= 2; a.suspect {
		return a.young
	}
	return nil
}

// However tables come, prove themselves and the router ends, in good order or not, a table is
// suspected only after two bad ends in a row, and the newest proved one is always there.
func TestSuspicionAgreesWithAnAccount(t *testing.T) {
	path := t.TempDir()
	round := uint64(0)
	rapid.Check(t, func(rt *rapid.T) {
		round++
		folder := path + "/" + time.Unix(int64(round), 0).UTC().Format("150405")
		now := start
		reopen := func() (*Dir, []table.Ref) {
			d, err := Open(folder)
			if err != nil {
				rt.Fatal(err)
			}
			suspects, err := d.Started(now)
			if err != nil {
				rt.Fatal(err)
			}
			return d, suspects
		}
		check := func(err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		d, _ := reopen()
		a := &account{}
		var proved table.Ref
		revision := uint64(0)
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			now = now.Add(time.Second)
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0, 1:
				revision++
				if a.suspect {
					a.young, a.at, a.suspect = nil, nil, false
				}
				a.starts = 0
				a.young, a.at = append(slices.Clone(a.young), ref(revision)), append(slices.Clone(a.at), now)
				check(d.Try(ref(revision), now))
				check(d.Save(numbered(1, revision), now))
			case 2:
				now = now.Add(time.Minute)
				check(d.Prove(now.Add(-30 * time.Second)))
				if len(a.young) > 0 && !a.suspect {
					proved = a.young[len(a.young)-1]
					a.young, a.at, a.starts = nil, nil, 0
				}
			case 3:
				check(d.End())
				if !a.suspect {
					a.young, a.at, a.starts = nil, nil, 0
				}
			case 4:
				want := a.restarted(now)
				var got []table.Ref
				if d, got = reopen(); !slices.Equal(got, want) {
					rt.Fatalf("suspects %v, want %v", got, want)
				}
				check(d.Drop(got))
			}
			refs, err := d.Refs()
			check(err)
			if len(refs) > Keep+1 {
				rt.Fatalf("%d tables are kept", len(refs))
			}
			if proved != (table.Ref{}) && !slices.ContainsFunc(refs, func(r table.Ref) bool { return !r.Newer(proved) || !slices.Contains(a.young, r) }) {
				rt.Fatalf("kept %v: none has proved itself, though %v had", refs, proved)
			}
		}
	})
}
