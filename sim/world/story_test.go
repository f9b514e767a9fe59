package world

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/sim/workload"
)

// script is a policy that sends requests where it is told: for each request a word for each attempt,
// the last for all that follow. A word is "cluster/pod" in numbers, with "~50ms" as the bound of the
// first token; "cluster/none" for no pod and "cluster/wait" for waiting for one; "wait" for waiting in
// the queue until the request is allowed; or a code to refuse it with.
type script struct {
	turns
	words   map[uint64]string
	allowed func(id uint64, v *View) bool
}

func scripted(words map[uint64]string) *script { return &script{words: words} }

func (p *script) word(r *workload.Request, v *View) string {
	words := strings.Fields(p.words[r.ID])
	return words[min(v.Attempt, len(words))-1]
}

func (p *script) Route(r *workload.Request, v *View) Route {
	word := p.word(r, v)
	if word == "wait" {
		if p.allowed == nil || !p.allowed(r.ID, v) {
			return Route{Cluster: -1, Wait: true}
		}
		return Route{Cluster: 0}
	}
	var cluster int
	if n, _ := fmt.Sscanf(word, "%d/", &cluster); n == 1 {
		return Route{Cluster: cluster}
	}
	return Route{Cluster: -1, Code: word, Reason: "so it is written"}
}

func (p *script) Pick(r *workload.Request, _, _ int, v *View) Pick {
	place, bound, _ := strings.Cut(p.word(r, v), "~")
	_, pod, _ := strings.Cut(place, "/")
	switch pod {
	case "none":
		return Pick{Pod: -1}
	case "wait":
		return Pick{Pod: -1, Wait: p.allowed == nil || !p.allowed(r.ID, v)}
	}
	to := Pick{}
	_, _ = fmt.Sscanf(pod, "%d", &to.Pod)
	to.Bound, _ = time.ParseDuration(bound)
	return to
}

// story is how a request went, a step a line, with times in milliseconds.
func story(r *Result, id uint64) string {
	var b strings.Builder
	for _, s := range r.Explained[id] {
		fmt.Fprintf(&b, "%d %s\n", s.At.Milliseconds(), s.Text)
	}
	return b.String()
}

