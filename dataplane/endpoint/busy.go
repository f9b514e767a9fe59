package endpoint

import (
	"sync/atomic"
	"time"

	"anabranch/dataplane/pick"
)

// How long a place that has no room is left alone: as long as it says, within a bound, or for a
// moment if it does not say. A server that refuses has little to do and would look the best of all.
const (
	busyFor    = time.Second
	busyAtMost = 30 * time.Second
)

// busy is until when a place wants no more, as it said, in Unix ns.
type busy struct{ until atomic.Int64 }

// backOff leaves the place alone for as long as it asked for; 0: it did not say.
func (b *busy) backOff(d time.Duration, now time.Time) {
	if d <= 0 {
		d = busyFor
	}
	until := now.Add(min(d, busyAtMost)).UnixNano()
	for {
		old := b.until.Load()
		if old >= until || b.until.CompareAndSwap(old, until) {
			return
		}
	}
}

func (b *busy) is(now time.Time) bool { return now.UnixNano() < b.until.Load() }

// Busy says whether the endpoint has answered lately that it has no room. It is used only where no
// other is left. That is no ejection: it says nothing about its health.
func (e *Endpoint) Busy(now time.Time) bool { return e.busy.is(now) }

// Busy says whether the cluster has no room, as it said: in another region by its router, here by
// each endpoint that is in use.
func (c *Cluster) Busy(now time.Time) bool {
	if c.Remote {
		return c.busy.is(now)
	}
	some := false
	for _, e := range c.Endpoints() {
		if out, _ := e.Ejected(); out {
			continue
		}
		if !e.Busy(now) {
			return false
		}
		some = true
	}
	return some
}

// flows notes a sign that tokens flow.
func (e *Endpoint) flows(now time.Time) {
	e.progress.Store(now.UnixNano())
	e.flowed.Store(now.UnixNano())
	e.hung.Store(false)
}

// Doubtful says whether one more request would probably wait for nothing: one has, with no token of
// any since, or requests are there of which none has shown anything for longer than a first token is
// expected to take. What is expected counts from a quarter up to half of the silence that is never
// judged sooner.
func (e *Endpoint) Doubtful(l *Load, now time.Time) bool {
	if e.hung.Load() {
		return true
	}
	silent := e.silent(now)
	if silent < e.floor()/4 {
		return false
	}
	c := e.Candidate(l, now)
	expected := seconds(pick.Predict(pick.Request{PromptTokens: l.PromptTokens}, &c))
	return silent >= min(expected, e.floor()/2)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
