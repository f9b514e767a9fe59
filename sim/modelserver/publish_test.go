package modelserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"anabranch/dataplane/kvevents"
	"anabranch/dataplane/kvevents/zmtp"
	"anabranch/sim"
)

// onePod publishes what its cache holds, which is room for 200,000 tokens.
var onePod = Options{
	Cluster:   "test",
	Endpoints: []Endpoint{{ID: "a", Listen: "127.0.0.1:0", Class: "l40s", KVEvents: "127.0.0.1:0"}},
	Models:    []Model{{Name: "llama-3.1-8b"}},
	TimeScale: 0.001,
}

// listener is a subscriber of a publisher's.
type listener struct {
	t     *testing.T
	conn  *zmtp.Conn
	raw   net.Conn
	batch kvevents.Batch
}

func subscribe(t *testing.T, p *publisher, topics ...string) *listener {
	t.Helper()
	raw, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := zmtp.Handshake(raw, zmtp.SUB, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	for _, topic := range topics {
		if err := conn.Subscribe(topic); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the publisher knows what is wanted", func() bool { return wanted(p, raw.LocalAddr()) == len(topics) })
	return &listener{t: t, conn: conn, raw: raw}
}

// wanted is how many topics the subscriber at an address asked for. Others may be on their way out meanwhile.
func wanted(p *publisher, addr net.Addr) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.subs {
		if s.conn.RemoteAddr().String() == addr.String() {
			return len(s.topics)
		}
	}
	return 0
}

// next message: its topic, its number, and what it says.
func (l *listener) next() (topic string, number uint64, events []kvevents.Event) {
	l.t.Helper()
	if err := l.raw.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		l.t.Fatal(err)
	}
	m, err := l.conn.Receive()
	if err != nil || len(m) != 3 || len(m[1]) != 8 {
		l.t.Fatalf("%d frames, %v", len(m), err)
	}
	if err := l.batch.Read(m[2]); err != nil {
		l.t.Fatal(err)
	}
	return string(m[0]), binary.BigEndian.Uint64(m[1]), l.batch.Events
}

// What a prompt brings into the cache is told as it is computed, step by step, and once.
func TestPublishesWhatIsCached(t *testing.T) {
	t.Parallel()
	f := start(t, onePod)
	l := subscribe(t, f.endpoints[0].events, "kv@")
	text := strings.Repeat("every block has other words than those before it: ", 400)
	const prompt = 20_000 / sim.BytesPerToken // tokens
	f.post("/v1/completions", fmt.Sprintf(`{"model":"llama-3.1-8b","prompt":%q,"max_tokens":1}`, text))
	want := sim.Chain(text, chainSalt("llama-3.1-8b", "", ""))
	var got []uint64
	messages := uint64(0)
	for ; len(got) < prompt/sim.BlockSize; messages++ {
		topic, number, events := l.next()
		if topic != "kv@a@llama-3.1-8b" || number != messages || len(events) != 1 {
			t.Fatalf("message %d of %q has %+v", number, topic, events)
		}
		e := events[0]
		if e.Kind != kvevents.Stored || e.BlockSize != sim.BlockSize || e.HasParent != (len(got) > 0) || e.HasParent && e.Parent != got[len(got)-1] {
			t.Fatalf("after %d blocks: %+v", len(got), e)
		}
		got = append(got, e.Hashes...)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%d blocks were told of, not the %d of the prompt", len(got), len(want))
	}
	// The same again adds nothing; the next that does has the next number.
	f.post("/v1/completions", fmt.Sprintf(`{"model":"llama-3.1-8b","prompt":%q,"max_tokens":1}`, text))
	f.post("/v1/completions", fmt.Sprintf(`{"model":"llama-3.1-8b","prompt":%q,"max_tokens":1}`, text+text))
	if _, number, events := l.next(); number != messages || events[0].Parent != want[len(want)-1] {
		t.Errorf("message %d: %+v", number, events[0])
	}
}

func TestPublishesTokensOfFourBytes(t *testing.T) {
	text := strings.Repeat("abcd", 20) + "efg"
	tokens := appendTokens(nil, text, 1)
	if len(tokens) != sim.BlockSize || tokens[0] != 0x64636261 || tokens[4] != 0x00676665 || tokens[5] != 0 {
		t.Errorf("%#x", tokens)
	}
}

