package rehearsal

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/failover/drill"
)

// TestABrowserHasNothingToComplainOf opens the page in Chromium under its own policy, and as a file.
// REPORT_SHOTS names a folder that keeps the pictures.
func TestABrowserHasNothingToComplainOf(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is missing: run make deps")
	}
	report, _ := drill.Encode(drilled())
	page, err := HTML(report)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" { // a browser asks for an icon by itself
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", Policy())
		if r.URL.RawQuery == "broken" {
			page := bytes.Replace(page, []byte("<main>"), []byte(`<main style="margin:0"><script>console.log(1)</script>`), 1)
			_, _ = w.Write(page)
			return
		}
		_, _ = w.Write(page)
	}))
	defer server.Close()
	shots := os.Getenv("REPORT_SHOTS")
	if shots == "" {
		shots = t.TempDir()
	}
	file := filepath.Join(shots, "report.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url       string
		complains bool
	}{
		"served": {server.URL, false},
		"a file": {"file://" + file, false},
		"broken": {server.URL + "/?broken", true}, // or the test would see nothing
	} {
		shot := filepath.Join(shots, strings.ReplaceAll(name, " ", "-")+".png")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
			"--user-data-dir="+t.TempDir(), "--enable-logging=stderr", "--window-size=1380,3600", "--screenshot="+shot, c.url)
		told, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, told)
		}
		if got := bytes.Contains(told, []byte("CONSOLE")); got != c.complains {
			t.Errorf("%s: the browser complains: %v\n%s", name, got, told)
		}
		if info, err := os.Stat(shot); err != nil || info.Size() < 50_000 {
			t.Errorf("%s: no picture, or an empty one: %v", name, err)
		}
	}
}
