package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// machines are servers on ports of the loopback interface, which know of each other.
type machines struct {
	t     testing.TB
	nodes map[string]*exec.Cmd // by address
}

// newMachines are none yet. They run until the test ends.
func newMachines(t testing.TB) machines {
	m := machines{t: t, nodes: make(map[string]*exec.Cmd)}
	t.Cleanup(func() {
		for addr := range m.nodes {
			m.Kill(addr)
		}
	})
	return m
}

// run starts a server that keeps nothing on disk, and answers its address.
func (m machines) run(dir string, args ...string) string {
	m.t.Helper()
	port := strconv.Itoa(Port(m.t))
	m.start(port, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
		"--save", "", "--appendonly", "no", "--dir", dir, "--loglevel", "warning",
	}, args...)...)
	return "127.0.0.1:" + port
}

func (m machines) start(port string, args ...string) {
	m.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(m.t.Context()), "redis-server", args...)
	if err := cmd.Start(); err != nil {
		m.t.Fatalf("start redis-server: %v", err)
	}
	m.nodes["127.0.0.1:"+port] = cmd
}

// Port is one that nobody uses, and neither the one 10,000 above it, at which a server of a cluster
// listens for the others. Both are below those that the system hands out.
func Port(t testing.TB) int {
	t.Helper()
	for range 200 {
		port := 12_000 + rand.IntN(10_000)
		if listens(t, port) && listens(t, port+10_000) {
			return port
		}
	}
	t.Fatal("no free port for redis-server")
	return 0
}

func listens(t testing.TB, port int) bool {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return ln.Close() == nil
}

// Ask sends a command to one server and answers its text.
func (m machines) Ask(addr string, words ...any) (text string, err error) {
	err = m.with(addr, func(client *redis.Client) error {
		text, err = client.Do(m.t.Context(), words...).Text()
		return err
	})
	return text, err
}

func (m machines) with(addr string, do func(*redis.Client) error) error {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: time.Second, ReadTimeout: time.Second})
	err := do(client)
	return errors.Join(err, client.Close())
}

// Kill ends one server at once.
func (m machines) Kill(addr string) {
	m.t.Helper()
	cmd := m.nodes[addr]
	if cmd == nil {
		return
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		m.t.Errorf("kill redis-server: %v", err)
	}
	_ = cmd.Wait() // says only that it was killed
	delete(m.nodes, addr)
}

func (m machines) eventually(what string, ok func() bool) {
	m.t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(60 * time.Second); !ok(); <-look.C {
		if time.Now().After(deadline) {
			m.t.Fatalf("never: %s", what)
		}
	}
}
