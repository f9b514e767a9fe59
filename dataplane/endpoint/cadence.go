package endpoint

import (
	"math"
	"time"
)

// cadence decides when a page of metrics is worth reading again: the sooner the more has changed
// since the last time, within what that costs this router and the server.
type cadence struct {
	// shortest and longest pause.
	shortest, longest time.Duration

	rate float64 // changes per second, smoothed
}

const (
	// besidePause is the most between scrapes of a place where requests are.
	besidePause = 250 * time.Millisecond
	// poolPause is the least between scrapes of a gateway's pool metrics, which it refreshes every
	// few seconds.
	poolPause = 250 * time.Millisecond
	// missedChanges is how many requests may come or go between two scrapes.
	missedChanges = 2.0
	// scrapeShare of one core is what all scrapes together may take of this machine, and makingShare
	// what making a page may take of the server's time: one in Python takes it some milliseconds.
	// Neither makes a pause longer than latestPause, after which signals would be stale.
	scrapeShare = 0.1
	makingShare = 0.1
	latestPause = 1500 * time.Millisecond
	// leastCost is what a scrape costs at the least, for connections and parsing.
	leastCost = 100 * time.Microsecond
)

// scraped is what one scrape found for the cadence.
type scraped struct {
	elapsed time.Duration // since the one before
	changes float64       // requests that came and went since, own or not
	there   float64       // requests there, own or not
	waiting float64       // of these, queued
	making  time.Duration // until the page began to come
	cost    time.Duration // of reading it here
	places  int           // that are scraped by this router
}

// pause is how long to wait until the next scrape.
func (c *cadence) pause(x scraped) time.Duration {
	if x.elapsed > 0 {
		c.rate += (x.changes/x.elapsed.Seconds() - c.rate) / 2
	}
	d := c.longest
	if x.there > 0 {
		d = min(d, besidePause)
	}
	if c.rate > 0 {
		d = min(d, time.Duration(math.Min(missedChanges/c.rate, d.Seconds())*float64(time.Second)))
	}
	if x.waiting > 0 {
		d = min(d, c.shortest)
	}
	return max(d, c.least(x))
}

// least is the pause that the costs demand.
func (c *cadence) least(x scraped) time.Duration {
	least := max(c.share(max(x.cost, leastCost), x.places), time.Duration(float64(x.making)/makingShare))
	return max(min(least, max(latestPause, c.longest)), c.shortest)
}

// share is the pause in which scrapes of so many places, at such a cost each, take what they may.
func (c *cadence) share(cost time.Duration, places int) time.Duration {
	return min(time.Duration(float64(cost)*float64(places)/scrapeShare), max(latestPause, c.longest))
}
