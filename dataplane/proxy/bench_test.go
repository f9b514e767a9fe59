package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/failover"
)

// sixtySix are the events of a stream as vLLM sends it: a role, 62 words, finish, usage and the end.
func sixtySix() []string {
	words := make([]string, 62)
	for i := range words {
		words[i] = " word"
	}
	return tokens(1, words, 900, true)
}

// nowhereTo is a client that takes everything and keeps nothing.
type nowhereTo struct{ h http.Header }

func (n *nowhereTo) Header() http.Header         { return n.h }
func (n *nowhereTo) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhereTo) WriteHeader(int)             {}
func (n *nowhereTo) Flush()                      {}

// BenchmarkDo is what the relay itself takes, without sockets.
func BenchmarkDo(b *testing.B) {
	client := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer x"}, "User-Agent": {"bench"}, "Accept": {"*/*"}}
	for name, c := range map[string]struct {
		answer func() *http.Response
		keep   bool
		passed func(int64) (int64, *Error)
	}{
		"whole":  {func() *http.Response { return plain(200, nil, answer) }, false, nil},
		"stream": {func() *http.Response { return streamed(io.EOF, sixtySix()...) }, false, nil},
		"kept":   {func() *http.Response { return streamed(io.EOF, sixtySix()...) }, true, nil},
		// A stream that passes what is set aside for it three times.
		"topped up": {func() *http.Response { return streamed(io.EOF, sixtySix()...) }, false, func(n int64) (int64, *Error) { return n + 19, nil }},
		"in pieces": {func() *http.Response {
			r := streamed(io.EOF)
			r.Body = &pieces{rest: cutAt([]byte(strings.Join(sixtySix(), "")), []byte{99}), err: io.EOF}
			return r
		}, false, nil},
	} {
		b.Run(name, func(b *testing.B) {
			relay := New(Options{})
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				a := try(once(c.answer()))
				a.Client, a.Keep, a.Passed = client, c.keep, c.passed
				a.Set = []Field{{HeaderFairness, "acme"}, {HeaderObjective, "standard"}}
				w := &nowhereTo{http.Header{}}
				b.StartTimer()
				if r := relay.Do(b.Context(), w, a); r.Outcome != failover.OK {
					b.Fatalf("%+v", r)
				}
			}
		})
	}
}

// BenchmarkRelay sends through a front on real sockets, beside what net/http/httputil takes for the
// same.
func BenchmarkRelay(b *testing.B) {
	events := sixtySix()
	place := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/whole" {
			jsonBody(w, answer)
			return
		}
		send(w, events...)
	}))
	defer place.Close()
	base, err := url.Parse(place.URL)
	if err != nil {
		b.Fatal(err)
	}
	relay := New(Options{})
	defer relay.Close()
	bare := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(base) }, Transport: relay.places}
	fronts := map[string]http.HandlerFunc{
		"bare": bare.ServeHTTP,
		"relay": func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				b.Error(err)
			}
			if r := relay.Do(r.Context(), w, &Attempt{URL: &url.URL{Scheme: base.Scheme, Host: base.Host, Path: r.URL.Path}, Body: body, Client: r.Header, FirstByte: time.Minute}); r.Outcome != failover.OK {
				b.Errorf("%+v", r)
			}
		},
	}
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 500) + `"}]}`
	for _, path := range []string{"whole", "stream"} {
		for _, name := range []string{"bare", "relay"} {
			b.Run(path+"/"+name, func(b *testing.B) {
				front := httptest.NewServer(fronts[name])
				defer front.Close()
				client := front.Client()
				b.ReportAllocs()
				for b.Loop() {
					res, err := client.Post(front.URL+"/"+path, "application/json", strings.NewReader(body))
					if err != nil {
						b.Fatal(err)
					}
					if _, err := io.Copy(io.Discard, res.Body); err != nil {
						b.Fatal(err)
					}
					_ = res.Body.Close()
				}
			})
		}
	}
}

// BenchmarkOpenStreams is what the relay holds for each of a thousand streams that wait for their
// next token: memory of the heap and of stacks, without sockets.
func BenchmarkOpenStreams(b *testing.B) {
	const n = 1000
	for b.Loop() {
		relay := New(Options{})
		var before, after runtime.MemStats
		runtime.GC()
		runtime.GC() // what pools hold goes with the second
		runtime.ReadMemStats(&before)
		var begun, ended sync.WaitGroup
		release := make(chan struct{})
		begun.Add(n)
		for range n {
			ended.Go(func() {
				body := streamed(nil)
				body.Body = io.NopCloser(io.MultiReader(strings.NewReader(role+content), &held{begun.Done, release}))
				relay.Do(b.Context(), &nowhereTo{http.Header{}}, try(once(body)))
			})
		}
		begun.Wait()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "heap-B/stream")
		b.ReportMetric(float64(after.StackInuse-before.StackInuse)/n, "stack-B/stream")
		close(release)
		ended.Wait()
	}
}

// held is a body that says nothing more until it is released.
type held struct {
	reached func()
	release chan struct{}
}

func (h *held) Read([]byte) (int, error) {
	if h.reached != nil {
		h.reached()
		h.reached = nil
	}
	<-h.release
	return 0, io.EOF
}
