package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// idle is a node that answers what it can't do now.
func idle(t *testing.T, code string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"title":"not now","status":503,"code":"`+code+`"}`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A node that is cut off from the leader is not the last word while another may have one.
func TestANodeThatCanDoNothingIsPassedOver(t *testing.T) {
	var asked []string
	works := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		_, _ = io.WriteString(w, "{}")
	}))
	defer works.Close()
	cuts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cuts.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	alone, starting, busy := idle(t, "no_leader"), idle(t, "catching_up"), idle(t, "busy")

	for name, tt := range map[string]struct {
		servers []string
		method  string
		code    string // of the problem; empty: there is none
		away    bool   // ErrUnreachable
	}{
		"read":                            {[]string{alone, gone.URL, starting, idle(t, "sign_in_away"), works.URL}, "GET", "", false},
		"change":                          {[]string{alone, gone.URL, starting, works.URL}, "POST", "", false},
		"the first says why":              {[]string{gone.URL, starting, alone}, "POST", "catching_up", false},
		"busy is an answer":               {[]string{busy, works.URL}, "POST", "busy", false},
		"a change whose answer is lost":   {[]string{alone, cuts.URL, works.URL}, "POST", "", true},
		"a read whose answer is lost":     {[]string{cuts.URL, works.URL}, "GET", "", false},
		"nobody is there":                 {[]string{gone.URL}, "GET", "", true},
		"the unknown outcome comes first": {[]string{cuts.URL, alone}, "POST", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			asked = nil
			_, err := (&Client{Servers: tt.servers}).Do(t.Context(), Call{Method: tt.method, Path: "/v1/tenants"})
			var p *ProblemError
			switch {
			case tt.code != "":
				if err != nil && tt.code == "catching_up" && !strings.Contains(err.Error(), "name another node with --server") {
					t.Errorf("no advice: %v", err)
				}
				if !errors.As(err, &p) || p.Code != tt.code || len(asked) != 0 {
					t.Errorf("got %v, asked %v", err, asked)
				}
			case tt.away:
				if !errors.Is(err, ErrUnreachable) || len(asked) != 0 {
					t.Errorf("got %v, asked %v", err, asked)
				}
			case err != nil || !slices.Equal(asked, []string{tt.method + " /v1/tenants"}):
				t.Errorf("got %v, asked %v", err, asked)
			}
		})
	}
	asked = nil
	c := &Client{Servers: []string{alone, works.URL}}
	if err := c.Download(t.Context(), "/down", nil, io.Discard); err != nil {
		t.Errorf("download: %v", err)
	}
	if err := c.Events(t.Context(), "/events", nil, nil); !errors.Is(err, ErrStreamEnded) {
		t.Errorf("events: %v", err)
	}
	if !slices.Equal(asked, []string{"GET /down", "GET /events"}) {
		t.Errorf("asked %v", asked)
	}
}
