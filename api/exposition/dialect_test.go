package exposition

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files of testdata/pages")

// page is one of testdata/pages: what servers write, by their sources and documentation.
func page(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "pages", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// expositions are the names of all pages.
func expositions(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/pages/*.prom")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d pages, %v", len(files), err)
	}
	for i, f := range files {
		files[i] = filepath.Base(f)
	}
	return files
}

// text is a load as golden files have them.
func (s Load) text() string {
	var b strings.Builder
	line := func(name string, v any) {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-12s %v", name, v), " ") + "\n")
	}
	line("waiting", s.Waiting)
	line("running", s.Running)
	line("kv", s.KV)
	line("kv tokens", s.KVTokens)
	line("max batch", s.MaxBatch)
	line("max lora", s.MaxLoRA)
	line("adapters", strings.Join(s.Adapters, " "))
	line("in batch", s.InBatch)
	line("ready", s.Ready)
	line("saturation", s.Saturation)
	line("tokens", s.Generated)
	line("asked", s.PrefixAsked)
	line("found", s.PrefixFound)
	return b.String()
}

func TestExpositions(t *testing.T) {
	for _, name := range expositions(t) {
		t.Run(strings.TrimSuffix(name, ".prom"), func(t *testing.T) {
			r := parsed(page(t, name))
			if !r.Known() {
				t.Error("it isn't known for a page of ours")
			}
			got := r.Load().text()
			golden := filepath.Join("testdata", "pages", strings.TrimSuffix(name, ".prom")+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Every dialect has a page, and every name of the first generation of a dialect is read from one.
func TestEveryDialectHasAPage(t *testing.T) {
	all := ""
	for _, name := range expositions(t) {
		all += string(page(t, name))
	}
	has := func(name string) bool {
		return strings.Contains(all, "\n"+name+" ") || strings.Contains(all, "\n"+name+"{")
	}
	for _, d := range dialects {
		for name := range d {
			if !has(name) {
				t.Errorf("no page has %s", name)
			}
		}
	}
	for _, name := range []string{"ready_endpoints", "average_queue_size", "average_running_requests", "average_kv_cache_utilization", "flow_control_queue_size", "flow_control_pool_saturation", "flow_control_stale_endpoints", "request_output_tokens_sum", "request_input_tokens_sum", "request_cached_tokens_sum"} {
		if !has("llm_d_epp_" + name) {
			t.Errorf("no page has llm_d_epp_%s", name)
		}
	}
}

func TestPagesThatAreNotOurs(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "HTML": "<html><body>ok</body></html>", "JSON": `[{"iter": 3, "numQueuedRequests": 4}]`,
		"another program":                         "go_goroutines 12\nprocess_cpu_seconds_total 3\n",
		"a server whose gauges are not there yet": "vllm:generation_tokens_total 0\nvllm:kv_cache_usage_perc 0\n",
	} {
		if parsed([]byte(text)).Known() {
			t.Errorf("%s passes for a page of signals", name)
		}
	}
}

// A page tells that something has changed, whatever it was.
func TestTheMarkOfAPage(t *testing.T) {
	base := string(page(t, "vllm-lora.prom"))
	mark := func(text string) uint64 { return parsed([]byte(text)).Load().Mark }
	if mark(base) != mark(base+"process_cpu_seconds_total 7\n") {
		t.Error("what isn't read changes the mark")
	}
	for _, change := range [][2]string{
		{`num_requests_running{engine="0",model_name="Qwen/Qwen3-8B"} 4.0`, `num_requests_running{engine="0",model_name="Qwen/Qwen3-8B"} 5.0`},
		{`25600.0`, `25601.0`},
		{"0.03125", "0.0313"},
		{"1.7886264577368872e+09", "1.7886264587368872e+09"},
	} {
		changed := strings.ReplaceAll(base, change[0], change[1])
		if changed == base || mark(base) == mark(changed) {
			t.Errorf("%s for %s doesn't change the mark", change[1], change[0])
		}
	}
}
