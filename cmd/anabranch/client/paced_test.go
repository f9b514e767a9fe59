package client

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// transport answers in memory, so that waiting takes virtual time.
type transport func(*http.Request) *http.Response

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r), nil }

func TestTheClientWaitsAsLongAsItIsTold(t *testing.T) {
	for name, tt := range map[string]struct {
		refusals int
		after    string // Retry-After
		calls    int
		took     time.Duration
		ok       bool
	}{
		"not at all":         {0, "", 1, 0, true},
		"twice":              {2, "3", 3, 6 * time.Second, true},
		"too often":          {100, "1", pacedAttempts, (pacedAttempts - 1) * time.Second, false},
		"too long":           {1, "60", 1, 0, false},
		"without being told": {1, "", 1, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				keys := map[string]bool{}
				c := &Client{Servers: []string{"http://node"}, HTTP: &http.Client{Transport: transport(func(r *http.Request) *http.Response {
					calls++
					keys[r.Header.Get("Idempotency-Key")] = true
					w := httptest.NewRecorder()
					if calls <= tt.refusals {
						w.Header().Set("Retry-After", tt.after)
						w.WriteHeader(http.StatusTooManyRequests)
						_, _ = w.WriteString(`{"title":"Too many requests","code":"too_many_requests"}`)
					}
					return w.Result()
				})}}
				began := time.Now()
				_, err := c.Do(t.Context(), Call{Method: http.MethodPost, Path: "/v1/tokens"})
				if took := time.Since(began); calls != tt.calls || took != tt.took || (err == nil) != tt.ok || len(keys) != 1 {
					t.Errorf("%d calls in %v with %d keys: %v", calls, took, len(keys), err)
				}
				if err != nil && !strings.Contains(err.Error(), "slow down") {
					t.Errorf("no fix: %v", err)
				}
			})
		})
	}
}
