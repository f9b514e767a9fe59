package dataplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// The far end of the benchmarks is a process of its own, with the clients and the model servers, so
// that what this process uses is what stands between them, and nothing else.

// farEnv in the environment makes the test binary the far end.
const farEnv = "ANABRANCH_BENCH_FAR_END"

func TestMain(m *testing.M) {
	if os.Getenv(farEnv) == "" {
		os.Exit(m.Run())
	}
	if err := farEnd(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "far end:", err)
		os.Exit(1)
	}
}

// farPlaces is how many model servers the far end has.
const farPlaces = 8

// order is what the far end is told to do: load (send N requests, Workers at a time), pace (send N
// requests, Rate of them a second), hold (open N streams and keep them open) or release (end those).
type order struct {
	Do, URL, Answer string
	N, Workers      int
	Rate            float64
}

// outcome is how that went.
type outcome struct {
	Err  string
	Took time.Duration
	// Latencies of the requests, from sending to the end of the answer. Only of pace.
	Latencies []time.Duration
	// Failed is how many of pace's requests got no answer.
	Failed int
}

// far is the far end as the benchmarks see it.
type far struct {
	b      *testing.B
	places []*url.URL
	in     *json.Encoder
	out    *json.Decoder
}

func newFar(b *testing.B) *far {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), self)
	cmd.Env = append(os.Environ(), farEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close() // which ends it
		_ = cmd.Wait()
	})
	f := &far{b: b, in: json.NewEncoder(in), out: json.NewDecoder(out)}
	var places []string
	if err := f.out.Decode(&places); err != nil {
		b.Fatal(err)
	}
	for _, p := range places {
		u, err := url.Parse(p)
		if err != nil {
			b.Fatal(err)
		}
		f.places = append(f.places, u)
	}
	return f
}

// does lets the far end do something, and waits for it.
func (f *far) does(o order) outcome {
	f.b.Helper()
	if err := f.in.Encode(o); err != nil {
		f.b.Fatal(err)
	}
	var done outcome
	if err := f.out.Decode(&done); err != nil {
		f.b.Fatal(err)
	}
	if done.Err != "" {
		f.b.Fatal(done.Err)
	}
	return done
}

// farEnd starts the model servers, says where they are, and obeys orders until there are no more.
func farEnd(in io.Reader, out io.Writer) error {
	m := &farModels{ended: make(chan struct{})}
	var places []string
	for range farPlaces {
		s := httptest.NewServer(http.HandlerFunc(m.serve))
		defer s.Close()
		places = append(places, s.URL)
	}
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	if err := answers.Encode(places); err != nil {
		return err
	}
	clients := &farClients{http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}}}
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		done, err := clients.obey(o, m)
		if err != nil {
			done.Err = err.Error()
		}
		if err := answers.Encode(done); err != nil {
			return err
		}
	}
}

// farModels are the model servers. A request says in a header how it wants to be answered.
type farModels struct {
	mu    sync.Mutex    // guards ended
	ended chan struct{} // closed to end the answers that are held open
}

// farAnswer is the header, with one of: whole (a JSON object), stream (66 events, one after another),
// paced (66 events, one every paceStep) and held (two events, and no more until they are released).
const farAnswer = "Bench-Answer"

const paceStep = 2 * time.Millisecond

var (
	farWhole = `{"id":"chatcmpl-1","object":"chat.completion","created":1764400000,"model":"llama","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat(" word", 62) + `"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":900,"total_tokens":962,"completion_tokens":62}}`
	farEvents = farStream()
)

// farStream is what vLLM sends: a role, 62 words, the reason for the end, usage and the end.
func farStream() []string {
	event := func(delta, reason string) string {
		return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764400000,"model":"llama","choices":[{"index":0,"delta":{` +
			delta + `},"logprobs":null,"finish_reason":` + reason + `}]}` + "\n\n"
	}
	events := []string{event(`"role":"assistant","content":""`, "null")}
	for range 62 {
		events = append(events, event(`"content":" word"`, "null"))
	}
	return append(
		events, event("", `"stop"`),
		`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764400000,"model":"llama","choices":[],"usage":{"prompt_tokens":900,"total_tokens":962,"completion_tokens":62}}`+"\n\n",
		"data: [DONE]\n\n",
	)
}

func (m *farModels) serve(w http.ResponseWriter, q *http.Request) {
	_, _ = io.Copy(io.Discard, q.Body)
	kind := q.Header.Get(farAnswer)
	switch {
	case q.URL.Path == "/metrics":
		// As TensorRT-LLM has it, which says how large its batch may get.
		_, _ = io.WriteString(w, "trtllm_num_requests_waiting 0\ntrtllm_num_requests_running 0\ntrtllm_kv_cache_utilization 0.1\ntrtllm_max_num_active_requests 4096\n")
	case kind == "" || kind == "whole":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, farWhole)
	case kind == "stream":
		send(w, farEvents...)
	case kind == "paced":
		tick := time.NewTicker(paceStep)
		defer tick.Stop()
		for _, e := range farEvents {
			send(w, e)
			<-tick.C
		}
	case kind == "held":
		m.mu.Lock()
		ended := m.ended
		m.mu.Unlock()
		send(w, farEvents[0], farEvents[1])
		select {
		case <-ended:
		case <-q.Context().Done():
		}
		send(w, farEvents[2:]...)
	}
}
