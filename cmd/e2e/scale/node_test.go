package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev"
	"anabranch/cmd/e2e/loopback"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
)

// member is a control plane of one node, a process of its own, so that what it costs can be told.
type member struct {
	t         *testing.T
	url, grpc string
	tokens    map[string]string
	pid       int
}

// startNode starts it, and ends it with the test.
func startNode(t *testing.T) *member {
	t.Helper()
	n := &member{t: t, grpc: loopback.Free(t), tokens: map[string]string{}}
	for _, role := range state.Roles() {
		n.tokens[role] = dev.NewKey()
	}
	rest, raft := loopback.Free(t), loopback.Free(t)
	n.url = "http://" + rest
	n.process(rest, raft)
	for deadline := time.Now().Add(30 * time.Second); ; wait(t.Context(), 50*time.Millisecond) {
		_, err := n.as("admin").List(t.Context(), policy.KindModel)
		if err == nil {
			return n
		}
		if time.Now().After(deadline) {
			t.Fatalf("the node is not ready: %v", err)
		}
	}
}

// process starts the program.
func (n *member) process(rest, raft string) {
	n.t.Helper()
	dir := n.t.TempDir()
	text, err := json.Marshal(n.tokens)
	if err != nil {
		n.t.Fatal(err)
	}
	tokens, path := filepath.Join(dir, "tokens.json"), filepath.Join(dir, "log")
	if err := os.WriteFile(tokens, text, 0o600); err != nil {
		n.t.Fatal(err)
	}
	log, err := os.Create(path)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd := exec.CommandContext(context.Background(), bin+"anabranch-controlplane",
		"--id", "n1", "--data-dir", filepath.Join(dir, "n1"), "--http", rest, "--grpc", n.grpc, "--raft", raft, "--raft-advertise", raft,
		"--peers", "n1="+raft, "--tokens-file", tokens, "--read-rate", "-1", "--write-rate", "-1", "--log-level", "warn")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.pid = cmd.Process.Pid
	n.t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			n.t.Error(err)
		}
		_ = cmd.Wait() // it was killed
		if n.t.Failed() {
			text, _ := os.ReadFile(path)
			n.t.Logf("end of the node's log:\n%s", text[max(0, len(text)-4096):])
		}
	})
}

func (n *member) as(role string) *client.Client {
	return &client.Client{Token: n.tokens[role], Reason: "scale", Servers: []string{n.url}, LargeChange: true, HTTP: &http.Client{Timeout: 60 * time.Second}}
}

// cost is what the node has used of the machine.
type cost struct {
	cpu      time.Duration
	resident int64 // bytes
	at       time.Time
}

// used reads it where Linux tells it, of a node that is a process.
func (n *member) used() cost {
	n.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.pid))
	if err != nil {
		n.t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	number := func(i int) int64 {
		v, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			n.t.Fatal(err)
		}
		return v
	}
	const tick = 10 * time.Millisecond // of USER_HZ
	return cost{time.Duration(number(11)+number(12)) * tick, number(21) * int64(os.Getpagesize()), time.Now()}
}

// since is the share of one processor that was used after another look.
func (c cost) since(before cost) float64 {
	return float64(c.cpu-before.cpu) / float64(c.at.Sub(before.at))
}
