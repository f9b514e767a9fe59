package rest

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func TestConsoleFiles(t *testing.T) {
	d := newDouble(t)
	tests := []struct {
		path, body, kind, cache string
		status                  int
	}{
		{"/", "console", "text/html; charset=utf-8", "no-cache", 200},
		{"/regions/us-east-1", "console", "text/html; charset=utf-8", "no-cache", 200},
		{"/index.html", "console", "text/html; charset=utf-8", "no-cache", 200},
		{"/assets/index-1a2.js", "1", "text/javascript; charset=utf-8", "public, max-age=31536000, immutable", 200},
		{"/favicon.svg", "<svg/>", "image/svg+xml", "no-cache", 200},
		{"/assets/index-old.js", "", "application/problem+json", "no-store", 404},
		{"/nothing.png", "", "application/problem+json", "no-store", 404},
		{"/assets/../../../etc/passwd", "console", "text/html; charset=utf-8", "no-cache", 200},
		{"/v1/nothing", "", "application/problem+json", "no-store", 404},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			d.t = t
			a := d.do("", "GET", tt.path, "")
			if a.status != tt.status || !strings.Contains(string(a.body), tt.body) || a.header.Get("Content-Type") != tt.kind || a.header.Get("Cache-Control") != tt.cache {
				t.Errorf("got %d, %v, %s", a.status, a.header, a.body)
			}
			if a.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Error("content may be sniffed")
			}
			if policy := a.header.Get("Content-Security-Policy"); tt.status == 200 && (!strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe")) {
				t.Errorf("policy %q", policy)
			}
		})
	}
}

func TestLargeFilesOfTheConsoleComeCompressed(t *testing.T) {
	script := strings.Repeat("export const region = 1;\n", 1000)
	d := newDouble(t, func(o *Options) {
		o.Console = fstest.MapFS{"index.html": {Data: []byte("console")}, "assets/a.js": {Data: []byte(script)}}
	})
	for path, encoding := range map[string]string{"/assets/a.js": "gzip", "/": ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "gzip") // so that the client leaves it as it is
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if got := resp.Header.Get("Content-Encoding"); err != nil || got != encoding || !strings.Contains(resp.Header.Get("Vary"), "Accept-Encoding") {
			t.Errorf("%s: encoding %q, %v, %v", path, got, resp.Header, err)
		}
		if encoding == "" {
			continue
		}
		unzipped, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(unzipped); err != nil || string(text) != script || len(raw) > len(script)/10 {
			t.Errorf("%d bytes of %d came, %v", len(raw), len(text), err)
		}
	}
}

func TestWithoutAConsoleThePageSaysHowToBuildIt(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"none":         func(o *Options) { o.Console = nil },
		"a place only": func(o *Options) { o.Console = fstest.MapFS{".keep": {}} },
	} {
		d := newDouble(t, change)
		a := d.do("", "GET", "/", "")
		if a.status != 503 || !strings.Contains(string(a.body), "make build") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		d.do("viewer", "GET", "/v1/status", "").want(200, "")
	}
}

func TestWrongMethodsAndPanics(t *testing.T) {
	d := newDouble(t)
	a := d.do("admin", "POST", "/v1/regions/us", "").want(405, "method_not_allowed")
	if !strings.Contains(a.header.Get("Allow"), "PUT") {
		t.Errorf("Allow %q", a.header.Get("Allow"))
	}
	d.do("admin", "GET", "/v1/nothing", "").want(404, "not_found")
	if a := d.do("admin", "POST", "/v1/nothing", "").want(404, "not_found"); a.header.Get("Allow") != "" {
		t.Errorf("Allow %q of a path that there is not", a.header.Get("Allow"))
	}
	d.server.echo.GET("/panic", func(echo.Context) error { panic("secret detail") })
	if b := d.do("", "GET", "/panic", "").want(500, "internal"); strings.Contains(string(b.body), "secret detail") {
		t.Errorf("%s", b.body)
	}
	d.server.echo.GET("/abort", func(echo.Context) error { panic(http.ErrAbortHandler) })
	resp, err := http.Get(d.url + "/abort")
	if err == nil {
		_ = resp.Body.Close()
		t.Error("an aborted answer looks whole")
	}
}

func TestMetricsCountRoutesNotPaths(t *testing.T) {
	registry := prometheus.NewRegistry()
	d := newDouble(t, func(o *Options) {
		o.Registerer = registry
		o.Metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	})
	for _, name := range []string{"a", "b"} {
		d.do("viewer", "GET", "/v1/regions/"+name, "").want(404, "")
	}
	d.do("viewer", "BREW", "/v1/regions/pot", "")
	d.watch("/v1/watch").expect("1 synced")
	a := d.do("", "GET", "/metrics", "").want(200, "")
	for _, line := range []string{
		`http_server_request_duration_seconds_count{http_request_method="GET",http_response_status_code="404",http_route="/v1/regions/:name"} 2`,
		`anabranch_controlplane_watches 1`,
	} {
		if !strings.Contains(string(a.body), line) {
			t.Errorf("lacks %s:\n%s", line, a.body)
		}
	}
	if strings.Contains(string(a.body), "BREW") || strings.Contains(string(a.body), "/v1/regions/a") {
		t.Errorf("callers make series:\n%s", a.body)
	}
	newDouble(t).do("", "GET", "/metrics", "").want(404, "not_found")
}

func TestOptionsNameWhatIsMissing(t *testing.T) {
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "View") {
		t.Errorf("got %v", err)
	}
	d := newDouble(t)
	o := d.server.o
	o.Signals = nil
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "Signals") {
		t.Errorf("got %v", err)
	}
	o = d.server.o
	o.Heartbeat = -1
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "Heartbeat") {
		t.Errorf("got %v", err)
	}
}
