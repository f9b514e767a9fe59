package dataplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/api/routerpb"
)

func rescued(pb *routerpb.Table) { pb.Classes[0].Rescue = true }

// says the words from the n-th on, as tokens of a stream.
func words(w http.ResponseWriter, id string, from, to int) {
	parts := []string{strings.Replace(role, `{"choices"`, `{"id":"`+id+`","choices"`, 1)}
	for i := from; i < to; i++ {
		parts = append(parts, fmt.Sprintf(`data: {"id":%q,"choices":[{"index":0,"delta":{"content":"w%d "}}]}`+"\n\n", id, i))
	}
	send(w, parts...)
}

// continues is a server that goes on with an answer of ten words.
func continues(w http.ResponseWriter, from int) {
	words(w, "second", from, 10)
	send(w, finish, `data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":`+fmt.Sprint(10-from)+`}}`+"\n\n", done)
}

// said is the text of a stream, and the ids of its chunks.
func said(t *testing.T, stream string) (text string, ids map[string]bool) {
	t.Helper()
	ids = map[string]bool{}
	for line := range strings.SplitSeq(stream, "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk struct {
			ID      string
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if chunk.ID != "" {
			ids[chunk.ID] = true
		}
		for _, c := range chunk.Choices {
			text += c.Delta.Content
		}
	}
	return text, ids
}

const tenWords = "w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 "

func TestABrokenStreamIsContinuedElsewhere(t *testing.T) {
	broken := map[string]func(){
		"cut": cut,
		"error event": func() {
		},
	}
	for name, end := range broken {
		t.Run(name, func(t *testing.T) {
			first, second := newStub(t, nil), newStub(t, nil)
			first.does(func(w http.ResponseWriter, _ *http.Request) {
				words(w, "first", 0, 4)
				if name == "error event" {
					send(w, `data: {"error":{"message":"engine died","code":500}}`+"\n\n")
				}
				end()
			})
			second.does(func(w http.ResponseWriter, _ *http.Request) { continues(w, 4) })
			w := newWorld(t, []site{
				{id: "us-a", region: us, weight: 1, endpoints: []*stub{first}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{second}},
			}, rescued)
			r := w.ask(us, "acme", askStream)
			if r.status != http.StatusOK || r.err != nil {
				t.Fatalf("%d %v", r.status, r.err)
			}
			text, ids := said(t, r.body)
			if text != tenWords || len(ids) != 1 || !ids["first"] || strings.Count(r.body, "[DONE]") != 1 || strings.Contains(r.body, `"error"`) {
				t.Errorf("text %q, ids %v, stream %q", text, ids, r.body)
			}
			var sent struct {
				Continue bool  `json:"continue_final_message"`
				Generate *bool `json:"add_generation_prompt"`
				Max      int   `json:"max_tokens"`
				Messages []struct{ Role, Content string }
			}
			if err := json.Unmarshal(*second.body.Load(), &sent); err != nil {
				t.Fatal(err)
			}
			last := sent.Messages[len(sent.Messages)-1]
			if !sent.Continue || sent.Generate == nil || *sent.Generate || sent.Max != 46 || last.Role != "assistant" || last.Content != "w0 w1 w2 w3" {
				t.Errorf("the second place was asked %s", *second.body.Load())
			}
			w.idle()
			rec := w.record(us, r)
			if rec.Broken || rec.Status != 200 || kinds(rec) != "first@us-a:stream_broken rescue@us-b:" {
				t.Errorf("record %+v, attempts %s", rec, kinds(rec))
			}
			if rec.Usage.Completion != 10 {
				t.Errorf("%d tokens of output are counted, want 10", rec.Usage.Completion)
			}
		})
	}
}

