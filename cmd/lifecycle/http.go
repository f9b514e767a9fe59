package lifecycle

import (
	"context"
	"errors"
	"net"
	"net/http"
)

// Serve serves s on l, with TLS if s has a configuration for it, until ctx ends; connections that
// are open then are cut. It does not end when [http.Server.Shutdown] does: a [Part] runs until it is
// told to stop.
func Serve(ctx context.Context, s *http.Server, l net.Listener) error {
	done := make(chan error, 1)
	go func() {
		if s.TLSConfig != nil {
			done <- s.ServeTLS(l, "", "")
			return
		}
		done <- s.Serve(l)
	}()
	var err error
	select {
	case <-ctx.Done():
		_ = s.Close() // what Shutdown left
		err = <-done
	case err = <-done:
		if errors.Is(err, http.ErrServerClosed) {
			<-ctx.Done()
			_ = s.Close() // a hijacked or late connection
		}
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
