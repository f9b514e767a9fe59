package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"anabranch/dataplane/inference"
	"anabranch/failover"
)

// tokens is a stream of a chat completion with its own names, in the order that vLLM sends it.
func tokens(id int, words []string, prompt int, usage bool) []string {
	head := fmt.Sprintf(`"id":"chatcmpl-%d","object":"chat.completion.chunk","created":%d,"model":"m%d"`, id, 1000+id, id)
	out := []string{"data: {" + head + `,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}` + "\n\n"}
	for _, w := range words {
		said, err := json.Marshal(w)
		if err != nil {
			panic(err)
		}
		out = append(out, "data: {"+head+`,"choices":[{"index":0,"delta":{"content":`+string(said)+`},"logprobs":null,"finish_reason":null}]}`+"\n\n")
	}
	out = append(out, "data: {"+head+`,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n")
	if usage {
		out = append(out, fmt.Sprintf("data: {%s,\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d,\"completion_tokens\":%d,\"prompt_tokens_details\":{\"cached_tokens\":%d}}}\n\n",
			head, prompt, prompt+len(words), len(words), prompt))
	}
	return append(out, done)
}

// An answer that breaks once or more often, wherever and however, and is continued from what was
// left of it by places that have names and counts of their own, is the answer of one place that
// never broke.
func TestAResumedAnswerIsTheUncutAnswer(t *testing.T) {
	relay := New(Options{})
	const prompt = 40
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "Na", " to", "\n", " ", "\\\"", "é", "\U0001F600", "\tx", "the end."}), 1, 14).Draw(t, "words")
		answer := strings.Join(words, "")
		keepUsage := rapid.Bool().Draw(t, "usage")
		w := httptest.NewRecorder()
		var r Result
		var resume *Partial
		given := 0 // content events
		for place := 1; ; place++ {
			left := words
			if resume != nil {
				// What a model goes on with after the text without the white space at its end.
				rest := answer[len(strings.TrimSuffix(resume.Text, inference.Tail(resume.Text))):]
				left = again(t, rest)
			}
			stream := tokens(place, left, prompt+given, true)
			end := io.EOF
			if cut := rapid.IntRange(0, len(stream)).Draw(t, "cut"); place < 4 && cut < len(stream) {
				stream = stream[:cut]
				if cut > 0 {
					last := stream[cut-1]
					stream[cut-1] = last[:rapid.IntRange(0, len(last)).Draw(t, "within")]
				}
				switch rapid.SampledFrom([]string{"reset", "end", "error", "garbage"}).Draw(t, "how") {
				case "reset":
					end = errReset
				case "error":
					stream = append(stream[:max(cut-1, 0)], `data: {"error":{"message":"x"}}`+"\n\n")
				case "garbage":
					stream = append(stream[:max(cut-1, 0)], "<html>\n\n")
				}
			}
			var got []byte
			for _, part := range stream {
				got = append(got, part...)
			}
			body := streamed(end)
			body.Body = &pieces{rest: cutAt(got, rapid.SliceOfN(rapid.Byte(), 1, 3).Draw(t, "pieces")), err: end}
			a := try(once(body))
			a.Keep, a.KeepUsage, a.Resume = true, keepUsage, resume
			r = relay.Do(t.Context(), w, a)
			if !r.Interrupted {
				if !r.Committed && r.Retryable {
					continue // nothing of it had come
				}
				break
			}
			resume = r.Partial
			given = int(resume.Tokens)
			if got := readChat(t, w.Body.Bytes()); got.text != resume.Text || got.dones+len(got.errors) > 0 {
				t.Fatalf("the client has %q, kept is %q", w.Body, resume.Text)
			}
		}
		got := readChat(t, w.Body.Bytes())
		if got.text != answer {
			t.Fatalf("text %q, want %q, of %q", got.text, answer, w.Body)
		}
		if got.roles > 1 || got.ends != 1 || len(got.names) != 1 {
			t.Fatalf("%d roles, %d ends, names %v in %q", got.roles, got.ends, got.names, w.Body)
		}
		if r.Broken { // after the finish, and without the usage that was asked for
			if len(got.errors) != 1 || got.dones > 0 || !keepUsage || r.HasUsage {
				t.Fatalf("%+v with %q", r, w.Body)
			}
			return
		}
		if resume == nil && r.Cause == nil && !slices.Contains(got.data, "[DONE]") {
			return // as the place sent it, regular end and all
		}
		if got.dones != 1 || len(got.errors) > 0 || !strings.HasSuffix(got.order, "D") {
			t.Fatalf("order %s in %q", got.order, w.Body)
		}
		if want := map[bool]int{true: 1}[keepUsage && r.HasUsage]; len(got.usages) != want {
			t.Fatalf("%d usage events in %q", len(got.usages), w.Body)
		}
		if !r.HasUsage { // the last place ended without
			return
		}
		if r.Usage.Prompt != prompt {
			t.Fatalf("usage %+v, want the first part's prompt", r.Usage)
		}
		if keepUsage {
			u := got.usages[0].Usage
			if u.Prompt != r.Usage.Prompt || u.Completion != r.Usage.Completion || u.Total != u.Prompt+u.Completion || u.Details.Cached != r.Usage.Cached {
				t.Fatalf("the client is told %+v, and the result is %+v", u, r.Usage)
			}
		}
	})
}

// again cuts text into words of its own.
func again(t *rapid.T, text string) []string {
	var words []string
	runes := []rune(text)
	for len(runes) > 0 {
		n := rapid.IntRange(1, len(runes)).Draw(t, "word")
		words, runes = append(words, string(runes[:n])), runes[n:]
	}
	return words
}

func interrupted(t *testing.T, parts ...string) (*httptest.ResponseRecorder, Result) {
	t.Helper()
	w := httptest.NewRecorder()
	a := try(once(streamed(errReset, parts...)))
	a.Keep = true
	r := New(Options{}).Do(t.Context(), w, a)
	if !r.Interrupted || !r.Committed || !r.Broken || r.Retryable || r.Partial == nil || r.Outcome != failover.ServerFault {
		t.Fatalf("result %+v, want interrupted", r)
	}
	return w, r
}

func TestAnInterruptedAnswerCanBeBrokenOff(t *testing.T) {
	stream := tokens(1, []string{"a", "b", "c"}, 9, false)
	w, r := interrupted(t, stream[:3]...)
	if p := r.Partial; p.Text != "ab" || p.Tokens != 2 || p.ID != `"chatcmpl-1"` || p.Created != "1001" || p.Model != `"m1"` {
		t.Errorf("partial %+v", p)
	}
	if got := w.Body.String(); got != strings.Join(stream[:3], "") {
		t.Errorf("the client has %q, want no word of the break yet", got)
	}
	r = New(Options{}).BreakOff(w, r)
	got := readChat(t, w.Body.Bytes())
	if !slices.Equal(got.errors, []string{"stream_broken"}) || got.dones > 0 || got.text != "ab" {
		t.Errorf("the client has %q", w.Body)
	}
	if r.Interrupted || r.Partial != nil || !r.Broken || r.Err == nil {
		t.Errorf("result %+v", r)
	}
}

// deaf is a client that takes so many writes and no more.
type deaf struct {
	*httptest.ResponseRecorder
	takes int
}

func (d *deaf) Write(b []byte) (int, error) {
	if d.takes--; d.takes < 0 {
		return 0, io.ErrClosedPipe
	}
	return d.ResponseRecorder.Write(b)
}

func TestAClientThatLeavesBeforeItsAnswerIsBrokenOffIsGone(t *testing.T) {
	_, r := interrupted(t, role, content)
	r = New(Options{}).BreakOff(&deaf{ResponseRecorder: httptest.NewRecorder()}, r)
	if !r.ClientGone || !r.Broken || r.Err != nil || r.Cause == nil {
		t.Errorf("result %+v", r)
	}
}

func TestWhatCantBeContinuedIsBrokenOffAtOnce(t *testing.T) {
	tool := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0}]}}]}` + "\n\n"
	for name, parts := range map[string][]string{
		"a tool call":             {role, content, tool},
		"a second answer":         {role, content, `data: {"choices":[{"index":1,"delta":{"content":"x"}}]}` + "\n\n"},
		"log probabilities":       {role, `data: {"choices":[{"index":0,"delta":{"content":"x"},"logprobs":{"content":[{"token":"x"}]}}]}` + "\n\n"},
		"reasoning":               {role, `data: {"choices":[{"index":0,"delta":{"reasoning_content":"x"}}]}` + "\n\n", content},
		"an event of another API": {"event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","delta":"x"}` + "\n\n"},
		"more text than is kept":  {role, `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", maxPartial+1) + `"}}]}` + "\n\n"},
		"no text":                 {strings.Repeat(": x\n\n", maxHeld/4)},
	} {
		w := httptest.NewRecorder()
		a := try(once(streamed(errReset, parts...)))
		a.Keep = true
		r := New(Options{}).Do(t.Context(), w, a)
		if r.Interrupted || !r.Broken || r.Partial != nil || r.Err == nil {
			t.Errorf("%s: %+v", name, r)
		}
		if !strings.HasSuffix(w.Body.String(), string(r.Err.Event())) {
			t.Errorf("%s: no error event", name)
		}
	}
}

func TestAnAnswerThatLacksOnlyItsEndIsEnded(t *testing.T) {
	stream := tokens(1, []string{"a"}, 9, true)
	for name, c := range map[string]struct {
		upTo      int
		keepUsage bool
		broken    bool
	}{
		"after the finish":                       {3, false, false},
		"after the usage":                        {4, true, false},
		"after the finish, and usage was wanted": {3, true, true},
	} {
		w := httptest.NewRecorder()
		a := try(once(streamed(errReset, stream[:c.upTo]...)))
		a.Keep, a.KeepUsage = true, c.keepUsage
		r := New(Options{}).Do(t.Context(), w, a)
		got := readChat(t, w.Body.Bytes())
		if r.Broken != c.broken || r.Interrupted || r.Outcome != failover.ServerFault || got.dones+len(got.errors) != 1 || got.dones == 1 == c.broken {
			t.Errorf("%s: %+v, %q", name, r, w.Body)
		}
	}
}

// What a place says to an attempt that is to continue an answer may not reach the client unless it
// continues it.
func TestAPlaceThatDoesNotContinueLeavesTheAnswerAsItWas(t *testing.T) {
	for name, c := range map[string]struct {
		answer  func() *http.Response
		outcome failover.Outcome
	}{
		"can't be reached": {func() *http.Response { return nil }, failover.ServerFault},
		"503":              {func() *http.Response { return plain(503, nil, `{}`) }, failover.ServerFault},
		"400":              {func() *http.Response { return plain(400, nil, `{"error":{"message":"unknown field"}}`) }, failover.Ignored},
		"no stream":        {func() *http.Response { return plain(200, nil, answer) }, failover.ServerFault},
		"a role, then cut": {func() *http.Response { return streamed(errReset, role) }, failover.ServerFault},
		"an error event": {func() *http.Response {
			return streamed(io.EOF, role, `data: {"error":{"message":"x","code":400}}`+"\n\n")
		}, failover.Ignored},
		"garbage": {func() *http.Response { return streamed(io.EOF, "garbage\n\n") }, failover.ServerFault},
	} {
		for _, keep := range []bool{true, false} {
			w, before := interrupted(t, tokens(1, []string{"a", "b"}, 9, false)[:3]...)
			a := try(canned(func(*http.Request) (*http.Response, error) {
				if answer := c.answer(); answer != nil {
					return answer, nil
				}
				return nil, errReset
			}))
			a.Resume, a.Keep = before.Partial, keep
			a.Commit = func(http.Header, Place) { t.Errorf("%s: the header was sent a second time", name) }
			r := New(Options{}).Do(t.Context(), w, a)
			got := readChat(t, w.Body.Bytes())
			if !r.Committed || !r.Broken || r.Retryable || r.Interrupted != keep || r.Outcome != c.outcome || r.Events != 2 {
				t.Errorf("%s, keep %v: %+v", name, keep, r)
			}
			if keep && r.Partial != before.Partial {
				t.Errorf("%s: partial %+v", name, r.Partial)
			}
			if got.text != "ab" || got.dones > 0 || len(got.errors) == 0 != r.Interrupted {
				t.Errorf("%s, keep %v: the client has %q", name, keep, w.Body)
			}
		}
	}
}

func TestUsageOfAResumedAnswerIsOfAllItsParts(t *testing.T) {
	first := tokens(1, []string{"a", "b"}, 9, false)
	w, r := interrupted(t, first[:3]...)
	a := try(once(streamed(io.EOF, tokens(2, []string{"c", "d", "e"}, 11, true)...)))
	a.Resume, a.KeepUsage = r.Partial, true
	r = New(Options{}).Do(t.Context(), w, a)
	if want := (inference.Usage{Prompt: 9, Cached: 9, Completion: 5}); r.Usage != want || !r.HasUsage || r.Events != 5 {
		t.Errorf("usage %+v, %d events; want %+v", r.Usage, r.Events, want)
	}
	if own, events := r.Own(); own != (inference.Usage{Prompt: 11, Cached: 11, Completion: 3}) || events != 3 {
		t.Errorf("own %+v, %d events", own, events)
	}
	if got := readChat(t, w.Body.Bytes()); len(got.usages) != 1 || got.usages[0].Usage.Completion != 5 || got.order != "UD" {
		t.Errorf("the client has %q", w.Body)
	}
}

// Usage that comes with each chunk is known when the stream breaks.
func TestUsageTheFirstPartToldIsKept(t *testing.T) {
	chunk := func(word string, prompt, completion int) string {
		return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"content":%q}}],"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}}`+"\n\n",
			word, prompt, prompt+completion, completion)
	}
	w, r := interrupted(t, role, chunk("ab", 9, 2), chunk("cd", 9, 4))
	if r.Partial.Tokens != 4 {
		t.Errorf("partial %+v", r.Partial)
	}
	a := try(once(streamed(io.EOF, role, chunk("ef", 13, 2), finish, done)))
	a.Resume, a.KeepUsage = r.Partial, true
	r = New(Options{}).Do(t.Context(), w, a)
	if r.Usage.Prompt != 9 || r.Usage.Completion != 6 {
		t.Errorf("usage %+v", r.Usage)
	}
	if !strings.Contains(w.Body.String(), `"ef"}}],"usage":{"completion_tokens":6,"prompt_tokens":9,"total_tokens":15}}`) {
		t.Errorf("the client has %q", w.Body)
	}
}

