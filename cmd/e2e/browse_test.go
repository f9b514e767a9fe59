package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"anabranch/web"
)

// browse lets web/e2e/FILE.test.js go through the console in a real Chromium, with what it needs to know
// in its environment (web/e2e/system.js reads it) and levers to pull: those that every journey has, and
// more of its own. Afterwards all is as it was: nodes run, the way to them is open, floods have ended.
func (s *System) browse(t *testing.T, file string, more levers, env ...string) {
	t.Helper()
	if _, err := fs.Stat(web.Dist(), "index.html"); err != nil {
		t.Fatal("the console is not built into this test: run make build first")
	}
	j := &journey{s: s.in(t), all: s, relay: newRelay(t, s.nodes[1].at.HTTP), down: map[*Node]bool{}, floods: map[string]*traffic{}}
	defer j.restore()
	all := j.levers()
	maps.Copy(all, more)
	tokens, err := json.Marshal(s.tokens)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "--test", "--test-reporter=spec", "e2e/"+file+".test.js")
	cmd.Dir = filepath.Join("..", "..", "web")
	cmd.Env = append(append(os.Environ(), env...), "CONSOLE_URL="+j.relay.url(), "CONSOLE_TOKENS="+string(tokens), "CONSOLE_LEVERS="+all.open(t))
	// Node and the browsers that it started end together, Node first so that it can end them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	began := time.Now()
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s after %v: %v", file, time.Since(began).Round(time.Second), err)
	}
	t.Logf("%s", text)
}

// journey is what one script has done to the system.
type journey struct {
	s      *System // as the journey's test sees it
	all    *System // as it outlives the journey
	relay  *relay
	down   map[*Node]bool
	floods map[string]*traffic // by tenant
}

// restore undoes what the script has left.
func (j *journey) restore() {
	for _, f := range j.floods {
		f.stop()
	}
	for n := range j.down {
		j.all.startNode(n)
	}
	if len(j.down) > 0 {
		j.s.await(30*time.Second, "all to be connected again", j.s.whole)
	}
}

// node finds one by name; "" and "leader" are the one that leads.
func (j *journey) node(name string) (*Node, error) {
	if name == "" || name == "leader" {
		if n := j.s.leader(); n != nil {
			return n, nil
		}
		return nil, errors.New("no node leads")
	}
	for _, n := range j.s.nodes {
		if string(n.options.ID) == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("there is no node %q", name)
}

type nodeInfo struct {
	ID     string `json:"id"`
	URL    string `json:"url"`
	Up     bool   `json:"up"`
	Leader bool   `json:"leader"`
}

type asked struct {
	Region, Tenant, Model string
	Count                 int               // 0: one
	Header                map[string]string // of each request
}

type askedGot struct {
	Statuses map[int]int `json:"statuses"` // how many answers of each
	IDs      []string    `json:"ids"`      // of the requests
}

// levers are those of every journey.
func (j *journey) levers() levers {
	s := j.s
	type named struct{ Node string }
	return levers{
		// nodes tells where all are, which run and which leads.
		"nodes": lever(func(struct{}) (any, error) {
			var out []nodeInfo
			leader := s.leader()
			for _, n := range s.nodes {
				out = append(out, nodeInfo{ID: string(n.options.ID), URL: "http://" + n.at.HTTP, Up: !j.down[n], Leader: n == leader})
			}
			return out, nil
		}),
		// stop takes a node away (none named: the leader) and start brings one back, at the same address.
		"stop": lever(func(arg named) (any, error) {
			n, err := j.node(arg.Node)
			if err != nil {
				return nil, err
			}
			j.down[n] = true
			return n.options.ID, n.part.end()
		}),
		"start": lever(func(arg named) (any, error) {
			n, err := j.node(arg.Node)
			if err != nil {
				return nil, err
			}
			if !j.down[n] {
				return nil, fmt.Errorf("%s runs", arg.Node)
			}
			delete(j.down, n)
			j.all.startNode(n)
			return n.options.ID, nil
		}),
		// relay changes the browser's way: which node it leads to (none named: the same), whether new
		// connections are refused, whether what the node says is kept back; cut ends what is open.
		"relay": lever(func(arg struct {
			Node              string
			Down, Silent, Cut bool
		},
		) (any, error) {
			to := ""
			if arg.Node != "" {
				n, err := j.node(arg.Node)
				if err != nil {
					return nil, err
				}
				to = n.at.HTTP
			}
			j.relay.send(to, arg.Down)
			j.relay.hush(arg.Silent)
			if arg.Cut {
				j.relay.cut()
			}
			return nil, nil
		}),
		// ask sends requests of a tenant one after the other.
		"ask": lever(func(arg asked) (any, error) {
			var header []string
			for name, value := range arg.Header {
				header = append(header, name, value)
			}
			out := askedGot{Statuses: map[int]int{}}
			for range max(1, min(arg.Count, 1000)) {
				a := s.send(s.t.Context(), arg.Region, s.keys[arg.Tenant], chat(arg.Model, false), header...)
				if a.err != nil {
					return nil, a.err
				}
				out.Statuses[a.status]++
				out.IDs = append(out.IDs, a.header.Get("x-anabranch-request-id"))
			}
			return out, nil
		}),
		// flood has a tenant send up to 20 requests a second by each of some workers from each region;
		// calm ends that and tells how many got which status.
		"flood": lever(func(arg struct {
			Tenant, Model string
			Workers       int
		},
		) (any, error) {
			if j.floods[arg.Tenant] != nil {
				return nil, fmt.Errorf("%s floods already", arg.Tenant)
			}
			j.floods[arg.Tenant] = s.drive(arg.Tenant, arg.Model, max(1, min(arg.Workers, 20)), regions...)
			return nil, nil
		}),
		"calm": lever(func(arg struct{ Tenant string }) (any, error) {
			f := j.floods[arg.Tenant]
			if f == nil {
				return nil, fmt.Errorf("%s does not flood", arg.Tenant)
			}
			delete(j.floods, arg.Tenant)
			out := askedGot{Statuses: map[int]int{}}
			for _, r := range f.stop() {
				out.Statuses[r.status]++
			}
			return out, nil
		}),
		// region takes away the model servers of a region, or brings them back.
		"region": lever(func(arg struct {
			Region string
			Up     bool
		},
		) (any, error) {
			if arg.Up {
				s.healRegion(arg.Region)
			} else {
				s.killRegion(arg.Region)
			}
			return nil, nil
		}),
		// rest asks a node beside the browser, as a role, for what a journey prepares or counts.
		"rest": lever(func(arg struct {
			Method, Path, Role, IfMatch string
			Node                        string // none: any that runs
			Body                        json.RawMessage
		},
		) (any, error) {
			var up *Node
			for _, n := range s.nodes {
				if !j.down[n] && (arg.Node == "" || string(n.options.ID) == arg.Node) {
					up = n
				}
			}
			if up == nil {
				return nil, errors.New("no such node runs")
			}
			status, text := s.tryAt(up, arg.Method, arg.Path, s.tokens[arg.Role], "application/json", arg.IfMatch, string(arg.Body))
			out := map[string]any{"status": status, "text": text}
			if json.Valid([]byte(text)) {
				out["body"] = json.RawMessage(text)
			}
			return out, nil
		}),
	}
}
