package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/workload"
)

// target is a transport that answers by a plan, in the time of the test's bubble.
type target struct {
	mu    sync.Mutex
	seen  []*http.Request
	body  []string
	plays func(n int, w *playing) // n counts requests from 0
}

// playing is an answer on its way.
type playing struct {
	ctx    context.Context
	pipe   *io.PipeWriter
	header http.Header
	status chan int
}

// wait lets time pass; false: the client is gone.
func (p *playing) wait(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-p.ctx.Done():
		return false
	}
}

func (p *playing) begin(status int) { p.status <- status }

func (p *playing) say(format string, args ...any) { fmt.Fprintf(p.pipe, format, args...) }

// answer is n pieces, the first after a time and the others a step apart, and usage.
func (p *playing) answer(first, step time.Duration, n, cached int) {
	p.header.Set("Content-Type", "text/event-stream; charset=utf-8")
	p.begin(http.StatusOK)
	p.say("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n")
	for i := range n {
		d := step
		if i == 0 {
			d = first
		}
		if !p.wait(d) {
			return
		}
		p.say("data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}]}\n\n")
	}
	p.say("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":%d,\"prompt_tokens_details\":{\"cached_tokens\":%d}}}\n\n", n, cached)
	p.say("data: [DONE]\n\n")
}

func (t *target) RoundTrip(q *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	q.Body.Close()
	t.mu.Lock()
	n := len(t.seen)
	t.seen, t.body = append(t.seen, q), append(t.body, string(body))
	t.mu.Unlock()
	r, w := io.Pipe()
	stop := context.AfterFunc(q.Context(), func() { w.CloseWithError(q.Context().Err()) })
	p := &playing{ctx: q.Context(), pipe: w, header: http.Header{}, status: make(chan int, 1)}
	go func() {
		t.plays(n, p)
		_ = w.Close() // of a pipe it never fails
		stop()
		close(p.status)
	}()
	select {
	case status := <-p.status:
		if status == 0 {
			return nil, errors.New("refused")
		}
		return &http.Response{StatusCode: status, Header: p.header, Body: r, Request: q}, nil
	case <-q.Context().Done():
		return nil, q.Context().Err()
	}
}

