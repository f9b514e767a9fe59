package override

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"syscall"
)

// Client gives orders to the router behind a socket.
type Client struct {
	path string
	http *http.Client
}

// Dial makes a client for the socket at path. It connects when it is used.
func Dial(path string) *Client {
	var d net.Dialer
	return &Client{path, &http.Client{
		Timeout: 2 * callWithin,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return d.DialContext(ctx, "unix", path)
			},
			DisableKeepAlives: true,
		},
	}}
}

// Give gives an order.
func (c *Client) Give(ctx context.Context, a Ask) (Given, error) {
	body, err := json.Marshal(a)
	if err != nil {
		return Given{}, err
	}
	var given Given
	return given, c.call(ctx, http.MethodPost, "/orders", body, &given)
}

// List tells how the orders stand.
func (c *Client) List(ctx context.Context) (Status, error) {
	var s Status
	return s, c.call(ctx, http.MethodGet, "/orders", nil, &s)
}

// Cancel ends an order; actor is who wants it.
func (c *Client) Cancel(ctx context.Context, id, actor string) error {
	return c.call(ctx, http.MethodDelete, "/orders/"+url.PathEscape(id)+"?actor="+url.QueryEscape(actor), nil, nil)
}

func (c *Client) call(ctx context.Context, method, path string, body []byte, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://router"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := c.http.Do(r)
	if err != nil {
		return c.unreachable(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("answer of the router at %s: %w", c.path, err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		var p problem
		if json.Unmarshal(text, &p) != nil || p.Error == "" {
			return fmt.Errorf("the router at %s answers %s", c.path, res.Status)
		}
		return errors.New(p.Error)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("answer of the router at %s: %w", c.path, err)
	}
	return nil
}

// unreachable says what to do where no router answers.
func (c *Client) unreachable(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no socket at %s: name the router's data folder, and see that it runs", c.path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no router listens at %s: is it running?", c.path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s is its router's alone: run this as the user that runs the router", c.path)
	}
	return fmt.Errorf("ask the router at %s: %w", c.path, err)
}
