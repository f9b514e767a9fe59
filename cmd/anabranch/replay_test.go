package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"anabranch/sim/report"
	"anabranch/sim/workload"
)

// A small trace in Mooncake's format goes through a router to two pods: everything is answered, prompts
// share caches, and the figures add up, in every form of the report.
func TestReplayOfATrace(t *testing.T) {
	s := elsewhere(t)
	conversations(t, "small.jsonl", 4, 5)
	t.Setenv("ANABRANCH_API_KEY", "acme-key")
	front := routerOf(t, "predicted-ttft", pods(t, "h100", 0.1, "e1", "e2"))
	out, errs := s.do(0, "", "replay", "small.jsonl", "--target", front, "--region", "us-east-1", "--speedup", "2", "--api", "completions",
		"--ignore-eos", "--price", "36", "--ttft", "1m", "--itl", "1m", "--out", "out")
	for _, want := range []string{
		"Replay of small", "Sent: 20 requests in", "2 times as fast as they came", "Of 20 requests 20 were answered whole.",
		"The load was", "TTFT P50", "prefix hits", "prefix reuse: replay found",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s%s", want, out, errs)
		}
	}
	if strings.Contains(out, "residency") {
		t.Errorf("the report tells of residency, of which nothing is known:\n%s", out)
	}
	from, err := os.Open("out/small.json")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	r, err := report.ReadJSON(from)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Real || r.Ours != "replay" || len(r.Runs) != 1 || r.Runs[0].Policy != "replay" || r.Runs[0].Seed != 1 {
		t.Errorf("report %+v", r)
	}
	addsUp(t, r, 20)
	trace, err := os.Open("small.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	source, err := workload.Mooncake(trace, workload.TraceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ideal, err := workload.Measure(source, 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	if hits := figure(t, r, "routing.hitRate"); hits <= 0.2 || hits > ideal.Hit+1e-6 {
		t.Errorf("caches found %v of prompt tokens, of which one cache without limits has %v", hits, ideal.Hit)
	}
	if cost, seconds := figure(t, r, "cost.fleetMicroUSD"), figure(t, r, "seconds"); cost < 9_990*seconds || cost > 10_010*seconds {
		t.Errorf("cost %v for %v s at 36 dollars an hour", cost, seconds)
	}
	if good := figure(t, r, "goodput.share"); good != 1 {
		t.Errorf("goodput %v with objectives of a minute", good)
	}
	sameInEveryForm(t, r)
}

// addsUp makes sure that the ends of requests come to all of them, and what pods served to what was
// answered.
func addsUp(t *testing.T, r *report.Report, requests float64) {
	t.Helper()
	sum := 0.0
	for _, key := range []string{"ends.answered", "ends.shed", "ends.denied", "ends.failed", "ends.cut", "ends.gaveUp"} {
		sum += figure(t, r, key)
	}
	if all := figure(t, r, "ends.requests"); all != requests || sum != requests {
		t.Errorf("%v requests ended in %v ways, want %v", all, sum, requests)
	}
	served, share := 0, 0.0
	for _, c := range r.Runs[0].Clusters {
		if c.Region != "us-east-1" {
			t.Errorf("cluster %s is in %q", c.Name, c.Region)
		}
		for _, p := range c.Pods {
			served += p.Served
			share += float64(p.Share)
		}
	}
	if answered := figure(t, r, "ends.answered"); float64(served) != answered || share < 0.999 || share > 1.001 {
		t.Errorf("pods served %d of %v, shares of %v together", served, answered, share)
	}
	p50, p99, mean := figure(t, r, "ttftMs.p50"), figure(t, r, "ttftMs.p99"), figure(t, r, "latencyMs.mean")
	if p50 <= 0 || p99 < p50 || mean < figure(t, r, "ttftMs.mean") {
		t.Errorf("TTFT %v to %v ms, latency %v ms", p50, p99, mean)
	}
}

// sameInEveryForm makes sure that the files beside the JSON have the same figures.
func sameInEveryForm(t *testing.T, r *report.Report) {
	t.Helper()
	rows, err := os.Open("out/small.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	table, err := csv.NewReader(rows).ReadAll()
	if err != nil || len(table) != 2 {
		t.Fatalf("%d rows, error %v", len(table), err)
	}
	for i, key := range table[0] {
		if key != "ttftMs.p95" {
			continue
		}
		got, err := strconv.ParseFloat(table[1][i], 64)
		if want := figure(t, r, key); err != nil || got < 0.999999*want || got > 1.000001*want {
			t.Errorf("%s is %v in CSV and %v in JSON, error %v", key, got, want, err)
		}
	}
	for ext, want := range map[string]string{"txt": "Of 20 requests", "md": "## Replay of small", "html": "<svg"} {
		text, err := os.ReadFile(filepath.Join("out", "small."+ext))
		if err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), "acme-key") {
			t.Errorf("%s: %v, it lacks %q or tells the key", ext, err, want)
		}
	}
}

