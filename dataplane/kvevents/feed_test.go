package kvevents

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/dataplane/kvevents/zmtp"
	"anabranch/dataplane/prefix"
)

// radio is an engine that publishes what a test tells it to.
type radio struct {
	t  *testing.T
	ln net.Listener

	mu     sync.Mutex
	conn   *zmtp.Conn
	number uint64
}

func newRadio(t *testing.T) *radio {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &radio{t: t, ln: ln}
	done := make(chan struct{})
	go func() { defer close(done); r.serve() }()
	t.Cleanup(func() { _ = ln.Close(); r.hangUp(); <-done })
	return r
}

func (r *radio) serve() {
	for {
		raw, err := r.ln.Accept()
		if err != nil {
			return
		}
		conn, err := zmtp.Handshake(raw, zmtp.PUB, 5*time.Second)
		if err != nil {
			continue
		}
		if m, err := conn.Receive(); err != nil || string(m[0]) != "\x01" {
			r.t.Errorf("%q, %v instead of a subscription to all", m, err)
		}
		r.mu.Lock()
		r.conn = conn
		r.mu.Unlock()
	}
}

// heard waits until somebody has subscribed.
func (r *radio) heard() {
	r.t.Helper()
	soon(r.t, "somebody listens", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.conn != nil
	})
}

func (r *radio) hangUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		_ = r.conn.Close()
		r.conn = nil
	}
}

func (r *radio) send(events ...Event) { r.raw(Append(nil, 1, events)) }

func (r *radio) raw(payload []byte) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.conn.Send([]byte("kv@e@m"), binary.BigEndian.AppendUint64(nil, r.number), payload); err != nil {
		r.t.Fatal(err)
	}
	r.number++
}

func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(15 * time.Second); !ok(); {
		select {
		case <-end:
			t.Fatalf("not within 15 s: %s", what)
		case <-tick.C:
		}
	}
}

// reception is a feed that runs, and what it tells.
type reception struct {
	*Feed
	t      *testing.T
	index  *prefix.Index
	holder *prefix.Holder
	stop   func()
	log    *bytes.Buffer
}

