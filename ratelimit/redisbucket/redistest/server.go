// Package redistest runs a real redis-server for a test, on a Unix socket so that it takes no
// port: to be killed and started again, or stopped for a while as a machine that hangs is.
package redistest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Server is one redis-server, or the place of one that is down. It keeps nothing on disk, so that
// one started again is empty.
type Server struct {
	// Addr is the path of its socket.
	Addr string

	t    testing.TB
	dir  string
	args []string
	cmd  *exec.Cmd
	out  bytes.Buffer
}

// patience bounds a start and a stop.
const patience = 10 * time.Second

// Start runs a redis-server until the test ends. Args are settings in addition, such as
// "--maxmemory-policy", "allkeys-lru".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := Place(t, args...)
	s.Restart()
	return s
}

// Place is where a redis-server will be once Restart is called.
func Place(t testing.TB, args ...string) *Server {
	t.Helper()
	// Not t.TempDir: a socket's path may be no longer than 107 bytes.
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: filepath.Join(dir, "socket"), t: t, dir: dir, args: args}
	t.Cleanup(func() {
		s.Kill()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("clean up after redis: %v", err)
		}
	})
	return s
}

// Restart starts the server, empty, after Place or Kill, and waits until it answers.
func (s *Server) Restart() {
	s.t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		s.t.Fatal("redis-server is not installed; fix: make deps, or apt-get install redis-server")
	}
	args := []string{
		"--port", "0", "--unixsocket", s.Addr, "--save", "", "--appendonly", "no", "--dir", s.dir, "--loglevel", "warning",
	}
	s.out.Reset()
	s.cmd = exec.CommandContext(context.WithoutCancel(s.t.Context()), path, append(args, s.args...)...)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("start redis-server: %v", err)
	}
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(patience); !s.answers(); <-look.C {
		if time.Now().After(deadline) {
			s.Kill()
			s.t.Fatalf("redis-server does not answer: %s", s.out.String())
		}
	}
}

func (s *Server) answers() bool {
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(s.t.Context(), "unix", s.Addr)
	if err != nil {
		return false
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return false
	}
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	reply := make([]byte, 7)
	n, err := c.Read(reply)
	return err == nil && string(reply[:n]) == "+PONG\r\n"
}

// Kill ends the server at once, as SIGKILL does. It does nothing if none runs.
func (s *Server) Kill() {
	s.t.Helper()
	if s.cmd == nil {
		return
	}
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("kill redis-server: %v", err)
	}
	_ = s.cmd.Wait() // says only that it was killed
	s.cmd = nil
	if err := os.Remove(s.Addr); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Errorf("remove the socket of redis: %v", err)
	}
}

// Freeze stops the server as it stands: connections stay open and nothing is answered.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("%v redis-server: %v", sig, err)
	}
}
