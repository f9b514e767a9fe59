package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write what the scenarios say now into their files")

// Scenarios are plain text: an engine, orders at times, and below a line of dashes what happened.
//
//	engine slots=2 blocks=12 adapters=1 start-up=1s    llama-3.1-8b on one H100
//	at 0s submit 1 prompt=80 output=40 cap=10 shared=1:64 adapter=a
//	at 1s abort 1
//	at 1s slow 3
//	at 2s show
//
// shared=1:64 takes the first 64 tokens of the prompt from family 1. Times in the outcome are
// rounded to 0.1 ms.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scenarios: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			orders, want, _ := strings.Cut(string(text), "----\n")
			got := playScenario(t, orders)
			if *update {
				if err := os.WriteFile(file, []byte(orders+"----\n"+got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
		})
	}
}

// playScenario carries out the orders of one scenario and tells what happened.
func playScenario(t *testing.T, orders string) string {
	t.Helper()
	var e *Engine
	var out strings.Builder
	tell := func(events []Event) {
		for _, ev := range events {
			_, _ = fmt.Fprintf(&out, "%9s %d %s", tenths(ev.At), ev.ID, ev.Kind)
			switch ev.Kind {
			case First:
				_, _ = fmt.Fprintf(&out, " cached=%d", ev.Cached)
			case Finished:
				_, _ = fmt.Fprintf(&out, " %s after %d", ev.Reason, ev.Generated)
			}
			out.WriteByte('\n')
		}
	}
	for n, line := range strings.Split(orders, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if words[0] == "engine" {
			e = scenarioEngine(t, words[1:])
			continue
		}
		if words[0] != "at" || len(words) < 3 || e == nil {
			t.Fatalf("line %d: %q", n+1, line)
		}
		at := duration(t, words[1])
		tell(e.Advance(at))
		obey(t, e, at, words[2:], &out)
	}
	tell(drain(e))
	st := e.Stats()
	_, _ = fmt.Fprintf(&out, "steps=%d preempted=%d loads=%d prefix=%d/%d\n",
		st.Steps, st.Preemptions, st.AdapterLoads, st.PrefixHits, st.PrefixQueries)
	return out.String()
}

func obey(t *testing.T, e *Engine, at time.Duration, words []string, out *strings.Builder) {
	t.Helper()
	switch words[0] {
	case "submit":
		r := scenarioRequest(t, words[1:])
		if err := e.Submit(at, r); err != nil {
			_, _ = fmt.Fprintf(out, "%9s %d refused: %v\n", tenths(at), r.ID, err)
		}
	case "abort":
		if !e.Abort(at, uint64(number(t, words[1]))) {
			_, _ = fmt.Fprintf(out, "%9s %s is not there\n", tenths(at), words[1])
		}
	case "slow":
		e.SetSlow(at, float64(number(t, words[1])))
	case "show":
		st := e.Stats()
		_, _ = fmt.Fprintf(out, "%9s running=%d waiting=%d blocks=%d adapters=%v waiting-adapters=%v\n",
			tenths(at), st.Running, st.Waiting, st.BlocksUsed, e.RunningAdapters(nil), e.WaitingAdapters(nil))
	default:
		t.Fatalf("no such order: %q", words[0])
	}
}

func scenarioEngine(t *testing.T, words []string) *Engine {
	t.Helper()
	o := Options{Profile: h100}
	for k, v := range pairs(t, words) {
		switch k {
		case "slots":
			o.MaxSequences = number(t, v)
		case "budget":
			o.MaxBatchTokens = number(t, v)
		case "blocks":
			o.Blocks = number(t, v)
		case "adapters":
			o.MaxAdapters = number(t, v)
		case "load":
			o.AdapterLoad = duration(t, v)
		case "start-up":
			o.StartUp = duration(t, v)
		case "class":
			o.Profile = mustLookup(v, "llama-3.1-8b")
		default:
			t.Fatalf("engine has no %s", k)
		}
	}
	return New(o)
}

func scenarioRequest(t *testing.T, words []string) Request {
	t.Helper()
	r := Request{ID: uint64(number(t, words[0])), OutputTokens: 1}
	var shared []uint64
	for k, v := range pairs(t, words[1:]) {
		switch k {
		case "prompt":
			r.PromptTokens = number(t, v)
		case "output":
			r.OutputTokens = number(t, v)
		case "cap":
			r.MaxTokens = number(t, v)
		case "adapter":
			r.Adapter = v
		case "shared":
			family, tokens, _ := strings.Cut(v, ":")
			shared = prompt(uint64(number(t, family)), number(t, tokens))
		default:
			t.Fatalf("request has no %s", k)
		}
	}
	own := prompt(1000+r.ID, r.PromptTokens-len(shared)*BlockSize)
	r.Blocks = slices.Concat(shared, own)
	return r
}

func pairs(t *testing.T, words []string) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, w := range words {
		k, v, ok := strings.Cut(w, "=")
		if !ok {
			t.Fatalf("%q is not key=value", w)
		}
		m[k] = v
	}
	return m
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func tenths(d time.Duration) string { return fmt.Sprintf("%.1fms", milliseconds(d)) }