// A class that doesn't ask for it, and a request that can't be continued, end with the error event.
func TestWhatCannotBeContinuedEndsWithAnError(t *testing.T) {
	tools := strings.Replace(askStream, `"stream":true`, `"stream":true,"tools":[{"type":"function","function":{"name":"f"}}]`, 1)
	for name, tt := range map[string]struct {
		change func(*routerpb.Table)
		body   string
	}{
		"not asked for": {nil, askStream}, "tools": {rescued, tools},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
				words(w, "first", 0, 4)
				cut()
			}), newStub(t, answers)
			w := newWorld(t, []site{
				{id: "us-a", region: us, weight: 1, endpoints: []*stub{first}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{second}},
			}, tt.change)
			r := w.ask(us, "acme", tt.body)
			if code := r.problem(t)["code"]; code != "stream_broken" || r.err == nil || second.requests.Load() != 0 || strings.Contains(r.body, "[DONE]") {
				t.Errorf("code %v, err %v, %d at the other place: %q", code, r.err, second.requests.Load(), r.body)
			}
			w.idle()
		})
	}
}

// Where no other place is left, or all break, the stream ends with one error event after all.
func TestAnAnswerIsNotContinuedForEver(t *testing.T) {
	for name, places := range map[string]int{"nowhere to go": 1, "all break": 5} {
		t.Run(name, func(t *testing.T) {
			var sites []site
			for i := range places {
				s := newStub(t, nil)
				s.does(func(w http.ResponseWriter, r *http.Request) {
					from := strings.Count(string(*s.body.Load()), "w")
					words(w, fmt.Sprint("part", i), from, from+2)
					cut()
				})
				sites = append(sites, site{id: fmt.Sprint("us-", i), region: us, weight: 1, endpoints: []*stub{s}})
			}
			w := newWorld(t, sites, rescued)
			r := w.ask(us, "acme", askStream)
			text, _ := said(t, r.body)
			want := "w0 w1 w2 w3 w4 w5 "
			if places == 1 {
				want = "w0 w1 "
			}
			if text != want || r.err == nil || strings.Count(r.body, `"error"`) != 1 {
				t.Errorf("text %q, err %v, stream %q", text, r.err, r.body)
			}
			w.idle()
		})
	}
}

func TestAContinuationAsksForTheModelThatTheRuleWants(t *testing.T) {
	places := []*stub{newStub(t, nil), newStub(t, nil)} // whichever is first
	var sent atomic.Pointer[[]byte]
	for _, s := range places {
		s.does(func(w http.ResponseWriter, _ *http.Request) {
			if body := s.body.Load(); strings.Contains(string(*body), `"continue_final_message":true`) {
				sent.Store(body)
				continues(w, 4)
				return
			}
			words(w, "first", 0, 4)
			cut()
		})
	}
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: places[:1]}, {id: "us-b", region: us, weight: 1, endpoints: places[1:]},
	}, func(pb *routerpb.Table) {
		rescued(pb)
		ruled(&routerpb.Rule{Id: "p", Class: "interactive", Model: "qwen"})(pb)
		for _, c := range pb.Clusters {
			c.ModelNames = map[string]string{"qwen": "Qwen/at-" + c.Id}
		}
	})
	r := w.ask(us, "acme", askStream)
	if text, _ := said(t, r.body); text != tenWords {
		t.Fatalf("%d %q", r.status, r.body)
	}
	var got struct {
		Model         string
		StreamOptions struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(*sent.Load(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Model != "Qwen/at-"+string(w.record(us, r).Attempts[1].Cluster) || !got.StreamOptions.Usage {
		t.Errorf("the second place was asked %s", *sent.Load())
	}
}

func TestAPlaceThatContinuedNothingServedNothing(t *testing.T) {
	first, second := newStub(t, nil), newStub(t, says(500))
	first.does(func(w http.ResponseWriter, _ *http.Request) {
		words(w, "first", 0, 4)
		cut()
	})
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{first}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{second}},
	}, rescued)
	stop := w.run()
	r := w.ask(us, "globex", askStream)
	if rec := w.record(us, r); rec.Status != http.StatusOK || rec.Code != "upstream_error" || !rec.Broken {
		t.Errorf("status %d, code %s, broken %v", rec.Status, rec.Code, rec.Broken)
	}
	n := w.routers[us]
	w.idle()
	if got := testutil.ToFloat64(n.metrics.requests.WithLabelValues("client", "llama", "us-a", "200", "upstream_error")); got != 1 {
		t.Errorf("counted %v times for the place that served", got)
	}
	if charged := w.settled(stop, "q-tokens"); charged != 4+4 {
		t.Errorf("%d tokens charged, want the prompt's and those sent", charged)
	}
}
