package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// errReset is how the fake places of these tests break.
var errReset = errors.New("connection reset by peer")

// canned is a place without sockets: it makes an answer to each request.
type canned func(*http.Request) (*http.Response, error)

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) { return c(r) }

// pieces is a body that comes in the pieces given, and then ends with err.
type pieces struct {
	rest [][]byte
	err  error
}

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.rest) > 0 && len(p.rest[0]) == 0 {
		p.rest = p.rest[1:]
	}
	if len(p.rest) == 0 {
		return 0, p.err
	}
	n := copy(b, p.rest[0])
	p.rest[0] = p.rest[0][n:]
	return n, nil
}

func (p *pieces) Close() error { return nil }

// streamed is the answer of a place that streams pieces and ends with err, io.EOF for a regular end.
func streamed(err error, parts ...string) *http.Response {
	p := &pieces{err: err}
	for _, part := range parts {
		p.rest = append(p.rest, []byte(part))
	}
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ContentLength: -1, TransferEncoding: []string{"chunked"},
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: p,
	}
}

// plain is an answer that is not streamed.
func plain(status int, header http.Header, body string) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}}
	for k, v := range header {
		h[k] = v
	}
	return &http.Response{
		StatusCode: status, ProtoMajor: 1, ContentLength: int64(len(body)), Header: h,
		Body: io.NopCloser(strings.NewReader(body)),
	}
}

// once is a place that gives one answer.
func once(answer *http.Response) canned {
	return func(*http.Request) (*http.Response, error) { return answer, nil }
}

var nowhere = &url.URL{Scheme: "http", Host: "place", Path: "/v1/chat/completions"}

// try is an attempt at a place without sockets.
func try(place http.RoundTripper) *Attempt {
	return &Attempt{URL: nowhere, Body: []byte("{}"), Transport: place, FirstByte: time.Minute}
}

// heardBy is what a client that keeps to the standard hears of a stream: the data of each event. It
// is the slow and obvious way, and takes a last event without its empty line too, as the relay does.
func heardBy(stream []byte) []string {
	text := strings.TrimPrefix(string(stream), "\xef\xbb\xbf")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	text = text[:strings.LastIndex(text, "\n")+1] // no half lines
	var events []string
	for block := range strings.SplitSeq(text, "\n\n") {
		var data []string
		for line := range strings.SplitSeq(block, "\n") {
			if name, value, _ := strings.Cut(line, ":"); name == "data" {
				data = append(data, strings.TrimPrefix(value, " "))
			}
		}
		if data != nil {
			events = append(events, strings.Join(data, "\n"))
		}
	}
	return events
}

// chunk is a chunk of a chat completion as its client reads it.
type chunk struct {
	ID      string `json:"id"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Delta struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Total      int64 `json:"total_tokens"`
		Details    *struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error *struct {
		Code string `json:"code"`
	} `json:"error"`
}

// name is what all chunks of an answer share.
type name struct {
	id      string
	created int64
	model   string
}

// chat is what a client makes of a stream of chat completion chunks.
type chat struct {
	text                string
	roles, ends, dones  int
	errors              []string
	usages              []chunk
	names               map[name]bool
	finishReason, order string
	data                []string
}

// reporter is a test, or a run of a property.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

func readChat(t reporter, stream []byte) chat {
	t.Helper()
	c := chat{names: map[name]bool{}, data: heardBy(stream)}
	for _, data := range c.data {
		if data == "[DONE]" {
			c.dones++
			c.order += "D"
			continue
		}
		var got chunk
		if err := json.Unmarshal([]byte(data), &got); err != nil {
			t.Errorf("chunk %q: %v", data, err)
			continue
		}
		switch {
		case got.Error != nil:
			c.errors = append(c.errors, got.Error.Code)
			c.order += "E"
			continue
		case got.Usage != nil && len(got.Choices) == 0:
			c.usages = append(c.usages, got)
			c.order += "U"
		}
		for _, choice := range got.Choices {
			if choice.Delta.Role != "" {
				c.roles++
			}
			c.text += choice.Delta.Content
			if choice.FinishReason != nil {
				c.ends++
				c.finishReason = *choice.FinishReason
			}
		}
		c.names[name{got.ID, got.Created, got.Model}] = true
	}
	return c
}

// cutAt splits b into pieces whose lengths are in at, over and over.
func cutAt(b, at []byte) [][]byte {
	var out [][]byte
	for i := 0; len(b) > 0; i++ {
		n := len(b)
		if len(at) > 0 {
			n = min(n, int(at[i%len(at)])+1)
		}
		out = append(out, bytes.Clone(b[:n]))
		b = b[n:]
	}
	return out
}
