// Package loopback finds ports of the loopback interface for parts of a system that are stopped and
// started again where they were.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Listen takes a port of loopback below those that the system gives to outgoing connections: one of these would
// else have it by chance when a node that was stopped wants it again.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	var l net.Listener
	var err error
	for range 100 {
		if l, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))); err == nil {
			return l
		}
	}
	t.Fatal(err)
	return nil
}

// Free is the address of such a port that nobody has.
func Free(t testing.TB) string {
	t.Helper()
	l := Listen(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}