func TestSubscribersGetTheirTopics(t *testing.T) {
	p, stop := publishing(t)
	defer stop()
	all, some, none := subscribe(t, p, ""), subscribe(t, p, "kv@a@", "other"), subscribe(t, p, "kv@b")
	for i := range 3 {
		p.publish([]string{"kv@a@m", "kv@c@m", "other"}[i], []kvevents.Event{{Kind: kvevents.Cleared}}, time.Now())
	}
	if err := some.conn.Send([]byte("\x00other")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a subscription ended", func() bool { return wanted(p, some.raw.LocalAddr()) == 1 })
	p.publish("other", nil, time.Now())
	p.publish("kv@a@n", nil, time.Now())
	p.publish("kv@b@n", nil, time.Now())
	for l, want := range map[*listener][]uint64{all: {0, 1, 2, 3, 4, 5}, some: {0, 2, 4}, none: {5}} {
		for _, n := range want {
			if topic, number, _ := l.next(); number != n {
				t.Errorf("message %d of %q instead of %d", number, topic, n)
			}
		}
	}
}

// publishing is a publisher that runs.
func publishing(t *testing.T) (p *publisher, stop func()) {
	t.Helper()
	p = newPublisher("127.0.0.1:0")
	if err := p.listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { p.run(ctx); close(done) }()
	return p, func() { cancel(); <-done }
}

// One that doesn't read holds nobody up, and sees by the numbers that it missed something.
func TestSlowSubscriberMissesMessages(t *testing.T) {
	p, stop := publishing(t)
	defer stop()
	l := subscribe(t, p, "")
	hashes := make([]uint64, 2<<10)
	for i := range hashes {
		hashes[i] = 1 << 63
	}
	const messages = 3 * highWater
	for range messages { // 18 KB each, together more than queue and network hold
		p.publish("", []kvevents.Event{{Kind: kvevents.Removed, Hashes: hashes}}, time.Now())
	}
	gap := false
	for want := uint64(0); !gap && want < messages; want++ {
		_, number, _ := l.next()
		gap = number != want
		if p.publish("", nil, time.Now()); number > messages {
			break
		}
	}
	if !gap {
		t.Error("nothing was missed")
	}
}

func TestStrangersAreNoSubscribers(t *testing.T) {
	p, stop := publishing(t)
	defer stop()
	conn, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nAccept: something longer than a greeting\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	eventually(t, "it is gone", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.subs) == 0
	})
}

func TestRefuseClosesEventsToo(t *testing.T) {
	t.Parallel()
	f := start(t, onePod)
	p := f.endpoints[0].events
	l := subscribe(t, p, "")
	f.inject("a", Fault{Kind: Refuse})
	if _, err := l.conn.Receive(); err == nil {
		t.Error("a message from an endpoint that refuses")
	}
	if conn, err := net.Dial("tcp", p.address()); err == nil {
		_ = conn.Close()
		t.Error("an endpoint that refuses takes subscribers")
	}
	url := f.EventURLs()["a"]
	f.heal("a", Refuse)
	if f.EventURLs()["a"] != url {
		t.Errorf("%s became %s", url, f.EventURLs()["a"])
	}
	l = subscribe(t, p, "")
	f.post("/v1/completions", fmt.Sprintf(`{"model":"llama-3.1-8b","prompt":%q,"max_tokens":1}`, strings.Repeat("word", 16)))
	if _, number, events := l.next(); number != 0 || len(events[0].Hashes) != 1 {
		t.Errorf("message %d: %+v", number, events)
	}
}

func TestListenSaysWhichEventAddressIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	opts := onePod
	opts.Endpoints = []Endpoint{{ID: "a", Listen: "127.0.0.1:0", Class: "l40s", KVEvents: l.Addr().String()}}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "KV events") {
		t.Errorf("%v", err)
	}
	if s.endpoints[0].port.ln != nil {
		t.Error("the endpoint still listens")
	}
}

func TestWithoutEventsNothingIsPublished(t *testing.T) {
	t.Parallel()
	f := start(t, twoPods)
	if urls := f.EventURLs(); len(urls) != 0 {
		t.Errorf("%v", urls)
	}
}
