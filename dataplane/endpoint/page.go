package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"anabranch/api/exposition"
	"anabranch/dataplane/table"
)

const (
	scrapeTimeout = time.Second
	// keptPage is the largest buffer that is kept for the next page.
	keptPage = 512 << 10
)

// errNoPage: what is there is no page of metrics that we know.
var errNoPage = errors.New("no page of known metrics")

// pageURL is where to look for the endpoint's metrics, try after try; empty: nowhere.
func (e *Endpoint) pageURL(try int) string {
	spec := e.Cluster.Spec()
	switch spec.Kind {
	case table.KindProvider:
		return ""
	case table.KindGateway:
		return spec.MetricsURL
	}
	return e.URL + exposition.Paths[try%len(exposition.Paths)]
}

// pages keeps the buffers of scrapes.
var pages = sync.Pool{New: func() any { return new(pageBuffer) }}

type pageBuffer struct {
	bytes   bytes.Buffer
	reading exposition.Page
}

// costs of one scrape.
type costs struct {
	making  time.Duration // until the page began to come
	reading time.Duration // it
}

// fetch reads an endpoint's page. An error wraps errNoPage if the place is well but has none.
func (r *Registry) fetch(ctx context.Context, e *Endpoint, url string) (*Signals, costs, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	var c costs
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, c, err
	}
	req.Header["Accept"] = []string{"text/plain;version=0.0.4, text/plain;q=0.5"}
	s := &Signals{At: r.opt.Now(), inFlight: e.inFlight.Load()}
	resp, err := r.roundTrip(e.Cluster, req, nil)
	if err != nil {
		return nil, c, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end or given up
	began := r.opt.Now()
	c.making = began.Sub(s.At)
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusNotImplemented:
		return nil, c, fmt.Errorf("%w: answered %d", errNoPage, resp.StatusCode)
	default:
		return nil, c, fmt.Errorf("metrics answered %d", resp.StatusCode)
	}
	b := pages.Get().(*pageBuffer)
	defer b.release()
	n, err := b.bytes.ReadFrom(io.LimitReader(resp.Body, exposition.MaxBytes+1))
	if err != nil {
		return nil, c, err
	}
	if n > exposition.MaxBytes {
		return nil, c, exposition.ErrTooLarge
	}
	b.reading.Read(b.bytes.Bytes())
	c.reading = r.opt.Now().Sub(began)
	if !b.reading.Known() {
		return nil, c, errNoPage
	}
	return s.fill(b.reading.Load()), c, nil
}

// release gives the buffer back for the next page.
func (b *pageBuffer) release() {
	if b.bytes.Cap() <= keptPage {
		b.bytes.Reset()
		pages.Put(b)
	}
}

// roundTrip makes a whole request of our own to a place of a cluster, signed as that wants it.
func (r *Registry) roundTrip(c *Cluster, req *http.Request, body []byte) (*http.Response, error) {
	spec := c.Spec()
	if r.opt.Sign != nil {
		if err := r.opt.Sign(spec, req, body); err != nil {
			return nil, fmt.Errorf("sign a request to %s: %w", c.ID, err)
		}
	}
	transport := r.opt.Transport
	if r.opt.TransportFor != nil {
		if own := r.opt.TransportFor(spec); own != nil {
			transport = own
		}
	}
	return transport.RoundTrip(req)
}
