package signal

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// maxLimits bounds the limits that are kept of one router. Who takes reports in leaves out limits that
// are not in force; this is for what would come by other ways.
const maxLimits = 65536

// exact bounds units and levels: sums of several routers stay whole numbers.
const exact = 1 << 53

// Tally is what routers say of one limit, in units of its kind.
type Tally struct {
	// Routers that used it in the last window, hold something of it or keep it by themselves, and Degraded of these,
	// which do the latter while the quota store is away.
	Routers, Degraded int
	// Held is leased to routers; InUse slots are taken by open requests; Owed was spent without the quota
	// store and is not charged yet.
	Held, InUse, Owed int64
	// UsedPerS is what is charged a second, refunds taken off, never below 0; the others are requests a second. All
	// are averages with a time constant of 15 s.
	UsedPerS, AdmittedPerS, DeniedPerS, WouldDenyPerS float64
	// Admitted, Denied and WouldDeny requests as far as this node has heard; forgotten ten minutes after
	// the limit was last spoken of.
	Admitted, Denied, WouldDeny uint64
}

// Limit is how one limit of an organisation stands, put together from all routers that are heard of.
type Limit struct {
	Organisation, ID string
	// Level is what the quota store had left when a router last asked, below 0 in debt. LevelAge ago was
	// that; -1: nobody has asked.
	Level    int64
	LevelAge time.Duration
	Tally
	// Regions tells the same of each region with such routers.
	Regions map[fleet.RegionID]Tally
}

// use is what one router said of one limit. It never changes.
type use struct {
	organisation, limit string
	// at is when the report came that spoke of it last, as last says; the averages are as of then.
	at   time.Time
	last *routerpb.QuotaSignal

	used, admitted, denied, wouldDeny          float64 // a second
	allAdmitted, allDenied, allWouldHaveDenied uint64
}

func (u use) compare(v use) int {
	return cmp.Or(cmp.Compare(u.organisation, v.organisation), cmp.Compare(u.limit, v.limit))
}

// uses are those of one router, by organisation and limit; the list is replaced, never written to.
type uses []use

// spoken joins what a report says with what was known. weight is that of the report in the averages.
func (old uses) spoken(r *routerpb.Report, at time.Time, weight float64) uses {
	said := saidOf(r, at)
	if len(said) == 0 && (len(old) == 0 || at.Sub(old[0].at) < forget) {
		return old // what has to be forgotten may wait for the first of the list
	}
	span := spanOf(r).Seconds()
	out := make(uses, 0, max(len(old), len(said)))
	for len(old) > 0 || len(said) > 0 {
		var order int
		switch {
		case len(said) == 0:
			order = -1
		case len(old) == 0:
			order = 1
		default:
			order = old[0].compare(said[0])
		}
		if order < 0 {
			if at.Sub(old[0].at) < forget {
				out = append(out, old[0])
			}
			old = old[1:]
			continue
		}
		next := said[0]
		said = said[1:]
		if order == 0 {
			next.follow(old[0])
			old = old[1:]
		}
		next.average(span, weight)
		out = append(out, next)
	}
	return out[:min(len(out), maxLimits)]
}

// saidOf lists what a report says, by organisation and limit, each once.
func saidOf(r *routerpb.Report, at time.Time) uses {
	quotas := r.GetQuotas()
	quotas = quotas[:min(len(quotas), maxLimits)]
	out := make(uses, 0, len(quotas))
	for _, q := range quotas {
		out = append(out, use{organisation: q.GetOrganisation(), limit: q.GetLimit(), at: at, last: q})
	}
	slices.SortStableFunc(out, use.compare)
	return slices.CompactFunc(out, func(a, b use) bool { return a.compare(b) == 0 })
}

// follow takes over what was known before: averages as they had fallen until this report.
func (u *use) follow(before use) {
	left := fallen(u.at.Sub(before.at))
	u.used, u.admitted = before.used*left, before.admitted*left
	u.denied, u.wouldDeny = before.denied*left, before.wouldDeny*left
	u.allAdmitted, u.allDenied, u.allWouldHaveDenied = before.allAdmitted, before.allDenied, before.allWouldHaveDenied
}

// average adds what was counted in a window of so many seconds.
func (u *use) average(span, weight float64) {
	q := u.last
	u.used += weight * float64(bounded(q.GetUsed())) / span
	u.admitted += weight * float64(q.GetAdmitted()) / span
	u.denied += weight * float64(q.GetDenied()) / span
	u.wouldDeny += weight * float64(q.GetWouldDeny()) / span
	u.allAdmitted = min(u.allAdmitted+min(q.GetAdmitted(), exact), exact)
	u.allDenied = min(u.allDenied+min(q.GetDenied(), exact), exact)
	u.allWouldHaveDenied = min(u.allWouldHaveDenied+min(q.GetWouldDeny(), exact), exact)
}

// fallen is what is left of an average after so long without any.
func fallen(passed time.Duration) float64 {
	return math.Exp(-max(passed.Seconds(), 0) / smoothing.Seconds())
}

func bounded(units int64) int64 { return min(max(units, -exact), exact) }

