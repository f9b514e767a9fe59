package dataplane

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/proxy"
)

// written is what lines of a kind write of a record, one object a line.
func written(t *testing.T, which RequestLog, records ...*Record) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	l := newLines(which, slog.New(slog.NewJSONHandler(&out, nil)))
	for _, rec := range records {
		l.write(&trip{q: httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil), served: "us-a", attempts: 1, last: &proxy.Result{}}, rec)
	}
	var all []map[string]any
	for line := range strings.SplitSeq(strings.TrimSpace(out.String()), "\n") {
		if line == "" {
			continue
		}
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func TestARequestGetsOneLine(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	good := &Record{
		ID: "r1-1", At: at, Tenant: "acme", Model: "llama", Class: "interactive", Status: 200, TotalMs: 12.5, QueuedMs: 3, Arm: "new", Policy: "p",
		Usage: inference.Usage{Prompt: 11, Cached: 4, Completion: 3}, Attempts: []Tried{{Cluster: "us-a", Endpoint: "e1", PredictedMs: 9}},
	}
	all := written(t, LogAll, good)
	if len(all) != 1 {
		t.Fatalf("%d lines", len(all))
	}
	for key, want := range map[string]any{
		"level": "INFO", "msg": "request ended", "request": "r1-1", "tenant": "acme", "model": "llama", "class": "interactive", "cluster": "us-a",
		"endpoint": "e1", "status": 200.0, "attempts": 1.0, "total_ms": 12.5, "queued_ms": 3.0, "predicted_ms": 9.0, "policy": "p", "arm": "new",
		"input_tokens": 11.0, "cached_tokens": 4.0, "output_tokens": 3.0,
	} {
		if all[0][key] != want {
			t.Errorf("%s = %v, want %v", key, all[0][key], want)
		}
	}
	for _, key := range []string{"code", "quota"} {
		if _, ok := all[0][key]; ok {
			t.Errorf("a %s of what was not wrong", key)
		}
	}
	refused := written(t, LogAll, &Record{ID: "r1-2", At: at, Status: 429, Code: "rate_limit_exceeded", Quota: &Refusal{Limit: "acme/requests"}})
	if len(refused) != 1 || refused[0]["quota"] != "acme/requests" {
		t.Errorf("a refusal's line: %v", refused)
	}
}

// A line says where a request went, also where another region's router chose.
func TestALineSaysWhereARequestWent(t *testing.T) {
	direct := []Tried{{Cluster: "us-a", Endpoint: "e1"}, {Cluster: "us-b", Endpoint: "e2"}}
	abroad := []Tried{{Cluster: "us-a", Endpoint: "e1"}, {Cluster: "eu-a"}}
	for name, tt := range map[string]struct {
		served            fleet.ClusterID
		attempts          []Tried
		told              proxy.Place
		cluster, endpoint string
	}{
		"here":                             {"us-b", direct, proxy.Place{}, "us-b", "e2"},
		"here, and no second part":         {"us-a", direct, proxy.Place{}, "us-a", "e1"},
		"nowhere, tried last":              {"", direct, proxy.Place{}, "us-b", "e2"},
		"nowhere, never sent":              {"", nil, proxy.Place{}, "", ""},
		"abroad, as told":                  {"eu-a", abroad, proxy.Place{Cluster: "eu-a", Endpoint: "e7"}, "eu-a", "e7"},
		"abroad, by another cluster":       {"eu-b", abroad, proxy.Place{Cluster: "eu-b", Endpoint: "e7"}, "eu-b", "e7"},
		"abroad, of another control plane": {"eu-a", abroad, proxy.Place{Cluster: "theirs", Endpoint: "e7"}, "theirs", "e7"},
		"abroad, without endpoints":        {"eu-a", abroad, proxy.Place{Cluster: "eu-a"}, "eu-a", ""},
		"abroad, not told":                 {"eu-a", abroad, proxy.Place{}, "eu-a", ""},
		"abroad, unfit to be told":         {"eu-a", abroad, proxy.Place{Cluster: "a b", Endpoint: "e7"}, "eu-a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			x := &trip{served: tt.served, last: &proxy.Result{Served: tt.told}}
			if len(tt.attempts) == 0 {
				x.last = nil
			}
			if cluster, endpoint := x.wentTo(&Record{Attempts: tt.attempts}); cluster != tt.cluster || endpoint != tt.endpoint {
				t.Errorf("%q, %q", cluster, endpoint)
			}
		})
	}
}

