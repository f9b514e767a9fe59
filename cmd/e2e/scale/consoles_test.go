package scale

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// asked is what pages of the console ask again and again, and how long an answer may take.
var asked = []string{
	"/v1/routers?limit=1000", "/v1/routers?region=" + regionName(3) + "&limit=500", "/v1/routers?behind=true&limit=1000", "/v1/usage?limit=500&regions=false",
	"/v1/usage?quota=" + tenantName(3), "/v1/costs?by=region&since=10m", "/v1/series?metric=requestsPerSecond,saturation,ttftP95Ms&by=region&name=" + regionName(3),
	"/v1/audit?kind=ClusterHealth&limit=500", "/v1/tables", "/v1/status", "/v1/controlplane/members", "/v1/drills", "/v1/rollouts", "/v1/proposals", "/v1/prices", "/v1/capabilities",
}

// seldom is what costs more, and is asked once, or is kept for all who ask.
var seldom = []string{"/v1/plan/survival?most=24", "/v1/fleet", "/v1/models/llama-3.1-8b/plan?source=" + regionName(3)}

const answered = 300 * time.Millisecond

// lists times the reads of pages.
func (n *member) lists(t *testing.T) {
	t.Helper()
	for _, path := range asked {
		var took []time.Duration
		var size int64
		for range 5 {
			d, bytes := n.timed(t, path)
			took, size = append(took, d), bytes
		}
		slices.Sort(took)
		t.Logf("%-90s %8s in the middle, %8s at most, %7d bytes", path, took[2].Round(time.Millisecond), took[4].Round(time.Millisecond), size)
		if took[2] > answered {
			t.Errorf("%s takes %s, want %s", path, took[2], answered)
		}
	}
	for _, path := range seldom {
		d, bytes := n.timed(t, path)
		t.Logf("%-90s %8s, %7d bytes", path, d.Round(time.Millisecond), bytes)
	}
	if again, _ := n.timed(t, seldom[0]); again > answered {
		t.Errorf("what was asked takes %s again", again)
	}
}

func (n *member) timed(t *testing.T, path string) (time.Duration, int64) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+n.tokens["viewer"])
	start := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	size, err := io.Copy(io.Discard, resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", path, resp.Status, err)
	}
	return time.Since(start), size
}

// console is one that follows the fleet as the page does, without drawing it.
type console struct {
	events, bytes atomic.Int64
	worst         atomic.Int64 // time between two events, ns
}

// consoles has twenty follow the fleet, and then one more that does not read, and tells what they cost.
func (n *member) consoles(t *testing.T) {
	t.Helper()
	const many, seconds = 20, 20
	alone := n.used()
	wait(t.Context(), seconds*time.Second)
	without := n.used()
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	list := make([]*console, many)
	for i := range list {
		list[i] = &console{}
		all.Go(func() {
			if err := list[i].follow(ctx, n); err != nil && ctx.Err() == nil {
				t.Errorf("console %d: %v", i, err)
			}
		})
	}
	wait(ctx, 5*time.Second) // they all have the whole picture
	for _, c := range list {
		c.events.Store(0)
		c.bytes.Store(0)
		c.worst.Store(0)
	}
	before := n.used()
	wait(ctx, seconds*time.Second)
	with := n.used()
	events, bytes := told(list)
	t.Logf("%d consoles: %.2f of a processor, %.2f without; %d MB, %d without; each has %.1f events and %d bytes a second, compressed",
		many, with.since(before), without.since(alone), with.resident>>20, without.resident>>20, events/seconds/many, int(bytes/seconds/many))
	closed := n.stalled(ctx, t)
	for _, c := range list {
		c.worst.Store(0)
	}
	wait(ctx, seconds*time.Second)
	closed()
	end()
	all.Wait()
	var worst time.Duration
	for _, c := range list {
		worst = max(worst, time.Duration(c.worst.Load()))
	}
	t.Logf("beside one that does not read, the longest time between two events is %s", worst.Round(time.Millisecond))
	if worst > 3*time.Second {
		t.Errorf("a console waited %s beside one that does not read", worst)
	}
	if perSecond := events / seconds / many; perSecond < 5 {
		t.Errorf("a console has %.1f events a second", perSecond)
	}
	if extra := (with.since(before) - without.since(alone)) / many; extra > 0.03 {
		t.Errorf("each console takes %.3f of a processor, want 0.03", extra)
	}
}

func told(list []*console) (events, bytes float64) {
	for _, c := range list {
		events += float64(c.events.Load())
		bytes += float64(c.bytes.Load())
	}
	return events, bytes
}

const followed = "/v1/events?topics=fleet,status,drills,rollouts,proposals&rate=10"

// follow reads events, compressed as browsers have them, until the context ends.
func (c *console) follow(ctx context.Context, n *member) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url+followed, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+n.tokens["viewer"])
	counted := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return counting{conn, &c.bytes}, err
	}}
	defer counted.CloseIdleConnections()
	resp, err := (&http.Client{Transport: counted}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", resp.Status)
	}
	last := time.Now()
	lines := bufio.NewReaderSize(resp.Body, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		if !strings.HasPrefix(line, "event: ") {
			continue
		}
		now := time.Now()
		c.worst.Store(max(c.worst.Load(), int64(now.Sub(last))))
		last = now
		c.events.Add(1)
	}
}

// counting counts what is read from a connection.
type counting struct {
	net.Conn
	bytes *atomic.Int64
}

func (c counting) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

// stalled asks for the fleet and reads nothing of it, until it is closed.
func (n *member) stalled(ctx context.Context, t *testing.T) (closed func()) {
	t.Helper()
	at, err := url.Parse(n.url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", followed, at.Host, n.tokens["viewer"]); err != nil {
		t.Fatal(err)
	}
	return func() { _ = conn.Close() }
}
