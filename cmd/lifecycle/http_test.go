package lifecycle

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"
)

func TestServeEndsWithItsContextAndNotWithShutdown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, s, l) }()

	resp, err := http.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("ended with Shutdown: %v", err)
	default:
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestServeSaysWhyItCanNot(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := Serve(t.Context(), &http.Server{ReadHeaderTimeout: time.Second}, l); err == nil {
		t.Error("served on a closed listener")
	}
}
