package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process is a server under load.
type process struct {
	cmd *exec.Cmd
	out bytes.Buffer
}

// start starts a program and waits until something listens at the address, a port or the path of a socket.
func start(ctx context.Context, network, address, program string, environment []string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, program, args...)}
	p.cmd.Env = append(os.Environ(), environment...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, address)
		if err == nil {
			conn.Close()
			return p, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	p.end()
	return nil, fmt.Errorf("%s does not listen: %s", filepath.Base(program), p.out.String())
}

func (p *process) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // says only that it was killed
}

// tick is the unit of processor times in /proc, fixed in Linux's interface.
const tick = 10 * time.Millisecond

// used is the processor time that the process has had so far.
func (p *process) used() (time.Duration, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The fields after the name, which may hold spaces and ends with the last bracket.
	rest := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(rest) < 13 {
		return 0, errors.New("/proc/…/stat has too few fields")
	}
	user, err := strconv.Atoi(rest[11])
	system, err2 := strconv.Atoi(rest[12])
	return time.Duration(user+system) * tick, errors.Join(err, err2)
}

// free finds a port that nobody listens on.
func free(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
