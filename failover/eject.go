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
	// FailureRatio, 0..1, of at least MinRequests within Window that ejects.
	FailureRatio float64
	MinRequests  int
	Window       time.Duration
	// Silences in a row that eject.
	Silences int
	// Reprobe is the time until an ejected place is tried again with one request; it doubles
	// with each attempt up to ReprobeMax.
	Reprobe, ReprobeMax time.Duration
}

// DefaultEjectConfig is the table of Anabranch's defaults: three connect failures in a row, or a
// fifth of at least twenty requests failing within two seconds, or five silences in a row;
// tried again after one second, doubling to a minute.
func DefaultEjectConfig() EjectConfig {
	return EjectConfig{
		ConnectFailures: 3,
		FailureRatio:    0.2,
		MinRequests:     20,
		Window:          2 * time.Second,
		Silences:        5,
		Reprobe:         time.Second,
		ReprobeMax:      time.Minute,
	}
}

func (c EjectConfig) withDefaults() EjectConfig {
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

// slots is into how many parts the window is divided: outcomes leave it a part at a time, so that
// it covers between 7/8 and the whole of EjectConfig.Window.
const slots = 8

type tally struct{ all, failed uint32 }

// Ejector is one router's judgement of one place, be it an endpoint, a cluster or a peer. It is a
// value: every method that changes it returns the new one, and it holds no lock. The zero Ejector
// is a place in use that nothing is known of.
type Ejector struct {
	ejected  bool
	grey     bool // ejected for what it answered, not for refusing connections
	probing  bool
	connects int // connect failures in a row
	silences int // silences in a row
	newest   int64
	window   [slots]tally
	since    time.Time
	restored time.Time
	due      time.Time
	interval time.Duration // between the last probe and the next, before jitter
	limit    time.Duration // of interval
	reason   string
}

// Record takes in the outcome of one request. While the place is ejected only the outcome of a
// probe counts: requests that began before the ejection still end, well or badly, and say nothing
// new. A probe that succeeds restores the place.
func (e Ejector) Record(o Outcome, cfg EjectConfig, now time.Time) Ejector {
	if o == Ignored {
		return e
	}
	if e.ejected {
		switch {
		case !e.probing:
		case o == OK:
			return e.Restore(now)
		default:
			e.probing = false
		}
		return e
	}
	cfg = cfg.withDefaults()
	e = e.count(o, cfg.Window, now)
	switch o {
	case OK:
		e.connects, e.silences = 0, 0
	case ConnectFailure:
		e.connects++
	case Silence:
		e.silences++
	case ServerFault, Ignored:
	}
	sum := e.sum()
	switch {
	case e.connects >= cfg.ConnectFailures:
		e = e.eject(false, cfg, now)
		e.reason = fmt.Sprintf("%d connect failures in a row", e.connects)
	case e.silences >= cfg.Silences:
		e = e.eject(true, cfg, now)
		e.reason = fmt.Sprintf("no first byte from %d requests in a row", e.silences)
	case int(sum.all) >= cfg.MinRequests && float64(sum.failed) >= cfg.FailureRatio*float64(sum.all):
		e = e.eject(true, cfg, now)
		e.reason = fmt.Sprintf("%d of %d requests failed in %s", sum.failed, sum.all, cfg.Window)
	}
	return e
}

// Eject ejects the place on evidence from outside, such as an operator's order; a probe restores
// it as usual. An ejected place stays as it is.
func (e Ejector) Eject(reason string, cfg EjectConfig, now time.Time) Ejector {
	if e.ejected {
		return e
	}
	e = e.eject(false, cfg.withDefaults(), now)
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
	e.interval = min(2*e.interval, e.limit)
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
	return Ejector{restored: now, interval: e.interval, grey: e.grey}
}

func (e Ejector) eject(grey bool, cfg EjectConfig, now time.Time) Ejector {
	interval := cfg.Reprobe
	if grey && e.grey && now.Sub(e.restored) < cfg.ReprobeMax {
		interval = min(max(e.interval, cfg.Reprobe), cfg.ReprobeMax)
	}
	e.ejected, e.grey, e.probing = true, grey, false
	e.since, e.interval, e.limit = now, interval, cfg.ReprobeMax
	e.due = now.Add(interval)
	return e
}

func (e Ejector) count(o Outcome, window time.Duration, now time.Time) Ejector {
	at := now.UnixNano() / max(int64(window)/slots, 1)
	if at > e.newest {
		for i := max(e.newest+1, at-slots+1); i <= at; i++ {
			e.window[i%slots] = tally{}
		}
		e.newest = at
	}
	slot := &e.window[e.newest%slots]
	slot.all++
	if o != OK {
		slot.failed++
	}
	return e
}

func (e Ejector) sum() tally {
	var s tally
	for _, t := range e.window {
		s.all += t.all
		s.failed += t.failed
	}
	return s
}
