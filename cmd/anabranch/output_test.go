package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev"
	"anabranch/cmd/anabranch/dev/load"
	"anabranch/cmd/anabranch/dev/seed"
	"anabranch/controlplane/policy"
)

func TestKindsAreReadAsPeopleWriteThem(t *testing.T) {
	for word, want := range map[string]policy.Kind{
		"regions": policy.KindRegion, "Region": policy.KindRegion, "cluster": policy.KindCluster,
		"policy": policy.KindTrafficPolicy, "policies": policy.KindTrafficPolicy, "TrafficPolicy": policy.KindTrafficPolicy,
		"ratecard": policy.KindRateCard, "QUOTAS": policy.KindQuota,
	} {
		if got, err := kindOf(word); err != nil || got != want {
			t.Errorf("kindOf(%q) = %q, %v, want %q", word, got, err, want)
		}
	}
	for _, word := range []string{"", "s", "drill"} {
		if got, err := kindOf(word); err == nil {
			t.Errorf("kindOf(%q) = %q", word, got)
		}
	}
}

func TestEveryKindHasColumnsForWhatIsSeeded(t *testing.T) {
	keys := map[string]string{}
	for _, tenant := range seed.Tenants() {
		keys[tenant] = dev.HashKey(tenant)
	}
	rs, err := seed.Resources(seed.Loopback(), keys)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"Region/us-east-1":         "us 1 ap-northeast-1=157,eu-west-1=70",
		"Cluster/us-east-1-a":      "us-east-1 endpoints llama-3.1-8b 4 2×h100,2×a100-80 no",
		"Cluster/ap-northeast-1-b": "ap-northeast-1 gateway llama-3.1-70b http://127.0.0.1:9381 4×h100,8×a100-80 no",
		"Model/llama-3.1-8b":       "- support-lora,legal-lora",
		"Tenant/initech":           "batch eu 1",
		"Quota/globex":             "globex - 60 requests/min share",
		"Quota/initech-group":      "organization initech - 200 concurrent-requests,$5/day share",
		"TrafficPolicy/default":    "interactive 0 - - - - 2000 latency first allowed",
	}
	for _, r := range rs {
		raw, err := json.Marshal(r.Spec)
		if err != nil {
			t.Fatal(err)
		}
		got, err := columnsOf(r.Kind, r.Metadata.Name, raw)
		if err != nil || len(got) != len(headers[r.Kind]) {
			t.Errorf("%s %s: %q for %q, %v", r.Kind, r.Metadata.Name, got, headers[r.Kind], err)
		}
		id := string(r.Kind) + "/" + r.Metadata.Name
		if w, ok := want[id]; ok && strings.Join(got, " ") != w {
			t.Errorf("%s: %q, want %q", id, strings.Join(got, " "), w)
		}
	}
}

func TestTheColumnsOfAQuotaTellWhatItIsNarrowedTo(t *testing.T) {
	got, err := columnsOf(policy.KindQuota, "q", json.RawMessage(`{"tenant":"acme","key":"laptop","model":"m","shadow":true,"limits":[{"kind":"money-per-month","usd":12.5},{"kind":"total-tokens","perMinute":7}]}`))
	if want := "acme key laptop|m|$12.5/month,7 total-tokens/min|shadow"; err != nil || strings.Join(got, "|") != want {
		t.Errorf("%q, want %q, %v", got, want, err)
	}
}