func receive(t *testing.T, url string) *reception {
	t.Helper()
	r := &reception{t: t, index: prefix.New(1<<10, 0, time.Now()), log: &bytes.Buffer{}}
	r.holder = r.index.NewHolder(1)
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	r.Feed, err = NewFeed(FeedOptions{
		URL: url, Metrics: metrics, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
		Book: BookOptions{Index: r.index, Holder: r.holder, Grace: 50 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(r.stop)
	return r
}

// counts waits until a series has a value.
func (r *reception) counts(c prometheus.Collector, label string, want float64) {
	r.t.Helper()
	var got float64
	soon(r.t, label, func() bool {
		switch c := c.(type) {
		case *prometheus.CounterVec:
			got = testutil.ToFloat64(c.WithLabelValues(label))
		case *prometheus.GaugeVec:
			got = testutil.ToFloat64(c.WithLabelValues(label))
		}
		return got == want
	})
}

func (r *reception) has(prompt string, want int) {
	r.t.Helper()
	soon(r.t, "the index says so", func() bool {
		return r.index.Match(r.holder, letters(prompt), time.Now()).Blocks == want
	})
}

// stored is an event with the engine blocks of a prompt of a scenario.
func stored(prompt string) Event {
	e := Event{Kind: Stored, BlockSize: tokensPerLetter / blocksPerLetter}
	for n := range blocksPerLetter * len(prompt) {
		e.Hashes = append(e.Hashes, new(actor).block(prompt, n+1))
	}
	return e
}

// request that has just had its first token.
func request(prompt string, began time.Time) Request {
	n := len(prompt)
	return Request{
		Blocks: letters(prompt), Bytes: n*1024 + 40, Prompt: int64(n*tokensPerLetter + 10), Began: began, First: time.Now(),
	}
}

// learn associates a prompt, which takes until the publisher counts on being heard.
func (r *reception) learn(from *radio, prompt string) {
	r.t.Helper()
	began := time.Now().Add(settling)
	soon(r.t, "it is settled", func() bool { return time.Now().After(began.Add(20 * time.Millisecond)) })
	from.send(stored(prompt))
	r.Ended(request(prompt, began), true)
	r.has(prompt, len(prompt))
}

func TestFeed(t *testing.T) {
	engine := newRadio(t)
	r := receive(t, "tcp://"+engine.ln.Addr().String())
	m := r.opt.Metrics
	engine.heard()
	r.counts(m.publishers, "listening", 1)
	r.learn(engine, "ABC")
	r.counts(m.associations, "associated", 1)
	r.counts(m.blocks, "engine", 6)
	r.counts(m.blocks, "text", 3)

	engine.send(Event{Kind: Removed, Hashes: stored("ABC").Hashes[4:]}, Event{Kind: Removed, Hashes: []uint64{1}, Elsewhere: true})
	r.has("ABC", 2)
	engine.raw(pack(nil, list{1, list{list{"BlockMoved"}}}))
	r.counts(m.events, "stored", 1)
	r.counts(m.events, "removed", 1)
	r.counts(m.events, "elsewhere", 1)
	r.counts(m.events, "other", 1)

	// The connection breaks, and nothing is missed.
	engine.hangUp()
	engine.heard()
	r.counts(m.publishers, "listening", 1)
	engine.send(Event{Kind: Removed, Hashes: stored("ABC").Hashes[2:4]})
	r.has("ABC", 1)
	r.counts(m.blocks, "engine", 2)

	// Something is missed, and something can't be read.
	engine.number += 5
	engine.send(stored("XY"))
	r.counts(m.breaks, "gap", 1)
	r.counts(m.blocks, "text", 0)
	r.has("ABC", 1) // as a guess
	engine.raw([]byte("nonsense"))
	r.counts(m.events, "undecodable", 1)
	r.counts(m.blocks, "engine", 0)

	// The engine is another one.
	engine.number = 0
	engine.send(stored("Z"))
	r.counts(m.breaks, "restart", 1)
	r.has("ABC", 0)
	r.Ended(Request{Blocks: letters("Z")}, false)
	r.counts(m.associations, "untold", 1)

	r.stop()
	r.counts(m.publishers, "listening", 0)
	r.counts(m.publishers, "connecting", 0)
	r.counts(m.blocks, "engine", 0)
	for _, want := range []string{"KV events are heard", "KV events can't be heard"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
}

// A message that isn't one of three frames is passed over.
func TestFeedPassesOverOtherMessages(t *testing.T) {
	engine := newRadio(t)
	r := receive(t, "tcp://"+engine.ln.Addr().String())
	engine.heard()
	for _, frames := range [][][]byte{{[]byte("hello")}, {{}, {1, 2}, {}}, {{}, make([]byte, 8), {}, {}}} {
		if err := engine.conn.Send(frames...); err != nil {
			t.Fatal(err)
		}
	}
	engine.send(Event{Kind: Cleared})
	r.counts(r.opt.Metrics.events, "undecodable", 3)
	r.counts(r.opt.Metrics.events, "cleared", 1)
	r.counts(r.opt.Metrics.breaks, "gap", 0)
	r.counts(r.opt.Metrics.breaks, "restart", 0)
}

// Nobody publishes, or somebody else answers: it tries again, and ends when it is told to.
func TestFeedKeepsTrying(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	tries := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			tries++
			mu.Unlock()
			_, _ = conn.Write([]byte(strings.Repeat("HTTP/1.1 400 Bad Request\r\n", 4)))
			_ = conn.Close()
		}
	}()
	r := receive(t, "tcp://"+ln.Addr().String())
	for range 2 * maxEnded { // nobody takes them at once, and nobody waits
		r.Ended(Request{Blocks: letters("A")}, false)
	}
	soon(t, "three attempts", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return tries >= 3
	})
	r.counts(r.opt.Metrics.publishers, "connecting", 1)
	soon(t, "all requests are counted", func() bool {
		m := r.opt.Metrics.associations
		return testutil.ToFloat64(m.WithLabelValues("untold"))+testutil.ToFloat64(m.WithLabelValues("dropped")) == 2*maxEnded
	})
	_ = ln.Close()
	<-done
	r.stop()
}

func TestFeedRefusesOtherAddresses(t *testing.T) {
	for _, url := range []string{"", "http://a:1", "tcp://a", "tcp://:1", "ipc:///tmp/x", "://"} {
		if _, err := NewFeed(FeedOptions{URL: url}); err == nil {
			t.Errorf("%q is an address", url)
		}
	}
}

func TestSequence(t *testing.T) {
	var s sequence
	for i, tt := range []struct {
		number uint64
		want   step
	}{{7, next}, {8, next}, {10, gap}, {11, next}, {11, restart}, {12, next}, {0, restart}, {1, next}, {1 << 40, gap}} {
		if got := s.take(tt.number); got != tt.want {
			t.Errorf("message %d, number %d: %d, want %d", i, tt.number, got, tt.want)
		}
	}
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	reg := prometheus.NewRegistry()
	if _, err := NewMetrics(reg); err != nil {
		t.Fatal(err)
	}
	var twice prometheus.AlreadyRegisteredError
	if _, err := NewMetrics(reg); !errors.As(err, &twice) {
		t.Errorf("%v", err)
	}
	if m, err := NewMetrics(nil); err != nil || m == nil {
		t.Errorf("%v, %v", m, err)
	}
	var none *Metrics
	none.event("stored", 1)
	none.batch(&Batch{})
	none.broke("gap")
	none.result(Dropped, 1)
	none.publisher(connecting, 1)
	none.counts(&Counts{}, &Counts{})
}
