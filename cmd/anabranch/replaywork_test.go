package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"anabranch/sim/workload"
)

const (
	azureSample = "TIMESTAMP,ContextTokens,GeneratedTokens\n" +
		"2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:46.9951690,396,109\n2023-11-16 18:15:47.2224670,879,55\n"
	clientsSample = "model,client,window_s,rate_rps,cv,pattern,shape,scale\n" +
		"big,0,0,0.05,1,Gamma,1,1\nbig,1,0,0.02,1,Weibull,1,1\nsmall,0,0,0.01,1,Gamma,1,1\n"
	lengthsSample = "model,client,window_s,in_mean,in_p50,in_p90,in_p99,out_mean,out_p50,out_p90,out_p99\n" +
		"big,0,0,300,200,600,900,20,15,40,60\nsmall,0,0,100,80,200,300,10,8,20,30\n"
)

// Every format of traces, and scenarios, are sent whole.
func TestWhatCanBeReplayed(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(azureSample)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args  []string
		title string
		want  int
	}{
		"Mooncake":            {[]string{"small.jsonl"}, "small", 6},
		"some of Mooncake":    {[]string{"small.jsonl", "--requests", "4"}, "small", 4},
		"a window":            {[]string{"small.jsonl", "--from", "100ms", "--length", "150ms"}, "small", 3},
		"Azure":               {[]string{"code.csv"}, "code", 3},
		"Azure, compressed":   {[]string{"code.csv.gz"}, "code", 3},
		"by the flag":         {[]string{"code", "--format", "azure"}, "code", 3},
		"ServeGen":            {[]string{"clients.csv", "--lengths", "lengths.csv"}, "clients", 48},
		"half of ServeGen":    {[]string{"clients.csv", "--lengths", "lengths.csv", "--thin", "0.5"}, "clients", 24},
		"a model of ServeGen": {[]string{"clients.csv", "--lengths", "lengths.csv", "--model-map", "small=m"}, "clients", 6},
		"a scenario":          {[]string{"two-pods.yaml"}, "two-pods", 40},
		"some of a scenario":  {[]string{"two-pods.yaml", "--requests", "7"}, "two-pods", 7},
		"begin of a scenario": {[]string{"two-pods.yaml", "--length", "1ns"}, "two-pods", 0},
		"a variant":           {[]string{"varied.yaml"}, "varied-few", 9},
		"another variant":     {[]string{"varied.yaml", "--variant", "more"}, "varied-more", 11},
		"with a warm-up":      {[]string{"two-pods.yaml", "--warmup", "2s"}, "two-pods", -40},
		"one that is shipped": {[]string{"uniform", "--requests", "5"}, "uniform", 5},
	} {
		t.Run(name, func(t *testing.T) {
			s := elsewhere(t)
			conversations(t, "small.jsonl", 3, 2)
			s.file("code.csv", azureSample)
			s.file("code", azureSample)
			s.file("code.csv.gz", packed.String())
			s.file("clients.csv", clientsSample)
			s.file("lengths.csv", lengthsSample)
			s.file("two-pods.yaml", twoPods)
			s.file("varied.yaml", strings.Replace(twoPods, "two-pods", "varied", 1)+
				"vary:\n  - {name: few, set: {workload.0.traffic.requests: 9}}\n  - {name: more, set: {workload.0.traffic.requests: 11}}\n")
			h := listening(t, "", "m")
			args := append([]string{"replay", "--target", h.URL, "--speedup", "100000", "--in-flight", "8", "-o", "json"}, c.args...)
			if c.want == 0 {
				if _, errs := s.do(exitFailed, "", args...); !strings.Contains(errs, "has no requests") || h.count() > 0 {
					t.Errorf("%d sent, error %q", h.count(), errs)
				}
				return
			}
			out, _ := s.do(0, "", args...)
			r := told(t, out)
			if c.want < 0 { // some of them are left out
				c.want = -c.want
				if got := figure(t, r, "ends.answered"); got < 12 || got > 32 || !strings.Contains(strings.Join(r.About, " "), "requests of the warm-up of 2s") {
					t.Errorf("%v of the 40 of 5 s are after a warm-up of 2 s; %s", got, r.About)
				}
			} else if got := figure(t, r, "ends.answered"); got != float64(c.want) {
				t.Errorf("%v answered, want %d", got, c.want)
			}
			if h.count() != c.want || r.Title != "Replay of "+c.title {
				t.Errorf("%s: %d heard, want %d of %s", r.Title, h.count(), c.want, c.title)
			}
		})
	}
}

