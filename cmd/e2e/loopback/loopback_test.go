package loopback

import (
	"net"
	"testing"
)

func TestPortsAreBelowThoseOfOutgoingConnections(t *testing.T) {
	l := Listen(t)
	defer l.Close()
	if at := l.Addr().(*net.TCPAddr); at.Port < 20_000 || at.Port >= 32_000 || !at.IP.IsLoopback() {
		t.Errorf("listens at %v", at)
	}
}

func TestAFreePortCanBeTakenAgainAndAgain(t *testing.T) {
	at := Free(t)
	for range 2 {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
