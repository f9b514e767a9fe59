package failover

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"anabranch/cmd/anabranch/dev/seed"
)

// tenants is the HTTP client of applications.
var tenants = &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 128, IdleConnTimeout: 20 * time.Second}}

// answer is what an application got.
type answer struct {
	status       int
	code         string // of an error, before or within the answer; empty: none
	err          error  // of the connection
	id, region   string
	attempts     int
	text         string
	began        time.Time
	first, ended time.Time // first is the zero time where no content came
	stream       bool
	done         bool // it was told that this is all
	failed       bool // it ended with a well-formed error event, and nothing came after it
	tenant, door string
	prompt       int
}

// body of a request.
func body(prompt string, tokens int, stream bool) string {
	text, err := json.Marshal(map[string]any{
		"model": seed.SmallModel, "stream": stream, "max_tokens": tokens,
		"messages": []map[string]string{{"role": "user", "content": prompt}},
	})
	if err != nil {
		panic(err) // strings and numbers only
	}
	return string(text)
}

// chunk is what is read of whole answers, events and errors alike.
type chunk struct {
	Choices []struct {
		Delta, Message struct{ Content string }
	}
	Error *struct {
		Message string
		Code    any
	}
}

func (c chunk) text() string {
	if len(c.Choices) == 0 {
		return ""
	}
	return c.Choices[0].Delta.Content + c.Choices[0].Message.Content
}

// ask makes one request of a router.
func ask(ctx context.Context, front, key, body string) (a answer) {
	a.began = time.Now()
	defer func() { a.ended = time.Now() }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, front+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		a.err = err
		return a
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := tenants.Do(req)
	if err != nil {
		a.err = err
		return a
	}
	defer resp.Body.Close()
	a.status = resp.StatusCode
	a.id, a.region = resp.Header.Get("x-anabranch-request-id"), resp.Header.Get("x-anabranch-region")
	a.attempts, _ = strconv.Atoi(resp.Header.Get("x-anabranch-attempts")) // 0: not said
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		a.events(resp.Body)
		return a
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var c chunk
	if a.err = errors.Join(err, json.Unmarshal(text, &c)); a.err != nil {
		return a
	}
	a.text, a.first, a.done = c.text(), time.Now(), c.Error == nil
	if c.Error != nil {
		a.code, a.text, a.first = fmt.Sprint(c.Error.Code), "", time.Time{}
	}
	return a
}

// events reads a stream to its end.
func (a *answer) events(from io.Reader) {
	a.stream = true
	var text strings.Builder
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		a.failed = false // whatever comes after an error makes it not the end
		if data == "[DONE]" {
			a.done = true
			continue
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			a.err = fmt.Errorf("event %.100q: %w", data, err)
			return
		}
		if c.Error != nil {
			a.code, a.failed = fmt.Sprint(c.Error.Code), c.Error.Message != ""
		}
		if c.text() != "" && text.Len() == 0 {
			a.first = time.Now()
		}
		text.WriteString(c.text())
	}
	a.text = text.String()
	// Behind an error event the connection is cut, lest the end looks clean.
	if err := lines.Err(); !a.failed {
		a.err = err
	}
}
