package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Sentinel is a primary with a replica, and a Sentinel that makes the replica the primary when the
// other is gone.
type Sentinel struct {
	// Addr is the Sentinel's, and Master the name by which it knows the primary.
	Addr, Master string
	// Primary and Replica are what they are at the start.
	Primary, Replica string

	machines
}

// StartSentinel runs all three until the test ends, and waits until a failover would work.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{Master: "quotas", machines: newMachines(t)}
	s.Primary = s.run(t.TempDir())
	host, port, _ := strings.Cut(s.Primary, ":")
	s.Replica = s.run(t.TempDir(), "--replicaof", host, port)
	s.eventually("the replica has all that the primary has", func() bool {
		role, err := s.Ask(s.Replica, "INFO", "replication")
		return err == nil && strings.Contains(role, "master_link_status:up")
	})
	// A Sentinel writes what it learns into its settings.
	settings, own := filepath.Join(t.TempDir(), "sentinel.conf"), strconv.Itoa(Port(t))
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor %s %s %s 1\n"+
		"sentinel down-after-milliseconds %s 500\nsentinel failover-timeout %s 10000\n",
		own, filepath.Dir(settings), s.Master, host, port, s.Master, s.Master)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start(own, settings, "--sentinel")
	s.Addr = "127.0.0.1:" + own
	s.eventually("the Sentinel knows the replica", func() bool {
		known, err := s.Ask(s.Addr, "INFO", "sentinel")
		return err == nil && strings.Contains(known, "status=ok") && strings.Contains(known, "slaves=1")
	})
	return s
}

// Promoted says whether the replica has become the primary.
func (s *Sentinel) Promoted() bool {
	role, err := s.Ask(s.Replica, "INFO", "replication")
	return err == nil && strings.Contains(role, "role:master")
}
