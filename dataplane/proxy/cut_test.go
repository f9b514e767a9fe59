package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"anabranch/failover"
)

// asked is what a caller is asked of a stream, and answers.
type asked struct {
	at   []int64
	step int64
	most int64 // 0: any
}

var errTooMuch = &Error{Status: http.StatusTooManyRequests, Message: "too much", Type: TypeRateLimit, Code: "rate_limit_exceeded", Origin: FromQuota}

func (a *asked) passed(tokens int64) (int64, *Error) {
	a.at = append(a.at, tokens)
	if a.most > 0 && tokens > a.most {
		return 0, errTooMuch
	}
	return tokens + a.step, nil
}

// counts is a chunk as vLLM sends it with continuous_usage_stats.
func counts(tokens int) string {
	return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"content":"tok"}}],"usage":{"prompt_tokens":11,"completion_tokens":%d}}`+"\n\n", tokens)
}

func TestAStreamIsAskedOfAsItPassesItsReserve(t *testing.T) {
	last := `data: {"choices":[{"index":0,"delta":{"content":"."},"finish_reason":"stop"}]}` + "\n\n"
	for name, c := range map[string]struct {
		parts   []string
		reserve int64
		want    []int64
	}{
		"as long as its reserve":            {[]string{role, content, content, content, finish, done}, 3, nil},
		"longer":                            {[]string{role, content, content, content, content, finish, done}, 3, []int64{4}},
		"longer by another step":            {slices.Repeat([]string{content}, 10), 3, []int64{4, 7, 10}},
		"nothing set aside":                 {[]string{role, content, content, content, finish, done}, 0, []int64{1}},
		"its end is not asked of":           {[]string{role, content, last, done}, 1, nil},
		"nor is what only counts":           {[]string{role, content, finish, counted, done}, 1, nil},
		"by the place's own count":          {[]string{role, counts(2), counts(4), counts(6), counts(7), finish, counted, done}, 3, []int64{4, 7}},
		"by events where the place is late": {[]string{role, counts(1), content, content, finish, done}, 2, []int64{3}},
	} {
		t.Run(name, func(t *testing.T) {
			q := asked{step: 2}
			a := try(once(streamed(io.EOF, c.parts...)))
			a.Passed, a.Reserve, a.KeepUsage = q.passed, c.reserve, true
			w := httptest.NewRecorder()
			r := New(Options{}).Do(t.Context(), w, a)
			if !slices.Equal(q.at, c.want) {
				t.Errorf("asked at %v, want %v", q.at, c.want)
			}
			if r.Cut {
				t.Errorf("result %+v", r)
			}
			for _, part := range c.parts {
				if !strings.Contains(w.Body.String(), part) {
					t.Errorf("the client did not get %q", part)
				}
			}
		})
	}
}

// closing is a body that says when it is closed.
type closing struct {
	io.ReadCloser
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return c.ReadCloser.Close()
}

// TestAStreamThatIsCutSaysSo in each API's own way, and its place is told at once.
func TestAStreamThatIsCutSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		event string
		named bool
		want  string
	}{
		"chat completions": {content, false, `data: {"error":{"message":"too much","type":"rate_limit_exceeded","code":"rate_limit_exceeded","param":null,"origin":"quota"}}`},
		"completions": {
			`data: {"choices":[{"index":0,"text":"tok"}]}` + "\n\n", false,
			`data: {"error":{"message":"too much","type":"rate_limit_exceeded","code":"rate_limit_exceeded","param":null,"origin":"quota"}}`,
		},
		"responses": {
			"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"tok\"}\n\n", true,
			"event: error\n" + `data: {"type":"error","code":"rate_limit_exceeded","message":"too much","param":null,` +
				`"error":{"message":"too much","type":"rate_limit_exceeded","code":"rate_limit_exceeded","param":null,"origin":"quota"}}`,
		},
		"messages": {
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"tok\"}}\n\n", true,
			"event: error\n" + `data: {"type":"error","code":"rate_limit_exceeded","message":"too much","param":null,` +
				`"error":{"message":"too much","type":"rate_limit_exceeded","code":"rate_limit_exceeded","param":null,"origin":"quota"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := asked{step: 1, most: 3}
			answer := streamed(io.EOF, slices.Repeat([]string{c.event}, 20)...)
			body := &closing{ReadCloser: answer.Body}
			answer.Body = body
			a := try(once(answer))
			a.Passed, a.Reserve, a.Named, a.Keep = q.passed, 1, c.named, true
			w := httptest.NewRecorder()
			r := New(Options{}).Do(t.Context(), w, a)
			if got, want := w.Body.String(), strings.Repeat(c.event, 4)+c.want+"\n\n"; got != want {
				t.Errorf("the client got %q, want %q", got, want)
			}
			if !r.Cut || !r.Broken || r.Interrupted || r.Retryable || r.ClientGone || r.Err != errTooMuch || r.Outcome != failover.Ignored {
				t.Errorf("result %+v", r)
			}
			if r.Events != 4 || !body.closed || a.live.Load() != nil {
				t.Errorf("%d events; the place's answer is closed: %v", r.Events, body.closed)
			}
		})
	}
}