func TestComparedReportsAreThoseSaved(t *testing.T) {
	s := elsewhere(t)
	conversations(t, "small.jsonl", 2, 2)
	at := pods(t, "h100", 0.05, "e1")["e1"]
	for _, name := range []string{"before", "after"} {
		s.do(0, "", "replay", "small.jsonl", "--target", at, "--name", name, "--out", name)
	}
	out, _ := s.do(0, "", "replay", "--compare", "before/small.json", "after/small.json", "--out", "both")
	for _, want := range []string{"before → after", "really sent", "TTFT P95", "differ by at most"} {
		if !strings.Contains(out, want) {
			t.Errorf("the comparison lacks %q:\n%s", want, out)
		}
	}
	for _, file := range []string{"both/comparison.txt", "both/comparison.html"} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "before → after") {
			t.Errorf("%s: %v", file, err)
		}
	}
	out, _ = s.do(0, "", "replay", "--compare", "before/small.json", "before/small.json", "--figure", "ttftMs.p95", "-o", "json")
	if c := decoded[comparison](t, out); c.Agreement != 0 || len(c.Policies) != 1 || len(c.Policies[0].Figures) != 1 || c.Policies[0].Figures[0].A.Mean <= 0 {
		t.Errorf("a report against itself: %+v", c)
	}
	s.file("other.json", "{}")
	for file, want := range map[string]string{"none.json": "none.json", "other.json": "--compare wants", "small.jsonl": "--compare wants"} {
		if _, errs := s.do(exitFailed, "", "replay", "--compare", "before/small.json", file); !strings.Contains(errs, want) {
			t.Errorf("%s: %s", file, errs)
		}
	}
	s.do(exitUsage, "", "replay", "--compare", "before/small.json")
}

// What a target refuses is told in words, with codes and how often each came.
func TestRefusalsAreCounted(t *testing.T) {
	s := elsewhere(t)
	conversations(t, "small.jsonl", 3, 2)
	at := pods(t, "h100", 0.05, "e1")["e1"]
	out, errs := s.do(exitFailed, "", "replay", "small.jsonl", "--target", at, "--model", "gpt-unknown", "--speedup", "10")
	if !strings.Contains(out, "Of 6 requests 0 were answered whole, 6 × 404.") {
		t.Errorf("the report does not tell the codes:\n%s", out)
	}
	if !strings.Contains(errs, "no request was answered: Of 6 requests 0 were answered whole, 6 × 404. The target does not list the model gpt-unknown, but llama-3.1-8b.") {
		t.Errorf("error %q", errs)
	}
}

// Who stops a replay gets the report of what was done until then; what was cut off is not in it.
func TestAReplayThatIsStoppedIsReported(t *testing.T) {
	elsewhere(t)
	conversations(t, "small.jsonl", 10, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var asked atomic.Int32
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server hear that the client has left
		if asked.Add(1) == 4 {             // the others have been answered: they are sent one after the other
			stop()
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n\n")
	}))
	defer target.Close()
	if code := run(ctx, []string{"anabranch", "replay", "small.jsonl", "--target", target.URL, "--out", "small.jsonl"}, nil, io.Discard, io.Discard); code == 0 || asked.Load() != 0 {
		t.Errorf("code %d with a file for a folder, after %d requests; want none sent", code, asked.Load())
	}
	var out, errs strings.Builder
	code := run(ctx, []string{"anabranch", "replay", "small.jsonl", "--target", target.URL, "--in-flight", "1", "--out", "out"}, nil, &out, &errs)
	if code != exitFailed || !strings.Contains(errs.String(), "stopped after 4 requests") {
		t.Errorf("code %d, %s", code, &errs)
	}
	for _, want := range []string{"Sent: 4 requests of 10", "Of 4 requests 3 were answered whole, 1 × canceled", "cut off when sending was stopped, which are 1."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, &out)
		}
	}
	text, err := os.ReadFile("out/small.json")
	if err != nil {
		t.Fatal(err)
	}
	if r := told(t, string(text)); figure(t, r, "ends.requests") != 3 || figure(t, r, "ends.gaveUp") != 0 {
		t.Errorf("figures %+v, want three requests", r.Runs[0].Ends)
	}
}
