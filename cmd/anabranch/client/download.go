package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Silence is how long a server may send nothing in a download.
const Silence = 30 * time.Second

var errSilent = fmt.Errorf("nothing has come for %s", Silence)

// Download writes what is at a path to w, as it comes: it may be large, and takes as long as it
// takes, but never more than [Silence] without a byte. Servers are tried in turn until one answers;
// when one fails in the middle the download has failed, since w has some of it.
func (c *Client) Download(ctx context.Context, path string, query url.Values, w io.Writer) error {
	return c.inTurn(ctx, true, func(server string) error { return c.download(ctx, server, path, query, w) })
}

func (c *Client) download(ctx context.Context, server, path string, query url.Values, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(Silence, func() { cancel(errSilent) })
	defer silence.Stop()
	resp, err := c.open(ctx, server, path, query, "")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only read
	buffer := make([]byte, 256<<10)
	for {
		n, err := resp.Body.Read(buffer)
		silence.Reset(Silence)
		if _, failed := w.Write(buffer[:n]); failed != nil {
			return failed
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(context.Cause(ctx), errSilent):
			return fmt.Errorf("download %s from %s: %w", path, server, errSilent)
		case err != nil:
			return fmt.Errorf("download %s from %s: %w", path, server, err)
		}
	}
}

// open asks for something long, whose body is the caller's to close. Nothing but ctx bounds it. An answer
// that is no success is an error.
func (c *Client) open(ctx context.Context, server, path string, query url.Values, accept string) (*http.Response, error) {
	target := strings.TrimRight(server, "/") + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", path, err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	h := c.HTTP
	if h == nil {
		h = &http.Client{Transport: c.Transport} // bounded by ctx
	}
	resp, err := h.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }() // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("get %s from %s: %w", path, server, err)
	}
	return nil, problem(resp, body, server)
}
