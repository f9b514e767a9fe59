package proxy

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Warm keeps a live connection to each of the peers, whose addresses it asks for again each time, so
// that the first request that flees to another region pays for no handshake. A connection that has
// died is noticed by the transport and made anew at the next look. It blocks until ctx is over.
func (r *Relay) Warm(ctx context.Context, peers func() []*url.URL) {
	tick := time.NewTicker(r.warmEvery)
	defer tick.Stop()
	for {
		r.touch(ctx, peers())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// touch asks each peer for nothing, all at once, and waits for them. Any answer will do, and one that
// does not come is the next attempt's to find out.
func (r *Relay) touch(ctx context.Context, peers []*url.URL) {
	ctx, cancel := context.WithTimeout(ctx, r.warmWithin)
	defer cancel()
	var asked sync.WaitGroup
	for _, base := range peers {
		asked.Go(func() {
			u := *base
			u.Path += "/"
			q := &http.Request{Method: http.MethodHead, URL: &u, Host: u.Host, Header: http.Header{}, Body: http.NoBody}
			answer, err := r.peers.RoundTrip(q.WithContext(ctx))
			if err != nil {
				return
			}
			_ = answer.Body.Close() // it has none
		})
	}
	asked.Wait()
}
