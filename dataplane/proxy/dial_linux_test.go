package proxy

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Half a connection, whose other end is gone without a word, lasts no longer than the kernel is told.
func TestTheKernelIsToldWhenAConnectionIsDead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Dialer(time.Second).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	option := func(level, name int) (n int) {
		var got error
		if err := raw.Control(func(fd uintptr) { n, got = unix.GetsockoptInt(int(fd), level, name) }); err != nil || got != nil {
			t.Fatal(err, got)
		}
		return n
	}
	for name, c := range map[string]struct{ level, option, want int }{
		"user timeout": {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 7000},
		"keep-alive":   {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		"idle":         {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 3},
		"interval":     {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 1},
		"probes":       {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 4},
	} {
		if got := option(c.level, c.option); got != c.want {
			t.Errorf("%s is %d, want %d", name, got, c.want)
		}
	}
}
