package dataplane

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// farClients send the requests.
type farClients struct {
	http *http.Client
	held []net.Conn
}

// farBody is a prompt of 4 KB, some 1,000 tokens.
func farBody(answer string) string {
	stream := ""
	if answer != "whole" {
		stream = `"stream":true,"stream_options":{"include_usage":true},`
	}
	return `{"model":"llama",` + stream + `"max_tokens":62,"messages":[{"role":"user","content":"` +
		strings.Repeat("All work and no play makes Jack a dull boy. ", 90) + `"}]}`
}

func (c *farClients) obey(o order, m *farModels) (done outcome, err error) {
	began := time.Now()
	switch o.Do {
	case "load":
		err = c.load(o)
	case "pace":
		done.Latencies, done.Failed, err = c.pace(o)
	case "hold":
		err = c.hold(o)
	case "release":
		err = c.release(m)
	default:
		err = fmt.Errorf("unknown order %q", o.Do)
	}
	done.Took = time.Since(began)
	return done, err
}

// load sends requests, one after another from each worker.
func (c *farClients) load(o order) error {
	errs := make(chan error, o.Workers)
	for i := range o.Workers {
		go func() {
			var err error
			for range (o.N + i) / o.Workers {
				if err = c.send(o); err != nil {
					break
				}
			}
			errs <- err
		}()
	}
	var first error
	for range o.Workers {
		first = cmp.Or(first, <-errs)
	}
	return first
}

// pace sends requests at random moments, whether or not those before have been answered. Where the
// machine can't keep up some fail: they have no time, and are counted.
func (c *farClients) pace(o order) (answered []time.Duration, failed int, err error) {
	took := make([]time.Duration, o.N)
	errs := make([]error, o.N)
	var open sync.WaitGroup
	rnd := rand.New(rand.NewPCG(1, uint64(o.N))) // the same moments for all that are compared at a rate
	next := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range o.N {
		<-timer.C
		open.Go(func() {
			began := time.Now()
			errs[i] = c.send(o)
			took[i] = time.Since(began)
		})
		next = next.Add(time.Duration(rnd.ExpFloat64() / o.Rate * float64(time.Second)))
		timer.Reset(time.Until(next))
	}
	open.Wait()
	answered = took[:0]
	for i, err := range errs {
		if err == nil {
			answered = append(answered, took[i])
		}
	}
	if len(answered) == 0 {
		return nil, o.N, cmp.Or(errs...)
	}
	return answered, o.N - len(answered), nil
}

func (c *farClients) send(o order) error {
	q, err := http.NewRequestWithContext(context.Background(), http.MethodPost, o.URL+"/v1/chat/completions", strings.NewReader(farBody(o.Answer)))
	if err != nil {
		return err
	}
	farHeader(q.Header, o.Answer)
	answer, err := c.http.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if n, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	} else if answer.StatusCode != http.StatusOK || n < 500 {
		return fmt.Errorf("status %d with %d bytes", answer.StatusCode, n)
	}
	return nil
}

func farHeader(h http.Header, answer string) {
	h.Set("Authorization", "Bearer acme-key")
	h.Set("Content-Type", "application/json")
	h.Set(farAnswer, answer)
}

// holders is how many streams are opened at once.
const holders = 64

// hold opens streams and leaves them open once each has content.
func (c *farClients) hold(o order) error {
	var mu sync.Mutex // guards c.held
	var opening sync.WaitGroup
	errs := make([]error, holders)
	for i := range holders {
		opening.Go(func() {
			for range (o.N + i) / holders {
				conn, err := open(o)
				if err != nil {
					errs[i] = err
					return
				}
				mu.Lock()
				c.held = append(c.held, conn)
				mu.Unlock()
			}
		})
	}
	opening.Wait()
	return cmp.Or(errs...)
}

// open opens a stream and reads up to its first content.
func open(o order) (net.Conn, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	q, err := http.NewRequestWithContext(context.Background(), http.MethodPost, o.URL+"/v1/chat/completions", strings.NewReader(farBody(o.Answer)))
	if err != nil {
		return nil, err
	}
	farHeader(q.Header, o.Answer)
	if err := q.Write(conn); err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), q)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), " word") {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("status %d, and no content", answer.StatusCode)
}

// release ends the streams that are held open.
func (c *farClients) release(m *farModels) error {
	m.mu.Lock()
	close(m.ended)
	m.ended = make(chan struct{})
	m.mu.Unlock()
	for _, conn := range c.held {
		if _, err := io.Copy(io.Discard, &untilDone{conn: conn}); err != nil {
			return err
		}
		conn.Close()
	}
	c.held = nil
	return nil
}

// untilDone is a connection up to the end of its stream.
type untilDone struct {
	conn net.Conn
	tail string
}

func (u *untilDone) Read(p []byte) (int, error) {
	if strings.Contains(u.tail, "[DONE]") {
		return 0, io.EOF
	}
	n, err := u.conn.Read(p)
	u.tail = (u.tail + string(p[:n]))[max(0, len(u.tail)+n-16):]
	return n, err
}
