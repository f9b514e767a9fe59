package endpoint

import (
	"context"
	"errors"
	"math"
	"time"

	"anabranch/api/exposition"
	"anabranch/dataplane/table"
)

const (
	// pagelessPause lies between looks for metrics at a place that has none.
	pagelessPause = 30 * time.Second
	// doubtPause is the least between doubts for the same page that can't be read: its place has
	// answered canaries since.
	doubtPause = 10 * time.Second
)

// scraper follows one endpoint's metrics.
type scraper struct {
	r       *Registry
	e       *Endpoint
	cadence cadence
	try     int       // which of the paths
	missing int       // paths in a row without a page
	last    time.Time // of the scrape before
	turned  uint64    // own requests begun and ended by then
	there   float64   // requests there by its page
	least   time.Duration
}

// scrape follows an endpoint's metrics until ctx ends. A request that comes to a place that is
// seldom looked at brings the next look forward.
func (r *Registry) scrape(ctx context.Context, e *Endpoint) {
	s := &scraper{r: r, e: e, cadence: cadence{shortest: r.opt.ScrapeBusy, longest: r.opt.ScrapeIdle}}
	if e.Cluster.Spec().Kind == table.KindGateway {
		s.cadence.shortest = max(s.cadence.shortest, poolPause)
	}
	// A thousand places of a first table are not all looked at in the same moment: what comes late for
	// want of a free core would put its place in doubt.
	timer := time.NewTimer(time.Duration(r.opt.Random() * float64(s.cadence.share(leastCost, int(r.places.Load())))))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
			timer.Reset(s.least)
			continue
		case <-timer.C:
		}
		pause := s.once(ctx)
		if ctx.Err() != nil {
			return
		}
		e.suspect(r.opt.Now())
		e.dozing.Store(pause > besidePause && s.missing == 0)
		timer.Reset(time.Duration((0.9 + 0.2*r.opt.Random()) * float64(pause))) // so that they spread
	}
}

// once reads the page and says how long to wait until the next time.
func (s *scraper) once(ctx context.Context) time.Duration {
	e, now := s.e, s.r.opt.Now()
	url := e.pageURL(s.try)
	if url == "" {
		return s.cadence.longest
	}
	if s.missing >= len(exposition.Paths) && now.Sub(s.last) < pagelessPause {
		return s.cadence.longest
	}
	signals, cost, err := s.r.fetch(ctx, e, url)
	switch {
	case ctx.Err() != nil:
		return 0
	case errors.Is(err, errNoPage):
		s.r.opt.Scraped(e.Cluster.ID, 0, "no_page")
		return s.none(url, now)
	case err != nil:
		s.r.opt.Scraped(e.Cluster.ID, 0, "error")
		return s.failed(err, now)
	}
	s.r.opt.Scraped(e.Cluster.ID, s.r.opt.Now().Sub(now), "")
	return s.got(signals, cost)
}

// none notes that a place has no page where it was looked for. It is asked elsewhere, and then
// rarely.
func (s *scraper) none(url string, now time.Time) time.Duration {
	s.last, s.e.watch.failing = now, time.Time{}
	s.e.unseen(now)
	s.try++
	if s.missing++; s.missing < len(exposition.Paths) {
		return s.cadence.shortest
	}
	if s.missing == len(exposition.Paths) {
		s.r.log.Info("no metrics found", "cluster", s.e.Cluster.ID, "endpoint", s.e.ID, "url", url)
	}
	s.e.pageless.Store(true)
	return s.cadence.longest
}

func (s *scraper) failed(err error, now time.Time) time.Duration {
	if e := s.e; e.missed(now) {
		s.r.log.Info("scrape stopped working", "cluster", e.Cluster.ID, "endpoint", e.ID, "error", err)
	}
	return s.cadence.longest
}

// got takes in a page.
func (s *scraper) got(x *Signals, cost costs) time.Duration {
	e := s.e
	if e.took(x) {
		s.r.log.Info("scrape works again", "cluster", e.Cluster.ID, "endpoint", e.ID)
	}
	s.missing = 0

	turned := e.begun.Load() + e.ended.Load()
	there := x.Waiting + x.Running
	seen := scraped{
		changes: max(float64(turned-s.turned), math.Abs(there-s.there)),
		there:   max(there, float64(e.inFlight.Load())), waiting: x.Waiting,
		making: cost.making, cost: cost.reading, places: int(s.r.places.Load()),
	}
	if !s.last.IsZero() {
		seen.elapsed = x.At.Sub(s.last)
	}
	s.last, s.turned, s.there = x.At, turned, there
	s.least = s.cadence.least(seen)
	return s.cadence.pause(seen)
}

// mix is what has been learned of requests to the endpoint, of the first of its models that
// anything has been learned of.
func (e *Endpoint) mix() Learned {
	for _, m := range e.Cluster.Spec().Models {
		if r := e.rates.of(m); r != nil {
			if l := r.Learned(); l.Known {
				return l
			}
		}
	}
	return Learned{}
}
