package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"anabranch/cmd/anabranch/dev"
)

// heard is a target that answers everything and remembers which keys asked for which path.
type heard struct {
	*httptest.Server
	mu   sync.Mutex // guards keys
	keys map[string][]string
}

// listening starts a target that serves some models. Key, if not empty, is the only one that it takes.
func listening(t *testing.T, key string, models ...string) *heard {
	t.Helper()
	h := &heard{keys: map[string][]string{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		h.mu.Lock()
		h.keys[r.URL.Path] = append(h.keys[r.URL.Path], given)
		h.mu.Unlock()
		switch {
		case key != "" && given != key:
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method == http.MethodGet && len(models) == 0:
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodGet:
			_, _ = fmt.Fprintf(w, `{"data":[{"id":"%s"}]}`, strings.Join(models, `"},{"id":"`))
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprint(w, "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n\n")
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// sent are the different keys of completions, sorted.
func (h *heard) sent() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := slices.Sorted(slices.Values(h.keys["/v1/chat/completions"]))
	return strings.Join(slices.Compact(keys), " ")
}

// count is how many completions were asked for.
func (h *heard) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.keys["/v1/chat/completions"])
}

func TestKeysOfTargets(t *testing.T) {
	const small = "small.jsonl"
	for name, c := range map[string]struct {
		env  string
		args []string
		want string
	}{
		"none":                   {"", nil, ""},
		"of the environment":     {"env-key", nil, "env-key"},
		"of tenants":             {"", []string{"--key", "acme=a.key,globex=b.key"}, "a-key b-key"},
		"of one tenant":          {"", []string{"--key", "acme=a.key"}, "a-key"},
		"of a tenant and others": {"env-key", []string{"--key", "acme=a.key", "--tenant", "acme=1,globex=1"}, "a-key env-key"},
	} {
		t.Run(name, func(t *testing.T) {
			s := elsewhere(t)
			conversations(t, small, 12, 1)
			s.file("a.key", "a-key\n")
			s.file("b.key", " b-key ")
			t.Setenv("ANABRANCH_API_KEY", c.env)
			h := listening(t, "", "m")
			out, errs := s.do(0, "", append([]string{"replay", small, "--target", h.URL, "--speedup", "100"}, c.args...)...)
			if got := h.sent(); got != c.want {
				t.Errorf("keys %q, want %q", got, c.want)
			}
			if strings.Contains(out+errs, "-key") {
				t.Errorf("a key is told:\n%s%s", out, errs)
			}
		})
	}
}

func TestEachRegionHasItsTarget(t *testing.T) {
	s := elsewhere(t)
	conversations(t, "small.jsonl", 20, 1)
	us, eu, rest := listening(t, "", "m"), listening(t, "", "m"), listening(t, "", "m")
	out, _ := s.do(0, "", "replay", "small.jsonl", "--target", "us-east-1="+us.URL+",eu-west-1="+eu.URL, "--target", rest.URL,
		"--region", "us-east-1=3,eu-west-1=1,ap-northeast-1=1", "--speedup", "100", "-o", "json")
	if r := told(t, out); figure(t, r, "ends.answered") != 20 {
		t.Errorf("figures %+v", r.Runs[0].Ends)
	}
	if u, e, x := us.count(), eu.count(), rest.count(); u <= e || e == 0 || x == 0 || u+e+x != 20 {
		t.Errorf("the targets got %d, %d and %d requests of 20 at weights of 3, 1 and 1", u, e, x)
	}
}

// Without --region requests come from the regions that have targets.
func TestRegionsAreThoseOfTheTargets(t *testing.T) {
	s := elsewhere(t)
	conversations(t, "small.jsonl", 20, 1)
	us, eu := listening(t, "", "m"), listening(t, "", "m")
	s.do(0, "", "replay", "small.jsonl", "--target", "us-east-1="+us.URL, "--target", "eu-west-1="+eu.URL, "--speedup", "100")
	if u, e := us.count(), eu.count(); u < 5 || e < 5 || u+e != 20 {
		t.Errorf("the targets got %d and %d requests of 20", u, e)
	}
}

func TestTargetsThatCannotBe(t *testing.T) {
	s := elsewhere(t)
	conversations(t, "small.jsonl", 2, 1)
	s.file("empty.key", "\n")
	s.file("two.key", "one two")
	s.file("good.key", "good-key")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	locked, open := listening(t, "right-key", "m"), listening(t, "", "m", "n")
	silent := listening(t, "")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"none":              {nil, "name a --target, or run where `anabranch dev` was started"},
		"no scheme":         {[]string{"--target", "127.0.0.1:1"}, "--target: is not http://host:port"},
		"a secret in it":    {[]string{"--target", "http://me:secret@127.0.0.1:1"}, "--target: is not http://host:port"},
		"two of no region":  {[]string{"--target", dead, "--target", dead}, "--target: two are without a region"},
		"a bad region":      {[]string{"--target", "US=" + dead}, "--target: region"},
		"a bad URL":         {[]string{"--target", "us=ftp://x"}, "--target: us: is not http://host:port"},
		"dead":              {[]string{"--target", dead}, "--target " + dead + ": nothing answers there: "},
		"dead in a region":  {[]string{"--target", "us=" + dead}, "target of us, " + dead + ": nothing answers there: "},
		"no key":            {[]string{"--target", locked.URL}, "it wants an API key (401): set ANABRANCH_API_KEY, or --key TENANT=FILE"},
		"another key":       {[]string{"--target", locked.URL, "--key", "acme=good.key"}, "it does not take the API key of tenant acme (401)"},
		"no such key":       {[]string{"--target", open.URL, "--key", "acme=none.key"}, "--key: key of acme: open none.key"},
		"an empty key":      {[]string{"--target", open.URL, "--key", "acme=empty.key"}, "--key: key of acme: empty.key does not hold one key"},
		"two keys":          {[]string{"--target", open.URL, "--key", "acme=two.key"}, "--key: key of acme: two.key does not hold one key"},
		"no key of one":     {[]string{"--target", open.URL, "--key", "acme=good.key", "--tenant", "globex", "--model", "m"}, `--key: tenant "globex" has none`},
		"which model":       {[]string{"--target", open.URL}, "--model: the trace names no model: name one of those served, m, n"},
		"no list of models": {[]string{"--target", silent.URL}, "--model: the trace names no model, and the target doesn't tell"},
		"a region too much": {[]string{"--target", "us=" + open.URL, "--region", "us,eu", "--model", "m", "--seed", "3"}, `--target: region "eu" has none`},
	} {
		_, errs := s.do(exitFailed, "", append([]string{"replay", "small.jsonl"}, c.args...)...)
		if !strings.Contains(errs, c.want) {
			t.Errorf("%s: error lacks %q: %s", name, c.want, errs)
		}
		for _, secret := range []string{"secret", "good-key", "one two"} {
			if strings.Contains(errs, secret) {
				t.Errorf("%s: the error tells a secret: %s", name, errs)
			}
		}
	}
	for _, h := range []*heard{locked, open, silent} {
		if h.count() > 0 {
			t.Errorf("%d requests were sent, with key %q", h.count(), h.sent())
		}
	}
}

