package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
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
	resp, err := c.open(ctx, server, path, query, "text/event-stream")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only read
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
