package dispatch

import (
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/route"
)

const (
	// perCluster is how many endpoints of one cluster are tried before the next cluster's turn:
	// when two in a row fail it is more likely the cluster than the endpoint.
	perCluster = 2
	// MaxAttempts bounds one request's attempts at places.
	MaxAttempts = 6
	// maxUnknown is how many places may say that they don't know what is asked for before they are
	// believed. Adapters are not everywhere, and are looked for further.
	maxUnknown = 2
)

// Last is what a request's last attempt met, as far as the next depends on it: what the next place should
// not share with it.
type Last struct {
	// Cluster that it went to, and Endpoint there. Cluster nil: there was none yet; Endpoint nil: in
	// another region.
	Cluster  *endpoint.Cluster
	Endpoint *endpoint.Endpoint
	// Silent: nothing came in time.
	Silent bool
	// Busy: the place, or those of a peer, have no room now.
	Busy bool
	// Unknown: the place does not know the path, the API or the model.
	Unknown bool
	// Unsent: this router lacks the credential of the place, which has not seen the request.
	Unsent bool
	// Refused: no connection came about. Exempt: it failed before the place can have done much work.
	Refused, Exempt bool
}

// Dead says whether the place has been ejected by now, so that what fled from it is no sign of a storm of
// retries.
func (l *Last) Dead() bool {
	if l.Cluster == nil {
		return false
	}
	dead, _ := l.Cluster.Ejected()
	if l.Endpoint != nil {
		dead, _ = l.Endpoint.Ejected()
	}
	return dead
}

// Trail is where a request has been. The zero Trail has been nowhere.
type Trail struct {
	Tried  []*endpoint.Endpoint
	Hopped []fleet.ClusterID
	// Unknown counts the places that did not know what is asked for; Adapter: that is an adapter.
	Unknown int
	Adapter bool
	// Tenant is whose request it is. Copy: it is a copy that nobody waits for.
	Tenant fleet.TenantID
	Copy   bool
	Last   Last
}

// Again forgets where it was: those places were busy then.
func (t *Trail) Again() {
	t.Tried, t.Hopped, t.Unknown, t.Last = slices.Delete(t.Tried, 0, len(t.Tried)), t.Hopped[:0], 0, Last{}
}

// Was says whether an endpoint was tried.
func (t *Trail) Was(e *endpoint.Endpoint) bool { return slices.Contains(t.Tried, e) }

// WasIn says whether a cluster of another region was.
func (t *Trail) WasIn(id fleet.ClusterID) bool { return slices.Contains(t.Hopped, id) }

// Enough says whether no further attempt should be made after so many.
func (t *Trail) Enough(made int) bool {
	return made >= MaxAttempts || t.Unknown >= maxUnknown && !t.Adapter
}

// Exempt says whether the next attempt, to a place, costs no budget, after so many. A request that breaks
// every place it comes to must not go round for free.
func (t *Trail) Exempt(c *endpoint.Cluster, e *endpoint.Endpoint, made int, now time.Time) bool {
	l := &t.Last
	return l.Exempt && (made == 1 || l.Refused) || l.Unsent || l.Unknown || l.Dead() || t.siblingOfBusy(c, e, now) ||
		t.leaves(c, now)
}

// siblingOfBusy: the last attempt's place was busy, and this one is another of the same cluster that
// is not known to be. A place that is busy is left alone after its first such answer, which bounds
// what comes of this.
func (t *Trail) siblingOfBusy(c *endpoint.Cluster, e *endpoint.Endpoint, now time.Time) bool {
	return t.Last.Busy && e != nil && t.Last.Endpoint != nil && c == t.Last.Cluster && !e.Busy(now)
}

// leaves: the last attempt was where requests go unanswered, and this one is where they don't. What comes
// of that is bounded by the row that it took to find out, and the trials since.
func (t *Trail) leaves(c *endpoint.Cluster, now time.Time) bool {
	return t.Last.Cluster != nil && t.unanswered(t.Last.Cluster, now) && !t.unanswered(c, now)
}

// unanswered: the tenant's requests go unanswered at a cluster.
func (t *Trail) unanswered(c *endpoint.Cluster, now time.Time) bool {
	return c.Answering(t.Tenant, now).Unanswered
}

