package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// levers is what a script may have done to the system, by name. Each is pulled one at a time, gets what
// the script sends (nil: nothing) and gives what the script gets, both as JSON; an error fails the script.
type levers map[string]func(body json.RawMessage) (any, error)

// lever takes its argument as a value of its own type.
func lever[T any](do func(T) (any, error)) func(json.RawMessage) (any, error) {
	return func(body json.RawMessage) (any, error) {
		var arg T
		if len(body) > 0 {
			if err := json.Unmarshal(body, &arg); err != nil {
				return nil, err
			}
		}
		return do(arg)
	}
}

// open lets a process that is told its address pull levers, until the test ends. Whoever else is on this
// machine does not know the address.
func (l levers) open(t *testing.T) string {
	t.Helper()
	secret := "/" + rand.Text() + "/"
	var one sync.Mutex
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name, ok := strings.CutPrefix(r.URL.Path, secret)
			if !ok || r.Method != http.MethodPost {
				http.NotFound(w, r)
				return
			}
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
			var got any
			if do := l[name]; err == nil && do != nil {
				one.Lock()
				defer one.Unlock()
				got, err = do(body)
			} else if err == nil {
				err = fmt.Errorf("there is no lever %q", name)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(got) // the script may have ended
		}),
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := begin(func(context.Context) error { return server.Serve(listener) })
	t.Cleanup(func() {
		_ = server.Close()
		if err := served.end(); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("levers: %v", err)
		}
	})
	return "http://" + listener.Addr().String() + secret
}

func TestLeversArePulledByWhoKnowsTheAddressOnly(t *testing.T) {
	t.Parallel()
	at := levers{
		"twice": lever(func(arg struct{ N int }) (any, error) { return 2 * arg.N, nil }),
		"fails": lever(func(struct{}) (any, error) { return nil, errors.New("it is stuck") }),
	}.open(t)
	root := at[:strings.LastIndex(strings.TrimSuffix(at, "/"), "/")+1]
	for _, tt := range []struct {
		method, url, body string
		status            int
		says              string
	}{
		{http.MethodPost, at + "twice", `{"n": 21}`, http.StatusOK, "42"},
		{http.MethodPost, at + "twice", "", http.StatusOK, "0"},
		{http.MethodPost, at + "twice", `{"n": "x"}`, http.StatusInternalServerError, "cannot unmarshal"},
		{http.MethodPost, at + "fails", "", http.StatusInternalServerError, "it is stuck"},
		{http.MethodPost, at + "thrice", "", http.StatusInternalServerError, `no lever "thrice"`},
		{http.MethodGet, at + "twice", "", http.StatusNotFound, ""},
		{http.MethodPost, root + "twice", "", http.StatusNotFound, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, tt.url, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tenants.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != tt.status || !strings.Contains(string(text), tt.says) {
			t.Errorf("%s %q: %d %s %v, want %d and %q", tt.method, tt.body, resp.StatusCode, text, err, tt.status, tt.says)
		}
	}
}
