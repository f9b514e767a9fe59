package failover

import (
	"fmt"
	"time"
)

// Outcome is what came of one request to a place, as far as the place is to blame.
type Outcome uint8

// The outcomes that a caller tells apart.
const (
	// OK: the place answered as it should.
	OK Outcome = iota
	// ConnectFailure: no connection came about.
	ConnectFailure
	// ServerFault: 5xx, a reset, a broken stream, a time-out after the first byte.
	ServerFault
	// Silence: connected, but no first byte within the learned bound.
	Silence
	// Ignored says nothing about the place: 429, the client left, our own deadline.
	Ignored
)

// EjectConfig says when a router stops using a place on its own evidence. Zero fields take the
// value of [DefaultEjectConfig].
type EjectConfig struct {
	// ConnectFailures in a row that eject.
	ConnectFailures int
	// FailureRatio, 0..1, of at least MinRequests within Window that ejects. Where so many don't come in a
	// Window, those of LongWindow are judged by each that fails; it is five Windows by default.
	FailureRatio       float64
	MinRequests        int
	Window, LongWindow time.Duration
	// Trial is how many canaries judge a place that fails in part, where one canary would mostly be
	// answered: two failures among as many convict a place that is accused, and all must be answered
	// to restore one that was ejected for what it answered. 1: the first canary decides.
	Trial int
	// Silences in a row that eject.
	Silences int
	// Reprobe is the time until an ejected place is tried again with one request; it doubles
	// with each attempt up to ReprobeMax.
	Reprobe, ReprobeMax time.Duration
}

// DefaultEjectConfig is the table of Anabranch's defaults: three connect failures in a row, or a
// fifth of at least twenty requests failing within two seconds, or ten, or five silences in a row;
// tried again after one second, doubling to a minute.
func DefaultEjectConfig() EjectConfig {
	return EjectConfig{
		ConnectFailures: 3,
		FailureRatio:    0.2,
		MinRequests:     20,
		Window:          2 * time.Second,
		LongWindow:      10 * time.Second,
		Trial:           12,
		Silences:        5,
		Reprobe:         time.Second,
		ReprobeMax:      time.Minute,
	}
}

// WithDefaults gives a copy whose zero fields hold the defaults.
func (c EjectConfig) WithDefaults() EjectConfig {
	d := DefaultEjectConfig()
	if c.ConnectFailures <= 0 {
		c.ConnectFailures = d.ConnectFailures
	}
	if c.FailureRatio <= 0 {
		c.FailureRatio = d.FailureRatio
	}
	if c.MinRequests <= 0 {
		c.MinRequests = d.MinRequests
	}
	if c.Window <= 0 {
		c.Window = d.Window
	}
	if c.LongWindow <= 0 {
		c.LongWindow = 5 * c.Window
	}
	if c.Trial <= 0 {
		c.Trial = d.Trial
	}
	if c.Silences <= 0 {
		c.Silences = d.Silences
	}
	if c.Reprobe <= 0 {
		c.Reprobe = d.Reprobe
	}
	if c.ReprobeMax < c.Reprobe {
		c.ReprobeMax = max(d.ReprobeMax, c.Reprobe)
	}
	return c
}

// slots is into how many parts a window is divided: outcomes leave it a part at a time, so that
// it covers between 7/8 and the whole of its length.
const slots = 8

type tally struct{ all, failed uint32 }

// window counts the outcomes of a length of time.
type window struct {
	newest int64
	parts  [slots]tally
}

func (w *window) count(failed bool, length time.Duration, now time.Time) tally {
	at := now.UnixNano() / max(int64(length)/slots, 1)
	if at > w.newest {
		for i := max(w.newest+1, at-slots+1); i <= at; i++ {
			w.parts[i%slots] = tally{}
		}
		w.newest = at
	}
	part := &w.parts[w.newest%slots]
	part.all++
	if failed {
		part.failed++
	}
	var sum tally
	for _, t := range w.parts {
		sum.all += t.all
		sum.failed += t.failed
	}
	return sum
}

// fault is what an ejected place is at fault with.
type fault uint8

const (
	refuses fault = iota // connections
	silent               // answers nothing
	partly               // fails what it answers, or some of it, so that one answer proves nothing
)

// Ejector is one router's judgement of one place, be it an endpoint, a cluster or a peer. It is a
// value: every method that changes it returns the new one, and it holds no lock. The zero Ejector
// is a place in use that nothing is known of.
type Ejector struct {
	ejected  bool
	fault    fault // of the last ejection
	accused  bool  // in use, and tried by canaries
	probing  bool
	connects int // connect failures in a row
	silences int // silences in a row
	answered int // canaries of the trial
	failed   int // canaries of the trial
	brief    window
	long     window
	since    time.Time
	restored time.Time
	due      time.Time
	interval time.Duration // between the last probe and the next, before jitter
	limit    time.Duration // of interval
	reason   string
}

