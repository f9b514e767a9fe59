package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"anabranch/sim/quotas"
	"anabranch/sim/scenario"
)

// quick is a scenario that is over in a moment.
const quick = `
name: quick
about: Two pods and some prompts.
fleet:
  regions: [{id: us-east-1, zone: us}]
  models: [{id: llama-3.1-8b}]
  clusters:
    - {id: us-a, region: us-east-1, model: llama-3.1-8b, pods: [{class: h100, count: 2, price: 6.88}]}
workload:
  - kind: uniform
    traffic: {arrivals: {rate: 5}, regions: [{region: us-east-1}], requests: 40}
    mix: {models: [{model: llama-3.1-8b}]}
vary:
  - name: slow
  - name: fast
    set: {workload.0.traffic.arrivals.rate: 20}
policies: [random, ours]
seeds: 2
expect:
  - {in: slow, that: ours.ends.lost == 0}
`

func quickFile(t *testing.T, doc string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "quick.yaml")
	if err := os.WriteFile(path, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// call runs a command line and returns the exit code, the output and the errors.
func call(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), append([]string{"anabranch"}, args...), strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func TestSimListShowAndPolicies(t *testing.T) {
	code, out, errs := call(t, "sim", "list")
	if code != 0 || errs != "" {
		t.Fatalf("%d %s", code, errs)
	}
	for _, name := range scenario.Examples() {
		if !strings.Contains(out, name+"\n  ") {
			t.Errorf("no %s in the list", name)
		}
		code, text, _ := call(t, "sim", "show", name)
		if want, err := scenario.Example(name); code != 0 || err != nil || text != string(want) {
			t.Errorf("show %s: %d %v", name, code, err)
		}
	}
	var items []struct{ Name, About string }
	if code, out, _ = call(t, "sim", "policies", "-o", "json"); code != 0 || json.Unmarshal([]byte(out), &items) != nil || len(items) != len(scenario.Policies()) {
		t.Errorf("%d %s", code, out)
	}
	for _, it := range items {
		if it.About == "" {
			t.Errorf("nothing is said of %s", it.Name)
		}
	}
}

func TestSimRunComparesAndWrites(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "report")
	code, out, errs := call(t, "sim", "run", quickFile(t, quick), "--out", folder)
	if code != 0 || errs != "" {
		t.Fatalf("%d %s\n%s", code, errs, out)
	}
	for _, want := range []string{"quick/slow", "quick/fast", "✓ expected: ours.ends.lost == 0", "Means of n = 2 runs"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, variant := range []string{"slow", "fast"} {
		for _, ext := range []string{"txt", "md", "csv", "json", "html"} {
			if info, err := os.Stat(filepath.Join(folder, "quick-"+variant+"."+ext)); err != nil || info.Size() < 500 {
				t.Errorf("%s of %s: %v", ext, variant, err)
			}
		}
	}
	page, err := os.Open(filepath.Join(folder, "quick-slow.html"))
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	if _, err := html.Parse(page); err != nil {
		t.Error(err)
	}
}

func TestSimRunFailsWhereTheExpectedDoesNotHold(t *testing.T) {
	path := quickFile(t, strings.Replace(quick, "ours.ends.lost == 0", "ours.ends.requests == 3", 1))
	code, out, errs := call(t, "sim", "run", path, "--seeds", "1", "--variant", "slow", "--policy", "ours", "--figure", "ttftMs.p99")
	if code != exitFailed || !strings.Contains(errs, "does not hold") || !strings.Contains(out, "✗ expected: ours.ends.requests == 3: 40 against 3") {
		t.Errorf("%d %s\n%s", code, errs, out)
	}
}

func TestSimTradeoffShowsMoneyAndLatency(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "report")
	code, out, errs := call(t, "sim", "tradeoff", quickFile(t, quick), "--variant", "fast", "--preference", "0,1", "--seeds", "1", "--out", folder, "-o", "markdown")
	if code != 0 || errs != "" {
		t.Fatalf("%d %s\n%s", code, errs, out)
	}
	for _, want := range []string{"| policy | work/answer, µ$ |", "| 0 latency first |", "| 1 cost first |", "| least latency (oracle) |"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if info, err := os.Stat(filepath.Join(folder, "quick-tradeoff.html")); err != nil || info.Size() < 500 {
		t.Errorf("no page: %v", err)
	}
	if code, out, _ = call(t, "sim", "tradeoff", quickFile(t, quick), "--preference", "0", "--seeds", "1"); code != 0 || !strings.Contains(out, "quick/slow: what money buys") {
		t.Errorf("%d\n%s", code, out)
	}
	if code, _, errs = call(t, "sim", "tradeoff", quickFile(t, quick), "--preference", "2"); code != exitFailed || !strings.Contains(errs, "2 is not 0 to 1") {
		t.Errorf("%d %s", code, errs)
	}
}

func TestSimExplain(t *testing.T) {
	path := quickFile(t, quick)
	if code, out, errs := call(t, "sim", "explain", path, "7", "--variant", "fast", "--seed", "2"); code != 0 || !strings.Contains(out, "request 7 by ours, seed 2") || !strings.Contains(out, "gets pod") {
		t.Errorf("%d %s\n%s", code, errs, out)
	}
	var told struct {
		Request uint64
		Steps   []struct{ Text string }
	}
	if code, out, _ := call(t, "sim", "explain", path, "7", "--policy", "random", "-o", "json"); code != 0 || json.Unmarshal([]byte(out), &told) != nil || told.Request != 7 || len(told.Steps) < 3 {
		t.Errorf("%d %s", code, out)
	}
}

func TestSimProofWritesADocument(t *testing.T) {
	out := filepath.Join(t.TempDir(), "RESULTS.md")
	code, printed, errs := call(t, "sim", "proof", quickFile(t, quick), "--out", out)
	text, err := os.ReadFile(out)
	if code != 0 || err != nil || printed != "" || !strings.Contains(errs, "1 of 1: quick: ") {
		t.Fatalf("%d %v %s %s", code, err, printed, errs)
	}
	for _, want := range []string{"# Policies side by side", "## What does not improve", "## quick / fast", "| ✓ | quick / slow | expected: `ours.ends.lost == 0` | 0 | 0 |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestSimProofTellsOfQuotas(t *testing.T) {
	code, out, errs := call(t, "sim", "proof", "--help")
	if code != 0 || !strings.Contains(out, "anabranch sim proof "+ofQuotas) || !strings.Contains(out, "global quotas are played") {
		t.Errorf("%d %s\n%s", code, errs, out)
	}
	var b strings.Builder
	if err := writeProof(&b, nil, nil, &quotas.Proof{Loads: []quotas.Case{{Scheme: quotas.Leases, Runs: make([]quotas.Result, 1)}}}); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.HasPrefix(text, "# Global quotas\n") || strings.Contains(text, "Policies side by side") {
		t.Errorf("of quotas alone it writes\n%s", text)
	}
	if code, _, errs := call(t, "sim", "proof", "quota"); code == 0 || !strings.Contains(errs, "there is no scenario") {
		t.Errorf("%d %s", code, errs)
	}
}

func TestSimNamesMistakes(t *testing.T) {
	good := quickFile(t, quick)
	for want, args := range map[string][]string{
		`there is no scenario "no-such"; there are adapters`: {"run", "no-such"},
		"no such file":                                {"run", "no/such.yaml"},
		"read scenario":                               {"run", quickFile(t, "name: [")},
		`there is no policy "magic"`:                  {"run", good, "--policy", "magic"},
		`there is no variant "snail"`:                 {"run", good, "--variant", "snail"},
		"is longer than 1048576 bytes":                {"run", "/dev/zero"},
		"ours is asked for twice":                     {"run", good, "--policy", "ours,random,ours"},
		"folder of traces: stat":                      {"run", good, "--traces", "no/such"},
		"--out: mkdir":                                {"run", good, "--out", good},
		"--out: open":                                 {"proof", good, "--out", filepath.Dir(good)},
		"seeds: -1 is not 1 to 1000":                  {"run", good, "--seeds", "-1"},
		`--figure: figure "speed": there is none`:     {"run", good, "--figure", "speed"},
		`request "first" is no number`:                {"explain", good, "first"},
		"there is no request 5000; there are 1 to 40": {"explain", good, "5000"},
		"accepts 1 arg(s), received 0":                {"show"},
	} {
		if code, _, errs := call(t, append([]string{"sim"}, args...)...); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %s\nwant %s", strings.Join(args, " "), code, errs, want)
		}
	}
	if !slices.Contains(scenario.Policies(), "ours") {
		t.Error("ours is no policy")
	}
}
