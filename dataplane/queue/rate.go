package queue

import (
	"math"
	"time"
)

// rateMemory is how long past service counts for the rate, as a time constant.
const rateMemory = 10 * time.Second

// rate is the service that a lane gets, in tokens per second of the time in which something waited
// there: only then is what is let in the measure of what there is room for.
type rate struct {
	cost, seconds float64 // both fade
	at            time.Time
	running       bool
}

// start says that something waits from now on, stop that nothing does.
func (r *rate) start(now time.Time) { r.at, r.running = now, true }

func (r *rate) stop(now time.Time) {
	r.advance(now)
	r.running = false
}

// served counts a request that was let in, as if it had been served evenly since the one before.
func (r *rate) served(cost int64, now time.Time) { r.cost += float64(cost) * r.advance(now) }

// advance lets what is known fade until now, and answers how much of something that went on evenly
// since the last time has faded, as a factor.
func (r *rate) advance(now time.Time) float64 {
	if !r.running || !now.After(r.at) {
		return 1
	}
	past := now.Sub(r.at).Seconds() / rateMemory.Seconds()
	fade := math.Exp(-past)
	r.cost *= fade
	r.seconds = r.seconds*fade + rateMemory.Seconds()*(1-fade)
	r.at = now
	return (1 - fade) / past
}

// wait estimates how long it takes until a request has been served that costs so much and has so
// much before it. Where less than that was served so far, it is assumed that one like it would have
// been next. 0: nothing is known.
func (r rate) wait(ahead, cost int64, now time.Time) time.Duration {
	r.advance(now)
	cost = min(max(cost, 1), maxCost)
	seconds := float64(ahead+cost) * r.seconds / max(r.cost, float64(cost))
	return time.Duration(min(seconds, 1e6) * float64(time.Second))
}
