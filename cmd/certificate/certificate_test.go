package certificate

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/api/identity"
	"anabranch/cmd/anabranch/pki"
)

// world has one party's files, a keeper of them and what it says, all at the time of a bubble.
type world struct {
	t         *testing.T
	authority *pki.Authority
	files     identity.Files
	keeper    *Keeper
	log       pages
}

// pages are what is written to a log until somebody takes it.
type pages struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (p *pages) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *pages) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.text.Reset()
	return p.text.String()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, files: identity.Files{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), CA: filepath.Join(dir, "ca")}}
	w.newAuthority()
	w.certify()
	w.keeper = New(slog.New(slog.NewJSONHandler(&w.log, nil)))
	if _, err := w.keeper.Open("tls", w.files); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) newAuthority() {
	w.t.Helper()
	var err error
	if w.authority, err = pki.NewAuthority(time.Now()); err != nil {
		w.t.Fatal(err)
	}
	w.put(w.files.CA, w.authority.Pair().Cert)
}

func (w *world) put(path string, text []byte) {
	w.t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// certify gives a certificate that lasts for pki.LeafLife.
func (w *world) certify() {
	w.t.Helper()
	pair, err := w.authority.Node("n1", time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(w.files.Cert, pair.Cert)
	w.put(w.files.Key, pair.Key)
}

// run runs the keeper in the bubble until the test is over.
func (w *world) run() {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.keeper.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	synctest.Wait()
}

// pass lets time pass, and gives what was said meanwhile: level, message and use, a line each.
func (w *world) pass(d time.Duration) []string {
	w.t.Helper()
	<-time.After(d) // of the bubble
	synctest.Wait()
	var out []string
	for line := range strings.Lines(w.log.take()) {
		var r struct{ Level, Msg, Use, Error string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			w.t.Fatal(err)
		}
		if strings.Contains(line, "PRIVATE") {
			w.t.Errorf("a key stands in the log: %s", line)
		}
		out = append(out, strings.Join([]string{r.Level, r.Msg, r.Use}, " / "))
	}
	return out
}

// says fails unless what was said is want.
func (w *world) says(got []string, want ...string) {
	w.t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		w.t.Errorf("said\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const (
	readAgain  = "INFO / certificate files read again / tls"
	notFit     = "ERROR / new certificate files are not fit, those read before stay in force / tls"
	asTheyWere = "INFO / certificate files are as they were / tls"
	endsSoon   = "WARN / certificate ends soon / tls"
	hasEnded   = "ERROR / certificate has ended / tls"
)

func TestNewFilesAreTakenWithinSecondsAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run()
		w.says(w.pass(time.Minute))
		w.certify()
		w.says(w.pass(2*time.Second), readAgain)
		w.says(w.pass(time.Minute))
		w.metric(t, `
			# HELP anabranch_tls_reloads_total Changes of the files of certificates, by the first word of their flags and by what became of them: renewed or refused.
			# TYPE anabranch_tls_reloads_total counter
			anabranch_tls_reloads_total{outcome="refused",use="tls"} 0
			anabranch_tls_reloads_total{outcome="renewed",use="tls"} 1
		`, "anabranch_tls_reloads_total")
	})
}

func TestWhatIsNotFitIsToldOnceAndShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run()
		good, err := os.ReadFile(w.files.Key)
		if err != nil {
			t.Fatal(err)
		}
		w.put(w.files.Key, []byte("half"))
		w.says(w.pass(time.Minute), notFit)
		w.refused(1)
		w.put(w.files.Key, good)
		w.says(w.pass(time.Minute), asTheyWere)
		w.refused(0)
		w.put(w.files.CA, nil)
		w.says(w.pass(time.Minute), notFit)
		w.put(w.files.CA, []byte("something else that is wrong"))
		w.says(w.pass(time.Minute))
		w.put(w.files.Key, nil)
		w.says(w.pass(time.Minute), notFit)
		w.newAuthority()
		w.certify()
		w.says(w.pass(time.Minute), readAgain)
		w.refused(0)
		if got := testutil.ToFloat64(w.keeper.reloads.WithLabelValues("tls", "refused")); got != 3 {
			t.Errorf("%v refused, want 3", got)
		}
	})
}

func TestWhatEndsSoonIsToldAtTheStartAndOnceADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.keeper.every = time.Minute // there are days to pass
		w.pass(pki.LeafLife - Soon - time.Hour)
		w.run()
		w.says(w.pass(30 * time.Minute))
		w.says(w.pass(time.Hour), endsSoon)
		w.says(w.pass(23 * time.Hour))
		w.says(w.pass(24*time.Hour), endsSoon)
		w.says(w.pass(5*24*time.Hour), endsSoon, endsSoon, endsSoon, endsSoon, endsSoon)
		w.says(w.pass(24*time.Hour), endsSoon, hasEnded)
		w.certify()
		w.says(w.pass(24*time.Hour), readAgain)
	})
}

func TestAnAuthorityThatEndsIsToldToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pass(pki.AuthorityLife - 24*time.Hour - time.Minute)
		w.certify()
		w.keeper.Look()
		w.keeper.Look()
		w.says(w.pass(0), hasEnded, endsSoon+"-ca", readAgain)
	})
}

func TestWhenWhatIsInForceEndsIsAMetric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.keeper.Open("http", identity.Files{Cert: w.files.Cert, Key: w.files.Key}); err != nil {
			t.Fatal(err)
		}
		// A bubble begins at midnight UTC 2000-01-01, 946684800.
		w.metric(t, `
			# HELP anabranch_tls_certificate_expiry_timestamp_seconds When the certificate in force ends, by the first word of the flag that names its file; -ca: the authority in the file that ends first.
			# TYPE anabranch_tls_certificate_expiry_timestamp_seconds gauge
			anabranch_tls_certificate_expiry_timestamp_seconds{use="http"} 9.544608e+08
			anabranch_tls_certificate_expiry_timestamp_seconds{use="tls"} 9.544608e+08
			anabranch_tls_certificate_expiry_timestamp_seconds{use="tls-ca"} 1.1043648e+09
		`, "anabranch_tls_certificate_expiry_timestamp_seconds")
	})
}

func TestFilesThatCanNotBeReadAtTheStartAreNamedByTheirFlag(t *testing.T) {
	_, err := New(nil).Open("http", identity.Files{Cert: filepath.Join(t.TempDir(), "none"), Key: "none"})
	if err == nil || !strings.HasPrefix(err.Error(), "--http-cert: ") {
		t.Errorf("%v", err)
	}
}

func (w *world) metric(t *testing.T, want string, name string) {
	t.Helper()
	if err := testutil.CollectAndCompare(w.keeper, strings.NewReader(want), name); err != nil {
		t.Error(err)
	}
}

func (w *world) refused(want float64) {
	w.t.Helper()
	w.metric(w.t, strings.ReplaceAll(`
		# HELP anabranch_tls_files_refused 1 while the files of a certificate are not fit to take the place of what was read before.
		# TYPE anabranch_tls_files_refused gauge
		anabranch_tls_files_refused{use="tls"} N
	`, "N", map[float64]string{0: "0", 1: "1"}[want]), "anabranch_tls_files_refused")
}
