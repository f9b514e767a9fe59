package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"anabranch/cmd/anabranch/dev/seed"
)

// build compiles a command as this test is compiled, so that what they share is there already.
func (s *System) build(command string) string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), command)
	args, env := []string{"build", "-o", path}, os.Environ()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		s.t.Fatal("this test knows nothing of how it was built")
	}
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "-race" && setting.Value == "true":
			args = append(args, "-race")
		case setting.Key == "CGO_ENABLED":
			env = append(env, setting.Key+"="+setting.Value)
		}
	}
	cmd := exec.CommandContext(s.t.Context(), "go", append(args, "../"+command)...)
	cmd.Env = env
	if text, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("%v\n%s", err, text)
	}
	return path
}

// program is a router as a process of its own.
type program struct {
	s            *System
	cmd          *exec.Cmd
	exited       chan struct{}
	err          error // read after exited
	front, admin string
}

// launch starts a router and waits until it says where it listens.
func (s *System) launch(binary string, args ...string) *program {
	s.t.Helper()
	p := &program{s: s, cmd: exec.Command(binary, args...), exited: make(chan struct{})}
	logs, err := p.cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	started := make(chan struct{ Listen, Admin string }, 1)
	var log bytes.Buffer // read after exited
	go func() {
		defer close(p.exited)
		lines := bufio.NewScanner(logs)
		for lines.Scan() {
			log.WriteString(lines.Text() + "\n")
			var line struct{ Msg, Listen, Admin string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "starting" {
				started <- struct{ Listen, Admin string }{line.Listen, line.Admin}
			}
		}
		p.err = errors.Join(lines.Err(), p.cmd.Wait())
	}()
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.exited
		if s.t.Failed() {
			s.t.Logf("log of the router process:\n%s", &log)
		}
	})
	select {
	case at := <-started:
		p.front, p.admin = "http://"+at.Listen, "http://"+at.Admin
	case <-p.exited:
		s.t.Fatalf("it ended: %v\n%s", p.err, &log)
	case <-time.After(30 * time.Second):
		s.t.Fatal("it did not start within 30 s")
	}
	return p
}

func (p *program) ask(tenant string, body map[string]any) answer {
	text, err := json.Marshal(body)
	if err != nil {
		return answer{err: err}
	}
	return complete(context.Background(), p.front, p.s.keys[tenant], string(text))
}

// process: a router that runs beside the others as operators run it obeys orders from the command
// line, ends without cutting a stream, and starts again from its disk alone.
func (s *System) process() {
	binary := s.build("anabranch-router")
	pair, err := s.authority.Router("us-east-1", "us-east-1-p", time.Now())
	tls := s.certificate("us-east-1-p", pair, err)
	dir, err := os.MkdirTemp("", "anb") // the path of a socket must be short
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = os.RemoveAll(dir) }) // of a test
	var nodes []string
	for _, n := range s.nodes {
		nodes = append(nodes, n.at.GRPC)
	}
	args := []string{
		"--router-id", "us-east-1-p", "--region", "us-east-1", "--data-dir", dir, "--listen", "127.0.0.1:0", "--peer-listen", "",
		"--admin-listen", "127.0.0.1:0", "--redis", s.redis.Addr, "--tls-cert", tls.Cert, "--tls-key", tls.Key, "--tls-ca", tls.CA,
		"--log-format", "json", "--drain", "20s",
	}
	p := s.launch(binary, append(args, "--controlplane", strings.Join(nodes, ","))...)
	small := chat(seed.SmallModel, false)
	s.await(20*time.Second, "the process to answer", func() error {
		a := p.ask("acme", small)
		return a.by(a.region(), "us-east-1")
	})

	order := func(args ...string) string {
		s.t.Helper()
		text, err := exec.CommandContext(s.t.Context(), binary, append(args, "--data-dir", dir)...).CombinedOutput()
		if err != nil {
			s.t.Errorf("%q: %v", args, err)
		}
		return string(text)
	}
	said := order("order", "evacuate", "us-east-1-a", "--for", "10m", "--reason", "GPUs are lost", "--actor", "ann")
	id, _, _ := strings.Cut(strings.TrimPrefix(said, "order "), ":")
	if a := p.ask("acme", small); a.whole() != nil || a.region() == "us-east-1" {
		s.t.Errorf("evacuated: %v from %s", a.whole(), a.region())
	}
	if a := s.ask("us-east-1", "acme", small); a.region() != "us-east-1" {
		s.t.Errorf("the order reaches another router, which sends to %s: %v", a.region(), a.whole())
	}
	order("order", "shed", "50", "--reason", "half of the GPUs are lost")
	s.await(10*time.Second, "the batch tier to be shed", func() error {
		if a := p.ask("initech", small); a.status != http.StatusTooManyRequests || a.failure().Code != "shed" {
			return fmt.Errorf("%d %s", a.status, a.body)
		}
		return nil
	})
	if a := p.ask("acme", small); a.whole() != nil {
		s.t.Errorf("the top tier is shed, too: %v", a.whole())
	}
	if list := order("orders"); !strings.Contains(list, "evacuate us-east-1-a") || !strings.Contains(list, "shed 50") || !strings.Contains(list, "GPUs are lost") {
		s.t.Errorf("orders: %s", list)
	}
	order("orders", "cancel", id)
	if a := p.ask("acme", small); a.whole() != nil || a.region() != "us-east-1" {
		s.t.Errorf("after the order: %v from %s", a.whole(), a.region())
	}

	p.drains()

	began := time.Now()
	p = s.launch(binary, append(args, "--controlplane", "127.0.0.1:1")...)
	s.await(6*time.Second, "an answer by what is on disk", func() error { return p.ask("acme", small).whole() })
	took := time.Since(began)
	s.t.Logf("answered %v after its start, without a control plane", took.Round(10*time.Millisecond))
	if took > 6*time.Second { // 2 s are wanted, of a router that has the machine to itself
		s.t.Errorf("the first answer came %v after the start", took)
	}
	if list := order("orders"); !strings.Contains(list, "shed 50") || strings.Contains(list, "evacuate") {
		s.t.Errorf("orders after the restart: %s", list)
	}
}

// drains ends the process by SIGTERM while a stream is open.
func (p *program) drains() {
	s := p.s
	s.t.Helper()
	text, err := json.Marshal(told(seed.LargeModel, 60))
	if err != nil {
		s.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, p.front+"/v1/chat/completions", bytes.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.keys["acme"])
	resp, err := tenants.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	stream := bufio.NewReader(resp.Body)
	if _, err := stream.ReadString('\n'); err != nil {
		s.t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	s.await(5*time.Second, "readiness to go", func() error {
		if status, text := s.get(p.admin + "/readyz"); status != http.StatusServiceUnavailable {
			return fmt.Errorf("%d %s", status, text)
		}
		return nil
	})
	rest, err := io.ReadAll(stream)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		s.t.Errorf("the stream ended with %v: %q", err, rest[max(0, len(rest)-200):])
	}
	select {
	case <-p.exited:
		if p.err != nil {
			s.t.Errorf("it ended with %v", p.err)
		}
	case <-time.After(20 * time.Second):
		s.t.Error("it goes on 20 s after its last stream")
	}
}
