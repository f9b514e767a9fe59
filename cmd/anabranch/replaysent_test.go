package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/sim"
	"anabranch/sim/replay"
	"anabranch/sim/report"
	"anabranch/sim/workload"
)

// question is a request as a target gets it.
type question struct {
	Model     string `json:"model"`
	Prompt    string `json:"prompt"`
	MaxTokens int    `json:"max_tokens"`
	MinTokens int    `json:"min_tokens"`
	IgnoreEOS bool   `json:"ignore_eos"`
	Messages  []struct {
		Content string `json:"content"`
	} `json:"messages"`

	path, priority string
	at             time.Time
}

// tokens of the prompt.
func (q *question) tokens() int {
	n := len(q.Prompt)
	for _, m := range q.Messages {
		n += len(m.Content)
	}
	return n / sim.BytesPerToken
}

// inquisitive starts a target that keeps what it is asked. The list is whole when the replay is over.
func inquisitive(t *testing.T) (string, func() []question) {
	t.Helper()
	var mu sync.Mutex // guards asked
	var asked []question
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
			return
		}
		q := question{path: r.URL.Path, priority: r.Header.Get("X-Anabranch-Priority"), at: time.Now()}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		mu.Lock()
		asked = append(asked, q)
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(h.Close)
	return h.URL, func() []question {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(asked)
	}
}

// Flags change what the target gets.
func TestWhatTheTargetGets(t *testing.T) {
	every := func(of func(question) bool) func([]question) bool {
		return func(all []question) bool {
			return len(all) > 0 && !slices.ContainsFunc(all, func(q question) bool { return !of(q) })
		}
	}
	for name, c := range map[string]struct {
		args []string
		want func([]question) bool
	}{
		"chats": {nil, every(func(q question) bool {
			return q.path == "/v1/chat/completions" && len(q.Messages) == 1 && q.Model == "m" && q.MinTokens == 0 && !q.IgnoreEOS && q.priority == ""
		})},
		"completions": {[]string{"--api", "completions"}, every(func(q question) bool {
			return q.path == "/v1/completions" && len(q.Messages) == 0 && q.tokens() > 900
		})},
		"another model":    {[]string{"--model", "other/model-8B"}, every(func(q question) bool { return q.Model == "other/model-8B" })},
		"whole answers":    {[]string{"--ignore-eos"}, every(func(q question) bool { return q.IgnoreEOS && q.MinTokens == q.MaxTokens && q.MaxTokens >= 4 })},
		"priorities":       {[]string{"--priority"}, every(func(q question) bool { return q.priority == "50" })},
		"shorter prompts":  {[]string{"--max-prompt", "600"}, every(func(q question) bool { return q.tokens() == 600 })},
		"shorter answers":  {[]string{"--max-output", "3"}, every(func(q question) bool { return q.MaxTokens == 3 })},
		"whole prompts":    {nil, func(all []question) bool { return len(all) == 12 && longest(all) == 3*512 }},
		"the first of all": {[]string{"--requests", "5"}, func(all []question) bool { return len(all) == 5 && longest(all) == 2*512 }},
		"some conversations": {[]string{"--thin", "0.5", "--seed", "5"}, func(all []question) bool {
			return len(all) > 0 && len(all) < 12 && len(all)%2 == 0 // both turns of each
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := elsewhere(t)
			conversations(t, "small.jsonl", 6, 2)
			target, asked := inquisitive(t)
			s.do(0, "", append([]string{"replay", "small.jsonl", "--target", target, "--speedup", "100"}, c.args...)...)
			if all := asked(); !c.want(all) {
				for i := range all {
					all[i].Prompt, all[i].Messages = "", nil
				}
				t.Errorf("the target got %+v", all)
			}
		})
	}
}

func longest(all []question) int {
	most := 0
	for i := range all {
		most = max(most, all[i].tokens())
	}
	return most
}

// The same seed sends the same prompts, and another seed others.
func TestSeedsDecideWhatIsSent(t *testing.T) {
	s := elsewhere(t)
	s.file("two-pods.yaml", twoPods)
	prompts := func(seed string) string {
		target, asked := inquisitive(t)
		s.do(0, "", "replay", "two-pods.yaml", "--target", target, "--speedup", "1000", "--requests", "10", "--seed", seed, "--api", "completions")
		var all []string
		for _, q := range asked() {
			all = append(all, q.Prompt)
		}
		slices.Sort(all)
		return strings.Join(all, "\n")
	}
	first := prompts("1")
	if again := prompts("1"); again != first {
		t.Error("the same seed sent other prompts")
	}
	if other := prompts("2"); other == first {
		t.Error("another seed sent the same prompts")
	}
}

