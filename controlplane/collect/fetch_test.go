package collect

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/exposition"
	"anabranch/controlplane/signal"
)

// place serves one way of answering.
func place(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are meant to fail
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func page(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, text) // who asked may be gone
	}
}

// hangs answers nothing, or nothing more, until who asked is gone.
func hangs(began bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if began {
			_, _ = io.WriteString(w, poolPage)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// Every source is as it is, whatever is wrong with the others.
func TestWhatPlacesAnswer(t *testing.T) {
	elsewhere := &atomic.Int64{}
	other := place(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	refused := place(t, status(200))
	refused.Close()
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantsToken := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, poolPage)
	}
	secure := httptest.NewUnstartedServer(page(poolPage))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)

	const (
		quick = "intervalMs: 1000, timeoutMs: 10000" // of what answers at once
		short = "intervalMs: 1000, timeoutMs: 300"
	)
	bearer := ", auth: {file: " + token + "}}"
	with := func(spec, more string) string { return strings.TrimSuffix(spec, "}") + more }
	cases := map[string]struct {
		spec string
		err  string // part of the error; empty: there is none
		kind string // if it answers
	}{
		"pool":        {gateway(place(t, page(poolPage)).URL+"/metrics", quick), "", KindPool},
		"server":      {server(place(t, page(serverPage)).URL, quick), "", KindServer},
		"second-path": {server(place(t, secondPath).URL, quick), "", KindServer},
		"no-metrics": {server(place(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/health" {
				http.NotFound(w, r)
			}
		}).URL, quick), "", KindHealth},
		"garbage":        {server(place(t, garbage).URL, quick), "", KindHealth},
		"slow":           {gateway(place(t, slow).URL+"/metrics", quick), "", KindPool},
		"hanging":        {server(place(t, hangs(false)).URL, short), "no answer within 300ms", ""},
		"hanging-body":   {server(place(t, hangs(true)).URL, short), "no answer within 300ms", ""},
		"failing":        {server(place(t, status(500)).URL, quick), "answered 500", ""},
		"huge":           {server(place(t, huge).URL, quick), exposition.ErrTooLarge.Error(), ""},
		"redirect":       {server(place(t, http.RedirectHandler(other.URL, http.StatusFound).ServeHTTP).URL, quick), "answered 302, and redirects are not followed", ""},
		"refused":        {server(refused.URL, quick), "refused", ""},
		"link-local":     {server("http://169.254.169.254", quick), "clusters have no such address", ""},
		"untrusted":      {server(secure.URL, quick), "certificate is not to be trusted", ""},
		"token":          {with(gateway(place(t, wantsToken).URL, quick), bearer), "", KindPool},
		"no-token":       {server(place(t, wantsToken).URL, quick), "answered 401", ""},
		"missing-secret": {with(server(place(t, wantsToken).URL, quick), ", auth: {file: "+filepath.Join(dir, "gone")+"}}"), "gone", ""},
		"foreign-secret": {with(server(place(t, wantsToken).URL, quick), ", auth: {file: /etc/hostname}}"), "is not below", ""},
	}
	clusters := map[string]string{}
	for name, c := range cases {
		clusters[name] = c.spec
	}
	w := newWorld(t, nil, clusters)
	w.o.Secrets = secretsIn(dir)
	w.run()
	for name, c := range cases {
		endpoint := "a"
		if strings.Contains(c.spec, "type: gateway") {
			endpoint = ""
		}
		s := w.await("polled", name, endpoint, func(s signal.Source) bool { return s.Polls >= 1 })
		switch {
		case c.err == "" && (s.Error != "" || s.Got.IsZero() || s.Kind != c.kind || s.Ready == 0):
			t.Errorf("%s: %+v, want %s without an error", name, s, c.kind)
		case c.err != "" && (!strings.Contains(s.Error, c.err) || !s.Got.IsZero() || s.Failures == 0):
			t.Errorf("%s: %+v, want an error with %q", name, s, c.err)
		}
	}
	if elsewhere.Load() > 0 {
		t.Error("a redirect was followed")
	}
	if strings.Contains(w.logged(), "s3cret") {
		t.Errorf("the log has a secret:\n%s", w.logged())
	}
}