func TestBothRoutersOfAHopSayWhereItWent(t *testing.T) {
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 0, endpoints: []*stub{newStub(t, answers)}},
		{id: "eu-a", region: eu, weight: 1, endpoints: []*stub{newStub(t, answers)}},
	}, nil)
	var logs [2]bytes.Buffer
	for i, region := range []string{us, eu} {
		w.routers[region].lines = newLines(LogAll, slog.New(slog.NewJSONHandler(&logs[i], nil)))
	}
	for _, body := range []string{askWhole, askStream} {
		if r := w.ask(us, "acme", body); r.status != http.StatusOK {
			t.Fatalf("%d %q", r.status, r.body)
		}
		w.idle()
		for i := range logs {
			var line struct {
				Cluster, Endpoint string
				Hop               bool
			}
			if err := json.Unmarshal(logs[i].Bytes(), &line); err != nil || line.Cluster != "eu-a" || line.Endpoint != "e1" || line.Hop != (i == 1) {
				t.Errorf("%v, %s", err, logs[i].Bytes())
			}
			logs[i].Reset()
		}
	}
}

func TestWhichRequestsGetALine(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	records := []*Record{
		{ID: "good", At: at, Status: 200},
		{ID: "refused", At: at, Status: 429},
		{ID: "bad", At: at, Status: 503, Code: "no_capacity"},
		{ID: "broken", At: at, Status: 200, Broken: true},
		{ID: "left", At: at, Status: 200, Broken: true, ClientGone: true},
	}
	for which, want := range map[RequestLog]string{
		LogAll: "good:INFO refused:INFO bad:WARN broken:WARN left:INFO", LogFaults: "bad:WARN broken:WARN", LogNone: "",
	} {
		var got []string
		for _, line := range written(t, which, records...) {
			got = append(got, line["request"].(string)+":"+line["level"].(string))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", which, got, want)
		}
	}
}

// A storm of requests does not drown the log; the next line says how many were left out.
func TestLinesAreBounded(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	var records []*Record
	for range linesSaved + 300 {
		records = append(records, &Record{At: at, Status: 503})
	}
	records = append(records, &Record{ID: "later", At: at.Add(time.Second), Status: 503})
	all := written(t, LogAll, records...)
	if len(all) != linesSaved+1 {
		t.Fatalf("%d lines, want %d", len(all), linesSaved+1)
	}
	if last := all[len(all)-1]; last["request"] != "later" || last["lines_left_out"] != 300.0 {
		t.Errorf("the last line is %v", last)
	}
}

func TestAnUnknownRequestLogIsNamed(t *testing.T) {
	o := Options{Router: "r", Region: "x", Requests: "some"}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "Tables") {
		t.Fatalf("%v", err) // the first that is wrong
	}
	w, _ := one(t)
	o = w.routers[us].o
	o.Requests = "some"
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "all, faults or none") {
		t.Errorf("%v", err)
	}
}

// A defect that a request meets is told, and its connection cut, with no word of it to the client.
func TestAPanicIsLogged(t *testing.T) {
	w, _ := one(t)
	n := w.routers[us]
	var log bytes.Buffer
	n.log = slog.New(slog.NewTextHandler(&log, nil))
	n.meter = nil // the defect
	n.front.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	q := w.request(us, "acme", askWhole)
	if res, err := http.DefaultClient.Do(q); err == nil {
		t.Errorf("answered %d", res.StatusCode)
		res.Body.Close()
	}
	w.idle()
	if text := log.String(); !strings.Contains(text, "panic") || !strings.Contains(text, "router.go") {
		t.Errorf("log %q", text)
	}
}
