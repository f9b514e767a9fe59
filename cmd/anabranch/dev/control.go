package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

// reply is what the supervisor answers to an order.
type reply struct {
	Done  []string `json:"done"`
	Error string   `json:"error,omitempty"`
}

// handler serves orders and status to the commands of the same user.
func (s *supervisor) handler(pid int) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusOK, s.status(r.Context(), pid))
	})
	order := func(act func(context.Context, Order) ([]string, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var o Order
			if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&o); err != nil {
				answer(w, http.StatusBadRequest, reply{Error: err.Error()})
				return
			}
			// An order once begun is finished, also for a client that has gone.
			done, err := act(context.WithoutCancel(r.Context()), o)
			if err != nil {
				answer(w, http.StatusConflict, reply{Done: done, Error: err.Error()})
				return
			}
			answer(w, http.StatusOK, reply{Done: done})
		}
	}
	mux.HandleFunc("POST /break", order(s.breakdown))
	mux.HandleFunc("POST /heal", order(s.heal))
	return mux
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that has gone
}

// serve answers at the folder's socket until ctx ends. The folder must be held.
func (s *supervisor) serve(ctx context.Context, l net.Listener, pid int) error {
	server := &http.Server{Handler: s.handler(pid), ReadHeaderTimeout: probeTimeout}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("control socket: %w", err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), healWithin)
	defer cancel()
	err := server.Shutdown(closing)
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// listen opens the folder's socket in place of one that a killed supervisor left.
func (f Folder) listen(ctx context.Context) (net.Listener, error) {
	if err := os.Remove(f.socket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	var c net.ListenConfig
	l, err := c.Listen(ctx, "unix", f.socket())
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return l, nil
}

// ask calls the supervisor of the folder.
func (f Folder) ask(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://supervisor"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	h := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", f.socket())
		},
	}}
	resp, err := h.Do(req)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return ErrNotRunning
	}
	if err != nil {
		return fmt.Errorf("ask the supervisor: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return fmt.Errorf("ask the supervisor: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var r reply
		if err := json.Unmarshal(b, &r); err != nil || r.Error == "" {
			return fmt.Errorf("the supervisor answered %s", resp.Status)
		}
		return errors.New(r.Error)
	}
	return json.Unmarshal(b, out)
}

// Status asks the supervisor how everything is; [ErrNotRunning] when there is none.
func (f Folder) Status(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*probeTimeout)
	defer cancel()
	var s Status
	err := f.ask(ctx, http.MethodGet, "/status", nil, &s)
	return s, err
}

// Break carries an order out, and says what was done.
func (f Folder) Break(ctx context.Context, o Order) ([]string, error) {
	return f.order(ctx, "/break", o)
}

// Heal undoes what an order broke.
func (f Folder) Heal(ctx context.Context, o Order) ([]string, error) { return f.order(ctx, "/heal", o) }

func (f Folder) order(ctx context.Context, path string, o Order) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, healWithin+5*time.Second)
	defer cancel()
	var r reply
	err := f.ask(ctx, http.MethodPost, path, o, &r)
	return r.Done, err
}
