// Package client speaks to the control plane's REST API: it tries one node after the other, carries
// ETags, and turns problem documents (RFC 9457) into errors that say what to do. What resources mean
// is package policy's.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 20

// Timeout is how long one call may take when [Client].HTTP is nil.
const Timeout = 15 * time.Second

// Client calls the control plane. The zero value lacks servers; fill it in and use it.
type Client struct {
	// Servers are base URLs of control plane nodes, tried in order until one can be reached; any
	// node takes any call.
	Servers []string
	// Token is the bearer token; empty: none is sent.
	Token string
	// Reason is kept in the audit trail with each change; empty: none.
	Reason string
	// Manager is the automation in whose name resources are written; empty: a person. Force lets it take
	// over fields that others have set.
	Manager string
	Force   bool
	// LargeChange lets writes of resources move more of the traffic than the safety rules allow; they need
	// a Reason then.
	LargeChange bool
	// BreakGlass is why writes of resources are not to wait for approval; empty: they may have to.
	BreakGlass string
	// Stale has reads answered from what a node has, whether there is a leader or not: they may be old. Only
	// for reads that take the parameter consistency.
	Stale bool
	// Age is told with each of these answers how long ago its node had heard of a leader; below 0: never. Nil:
	// nobody wants to know.
	Age func(time.Duration)
	// Pause is the time before a write is sent again whose outcome is not known; 0: [Pause].
	Pause time.Duration
	// HTTP does the calls; nil: a client of its own with [Timeout].
	HTTP *http.Client
	// Transport is what that client stands on, for authorities of its own; nil: the default. With HTTP it
	// means nothing.
	Transport http.RoundTripper
}

// ErrUnreachable is wrapped when no server could be reached at all.
var ErrUnreachable = errors.New("control plane can't be reached")

// Answer is what a server said, with a status below 300.
type Answer struct {
	Status int
	ETag   string
	Body   []byte
}

// Call is one request.
type Call struct {
	Method string
	// Path starts with "/v1/" and is escaped by whoever makes it; Query may be nil.
	Path  string
	Query url.Values
	// IfMatch and IfNoneMatch are preconditions, with quotes; empty: none.
	IfMatch, IfNoneMatch string
	// Body is JSON; nil: none.
	Body []byte

	key   string // Idempotency-Key, of writes
	glass string // why it is not to wait for approval
}

// Do makes the call. An answer of 300 and above is a *[ProblemError]. A server that can't be connected
// to, or says that it has no leader or is still catching up, is passed over, which is safe for changes too. One that fails later may have made the change:
// a write with a precondition is sent again with the same Idempotency-Key, others are not. Where the
// server says that there were too many calls, it is given the time that it asks for.
func (c *Client) Do(ctx context.Context, call Call) (*Answer, error) {
	if call.Method == http.MethodGet {
		if c.Stale {
			query := url.Values{"consistency": {"stale"}}
			maps.Copy(query, call.Query)
			call.Query = query
		}
		return c.paced(ctx, call)
	}
	call.key = uuid.NewString()
	if c.Force && call.IfMatch != "" {
		query := url.Values{"force": {"true"}}
		maps.Copy(query, call.Query)
		call.Query = query
	}
	if call.IfMatch != "" || call.IfNoneMatch != "" {
		call.glass = c.BreakGlass
	}
	if c.LargeChange && (call.IfMatch != "" || call.IfNoneMatch != "") {
		query := url.Values{"allow_large_change": {"true"}}
		maps.Copy(query, call.Query)
		call.Query = query
	}
	a, err := c.paced(ctx, call)
	if unknown(err) && ctx.Err() == nil {
		return c.again(ctx, call, err)
	}
	return a, err
}

// anywhere makes a call to the first server that can be reached.
func (c *Client) anywhere(ctx context.Context, call Call) (*Answer, error) {
	var a *Answer
	err := c.inTurn(ctx, call.Method == http.MethodGet, func(server string) (err error) {
		a, err = c.one(ctx, server, call)
		return err
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// inTurn asks one server after the other, until one answers that is able to. What
// may have been done is asked of another only if that is harmless twice.
func (c *Client) inTurn(ctx context.Context, harmless bool, ask func(server string) error) error {
	if len(c.Servers) == 0 {
		return fmt.Errorf("%w: no server named", ErrUnreachable)
	}
	var unreached []error
	var idle error // of the first that did nothing
	for _, server := range c.Servers {
		err := ask(server)
		var op *url.Error
		switch {
		case ctx.Err() == nil && elsewhere(err):
			if idle == nil {
				idle = err
			}
			continue
		case err == nil || !errors.As(err, &op):
			return err
		}
		unreached = append(unreached, err)
		if !connecting(err) && !harmless || ctx.Err() != nil {
			idle = nil
			break
		}
	}
	if idle != nil {
		return idle
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, errors.Join(unreached...))
}

func (c *Client) one(ctx context.Context, server string, call Call) (*Answer, error) {
	target := strings.TrimRight(server, "/") + call.Path
	if len(call.Query) > 0 {
		target += "?" + call.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, call.Method, target, bytes.NewReader(call.Body))
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", call.Path, err)
	}
	for name, value := range map[string]string{
		"If-Match": call.IfMatch, "If-None-Match": call.IfNoneMatch, "X-Anabranch-Reason": c.Reason,
		"Idempotency-Key":     call.key,
		"X-Anabranch-Manager": c.Manager, "X-Anabranch-Break-Glass": call.glass,
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if call.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	h := c.HTTP
	if h == nil {
		h = &http.Client{Timeout: Timeout, Transport: c.Transport}
	}
	resp, err := h.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read answer to %s %s: %w: %w", call.Method, call.Path, errCut, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return nil, problem(resp, body, server)
	}
	if c.Stale && c.Age != nil && call.Method == http.MethodGet {
		c.Age(staleness(resp.Header))
	}
	return &Answer{Status: resp.StatusCode, ETag: resp.Header.Get("ETag"), Body: body}, nil
}

// staleness is how long ago a node last heard of the leader, as its answer says; -1: never.
func staleness(h http.Header) time.Duration {
	ms, err := strconv.ParseInt(h.Get("X-Staleness-Ms"), 10, 64)
	if err != nil || ms < 0 {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}

// JSON gets a path and decodes the answer into out.
func (c *Client) JSON(ctx context.Context, path string, query url.Values, out any) error {
	a, err := c.Do(ctx, Call{Method: http.MethodGet, Path: path, Query: query})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(a.Body, out); err != nil {
		return fmt.Errorf("read answer to GET %s: %w", path, err)
	}
	return nil
}
