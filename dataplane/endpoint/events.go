package endpoint

import (
	"context"
	"time"

	"anabranch/dataplane/kvevents"
	"anabranch/dataplane/prefix"
	"anabranch/dataplane/table"
)

// newFeed makes the feed of an endpoint that publishes what its KV cache holds at url; nil: it
// doesn't, or not where that can be read.
func (r *Registry) newFeed(c *Cluster, e *Endpoint, url string) *kvevents.Feed {
	if url == "" {
		return nil
	}
	models := c.Spec().Models
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = string(m)
	}
	log := r.log.With("cluster", c.ID, "endpoint", e.ID)
	feed, err := kvevents.NewFeed(kvevents.FeedOptions{
		URL: url, Metrics: r.opt.KVEvents, Now: r.opt.Now, Random: r.opt.Random, Logger: log,
		Book: kvevents.BookOptions{Index: r.opt.Index, Holder: e.holder, Glossary: r.words, Family: prefix.Name(names...)},
	})
	if err != nil {
		log.Warn("KV events are not followed", "error", err)
		return nil
	}
	return feed
}

// is says whether the endpoint is the one that a table or discovery tells of.
func (e *Endpoint) is(w *table.Endpoint) bool {
	return e.ID == w.ID && e.URL == w.URL && e.Class == w.Class && e.eventsURL == w.KVEventsURL
}

// follow keeps its feed, if it has one, until ctx ends.
func (e *Endpoint) follow(ctx context.Context) {
	if e.events != nil {
		e.events.Run(ctx)
	}
}

// tell lets the endpoint's feed know of a request that ended well, from which it may learn what the
// endpoint's events mean.
func (c *Call) tell(r Result) {
	e := c.endpoint
	if e == nil || e.events == nil || r.Usage.Prompt == 0 {
		return
	}
	e.events.Ended(kvevents.Request{
		Blocks: c.load.Blocks, Bytes: c.load.PromptBytes, Prompt: r.Usage.Prompt, Cached: r.Usage.Cached,
		Began: c.began, First: c.began.Add(max(r.FirstToken, time.Nanosecond)),
	}, e.caches.Load())
}
