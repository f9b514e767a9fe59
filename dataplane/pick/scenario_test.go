package pick

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A scenario of testdata is a list of lines:
//
//	mode NAME [threshold N]                    how endpoints are chosen; predicted-ttft without it
//	endpoint NAME [KEY VALUE | stale | absent | dead]...
//	send N prompt TOKENS [prefix NAME]         N requests at once; without a prefix each has its own prompt
//	after DURATION                             prompts are computed meanwhile, where the endpoint isn't dead
//	expect NAME FROM..TO                       how many it has had so far; most and least are of all
//
// Each is played with many random numbers, and must hold with all of them.
type scenario struct {
	mode    Mode
	limit   int64
	servers []*server
	seed    uint64
	keys    uint64
}

// server is an endpoint with what a router knows of it: a page that was scraped once, and its own
// counts since.
type server struct {
	name           string
	c              Candidate
	waiting        float64 // as scraped; running is in c
	running, slots float64
	hold           float64 // seconds that a request keeps its place
	dead           bool
	has            map[string]bool
	hits           int
}

const adapterLoad = 0.8 // seconds

func newServer(t *testing.T, words []string) *server {
	t.Helper()
	s := &server{name: words[0], c: idle(), slots: 256, hold: 5, has: map[string]bool{}}
	s.c.Hash = mix(uint64(len(words[0])) + uint64(words[0][0])<<8 + uint64(words[0][len(words[0])-1])<<16)
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "stale":
			s.c.Freshness = Stale
			continue
		case "absent":
			s.c.Freshness = Absent
			continue
		case "dead":
			s.dead = true
			continue
		}
		key, value := words[i], words[i+1]
		i++
		if key == "adapter" {
			s.c.AdapterState = map[string]AdapterState{"resident": Resident, "free": FreeSlot, "evicts": Evicts}[value]
			s.c.Adapter = s.c.AdapterState.Cost(adapterLoad)
			continue
		}
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%s %s: %v", key, value, err)
		}
		at, ok := map[string]*float64{
			"waiting": &s.waiting, "running": &s.running, "slots": &s.slots, "hold": &s.hold,
			"backlog": &s.c.Backlog, "kv": &s.c.KV, "prefill": &s.c.Prefill, "overhead": &s.c.Overhead, "ramp": &s.c.Ramp,
		}[key]
		if !ok {
			t.Fatalf("%q is nothing that an endpoint has", key)
		}
		*at = f
	}
	return s
}

// look is the candidate as the registry would make it: own dispatches run while there is room, and
// queue otherwise.
func (s *server) look(prefix string, prompt int64) Candidate {
	c := s.c
	own := float64(c.InFlight)
	in := min(own, max(s.slots-s.running, 0))
	c.Running, c.Waiting = s.running+in, s.waiting+own-in
	c.Turn = s.hold / max(c.Running, 1)
	if s.has[prefix] {
		c.Cached = prompt - 1
	}
	return c
}

func (s *scenario) send(prefix string, prompt int64) {
	s.keys++
	req := Request{PromptTokens: prompt, Concurrency: s.limit, PrefixKey: mix(s.seed ^ s.keys)}
	if prefix != "" {
		req.PrefixKey = mix(s.seed)
	}
	cands := make([]Candidate, len(s.servers))
	for i, e := range s.servers {
		cands[i] = e.look(prefix, prompt)
	}
	got, _ := Best(req, cands, s.mode, mix(mix(s.seed)^s.keys))
	e := s.servers[got]
	e.hits++
	e.c.InFlight++
	e.c.Backlog += float64(prompt - cands[got].Cached)
	if prefix != "" {
		e.has[prefix] = true
	}
}

func (s *scenario) hits(name string) (int, bool) {
	most, least := 0, 1<<30
	for _, e := range s.servers {
		if e.name == name {
			return e.hits, true
		}
		most, least = max(most, e.hits), min(least, e.hits)
	}
	return map[string]int{"most": most, "least": least}[name], name == "most" || name == "least"
}

func (s *scenario) play(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	number := func(i int) int64 {
		n, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return n
	}
	switch words[0] {
	case "mode":
		var ok bool
		if s.mode, ok = ModeOf(words[1]); !ok {
			t.Fatalf("%s: no such mode", line)
		}
		if len(words) > 2 {
			s.limit = number(3)
		}
	case "endpoint":
		s.servers = append(s.servers, newServer(t, words[1:]))
	case "send":
		prefix := ""
		if len(words) > 4 {
			prefix = words[5]
		}
		for range number(1) {
			s.send(prefix, number(3))
		}
	case "after":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for _, e := range s.servers {
			if !e.dead {
				e.c.Backlog = max(e.c.Backlog-d.Seconds()*e.c.Prefill, 0)
			}
		}
	case "expect":
		var from, to int
		if _, err := fmt.Sscanf(words[2], "%d..%d", &from, &to); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got, ok := s.hits(words[1])
		if !ok {
			t.Fatalf("%s: there is no such endpoint", line)
		}
		if got < from || got > to {
			all := ""
			for _, e := range s.servers {
				all += fmt.Sprintf(" %s %d", e.name, e.hits)
			}
			t.Errorf("%s: it had %d with seed %d:%s", line, got, s.seed, all)
		}
	default:
		t.Fatalf("%q is no line of a scenario", line)
	}
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(30) {
				s := &scenario{seed: seed + 1}
				expected := 0
				for line := range strings.SplitSeq(string(text), "\n") {
					if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
						continue
					}
					if strings.HasPrefix(line, "expect") {
						expected++
					}
					s.play(t, line)
				}
				if expected == 0 {
					t.Fatal("it expects nothing")
				}
			}
		})
	}
}
