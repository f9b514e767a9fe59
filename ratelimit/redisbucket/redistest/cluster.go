package redistest

import (
	"context"
	"fmt"
	"net"
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

	machines
}

// StartCluster runs a cluster of so many primaries (three at least), each with so many replicas,
// until the test ends. It keeps nothing on disk.
func StartCluster(t testing.TB, primaries, replicas int) *Cluster {
	t.Helper()
	c := &Cluster{machines: newMachines(t)}
	for range primaries * (1 + replicas) {
		c.add(t.TempDir())
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

// add runs one server.
func (c *Cluster) add(dir string) {
	c.t.Helper()
	addr := c.run(dir, "--cluster-enabled", "yes", "--cluster-config-file", filepath.Join(dir, "nodes.conf"),
		"--cluster-node-timeout", "1500",
		// Or all keys would be refused while one server is away.
		"--cluster-require-full-coverage", "no")
	c.Addrs = append(c.Addrs, addr)
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