func TestHealthIsAColumnWhereTheStatusTellsOfIt(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out}
	item := func(name, status string) client.Item {
		return client.Item{Metadata: policy.Metadata{Name: name, Revision: 7}, Spec: json.RawMessage(`{"region":"r"}`), Status: json.RawMessage(status)}
	}
	if err := a.resources(policy.KindCluster, []client.Item{item("a", `{"health":"HEALTHY"}`), item("b", ``), item("c", `{"health":{}}`)}); err != nil {
		t.Fatal(err)
	}
	want := "NAME REGION TYPE MODELS ENDPOINTS GPUS DRAINED REVISION HEALTH\na r endpoints - 0 - no 7 HEALTHY\nb r endpoints - 0 - no 7 -\nc r endpoints - 0 - no 7 -"
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	if strings.Join(got, "\n") != want {
		t.Errorf("table\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	bad := item("d", "")
	bad.Spec = json.RawMessage(`{"models":1}`)
	if err := a.resources(policy.KindCluster, []client.Item{bad}); err == nil || !strings.Contains(err.Error(), "-o json shows it") {
		t.Errorf("unreadable spec: %v", err)
	}
}

func TestColoursPaintTheStateOnly(t *testing.T) {
	for line, want := range map[string]string{
		"router us up 3s":                    "router us \x1b[32mup\x1b[0m 3s",
		"router us not ready 503 not up":     "router us \x1b[33mnot ready\x1b[0m 503 not up",
		"us-a EVACUATED was HEALTHY":         "us-a \x1b[31mEVACUATED\x1b[0m was HEALTHY",
		"n2 unhealthy":                       "n2 \x1b[31munhealthy\x1b[0m",
		"group setup":                        "group setup",
		"a\nb broken ended by itself\n\nend": "a\nb \x1b[31mbroken\x1b[0m ended by itself\n\nend",
	} {
		if got := paint(line); got != want {
			t.Errorf("paint(%q) = %q, want %q", line, got, want)
		}
	}
	var out bytes.Buffer
	if colorful(&out) {
		t.Error("a buffer is no terminal")
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !colorful(null) {
		t.Error("a character device may have colours")
	}
	t.Setenv("NO_COLOR", "1")
	if colorful(null) {
		t.Error("NO_COLOR is ignored")
	}
	if err := (&app{out: &out, color: true}).table([]string{"NAME", "STATE"}, [][]string{{"up", "down"}}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "NAME   STATE\n") {
		t.Errorf("header is painted: %q", out.String())
	}
}

func TestStatusAndMembers(t *testing.T) {
	s := begin(t)
	out, _ := s.do(0, "", "status")
	for _, want := range []string{"c-1, epoch 1", "leader    n1", "frozen    no", "127.0.0.1:7121", "unhealthy"} {
		if !strings.Contains(out, want) {
			t.Errorf("status lacks %q:\n%s", want, out)
		}
	}
	if out, _ = s.do(0, "", "status", "-o", "yaml"); !strings.Contains(out, "clusterId: c-1") {
		t.Errorf("yaml:\n%s", out)
	}
	if out, _ = s.do(0, "", "members"); strings.Contains(out, "epoch") || !strings.Contains(out, "n2") {
		t.Errorf("members:\n%s", out)
	}
	var list struct{ Items []member }
	out, _ = s.do(0, "", "members", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) != 2 || !list.Items[0].Leader || list.Items[1].Healthy {
		t.Errorf("members -o json: %v\n%s", err, out)
	}
}

func TestKeyNewPrintsAKeyAndItsHash(t *testing.T) {
	s := begin(t)
	out, _ := s.do(0, "", "key", "new", "--id", "laptop", "-o", "json")
	var k struct{ ID, Key, SHA256 string }
	if err := json.Unmarshal([]byte(out), &k); err != nil || k.ID != "laptop" || dev.HashKey(k.Key) != k.SHA256 {
		t.Errorf("%v: %s", err, out)
	}
	text, _ := s.do(0, "", "key", "new")
	_, entry, _ := strings.Cut(text, "apiKeys:\n")
	doc := "{apiVersion: anabranch/v1, kind: Tenant, metadata: {name: x}, spec: {apiKeys: [" + strings.TrimPrefix(strings.TrimSpace(entry), "- ") + "]}}"
	if rs, problems := policy.ParseAll([]byte(doc)); len(problems) > 0 || len(rs[0].Spec.(*policy.TenantSpec).APIKeys) != 1 {
		t.Errorf("entry %q is no API key: %v", entry, problems)
	}
}

func TestHelpHasExamplesAndCompletionWorks(t *testing.T) {
	s := begin(t)
	for _, args := range [][]string{
		{"get"},
		{"apply"},
		{"delete"},
		{"status"},
		{"controlplane"},
		{"controlplane", "members"},
		{"controlplane", "join"},
		{"controlplane", "remove"},
		{"controlplane", "transfer"},
		{"explain"},
		{"key", "new"},
		{"key", "list"},
		{"key", "add"},
		{"key", "rotate"},
		{"key", "revoke"},
		{"dev"},
		{"dev", "status"},
		{"dev", "stop"},
		{"dev", "break"},
		{"dev", "heal"},
		{"dev", "load"},
	} {
		if out, _ := s.do(0, "", append(slices.Clone(args), "--help")...); !strings.Contains(out, "Examples:\n  anabranch "+strings.Join(args, " ")) {
			t.Errorf("help of %v has no example of it:\n%s", args, out)
		}
	}
	if out, _ := s.do(0, "", "--help"); strings.Contains(out, "modelserver") {
		t.Error("the model server is not hidden")
	}
	if out, _ := s.do(0, "", "--version"); out != "anabranch version dev\n" {
		t.Errorf("version %q", out)
	}
	if out, _ := s.do(0, "", "completion", "bash"); !strings.Contains(out, "__start_anabranch") {
		t.Error("no completion for bash")
	}
	if out, _ := s.do(0, "", "__complete", "get", "cl"); !strings.HasPrefix(out, "clusters\n") {
		t.Errorf("completion of get: %q", out)
	}
}

func TestDevLoadAsksForWhatDevJSONNames(t *testing.T) {
	s := begin(t)
	front := func(answer func(http.ResponseWriter, *http.Request)) string {
		server := httptest.NewServer(http.HandlerFunc(answer))
		t.Cleanup(server.Close)
		return server.URL
	}
	good := front(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer k-globex" {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = fmt.Fprint(w, `{"choices":[{"message":{"content":"wet"}}]}`)
	})
	bad := front(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	b, err := json.Marshal(dev.Record{
		Routers: []dev.RouterRecord{{Region: "us", HTTP: good}, {Region: "eu", HTTP: bad}},
		Tenants: map[string]dev.TenantRecord{"acme": {Key: "k-acme"}, "globex": {Key: "k-globex"}, "initech": {Key: "k-initech"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.file(filepath.Join(dev.FolderName, "dev.json"), string(b))
	common := []string{"dev", "load", "--rps", "1000", "--max", "200", "--stream-ratio", "0", "--seed", "1"}
	if _, errs := s.do(exitFailed, "", append(common, "--region", "us")...); !strings.Contains(errs, dev.ErrNotRunning.Error()) {
		t.Errorf("load with the dev.json of one that has ended: %s", errs)
	}
	s.supervise(&supervisor{status: dev.Status{Phase: "ready"}})

	var sum load.Summary
	out, _ := s.do(0, "", append(common, "--region", "us", "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &sum); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if sum.Total.Finished != 200 || sum.Total.Limited == 0 || sum.Total.OK <= sum.Total.Limited || len(sum.Regions) != 1 {
		t.Errorf("default tenants: %+v", sum)
	}
	out, _ = s.do(0, "", append(common, "--region", "us", "--tenant", "globex", "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &sum); err != nil || sum.Total.Limited != 200 {
		t.Errorf("one tenant, all over its limit, is no failure: %v %+v", err, sum.Total)
	}
	out, errs := s.do(exitFailed, "", append(common, "--tenant", "acme,initech")...)
	for _, want := range []string{"asked", "served by", "HTTP 503"} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
	if !strings.Contains(errs, "of 200 requests failed") {
		t.Errorf("errors: %s", errs)
	}
	for args, want := range map[string]string{
		"--region mars": `region "mars" has no router`, "--tenant nobody": `tenant "nobody" has no key`, "--rps 0": "must be above 0",
		"--rps 99999": "rps: 99999 is outside",
	} {
		if _, errs := s.do(exitFailed, "", append([]string{"dev", "load"}, strings.Fields(args)...)...); !strings.Contains(errs, want) {
			t.Errorf("%s: %s", args, errs)
		}
	}
}

func TestDevCommandsAskTheSupervisor(t *testing.T) {
	s := begin(t)
	for _, args := range [][]string{{"dev", "break", "redis"}, {"dev", "heal", "all"}} {
		if _, errs := s.do(exitFailed, "", args...); !strings.Contains(errs, dev.ErrNotRunning.Error()) {
			t.Errorf("%v: %s", args, errs)
		}
	}
	got := order([]string{"endpoint", "a/b"}, dev.Order{Fault: "slow", Factor: 2})
	if want := (dev.Order{Kind: "endpoint", Name: "a/b", Fault: "slow", Factor: 2}); got != want {
		t.Errorf("order %+v, want %+v", got, want)
	}
	if got := order([]string{"redis"}, dev.Order{}); got != (dev.Order{Kind: "redis"}) {
		t.Errorf("order %+v", got)
	}
}
