package collect

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"anabranch/api/exposition"
	"anabranch/controlplane/signal"
)

const (
	// retry is the pause after a poll that failed, until it is clear that nothing answers.
	retry = time.Second
	// lookAgain is after how many polls of a place that had no metrics it is looked at for them again.
	lookAgain = 30
	// still is how long the tokens of a model server may stand still while requests are in its batch:
	// servers that hang go on to write the page that they wrote last.
	still = 30 * time.Second
)

// errStill: see still.
var errStill = errors.New("its page has stood still for 30s with requests there")

// poller follows one source.
type poller struct {
	c *Collector
	target
	page exposition.Page // of the goroutine at work

	mu     sync.Mutex // guards what follows
	source signal.Source
	at     int // which of the target's URLs
	polls  int // since at was 0
	moved  time.Time
	tokens float64            // generated when they moved last
	stop   context.CancelFunc // nil: it is not polled
}

func newPoller(c *Collector, t target) *poller {
	return &poller{c: c, target: t, tokens: -1, source: signal.Source{
		Cluster: t.cluster, Region: t.region, Endpoint: t.endpoint, Kind: t.kind, URL: t.urls()[0],
		Interval: t.interval, Timeout: t.timeout,
	}}
}

// told is the source as it stands.
func (p *poller) told() signal.Source {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.source
}

// run polls until ctx ends. The first poll is within an interval, so that those of many sources spread.
func (p *poller) run(ctx context.Context) {
	timer := time.NewTimer(time.Duration(p.c.o.Random() * float64(p.interval)))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := p.c.o.Now()
		p.poll(ctx, began)
		timer.Reset(p.pause(p.c.o.Now().Sub(began)))
	}
}

// pause until the next poll, a tenth more or less so that those of all nodes spread. The time that the
// last one took is part of the interval.
func (p *poller) pause(took time.Duration) time.Duration {
	pause := p.interval
	if n := p.told().Failures; n > 0 && n < signal.FailedPolls {
		pause = min(pause, retry)
	}
	return max(time.Duration((0.9+0.2*p.c.o.Random())*float64(pause))-took, pause/10)
}

// found is what a poll comes to.
type found struct {
	load exposition.Load
	// scraped: load is from a page; otherwise the place is only known to answer, and less is why it is
	// no more, nil if no more was to be expected.
	scraped bool
	less    error
}

// poll asks once.
func (p *poller) poll(ctx context.Context, began time.Time) {
	x, err := p.find(ctx)
	if ctx.Err() != nil {
		return // nobody wants to know any more
	}
	now := p.c.o.Now()
	if err == nil && x.scraped && p.stands(x.load, began) {
		err = errStill
	}
	p.c.metrics.polled(p.cluster, cmp.Or(err, x.less), now.Sub(began))
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.source
	was := s.Failures
	s.Polled = began
	s.Polls++
	if err != nil {
		s.Failures++
		s.Failed++
		if s.Error = describe(err, p.timeout); was == 0 {
			p.c.log.Info("source stopped answering", "cluster", p.cluster, "endpoint", p.endpoint, "url", s.URL, "error", s.Error)
		}
		return
	}
	if was > 0 {
		p.c.log.Info("source answers again", "cluster", p.cluster, "endpoint", p.endpoint, "url", s.URL)
	}
	s.Failures, s.Error, s.Got, s.Took = 0, "", began, now.Sub(began)
	if x.less != nil {
		s.Error = describe(x.less, p.timeout)
	}
	fill(s, x.load, x.scraped)
}

// find reads what there is to read: the page that was there last time, else one that is there now, else
// whether the place answers. Of a gateway that is asked too when its metrics can't be read: they are
// another program's, mostly.
func (p *poller) find(ctx context.Context) (found, error) {
	urls, at := p.urls(), p.next()
	for ; urls[at] != p.health; at++ {
		load, err := p.c.page(ctx, &p.target, urls[at], &p.page)
		switch {
		case err == nil:
			p.use(at)
			return found{load: load, scraped: true}, nil
		case errors.Is(err, errNoPage):
		case p.kind == KindPool && p.c.healthy(ctx, &p.target, p.health) == nil:
			return found{less: err}, nil
		default:
			return found{}, err
		}
	}
	err := p.c.healthy(ctx, &p.target, p.health)
	if err == nil {
		p.use(at)
	}
	return found{}, err
}

// next is the URL to begin with: the one that was of use last, and now and then the first.
func (p *poller) next() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at > 0 {
		if p.polls++; p.polls > lookAgain {
			p.at, p.polls = 0, 0
		}
	}
	return p.at
}

// use notes which URL is of use.
func (p *poller) use(at int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = at
	if p.source.URL, p.source.Kind = p.urls()[at], p.kind; p.source.URL == p.health {
		p.source.Kind = KindHealth
	}
}

// stands says whether a model server with requests in its batch has made no token for long.
func (p *poller) stands(l exposition.Load, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kind != KindServer || l.Generated < 0 || l.Running < 1 || l.Generated != p.tokens {
		p.tokens, p.moved = l.Generated, now
		return false
	}
	return now.Sub(p.moved) >= still
}

// Where a pool or a server does not say itself how full it is, it is called full at as many requests
// queued per server, or as much of the KV cache in use, as endpoint pickers call it so (the defaults of
// the Gateway API Inference Extension's saturation detector).
const (
	fullQueue = 5.0
	fullKV    = 0.8
)

// fill writes down what was found.
func fill(s *signal.Source, l exposition.Load, scraped bool) {
	s.Scraped, s.Total, s.Ready = scraped, 1, 1
	s.Waiting, s.Running, s.KVUsage, s.Saturation = l.Waiting, l.Running, l.KV, max(l.Saturation, 0)
	if !scraped {
		s.Saturation = 0
		return
	}
	if l.Ready >= 0 {
		s.Total, s.Ready = max(l.Ready, 1), l.Ready
	}
	switch {
	case s.Ready == 0: // its means are frozen at what they were last
		s.Waiting, s.Running, s.KVUsage, s.Saturation = 0, 0, 0, 1
	case l.Saturation < 0:
		s.Saturation = max(l.Waiting/float64(s.Ready)/fullQueue, l.KV/fullKV)
	}
}
