package dev

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/cmd/anabranch/dev/child"
	"anabranch/cmd/anabranch/dev/seed"
)

// The test binary plays the programs that a demonstration is made of, by this variable.
const roleVariable = "ANABRANCH_TEST_ROLE"

func TestMain(m *testing.M) {
	role, arg, _ := strings.Cut(os.Getenv(roleVariable), " ")
	switch role {
	case "":
		os.Exit(m.Run())
	case "http":
		playHTTP(arg)
	case "redis":
		playRedis(arg)
	case "fail":
		fmt.Println("disk of", arg, "is full")
		os.Exit(7)
	case "hold":
		playHolder(Folder(arg))
	case "supervisor":
		playSupervisor(Folder(arg))
	}
}

// playHTTP is a node, a model server and a router at once: ready, led by n1, taking every resource
// once, answering every completion. It ends when told to with /die.
func playHTTP(addr string) {
	taken, faults := map[string]bool{}, map[string]string{}
	var mu sync.Mutex // guards taken and faults
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var all []string
		for at, fault := range faults {
			all = append(all, fmt.Sprintf(`{"id":%q,"faults":[{"fault":%q}]}`, at, fault))
		}
		_, _ = fmt.Fprintf(w, `{"endpoints":[%s]}`, strings.Join(all, ","))
	})
	mux.HandleFunc("GET /die", func(http.ResponseWriter, *http.Request) { os.Exit(3) })
	mux.HandleFunc("GET /v1/controlplane/members", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"items":[{"id":"n1","leader":true,"featureLevel":1}]}`)
	})
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"featureLevel":1}`) })
	mux.HandleFunc("PUT /v1/{plural}/{name}", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("If-None-Match") != "*" || taken[r.URL.Path] {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		taken[r.URL.Path] = true
		w.WriteHeader(http.StatusCreated)
	})
	mux.HandleFunc("/faults", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("%s %s %s\n", r.Method, r.URL.RawQuery, body)
		mu.Lock()
		defer mu.Unlock()
		var f struct{ Endpoint, Fault string }
		if json.Unmarshal(body, &f) == nil {
			faults[f.Endpoint] = f.Fault
			return
		}
		for at := range faults {
			if q := r.URL.Query().Get("endpoint"); q == "" || q == at {
				delete(faults, at)
			}
		}
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Model string `json:"model"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprintf(w, `{"choices":[{"message":{"content":"%s"}}]}`, body.Model)
	})
	fmt.Println("serving", addr)
	err := (&http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: time.Second}).ListenAndServe()
	fmt.Println(err)
	os.Exit(1)
}

func playRedis(addr string) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			os.Exit(1)
		}
		if line, err := bufio.NewReader(c).ReadString('\n'); err == nil && line == "PING\r\n" {
			_, _ = io.WriteString(c, "+PONG\r\n")
		}
		_ = c.Close()
	}
}

// playHolder holds a folder until its input ends.
func playHolder(f Folder) {
	_, err := f.hold()
	fmt.Println("held", err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// hereAt starts the test binary in a role as a process of the test's own.
func hereAt(t *testing.T, role string, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewReader(out)
}

// address finds a free one for a child that listens there a moment later. It lies below the ports
// that the system gives to port 0 and to outgoing connections, or another test running meanwhile
// could get it in between; and no two calls give the same.
func address(t *testing.T) string {
	t.Helper()
	for range 1000 {
		at := fmt.Sprintf("127.0.0.1:%d", 20000+nextPort.Add(1)%12000)
		l, err := net.Listen("tcp", at)
		if err != nil {
			continue // somebody has it
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return at
	}
	t.Fatal("no free port from 20000 to 31999")
	return ""
}

// nextPort begins elsewhere in each test process.
var nextPort atomic.Int64

func init() { nextPort.Store(int64(os.Getpid()) * 37) }

// played is a supervisor of a small fleet of played programs: redis, n1, cluster us-a with endpoints
// e1 and e2, and router us.
func played(t *testing.T, out io.Writer) *supervisor {
	t.Helper()
	f := Folder(filepath.Join(t.TempDir(), "state"))
	if err := f.make(); err != nil {
		t.Fatal(err)
	}
	redis, node, cluster, router := address(t), address(t), address(t), address(t)
	r := &Record{
		ControlPlane: []NodeRecord{{ID: "n1", HTTP: "http://" + node}},
		Routers:      []RouterRecord{{Region: "us", HTTP: "http://" + router, Admin: "http://" + router}},
		Clusters: []ClusterRecord{{
			ID: "us-a", Region: "us", Admin: "http://" + cluster,
			Endpoints: []EndpointRecord{{ID: "e1"}, {ID: "e2"}},
		}},
		Redis: RedisRecord{Addr: redis}, Models: []string{seed.SmallModel, seed.LargeModel},
	}
	r.fillSecrets()
	unit := func(kind Kind, name, region, addr, ready, role string) Unit {
		u := Unit{Kind: kind, Name: name, Region: region, Address: "http://" + addr, Ready: ready}
		u.Command = child.Command{
			Name: u.ID(), Path: os.Args[0], Log: f.Log(u.ID()),
			Env: append(os.Environ(), roleVariable+"="+role+" "+addr),
		}
		return u
	}
	us := []Unit{
		unit(KindRedis, "redis", "", redis, redis, "redis"),
		unit(KindNode, "n1", "", node, "http://"+node+"/readyz", "http"),
		unit(KindCluster, "us-a", "us", cluster, "http://"+cluster+"/status", "http"),
		unit(KindRouter, "us", "us", router, "http://"+router+"/readyz", "http"),
	}
	return newSupervisor(f, r, us, printer(out))
}
