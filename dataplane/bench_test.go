package dataplane

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"anabranch/api/routerpb"
)

// BenchmarkRelay is a whole request over loopback, client and model server included, through the
// router and, in the same run, through a bare relay: a handler that sends the request on and copies
// the answer. The difference is the router's price. Compare with benchstat.
func BenchmarkRelay(b *testing.B) {
	events := strings.Repeat(content, 20) + finish + counted + done
	s := newStub(b, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Streams") != "" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, role)
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, events)
			return
		}
		answers(w, r)
	})
	w := newWorld(b, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, func(pb *routerpb.Table) {
		pb.Classes[0].FirstByteFloorMs = 60_000
	})
	target, err := url.Parse(s.URL)
	if err != nil {
		b.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}
	defer transport.CloseIdleConnections()
	bare := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		out := q.Clone(q.Context())
		out.URL.Scheme, out.URL.Host, out.RequestURI = target.Scheme, target.Host, ""
		answer, err := transport.RoundTrip(out)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		for k, v := range answer.Header {
			rw.Header()[k] = v
		}
		rw.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(rw, answer.Body)
	}))
	defer bare.Close()

	prompt := strings.Repeat("All work and no play makes Jack a dull boy. ", 90) // 4 KB, some 1,000 tokens
	for _, kind := range []struct{ name, body string }{
		{"whole", `{"model":"llama","messages":[{"role":"user","content":"` + prompt + `"}]}`},
		{"stream", `{"model":"llama","stream":true,"messages":[{"role":"user","content":"` + prompt + `"}]}`},
	} {
		for _, through := range []struct{ name, url string }{{"bare", bare.URL}, {"router", w.routers[us].front.URL}} {
			b.Run(through.name+"/"+kind.name, func(b *testing.B) {
				client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
				defer client.CloseIdleConnections()
				b.ReportAllocs()
				before := cpuTime(b)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						q, err := http.NewRequest(http.MethodPost, through.url+"/v1/chat/completions", bytes.NewReader([]byte(kind.body)))
						if err != nil {
							b.Fatal(err)
						}
						q.Header.Set("Authorization", "Bearer acme-key")
						q.Header.Set("Content-Type", "application/json")
						res, err := client.Do(q)
						if err != nil {
							b.Fatal(err)
						}
						if _, err := io.Copy(io.Discard, res.Body); err != nil {
							b.Fatal(err)
						}
						res.Body.Close()
						if res.StatusCode != http.StatusOK {
							b.Fatalf("status %d", res.StatusCode)
						}
					}
				})
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// cpuTime is what this process has used of the processors, in ns: unlike the time on the wall it
// does not count what else runs on the machine.
func cpuTime(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
