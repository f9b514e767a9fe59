package dev

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntil(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		failures int           // before it works
		last     error         // that a try ends with after them
		endedAt  time.Duration // 0: never
		want     error
		took     time.Duration
	}{
		"at once":           {0, nil, 0, nil, 0},
		"after three":       {3, nil, 0, nil, 300 * time.Millisecond},
		"for good":          {2, permanent{boom}, 0, boom, 200 * time.Millisecond},
		"time is over":      {1000, nil, 0, errStart, 2 * time.Second},
		"process has ended": {1000, nil, 450 * time.Millisecond, errEnded, 450 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errStart)
				defer cancel()
				ended := make(chan struct{})
				if c.endedAt > 0 {
					time.AfterFunc(c.endedAt, func() { close(ended) })
				}
				began, tries := time.Now(), 0
				err := until(ctx, ended, func(context.Context) error {
					if tries++; tries <= c.failures {
						return fmt.Errorf("try %d", tries)
					}
					return c.last
				})
				if !errors.Is(err, c.want) || time.Since(began) != c.took {
					t.Errorf("until = %v after %v; want %v after %v", err, time.Since(began), c.want, c.took)
				}
				if errors.Is(err, errStart) && !strings.Contains(err.Error(), "last answer: try ") {
					t.Errorf("error lacks the last answer: %v", err)
				}
			})
		})
	}
}

func TestProbesSayWhatWasAnswered(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
		case "/empty/v1/chat/completions":
			_, _ = fmt.Fprint(w, `{"choices":[]}`)
		case "/page/v1/chat/completions":
			_, _ = fmt.Fprint(w, `<html>`)
		default:
			http.Error(w, "no table yet", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	at := strings.TrimPrefix(server.URL, "http://")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"ready":                     {probe(t.Context(), Unit{Kind: KindRouter, Ready: server.URL + "/ok"}), ""},
		"not ready":                 {probe(t.Context(), Unit{Kind: KindRouter, Ready: server.URL + "/readyz"}), "503 Service Unavailable: no table yet"},
		"not a redis":               {probe(t.Context(), Unit{Kind: KindRedis, Ready: at}), "answered \"HTTP/1.1 400"},
		"nobody":                    {probe(t.Context(), Unit{Kind: KindRedis, Ready: address(t)}), "connection refused"},
		"completion refused":        {chat(t.Context(), server.URL, "k", "m"), "no table yet"},
		"completion of nothing":     {chat(t.Context(), server.URL+"/empty", "k", "m"), "completion of m has no content"},
		"completion that is a page": {chat(t.Context(), server.URL+"/page", "k", "m"), "read completion of m"},
	} {
		if c.want == "" && c.err != nil || c.want != "" && (c.err == nil || !strings.Contains(c.err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
}
