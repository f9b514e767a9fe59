package plan

import (
	"fmt"
	"time"

	"anabranch/api/fleet"
)

// calmFor is how long fewer replicas must have been enough before fewer are wanted.
const calmFor = 5 * time.Minute

// Calm keeps advice from following each breath of the load. More is wanted at once; fewer only when so few, with
// a tenth of load on top, have been enough for five minutes without a break. It remembers what it said, for each
// loss that may have to be survived apart. The zero Calm is ready for use, by one goroutine.
type Calm struct {
	said  map[calmKey]*word
	rates map[fleet.ClusterID]*rate
}

// rate is what one replica of a cluster does, as far as what was measured holds for as many as there are.
type rate struct {
	at       time.Time
	replicas int
	changed  time.Time // since when there are so many; zero: as long as is known
	work     float64
}

// catchUp is how long what was measured of a cluster may be behind its replicas: it grows with a time constant of
// a minute, once they have work.
const catchUp = 3 * time.Minute

// mostLag bounds how far a measurement is taken to be behind, either way.
const mostLag = 10

// lag is how much more one replica does than measurements say, which are behind for a while after their number
// has changed: capacity over as many as there are now says of ten that it is half of what five did. 1 is no more.
func (c *Calm) lag(now time.Time, id fleet.ClusterID, replicas int, work float64) float64 {
	if c.rates == nil {
		c.rates = map[fleet.ClusterID]*rate{}
	}
	r := c.rates[id]
	if r == nil || !(work > 0) || !(r.work > 0) {
		r = &rate{replicas: replicas, work: work}
		c.rates[id] = r
	}
	r.at = now
	if r.replicas != replicas {
		r.replicas, r.changed = replicas, now
	}
	if r.changed.IsZero() || now.Sub(r.changed) >= catchUp {
		r.work = work
		return 1
	}
	return min(max(r.work/work, 1.0/mostLag), mostLag)
}

type calmKey struct {
	survive string
	peak    bool
	cluster fleet.ClusterID
}

// word is what was said of a cluster last.
type word struct {
	at     time.Time
	wanted int
	// begun is since when what is enough has been watched, and recent what that was lately, the oldest first.
	begun  time.Time
	recent []sample
}

// sample is the most that was enough from a time on, for calmGrain.
type sample struct {
	at   time.Time
	most int
}

// calmGrain is how exactly is remembered when so many were enough.
const calmGrain = 30 * time.Second

// forgetCalm is how old a word may be to count.
const forgetCalm = 10 * time.Minute

// steady puts what is wanted for what is needed.
func (c *Calm) steady(now time.Time, o CapacityOptions, held string, all map[fleet.ClusterID]ClusterAdvice) {
	if c.said == nil {
		c.said = map[calmKey]*word{}
	}
	for id, a := range all {
		key := calmKey{o.Survive, o.Peak, id}
		was := c.said[key]
		if was == nil {
			was = &word{wanted: max(a.Needed, a.Replicas), begun: now} // who has just begun to watch lowers nothing
			c.said[key] = was
		}
		a.Wanted = was.next(now, a.Needed, a.roomy, held != "" || a.keep != "")
		if a.Wanted > max(a.Needed, a.roomy) && len(was.recent) > 0 {
			a.Reasons = append(a.Reasons, fmt.Sprintf("%d would do now; fewer are wanted when they have been enough for %g minutes", max(a.Needed, a.roomy), calmFor.Minutes()))
		}
		all[id] = a
	}
	for key, w := range c.said {
		if now.Sub(w.at) > forgetCalm {
			delete(c.said, key)
		}
	}
	for id, r := range c.rates {
		if now.Sub(r.at) > forgetCalm {
			delete(c.rates, id)
		}
	}
}

// next is what is wanted while so many are needed, and with a tenth of load on top so many.
func (w *word) next(now time.Time, needed, roomy int, held bool) int {
	w.at, w.wanted = now, max(w.wanted, needed)
	if held {
		w.begun, w.recent = now, nil
		return w.wanted
	}
	roomy = max(needed, roomy)
	if n := len(w.recent); n == 0 || now.Sub(w.recent[n-1].at) >= calmGrain {
		w.recent = append(w.recent, sample{now, roomy})
	} else {
		w.recent[n-1].most = max(w.recent[n-1].most, roomy)
	}
	for now.Sub(w.recent[0].at) >= calmFor+calmGrain {
		w.recent = w.recent[1:]
	}
	if now.Sub(w.begun) >= calmFor {
		enough := 0
		for _, x := range w.recent {
			enough = max(enough, x.most)
		}
		w.wanted = min(w.wanted, enough)
	}
	return w.wanted
}
