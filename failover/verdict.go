package failover

import (
	"fmt"
	"time"

	"anabranch/api/fleet"
)

// verdict is what all witnesses together say at one moment.
type verdict struct {
	hard    bool // enough witnesses hold the cluster for dead
	grey    bool // it answers, but fails too often
	suspect bool // something is amiss: no more growth
	good    bool // a router of its own region finds it usable, and requests there succeed
	full    bool // too full or too slow
	eased   bool // has room again
	split   bool // as many first-hand witnesses, or without them remote ones, say this as that
	ready   float64
	why     string // of hard, grey or suspect
	strain  string // of full
}

// witnesses sorts the fresh sights by what they say.
type witnesses struct {
	own, ownDown        int // routers of its region, and of them those that find it unusable
	ownReason           string
	ownSilent           int // routers of its region that were heard once and have fallen silent
	remote, remoteEject int // other routers with an opinion, and of them those that eject it
	regions             map[fleet.RegionID]bool
	remoteReason        string
	saturation          float64
	ttft                time.Duration
	ready               float64 // share of endpoints
	requests, failures  uint64
}

func gather(in Evidence, cfg Config) witnesses {
	w := witnesses{regions: map[fleet.RegionID]bool{}}
	for _, s := range in.Sights {
		if s.Age < 0 || s.Age > cfg.Silence {
			if s.Own {
				w.ownSilent++
			}
			continue
		}
		w.requests += s.Requests
		w.failures += s.Failures
		if s.Own {
			w.hearOwn(s)
			continue
		}
		if s.Ejected || s.Requests > 0 {
			w.remote++
		}
		if s.Ejected {
			w.remoteEject++
			w.regions[s.Region] = true
			w.remoteReason = s.Reason
		}
	}
	return w
}

// hearOwn weighs a router of the cluster's own region, which reaches the endpoints without a third
// party between: it need not be confirmed by others when it finds none of them usable.
func (w *witnesses) hearOwn(s Sight) {
	w.own++
	switch {
	case s.Ejected:
		w.ownDown++
		w.ownReason = s.Reason
	case s.Scraped && s.Total > 0 && s.Ready == 0:
		w.ownDown++
		w.ownReason = fmt.Sprintf("none of %d endpoints is usable", s.Total)
	}
	switch {
	case !s.Scraped || s.Total == 0:
		if !s.Ejected { // without metrics, what it answers is all there is to go by
			w.ready = 1
		}
	default:
		w.ready = max(w.ready, float64(s.Ready)/float64(s.Total))
		w.saturation = max(w.saturation, s.Saturation)
	}
	w.ttft = max(w.ttft, s.TTFTP95)
}

// judge applies the rules of evidence; DESIGN.md argues for them.
func judge(in Evidence, cfg Config) verdict {
	w := gather(in, cfg)
	v := verdict{ready: w.ready}
	usable := w.own > 0 && 2*w.ownDown <= w.own && w.ready > 0
	twoThirds := w.remoteEject >= 2 && len(w.regions) >= 2 && 3*w.remoteEject >= 2*w.remote
	remotes := fmt.Sprintf("%d of %d remote observers eject it: %s", w.remoteEject, w.remote, w.remoteReason)
	switch {
	case w.own > 0 && 2*w.ownDown > w.own:
		v.hard = true
		v.why = fmt.Sprintf("%d of %d routers of its region: %s", w.ownDown, w.own, w.ownReason)
	case !usable && twoThirds:
		v.hard, v.why = true, remotes
	case w.own == 0 && w.regions[""] && w.remoteEject == w.remote: // a node of the control plane, which is of no region
		v.hard, v.why = true, "its region is silent and "+remotes
	case w.own == 0 && w.remoteEject > 0 && w.remoteEject == w.remote:
		// One region's word on another is either's fault, or that of the way between them.
		v.suspect, v.why = true, "its region is silent and "+remotes+"; no witness outside of both says so"
	case w.ownDown > 0:
		v.suspect = true
		v.why = fmt.Sprintf("%d of %d routers of its region: %s", w.ownDown, w.own, w.ownReason)
	case w.remoteEject >= 2:
		v.suspect, v.why = true, remotes
		if usable {
			v.why += "; its own region finds it usable, so the path may be at fault"
		}
	case w.own == 0 && w.ownSilent > 0: // one that was never heard may not know the cluster yet
		v.suspect = true
		v.why = fmt.Sprintf("no router of its region has reported for %s", cfg.Silence)
	}
	v.split = w.own > 0 && 2*w.ownDown == w.own || w.own == 0 && w.remote > 0 && 2*w.remoteEject == w.remote
	if v.split && !v.hard {
		v.suspect = true
	}
	if !v.hard && w.requests >= cfg.GreyRequests && float64(w.failures) >= cfg.GreyShare*float64(w.requests) {
		v.grey, v.suspect = true, true
		v.why = fmt.Sprintf("%d of the last %d requests failed", w.failures, w.requests)
	}
	v.suspect = v.suspect || v.hard
	failing := w.requests > 0 && float64(w.failures) >= cfg.FailureShare*float64(w.requests)
	v.good = usable && !v.hard && !v.grey && !failing
	slow := in.Objective > 0 && w.ttft > time.Duration(cfg.TTFTFactor*float64(in.Objective))
	switch {
	case w.saturation > cfg.Full:
		v.full, v.strain = true, fmt.Sprintf("saturation %.2f is above %.2f", w.saturation, cfg.Full)
	case slow:
		v.full, v.strain = true, fmt.Sprintf("first token p95 of %s is over %.1f times the objective of %s",
			w.ttft.Round(time.Millisecond), cfg.TTFTFactor, in.Objective)
	}
	v.eased = w.own > 0 && w.saturation < cfg.Ease && !slow
	return v
}
