package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/client/clienttest"
	"anabranch/controlplane/backup"
	"anabranch/controlplane/state"
)

const snapshotPath = "/v1/controlplane/snapshot"

func TestDownloadsAreTheWholeAnswer(t *testing.T) {
	n := clienttest.Start(t)
	c := admin(n)
	c.Servers = append([]string{"http://127.0.0.1:1"}, c.Servers...) // nobody there: the next is tried
	var b bytes.Buffer
	if err := c.Download(t.Context(), snapshotPath, url.Values{"consistency": {"stale"}}, &b); err != nil {
		t.Fatal(err)
	}
	if _, v, err := backup.Read(&b); err != nil || !state.Equal(v, n.View()) {
		t.Errorf("read: %v", err)
	}
}

func TestDownloadsThatAreRefusedSayWhy(t *testing.T) {
	n := clienttest.Start(t)
	c := admin(n)
	c.Token = "operator-token"
	var b bytes.Buffer
	if err := c.Download(t.Context(), snapshotPath, nil, &b); !client.IsStatus(err, http.StatusForbidden) || b.Len() > 0 {
		t.Errorf("%v, %d bytes", err, b.Len())
	}
	c.Servers = []string{"http://127.0.0.1:1"}
	if err := c.Download(t.Context(), snapshotPath, nil, &b); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("nobody there: %v", err)
	}
	c.Servers = nil
	if err := c.Download(t.Context(), snapshotPath, nil, &b); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("no server: %v", err)
	}
}

func TestADownloadThatBreaksIsNoDownload(t *testing.T) {
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		panic(http.ErrAbortHandler)
	}))
	defer cut.Close()
	c := &client.Client{Servers: []string{cut.URL}}
	var b bytes.Buffer
	if err := c.Download(t.Context(), "/v1/x", nil, &b); err == nil || !strings.Contains(err.Error(), cut.URL) {
		t.Errorf("cut off: %v after %d bytes", err, b.Len())
	}
	full := errors.New("disk full")
	whole := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") }))
	defer whole.Close()
	c.Servers = []string{whole.URL}
	if err := c.Download(t.Context(), "/v1/x", nil, failing{full}); !errors.Is(err, full) {
		t.Errorf("nowhere to put it: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := c.Download(ended, "/v1/x", nil, &b); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
