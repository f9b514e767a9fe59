package kvevents

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"time"

	"anabranch/dataplane/kvevents/zmtp"
)

const (
	// connectTimeout bounds a dial, and again the handshake.
	connectTimeout = 5 * time.Second
	// settling is how long after subscribing a publisher may not have taken notice: until then what
	// it sends may not come.
	settling = 500 * time.Millisecond
	// leastPause and mostPause lie between attempts to connect; each is twice the one before.
	leastPause = 200 * time.Millisecond
	mostPause  = 10 * time.Second
	// maxEnded is how many requests wait for the feed; of more nothing is learned.
	maxEnded = 256
	// ahead is how many messages are read before they are taken in. More wait at the publisher.
	ahead = 16
)

// FeedOptions of a [Feed]. URL and Book are needed.
type FeedOptions struct {
	// URL is where the engine publishes, as tcp://host:port.
	URL string
	// Book takes in what is heard; it is the feed's from then on.
	Book BookOptions
	// Metrics to count in. Nil: none.
	Metrics *Metrics
	// Now tells the time. Nil: the clock.
	Now func() time.Time
	// Random is evenly spread over [0,1). Nil: math/rand.
	Random func() float64
	// Logger says when the feed begins and ends to hear, and should name the endpoint. Nil: none.
	Logger *slog.Logger
}

// Feed subscribes to one engine's events and keeps its [Book]. Use [NewFeed].
type Feed struct {
	opt     FeedOptions
	address string
	ended   chan ended

	// Of the goroutine of Run.
	book     *Book
	batch    Batch
	sequence sequence
	counted  Counts // what the metrics know already
	state    state
}

// ended is a request, and whether the server tells of cached tokens.
type ended struct {
	request Request
	told    bool
}

// state of a feed.
type state uint8

const (
	connecting state = iota
	listening
)

// NewFeed makes a feed that hears nothing until it runs.
func NewFeed(opt FeedOptions) (*Feed, error) {
	u, err := url.Parse(opt.URL)
	if err != nil {
		return nil, fmt.Errorf("address of KV events: %w", err)
	}
	if u.Scheme != "tcp" || u.Port() == "" || u.Hostname() == "" {
		return nil, fmt.Errorf("address of KV events: %q is not tcp://host:port", opt.URL)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Random == nil {
		opt.Random = rand.Float64
	}
	opt.Logger = cmp.Or(opt.Logger, slog.New(slog.DiscardHandler))
	return &Feed{opt: opt, address: u.Host, ended: make(chan ended, maxEnded), book: NewBook(opt.Book)}, nil
}

// Ended tells of a request that has ended well; told says whether the server tells how many of its
// tokens were cached, so that none is a count. It never waits.
func (f *Feed) Ended(r Request, told bool) {
	select {
	case f.ended <- ended{r, told}:
	default:
		f.opt.Metrics.result(Dropped, 1)
	}
}

// message is what was read, or that nothing more comes.
type message struct {
	frames [][]byte
	err    error
}

// Run subscribes, takes in what comes, and connects again when it has to, until ctx ends. It must
// run once.
func (f *Feed) Run(ctx context.Context) {
	f.opt.Metrics.publisher(connecting, 1)
	defer func() {
		f.opt.Metrics.publisher(f.state, -1)
		f.book.Lost()
		f.count()
	}()
	pause := leastPause
	for told := false; ; told = true { // of one outage the log tells once
		heard, err := f.listen(ctx)
		if ctx.Err() != nil {
			return
		}
		if heard {
			pause = leastPause
		}
		if heard || !told {
			f.opt.Logger.Info("KV events can't be heard", "address", f.address, "error", err)
		}
		if !f.wait(ctx, time.Duration((0.5+f.opt.Random())*float64(pause))) {
			return
		}
		pause = min(2*pause, mostPause)
	}
}

// become changes the state.
func (f *Feed) become(s state) {
	f.opt.Metrics.publisher(f.state, -1)
	f.state = s
	f.opt.Metrics.publisher(s, 1)
}

// wait passes a pause, in which requests end all the same. False: ctx has ended.
func (f *Feed) wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case e := <-f.ended:
			f.take(e)
		}
	}
}

// listen keeps one connection for as long as it lasts. Heard: the handshake succeeded.
func (f *Feed) listen(ctx context.Context) (heard bool, err error) {
	dialer := net.Dialer{Timeout: connectTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
	}}
	raw, err := dialer.DialContext(ctx, "tcp", f.address)
	if err != nil {
		return false, err
	}
	unhook := context.AfterFunc(ctx, func() { _ = raw.Close() }) // wakes whoever reads
	defer unhook()
	conn, err := zmtp.Handshake(raw, zmtp.SUB, connectTimeout)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }() // nothing is left to be said
	if err := conn.Subscribe(""); err != nil {
		return false, err
	}
	f.opt.Logger.Info("KV events are heard", "address", f.address)
	f.become(listening)
	defer f.become(connecting)
	f.book.Listen(f.opt.Now().Add(settling))
	defer f.book.Pause()

	messages := make(chan message, ahead)
	var reading sync.WaitGroup
	stop := make(chan struct{})
	reading.Go(func() { read(conn, messages, stop) })
	defer reading.Wait()
	defer func() { _ = conn.Close() }() // before the wait: it ends the reading
	defer close(stop)
	return true, f.follow(ctx, messages)
}

// read hands on messages until the connection ends or nobody wants them.
func read(conn *zmtp.Conn, to chan<- message, stop <-chan struct{}) {
	for {
		frames, err := conn.Receive()
		select {
		case to <- message{frames, err}:
		case <-stop:
			return
		}
		if err != nil {
			return
		}
	}
}

// follow takes in messages and requests until the connection ends.
func (f *Feed) follow(ctx context.Context, messages <-chan message) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if due, ok := f.book.Due(); ok {
			timer.Reset(max(due.Sub(f.opt.Now()), 0))
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-messages:
			if m.err != nil {
				return m.err
			}
			f.message(m.frames)
		case e := <-f.ended:
			f.take(e)
		case <-timer.C:
			f.book.Settle(f.opt.Now())
		}
		f.count()
	}
}

// message takes in one. One that can't be read is as good as missed.
func (f *Feed) message(frames [][]byte) {
	now := f.opt.Now()
	number, payload, ok := split(frames)
	if !ok {
		f.opt.Metrics.event("undecodable", 1)
		return
	}
	switch f.sequence.take(number) {
	case restart:
		f.opt.Metrics.broke("restart")
		f.book.Restarted(now)
		f.book.Listen(now)
	case gap:
		f.opt.Metrics.broke("gap")
		f.book.Lost()
		f.book.Listen(now)
	case next:
	}
	if err := f.batch.Read(payload); err != nil {
		f.opt.Metrics.event("undecodable", 1)
		f.opt.Logger.Debug("KV events can't be read", "error", err)
		f.book.Lost()
		f.book.Listen(now)
		return
	}
	f.opt.Metrics.batch(&f.batch)
	f.book.Apply(&f.batch, now)
}

// take hands a request to the book.
func (f *Feed) take(e ended) {
	f.book.Ended(e.request, e.told, f.opt.Now())
	f.count()
}

// count brings the metrics up to date with the book.
func (f *Feed) count() {
	c := f.book.Counts()
	f.opt.Metrics.counts(&f.counted, &c)
	f.counted = c
}
