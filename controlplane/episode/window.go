package episode

import (
	"time"

	"anabranch/controlplane/account"
)

// Window is what of the account is compared for an episode: usage during it, and what was usual before.
type Window struct {
	// BeforeFrom and From begin the time before and the time during, which follow each other; Until ends it. They are of whole
	// minutes, or of whole hours where minutes are not kept any more: then usage around the episode is in it, too.
	BeforeFrom, From, Until time.Time
	// Hours: it is of whole hours.
	Hours bool
}

// How long before an episode is looked at, at least and at most.
const (
	leastBefore = 5 * time.Minute
	mostBefore  = 30 * time.Minute
)

// Window gives the times to compare, as far as an account has them that has begun and is closed up to a time; else why it
// can't be told.
func (e Episode) Window(begun, closed time.Time) (Window, string) {
	if begun.IsZero() {
		return Window{}, "the account has not begun"
	}
	until := e.Until
	if until.IsZero() || until.After(closed) {
		until = closed
	}
	w := Window{From: e.From.Truncate(time.Minute), Until: up(until, time.Minute)}
	if !w.From.Before(w.Until) {
		return Window{}, "the minutes of it are not closed yet"
	}
	before := min(max(w.Until.Sub(w.From), e.From.Sub(e.Since), leastBefore), mostBefore)
	w.BeforeFrom = up(w.From.Add(-before), time.Minute)
	oldest := closed.Add(-account.MinutesKept * time.Minute)
	if w.BeforeFrom.Before(oldest) {
		w = Window{From: e.From.Truncate(time.Hour), Until: up(until, time.Hour), Hours: true}
		w.BeforeFrom = w.From.Add(-time.Hour)
		if w.BeforeFrom.Before(oldest.Truncate(time.Hour).Add(-account.HoursKept * time.Hour)) {
			return Window{}, "the account keeps minutes for two hours and hours for eight days"
		}
	}
	if w.BeforeFrom.Before(begun) {
		w.BeforeFrom = begun
		if w.Hours {
			w.BeforeFrom = begun.Truncate(time.Hour)
		}
	}
	if !w.BeforeFrom.Before(w.From) {
		return Window{}, "the account knows nothing of the time before it"
	}
	return w, ""
}

// up rounds up.
func up(t time.Time, to time.Duration) time.Time {
	if down := t.Truncate(to); down.Equal(t) {
		return down
	}
	return t.Truncate(to).Add(to)
}
