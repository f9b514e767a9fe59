package override

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

const (
	maxBody     = 16 << 10
	callWithin  = 5 * time.Second
	retryListen = 5 * time.Second
)

// serve answers on the socket until ctx ends. One that can't be made is tried again: orders can
// still be given by the file.
func (b *Book) serve(ctx context.Context) {
	for ctx.Err() == nil {
		l, err := listen(ctx, b.o.Socket)
		b.mu.Lock()
		b.problem("socket", err)
		b.mu.Unlock()
		if err == nil {
			b.answer(ctx, l)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryListen):
		}
	}
}

// answer serves one listener until ctx ends or it fails.
func (b *Book) answer(ctx context.Context, l net.Listener) {
	s := &http.Server{
		Handler:     b.Handler(),
		ReadTimeout: callWithin, WriteTimeout: callWithin, IdleTimeout: callWithin, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // what callers break
	}
	ended := make(chan error, 1)
	go func() {
		ended <- s.Serve(l)
		close(ended)
	}()
	select {
	case <-ctx.Done():
		_ = os.Remove(b.o.Socket) // best effort: the next start replaces it
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), callWithin)
		defer cancel()
		if err := s.Shutdown(last); err != nil {
			b.log.Warn("calls on the socket are cut", "error", errors.Join(err, s.Close()))
		}
	case err := <-ended:
		b.mu.Lock()
		b.problem("socket", fmt.Errorf("serve %s: %w", b.o.Socket, err))
		b.mu.Unlock()
	}
	for range ended { // until it has returned
	}
}

// listen makes the socket where nobody else can reach it, and moves it to its place when only its
// owner can use it. What a router left there that is gone is replaced; one that is alive is not.
func listen(ctx context.Context, path string) (net.Listener, error) {
	var d net.Dialer
	probe, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if c, err := d.DialContext(probe, "unix", path); err == nil {
		_ = c.Close() // it was only to see
		return nil, fmt.Errorf("listen on %s: another router does: give each a data folder of its own", path)
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // best effort: it is empty
	private := filepath.Join(folder, "s")
	var config net.ListenConfig
	l, err := config.Listen(ctx, "unix", private)
	if err != nil {
		const longest = 107 // of a socket's path, sun_path in unix(7) less its end
		if len(private) > longest {
			return nil, fmt.Errorf("listen on %s: the path is too long for a socket: use a data folder of at most %d bytes", path, longest-len("/.s4294967295/s"))
		}
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // by then it has another name
	}
	err = os.Chmod(private, 0o600)
	if err == nil {
		err = os.Rename(private, path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), l.Close())
	}
	return l, nil
}

// Handler answers GET /orders, POST /orders and DELETE /orders/{id}?actor=NAME. Who can reach it may give
// orders.
func (b *Book) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, b.Status()) })
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		var a Ask
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
		d.DisallowUnknownFields()
		err := d.Decode(&a)
		if err == nil && d.Decode(&struct{}{}) != io.EOF {
			err = errors.New("something follows the order")
		}
		if err != nil {
			refuse(w, http.StatusBadRequest, fmt.Errorf("read order: %w", err))
			return
		}
		given, err := b.Give(a)
		if err != nil {
			refuse(w, statusOf(err), err)
			return
		}
		reply(w, http.StatusCreated, given)
	})
	mux.HandleFunc("DELETE /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		if err := b.Cancel(r.PathValue("id"), r.URL.Query().Get("actor")); err != nil {
			refuse(w, statusOf(err), err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

func statusOf(err error) int {
	if errors.Is(err, errUnknown) {
		return http.StatusNotFound
	}
	if _, ok := errors.AsType[wrong](err); ok {
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

// problem is how an error is answered.
type problem struct {
	Error string `json:"error"`
}

func refuse(w http.ResponseWriter, status int, err error) { reply(w, status, problem{err.Error()}) }

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // whoever asked is gone
}