// Record takes in the outcome of one request. While the place is ejected only the outcome of a
// probe counts: requests that began before the ejection still end, well or badly, and say nothing
// new. A probe that succeeds restores the place; where it failed in part, Trial of them in a row do.
func (e Ejector) Record(o Outcome, cfg EjectConfig, now time.Time) Ejector {
	if o == Ignored {
		return e
	}
	cfg = cfg.WithDefaults()
	if e.ejected {
		return e.heard(o, cfg, now)
	}
	bad := o != OK
	brief, long := e.brief.count(bad, cfg.Window, now), e.long.count(bad, cfg.LongWindow, now)
	switch o {
	case OK:
		e.connects, e.silences = 0, 0
	case ConnectFailure:
		e.connects++
	case Silence:
		e.silences++
	case ServerFault, Ignored:
	}
	switch {
	case e.connects >= cfg.ConnectFailures:
		e = e.eject(refuses, cfg, now)
		e.reason = fmt.Sprintf("%d connect failures in a row", e.connects)
	case e.silences >= cfg.Silences:
		e = e.eject(silent, cfg, now)
		e.reason = fmt.Sprintf("no first byte from %d requests in a row", e.silences)
	case tooMany(brief, cfg):
		e = e.eject(partly, cfg, now)
		e.reason = fmt.Sprintf("%d of %d requests failed in %s", brief.failed, brief.all, cfg.Window)
	case bad && tooMany(long, cfg):
		e = e.eject(partly, cfg, now)
		e.reason = fmt.Sprintf("%d of %d requests failed in %s", long.failed, long.all, cfg.LongWindow)
	}
	return e
}

func tooMany(t tally, cfg EjectConfig) bool {
	return int(t.all) >= cfg.MinRequests && float64(t.failed) >= cfg.FailureRatio*float64(t.all)
}

// heard takes in what came of a probe of an ejected place.
func (e Ejector) heard(o Outcome, cfg EjectConfig, now time.Time) Ejector {
	switch {
	case !e.probing:
		return e
	case o != OK:
		e.probing, e.answered = false, 0
		return e
	}
	if e.answered++; e.fault == partly && e.answered < cfg.Trial {
		e.probing, e.due = false, now
		return e
	}
	return e.Restore(now)
}

// Accuse has the place tried by canaries: requests fail as they would for an ejection, but they may be what
// is wrong. An ejected place stays as it is.
func (e Ejector) Accuse() Ejector {
	e.accused = !e.ejected
	return e
}

// Accused says whether canaries should try the place.
func (e Ejector) Accused() bool { return e.accused }

// Tried takes in the outcome of a canary of an accused place. The second that fails ejects it; as many as
// Trial without that acquit it, and what its requests came to is forgotten.
//
// With 12, a place that fails three in ten is acquitted once in 12 trials and one that fails half of what it
// gets once in 300; one that fails one in a hundred is convicted once in 160 (binomial).
func (e Ejector) Tried(o Outcome, cfg EjectConfig, now time.Time) Ejector {
	if !e.accused || o == Ignored {
		return e
	}
	cfg = cfg.WithDefaults()
	if e.answered++; o != OK {
		e.failed++
	}
	switch {
	case e.failed >= min(2, cfg.Trial):
		n, of := e.failed, e.answered
		e = e.eject(partly, cfg, now)
		e.reason = fmt.Sprintf("requests fail, and so do %d of %d canaries", n, of)
	case e.answered >= cfg.Trial:
		return Ejector{restored: e.restored, interval: e.interval, fault: e.fault}
	}
	return e
}

// Eject ejects the place on evidence from outside, such as an operator's order; a probe restores
// it as usual. An ejected place stays as it is.
func (e Ejector) Eject(reason string, cfg EjectConfig, now time.Time) Ejector {
	if e.ejected {
		return e
	}
	e = e.eject(refuses, cfg.WithDefaults(), now)
	e.reason = reason
	return e
}

// EjectPartly ejects a place for what it answers: it may answer the next probe and fail the one after, so that
// only Trial of them in a row restore it. An ejected place stays as it is.
func (e Ejector) EjectPartly(reason string, cfg EjectConfig, now time.Time) Ejector {
	if e.ejected {
		return e
	}
	e = e.eject(partly, cfg.WithDefaults(), now)
	e.reason = reason
	return e
}

// Ejected says whether the router should send nothing but probes there, and why.
func (e Ejector) Ejected() (ejected bool, reason string) { return e.ejected, e.reason }

// Since is when the place was ejected, or zero while it is in use.
func (e Ejector) Since() time.Time { return e.since }

// ProbeDue says whether one request should try the ejected place now.
func (e Ejector) ProbeDue(now time.Time) bool { return e.ejected && !now.Before(e.due) }

// ProbeStarted notes that a probe is on its way and sets when the next is due if nothing is heard
// of this one. rnd in [0,1) spreads probes of many routers by ± 50 %.
func (e Ejector) ProbeStarted(now time.Time, rnd float64) Ejector {
	if !e.ejected {
		return e
	}
	e.probing = true
	if e.answered == 0 { // the first of a trial
		e.interval = min(2*e.interval, e.limit)
	}
	rnd = min(max(rnd, 0), 1)
	e.due = now.Add(time.Duration((0.5 + rnd) * float64(e.interval)))
	return e
}

// Restore puts the place back into use with an empty memory, save for how long it was probed: a
// place that answers a probe and then fails again for what it answers is probed at the slower pace
// it had reached, so that a grey failure is not let in anew each second.
func (e Ejector) Restore(now time.Time) Ejector {
	if !e.ejected {
		return e
	}
	return Ejector{restored: now, interval: e.interval, fault: e.fault}
}

func (e Ejector) eject(f fault, cfg EjectConfig, now time.Time) Ejector {
	interval := cfg.Reprobe
	if f != refuses && e.fault != refuses && now.Sub(e.restored) < cfg.ReprobeMax {
		interval = min(max(e.interval, cfg.Reprobe), cfg.ReprobeMax)
	}
	e.ejected, e.fault, e.probing, e.accused = true, f, false, false
	e.answered, e.failed = 0, 0
	e.since, e.interval, e.limit = now, interval, cfg.ReprobeMax
	e.due = now.Add(interval)
	return e
}