func TestAResumedAnswerMayBreakAgainAndStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := interrupted(t, tokens(1, []string{"a", "b"}, 9, false)[:3]...)
		second := tokens(2, []string{"c", "d"}, 11, false)
		a := try(canned(func(q *http.Request) (*http.Response, error) {
			body := streamed(nil)
			body.Body = io.NopCloser(io.MultiReader(strings.NewReader(second[0]+second[1]), &endless{q}))
			return body, nil
		}))
		a.Resume, a.Keep, a.Stall = r.Partial, true, 3*time.Second
		began := time.Now()
		r = New(Options{}).Do(t.Context(), w, a)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("noticed after %v", took)
		}
		if !r.Interrupted || r.Partial.Text != "abc" || r.Partial.Tokens != 3 || r.Err.Code != "stream_idle" {
			t.Fatalf("result %+v", r)
		}
		a = try(once(streamed(io.EOF, tokens(3, []string{"d"}, 12, false)...)))
		a.Resume = r.Partial
		r = New(Options{}).Do(t.Context(), w, a)
		got := readChat(t, w.Body.Bytes())
		if r.Broken || got.text != "abcd" || got.dones != 1 || len(got.names) != 1 || r.Events != 4 {
			t.Errorf("result %+v, %q", r, w.Body)
		}
	})
}

// endless says nothing until its request is given up.
type endless struct{ r *http.Request }

func (e *endless) Read([]byte) (int, error) {
	<-e.r.Context().Done()
	return 0, e.r.Context().Err()
}
