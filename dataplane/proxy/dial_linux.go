package proxy

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// giveUpAfter bounds how long what was sent may stay unacknowledged (tcp(7), TCP_USER_TIMEOUT), which
// is else some fifteen minutes. A kernel that does not know it leaves that to the keep-alive probes.
func giveUpAfter(d time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
		})
	}
}