// shuns says whether a target is left for the end since requests go unanswered there. One that comes to
// it by its draw, as its first place, may be let in to see whether they still do.
func (t *Trail) shuns(target *route.Target, places *endpoint.Registry, now time.Time) bool {
	c := places.Of(target.Cluster, now)
	if c == nil || !t.unanswered(c, now) {
		return false
	}
	return t.Copy || t.Last.Cluster != nil || target.Reason != route.ByTrial || !c.Try(t.Tenant, now)
}

// Candidates are the endpoints of a cluster that the next attempt may go to, appended to the lists as
// [endpoint.Cluster.Candidates] does: those that were not tried, and after silence rather those that are
// not in doubt.
func (t *Trail) Candidates(c *endpoint.Cluster, l *endpoint.Load, now time.Time, to []*endpoint.Endpoint, as []pick.Candidate) ([]*endpoint.Endpoint, []pick.Candidate) {
	if !t.Last.Silent {
		return c.Candidates(l, now, t.Was, to, as)
	}
	had := len(to)
	to, as = c.Candidates(l, now, func(e *endpoint.Endpoint) bool { return t.Was(e) || e.Doubtful(l, now) }, to, as)
	if len(to) == had {
		to, as = c.Candidates(l, now, t.Was, to, as)
	}
	return to, as
}

// Walk is a request's way down its targets. The zero Walk begins with the first.
type Walk struct {
	from, row int    // whose turn it is, and attempts made there in a row
	shut      []bool // the targets that can't take the next attempt
}

// Next says which target comes next: the first from where the turn is, or of those after it the
// first that promises more; not one that is shut. -1: none is left, or only such where requests go
// unanswered, and the last place was alive and had no room: waiting for that is better.
func (w *Walk) Next(t *Trail, l *endpoint.Load, targets []route.Target, places *endpoint.Registry, now time.Time) int {
	judge := t.Last.Silent || t.Last.Busy || t.Last.Unknown
	best, least := -1, mute+1
	for k := range targets {
		i := (w.from + k) % len(targets)
		if w.shut != nil && w.shut[i] {
			continue
		}
		promise := promising
		if t.shuns(&targets[i], places, now) {
			promise = mute
		} else if judge {
			promise = t.promise(l, &targets[i], places, now)
		}
		if promise < least {
			best, least = i, promise
		}
		if least == promising {
			break
		}
	}
	if least == mute && t.Last.Busy && !t.unanswered(t.Last.Cluster, now) {
		return -1
	}
	if best >= 0 && best != w.from {
		w.from, w.row = best, 0
	}
	return best
}

// Shut notes that a target, of so many, can't take the next attempt after all.
func (w *Walk) Shut(i, of int) {
	if w.shut == nil {
		w.shut = make([]bool, of)
	}
	w.shut[i] = true
}

// Taken notes that the attempt goes to the target that came next.
func (w *Walk) Taken() { clear(w.shut) }

// Failed notes that it failed.
func (w *Walk) Failed(of int) {
	if w.row++; w.row == perCluster {
		w.from, w.row = (w.from+1)%of, 0
	}
}

// How much a target promises after what the last attempt met; less is better.
const (
	promising = iota
	second
	poor
	mute // requests go unanswered there
)

// promise judges a target: after silence those with nothing but endpoints in doubt come second; when
// a place was busy another of the region comes before one abroad, and one known to be busy last;
// what one place did not know its siblings won't either.
func (t *Trail) promise(l *endpoint.Load, target *route.Target, places *endpoint.Registry, now time.Time) int {
	cluster := places.Of(target.Cluster, now)
	if cluster == nil || target.Remote && t.WasIn(target.Cluster.ID) {
		return poor
	}
	if dead, _ := cluster.EjectedOf(l.Model); dead {
		return poor
	}
	if t.Last.Unknown {
		if !t.Adapter && cluster == t.Last.Cluster {
			return second
		}
		return promising
	}
	switch {
	case target.Remote && t.Last.Busy:
		return second
	case target.Remote:
		return promising
	}
	best := poor
	for _, e := range cluster.Endpoints() {
		if dead, _ := e.Ejected(); dead || t.Was(e) {
			continue
		}
		if lacks, _ := e.Lacks(l.Model); lacks {
			continue
		}
		switch {
		case t.Last.Silent && e.Doubtful(l, now):
			best = second
		case t.Last.Busy && e.Busy(now):
			// poor
		default:
			return promising
		}
	}
	return best
}
