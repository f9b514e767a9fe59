package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxEvent bounds the data of one event, in bytes.
const maxEvent = 4 << 20

// ErrStreamEnded is wrapped when an event stream that had begun has ended, or has broken off.
var ErrStreamEnded = errors.New("the stream of events has ended")

// Events reads a stream of server-sent events and calls each with the name and data of one after the
// other, until it fails, whose error is returned, or ctx ends. Servers are tried in turn until one
// answers; the end of a stream that had begun is [ErrStreamEnded], as is [Silence]: servers send
// something more often than that.
func (c *Client) Events(ctx context.Context, path string, query url.Values, each func(name string, data []byte) error) error {
	return c.inTurn(ctx, true, func(server string) error { return c.events(ctx, server, path, query, each) })
}

func (c *Client) events(ctx context.Context, server, path string, query url.Values, each func(string, []byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(Silence, func() { cancel(errSilent) })
	defer silence.Stop()
	target := strings.TrimRight(server, "/") + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return fmt.Errorf("follow %s: %w", path, err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	h := c.HTTP
	if h == nil {
		h = &http.Client{Transport: c.Transport} // bounded by silence
	}
	resp, err := h.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only read
	if resp.StatusCode >= http.StatusMultipleChoices {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return fmt.Errorf("follow %s at %s: %w", path, server, err)
		}
		return problem(resp, body, server)
	}
	err = readEvents(resp.Body, func() { silence.Reset(Silence) }, each)
	if errors.Is(err, ErrStreamEnded) && errors.Is(context.Cause(ctx), errSilent) {
		err = fmt.Errorf("%w: %w", ErrStreamEnded, errSilent)
	}
	return err
}

// readEvents reads events as the HTML standard writes them, of which servers of this API use one field
// of a kind in each (https://html.spec.whatwg.org/multipage/server-sent-events.html). heard is called
// for every line.
func readEvents(from io.Reader, heard func(), each func(string, []byte) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxEvent)
	var name string
	var data []byte
	for lines.Scan() {
		heard()
		field, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			data = bytes.Clone(value)
		case "":
			if len(lines.Bytes()) > 0 {
				continue // a comment
			}
			if data != nil {
				if err := each(name, data); err != nil {
					return err
				}
			}
			name, data = "", nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrStreamEnded, err)
	}
	return ErrStreamEnded
}
