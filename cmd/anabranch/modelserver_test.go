package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"anabranch/sim/modelserver"
)

func TestParseEndpoint(t *testing.T) {
	t.Parallel()
	got, err := parseEndpoint("class=h100,id=a,listen=127.0.0.1:9101")
	if want := (modelserver.Endpoint{ID: "a", Listen: "127.0.0.1:9101", Class: "h100"}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	got, err = parseEndpoint("id=a,events=127.0.0.1:19101,listen=127.0.0.1:9101,class=h100")
	if want := (modelserver.Endpoint{ID: "a", Listen: "127.0.0.1:9101", Class: "h100", KVEvents: "127.0.0.1:19101"}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "a", "id=a,port=1"} {
		if got, err := parseEndpoint(bad); err == nil {
			t.Errorf("%q: %+v, want an error", bad, got)
		}
	}
}

func TestModelserverNamesTheFlag(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--endpoint x":          {"--cluster=c", "--model=llama-3.1-8b", "--endpoint=x"},
		"--adapters needs":      {"--cluster=c", "--adapters=a"},
		"--gateway-metrics":     {"--cluster=c", "--gateway-metrics=127.0.0.1:0"},
		"--time-scale":          {"--cluster=c", "--time-scale=0"},
		"--log-level":           {"--cluster=c", "--log-level=loud"},
		"cluster: is empty":     {"--model=llama-3.1-8b", "--endpoint=id=a,listen=127.0.0.1:0,class=h100"},
		"models: name":          {"--cluster=c", "--endpoint=id=a,listen=127.0.0.1:0,class=h100"},
		"endpoints: name":       {"--cluster=c", "--model=llama-3.1-8b"},
		"GPU class \"abacus\"":  {"--cluster=c", "--model=llama-3.1-8b", "--endpoint=id=a,listen=127.0.0.1:0,class=abacus"},
		"unknown command \"x\"": {"x"},
	} {
		cmd := newModelserverCommand()
		cmd.SetArgs(args)
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}

func TestModelserverServesAClusterBehindAGateway(t *testing.T) {
	t.Parallel()
	admin, front, metrics := freeAddress(t), freeAddress(t), freeAddress(t)
	cmd := newModelserverCommand()
	cmd.SetArgs([]string{
		"--cluster=c", "--admin=" + admin, "--model=llama-3.1-8b", "--adapters=support-lora,legal-lora",
		"--endpoint=id=a,listen=127.0.0.1:0,class=h100", "--endpoint=id=b,listen=127.0.0.1:0,class=a100-80",
		"--gateway-listen=" + front, "--gateway-metrics=" + metrics, "--time-scale=0.05", "--log-level=error",
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the command ended with %v", err)
		}
	})
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(method, url, body string) string {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(10 * time.Second); ; <-tick.C {
			resp, err := client.Do(req)
			if err == nil {
				text, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
			req.Body = io.NopCloser(strings.NewReader(body)) // it is still coming up
		}
	}
	const question = `{"model":"legal-lora","messages":[{"role":"user","content":"hi"}],"max_tokens":3}`
	if got := ask("POST", front+"/v1/chat/completions", question); !strings.Contains(got, `"completion_tokens":3`) {
		t.Errorf("through the gateway: %s", got)
	}
	if got := ask("GET", admin+"/status", ""); !strings.Contains(got, `"cluster":"c"`) || !strings.Contains(got, `"model":"legal-lora"`) {
		t.Errorf("status: %s", got)
	}
	if got := ask("GET", metrics+"/metrics", ""); !strings.Contains(got, `llm_d_epp_request_total{model_name="legal-lora"`) {
		t.Errorf("pool metrics: %s", got)
	}
}

// freeAddress is a loopback address that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }() // only its address is wanted
	return ln.Addr().String()
}