// steady is n requests, one every second.
func steady(t testing.TB, n int, a workload.Arrivals) workload.Source {
	t.Helper()
	if a.Clients == 0 {
		a.Process = workload.Constant
	}
	s, err := workload.Uniform{
		Traffic: workload.Traffic{Seed: 1, Arrivals: a, Requests: n},
		Mix:     workload.Mix{Models: []workload.Target{{Model: "m"}}},
		Prompt:  workload.Lengths{Fixed: 40}, Output: workload.Lengths{Fixed: 3},
	}.Source()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// play replays in a bubble and returns records by request.
func play(t *testing.T, source workload.Source, o Options, plays func(n int, p *playing)) (*target, map[uint64]Record, Summary) {
	t.Helper()
	to := &target{plays: plays}
	records := map[uint64]Record{}
	var sum Summary
	synctest.Test(t, func(t *testing.T) {
		o.URL, o.Transport = "http://router", to
		var err error
		sum, err = Run(t.Context(), source, o, func(r Record) { records[r.Request.ID] = r })
		if err != nil {
			t.Fatal(err)
		}
	})
	return to, records, sum
}

func TestARecordTellsItsTimes(t *testing.T) {
	_, records, sum := play(t, steady(t, 3, workload.Arrivals{}), Options{}, func(n int, p *playing) {
		p.header.Set("X-Anabranch-Region", "eu-west-1")
		p.header.Set("X-Anabranch-Cluster", "c1")
		p.header.Set("X-Anabranch-Endpoint", "e1")
		p.header.Set("X-Anabranch-Attempts", "2")
		p.answer(300*time.Millisecond, 20*time.Millisecond, 4, 16*n)
	})
	if len(records) != 3 {
		t.Fatalf("%d records, want 3", len(records))
	}
	for id, r := range records {
		due := time.Duration(id) * time.Second
		want := Record{
			Request: r.Request, Due: due, Sent: due, First: due + 300*time.Millisecond, Last: due + 360*time.Millisecond,
			Ended: due + 360*time.Millisecond, MaxGap: 20 * time.Millisecond, OutputTokens: 4, PromptTokens: 40,
			CachedTokens: 16 * (int(id) - 1), Status: 200, Cluster: "c1", Endpoint: "e1", Region: "eu-west-1", Attempts: 2,
		}
		if fmt.Sprint(r) != fmt.Sprint(want) || r.Request.Blocks != nil {
			t.Errorf("got  %+v\nwant %+v", r, want)
		}
		if r.FirstToken() != 300*time.Millisecond || r.PerToken() != 20*time.Millisecond || !r.OK() {
			t.Errorf("first token after %v, then every %v", r.FirstToken(), r.PerToken())
		}
	}
	want := Summary{Sent: 3, OK: 3, Span: 3360 * time.Millisecond, MostInFlight: 1}
	if sum != want {
		t.Errorf("summary %+v, want %+v", sum, want)
	}
}

func TestASlowTargetDoesntSlowArrivals(t *testing.T) {
	_, records, sum := play(t, steady(t, 5, workload.Arrivals{}), Options{}, func(_ int, p *playing) {
		p.answer(10*time.Second, time.Second, 2, 0)
	})
	for id, r := range records {
		if r.Sent != time.Duration(id)*time.Second || r.FirstToken() != 10*time.Second {
			t.Errorf("request %d sent at %v, first token after %v", id, r.Sent, r.FirstToken())
		}
	}
	if sum.MostInFlight != 5 || sum.Held != 0 || sum.MaxLate != 0 {
		t.Errorf("summary %+v", sum)
	}
}

func TestTheBoundIsReportedAndLatencyCountsFromWhenItWasDue(t *testing.T) {
	_, records, sum := play(t, steady(t, 4, workload.Arrivals{}), Options{InFlight: 1}, func(_ int, p *playing) {
		p.answer(3*time.Second, time.Second, 1, 0)
	})
	// Due at 1, 2, 3 and 4 s, sent at 1, 4, 7 and 10 s.
	for id, r := range records {
		if wait := time.Duration(id-1) * 2 * time.Second; r.Sent-r.Due != wait || r.FirstToken() != wait+3*time.Second {
			t.Errorf("request %d sent %v late, first token after %v", id, r.Sent-r.Due, r.FirstToken())
		}
	}
	want := Summary{Sent: 4, OK: 4, Span: 13 * time.Second, MostInFlight: 1, Held: 3, Late: 3, MeanLate: 3 * time.Second, MaxLate: 6 * time.Second}
	if sum != want {
		t.Errorf("summary %+v, want %+v", sum, want)
	}
}

func TestSpeedupDividesTimes(t *testing.T) {
	_, records, _ := play(t, steady(t, 4, workload.Arrivals{}), Options{Speedup: 4}, func(_ int, p *playing) { p.answer(0, 0, 1, 0) })
	for id, r := range records {
		if want := time.Duration(id) * time.Second / 4; r.Due != want || r.Sent != want || r.Request.At != 4*want {
			t.Errorf("request %d due at %v, sent at %v, want %v", id, r.Due, r.Sent, want)
		}
	}
}

func TestAClosedLoopWaitsForItsAnswers(t *testing.T) {
	a := workload.Arrivals{Clients: 2, Think: workload.Delays{Fixed: 4 * time.Second}}
	_, records, sum := play(t, steady(t, 6, a), Options{Speedup: 2}, func(_ int, p *playing) { p.answer(time.Second, 0, 1, 0) })
	var sent []time.Duration
	for _, r := range records {
		sent = append(sent, r.Sent)
	}
	slices.Sort(sent)
	// An answer takes 1 s of real time, and 4 s of thought are 2 s at this speed.
	if want := []time.Duration{0, 0, 3e9, 3e9, 6e9, 6e9}; !slices.Equal(sent, want) || sum.MostInFlight != 2 {
		t.Errorf("sent at %v, want %v; %d in flight", sent, want, sum.MostInFlight)
	}
}

func TestFailuresHaveCodes(t *testing.T) {
	sse := func(p *playing) {
		p.header.Set("Content-Type", "text/event-stream")
		p.begin(200)
	}
	const content = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n"
	for _, c := range []struct {
		name, code string
		status     int
		tokens     int
		plays      func(p *playing)
	}{
		{"no connection", CodeConnect, 0, 0, func(p *playing) { p.begin(0) }},
		{"over quota", "rate_limit_exceeded", 429, 0, func(p *playing) {
			p.begin(429)
			p.say(`{"error":{"message":"no","type":"requests","code":"rate_limit_exceeded","origin":"quota"}}`)
		}},
		{"a type alone", "invalid_request_error", 400, 0, func(p *playing) {
			p.begin(400)
			p.say(`{"error":{"message":"no","type":"invalid_request_error","code":null}}`)
		}},
		{"a number for a code", "404", 404, 0, func(p *playing) {
			p.begin(404)
			p.say(`{"error":{"message":"no","type":"NotFoundError","code":404}}`)
		}},
		{"text where a code should be", "error", 500, 0, func(p *playing) {
			p.begin(500)
			p.say(`{"error":{"message":"no","type":"","code":"you said: secret words"}}`)
		}},
		{"a page", "status_502", 502, 0, func(p *playing) {
			p.begin(502)
			p.say("<html>")
		}},
		{"a redirect", "status_307", 307, 0, func(p *playing) {
			p.header.Set("Location", "http://elsewhere/")
			p.begin(307)
		}},
		{"no stream", CodeMalformed, 200, 0, func(p *playing) {
			p.header.Set("Content-Type", "application/json")
			p.begin(200)
			p.say(`{"choices":[]}`)
		}},
		{"no JSON", CodeMalformed, 200, 1, func(p *playing) {
			sse(p)
			p.say(content + "data: {\n\n")
		}},
		{"an endless line", CodeBroken, 200, 0, func(p *playing) {
			sse(p)
			p.say("data: %s", strings.Repeat(" ", 2<<20))
		}},
		{"a stream without an end", CodeBroken, 200, 2, func(p *playing) {
			sse(p)
			p.say(content + ": comment\r\n\r\n" + content)
		}},
		{"an error within the stream", "upstream_failed", 200, 1, func(p *playing) {
			sse(p)
			p.say(content + "data: {\"error\":{\"message\":\"no\",\"code\":\"upstream_failed\"}}\n\n")
		}},
		{"silence", CodeTimeout, 0, 0, func(p *playing) { p.wait(time.Hour) }},
		{"silence in a stream", CodeTimeout, 200, 1, func(p *playing) {
			sse(p)
			p.say(content)
			p.wait(time.Hour)
		}},
		{"an end that lasts", "", 200, 1, func(p *playing) {
			sse(p)
			p.say(content + "data: [DONE]\n\n")
			p.wait(time.Hour)
		}},
		{"other kinds of content", "", 200, 4, func(p *playing) {
			sse(p)
			for _, delta := range []string{`"reasoning_content":"a"`, `"reasoning":"a"`, `"tool_calls":[{"index":0}]`, `"content":"a"`, `"tool_calls":[]`, `"content":null`} {
				p.say("data: {\"choices\":[{\"delta\":{%s}}]}\n\n", delta)
			}
			p.say("data: [DONE]\n\n")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, records, sum := play(t, steady(t, 1, workload.Arrivals{}), Options{Timeout: 30 * time.Second}, func(_ int, p *playing) { c.plays(p) })
			r := records[1]
			if r.Code != c.code || r.Status != c.status || r.OutputTokens != c.tokens || r.Sent != time.Second {
				t.Errorf("got %+v, want code %q, status %d and %d tokens", r, c.code, c.status, c.tokens)
			}
			if (sum.OK == 1) != (c.code == "") || r.OK() != (c.code == "") {
				t.Errorf("summary %+v", sum)
			}
			if c.code == CodeTimeout && r.Ended != 31*time.Second {
				t.Errorf("timed out at %v, want 31s", r.Ended)
			}
			if c.code == "" && r.Ended != time.Second {
				t.Errorf("ended at %v, want 1s", r.Ended)
			}
		})
	}
}

func TestWhatIsSent(t *testing.T) {
	list := []workload.Request{
		{ID: 1, Model: "m", Tenant: "acme", PromptTokens: 20, OutputTokens: 7, Session: 0xab, Priority: -10},
		{ID: 2, Model: "m", Adapter: "lora", Tenant: "globex", Region: "eu", PromptTokens: 20, OutputTokens: 7},
		{ID: 3, PromptTokens: 33, OutputTokens: 1, Blocks: []uint64{1, 2}},
	}
	for _, api := range []API{Chat, Completions} {
		to, records, _ := play(t, &listed{list: slices.Clone(list)}, Options{
			API: api, Key: "common", Keys: map[fleet.TenantID]string{"acme": "acme-key"}, Model: "default", IgnoreEOS: true, Priority: true,
			URLs: map[fleet.RegionID]string{"eu": "https://eu/base/"},
		}, func(_ int, p *playing) { p.answer(0, 0, 1, 0) })
		if len(records) != 3 {
			t.Fatalf("%d records", len(records))
		}
		for i, q := range to.seen {
			var body struct {
				Model         string
				Prompt        string
				Messages      []struct{ Role, Content string }
				MaxTokens     int  `json:"max_tokens"`
				MinTokens     int  `json:"min_tokens"`
				IgnoreEOS     bool `json:"ignore_eos"`
				Stream        bool
				StreamOptions struct {
					IncludeUsage bool `json:"include_usage"`
				} `json:"stream_options"`
			}
			d := json.NewDecoder(strings.NewReader(to.body[i]))
			d.DisallowUnknownFields()
			if err := d.Decode(&body); err != nil {
				t.Fatal(err)
			}
			// Requests at one time arrive in any order.
			at := slices.IndexFunc(list, func(r workload.Request) bool { return strings.Contains(to.body[i], string(workload.Text(r))) })
			if at < 0 {
				t.Fatalf("a body is nobody's: %s", to.body[i])
			}
			want := list[at]
			model := []string{"m", "lora", "default"}[at]
			if body.Model != model || body.MaxTokens != want.OutputTokens || body.MinTokens != want.OutputTokens || !body.IgnoreEOS || !body.Stream || !body.StreamOptions.IncludeUsage {
				t.Errorf("body %+v of %+v", body, want)
			}
			path, text := "/v1/completions", body.Prompt
			if api == Chat {
				path, text = "/v1/chat/completions", body.Messages[0].Content
			}
			if text != string(workload.Text(want)) {
				t.Errorf("%s sends another text", api)
			}
			place := []string{"http://router", "https://eu/base", "http://router"}[at]
			key := []string{"Bearer acme-key", "Bearer common", "Bearer common"}[at]
			session := []string{"ab", "", ""}[at]
			if q.URL.String() != place+path || q.Header.Get("Authorization") != key || q.Header.Get("X-Anabranch-Session") != session ||
				q.Header.Get("X-Anabranch-Priority") != fmt.Sprint(want.Priority) {
				t.Errorf("request to %s with %v", q.URL, q.Header)
			}
		}
	}
}

func TestPlainAPIsGetNoExtras(t *testing.T) {
	to, _, _ := play(t, steady(t, 1, workload.Arrivals{}), Options{}, func(_ int, p *playing) { p.answer(0, 0, 1, 0) })
	for _, extra := range []string{"ignore_eos", "min_tokens"} {
		if strings.Contains(to.body[0], extra) {
			t.Errorf("%s is sent", extra)
		}
	}
	for _, h := range []string{"Authorization", "X-Anabranch-Session", "X-Anabranch-Priority"} {
		if to.seen[0].Header.Get(h) != "" {
			t.Errorf("%s is sent", h)
		}
	}
}

// listed is a source of given requests that can't peek.
type listed struct{ list []workload.Request }

func (l *listed) Next() (workload.Request, bool) {
	if len(l.list) == 0 {
		return workload.Request{}, false
	}
	r := l.list[0]
	l.list = l.list[1:]
	return r, true
}
func (*listed) Done(uint64, time.Duration, bool) {}
func (l *listed) Ended() bool                    { return len(l.list) == 0 }

func TestStoppingCutsOffWhatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer stop()
		to := &target{plays: func(_ int, p *playing) { p.answer(time.Second, time.Second, 2, 0) }}
		var codes []string
		sum, err := Run(ctx, steady(t, 100, workload.Arrivals{}), Options{URL: "http://router", Transport: to}, func(r Record) { codes = append(codes, r.Code) })
		if !errors.Is(err, context.DeadlineExceeded) || sum.Sent != 3 || sum.OK != 1 {
			t.Errorf("summary %+v, error %v", sum, err)
		}
		if want := []string{"", CodeCanceled, CodeCanceled}; !slices.Equal(codes, want) {
			t.Errorf("codes %q, want %q", codes, want)
		}
	})
}

