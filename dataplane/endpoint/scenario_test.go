package endpoint

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/failover"
)

// A scenario of testdata/breaker is a list of lines "<time> <what>", the time since the start. What
// is an outcome of a request or canary, a doubt, signs of life, or a state that is expected then:
//
//	ok, refused, fault, silent, ignored     a request ended so
//	doubt, alive                            a scrape failed; one works again
//	canary                                  one is expected to be due, and is sent
//	no canary                               none is expected to be due
//	canary ok, canary refused, …            one that was sent ended so
//	expect in use, expect ejected           what the request path sees
var outcomes = map[string]failover.Outcome{
	"ok": failover.OK, "refused": failover.ConnectFailure, "fault": failover.ServerFault, "silent": failover.Silence, "ignored": failover.Ignored,
}

func play(t *testing.T, line string, b *breaker, now time.Time) {
	t.Helper()
	out, why := b.ejected()
	switch line {
	case "doubt":
		b.doubt()
	case "alive":
		b.hurry()
	case "canary":
		if !b.probe(now, 0.5) {
			t.Errorf("%s: no canary is due", line)
		}
	case "no canary":
		if b.probe(now, 0.5) {
			t.Errorf("%s: one is due", line)
		}
	case "expect in use":
		if out {
			t.Errorf("%s: ejected, %s", line, why)
		}
	case "expect ejected":
		if !out || why == "" {
			t.Errorf("%s: in use", line)
		}
	default:
		if o, ok := outcomes[strings.TrimPrefix(line, "canary ")]; ok && strings.HasPrefix(line, "canary ") {
			b.probed(o, line, now)
		} else if o, ok := outcomes[line]; ok {
			b.record(o, now)
		} else {
			t.Fatalf("%q is no line of a scenario", line)
		}
	}
}

func TestBreakerScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/breaker/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }() // only read
			start := time.Unix(1_764_400_000, 0)
			b := newBreaker(failover.DefaultEjectConfig())
			lines := bufio.NewScanner(f)
			for n := 1; lines.Scan(); n++ {
				line := strings.TrimSpace(lines.Text())
				if line == "" || strings.HasPrefix(line, "#") {
					continue
				}
				at, what, _ := strings.Cut(line, " ")
				d, err := time.ParseDuration(at)
				if err != nil {
					t.Fatalf("line %d: %v", n, err)
				}
				t.Run(fmt.Sprintf("line %d", n), func(t *testing.T) { play(t, strings.TrimSpace(what), b, start.Add(d)) })
			}
			if err := lines.Err(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
