package endpoint

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

const (
	// relapses is how many requests without an answer are enough for a cluster that was left alone for
	// that lately.
	relapses = 3
	// dissent is how many requests of others than one tenant it takes until what happens is not that
	// tenant's alone.
	dissent = 3
)

// row is the judgement of a cluster by what becomes of its requests, whatever its endpoints say to
// canaries: how many in a row got no answer, and whether the cluster is therefore left alone, for
// whom, and until when. It is a value; the zero row is a cluster that answers.
//
// What one tenant alone meets counts for that tenant alone, since it may be its requests. Whose they are
// is found by a majority vote: each request of the one in question is a vote for it, each of another one
// against. (Boyer and Moore, "MJRTY: a fast majority vote algorithm", 1981.)
type row struct {
	count int            // requests in a row without an answer
	whose fleet.TenantID // of most of them
	votes int
	// several: more than one tenant's.
	several bool
	// since is when the cluster was left alone; zero: it is not.
	since    time.Time
	due      time.Time     // of the next trial
	interval time.Duration // from the end of a trial to the next, before jitter
	tried    time.Time     // when the trial under way was let in; zero: there is none
	trier    fleet.TenantID
	// ended is when it was last left alone no more; zero: never, or long ago.
	ended time.Time
}

// avoided says whether a tenant's requests leave the cluster alone. The empty tenant stands for all.
func (r row) avoided(t fleet.TenantID) bool { return !r.since.IsZero() && r.concerns(t) }

func (r row) concerns(t fleet.TenantID) bool { return r.several || t != "" && t == r.whose }

// failed takes in a request that began at a time and got no answer.
// rnd in [0,1) spreads trials by ± 50 %.
func (r row) failed(t fleet.TenantID, began time.Time, cfg *table.Ejection, now time.Time, rnd float64) row {
	again := !r.ended.IsZero() && now.Sub(r.ended) < cfg.ReprobeMax
	if r.since.IsZero() && !again {
		r.ended, r.interval, r.several = time.Time{}, 0, (r.count-r.votes)/2 >= dissent
	}
	r.count++
	switch {
	case r.votes == 0:
		r.whose, r.votes = t, 1
	case r.whose == t:
		r.votes++
	default:
		r.votes--
	}
	r.several = r.several || (r.count-r.votes)/2 >= dissent
	switch {
	case !r.since.IsZero():
		if r.tries(t, began) {
			r.interval = min(2*r.interval, cfg.ReprobeMax)
			r.tried, r.due = time.Time{}, r.after(now, rnd)
		}
	case again && r.count >= min(relapses, cfg.MinRequests):
		r.since, r.interval = now, min(max(r.interval, cfg.Reprobe), cfg.ReprobeMax)
		r.due = r.after(now, rnd)
	case !again && r.count >= cfg.MinRequests:
		r.since, r.interval = now, cfg.Reprobe
		r.due = r.after(now, rnd)
	}
	return r
}

func (r row) after(now time.Time, rnd float64) time.Time {
	return now.Add(time.Duration((0.5 + rnd) * float64(r.interval)))
}

// tries says whether a request is the trial under way.
func (r row) tries(t fleet.TenantID, began time.Time) bool {
	return !r.tried.IsZero() && t == r.trier && !began.Before(r.tried)
}

// mayTry says whether a request of the tenant may be the next trial.
func (r row) mayTry(t fleet.TenantID, now time.Time) bool { return r.avoided(t) && !now.Before(r.due) }

// try lets a request in as a trial. While it is under way no other is, unless nothing is heard of it for
// the longest pause between trials.
func (r row) try(t fleet.TenantID, cfg *table.Ejection, now time.Time) row {
	r.tried, r.trier, r.due = now, t, now.Add(cfg.ReprobeMax)
	return r
}

// undecided takes in a request whose end says nothing of the cluster: if it was the trial, another
// follows after the same pause.
func (r row) undecided(t fleet.TenantID, began, now time.Time, rnd float64) row {
	if r.tries(t, began) {
		r.tried, r.due = time.Time{}, r.after(now, rnd)
	}
	return r
}

// hurried lets the next trial go at once: the cluster shows signs of life.
func (r row) hurried(now time.Time) row {
	if !r.since.IsZero() && r.tried.IsZero() && r.due.After(now) {
		r.due = now
	}
	return r
}

// answered takes in an answer. For whom the cluster was left alone, and at what pace it was tried, is
// remembered for a relapse.
func (r row) answered(now time.Time) row {
	switch {
	case !r.since.IsZero():
		return row{whose: r.whose, several: r.several, interval: r.interval, ended: now}
	case !r.ended.IsZero():
		return row{whose: r.whose, several: r.several, interval: r.interval, ended: r.ended}
	}
	return row{}
}
