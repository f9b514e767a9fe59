package plan

import (
	"fmt"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/signal"
)

const (
	// outlookMinutes is how far back demand is remembered.
	outlookMinutes = 60
	// riseOver is the time over which a rise is measured, and replicaTakes how long it is taken to go on: until
	// a replica that is asked for now has loaded its model.
	riseOver     = 5 * time.Minute
	replicaTakes = 2 * time.Minute
	// mostRise bounds what a rise adds, as a part of the demand of now.
	mostRise = 0.5
	// mostStreams bounds what is remembered.
	mostStreams = 100_000
)

// Bases of what is counted with.
const (
	BasisNow  = "now"
	BasisRise = "now-and-rise"
	BasisPeak = "peak-of-last-hour"
)

// DemandOutlook is what is asked for, in work units per second.
type DemandOutlook struct {
	// NowPerS is the demand of now, smoothed over 15 s. RisePerS is what comes on top in the two minutes that a
	// replica takes to start, if it rises on as in the last five; it is never below 0.
	NowPerS  float64 `json:"nowPerS"`
	RisePerS float64 `json:"risePerS"`
	// PeakPerS is the largest of the last hour, as far as this node has watched: the sum of the largest of
	// each class and region.
	PeakPerS float64 `json:"peakPerS"`
	// CountedPerS is what replicas are wanted for, and Basis how it is found.
	CountedPerS float64 `json:"countedPerS"`
	Basis       string  `json:"basis"`
}

// Outlook remembers the demand of the last hour. The zero Outlook is ready for use, by one goroutine.
type Outlook struct {
	streams map[demandID]*past
	// heard is when each region was last fresh.
	heard map[fleet.RegionID]time.Time
}

// demandID is one demand.
type demandID struct {
	model  fleet.ModelID
	class  fleet.ClassID
	source fleet.RegionID
}

// past is a demand minute by minute, the oldest first.
type past []minute

type minute struct {
	at           time.Time // its beginning
	sum, n, peak float64
}

// See takes in the demand of now. Regions that are not fresh say nothing new.
func (o *Outlook) See(in Input) {
	if o.streams == nil {
		o.streams, o.heard = map[demandID]*past{}, map[fleet.RegionID]time.Time{}
	}
	in.Previous = nil
	w := survey(in)
	for _, r := range w.regionIDs {
		if in.Signals.Region(r).Freshness == signal.Fresh {
			o.heard[r] = in.Now
		}
	}
	for r, at := range o.heard {
		if in.Now.Sub(at) > outlookMinutes*time.Minute || w.regions[r] == nil {
			delete(o.heard, r)
		}
	}
	for _, d := range w.demands(in) {
		key := demandID{d.model, d.class, d.source}
		p := o.streams[key]
		if o.heard[d.source] != in.Now || p == nil && (d.work <= 0 || len(o.streams) >= mostStreams) {
			continue
		}
		if p == nil {
			p = &past{}
			o.streams[key] = p
		}
		p.see(in.Now, d.work)
	}
	for key, p := range o.streams {
		*p = p.since(in.Now.Add(-outlookMinutes * time.Minute))
		if !slices.ContainsFunc(*p, func(m minute) bool { return m.peak > 0 }) {
			delete(o.streams, key)
		}
	}
}

func (p *past) see(now time.Time, work float64) {
	begun := now.Truncate(time.Minute)
	if n := len(*p); n == 0 || (*p)[n-1].at.Before(begun) {
		*p = append(*p, minute{at: begun})
	}
	last := &(*p)[len(*p)-1]
	last.sum, last.n, last.peak = last.sum+work, last.n+1, max(last.peak, work)
}

// since leaves out minutes that ended by a time.
func (p past) since(start time.Time) past {
	i := 0
	for i < len(p) && !p[i].at.Add(time.Minute).After(start) {
		i++
	}
	return p[i:]
}

// of tells what is known of one demand that asks for so much now. Of nil that is all.
func (o *Outlook) of(key demandID, now float64, at time.Time, peak bool) DemandOutlook {
	out := DemandOutlook{NowPerS: now, PeakPerS: now, CountedPerS: now, Basis: BasisNow}
	if o != nil {
		out.Basis = BasisRise
		if p := o.streams[key]; p != nil {
			for _, m := range *p {
				out.PeakPerS = max(out.PeakPerS, m.peak)
			}
			out.RisePerS = min(p.rise(at), mostRise*now)
		}
		out.CountedPerS += out.RisePerS
	}
	if peak {
		out.CountedPerS, out.Basis = max(out.PeakPerS, now), BasisPeak
	}
	return out
}

// rise is by how much a demand would rise while a replica starts: as it did from minute to minute, by the middle
// one of the last steps, so that a jump is no rise. 0 while it falls, or too little is known.
func (p past) rise(now time.Time) float64 {
	recent := p.since(now.Add(-riseOver))
	if len(recent) < 4 {
		return 0
	}
	var steps []float64
	for i := range len(recent) - 1 {
		a, b := recent[i], recent[i+1]
		steps = append(steps, (b.sum/b.n-a.sum/a.n)/b.at.Sub(a.at).Minutes())
	}
	slices.Sort(steps)
	return max(steps[len(steps)/2]*replicaTakes.Minutes(), 0)
}

// held says why nothing may be lowered: a region that was heard is silent, or none was heard at all, so that
// what is asked for is not known.
func (in Input) held(o *Outlook) string {
	fresh := false
	for _, r := range in.silentOf(o) {
		return fmt.Sprintf("no fresh report from %s: what its clients ask for is not known", r)
	}
	for _, r := range in.Signals.Routers {
		fresh = fresh || r.Freshness(in.Now) == signal.Fresh
	}
	if !fresh {
		return "no router reports: what clients ask for is not known"
	}
	return ""
}

// silentOf are the regions that were heard within the hour, or have a router that nobody has forgotten, and are
// not fresh; sorted.
func (in Input) silentOf(o *Outlook) []fleet.RegionID {
	known := map[fleet.RegionID]bool{}
	if o != nil {
		for r := range o.heard {
			known[r] = true
		}
	}
	for _, r := range in.Signals.Routers {
		known[r.Region()] = true
	}
	var out []fleet.RegionID
	for _, r := range in.silent() {
		if known[r] {
			out = append(out, r)
		}
	}
	return out
}
