package dev

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// probeTimeout bounds one question to a unit.
const probeTimeout = 2 * time.Second

// probe asks a unit whether it is up; the error says what it answered instead.
func probe(ctx context.Context, u Unit) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if u.Kind == KindRedis {
		return ping(ctx, u.Ready)
	}
	return get(ctx, u.Ready)
}

// get wants a 200 from the URL.
func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	_, err = do(req)
	return err
}

// do sends on a connection of its own, so that no answer comes from a process that is gone, and
// wants a 200.
func do(req *http.Request) ([]byte, error) {
	h := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := h.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("read answer of %s: %w", req.URL, err)
	}
	if resp.StatusCode != http.StatusOK {
		text := strings.TrimSpace(string(body))
		return nil, fmt.Errorf("%s answered %s: %s", req.URL, resp.Status, text[:min(len(text), 300)])
	}
	return body, nil
}

// ping asks Redis in its own protocol.
func ping(ctx context.Context, addr string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // asked and answered
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return err
	}
	answer, err := bufio.NewReader(io.LimitReader(c, 1024)).ReadString('\n')
	if err != nil {
		return err
	}
	if answer != "+PONG\r\n" {
		return fmt.Errorf("redis at %s answered %q", addr, answer)
	}
	return nil
}

// chat sends the router one smallest request and wants one token of an answer.
func chat(ctx context.Context, router, key, model string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*probeTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{
		"model": model, "max_tokens": 1, "messages": []map[string]string{{"role": "user", "content": "ready?"}},
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, router+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	b, err := do(req)
	if err != nil {
		return err
	}
	var answer struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return fmt.Errorf("read completion of %s: %w", model, err)
	}
	if len(answer.Choices) == 0 || answer.Choices[0].Message.Content == "" {
		return fmt.Errorf("completion of %s has no content", model)
	}
	return nil
}

// errEnded says that a process ended while it was waited for.
var errEnded = errors.New("ended")

// permanent wraps an error that trying again will not mend.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// until tries every 100 ms until it works, fails for good, ctx ends, or ended is closed (nil: never);
// the error holds the last attempt's.
func until(ctx context.Context, ended <-chan struct{}, try func(context.Context) error) error {
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		err := try(ctx)
		var last permanent
		if err == nil || errors.As(err, &last) {
			return err
		}
		select {
		case <-ended:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), err)
		case <-t.C:
		}
	}
}
