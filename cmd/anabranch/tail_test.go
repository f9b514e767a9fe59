package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/inquiry"
)

// decided is news of one router.
func decided(router string, dropped uint64, records ...string) inquiry.News {
	n := inquiry.News{Node: "n2", Router: fleet.RouterID(router), Region: "us-1", Dropped: dropped}
	for _, r := range records {
		n.Records = append(n.Records, []byte(r))
	}
	return n
}

const (
	answered = `{"id":"us-1-r1-01","at":"2026-11-30T02:44:53.123Z","tenant":"acme","asked":"best","model":"llama","stream":true,"status":200,
"attempts":[{"cluster":"us-1-b","kind":"first"},{"cluster":"us-1-a","endpoint":"e1","kind":"retry"}],"firstByteMs":95,"totalMs":400.5}`
	refused = `{"id":"us-1-r1-02","at":"2026-11-30T02:44:53.456Z","tenant":"globex","asked":"no\u001b[2Jsuch","status":404,"code":"model_not_found","totalMs":0.25}`
	failed  = `{"id":"us-1-r1-03","at":"2026-11-30T02:44:54.000Z","tenant":"acme","model":"llama","adapter":"support","status":502,"code":"upstream_error","attempts":[{"cluster":"us-1-a","endpoint":"e2"}],"totalMs":1200}`
)

func TestATailIsALineForEachRequest(t *testing.T) {
	s := begin(t)
	s.node.Ask(&asked{news: []inquiry.News{
		{Standing: inquiry.Standing{Following: 2, Unable: []fleet.RouterID{"old-r1"}, Missing: []fleet.NodeID{"n3"}}},
		decided("us-1-r1", 0, answered, refused), decided("us-1-r2", 0, failed),
	}})
	out, errs := s.do(0, "", "tail", "--count", "3")
	at := func(ms int) string {
		return time.UnixMilli(1796006693000 + int64(ms)).Local().Format("15:04:05.000")
	}
	want := []string{
		"TIME          RESULT  TENANT      MODEL             ROUTER        PLACE                     TRIES  FIRST    TOTAL    REQUEST",
		at(123) + "  200     acme        llama             us-1-r1       us-1-a/e1                 2      95 ms    400 ms   us-1-r1-01",
		at(456) + "  404 model_not_found  globex      no\uFFFD[2Jsuch        us-1-r1       -                         0      -        0.25 ms  us-1-r1-02",
		at(1000-0) + "  502 upstream_error   acme        support           us-1-r2       us-1-a/e2                 1      -        1.20 s   us-1-r1-03",
	}
	if got := strings.Split(strings.TrimSpace(out), "\n"); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if want := "anabranch: following 2 routers; not followed, for they are too old or too busy: old-r1; not those of node n3, which does not answer\n"; errs != want {
		t.Errorf("said %q", errs)
	}
}

func TestATailsColumnsAreAsWideAsWhatComesFirst(t *testing.T) {
	s := begin(t)
	s.node.Ask(&asked{news: []inquiry.News{decided("ap-northeast-1-r1", 0, answered)}})
	out, _ := s.do(0, "", "tail", "--count", "1")
	header, line, _ := strings.Cut(out, "\n")
	for name, text := range map[string]string{"ROUTER": "ap-northeast-1-r1", "PLACE": "us-1-a/e1", "REQUEST": "us-1-r1-01"} {
		if strings.Index(header, name) != strings.Index(line, text) {
			t.Errorf("%s does not stand above %s:\n%s", name, text, out)
		}
	}
}

func TestATailInJSONIsWhatCame(t *testing.T) {
	s := begin(t)
	s.node.Ask(&asked{news: []inquiry.News{decided("us-1-r1", 0, answered, refused), decided("us-1-r1", 7, failed)}})
	out, _ := s.do(0, "", "tail", "-o", "json", "--count", "2")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], `{"id":"us-1-r1-01",`) || !strings.HasSuffix(lines[1], `,"from":{"router":"us-1-r1","region":"us-1","node":"n2"}}`) {
		t.Errorf("got %q", out)
	}
}

func TestATailAsksForWhatTheFlagsSay(t *testing.T) {
	s := begin(t)
	routers := &asked{news: []inquiry.News{decided("us-1-r1", 0, answered)}}
	s.node.Ask(routers)
	s.do(0, "", "tail", "--tenant", "acme,globex", "--model", "llama", "--cluster", "us-1-a", "--region", "us-1", "--class", "interactive",
		"--errors", "--min-attempts", "2", "--rate", "7", "--count", "1")
	f := routers.filter
	got := fmt.Sprint(f.GetTenants(), f.GetModels(), f.GetClusters(), f.GetRegions(), f.GetClasses(), f.GetOutcomes(), f.GetMinAttempts(), routers.rate)
	if want := "[acme globex] [llama] [us-1-a] [us-1] [interactive] [refused failed] 2 7"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{exitRefused, []string{"--outcome", "good"}, "answered, refused, failed, gone"},
		{exitRefused, []string{"--rate", "5000"}, "from 1 to 1000"},
		{exitFailed, []string{"--count", "-1"}, "can't be below 0"},
		{exitUsage, []string{"-o", "yaml"}, "table, json"},
	} {
		if _, errs := s.do(c.code, "", append([]string{"tail"}, c.args...)...); !strings.Contains(errs, c.want) {
			t.Errorf("%v: %s", c.args, errs)
		}
	}
}

func TestATailEndsWithItsTime(t *testing.T) {
	s := begin(t)
	s.node.Ask(&asked{})
	if out, errs := s.do(0, "", "tail", "--for", "50ms"); out != "" || errs != "" {
		t.Errorf("said %q and %q", out, errs)
	}
}

// A node that goes down takes its tails with it: the next one goes on, and the user knows of the gap.
func TestATailThatIsCutOffGoesOn(t *testing.T) {
	s := begin(t)
	var calls atomic.Int32
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "event: dropped\ndata: {\"dropped\":5,\"total\":5}\n\nevent: newer\ndata: {}\n\nevent: decision\ndata: {\"id\":\"r-%d\",\"from\":{\"router\":\"r\"}}\n\n", calls.Add(1))
	}))
	defer node.Close()
	t.Setenv("ANABRANCH_SERVER", node.URL)
	out, errs := s.do(0, "", "tail", "--count", "2", "-o", "json")
	if !strings.Contains(out, `"r-1"`) || !strings.Contains(out, `"r-2"`) || strings.Count(errs, "cut off, trying again") != 1 || strings.Count(errs, "5 left out") != 2 {
		t.Errorf("said %q and %q", out, errs)
	}
	t.Setenv("ANABRANCH_SERVER", "http://127.0.0.1:1")
	s.do(exitUnreachable, "", "tail")
}

func TestOnlyResultsAreColoured(t *testing.T) {
	var out bytes.Buffer
	a := &tailing{app: &app{out: &out, err: io.Discard, color: true}}
	for _, d := range []string{answered, refused, failed} {
		if err := a.event("decision", []byte(d)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"\x1b[32m200\x1b[0m  ", "\x1b[33m404 model_not_found\x1b[0m  ", "\x1b[31m502 upstream_error\x1b[0m  "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Count(out.String(), "\x1b") != 6 {
		t.Errorf("something else moves the cursor:\n%q", out.String())
	}
	if err := a.event("decision", []byte(`{"id":7}`)); err == nil || !strings.Contains(err.Error(), "-o json shows it") {
		t.Errorf("unreadable: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&tailing{app: a.app}).run(ctx, &client.Client{Servers: []string{"http://127.0.0.1:1"}}, nil); err != nil {
		t.Error(err)
	}
}