// tally is what one router says as of its last report. away: a quota store was, by that.
func (u use) tally(reported time.Time, away bool) Tally {
	left := fallen(reported.Sub(u.at))
	t := Tally{
		UsedPerS: u.used * left, AdmittedPerS: u.admitted * left, DeniedPerS: u.denied * left, WouldDenyPerS: u.wouldDeny * left,
		Admitted: u.allAdmitted, Denied: u.allDenied, WouldDeny: u.allWouldHaveDenied,
	}
	if u.at.Before(reported) {
		// It neither uses nor holds anything any more. That its store is back it would have said.
		if away && u.last.GetDegraded() {
			t.Routers, t.Degraded = 1, 1
		}
		return t
	}
	t.Routers = 1
	if u.last.GetDegraded() {
		t.Degraded = 1
	}
	t.Held, t.InUse, t.Owed = max(bounded(u.last.GetHeld()), 0), max(bounded(u.last.GetInUse()), 0), bounded(u.last.GetOwed())
	return t
}

func (t Tally) plus(o Tally) Tally {
	return Tally{
		Routers: t.Routers + o.Routers, Degraded: t.Degraded + o.Degraded,
		Held: bounded(t.Held + o.Held), InUse: bounded(t.InUse + o.InUse), Owed: bounded(t.Owed + o.Owed),
		UsedPerS: t.UsedPerS + o.UsedPerS, AdmittedPerS: t.AdmittedPerS + o.AdmittedPerS,
		DeniedPerS: t.DeniedPerS + o.DeniedPerS, WouldDenyPerS: t.WouldDenyPerS + o.WouldDenyPerS,
		Admitted: t.Admitted + o.Admitted, Denied: t.Denied + o.Denied, WouldDeny: t.WouldDeny + o.WouldDeny,
	}
}

// voice is what one router says of limits.
type voice struct {
	region   fleet.RegionID
	reported time.Time
	away     bool // it doesn't reach all quota stores
	uses     uses
}

// of gives what it says of an organisation.
func (v voice) of(organisation string) uses {
	compare := func(u use, o string) int { return cmp.Compare(u.organisation, o) }
	from, _ := slices.BinarySearchFunc(v.uses, organisation, compare)
	n := from
	for n < len(v.uses) && v.uses[n].organisation == organisation {
		n++
	}
	return v.uses[from:n]
}

// Organisations are those of which some router uses or holds something, or lately did; sorted.
func (s Snapshot) Organisations() []string {
	all := map[string]bool{}
	for _, v := range s.voices {
		for i, u := range v.uses {
			if i == 0 || u.organisation != v.uses[i-1].organisation {
				all[u.organisation] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Limits are those of an organisation that some router uses or holds something of, or lately did, by id.
func (s Snapshot) Limits(organisation string) []Limit {
	all := map[string]*Limit{}
	for _, v := range s.voices {
		for _, u := range v.of(organisation) {
			s.hear(all, u, v)
		}
	}
	return inOrder(all)
}

// AllLimits are the [Snapshot.Limits] of each organisation that has some: who wants those of many gets them at the price of a
// few.
func (s Snapshot) AllLimits() map[string][]Limit {
	of := map[string]map[string]*Limit{}
	for _, v := range s.voices {
		var all map[string]*Limit
		for i, u := range v.uses {
			if i == 0 || u.organisation != v.uses[i-1].organisation {
				if all = of[u.organisation]; all == nil {
					all = map[string]*Limit{}
					of[u.organisation] = all
				}
			}
			s.hear(all, u, v)
		}
	}
	out := make(map[string][]Limit, len(of))
	for organisation, all := range of {
		out[organisation] = inOrder(all)
	}
	return out
}

// hear adds what one router says of a limit to those of its organisation.
func (s Snapshot) hear(all map[string]*Limit, u use, v voice) {
	l := all[u.limit]
	if l == nil {
		l = &Limit{Organisation: u.organisation, ID: u.limit, LevelAge: -1, Regions: map[fleet.RegionID]Tally{}}
		all[u.limit] = l
	}
	l.hear(u, v, s.At)
}

// inOrder closes the sums of one organisation.
func inOrder(all map[string]*Limit) []Limit {
	out := make([]Limit, 0, len(all))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		l := all[id]
		l.UsedPerS = max(l.UsedPerS, 0)
		for region, t := range l.Regions {
			t.UsedPerS = max(t.UsedPerS, 0)
			l.Regions[region] = t
		}
		out = append(out, *l)
	}
	return out
}

// hear adds what one router says.
func (l *Limit) hear(u use, v voice, now time.Time) {
	t := u.tally(v.reported, v.away)
	l.Tally = l.plus(t)
	l.Regions[v.region] = l.Regions[v.region].plus(t)
	if u.last.GetLevelAgeMs() < 0 {
		return
	}
	age := max(now.Sub(u.at), 0) + milliseconds(u.last.GetLevelAgeMs())
	if l.LevelAge < 0 || age < l.LevelAge {
		l.Level, l.LevelAge = bounded(u.last.GetLevel()), age
	}
}
