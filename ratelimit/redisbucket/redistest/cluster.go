package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cluster is a Redis Cluster on the loopback interface.
type Cluster struct {
	// Addrs are those of its servers.
	Addrs []string

	t     testing.TB
	nodes map[string]*exec.Cmd // by address
}

// StartCluster runs a cluster of so many primaries (three at least), each with so many replicas,
// until the test ends. It keeps nothing on disk.
func StartCluster(t testing.TB, primaries, replicas int) *Cluster {
	t.Helper()
	c := &Cluster{t: t, nodes: make(map[string]*exec.Cmd)}
	t.Cleanup(func() {
		for addr := range c.nodes {
			c.Kill(addr)
		}
	})
	for range primaries * (1 + replicas) {
		c.start(t.TempDir())
	}
	args := append([]string{"--cluster", "create"}, c.Addrs...)
	args = append(args, "--cluster-replicas", strconv.Itoa(replicas), "--cluster-yes")
	c.eventually("every server answers", func() bool {
		for _, addr := range c.Addrs {
			if _, err := c.Ask(addr, "PING"); err != nil {
				return false
			}
		}
		return true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "redis-cli", args...).CombinedOutput(); err != nil {
		t.Fatalf("create the cluster: %v\n%s", err, out)
	}
	c.eventually("every server knows the cluster and every replica its primary", func() bool {
		for _, addr := range c.Addrs {
			info, err := c.Ask(addr, "CLUSTER", "INFO")
			role, err2 := c.Ask(addr, "INFO", "replication")
			if err != nil || err2 != nil || !strings.Contains(info, "cluster_state:ok") ||
				strings.Contains(role, "role:slave") && !strings.Contains(role, "master_link_status:up") {
				return false
			}
		}
		return true
	})
	return c
}

// start runs one server.
func (c *Cluster) start(dir string) {
	c.t.Helper()
	port := strconv.Itoa(Port(c.t))
	addr := "127.0.0.1:" + port
	cmd := exec.CommandContext(context.WithoutCancel(c.t.Context()), "redis-server", "--port", port, "--bind", "127.0.0.1",
		"--cluster-enabled", "yes", "--cluster-config-file", filepath.Join(dir, "nodes.conf"), "--cluster-node-timeout", "1500",
		// Or all keys would be refused while one server is away.
		"--cluster-require-full-coverage", "no",
		"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
		"--save", "", "--appendonly", "no", "--dir", dir, "--loglevel", "warning")
	if err := cmd.Start(); err != nil {
		c.t.Fatalf("start redis-server: %v", err)
	}
	c.Addrs = append(c.Addrs, addr)
	c.nodes[addr] = cmd
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
func (c *Cluster) Ask(addr string, words ...any) (text string, err error) {
	err = c.with(addr, func(client *redis.Client) error {
		text, err = client.Do(c.t.Context(), words...).Text()
		return err
	})
	return text, err
}

func (c *Cluster) with(addr string, do func(*redis.Client) error) error {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: time.Second, ReadTimeout: time.Second})
	err := do(client)
	return errors.Join(err, client.Close())
}

// Primary is the address of the server that serves the key, as another of them than avoid knows it.
func (c *Cluster) Primary(key, avoid string) (string, error) {
	var found string
	for _, addr := range c.Addrs {
		if addr == avoid || found != "" {
			continue
		}
		err := c.with(addr, func(client *redis.Client) error {
			slot, err := client.ClusterKeySlot(c.t.Context(), key).Result()
			if err != nil {
				return err
			}
			shards, err := client.ClusterShards(c.t.Context()).Result()
			for _, s := range shards {
				for _, r := range s.Slots {
					if slot >= r.Start && slot <= r.End {
						found = primary(s.Nodes)
					}
				}
			}
			return err
		})
		if err != nil {
			found = ""
		}
	}
	if found == "" {
		return "", fmt.Errorf("nobody serves %s", key)
	}
	return found, nil
}

func primary(nodes []redis.Node) string {
	for _, n := range nodes {
		if n.Role == "master" && n.Health == "online" {
			return net.JoinHostPort(n.IP, strconv.FormatInt(n.Port, 10))
		}
	}
	return ""
}

// Kill ends one server at once.
func (c *Cluster) Kill(addr string) {
	c.t.Helper()
	cmd := c.nodes[addr]
	if cmd == nil {
		return
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Errorf("kill redis-server: %v", err)
	}
	_ = cmd.Wait() // says only that it was killed
	delete(c.nodes, addr)
}

func (c *Cluster) eventually(what string, ok func() bool) {
	c.t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(60 * time.Second); !ok(); <-look.C {
		if time.Now().After(deadline) {
			c.t.Fatalf("never: %s", what)
		}
	}
}
