package collect

import (
	"context"
	"maps"
	"sync"
	"time"

	"anabranch/api/credential"
	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
)

// Run polls until ctx ends, and returns when all polls have. It must run once.
func (c *Collector) Run(ctx context.Context) error {
	if c.own != nil {
		defer c.own.CloseIdleConnections()
	}
	if c.o.Secrets != nil {
		defer c.o.Secrets.Close()
	}
	var polls sync.WaitGroup
	defer polls.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	began := c.o.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var seen uint64 // revision of the resources that the targets are of
	var all []target
	var judged time.Time
	for first := true; ; first = false {
		view := c.o.View()
		changed := c.o.Changed(view.Index())
		if revision := view.ResourcesRevision(); first || revision != seen {
			seen, all = revision, c.bounded(targets(view.List(policy.KindCluster)))
			c.forget(all)
			judged = time.Time{}
		}
		now := c.o.Now()
		if now.Sub(judged) >= judgeEvery {
			judged = now
			c.judge(ctx, all, now.Sub(began), &polls)
		}
		c.o.Signals.PutSources(c.o.Node, c.sources(), now)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-tick.C:
		}
	}
}

// bounded leaves out what is too much.
func (c *Collector) bounded(all []target) []target {
	if len(all) > MaxSources {
		c.log.Error("more sources than a node polls, the last are left out", "sources", len(all), "limit", MaxSources)
		all = all[:MaxSources]
	}
	return all
}

// forget stops and drops what is not configured any more, or in another way.
func (c *Collector) forget(all []target) {
	wanted := make(map[key]target, len(all))
	clusters := map[fleet.ClusterID]bool{}
	for _, t := range all {
		wanted[t.key] = t
		clusters[t.cluster] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, p := range c.pollers {
		if t, ok := wanted[k]; ok && t == p.target {
			continue
		}
		p.halt()
		delete(c.pollers, k)
		if !clusters[k.cluster] {
			c.metrics.gone(k.cluster)
		}
	}
	for _, t := range all {
		if c.pollers[t.key] == nil {
			c.pollers[t.key] = newPoller(c, t)
		}
	}
}

// judge starts and stops polls as is wanted now.
func (c *Collector) judge(ctx context.Context, all []target, running time.Duration, polls *sync.WaitGroup) {
	heard := c.o.Signals.Heard(c.o.Now())
	secrets := map[fleet.ClusterID]*credential.Spec{}
	c.mu.Lock()
	for _, t := range all {
		p := c.pollers[t.key]
		wanted, why := t.wanted(heard, running)
		if wanted && t.auth != (credential.Spec{}) {
			secrets[t.cluster] = &p.auth
		}
		switch life, started := p.set(ctx, wanted, why); {
		case started:
			polls.Go(func() { p.run(life) })
		case !wanted:
			p.halt()
		}
	}
	c.mu.Unlock()
	c.reread(secrets)
}

// reread has the credentials of what is polled read, when others are than before.
func (c *Collector) reread(wanted map[fleet.ClusterID]*credential.Spec) {
	same := func(a, b *credential.Spec) bool { return *a == *b }
	if c.o.Secrets != nil && !maps.EqualFunc(wanted, c.secrets, same) {
		c.o.Secrets.Sync(wanted)
		c.secrets = wanted
	}
}

// set notes whether and why the source is polled. Started: it was not so far, and is to be until life
// ends.
func (p *poller) set(ctx context.Context, active bool, why string) (life context.Context, started bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.source.Active, p.source.Why = active, why
	if !active || p.stop != nil {
		return nil, false
	}
	life, p.stop = context.WithCancel(ctx)
	// What failed before says nothing now.
	p.source.Failures, p.source.Error = 0, ""
	return life, true
}

// halt ends the polls of a source; one under way is given up.
func (p *poller) halt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
}