func TestErrorsOfSourceAndOptions(t *testing.T) {
	trace, err := workload.Mooncake(strings.NewReader(`{"timestamp": 0, "input_length": 5, "output_length": 5}`+"\nx\n"), workload.TraceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		source workload.Source
		opts   Options
		says   string
		sent   int
	}{
		{"a broken trace", trace, Options{URL: "http://a", Model: "m"}, "replay: Mooncake trace, line 2", 1},
		{"no model", &listed{[]workload.Request{{ID: 5, PromptTokens: 1, OutputTokens: 1}}}, Options{URL: "http://a"}, "request 5 names no model", 0},
		{"no target", &listed{[]workload.Request{{ID: 5, Region: "us", Model: "m"}}}, Options{URLs: map[fleet.RegionID]string{"eu": "http://a"}}, `region "us", which has no target`, 0},
		{"no url", nil, Options{}, "url: is empty", 0},
		{"a url with a secret", nil, Options{URL: "http://user:secret@a"}, "url: is not", 0},
		{"a path", nil, Options{URL: "a/b"}, "url: is not", 0},
		{"a region's url", nil, Options{URLs: map[fleet.RegionID]string{"eu": "ftp://a"}}, "urls[eu]: is not", 0},
		{"another api", nil, Options{URL: "http://a", API: "soap"}, `api: is "soap"`, 0},
		{"speed", nil, Options{URL: "http://a", Speedup: -1}, "speedup: is -1", 0},
		{"a bound", nil, Options{URL: "http://a", InFlight: -1}, "inFlight: is -1", 0},
		{"a time-out", nil, Options{URL: "http://a", Timeout: 1}, "timeout: is 1ns", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.opts.Transport = &target{plays: func(_ int, p *playing) { p.answer(0, 0, 1, 0) }}
				sum, err := Run(t.Context(), c.source, c.opts, nil)
				if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") || sum.Sent != c.sent {
					t.Errorf("summary %+v, error %v, want one that says %q", sum, err, c.says)
				}
			})
		})
	}
}

func FuzzReadStream(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"text\":\"a\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":-1}}\n\ndata: [DONE]\n"))
	f.Add([]byte("event: x\r\ndata:{\"error\":{\"code\":{\"a\":1}}}\r\n"))
	f.Add([]byte("data: null\ndata: []\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var rec Record
		clock := time.Duration(0)
		code := readStream(bytes.NewReader(text), &rec, func() time.Duration { clock++; return clock })
		if code == "" && !bytes.Contains(text, []byte("[DONE]")) {
			t.Error("whole without an end")
		}
		if word(code) != code && code != "" {
			t.Errorf("code %q", code)
		}
		if rec.OutputTokens < 0 || rec.CachedTokens < 0 || rec.PromptTokens < 0 || rec.First > rec.Last {
			t.Errorf("record %+v", rec)
		}
	})
}
