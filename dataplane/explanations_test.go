package dataplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"anabranch/api/fleet"
)

func TestRecordsAreFiltered(t *testing.T) {
	e := &explanations{}
	if got := e.list(&filter{limit: 9}); got == nil || len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
	add := func(id, tenant, model string, status int, code string, clusters ...string) {
		r := &Record{ID: id, Tenant: fleet.TenantID(tenant), Model: fleet.ModelID(model), Status: status, Code: code}
		for _, c := range clusters {
			r.Attempts = append(r.Attempts, Tried{Cluster: fleet.ClusterID(c)})
		}
		e.add(r)
	}
	add("1", "acme", "llama", 200, "", "us-a")
	add("2", "globex", "llama", 503, "no_capacity")
	add("3", "acme", "qwen", 200, "", "us-b", "us-a")
	add("4", "acme", "llama", 502, "upstream_error", "us-b")
	for query, want := range map[string]string{
		"":                                  "4 3 2 1",
		"limit=2":                           "4 3",
		"tenant=acme":                       "4 3 1",
		"cluster=us-a":                      "3 1",
		"cluster=us":                        "",
		"model=qwen":                        "3",
		"status=503":                        "2",
		"status=5xx":                        "4 2",
		"status=2xx&tenant=acme":            "3 1",
		"code=no_capacity":                  "2",
		"tenant=acme&cluster=us-b":          "4 3",
		"tenant=globex&status=2xx":          "",
		"status=4xx":                        "",
		"limit=1&tenant=acme":               "4",
		"limit=500":                         "4 3 2 1",
		"limit=0":                           "error limit",
		"limit=501":                         "error limit",
		"limit=x":                           "error limit",
		"status=6xx":                        "error status",
		"status=99":                         "error status",
		"status=" + url.QueryEscape("5x\n"): "error status",
		"tennant=acme":                      "error tennant",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		f, err := newFilter(values)
		if what, wrong := strings.CutPrefix(want, "error "); wrong {
			if err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%q: %v, want an error about %s", query, err, what)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", query, err)
			continue
		}
		var got []string
		for _, r := range e.list(&f) {
			got = append(got, r.ID)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%q: %q, want %q", query, text, want)
		}
	}
}

func TestOnlyTheNewestAreListed(t *testing.T) {
	e := &explanations{}
	for i := range explainKept + 7 {
		e.add(&Record{ID: fmt.Sprint(i), Status: 200 + i%2})
	}
	all := e.list(&filter{limit: explainKept * 2})
	if len(all) != explainKept || all[0].ID != fmt.Sprint(explainKept+6) || all[explainKept-1].ID != "7" {
		t.Errorf("%d records, from %s to %s", len(all), all[0].ID, all[len(all)-1].ID)
	}
	if some := e.list(&filter{limit: 3, low: 200, high: 200}); len(some) != 3 || some[0].Status != 200 || some[2].ID != fmt.Sprint(explainKept+2) {
		t.Errorf("%d records", len(some))
	}
}

func TestRecordsAreFoundByEitherName(t *testing.T) {
	w, _ := one(t)
	n := w.routers[us]
	first := w.ask(us, "acme", askWhole, "X-Request-Id", "mine")
	w.record(us, first)
	page := func(path string) got { return w.get(http.MethodGet, n.admin.URL+path, "", "") }
	var rec Record
	if r := page("/explain/mine"); json.Unmarshal([]byte(r.body), &rec) != nil || rec.ClientID != "mine" || rec.ID != first.header.Get("X-Anabranch-Request-Id") {
		t.Errorf("by the client's name: %d %s", r.status, r.body)
	}
	second := w.ask(us, "globex", askStream, "X-Request-Id", "mine")
	w.record(us, second)
	w.record(us, w.ask(us, "globex", askStream))
	var list Explanations
	if r := page("/explain/mine"); json.Unmarshal([]byte(r.body), &list) != nil || len(list.Items) != 2 || list.Items[0].Tenant != "globex" || list.Items[1].Tenant != "acme" {
		t.Errorf("of two that a client called the same: %s", r.body)
	}
	if r := page("/explain/" + rec.ID); !strings.Contains(r.body, `"id": "`+rec.ID+`"`) || strings.Contains(r.body, `"items"`) {
		t.Errorf("by the router's name: %s", r.body)
	}
	list = Explanations{}
	if r := page("/explain?tenant=globex&limit=1"); r.status != http.StatusOK || json.Unmarshal([]byte(r.body), &list) != nil || len(list.Items) != 1 || list.Items[0].Tenant != "globex" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := page("/explain?tenant=nobody"); r.status != http.StatusOK || !strings.Contains(r.body, `"items": []`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := page("/explain?limit=many"); r.status != http.StatusBadRequest || !strings.Contains(r.body, "limit") {
		t.Errorf("%d %s", r.status, r.body)
	}
}