func secondPath(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/prometheus/metrics" {
		_, _ = io.WriteString(w, `[{"iter": 3}]`)
		return
	}
	_, _ = io.WriteString(w, "trtllm_num_requests_waiting 3\ntrtllm_num_requests_running 5\n")
}

func garbage(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write(bytes.Repeat([]byte{0, 0xff, '\n', '{', '"'}, 10_000))
}

// slow takes its time, but less than a poll has.
func slow(w http.ResponseWriter, _ *http.Request) {
	for line := range strings.Lines(poolPage) {
		_, _ = io.WriteString(w, line)
		_ = http.NewResponseController(w).Flush()
		<-time.After(5 * time.Millisecond)
	}
}

func huge(w http.ResponseWriter, _ *http.Request) {
	line := []byte(strings.Repeat("x", 1000) + " 1\n")
	for range exposition.MaxBytes/len(line) + 2 {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

// What the page of a gateway's endpoint picker can't tell the gateway itself does: whether it is there.
func TestAGatewayIsAskedItselfWhenItsMetricsAreAway(t *testing.T) {
	var alive atomic.Bool
	alive.Store(true)
	front := place(t, func(w http.ResponseWriter, _ *http.Request) {
		if !alive.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	w := newWorld(t, nil, map[string]string{"eu-a": fmt.Sprintf(
		"{region: eu, type: gateway, models: [m], url: %q, metricsURL: %q, collect: {mode: always, intervalMs: 1000}}", front.URL, place(t, status(500)).URL)})
	w.run()
	s := w.await("known to answer", "eu-a", "", func(s signal.Source) bool { return !s.Got.IsZero() })
	if s.Scraped || s.Ready != 1 || s.Failures != 0 || s.Error != "answered 500" || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
	alive.Store(false)
	w.await("silent", "eu-a", "", func(s signal.Source) bool { return s.Failures >= 1 && s.Error == "answered 500" })
}

func TestASourceWithoutTheFolderOfSecretsSaysSo(t *testing.T) {
	asked := &atomic.Int64{}
	at := place(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	w := newWorld(t, nil, map[string]string{"eu-a": strings.TrimSuffix(server(at.URL, ""), "}") + ", auth: {env: HOME}}"})
	w.run()
	s := w.await("failing", "eu-a", "a", func(s signal.Source) bool { return s.Failures > 0 })
	if !strings.Contains(s.Error, "--secrets-dir") || asked.Load() > 0 {
		t.Errorf("%+v, asked %d times", s, asked.Load())
	}
}

func TestAddressesThatNoClusterHas(t *testing.T) {
	for address, want := range map[string]bool{
		"10.0.0.7:9090": true, "127.0.0.1:8000": true, "[::1]:80": true, "[2001:db8::1]:80": true, "8.8.8.8:443": true,
		"169.254.169.254:80": false, "[fe80::1%eth0]:80": false, "[::ffff:169.254.169.254]:80": false, "[fd00:ec2::254]:80": false,
		"224.0.0.1:80": false, "[ff02::1]:80": false, "0.0.0.0:80": false, "[::]:80": false, "255.255.255.255:80": false, "nonsense": false,
	} {
		if err := Allowed("tcp", address, nil); (err == nil) != want {
			t.Errorf("%s: %v, allowed %v", address, err, want)
		}
	}
}

func TestErrorsAreShortAndPlain(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.New("refused"), "refused"},
		{errors.New("bad\x00 \xff\nline"), "bad  ? line"},
		{fmt.Errorf("read: %w", context.DeadlineExceeded), "no answer within 2s"},
		{&tls.CertificateVerificationError{Err: errors.New("unknown authority")}, "its certificate is not to be trusted: unknown authority"},
		{errors.New(strings.Repeat("x", 1000)), strings.Repeat("x", maxError) + "…"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route")}, "dial tcp: no route"},
	} {
		if got := describe(tt.err, 2*time.Second); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	for err, want := range map[error]string{
		nil: "ok", context.DeadlineExceeded: "timeout", errNoPage: "no_page", exposition.ErrTooLarge: "too_large", errNoSecrets: "error",
	} {
		if got := result(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}