func TestTracesThatCannotBeReplayed(t *testing.T) {
	s := elsewhere(t)
	conversations(t, "small.jsonl", 2, 1)
	s.file("code.csv", azureSample)
	s.file("trace.txt", azureSample)
	s.file("clients.csv", clientsSample)
	s.file("empty.jsonl", "")
	s.file("bad.jsonl", "{\"timestamp\":0}\n")
	s.file("two-pods.yaml", twoPods)
	s.file("bad.yaml", "name: x\n")
	h := listening(t, "", "m")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no such file":          {[]string{"none.jsonl"}, "open none.jsonl: no such file"},
		"no such scenario":      {[]string{"prefix-lon"}, "prefix-lon is neither a file nor a scenario: "},
		"no such scenario file": {[]string{"none.yaml"}, "open none.yaml: no such file"},
		"no format":             {[]string{"trace.txt"}, "--format: the name trace.txt doesn't tell it: set mooncake, azure, servegen"},
		"another format":        {[]string{"code.csv", "--format", "parquet"}, `--format: "parquet" is not one of mooncake, azure, servegen`},
		"the wrong format":      {[]string{"code.csv", "--format", "mooncake"}, "Mooncake trace, line 1"},
		"a bad line":            {[]string{"bad.jsonl"}, "Mooncake trace, line 1"},
		"nothing in it":         {[]string{"empty.jsonl"}, "empty.jsonl has no requests"},
		"nothing in the window": {[]string{"small.jsonl", "--from", "1h"}, "check --from, --length and --thin"},
		"no lengths":            {[]string{"clients.csv", "--format", "servegen"}, "--lengths: name ServeGen's table of lengths"},
		"no such lengths":       {[]string{"clients.csv", "--lengths", "none.csv"}, "--lengths: open none.csv"},
		"a grid of ServeGen":    {[]string{"clients.csv", "--lengths", "code.csv", "--grid", "1s"}, "--grid: the tables have no time stamps"},
		"clients of Azure":      {[]string{"code.csv", "--region-map", "a/b=us"}, "--region-map, --tenant-map, --model-map: this trace names neither"},
		"a shift backwards":     {[]string{"code.csv", "--region", "us", "--shift", "us=-1h"}, "--region: is -1h0m0s: this trace can only be moved later"},
		"a variant of a trace":  {[]string{"code.csv", "--variant", "x"}, "--variant is for scenarios"},
		"a thinned scenario":    {[]string{"two-pods.yaml", "--thin", "0.5"}, "--thin is for traces: a scenario says it itself"},
		"regions of a scenario": {[]string{"two-pods.yaml", "--region", "us"}, "--region is for traces"},
		"tenants of a scenario": {[]string{"two-pods.yaml", "--tenant", "a,b"}, "--tenant: a scenario takes one"},
		"a variant too much":    {[]string{"two-pods.yaml", "--variant", "x"}, "--variant: "},
		"no scenario":           {[]string{"bad.yaml"}, "read scenario bad.yaml"},
		"all warm-up":           {[]string{"code.csv", "--warmup", "1h"}, "--warmup: all requests come before 1h0m0s"},
		"no figure":             {[]string{"code.csv", "--figure", "speed"}, `--figure: figure "speed": there is none`},
	} {
		_, errs := s.do(exitFailed, "", append([]string{"replay", "--target", h.URL}, c.args...)...)
		if !strings.Contains(errs, c.want) {
			t.Errorf("%s: error lacks %q: %s", name, c.want, errs)
		}
	}
	if h.count() > 0 {
		t.Errorf("%d requests were sent", h.count())
	}
}