func play(t *testing.T, spec *Spec, policy Policy, requests ...workload.Request) *Result {
	t.Helper()
	source := newList(requests...)
	r, err := Run(context.Background(), spec, source, policy, Options{Seed: 1, Explain: func(uint64) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	if len(source.done) != len(requests) {
		t.Fatalf("%d of %d requests ended", len(source.done), len(requests))
	}
	return r
}

// ask is a request from us-east-1, which is the region of cluster 0, of 160 tokens: alone on a pod it
// gets its first token 7.7 ms after it has come there, and one more each 7.7 ms.
func ask(id uint64, at time.Duration, output int) workload.Request {
	return workload.Request{ID: id, At: at, Region: "us-east-1", Model: "llama-3.1-8b", PromptTokens: 160, OutputTokens: output}
}

func TestStories(t *testing.T) {
	t.Parallel()
	second := time.Second
	stories := readStories(t, filepath.Join("testdata", "stories.txt"))
	for _, c := range []struct {
		name   string
		change func(s *Spec)
		events []Event
		words  string
		ask    workload.Request
		end    End
	}{
		{name: "a pod of the own region answers", words: "0/0", ask: ask(1, 0, 11), end: OK},
		{name: "a pod of another region answers", words: "1/1", ask: ask(1, 0, 11), end: OK},
		{name: "a dead pod refuses after the local round trip", events: []Event{{Kind: PodLoss, Cluster: "us-east-1", Pod: 1}}, words: "0/1 0/0", ask: ask(1, 5*ms, 1), end: OK},
		{name: "a dead pod's refusal comes back across the sea", events: []Event{{Kind: PodLoss, Cluster: "eu-west-1"}}, words: "1/0 0/0", ask: ask(1, 5*ms, 1), end: OK},
		{name: "three attempts and no more", events: []Event{{Kind: Lost, Cluster: "us-east-1"}}, words: "0/0 0/1 0/0 1/0", ask: ask(1, 5*ms, 1), end: Failed},
		{name: "a lost region is silent", events: []Event{{Kind: Lost, Region: "eu-west-1"}}, words: "1/0 0/0", ask: ask(1, 5*ms, 1), end: OK},
		{name: "a region that is cut off is silent", events: []Event{{Kind: Partition, Region: "us-east-1"}}, words: "1/0 0/0", ask: ask(1, 5*ms, 1), end: OK},
		{name: "the loss of a pod cuts what streams", events: []Event{{Kind: PodLoss, Cluster: "us-east-1", At: 100 * ms}}, words: "0/0 0/1", ask: ask(1, 0, 100), end: Cut},
		{name: "and fails what waits", events: []Event{{Kind: PodLoss, Cluster: "us-east-1", At: 5 * ms}}, words: "0/0 0/1", ask: ask(1, 0, 2), end: OK},
		{name: "the loss of a region cuts what streams from it, a second later", events: []Event{{Kind: Lost, Region: "eu-west-1", At: 100 * ms}}, words: "1/0", ask: ask(1, 0, 200), end: Cut},
		{name: "and lets clients there go elsewhere", events: []Event{{Kind: Lost, Region: "us-east-1", At: 5 * ms}}, words: "0/0 1/0", ask: ask(1, 0, 2), end: OK, change: func(s *Spec) { s.Clusters[0].Pods[0].Options.StartUp = second }},
		{name: "a partition cuts streams across it", events: []Event{{Kind: Partition, Region: "eu-west-1", At: 100 * ms, For: 5 * second}}, words: "1/0", ask: ask(1, 0, 2000), end: Cut},
		{name: "a hanging cluster swallows", events: []Event{{Kind: Hang, Cluster: "us-east-1"}}, words: "0/0", ask: ask(1, 5*ms, 2), end: GaveUp, change: func(s *Spec) { s.Timeout = 2 * second }},
		{name: "but for the bound", events: []Event{{Kind: Hang, Cluster: "us-east-1"}}, words: "0/0~80ms 1/0", ask: ask(1, 5*ms, 2), end: OK},
		{name: "one that goes on answers late", events: []Event{{Kind: Hang, Cluster: "us-east-1", For: second}}, words: "0/0", ask: ask(1, 5*ms, 2), end: OK},
		{name: "a stream that hangs is given up", events: []Event{{Kind: Hang, Cluster: "us-east-1", At: 50 * ms}}, words: "0/0", ask: ask(1, 0, 100), end: Cut, change: func(s *Spec) { s.Timeout = 2 * second }},
		{name: "a brown-out is slow", events: []Event{{Kind: Slow, Cluster: "us-east-1", Pod: -1, Factor: 10, For: second}}, words: "0/0", ask: ask(1, 5*ms, 2), end: OK},
		{name: "no capacity", words: "no_capacity", ask: ask(1, 0, 1), end: Shed},
		{name: "no pod, three times", words: "0/none 1/none 2/none", ask: ask(1, 0, 1), end: Shed},
		{name: "no quota", words: "rate_limit_exceeded", ask: ask(1, 0, 1), end: Denied},
		{name: "nothing legal", words: "no_legal_target", ask: ask(1, 0, 1), end: Failed},
		{name: "too long for the cache", words: "0/0", ask: ask(1, 0, 10_000), end: Failed, change: func(s *Spec) { s.Clusters[0].Pods[0].Options.Blocks = 20 }},
		{name: "waiting in vain", words: "wait", ask: ask(1, 0, 1), end: GaveUp, change: func(s *Spec) { s.Timeout = 200 * ms }},
		{name: "waiting in vain in another region", words: "1/wait", ask: ask(1, 0, 1), end: GaveUp, change: func(s *Spec) { s.Timeout = 200 * ms }},
		{name: "a pod that comes back takes requests after its start-up", events: []Event{{Kind: PodLoss, Cluster: "us-east-1", For: second}}, words: "0/0", ask: ask(1, 2999*ms, 1), end: OK, change: func(s *Spec) { s.Clusters[0].Pods[0].Options.StartUp = 2 * second }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			spec := three(2)
			spec.Events = c.events
			if c.change != nil {
				c.change(spec)
			}
			r := play(t, spec, scripted(map[uint64]string{1: c.words}), c.ask)
			if got := r.Records[0].End; got != c.end {
				t.Errorf("it ends %v, want %v", got, c.end)
			}
			if got := story(r, 1); got != stories[c.name] {
				t.Errorf("the story is\n%s\nwant\n%s", got, stories[c.name])
			}
		})
	}
}

// readStories reads stories by their headings.
func readStories(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	stories := map[string]string{}
	for _, part := range strings.Split("\n"+string(text), "\n# ")[1:] {
		name, story, _ := strings.Cut(part, "\n")
		stories[name] = strings.TrimRight(story, "\n") + "\n"
	}
	return stories
}
