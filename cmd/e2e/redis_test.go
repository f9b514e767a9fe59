package e2e

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Redis is a real server that can be killed and started again at the same address.
type Redis struct {
	t    *testing.T
	addr string
	dir  string
	cmd  *exec.Cmd
}

func startRedis(t *testing.T) *Redis {
	t.Helper()
	l := listen(t)
	r := &Redis{t: t, addr: l.Addr().String(), dir: t.TempDir()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r.start()
	t.Cleanup(r.kill)
	return r
}

// start runs an empty server and waits until it answers.
func (r *Redis) start() {
	r.t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		r.t.Fatal("redis-server is missing: run make deps")
	}
	_, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.cmd = exec.Command(path, "--bind", "127.0.0.1", "--port", port, "--dir", r.dir,
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--daemonize", "no")
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	deadline, tick := time.After(10*time.Second), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !r.answers() {
		select {
		case <-deadline:
			r.t.Fatal("redis-server does not answer")
		case <-tick.C:
		}
	}
}

func (r *Redis) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", r.addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return false
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	reply := make([]byte, 16)
	n, err := conn.Read(reply)
	return err == nil && strings.HasPrefix(string(reply[:n]), "+PONG")
}

// kill ends the server with SIGKILL.
func (r *Redis) kill() {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Kill() // fails only when it has ended
	_ = r.cmd.Wait()         // says that it was killed
	r.cmd = nil
}
