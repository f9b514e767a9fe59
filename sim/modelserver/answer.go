package modelserver

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"time"

	"anabranch/sim"
)

// answer is one reply on its way.
type answer struct {
	generation
	call    *call
	id      string
	created int64
}

// usage is what a reply cost, in vLLM's shape with prompt token details on.
type usage struct {
	PromptTokens     int           `json:"prompt_tokens"`
	TotalTokens      int           `json:"total_tokens"`
	CompletionTokens int           `json:"completion_tokens"`
	Details          *usageDetails `json:"prompt_tokens_details"`
}

type usageDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

func (a *answer) usage(p progress) usage {
	n := a.request.PromptTokens
	return usage{n, n + p.generated, p.generated, &usageDetails{p.cached}}
}

// object is the type of the whole reply or of its chunks.
func (a *answer) object(chunk bool) string {
	switch {
	case a.api == completionAPI:
		return "text_completion"
	case chunk:
		return "chat.completion.chunk"
	default:
		return "chat.completion"
	}
}

// envelope is what chunks and whole replies have in common.
type envelope struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []any  `json:"choices"`
	Usage   *usage `json:"usage,omitempty"`
}

func (a *answer) envelope(chunk bool, choices ...any) envelope {
	if choices == nil {
		choices = []any{}
	}
	return envelope{ID: a.id, Object: a.object(chunk), Created: a.created, Model: a.model, Choices: choices}
}

type message struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content"`
}

type chatChoice struct {
	Index        int         `json:"index"`
	Message      *message    `json:"message,omitempty"`
	Delta        *message    `json:"delta,omitempty"`
	Logprobs     *struct{}   `json:"logprobs"`
	FinishReason *sim.Reason `json:"finish_reason"`
}

type textChoice struct {
	Index        int         `json:"index"`
	Text         string      `json:"text"`
	Logprobs     *struct{}   `json:"logprobs"`
	FinishReason *sim.Reason `json:"finish_reason"`
}

// whole waits for the end and answers in one piece.
func (a *answer) whole(ctx context.Context, w http.ResponseWriter, v verdict) Outcome {
	p, err := a.runner.wait(ctx, a.call, math.MaxInt)
	if err != nil {
		return Aborted
	}
	if v.cut {
		reset(w)
		return Failed
	}
	u := a.usage(p)
	switch a.api {
	case embeddingAPI:
		u.CompletionTokens, u.TotalTokens = 0, u.PromptTokens
		writeJSON(w, http.StatusOK, map[string]any{
			"id": a.id, "object": "list", "created": a.created, "model": a.model, "usage": u,
			"data": []any{map[string]any{"index": 0, "object": "embedding", "embedding": a.embedding()}},
		})
	case completionAPI:
		body := a.envelope(false, textChoice{Text: answerText(a.seed, p.generated), FinishReason: &p.reason})
		body.Usage = &u
		writeJSON(w, http.StatusOK, body)
	default:
		body := a.envelope(false, chatChoice{
			Message: &message{"assistant", answerText(a.seed, p.generated)}, FinishReason: &p.reason,
		})
		body.Usage = &u
		writeJSON(w, http.StatusOK, body)
	}
	return Completed
}

// embedding is a unit vector that depends on the prompt alone.
func (a *answer) embedding() []float64 {
	v := make([]float64, a.vector)
	x, sum := a.seed|1, 0.0
	for i := range v {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		v[i] = float64(int64(x)) / math.MaxInt64
		sum += v[i] * v[i]
	}
	for i := range v {
		v[i] /= math.Sqrt(sum)
	}
	return v
}

// stream sends tokens as they come: the role with the first, the reason and the usage after the
// last. The status goes out at once, as vLLM's does, so that it says nothing of the model yet.
func (a *answer) stream(ctx context.Context, w http.ResponseWriter, v verdict) Outcome {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	s := &eventStream{w: w, rc: http.NewResponseController(w)}
	s.flush()
	sent, roleSent := 0, false
	for {
		p, err := a.runner.wait(ctx, a.call, sent)
		if err != nil {
			return Aborted
		}
		if !roleSent && a.api == chatAPI {
			s.event(a.envelope(true, chatChoice{Delta: &message{Role: "assistant"}}))
		}
		roleSent = true
		for ; sent < p.generated; sent++ {
			if v.cut && sent >= v.cutAfter {
				break
			}
			s.event(a.piece(tokenText(a.seed, sent)))
		}
		if v.cut && (p.done || sent >= v.cutAfter) {
			s.flush()
			reset(w)
			return Failed
		}
		if p.done {
			a.finish(s, p)
		}
		switch s.flush(); {
		case s.err != nil:
			return Aborted
		case p.done:
			return Completed
		}
	}
}

// piece is a chunk of content.
func (a *answer) piece(text string) envelope {
	if a.api == completionAPI {
		return a.envelope(true, textChoice{Text: text})
	}
	return a.envelope(true, chatChoice{Delta: &message{Content: text}})
}

func (a *answer) finish(s *eventStream, p progress) {
	if a.api == completionAPI {
		s.event(a.envelope(true, textChoice{FinishReason: &p.reason}))
	} else {
		s.event(a.envelope(true, chatChoice{Delta: &message{}, FinishReason: &p.reason}))
	}
	if a.wantUsage {
		last := a.envelope(true)
		u := a.usage(p)
		last.Usage = &u
		s.event(last)
	}
	s.write([]byte("data: [DONE]\n\n"))
}

// eventStream writes server-sent events and remembers the first error.
type eventStream struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	err error
}

func (s *eventStream) event(v any) {
	body, err := json.Marshal(v)
	if err != nil {
		s.err = err
		return
	}
	s.write(append(append([]byte("data: "), body...), "\n\n"...))
}

func (s *eventStream) write(b []byte) {
	if s.err == nil {
		_, s.err = s.w.Write(b)
	}
}

func (s *eventStream) flush() {
	if s.err != nil {
		return
	}
	// Not every writer has a deadline; then the connection's own end has to do.
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	s.err = s.rc.Flush()
}