// Requests are sent when they are due: a region's come later by its shift, and all of them sooner by the
// speed-up.
func TestTimesOfRequests(t *testing.T) {
	s := elsewhere(t)
	conversations(t, "small.jsonl", 10, 1) // 450 ms
	us, first := inquisitive(t)
	eu, second := inquisitive(t)
	s.do(0, "", "replay", "small.jsonl", "--target", "us="+us, "--target", "eu="+eu, "--shift", "eu=10s", "--speedup", "10")
	a, b := first(), second()
	if len(a) == 0 || len(b) == 0 || len(a)+len(b) != 10 {
		t.Fatalf("%d and %d requests of 10", len(a), len(b))
	}
	begin := slices.MinFunc(a, func(x, y question) int { return x.at.Compare(y.at) }).at
	for _, q := range b {
		if wait := q.at.Sub(begin); wait < 400*time.Millisecond || wait > 4*time.Second {
			t.Errorf("a request was sent %v after the first, want 1 s", wait)
		}
	}
}

// ServeGen's clients are sent to the regions, tenants and models that they are mapped to.
func TestClientsAreMapped(t *testing.T) {
	s := elsewhere(t)
	s.file("clients.csv", clientsSample)
	s.file("lengths.csv", lengthsSample)
	s.file("a.key", "a-key")
	s.file("b.key", "b-key")
	us, eu := listening(t, "", "m"), listening(t, "", "m")
	s.do(0, "", "replay", "clients.csv", "--lengths", "lengths.csv", "--target", "us="+us.URL, "--target", "eu="+eu.URL, "--region", "us",
		"--region-map", "big/1=eu", "--key", "a=a.key,b=b.key", "--tenant", "a", "--tenant-map", "small/0=b", "--model-map", "big=m,small=m", "--speedup", "100000")
	if u, e := us.count(), eu.count(); u != 30+6 || e != 12 || us.sent() != "a-key b-key" || eu.sent() != "a-key" {
		t.Errorf("%d requests with keys %q and %d with %q", u, us.sent(), e, eu.sent())
	}
}

// A key is sent to the target and to nowhere that it points to.
func TestKeysDontFollowRedirects(t *testing.T) {
	s := elsewhere(t)
	conversations(t, "small.jsonl", 2, 1)
	t.Setenv("ANABRANCH_API_KEY", "env-key")
	other := listening(t, "", "m")
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer target.Close()
	_, errs := s.do(exitFailed, "", "replay", "small.jsonl", "--target", target.URL, "--model", "m", "--speedup", "100")
	if !strings.Contains(errs, "2 × 307.") || other.count() > 0 || len(other.keys) > 0 {
		t.Errorf("%d were sent on, error %s", other.count(), errs)
	}
}

// However requests end, each that was not cut off by the user is in the figures, in one way of ending.
func TestFiguresHoldEveryRecord(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := sent{work: &replayWork{}, flags: &replayFlags{name: "x"}}
		canceled := 0
		for i := range rapid.IntRange(0, 40).Draw(t, "records") {
			due := time.Duration(rapid.IntRange(0, 5000).Draw(t, "due")) * time.Millisecond
			r := replay.Record{Request: workload.Request{ID: uint64(i), At: due, PromptTokens: 10, OutputTokens: 5, Model: "m"}, Due: due, Sent: due}
			r.Status = rapid.SampledFrom([]int{0, 200, 404, 429, 500, 503}).Draw(t, "status")
			r.Code = rapid.SampledFrom([]string{
				"", replay.CodeConnect, replay.CodeTimeout, replay.CodeCanceled, replay.CodeBroken, "rate_limit_exceeded", "no_capacity", "shed",
			}).Draw(t, "code")
			if rapid.Bool().Draw(t, "begun") {
				r.First = due + time.Millisecond
				r.Last = r.First + time.Millisecond
				r.OutputTokens = 2
			}
			r.Ended = due + 10*time.Millisecond
			if r.Code == replay.CodeCanceled {
				canceled++
			}
			s.summary.Sent++
			s.records = append(s.records, r)
		}
		r := s.report()
		sum, all := 0.0, float64(len(s.records)-canceled)
		for _, key := range []string{"ends.answered", "ends.shed", "ends.denied", "ends.failed", "ends.cut", "ends.gaveUp"} {
			m, err := report.Lookup(key)
			if err != nil {
				t.Fatal(err)
			}
			sum += float64(m.Of(&r.Runs[0]))
		}
		if got := float64(r.Runs[0].Ends.Requests); got != all || sum != all {
			t.Fatalf("%v requests ended in %v ways, want %v", got, sum, all)
		}
		if text := s.codes(); !strings.HasPrefix(text, fmt.Sprintf("Of %d requests ", len(s.records))) || text != s.codes() {
			t.Fatalf("%q", text)
		}
	})
}