// TestABrokenStreamOfNamedEventsEndsWithOne, as clients that tell events by their names would hear no other.
func TestABrokenStreamOfNamedEventsEndsWithOne(t *testing.T) {
	start := "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"tok\"}}\n\n"
	a := try(once(streamed(errReset, start)))
	a.Named = true
	w := httptest.NewRecorder()
	if r := New(Options{}).Do(t.Context(), w, a); !r.Broken || r.Cut {
		t.Errorf("result %+v", r)
	}
	rest, found := strings.CutPrefix(w.Body.String(), start+"event: error\ndata: ")
	if !found || !strings.HasPrefix(rest, `{"type":"error","code":"stream_broken"`) {
		t.Errorf("the client got %q", w.Body)
	}
}

// TestAContinuedAnswerIsCountedAsAWhole: the first place sent three tokens, so that the second passes a
// reserve of five with its third.
func TestAContinuedAnswerIsCountedAsAWhole(t *testing.T) {
	relay, q := New(Options{}), asked{step: 2}
	first := try(once(streamed(errReset, tokens(1, []string{"a", "b", "c"}, 9, false)[:4]...)))
	first.Keep, first.Passed, first.Reserve = true, q.passed, 5
	w := httptest.NewRecorder()
	r := relay.Do(t.Context(), w, first)
	if !r.Interrupted {
		t.Fatalf("result %+v", r)
	}
	second := try(once(streamed(io.EOF, tokens(2, []string{"d", "e", "f", "g", "h", "i"}, 12, true)...)))
	second.Resume, second.Passed, second.Reserve = r.Partial, q.passed, 5
	if r = relay.Do(t.Context(), w, second); r.Broken || r.Events != 9 {
		t.Errorf("result %+v", r)
	}
	if want := []int64{6, 9}; !slices.Equal(q.at, want) {
		t.Errorf("asked at %v, want %v", q.at, want)
	}
}

// TestOnlyTheWinnerOfARaceIsAskedOf: what loses has nothing that anybody pays for.
func TestOnlyTheWinnerOfARaceIsAskedOf(t *testing.T) {
	var race Race
	winner, loser := asked{step: 1}, asked{step: 1}
	relay := New(Options{})
	w := httptest.NewRecorder()
	a := try(once(streamed(io.EOF, role, content, content, finish, done)))
	a.Passed = winner.passed
	race.Enter(a)
	relay.Do(t.Context(), w, a)
	b := try(once(streamed(io.EOF, role, content, content, finish, done)))
	b.Passed = loser.passed
	race.Enter(b)
	if r := relay.Do(t.Context(), w, b); !r.Lost {
		t.Errorf("result %+v", r)
	}
	if len(winner.at) == 0 || len(loser.at) != 0 {
		t.Errorf("the winner was asked of at %v, the loser at %v", winner.at, loser.at)
	}
}

func TestAClientThatLeavesAsItIsCutIsCutAndGone(t *testing.T) {
	q := asked{most: 1}
	a := try(once(streamed(io.EOF, slices.Repeat([]string{content}, 5)...)))
	a.Passed, a.Reserve = q.passed, 1
	r := New(Options{}).Do(t.Context(), &deaf{ResponseRecorder: httptest.NewRecorder(), takes: 2}, a)
	if !r.Cut || !r.ClientGone || !r.Broken || r.Outcome != failover.Ignored {
		t.Errorf("result %+v", r)
	}
}
