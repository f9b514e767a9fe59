package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// tenants is the HTTP client of applications.
var tenants = &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// answer is what an application got.
type answer struct {
	status int
	header http.Header
	body   string
	// For streams: the data of each event, and how it ended.
	events []string
	err    error
}

func (a answer) region() string   { return a.header.Get("x-anabranch-region") }
func (a answer) cluster() string  { return a.header.Get("x-anabranch-cluster") }
func (a answer) endpoint() string { return a.header.Get("x-anabranch-endpoint") }

// text puts the content of a streamed or whole chat answer together.
func (a answer) text() string {
	var b strings.Builder
	for _, doc := range append([]string{a.body}, a.events...) {
		var parsed struct {
			Choices []struct{ Delta, Message struct{ Content string } }
		}
		if json.Unmarshal([]byte(doc), &parsed) == nil && len(parsed.Choices) > 0 {
			b.WriteString(parsed.Choices[0].Delta.Content + parsed.Choices[0].Message.Content)
		}
	}
	return b.String()
}

// failure is the error object that the answer or the stream's last event holds; empty code: none.
func (a answer) failure() (f struct{ Message, Type, Code, Param, Origin string }) {
	doc := a.body
	if len(a.events) > 0 {
		doc = a.events[len(a.events)-1]
	}
	var parsed struct {
		Error *struct{ Message, Type, Code, Param, Origin string }
	}
	if json.Unmarshal([]byte(doc), &parsed) == nil && parsed.Error != nil {
		return *parsed.Error
	}
	return f
}

// whole says why a request was not answered fully and properly; nil: it was.
func (a answer) whole() error {
	switch {
	case a.err != nil:
		return a.err
	case a.status != http.StatusOK:
		return fmt.Errorf("status %d: %s", a.status, a.body)
	case a.failure().Message != "":
		return fmt.Errorf("stream ended with an error: %s", a.failure().Message)
	case len(a.events) > 0 && a.events[len(a.events)-1] != "[DONE]":
		return fmt.Errorf("stream ended after %d events without [DONE]", len(a.events))
	case a.text() == "":
		return fmt.Errorf("no content in %q %q", a.body, a.events)
	}
	return nil
}

// by says why an answer is not a whole one by the place that was wanted; nil: it is.
func (a answer) by(place, wanted string) error {
	if err := a.whole(); err != nil {
		return err
	}
	if place != wanted {
		return fmt.Errorf("answered by %q", place)
	}
	return nil
}

// chat is the body of a small chat completion.
func chat(model string, stream bool) map[string]any {
	return map[string]any{
		"model": model, "stream": stream, "max_tokens": 16,
		"messages": []map[string]string{{"role": "user", "content": "Where does an anabranch go?"}},
	}
}

// ask sends a request to the router of a region as a tenant.
func (s *System) ask(region, tenant string, body map[string]any) answer {
	return s.send(context.Background(), region, s.keys[tenant], body)
}

// send adds headers, names and values in turn.
func (s *System) send(ctx context.Context, region, key string, body map[string]any, header ...string) answer {
	text, err := json.Marshal(body)
	if err != nil {
		return answer{err: err}
	}
	return s.sendRaw(ctx, region, key, string(text), header...)
}

// sendRaw sends a body as it stands.
func (s *System) sendRaw(ctx context.Context, region, key, body string, header ...string) answer {
	return complete(ctx, s.routers[region].url(), key, body, header...)
}

// complete asks a router at a URL for a chat completion.
func complete(ctx context.Context, at, key, body string, header ...string) answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := tenants.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		whole, err := io.ReadAll(resp.Body)
		a.body, a.err = string(whole), err
		return a
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			a.events = append(a.events, data)
		}
	}
	a.err = lines.Err()
	return a
}