// A trace that turns out to be bad on the way is reported as far as it came.
func TestATraceWithABadEnd(t *testing.T) {
	s := elsewhere(t)
	conversations(t, "small.jsonl", 3, 1)
	text, err := os.ReadFile("small.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	s.file("cut.jsonl", string(text)+`{"timestamp":`)
	h := listening(t, "", "m")
	if _, errs := s.do(exitFailed, "", "replay", "cut.jsonl", "--target", h.URL); !strings.Contains(errs, "Mooncake trace, line 4") || h.count() > 0 {
		t.Errorf("%d sent, error %s", h.count(), errs)
	}
}

// A scenario's names can be those of another fleet, and its requests what --model says.
func TestScenariosOfAnotherFleet(t *testing.T) {
	s := elsewhere(t)
	s.file("two-pods.yaml", twoPods)
	s.file("a.key", "a-key")
	us, eu := listening(t, "", "m", "n"), listening(t, "", "m", "n")
	replay := func(want int, args ...string) (out, errs string) {
		t.Helper()
		return s.do(want, "", append([]string{
			"replay", "two-pods.yaml", "--target", "us=" + us.URL, "--target", "eu=" + eu.URL, "--speedup", "1000", "--requests", "6", "-o", "json",
		}, args...)...)
	}
	if _, errs := replay(exitFailed); !strings.Contains(errs, `--target: region "us-east-1" has none: name it as REGION=URL, or map the region`) {
		t.Errorf("error %s", errs)
	}
	replay(0, "--region-map", "us-east-1=eu", "--tenant-map", "acme=globex", "--key", "globex=a.key")
	if us.count() != 0 || eu.count() != 6 || eu.sent() != "a-key" {
		t.Errorf("%d and %d requests with keys %q", us.count(), eu.count(), eu.sent())
	}
	if _, errs := replay(exitFailed, "--region-map", "us-east-1=eu", "--key", "globex=a.key"); !strings.Contains(errs, `--key: tenant "acme" has none`) {
		t.Errorf("error %s", errs)
	}
}

// broken is a source that ends with an error after some requests.
type broken struct {
	workload.Peeker
	left int
}

func (b *broken) Next() (workload.Request, bool) {
	if b.left == 0 {
		return workload.Request{}, false
	}
	b.left--
	return b.Peeker.Next()
}

func (b *broken) Err() error {
	if b.left == 0 {
		return errors.New("line 7: is torn")
	}
	return nil
}

func TestChangedWorkloads(t *testing.T) {
	begin := func() (workload.Source, error) {
		return workload.Uniform{
			Traffic: workload.Traffic{Arrivals: workload.Arrivals{Rate: 10}, Requests: 100},
			Prompt:  workload.Lengths{Fixed: 10}, Output: workload.Lengths{Fixed: 1},
		}.Source()
	}
	w := replayWork{
		begin: begin, end: 5 * time.Second,
		change: func(r *workload.Request) { r.Region = "eu" },
	}
	source, err := w.open()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for {
		at, more := workload.Ahead(source).Peek()
		r, ok := source.Next()
		if !ok {
			break
		}
		n++
		if !more || at != r.At || r.At >= w.end || r.Region != "eu" {
			t.Fatalf("request %+v, foreseen for %v", r, at)
		}
	}
	if n < 30 || n > 70 || !source.Ended() || workload.Err(source) != nil {
		t.Errorf("%d requests in 5 s at 10 a second; ended %v", n, source.Ended())
	}

	w = replayWork{begin: func() (workload.Source, error) {
		s, err := begin()
		return &broken{workload.Ahead(s), 3}, err
	}}
	if source, err = w.open(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := workload.Err(source); err != nil {
			t.Fatal(err)
		}
		if _, ok := source.Next(); !ok {
			t.Fatal("it ended too soon")
		}
	}
	if _, ok := source.Next(); ok || fmt.Sprint(workload.Err(source)) != "line 7: is torn" {
		t.Errorf("error %v, want that of the source", workload.Err(source))
	}
}
