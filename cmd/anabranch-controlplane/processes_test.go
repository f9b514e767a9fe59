package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what should take a second or two on a machine that does
// nothing else.
const patience = 60 * time.Second

const admin = "admin-token-of-this-test"

// cluster is three nodes as processes of their own, with a network between them that can be cut.
type cluster struct {
	t       *testing.T
	dir     string
	network *network
	peers   []string // id=address, as --peers takes them
	flags   []string // more of them, for every node
	nodes   []*process
	http    *http.Client
}

// process is one node, running or not.
type process struct {
	c     *cluster
	place int
	id    string
	dir   string // data folder

	mu     sync.Mutex // guards all below
	cmd    *exec.Cmd
	stdin  io.Closer
	url    string // of REST, empty when it does not run
	exited chan struct{}
	log    *os.File
}

// newCluster starts three nodes, with more flags if there are any, and waits until they take writes.
func newCluster(t *testing.T, flags ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, flags: flags, dir: t.TempDir(), http: &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{
		MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Second,
	}}}
	tokens := fmt.Sprintf(`{"admin": %q}`, admin)
	if err := os.WriteFile(filepath.Join(c.dir, "tokens.json"), []byte(tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	var addresses []string
	c.network, addresses = newNetwork(t, 3)
	t.Cleanup(c.end)
	for i, address := range addresses {
		id := fmt.Sprintf("n%d", i+1)
		log, err := os.Create(filepath.Join(c.dir, id+".log"))
		if err != nil {
			t.Fatal(err)
		}
		c.nodes = append(c.nodes, &process{c: c, place: i, id: id, dir: filepath.Join(c.dir, id), log: log})
		c.peers = append(c.peers, id+"="+address)
	}
	for _, p := range c.nodes {
		p.start()
	}
	tries := 0
	c.await("keys of writes to be in force", func() error { // they are once all nodes have met
		tries++
		name := fmt.Sprint("first-", tries)
		body := fmt.Sprintf(`{"apiVersion":"anabranch/v1","kind":"Tenant","metadata":{"name":%q},"spec":{}}`, name)
		a := c.call(t.Context(), c.nodes[0], http.MethodPut, "/v1/tenants/"+name, body, "If-None-Match", "*", "Idempotency-Key", name)
		if a.err == nil && (a.status != http.StatusCreated || a.key == "") {
			return fmt.Errorf("status %d %s, key %q", a.status, a.code, a.key)
		}
		return a.err
	})
	return c
}

// end kills what runs, and shows the logs of a test that failed.
func (c *cluster) end() {
	for _, p := range c.nodes {
		p.kill()
		if c.t.Failed() {
			text, err := os.ReadFile(p.log.Name())
			c.t.Logf("end of the log of %s (%v):\n%s", p.id, err, text[max(0, len(text)-4<<10):])
		}
		p.log.Close()
	}
}

// await polls until ok says nil.
func (c *cluster) await(what string, ok func() error) {
	c.t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			c.t.Fatalf("waited %s for %s: %v", patience, what, err)
		case <-tick.C:
		}
	}
}

// freePort is one that nobody listens at now; start takes another if that has changed.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start runs the node, for the first time or again, and waits until it says where it listens.
func (p *process) start() {
	p.c.t.Helper()
	for range 5 {
		err := p.launch()
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
			p.c.t.Fatal(err)
		}
	}
	p.c.t.Fatalf("%s finds no port", p.id)
}

func (p *process) launch() error {
	raft := freePort(p.c.t)
	cmd := exec.Command(os.Args[0], append([]string{
		"--id", p.id, "--data-dir", p.dir, "--peers", strings.Join(p.c.peers, ","),
		"--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--raft", raft, "--time-scale", "0.5",
		"--tokens-file", filepath.Join(p.c.dir, "tokens.json"), "--log-format", "json",
		"--read-rate", "-1", "--write-rate", "-1", // as fast as it goes
	}, p.c.flags...)...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	exited, started := make(chan struct{}), make(chan string, 1)
	var said bytes.Buffer // what came before it said where it listens; read after exited
	go func() {
		defer close(exited)
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<20)
		up := false
		for lines.Scan() {
			fmt.Fprintln(p.log, lines.Text())
			if up {
				continue
			}
			said.WriteString(lines.Text() + "\n")
			var line struct{ Msg, HTTP string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "starting" {
				up = true
				started <- line.HTTP
			}
		}
		_, _ = io.Copy(io.Discard, stderr) // if a line was too long
		fmt.Fprintln(p.log, p.id, "ended:", cmd.Wait())
	}()
	p.set(func() { p.cmd, p.stdin, p.exited = cmd, stdin, exited })
	select {
	case at := <-started:
		p.c.network.moved(p.place, raft)
		p.set(func() { p.url = "http://" + at })
		return nil
	case <-exited:
		return fmt.Errorf("%s does not start: %s", p.id, said.String())
	case <-time.After(patience):
		return fmt.Errorf("%s does not start within %s", p.id, patience)
	}
}

func (p *process) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// at is where REST answers, empty if the node does not run.
func (p *process) at() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.url
}

// kill ends the process by SIGKILL, which no process can do anything about, and waits for its end.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.exited
	p.stdin.Close()
	p.url = ""
}

// signal stops or continues the process.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.c.t.Errorf("%s: %v", p.id, err)
	}
}

// answer is what REST said; err: it is not known whether the request was served, unless never is set.
type answer struct {
	status int
	etag   string
	key    string // the Idempotency-Key, if it is in force
	code   string // of a problem
	doc    struct {
		Metadata struct{ Labels map[string]string }
		Leader   string
	}
	never bool
	err   error
}

// call asks a node. Headers are names and values in turn.
func (c *cluster) call(ctx context.Context, p *process, method, path, body string, header ...string) answer {
	at := p.at()
	if at == "" {
		return answer{never: true, err: errors.New("it does not run")}
	}
	req, err := http.NewRequestWithContext(ctx, method, at+path, strings.NewReader(body))
	if err != nil {
		return answer{never: true, err: err}
	}
	// Otherwise it would be sent again, on a new connection, after one that had been open has ended
	// without an answer: an error in dialling would then not mean that it was never sent.
	req.GetBody = nil
	req.Header.Set("Authorization", "Bearer "+admin)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var op *net.OpError
		return answer{never: errors.As(err, &op) && op.Op == "dial", err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{err: err}
	}
	a := answer{status: resp.StatusCode, etag: resp.Header.Get("ETag"), key: resp.Header.Get("Idempotency-Key")}
	var problem struct{ Code string }
	_ = json.Unmarshal(text, &a.doc)   // an answer may have no body
	_ = json.Unmarshal(text, &problem) // nor be a problem
	a.code = problem.Code
	return a
}

// leader asks the nodes who leads; nil: nobody knows.
func (c *cluster) leader() *process {
	for _, p := range c.nodes {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		a := c.call(ctx, p, http.MethodGet, "/v1/status", "")
		cancel()
		for _, q := range c.nodes {
			if a.err == nil && a.doc.Leader == q.id && q.at() != "" {
				return q
			}
		}
	}
	return nil
}
