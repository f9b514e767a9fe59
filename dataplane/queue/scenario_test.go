package queue

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A scenario of testdata/scenarios is a list of lines "<what> -> <what comes of it>", on a queue with
// the limits of its first line:
//
//	push NAME tenant=T [lane=0 flow= priority=0 cost=1 bytes=0 deadline=never]
//	                     -> in | in, out NAME … | CAUSE
//	pop [lane=0]         -> NAME | none
//	expire TIME          -> NAME … | none      the deadlines before this time have passed
//	remove NAME          -> yes | no           its client has left
//	below PRIORITY       -> NAME … | none      shed by an operator's order
//	drain                -> NAME … | none
//	heads                -> NAME …             the next of each lane
//	ahead lane=L priority=P -> N of C tokens
type scenario struct {
	q     *Queue
	items map[string]*Item
}

// fields reads "key=value" words.
func fields(words []string) map[string]string {
	out := map[string]string{}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		out[k] = v
	}
	return out
}

func number(t *testing.T, f map[string]string, key string, otherwise float64) float64 {
	t.Helper()
	if f[key] == "" {
		return otherwise
	}
	v, err := strconv.ParseFloat(f[key], 64)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return v
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return epoch.Add(d)
}

func told(items []*Item) string {
	if len(items) == 0 {
		return "none"
	}
	return strings.Trim(fmt.Sprint(names(items)), "[]")
}

func (s *scenario) play(t *testing.T, words []string) string {
	t.Helper()
	f := fields(words[1:])
	lane := uint64(number(t, f, "lane", 0))
	switch words[0] {
	case "limits":
		s.q = NewQueue(Limits{
			Items: int(number(t, f, "items", 0)), Bytes: int64(number(t, f, "bytes", 0)),
			Tokens: int64(number(t, f, "tokens", 0)), TenantShare: number(t, f, "share", 0),
		})
		return ""
	case "push":
		it := &Item{
			Lane: lane, Priority: int32(number(t, f, "priority", 0)), Tenant: f["tenant"], Flow: f["flow"],
			Cost: int64(number(t, f, "cost", 1)), Bytes: int64(number(t, f, "bytes", 0)), Value: words[1],
		}
		if d := f["deadline"]; d != "" {
			it.Deadline = moment(t, d)
		}
		s.items[words[1]] = it
		switch shed, cause := s.q.Push(it); {
		case cause != "":
			return string(cause)
		case len(shed) > 0:
			return "in, out " + told(shed)
		}
		return "in"
	case "pop":
		if it := s.q.Pop(lane); it != nil {
			return told([]*Item{it})
		}
		return "none"
	case "expire":
		return told(s.q.Expire(moment(t, words[1]), nil))
	case "remove":
		if s.q.Remove(s.items[words[1]]) {
			return "yes"
		}
		return "no"
	case "below":
		p, err := strconv.ParseInt(words[1], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		return told(s.q.Below(int32(p), nil))
	case "drain":
		return told(s.q.Drain(nil))
	case "heads":
		return told(s.q.Heads(nil))
	case "ahead":
		n, c := s.q.Ahead(lane, int32(number(t, f, "priority", 0)))
		return fmt.Sprintf("%d of %d tokens", n, c)
	}
	t.Fatalf("%q is no line of a scenario", strings.Join(words, " "))
	return ""
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := scenario{items: map[string]*Item{}}
			for i, line := range strings.Split(string(text), "\n") {
				if line == "" || line[0] == '#' {
					continue
				}
				what, want, _ := strings.Cut(line, " -> ")
				if got := s.play(t, strings.Fields(what)); got != want {
					t.Fatalf("%s:%d: %s -> %s, want %s", file, i+1, what, got, want)
				}
			}
		})
	}
}
