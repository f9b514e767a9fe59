package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/client/clienttest"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// wire stands before a node and loses answers to writes.
type wire struct {
	*httptest.Server
	mu   sync.Mutex // guards what follows
	lose int        // answers still to be lost
	how  func(http.ResponseWriter)
	keys []string // of the writes that came by
}

func cut(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// unsure answers as a node does that lost the leader.
func unsure(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, `{"title":"not known","status":503,"code":"unknown_outcome"}`)
}

func newWire(t *testing.T, n *clienttest.Node, lose int, how func(http.ResponseWriter)) *wire {
	t.Helper()
	target, err := url.Parse(n.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{lose: lose, how: how}
	proxy := httputil.NewSingleHostReverseProxy(target)
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			proxy.ServeHTTP(rw, r)
			return
		}
		w.mu.Lock()
		w.keys = append(w.keys, r.Header.Get("Idempotency-Key"))
		lost := w.lose > 0
		w.lose--
		w.mu.Unlock()
		if !lost {
			proxy.ServeHTTP(rw, r)
			return
		}
		proxy.ServeHTTP(httptest.NewRecorder(), r) // it is done all the same
		w.how(rw)
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *wire) client() *client.Client {
	return &client.Client{Servers: []string{w.URL}, Token: "admin-token", Pause: time.Millisecond}
}

func keeping(t *testing.T) *clienttest.Node {
	t.Helper()
	n := clienttest.Start(t)
	n.Apply(&statepb.Command{Format: 2, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 2}}})
	return n
}

func TestAWriteWhoseAnswerIsLostIsSentAgainWithItsKey(t *testing.T) {
	for name, how := range map[string]func(http.ResponseWriter){"connection lost": cut, "leader lost": unsure} {
		t.Run(name, func(t *testing.T) {
			n := keeping(t)
			w := newWire(t, n, 2, how)
			made, err := w.client().Create(t.Context(), tenant(t, "acme", "top"))
			if err != nil || !made {
				t.Fatalf("made %v, %v", made, err)
			}
			if len(w.keys) != 3 || w.keys[0] == "" || w.keys[0] != w.keys[2] {
				t.Errorf("keys were %q", w.keys)
			}
			if err := w.client().Delete(t.Context(), policy.KindTenant, "acme"); err != nil || w.keys[3] == w.keys[0] {
				t.Errorf("delete: %v, keys %q", err, w.keys)
			}
		})
	}
}

func TestItIsNotSentForEver(t *testing.T) {
	w := newWire(t, keeping(t), 100, unsure)
	_, _, err := w.client().Apply(t.Context(), tenant(t, "acme", "top"))
	var p *client.ProblemError
	if !errors.As(err, &p) || p.Code != "unknown_outcome" || len(w.keys) != 3 {
		t.Errorf("after %d attempts: %v", len(w.keys), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.how = func(rw http.ResponseWriter) { cancel(); unsure(rw) }
	_, err = w.client().Do(ctx, client.Call{Method: http.MethodDelete, Path: "/v1/tenants/acme", IfMatch: "*"})
	if err == nil || len(w.keys) != 4 {
		t.Errorf("after its end: %v, %d attempts", err, len(w.keys))
	}
}

// A server that keeps no keys finds that the resource has changed: by the first attempt, or by somebody
// else. Nobody can know, and that is what the caller hears.
func TestAServerThatKeepsNoKeysLeavesItUnknown(t *testing.T) {
	w := newWire(t, clienttest.Start(t), 1, unsure)
	_, err := w.client().Do(t.Context(), client.Call{
		Method: http.MethodPut, Path: "/v1/tenants/acme", IfNoneMatch: "*",
		Body: []byte(`{"apiVersion":"anabranch/v1","kind":"Tenant","metadata":{"name":"acme"},"spec":{}}`),
	})
	var p *client.ProblemError
	if !errors.As(err, &p) || p.Code != "unknown_outcome" {
		t.Errorf("got %v", err)
	}
}

func TestAWriteWithoutAPreconditionIsNotSentAgain(t *testing.T) {
	w := newWire(t, keeping(t), 1, unsure)
	_, err := w.client().Do(t.Context(), client.Call{
		Method: http.MethodPost, Path: "/v1/tenants",
		Body: []byte(`{"apiVersion":"anabranch/v1","kind":"Tenant","metadata":{"name":"acme"},"spec":{}}`),
	})
	if err == nil || len(w.keys) != 1 || w.keys[0] == "" {
		t.Errorf("%v, keys %q", err, w.keys)
	}
}

func TestARefusalAfterALostAnswerIsTold(t *testing.T) {
	n := keeping(t)
	w := newWire(t, n, 1, func(rw http.ResponseWriter) { unsure(rw) })
	_, err := w.client().Do(t.Context(), client.Call{Method: http.MethodDelete, Path: "/v1/tenants/nobody", IfMatch: "*"})
	if !client.IsStatus(err, http.StatusNotFound) {
		t.Errorf("got %v", err)
	}
}