// demonstration writes a dev.json that names a router and tenants, beside a supervisor that runs.
func demonstration(t *testing.T, s session, router string) {
	t.Helper()
	s.supervise(&supervisor{status: dev.Status{PID: 77, Phase: "ready"}})
	record, err := json.Marshal(dev.Record{
		Routers: []dev.RouterRecord{{Region: "us-east-1", HTTP: router}},
		Tenants: map[string]dev.TenantRecord{"acme": {Key: "dev-acme"}, "globex": {Key: "dev-globex"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.file(filepath.Join(dev.FolderName, "dev.json"), string(record))
}

// The keys of a demonstration go to its own routers and nowhere else.
func TestKeysOfTheDemonstration(t *testing.T) {
	s := elsewhere(t)
	conversations(t, "small.jsonl", 8, 1)
	own, other := listening(t, "", "m"), listening(t, "", "m")
	demonstration(t, s, own.URL)
	out, _ := s.do(0, "", "replay", "small.jsonl", "--speedup", "100", "-o", "json")
	if r := told(t, out); figure(t, r, "ends.answered") != 8 || own.sent() != "dev-acme" {
		t.Errorf("keys %q, figures %+v", own.sent(), r.Runs[0].Ends)
	}
	s.do(0, "", "replay", "small.jsonl", "--target", own.URL+"/", "--tenant", "globex", "--speedup", "100")
	if own.sent() != "dev-acme dev-globex" {
		t.Errorf("keys %q", own.sent())
	}
	s.do(0, "", "replay", "small.jsonl", "--target", other.URL, "--speedup", "100")
	s.do(0, "", "replay", "small.jsonl", "--target", "us-east-1="+own.URL, "--target", other.URL, "--region", "us-east-1,eu-west-1", "--speedup", "100")
	if got := other.sent(); got != "" {
		t.Errorf("another target got the keys %q", got)
	}
	if _, errs := s.do(exitFailed, "", "replay", "small.jsonl", "--tenant", "initech"); !strings.Contains(errs, `--key: tenant "initech" has none`) {
		t.Errorf("error %q", errs)
	}
}
