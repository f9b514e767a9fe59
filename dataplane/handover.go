package dataplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/prefix"
	"anabranch/dataplane/table"
)

// Warm hand-over: a router that starts takes from a sibling of its region what that knows of prompts
// in caches, so that the conversations that now come to it are found again where they were.

const (
	// prefixesPath is where a router hands over its index of prefixes.
	prefixesPath = "/peer/prefixes"
	// handOverWithin bounds taking it, from all siblings together, and handing it out.
	handOverWithin = 2 * time.Second
	// countEvery is how often the entries are counted at most, which means reading all of them.
	countEvery = 10 * time.Second
)

// headerRouter names the router that asks for prefixes or hands them over: an address of the region
// may lead a router to itself.
const headerRouter = "X-Anabranch-Router"

// TakenOver is what a sibling handed over at the start.
type TakenOver struct {
	// From is the sibling; empty: none had anything to hand over.
	From string `json:"from,omitempty"`
	// Entries that were taken, of so many bytes.
	Entries int     `json:"entries"`
	Bytes   int64   `json:"bytes"`
	TookMs  float64 `json:"tookMs"`
	// Error is why nothing came, or not from all that were asked. Empty: all went well, or there was
	// nobody to ask.
	Error string `json:"error,omitempty"`
}

// prefixes is the router's index, and its hand-over.
type prefixes struct {
	index   *prefix.Index
	first   chan *table.Table // holds the first table that this router has
	offered atomic.Bool       // it has been put there
	lending atomic.Bool       // one hand-over at a time
	taken   atomic.Pointer[TakenOver]

	mu      sync.Mutex // guards what follows
	count   int
	counted time.Time
}

func newPrefixes(now time.Time) *prefixes {
	return &prefixes{index: prefix.New(0, 0, now), first: make(chan *table.Table, 1)}
}

// entries are those of the index, as of a short while ago.
func (p *prefixes) entries(now time.Time) (count, capacity int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counted.IsZero() || now.Sub(p.counted) >= countEvery {
		p.count, p.counted = p.index.Len(now), now
	}
	return p.count, p.index.Cap()
}

func (p *prefixes) takenOver() TakenOver {
	if t := p.taken.Load(); t != nil {
		return *t
	}
	return TakenOver{}
}

// applied notes the first table, whose region says who the siblings are.
func (p *prefixes) applied(t *table.Table) {
	if p.offered.CompareAndSwap(false, true) {
		p.first <- t
	}
}

// takeOver asks the siblings that the first table names, once, and then waits for ctx to end. Requests
// are served meanwhile.
func (r *Router) takeOver(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case t := <-r.prefixes.first:
		if region := t.Regions[r.region]; region != nil && len(region.PeerURLs) > 0 {
			r.takeOverFrom(ctx, region.PeerURLs)
		}
	}
	<-ctx.Done()
	return nil
}

// takeOverFrom asks siblings, from a random one on, until one has something to hand over.
func (r *Router) takeOverFrom(ctx context.Context, addresses []string) {
	began := r.now()
	ctx, cancel := context.WithTimeout(ctx, handOverWithin)
	defer cancel()
	var taken TakenOver
	var problems []error
	turn := r.random()
	for i := range uint64(len(addresses)) {
		address := addresses[(turn+i)%uint64(len(addresses))]
		from, err := r.borrow(ctx, address)
		switch {
		case errors.Is(err, errSelf):
		case err != nil:
			problems = append(problems, fmt.Errorf("take prefixes over from %s: %w", address, err))
		case from.Entries > 0:
			taken = from
		}
		if taken.From != "" {
			break
		}
	}
	taken.TookMs = milliseconds(r.now().Sub(began))
	if err := errors.Join(problems...); err != nil {
		taken.Error = err.Error()
		r.log.Info("a sibling did not hand over its prefixes", "error", err)
	}
	r.prefixes.taken.Store(&taken)
	if taken.From != "" {
		r.log.Info("took prefixes over", "from", taken.From, "entries", taken.Entries, "bytes", taken.Bytes)
	}
}

// errSelf: an address has led to this router.
var errSelf = errors.New("that is this router")

// borrow takes in what one sibling has.
func (r *Router) borrow(ctx context.Context, address string) (TakenOver, error) {
	base, err := r.peers.base(address)
	if err != nil {
		return TakenOver{}, err
	}
	u := *base
	u.Path += prefixesPath
	u.RawQuery = url.Values{"router": {string(r.o.Router)}}.Encode()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return TakenOver{}, err
	}
	answer, err := r.peers.transport.RoundTrip(q)
	if err != nil {
		return TakenOver{}, err
	}
	defer func() { _ = answer.Body.Close() }() // read to its end, or given up
	from := answer.Header.Get(headerRouter)
	switch {
	case from == string(r.o.Router):
		return TakenOver{}, errSelf
	case answer.StatusCode != http.StatusOK:
		return TakenOver{}, fmt.Errorf("it answered %d", answer.StatusCode)
	case !fit(from):
		return TakenOver{}, errors.New("it does not say who it is")
	}
	body := &measured{from: answer.Body}
	n, err := r.prefixes.index.Load(body, r.now())
	if err != nil {
		return TakenOver{}, err
	}
	return TakenOver{From: from, Entries: n, Bytes: body.bytes}, nil
}

// measured counts what is read.
type measured struct {
	from  io.Reader
	bytes int64
}

// Read implements [io.Reader].
func (m *measured) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	m.bytes += int64(n)
	return n, err
}

// servePrefixes hands the index of prefixes over to a sibling, one at a time; a router that ends does
// so too, since another may be about to take its place.
func (r *Router) servePrefixes(w http.ResponseWriter, q *http.Request) {
	w.Header().Set(headerRouter, string(r.o.Router))
	if fleet.RouterID(q.URL.Query().Get("router")) == r.o.Router {
		http.Error(w, errSelf.Error(), http.StatusConflict)
		return
	}
	if !r.prefixes.lending.CompareAndSwap(false, true) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "prefixes are being handed over to another router", http.StatusServiceUnavailable)
		return
	}
	defer r.prefixes.lending.Store(false)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(handOverWithin)) // a test's writer has none
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := r.prefixes.index.Snapshot(w, r.now()); err != nil {
		r.log.Info("prefixes were not handed over", "error", err)
		panic(http.ErrAbortHandler) // a regular end would pass for a whole snapshot
	}
}
