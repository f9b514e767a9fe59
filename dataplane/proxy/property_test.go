package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/dataplane/inference"
	"anabranch/failover"
)

// script is what the place does with the next request: pieces of a stream, each flushed, and then a
// regular end or a cut.
type script struct {
	pieces []string
	cut    bool
}

// expected is an obvious model of the relay: it has the whole stream before it.
type expected struct {
	text      string // of whole events passed on, without the error event
	committed bool
	broken    bool
}

func model(s script, keepUsage bool) expected {
	var e expected
	whole := strings.Join(s.pieces, "")
	held := ""
	doneSeen, finished := false, false
	for whole != "" {
		event, rest, ok := strings.Cut(whole, "\n\n")
		if !ok {
			break // half an event
		}
		event, whole = event+"\n\n", rest
		frame := inference.Frame{}
		if data, ok := strings.CutPrefix(strings.TrimSpace(event), "data: "); ok {
			frame = inference.Classify([]byte(data))
		}
		finished = finished || frame.FinishReason
		switch frame.Kind {
		case inference.Lifecycle, inference.Role, inference.UsageOnly:
			if !frame.UsageOnly || keepUsage {
				held += event
			}
			if e.committed {
				e.text, held = e.text+held, ""
			}
			continue
		case inference.Error:
			e.broken = e.committed
			return e
		case inference.Done:
			doneSeen = true
		}
		e.committed = true
		e.text, held = e.text+held, ""
		e.text += event
	}
	e.broken = e.committed && !doneSeen && (s.cut || !finished)
	return e
}

// Whatever a place sends, in whatever pieces, and wherever it breaks off: the client gets whole
// events, each once and in order, and a break is followed by one error event and no regular end.
func TestEveryStreamIsWholeOrEndsWithAnError(t *testing.T) {
	var mu sync.Mutex
	var next script
	place := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		s := next
		mu.Unlock()
		send(w, s.pieces...)
		if s.cut {
			w.(http.Flusher).Flush()
			cut()
		}
	}))
	defer place.Close()
	target, err := url.Parse(place.URL + "/v1/chat/completions")
	if err != nil {
		t.Fatal(err)
	}
	relay := New(Options{})
	defer relay.Close()
	vocabulary := []string{
		role, content, content, content, finish, counted, done, ": comment\n\n",
		`data: {"error":{"message":"gave up"}}` + "\n\n", "event: ping\ndata: {\"type\":\"ping\"}\n\n",
	}
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for _, event := range rapid.SliceOfN(rapid.SampledFrom(vocabulary), 1, 12).Draw(t, "events") {
			text.WriteString(event)
			if event == done {
				break // nothing comes after it
			}
		}
		sent := text.String()
		s := script{cut: rapid.Bool().Draw(t, "cut")}
		if s.cut {
			sent = sent[:rapid.IntRange(0, len(sent)).Draw(t, "at")]
		}
		for sent != "" {
			n := rapid.IntRange(1, len(sent)).Draw(t, "piece")
			s.pieces, sent = append(s.pieces, sent[:n]), sent[n:]
		}
		keep := rapid.Bool().Draw(t, "keep usage")
		mu.Lock()
		next = s
		mu.Unlock()
		w := httptest.NewRecorder()
		r := relay.Do(t.Context(), w, &Attempt{URL: target, Body: []byte("{}"), FirstByte: 10 * time.Second, KeepUsage: keep})

		want := model(s, keep)
		got := w.Body.String()
		if r.Committed != want.committed || r.Broken != want.broken {
			t.Fatalf("committed %v, broken %v; want %+v of %+v", r.Committed, r.Broken, want, s)
		}
		last := ""
		if want.broken {
			if r.Err == nil {
				t.Fatalf("broken for no reason: %+v", r)
			}
			last = string(r.Err.Event())
		}
		if got != want.text+last {
			t.Fatalf("got  %q\nwant %q\nof   %+v", got, want.text+last, s)
		}
		switch {
		case !r.Committed && !r.Retryable:
			t.Fatalf("nothing was sent and it can't be tried elsewhere: %+v", r)
		case r.Committed && !r.Broken && r.Outcome != failover.OK:
			t.Fatalf("whole, and outcome %d", r.Outcome)
		case r.Broken && r.Outcome != failover.ServerFault:
			t.Fatalf("broken, and outcome %d", r.Outcome)
		}
	})
}

// However a client's headers are spelt and whatever they hold, none that is ours, secret or hop by
// hop goes on, and what is set is what arrives.
func TestNoHeaderOfOursComesFromAClient(t *testing.T) {
	names := []string{
		"x-anabranch-tenant", "X-ANABRANCH-HOP", "x-Anabranch-Anything", "x-gateway-inference-objective", "X-Llm-D-Slo-Ttft-Ms",
		"x-prefiller-host-port", "X-Envoy-Retry-On", "authorization", "x-api-key", "cookie", "connection", "te", "x-mine", "content-type", "accept",
	}
	rapid.Check(t, func(t *rapid.T) {
		client := http.Header{}
		for _, name := range rapid.SliceOf(rapid.SampledFrom(names)).Draw(t, "names") {
			client.Add(name, rapid.StringMatching(`[a-zA-Z0-9 ,-]{0,20}`).Draw(t, "value"))
		}
		set := []Field{{HeaderFairness, "acme"}, {HeaderTenant, ""}}
		out := Outgoing(client, set)
		for key, values := range out {
			low := strings.ToLower(key)
			if key == HeaderFairness {
				if fmt.Sprint(values) != "[acme]" {
					t.Fatalf("%s is %v", key, values)
				}
				continue
			}
			for _, bad := range []string{"x-anabranch", "x-gateway", "x-llm-d", "x-prefiller", "x-envoy", "authorization", "api-key", "cookie", "connection"} {
				if strings.Contains(low, bad) {
					t.Fatalf("%s went on", key)
				}
			}
		}
		if out.Get(HeaderFairness) != "acme" {
			t.Fatal("what was set is not there")
		}
	})
}
