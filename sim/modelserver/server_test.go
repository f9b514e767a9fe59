package modelserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
)

// TestMain fails the run if a goroutine of the package outlives the tests.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := leftOver(5 * time.Second); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines are left:\n%s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

// leftOver is the stacks of goroutines that run our code and don't end within the time.
func leftOver(within time.Duration) string {
	var left []string
	for end := time.Now().Add(within); time.Now().Before(end); runtime.Gosched() {
		buf := make([]byte, 4<<20)
		left = left[:0]
		for i, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if i > 0 && (strings.Contains(g, "anabranch/sim") || strings.Contains(g, "net/http.(*Server)")) {
				left = append(left, g)
			}
		}
		if len(left) == 0 {
			return ""
		}
	}
	return strings.Join(left, "\n\n")
}

// fixture is a running server and a client for it.
type fixture struct {
	*Server
	t      *testing.T
	client *http.Client
}

var twoPods = Options{
	Cluster:   "test",
	Endpoints: []Endpoint{{ID: "a", Listen: "127.0.0.1:0", Class: "h100"}, {ID: "b", Listen: "127.0.0.1:0", Class: "a100-80"}},
	Models:    []Model{{Name: "llama-3.1-8b", Adapters: []fleet.ModelID{"support-lora", "legal-lora"}}},
	Admin:     "127.0.0.1:0",
	TimeScale: 0.02,
}

func start(t *testing.T, opts Options) *fixture {
	t.Helper()
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	transport := &http.Transport{}
	t.Cleanup(func() {
		cancel()
		transport.CloseIdleConnections()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("run: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the server does not stop")
		}
	})
	return &fixture{s, t, &http.Client{Transport: transport, Timeout: 20 * time.Second}}
}

func (f *fixture) url(id fleet.EndpointID, path string) string {
	return "http://" + f.Addrs()[id] + path
}

// send posts a body; the caller closes the answer's.
func (f *fixture) send(ctx context.Context, path, body string, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url("a", path), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return f.client.Do(req)
}

// post gives status and body of an answer.
func (f *fixture) post(path, body string, headers ...string) (int, string) {
	f.t.Helper()
	resp, err := f.send(f.t.Context(), path, body, headers...)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp.StatusCode, readAll(f.t, resp)
}

func (f *fixture) get(url string) (int, string) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		f.t.Fatal(err)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	return resp.StatusCode, readAll(f.t, resp)
}

func readAll(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func (f *fixture) inject(id fleet.EndpointID, fault Fault) {
	f.t.Helper()
	if err := f.Inject(id, fault); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) heal(id fleet.EndpointID, k FaultKind) {
	f.t.Helper()
	if err := f.Heal(f.t.Context(), id, k); err != nil {
		f.t.Fatal(err)
	}
}

// status of one endpoint.
func (f *fixture) status(id fleet.EndpointID) EndpointStatus {
	f.t.Helper()
	for _, e := range f.Status(maxRecords).Endpoints {
		if e.ID == id {
			return e
		}
	}
	f.t.Fatalf("no endpoint %s", id)
	return EndpointStatus{}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(10 * time.Second); !ok(); {
		select {
		case <-end:
			t.Fatalf("not within 10 s: %s", what)
		case <-tick.C:
		}
	}
}

// chunk is one server-sent event, decoded.
type chunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Model   string `json:"model"`
	Choices []struct {
		Text  string `json:"text"`
		Delta struct {
			Role    string  `json:"role"`
			Content *string `json:"content"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage `json:"usage"`
	at    time.Time
}

// readStream reads events until the end, which is an error unless done.
func readStream(body io.Reader) (chunks []chunk, done bool, err error) {
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case lines.Text() == "":
			continue
		case !ok:
			return chunks, false, fmt.Errorf("line %q", lines.Text())
		case data == "[DONE]":
			done = true
			continue
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			return chunks, false, err
		}
		c.at = time.Now()
		chunks = append(chunks, c)
	}
	return chunks, done, lines.Err()
}

// stream posts and reads a stream that must be whole.
func (f *fixture) stream(path, body string) []chunk {
	f.t.Helper()
	resp, err := f.send(f.t.Context(), path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(ct, "text/event-stream") {
		f.t.Fatalf("status %d, type %q", resp.StatusCode, ct)
	}
	chunks, done, err := readStream(resp.Body)
	if err != nil || !done {
		f.t.Fatalf("the stream ended after %d chunks, done %v: %v", len(chunks), done, err)
	}
	return chunks
}

// content is the text of a stream and its number of content chunks.
func content(chunks []chunk) (string, int) {
	var b strings.Builder
	n := 0
	for _, c := range chunks {
		for _, ch := range c.Choices {
			if ch.Text != "" {
				b.WriteString(ch.Text)
				n++
			}
			if ch.Delta.Content != nil && *ch.Delta.Content != "" {
				b.WriteString(*ch.Delta.Content)
				n++
			}
		}
	}
	return b.String(), n
}

// chat is a body for chat completions.
func chat(model, text, more string) string {
	q, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%s}]%s}`, model, q, more)
}
